package study

// Names of the control plane's factors.
const (
	// Population.
	FactorProxies               = "proxies"
	FactorGateways              = "gateways"
	FactorRealPods              = "real_pods"
	FactorServices              = "services"
	FactorEndpoints             = "endpoints"
	FactorNamespaces            = "namespaces"
	FactorServiceEntries        = "service_entries"
	FactorVirtualServices       = "virtual_services"
	FactorDestinationRules      = "destination_rules"
	FactorGatewayResources      = "gateway_resources"
	FactorAuthorizationPolicies = "authorization_policies"
	// Simulated sidecars.
	FactorXDS     = "xds"
	FactorClients = "clients"
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
	FactorDebounceAfter      = "debounce_after"
	FactorDebounceMax        = "debounce_max"
	FactorEDSDebounce        = "eds_debounce"
	FactorPushThrottle       = "push_throttle"
	FactorRequestLimit       = "request_limit"
	FactorIstiodReplicas     = "istiod_replicas"
	FactorIstiodCPU          = "istiod_cpu"
	FactorIstiodMemory       = "istiod_memory"
	FactorIstiodCPURequest   = "istiod_cpu_request"
	FactorIstiodMemRequest   = "istiod_memory_request"
	FactorDelta              = "delta"
	FactorXDSCache           = "xds_cache"
	FactorIstiodEnv          = "istiod_env"
	FactorIstiod             = "istiod"
)

// Levels of the control plane's factors that code compares with.
const (
	XDSDelta = "delta"
	XDSSotW  = "sotw"

	ClientsGood           = "good"
	ClientsSlowReader     = "slow-reader"
	ClientsNeverAcks      = "never-acks"
	ClientsRejects        = "rejects"
	ClientsReconnectStorm = "reconnect-storm"
	ClientsStopsReading   = "stops-reading"

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
	ChangeNoOp                         = "no-op"
	ChangeMixed                        = "mixed"
	ChangeTrace                        = "trace" // as control.trace has them

	SidecarScopeNone      = "none"
	SidecarScopeMesh      = "mesh"
	SidecarScopeNamespace = "namespace"
	SidecarScopeWorkload  = "workload"

	OutboundAllowAny     = "ALLOW_ANY"
	OutboundRegistryOnly = "REGISTRY_ONLY"

	// LevelDefault leaves a lever as istiod has it, LevelNone unset.
	LevelDefault = "default"
	LevelNone    = "none"
)

// Scopes of the control plane's factors.
const (
	ScopePopulation Scope = "population"         // objects in the cluster and simulated proxies
	ScopeClients    Scope = "clients"            // how simulated proxies behave
	ScopeChanges    Scope = "changes"            // what happens in the window
	ScopeMesh       Scope = "mesh configuration" // objects and settings that istiod reads while it runs
	ScopeIstiod     Scope = "istiod"             // its Deployment: a restart sets them
)

const maxObjects = 100_000

// count is a factor that counts things.
func count(name string, scope Scope, def, unit, doc string, low int64, examples ...string) Factor {
	return Factor{Name: name, Kind: ControlPlane, Scope: scope, Unit: unit, Default: def, Doc: doc, Numeric: true,
		Pattern: `^[0-9]+$`, Examples: examples, parse: integerLevel(low, maxObjects), low: low, integer: true}
}

func controlChoice(name string, scope Scope, def, doc string, levels ...string) Factor {
	f := choice(name, scope, def, doc, levels...)
	f.Kind = ControlPlane
	return f
}

func controlText(name string, scope Scope, def, doc, pattern string, parse func(string) (string, *complaint), examples ...string) Factor {
	return Factor{Name: name, Kind: ControlPlane, Scope: scope, Default: def, Doc: doc, Pattern: pattern, Examples: examples, parse: parse}
}

func numeric(f Factor, unit string) Factor {
	f.Numeric, f.Unit = true, unit
	return f
}

