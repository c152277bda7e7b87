package istio

import (
	"slices"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// API group suffixes of resources, and verbs that are used together.
const (
	networking   = ".networking.istio.io"
	security     = ".security.istio.io"
	telemetry    = ".telemetry.istio.io"
	extensions   = ".extensions.istio.io"
	gatewayGroup = ".gateway.networking.k8s.io"
	autoscaler   = "horizontalpodautoscalers.autoscaling"
	applied      = "patch create" // server-side apply
)

// onNodes has the rights for an ambient mesh's parts on nodes. Its node agent may not be in
// istiod's namespace: see readAgent.
var onNodes = []rights.Row{
	{Verbs: "list", Name: "daemonsets.apps", Where: rights.InMesh, Why: "whether ztunnel and Istio's node agent are ready", When: rights.Cell(study.Ambient)},
	{Verbs: "get", Name: "daemonsets.apps", Where: rights.InSystem, Why: "whether Istio's node agent, if any, is ready", When: rights.Cell(study.Ambient),
		Without: "an ambient mesh with its node agent in kube-system, as on GKE, is rejected"},
	{Verbs: "list", Name: "pods", Where: rights.InSystem, Why: "the pods of Istio's node agent, if any, whose CPU is measured too", When: rights.Cell(study.Ambient),
		Without: "a node agent in kube-system is not measured"},
	{Verbs: "get", Name: "nodes", Where: rights.Everywhere, Why: "whether a node without ztunnel is ready", When: rights.Cell(study.Ambient),
		Without: "ambient studies are rejected while a node is not ready"},
	{Verbs: rights.Open, Name: rights.PortForward, Where: rights.InMesh, Why: "ztunnel's metrics", When: rights.Cell(study.Ambient)},
	// See site.Unready.
	{Verbs: "get", Name: "gateways" + gatewayGroup, Where: rights.InRun, Why: "why there is no waypoint", When: rights.Cell(study.Waypoint),
		Without: "if a waypoint does not start, the run does not show the status of its Gateway"},
}

// istiodPages has the rights to read signals.
var istiodPages = []rights.Row{
	{Verbs: "list", Name: "pods", Where: rights.InMesh, Why: "istiod's pods"},
	{Verbs: rights.Open, Name: rights.PortForward, Where: rights.InMesh, Why: "istiod's metrics"},
	{Verbs: "get", Name: "nodes/proxy", Where: rights.Everywhere, Why: "the CPU of istiod's container, from its kubelet; a powerful right, which includes the kubelet's exec", Without: "the saturation of istiod's CPU is unknown"},
}

// advising are the rows by which limits are judged; an assessment takes all of these.
var (
	advising = slices.Concat(istiodPages, []rights.Row{
		{Verbs: "list get", Name: "deployments.apps", Where: rights.InMesh, Why: "istiod's settings"},
		{Verbs: "list", Name: "sidecars" + networking, Where: rights.InMesh, Why: "whether Sidecars limit what proxies receive"},
		{Verbs: "list watch", Name: "virtualservices" + networking + " destinationrules" + networking + " serviceentries" + networking + " gateways" + networking + " sidecars" + networking + " envoyfilters" + networking,
			Where: rights.Everywhere, Why: "who writes objects without changing them", Without: "the cause of pushes that change nothing is unknown"},
	})
	scoping = []rights.Row{
		{Verbs: "list", Name: "envoyfilters" + networking, Where: rights.Everywhere, Why: "configuration added by EnvoyFilters", Without: "configuration added by EnvoyFilters is unattributed"},
	}
	generating = []rights.Row{
		{Verbs: "get", Name: "configmaps", Where: rights.InMesh, Why: "the mesh configuration", Without: "Istio's defaults are assumed for the root namespace and the outbound policy"},
		{Verbs: "list", Name: "serviceentries" + networking + " virtualservices" + networking + " destinationrules" + networking, Where: rights.Everywhere, Why: "hosts, and routes to other hosts", Without: "routes outside the namespaces of their hosts may be missed"},
		{Verbs: "list", Name: "sidecars" + networking, Where: rights.Everywhere, Why: "existing Sidecars", Without: "existing ones cannot be distinguished from new ones"},
		{Verbs: "list", Name: "envoyfilters" + networking + " wasmplugins" + extensions + " trafficextensions" + extensions + " requestauthentications" + security, Where: rights.Everywhere, Why: "hosts that filters and extensions call or fetch keys from", Without: "such hosts may be missed"},
		{Verbs: "list", Name: "httproutes" + gatewayGroup + " grpcroutes" + gatewayGroup + " tcproutes" + gatewayGroup + " tlsroutes" + gatewayGroup, Where: rights.Everywhere, Why: "Gateway API routes to other hosts", Without: "a Service whose requests are routed elsewhere may be missed"},
		{Verbs: "list", Name: "workloadentries" + networking, Where: rights.Everywhere, Why: "workloads without pods", Without: "such workloads are unknown, and get their namespace's Sidecar when they run"},
	}
)

// kitRights has the rights that features need for Istio.
var kitRights = map[string][]rights.Row{
	rights.EveryRun: {
		{Verbs: "get", Name: "configmaps", Where: rights.InMesh, Why: "the mesh configuration"},
		{Verbs: "list", Name: "authorizationpolicies" + security + " requestauthentications" + security + " telemetries" + telemetry + " wasmplugins" + extensions + " trafficextensions" + extensions +
			" destinationrules" + networking + " envoyfilters" + networking + " proxyconfigs" + networking + " sidecars" + networking,
			Where: rights.InMesh, Why: "existing mesh-wide objects, which also apply to a run's sidecars; in the root namespace, if that is another",
			Without: "a mesh-wide policy that denies the study's requests is not reported in advance, and the effect of other mesh-wide objects is not named"},
	},
	rights.DataPlane: slices.Concat(onNodes, []rights.Row{
		{Verbs: applied, Name: "gateways" + gatewayGroup, Where: rights.InRun, Why: "the waypoint, which istiod creates from it", When: rights.Cell(study.Waypoint)},
		{Verbs: applied, Name: "gateways" + networking + " virtualservices" + networking, Where: rights.InRun, Why: "the ingress gateway's listeners and routes", When: rights.Cell(study.Entering)},
		{Verbs: applied, Name: "services deployments.apps", Where: rights.InRun, Why: "the ingress gateway, and the workers behind it", When: rights.Cell(study.Entering)},
		{Verbs: applied, Name: "serviceentries" + networking, Where: rights.InRun, Why: "servers outside the mesh", When: rights.Cell(entered)},
		{Verbs: applied, Name: "gateways" + networking + " virtualservices" + networking + " destinationrules" + networking + " telemetries" + telemetry, Where: rights.InRun, Why: "the egress gateway's listeners, routes and telemetry", When: rights.Cell(study.Leaving)},
		{Verbs: applied, Name: "services deployments.apps", Where: rights.InRun, Why: "the egress gateway", When: rights.Cell(study.Leaving)},
		{Verbs: applied, Name: "peerauthentications" + security, Where: rights.InRun, Why: "mutual TLS of each sidecar", When: sidecars},
		{Verbs: applied, Name: "telemetries" + telemetry, Where: rights.InRun, Why: "telemetry of the ingress gateway", When: rights.Cell(study.Entering)},
		{Verbs: applied, Name: "telemetries" + telemetry, Where: rights.InRun, Why: "telemetry of each sidecar", When: sidecars},
		{Verbs: applied, Name: "envoyfilters" + networking, Where: rights.InRun, Why: "parts of a sidecar that no other object enables", When: byFilter},
		{Verbs: "delete", Name: "envoyfilters" + networking, Where: rights.InRun, Why: "deleting an EnvoyFilter or a Wasm filter of yours that is rejected", When: part(dataplane.PartEnvoyFilter, dataplane.PartWasmFile)},
		{Verbs: applied, Name: "authorizationpolicies" + security, Where: rights.InRun, Why: "parts " + dataplane.PartAuthzAllow + " and " + dataplane.PartAuthzDeny, When: part(dataplane.PartAuthzAllow, dataplane.PartAuthzDeny)},
		{Verbs: applied, Name: "requestauthentications" + security, Where: rights.InRun, Why: "parts " + dataplane.PartJWT + " and " + dataplane.PartJWTToken, When: part(dataplane.PartJWT, dataplane.PartJWTToken)},
		{Verbs: applied, Name: "sidecars" + networking, Where: rights.InRun, Why: "sidecars without redirection", When: rights.Cell(func(c record.Cell) bool { return c[dataplane.FactorInterception] == dataplane.InterceptionNone })},
	}),
	rights.ControlPlane: {
		{Verbs: rights.Open, Name: rights.PortForward, Where: rights.InMesh, Why: "istiod's metrics, profiles and debug pages"},
		{Verbs: "get", Name: "pods/log", Where: rights.InMesh, Why: "the stages of a change"},
		{Verbs: "create", Name: "serviceaccounts/token", Where: rights.Everywhere, Why: "identities of simulated sidecars", When: tokens},
	},
	rights.Levers: {
		{Verbs: "list get", Name: "deployments.apps", Where: rights.InMesh, Why: "istiod's environment, resources and replicas"},
		{Verbs: "update", Name: "deployments.apps", Where: rights.InMesh, Why: "levers of istiod's Deployment", When: sets(func(f study.Factor) bool { return f.Scope == study.ScopeIstiod })},
		{Verbs: "get", Name: "services", Where: rights.InMesh, Why: "istiod's address"},
		{Verbs: "list", Name: "pods", Where: rights.InMesh, Why: "istiod's replicas, and whether each has the lever"},
		{Verbs: "delete", Name: "pods", Where: rights.InMesh, Why: "restarting istiod before each trial", When: ofControlPlane},
		{Verbs: "get", Name: "pods/log", Where: rights.InMesh, Why: "settings that istiod logs when it starts"},
		{Verbs: rights.Open, Name: rights.PortForward, Where: rights.InMesh, Why: "the proof that a lever is active"},
		{Verbs: "get", Name: "leases.coordination.k8s.io", Where: rights.InMesh, Why: "when a fresh istiod becomes leader, which makes it push everything", When: ofControlPlane,
			Without: "a fresh istiod's push on becoming leader may fall into a window, of which the trial warns"},
		{Verbs: "get", Name: "configmaps", Where: rights.InMesh, Why: "the mesh configuration"},
		{Verbs: "update", Name: "configmaps", Where: rights.InMesh, Why: "levers of the mesh configuration", When: sets(inMeshConfig)},
		{Verbs: "list get", Name: autoscaler, Where: rights.InMesh, Why: "istiod's autoscaler, which would change the number of replicas"},
		{Verbs: "update", Name: autoscaler, Where: rights.InMesh, Why: "holding the autoscaler at lever istiod_replicas", When: sets(func(f study.Factor) bool { return f.Name == controlplane.FactorIstiodReplicas })},
		{Verbs: "list", Name: "sidecars" + networking, Where: rights.Everywhere, Why: "Sidecars that would conflict with lever sidecar_scope"},
		{Verbs: "get patch create update delete", Name: "sidecars" + networking, Where: rights.Everywhere, Why: "lever sidecar_scope", When: scoped},
		{Verbs: "get", Name: "namespaces", Where: rights.Everywhere, Why: "whether istiod watches its own namespace, where the mesh-wide Sidecar goes", When: scoped},
	},
	rights.Population: {
		{Verbs: "list", Name: "serviceentries" + networking + " virtualservices" + networking + " destinationrules" + networking +
			" gateways" + networking + " authorizationpolicies" + security, Where: rights.Everywhere, Why: "what exists of the simulated cluster"},
		{Verbs: "get create update delete", Name: "serviceentries" + networking, Where: rights.Everywhere, Why: "unused configuration", When: rights.Counted(controlplane.FactorServiceEntries)},
		{Verbs: "get create update delete", Name: "virtualservices" + networking, Where: rights.Everywhere, Why: "unused configuration", When: rights.Counted(controlplane.FactorVirtualServices)},
		{Verbs: "get create update delete", Name: "destinationrules" + networking, Where: rights.Everywhere, Why: "unused configuration", When: rights.Counted(controlplane.FactorDestinationRules)},
		{Verbs: "get create update delete", Name: "gateways" + networking, Where: rights.Everywhere, Why: "unused configuration", When: rights.Counted(controlplane.FactorGatewayResources)},
		{Verbs: "get create update delete", Name: "authorizationpolicies" + security, Where: rights.Everywhere, Why: "unused configuration", When: rights.Counted(controlplane.FactorAuthorizationPolicies)},
	},
	rights.Changes: {
		{Verbs: rights.Changing, Name: "virtualservices" + networking, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeServiceGatewayVirtualService, controlplane.ChangeVirtualService, controlplane.ChangeNoOp, controlplane.ChangeGatewayRoute)},
		{Verbs: rights.Changing, Name: "gateways" + networking, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeServiceGatewayVirtualService, controlplane.ChangeGateway, controlplane.ChangeGatewayRoute)},
		{Verbs: rights.Changing, Name: "gateways" + gatewayGroup + " httproutes" + gatewayGroup, Where: rights.Everywhere, Why: "routes that change, and the status of the Gateway that they are attached to", When: rights.Both(rights.OfChange(controlplane.ChangeHTTPRoute), rights.Gateway)},
		{Verbs: rights.Changing, Name: "destinationrules" + networking, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeDestinationRule)},
		{Verbs: rights.Changing, Name: "serviceentries" + networking, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeServiceEntry)},
		{Verbs: rights.Changing, Name: "sidecars" + networking, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeSidecar)},
		{Verbs: rights.Changing, Name: "authorizationpolicies" + security, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeAuthorizationPolicy)},
		{Verbs: rights.Changing, Name: "telemetries" + telemetry, Where: rights.Everywhere, Why: "objects that change", When: rights.OfChange(controlplane.ChangeTelemetry)},
	},
	rights.RealPods: {
		{Verbs: applied, Name: "peerauthentications" + security, Where: rights.Everywhere, Why: "mutual TLS of the requests", When: rights.Traffic},
		{Verbs: applied, Name: "telemetries" + telemetry, Where: rights.Everywhere, Why: "what sidecars log", When: rights.Traffic},
		{Verbs: applied, Name: "envoyfilters" + networking, Where: rights.Everywhere, Why: "a log of each attempt", When: rights.Traffic},
	},
	rights.Resilience: slices.Concat(onNodes, []rights.Row{
		{Verbs: "patch create delete", Name: "gateways" + gatewayGroup, Where: rights.InRun, Why: "the waypoint of each trial, which istiod creates from it", When: rights.Cell(study.Waypoint)},
		{Verbs: "patch create delete", Name: "peerauthentications" + security, Where: rights.InRun, Why: "mutual TLS of each sidecar"},
		{Verbs: "patch create delete", Name: "telemetries" + telemetry, Where: rights.InRun, Why: "what sidecars log"},
		{Verbs: "patch create delete", Name: "envoyfilters" + networking, Where: rights.InRun, Why: "a log of each attempt", When: rights.Ledger},
		{Verbs: "patch create delete", Name: "envoyfilters" + networking, Where: rights.InRun, Why: "a filter that asks a service about each request", When: leveled(study.FactorCallout)},
		{Verbs: "patch create delete", Name: "gateways" + networking + " virtualservices" + networking, Where: rights.InRun, Why: "what the gateway listens to and where it sends requests", When: gatewayed},
		{Verbs: "patch create delete", Name: "virtualservices" + networking, Where: rights.InRun, Why: "retries and timeouts", When: leveled(study.FactorRetries, study.FactorRetryOn, study.FactorPerTryTimeout, study.FactorRequestTimeout)},
		{Verbs: "patch create delete", Name: "destinationrules" + networking, Where: rights.InRun, Why: "outlier detection, circuit breakers, load balancing", When: leveled(study.FactorOutlierDetection, study.FactorCircuitBreaker, study.FactorLoadBalancer, study.FactorLocality)},
		{Verbs: "get update", Name: "daemonsets.apps", Where: rights.InMesh, Why: "steps that restart ztunnel, or move it to another revision", When: replaced},
		{Verbs: "delete", Name: "pods", Where: rights.InMesh, Why: "replacing a ztunnel that a step killed, after the trial", When: shared(fault.OfZtunnel, false)},
		{Verbs: "list get patch", Name: "deployments.apps", Where: rights.InRun, Why: "steps that remove or restart the waypoint", When: ofWaypoint},
		{Verbs: "delete", Name: "pods", Where: rights.InRun, Why: "keeping a waypoint away", When: ofWaypoint},
		{Verbs: "get patch", Name: "namespaces", Where: rights.Everywhere, Why: "the label that moves the run's namespace to another revision", When: rights.HasStep[*fault.Move]()},
		{Verbs: "get", Name: "deployments.apps", Where: rights.InMesh, Why: "whether istiod of another revision is available", When: revised},
		{Verbs: rights.Open, Name: rights.PortForward, Where: rights.InMesh, Why: "which proxies are connected to which istiod", When: revised},
	}),
	rights.Signals:      istiodPages,
	rights.AssessConfig: slices.Concat(scoping, generating),
	rights.Assess: slices.Concat(advising, scoping, generating, []rights.Row{
		{Verbs: "list", Name: "gateways" + networking + " workloadgroups" + networking + " proxyconfigs" + networking + " authorizationpolicies" + security + " peerauthentications" + security +
			" telemetries" + telemetry + " gateways" + gatewayGroup, Where: rights.Everywhere, Why: "their number", Without: "their number is unknown"},
	}),
	rights.AssessApply: {
		{Verbs: "get create patch update delete", Name: "sidecars" + networking, Where: rights.Everywhere, Why: "generated Sidecars, and reverting them"},
	},
	rights.PushTest: {
		{Verbs: "patch create delete", Name: "gateways" + networking + " virtualservices" + networking, Where: rights.InNamed, Why: "the test's objects"},
	},
}

