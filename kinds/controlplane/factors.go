package controlplane

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Names of the control plane's factors.
const (
	// Population.
	FactorProxies               = "proxies"
	FactorGateways              = "gateways"
	FactorZtunnels              = "ztunnels"
	FactorRealPods              = "real_pods"
	FactorServices              = "services"
	FactorEndpoints             = "endpoints"
	FactorNamespaces            = "namespaces"
	FactorServiceEntries        = "service_entries"
	FactorVirtualServices       = "virtual_services"
	FactorDestinationRules      = "destination_rules"
	FactorGatewayResources      = "gateway_resources"
	FactorAuthorizationPolicies = "authorization_policies"
	FactorEndpointSlices        = "endpoint_slices"
	FactorSliceNamespaces       = "slice_namespaces"
	// Simulated sidecars.
	FactorXDS        = "xds"
	FactorClients    = "clients"
	FactorSimulators = "simulators"
	// Changes.
	FactorChange        = "change"
	FactorChangeRate    = "change_rate"
	FactorChangeArrival = "change_arrival"
	// Levers.
	FactorSidecarScope       = "sidecar_scope"
	FactorSidecarHosts       = "sidecar_hosts"
	FactorOutboundPolicy     = "outbound_policy"
	FactorExportTo           = "export_to"
	FactorDiscoverySelectors = "discovery_selectors"
	FactorDNSCapture         = "dns_capture"
	FactorHBONE              = "hbone"
	FactorDebounceMax        = "debounce_max"
	FactorEDSDebounce        = "eds_debounce"
	FactorPushThrottle       = "push_throttle"
	FactorRequestLimit       = "request_limit"
	FactorIstiodReplicas     = "istiod_replicas"
	FactorConnectionAge      = "connection_age"
	FactorIstiodCPU          = "istiod_cpu"
	FactorIstiodMemory       = "istiod_memory"
	FactorIstiodCPURequest   = "istiod_cpu_request"
	FactorIstiodMemRequest   = "istiod_memory_request"
	FactorDelta              = "delta"
	FactorXDSCache           = "xds_cache"
	FactorIstiodEnv          = "istiod_env"
	FactorIstiod             = "istiod"
)

// Levels of the control plane's factors that the code compares with.
const (
	XDSDelta = "delta"
	XDSSotW  = "sotw"

	ClientsGood           = "good"
	ClientsSlowReader     = "slow-reader"
	ClientsNeverAcks      = "never-acks"
	ClientsRejects        = "rejects"
	ClientsReconnectStorm = "reconnect-storm"

	ChangeServiceGatewayVirtualService = "service+gateway+virtualservice"
	ChangeService                      = "service"
	ChangeVirtualService               = "virtualservice"
	ChangeDestinationRule              = "destinationrule"
	ChangeGateway                      = "gateway"
	ChangeServiceEntry                 = "serviceentry"
	ChangeSidecar                      = "sidecar"
	ChangeAuthorizationPolicy          = "authorizationpolicy"
	ChangeTelemetry                    = "telemetry"
	ChangeEndpointsScale               = "endpoints-scale"
	ChangeEndpointsReplace             = "endpoints-replace"
	ChangeEndpointsFlap                = "endpoints-flap"
	ChangeRollingRestart               = "rolling-restart"
	ChangeNamespaceLabels              = "namespace-labels"
	ChangePodLabels                    = "pod-labels"
	ChangeGatewayRoute                 = "gateway-route"
	ChangeHTTPRoute                    = "httproute"
	ChangeNoOp                         = "no-op"
	ChangeMixed                        = "mixed"
	ChangeTrace                        = "trace" // as in control.trace

	SidecarScopeNone      = "none"
	SidecarScopeMesh      = "mesh"
	SidecarScopeNamespace = "namespace"
	SidecarScopeWorkload  = "workload"

	OutboundAllowAny     = "ALLOW_ANY"
	OutboundRegistryOnly = "REGISTRY_ONLY"
)