var controlFactors = []Factor{
	count(FactorProxies, ScopePopulation, "50", "sidecars", "Simulated sidecars connected to istiod, beside gateways.", 0, "50", "2000"),
	count(FactorGateways, ScopePopulation, "0", "gateways", "Simulated gateways connected to istiod (node type router).", 0, "0", "2"),
	count(FactorRealPods, ScopePopulation, "0", "pods", "Real pods with real sidecars, beside the simulated ones.", 0, "0", "2"),
	count(FactorServices, ScopePopulation, "100", "services", "Services of the simulated pods.", 0, "100", "1000"),
	count(FactorEndpoints, ScopePopulation, "1", "endpoints", "Simulated pods behind each Service.", 0, "1", "10"),
	count(FactorNamespaces, ScopePopulation, "1", "namespaces", "Namespaces that proxies and Services are spread over evenly.", 1, "1", "10"),
	count(FactorServiceEntries, ScopePopulation, "0", "objects", "ServiceEntries that nobody uses.", 0, "0", "1000"),
	count(FactorVirtualServices, ScopePopulation, "0", "objects", "VirtualServices that nobody uses.", 0, "0", "200"),
	count(FactorDestinationRules, ScopePopulation, "0", "objects", "DestinationRules that nobody uses.", 0, "0", "200"),
	count(FactorGatewayResources, ScopePopulation, "0", "objects", "Gateway resources that nobody uses.", 0, "0", "200"),
	count(FactorAuthorizationPolicies, ScopePopulation, "0", "objects", "AuthorizationPolicies that nobody uses.", 0, "0", "200"),

	controlChoice(FactorXDS, ScopeClients, XDSDelta,
		"What the simulated proxies speak: delta xDS or state of the world.",
		XDSDelta, XDSSotW),
	controlChoice(FactorClients, ScopeClients, ClientsGood,
		"How simulated proxies behave: well, or a share of them (control.bad_share) reads slowly, never acknowledges, rejects, connects anew all the time, or reads nothing more once it is synchronized.",
		ClientsGood, ClientsSlowReader, ClientsNeverAcks, ClientsRejects, ClientsReconnectStorm, ClientsStopsReading),

	controlChoice(FactorChange, ScopeChanges, ChangeServiceGatewayVirtualService,
		"What each change is. The first creates a Service, a Gateway and a VirtualService at once; no-op changes metadata that no proxy needs; mixed takes turns; trace repeats control.trace.",
		ChangeServiceGatewayVirtualService, ChangeService, ChangeVirtualService, ChangeDestinationRule, ChangeGateway,
		ChangeServiceEntry, ChangeSidecar, ChangeAuthorizationPolicy, ChangeTelemetry, ChangeEndpointsScale,
		ChangeEndpointsReplace, ChangeEndpointsFlap, ChangeRollingRestart, ChangeNamespaceLabels, ChangePodLabels,
		ChangeNoOp, ChangeMixed, ChangeTrace),
	{
		Name: FactorChangeRate, Kind: ControlPlane, Scope: ScopeChanges, Unit: "changes/s", Default: "0.4", Numeric: true,
		Doc:      "Changes a second: a number; ramp:FROM:TO:TIME, evenly from one rate to another; or steps:RATE:TIME,RATE:TIME, one after the other. The last rate stays.",
		Pattern:  changeRatePattern,
		Examples: []string{"0.4", "10", "ramp:1:20:30s", "steps:1:10s,8:5s,1:10s"},
		parse:    changeRateLevel,
	},
	controlText(FactorChangeArrival, ScopeChanges, ArrivalUniform,
		"How changes are spread over time: evenly (uniform), as from many independent people (poisson), all at once (burst), or N at once every so often (burst:N, at change_rate on the whole).",
		burstPattern, arrivalLevel, ArrivalUniform, ArrivalPoisson, ArrivalBurst, "burst:10"),

	controlChoice(FactorSidecarScope, ScopeMesh, SidecarScopeNone,
		"Where a Sidecar resource stands: none, one for the mesh in its root namespace, one in control.scope_namespace, or one for a workload there.",
		SidecarScopeNone, SidecarScopeMesh, SidecarScopeNamespace, SidecarScopeWorkload),
	controlText(FactorSidecarHosts, ScopeMesh, "./*,istio-system/*",
		"Egress hosts of the Sidecar resource, as namespace/name, with a comma between them.",
		`^[^/, ]+/[^/, ]+(,[^/, ]+/[^/, ]+)*$`, hostsLevel, "./*,istio-system/*", "istio-system/*,prometheus/*"),
	controlChoice(FactorOutboundPolicy, ScopeMesh, OutboundAllowAny,
		"outboundTrafficPolicy: whether proxies pass on what they have no configuration for; of the Sidecar resource, or of the mesh where there is none.",
		OutboundAllowAny, OutboundRegistryOnly),
	controlChoice(FactorExportTo, ScopeMesh, "*",
		"Where Services, VirtualServices and DestinationRules are visible that do not say so: everywhere (*), in their own namespace (.), nowhere (~).",
		"*", ".", "~"),
	controlText(FactorDiscoverySelectors, ScopeMesh, LevelNone,
		"Namespaces that istiod watches, by a label they have (key=value) or do not have (key!=value); none for all.",
		`^(none|[^=! ]+!?=[^=! ]*)$`, selectorLevel, "none", "istio-discovery=enabled", "team!=other"),
	controlChoice(FactorDNSCapture, ScopeMesh, "false",
		"Whether sidecars answer DNS themselves, for which istiod sends them a table of names.", "true", "false"),

	numeric(controlText(FactorDebounceAfter, ScopeIstiod, "100ms",
		"PILOT_DEBOUNCE_AFTER: how long istiod waits for more changes after one.", durationPattern, debounceLevel, "100ms", "2500ms"), "s"),
	numeric(controlText(FactorDebounceMax, ScopeIstiod, "10s",
		"PILOT_DEBOUNCE_MAX: how long istiod waits at most while more changes come. Proved by the environment of the running istiod alone.", durationPattern, debounceLevel, "10s"), "s"),
	controlChoice(FactorEDSDebounce, ScopeIstiod, "true",
		"PILOT_ENABLE_EDS_DEBOUNCE: whether changes of endpoints are debounced too.", "true", "false"),
	numeric(controlText(FactorPushThrottle, ScopeIstiod, LevelDefault,
		"PILOT_PUSH_THROTTLE: proxies pushed to at a time. Proved by the environment of the running istiod alone, which shows it nowhere.", `^(default|[1-9][0-9]*)$`, orInteger(LevelDefault, 1, 10_000), "default", "100"), ""),
	numeric(controlText(FactorRequestLimit, ScopeIstiod, LevelDefault,
		"PILOT_MAX_REQUESTS_PER_SECOND: new streams and requests istiod takes a second. Proved by the environment of the running istiod alone, which shows it nowhere.", `^(default|[0-9]+(\.[0-9]+)?)$`, orNumber(LevelDefault, 1_000_000), "default", "100"), "requests/s"),
	count(FactorIstiodReplicas, ScopeIstiod, "1", "replicas", "Replicas of istiod.", 1, "1", "2"),
	numeric(controlText(FactorIstiodCPU, ScopeIstiod, LevelNone,
		"CPU limit of istiod as Kubernetes writes it, or none.", `^(none|[0-9]+(\.[0-9]+)?m?)$`, cpuLevel, "none", "1", "500m"), "CPUs"),
	numeric(controlText(FactorIstiodMemory, ScopeIstiod, LevelNone,
		"Memory limit of istiod as Kubernetes writes it, or none.", `^(none|[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|k|M|G)?)$`, memoryLevel, "none", "1536Mi", "2Gi"), "bytes"),
	numeric(controlText(FactorIstiodCPURequest, ScopeIstiod, LevelDefault,
		"CPU request of istiod as Kubernetes writes it; default as the mesh was installed. It decides where istiod fits, and its share where CPU is short.",
		`^(default|[0-9]+(\.[0-9]+)?m?)$`, orDefault(cpuLevel), "default", "1", "500m"), "CPUs"),
	numeric(controlText(FactorIstiodMemRequest, ScopeIstiod, LevelDefault,
		"Memory request of istiod as Kubernetes writes it; default as the mesh was installed.",
		`^(default|[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|k|M|G)?)$`, orDefault(memoryLevel), "default", "1Gi"), "bytes"),
	controlChoice(FactorDelta, ScopeMesh, "true",
		"ISTIO_DELTA_XDS: whether real sidecars are told to speak delta xDS; simulated ones do what factor xds says.", "true", "false"),
	controlChoice(FactorXDSCache, ScopeIstiod, "true",
		"PILOT_ENABLE_XDS_CACHE: whether istiod keeps generated resources.", "true", "false"),
	controlText(FactorIstiodEnv, ScopeIstiod, LevelNone,
		"More of istiod's environment, NAME=VALUE with semicolons between them; a variable that is a lever goes by the lever's name.",
		`^(none|[A-Za-z_][A-Za-z0-9_]*=[^;]*(;[A-Za-z_][A-Za-z0-9_]*=[^;]*)*)$`, envLevel, "none", "PILOT_ENABLE_CDS_CACHE=false"),
	controlText(FactorIstiod, ScopeIstiod, LevelDefault,
		"Image of istiod; default is the one the mesh was installed with.", `^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`, imageLevel, "default", "docker.io/istio/pilot:1.30.0"),
}