// entered: the server of a cell has a ServiceEntry.
func entered(c record.Cell) bool {
	return study.Outside(c) && c[study.FactorDestination] != study.DestinationOutside
}

// gatewayed: the graph of a scenario has a gateway.
func gatewayed(p *study.Plan) bool {
	_, ok := resilience.Of(p.Study).Graph.Gateway()
	return ok
}

// sidecars: sidecars carry requests of a cell.
var sidecars = rights.Cell(func(c record.Cell) bool { return len(study.WayOf(c).At(record.PlaceSidecar)) > 0 })

// part: a cell enables a part of one of these kinds.
func part(kinds ...string) rights.When {
	return hasPart(func(kind string) bool { return slices.Contains(kinds, kind) })
}

func hasPart(is func(kind string) bool) rights.When {
	return rights.Cell(func(c record.Cell) bool {
		parts, _ := dataplane.Parts(c[dataplane.FactorFilters]) // a plan's levels are valid
		return slices.ContainsFunc(parts, func(p dataplane.Part) bool { return is(p.Kind) })
	})
}

// byFilter: a part is implemented by an EnvoyFilter.
var byFilter = hasPart(func(kind string) bool {
	switch kind {
	case dataplane.PartAuthzAllow, dataplane.PartAuthzDeny, dataplane.PartJWT, dataplane.PartJWTToken, dataplane.PartECDSA, dataplane.PartDNSProxy:
		return false
	}
	return true
})