// Scopes of the control plane's factors.
const (
	ScopePopulation study.Scope = "population" // objects in the cluster and simulated proxies
	ScopeClients    study.Scope = "clients"    // how simulated proxies behave
	ScopeChanges    study.Scope = "changes"    // what happens in the window
)

const maxObjects = 100_000

// MaxSimulators limits the number of pods for a trial's simulated proxies.
const MaxSimulators = 100

// count returns a factor that is a number of things.
func count(name string, scope study.Scope, def, unit, doc string, low int64, examples ...string) study.Factor {
	return study.Factor{Name: name, Scope: scope, Unit: unit, Default: def, Doc: doc, Numeric: true,
		Pattern: `^[0-9]+$`, Examples: examples, Parse: study.IntegerLevel(low, maxObjects), Low: low, Integer: true}
}

// people returns a factor that is a number of things in a population, with their noun.
func people(name, def, unit, doc string, low int64, label func(string) string, examples ...string) study.Factor {
	return count(name, ScopePopulation, def, unit, doc, low, examples...).Labelled(label)
}

// factors is the table of the control plane's factors, in report order.
var factors = slices.Concat(populationFactors, changeFactors, leverFactors)

var populationFactors = []study.Factor{
	people(FactorProxies, "50", "sidecars", "Simulated sidecars connected to istiod, beside gateways.", 0, study.Counts("sidecar"), "50", "2000").Phrased(study.Grouped(study.Says("with %s sidecars"))),
	people(FactorGateways, "0", "gateways", "Simulated gateways connected to istiod (node type router).", 0, study.Counts("gateway"), "0", "2"),
	people(FactorZtunnels, "0", "ztunnels", "Simulated ztunnels connected to istiod, which must run in ambient mode. They use delta xDS and hold the whole mesh.", 0, study.Counts("ztunnel"), "0", "3").OmittedAtDefault(),
	people(FactorRealPods, "0", "pods", "Real pods with real sidecars, beside the simulated ones.", 0, study.Counts("real pod"), "0", "2"),
	people(FactorServices, "100", "services", "Services of the simulated pods.", 0, study.Counts("service"), "100", "1000").Phrased(study.Grouped(study.Says("with %s services"))),
	people(FactorEndpoints, "1", "endpoints", "Simulated pods behind each Service.", 0, endpointsLabel, "1", "10").IdleWhere(study.IdleAt(FactorServices, "0")),
	people(FactorNamespaces, "1", "namespaces", "Namespaces over which proxies and Services are spread evenly.", 1, study.Counts("namespace"), "1", "10"),
	people(FactorServiceEntries, "0", "objects", "Unused ServiceEntries.", 0, study.Says("%s ServiceEntries"), "0", "1000"),
	people(FactorVirtualServices, "0", "objects", "Unused VirtualServices.", 0, study.Counts("VirtualService"), "0", "200"),
	people(FactorDestinationRules, "0", "objects", "Unused DestinationRules.", 0, study.Counts("DestinationRule"), "0", "200"),
	people(FactorGatewayResources, "0", "objects", "Unused Gateway resources.", 0, study.Counts("Gateway"), "0", "200"),
	people(FactorAuthorizationPolicies, "0", "objects", "Unused AuthorizationPolicies.", 0, study.Says("%s AuthorizationPolicies"), "0", "200"),
	people(FactorEndpointSlices, "0", "slices", "Unused EndpointSlices: plain objects with one address and no pod, each of its own headless Service, in separate namespaces (slice_namespaces).", 0, study.Says("%s EndpointSlices"), "0", "30000"),
	people(FactorSliceNamespaces, "1", "namespaces", "Namespaces over which endpoint_slices are spread evenly, at most one per slice: mm-slices, mm-slices-1 and so on. For each Service istiod scans all EndpointSlices of its namespace.", 1, study.Says("slices in %s namespaces"), "1", "100").IdleWhere(study.IdleAt(FactorEndpointSlices, "0")),

	study.Choice(FactorXDS, ScopeClients, XDSDelta,
		"xDS variant of the simulated proxies: delta or state of the world.",
		XDSDelta, XDSSotW).
		Labelled(study.Says("delta xDS", XDSSotW, "state of the world")).IdleWhere(nobodyConnected),
	study.Choice(FactorClients, ScopeClients, ClientsGood,
		"How simulated proxies behave: well, or a share of them (control.bad_share) reads slowly, never acknowledges, rejects, or reconnects constantly.",
		ClientsGood, ClientsSlowReader, ClientsNeverAcks, ClientsRejects, ClientsReconnectStorm).
		Labelled(study.Says("clients %s")).IdleWhere(nobodyConnected),
	study.Factor{
		Name: FactorSimulators, Scope: ScopeClients, Unit: "simulators", Default: "1", Numeric: true, Implied: true,
		Doc:      "Pods that share the simulated sidecars, gateways and ztunnels among them. They measure as one.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    study.IntegerLevel(1, MaxSimulators), Integer: true, Low: 1,
	}.Labelled(study.Counts("simulator")).Phrased(study.After("with", study.Counts("simulator"))),
}

var changeFactors = []study.Factor{
	study.Choice(FactorChange, ScopeChanges, ChangeServiceGatewayVirtualService,
		"Kind of change. The first creates a Service, a Gateway and a VirtualService at once; gateway-route (a VirtualService) and httproute (Gateway API) add a route to the real gateway of control.gateway; no-op changes metadata that no proxy needs; mixed alternates; trace replays control.trace.",
		ChangeServiceGatewayVirtualService, ChangeService, ChangeVirtualService, ChangeDestinationRule, ChangeGateway,
		ChangeServiceEntry, ChangeSidecar, ChangeAuthorizationPolicy, ChangeTelemetry, ChangeEndpointsScale,
		ChangeEndpointsReplace, ChangeEndpointsFlap, ChangeRollingRestart, ChangeNamespaceLabels, ChangePodLabels,
		ChangeGatewayRoute, ChangeHTTPRoute, ChangeNoOp, ChangeMixed, ChangeTrace),
	study.Factor{
		Name: FactorChangeRate, Scope: ScopeChanges, Unit: "changes/s", Default: "0.4", Numeric: true,
		Doc:      "Changes per second: a number; ramp:FROM:TO:TIME, linear from one rate to another; or steps:RATE:TIME,RATE:TIME, in sequence. The last rate stays.",
		Pattern:  changeRatePattern,
		Examples: []string{"0.4", "10", "ramp:1:20:30s", "steps:1:10s,8:5s,1:10s"},
		Parse:    changeRateLevel, Plain: &study.PlainNumber{Max: maxChangeRate},
	}.Labelled(changeRateLabel).Phrased(study.Says("at %s changes per second")).IdleWhere(study.IdleAt(FactorChange, ChangeTrace)),
	study.Text(FactorChangeArrival, ScopeChanges, study.ArrivalUniform,
		"Distribution of changes over time: evenly spaced (uniform), independent (poisson), all at once (burst), or N at a time (burst:N, at change_rate on average).",
		burstPattern, arrivalLevel, study.ArrivalUniform, study.ArrivalPoisson, study.ArrivalBurst, "burst:10").
		Labelled(changeArrivalLabel).IdleWhere(study.IdleAt(FactorChange, ChangeTrace)),
	disruptionFactor,
}

func nobodyConnected(cell record.Cell) bool {
	none := func(factor string) bool { return cell[factor] == "0" || cell[factor] == "" }
	return none(FactorProxies) && none(FactorGateways) && none(FactorZtunnels)
}

func endpointsLabel(level string) string { return study.Counts("endpoint")(level) + " per service" }

func changeRateLabel(level string) string {
	if kind, rest, ok := strings.Cut(level, ":"); ok {
		return kind + " " + rest + " changes/s"
	}
	return level + " changes/s"
}

func changeArrivalLabel(level string) string {
	if size, ok := strings.CutPrefix(level, study.ArrivalBurst+":"); ok {
		return "bursts of " + size
	}
	return level
}