// leveled: a cell sets one of the factors rather than leaving it to Istio.
func leveled(factors ...string) rights.When {
	return rights.Cell(func(c record.Cell) bool {
		return slices.ContainsFunc(factors, func(f string) bool { return level(c, f) != "" })
	})
}

func ofControlPlane(p *study.Plan) bool { return p.Study.Kind == study.ControlPlane }

// tokens: simulated proxies authenticate to istiod.
func tokens(p *study.Plan) bool {
	return controlplane.Of(p.Study) != nil && controlplane.Of(p.Study).Security != controlplane.SecurityPlaintext
}

// scoped: a Sidecar is a lever of a cell.
var scoped = rights.Cell(func(c record.Cell) bool {
	v := c[controlplane.FactorSidecarScope]
	return v != "" && v != controlplane.SidecarScopeNone && v != study.LevelInstalled && v != study.NotApplicable
})

// sets: a cell changes one of the selected levers.
func sets(of func(study.Factor) bool) rights.When {
	return func(p *study.Plan) bool {
		return slices.ContainsFunc(controlplane.Levers(), func(f study.Factor) bool {
			return of(f) && slices.ContainsFunc(p.Cells, func(c record.Cell) bool { return f.Sets(c[f.Name]) })
		})
	}
}

// inMeshConfig: a lever belongs to the mesh configuration, like all that belong neither to
// istiod's Deployment nor to a Sidecar alone. See [ControlPlane.Apply].
func inMeshConfig(f study.Factor) bool {
	return f.Scope != study.ScopeIstiod && f.Name != controlplane.FactorSidecarScope && f.Name != controlplane.FactorSidecarHosts
}

// shared: a step restarts, or kills, a proxy of this kind that services share.
func shared(of string, restarts bool) rights.When {
	return rights.Step(func(a fault.Action) bool {
		switch a := a.(type) {
		case *fault.Process:
			return a.Of == of && !restarts && a.Do != fault.DoPause
		case *fault.Restart:
			return a.Of == of && restarts
		}
		return false
	})
}

// replaced: a step replaces ztunnels.
func replaced(p *study.Plan) bool {
	return shared(fault.OfZtunnel, true)(p) || rights.Both(rights.HasStep[*fault.Move](), rights.Cell(study.Ambient))(p)
}

// ofWaypoint: a step restarts or kills a waypoint.
func ofWaypoint(p *study.Plan) bool {
	return shared(fault.OfWaypoint, true)(p) || shared(fault.OfWaypoint, false)(p)
}

// revised: steps involve control planes of several revisions.
func revised(p *study.Plan) bool {
	return rights.HasStep[*fault.Move]()(p) || rights.HasStep[*fault.Revision]()(p)
}
