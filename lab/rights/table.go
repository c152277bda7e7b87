package rights

import (
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/study"
)

// Names of features.
const (
	Reach        = "reach"
	EveryRun     = "every run"
	Observe      = "observe"
	Kubelets     = "kubelets"
	DataPlane    = "data plane"
	Profiles     = "profiles"
	ControlPlane = "control plane"
	Levers       = "levers"
	Population   = "population"
	Changes      = "changes"
	RealPods     = "real pods"
	Resilience   = "resilience"
	Faults       = "faults on nodes"
	ControlAway  = "control plane away"
	ConfigSteps  = "config steps"
	Journal      = "journal"
	Keeper       = "keeper"
	PullSecret   = "pull secret"
	ProfilePod   = "profile"
	ProfilePage  = "profile page"
	Signals      = "signals"
	Scope        = "scope"
	Generate     = "scope-generate"
	Apply        = "scope-apply"
	Advise       = "advise"
	PushTest     = "controlplane-test"
	Detached     = "detached"
	DetachedRuns = "detached runs"
)

// Groups of the API, as they stand after a resource, and verbs that come
// together.
const (
	networking    = ".networking.istio.io"
	security      = ".security.istio.io"
	telemetry     = ".telemetry.istio.io"
	extensions    = ".extensions.istio.io"
	gatewayAPI    = ".gateway.networking.k8s.io"
	rbac          = ".rbac.authorization.k8s.io"
	endpointSlice = "endpointslices.discovery.k8s.io"
	autoscaler    = "horizontalpodautoscalers.autoscaling"
	forward       = "pods/portforward"
	// open is what port-forwarding takes: newer API servers ask for create by
	// WebSocket too.
	open = "get create"
	// populated are the kinds that each population has.
	populated = "namespaces nodes serviceaccounts services deployments.apps"
	// applied is server-side apply, of what is there and of what is not.
	applied = "patch create"
)

// What is lost without some rights.
const (
	late      = "pods may start before the mesh's root certificate is there, and take minutes"
	unwatched = "pushes that change nothing are not traced to who causes them"
	// unforeseen is of what others have laid down for the whole mesh.
	unforeseen = "a mesh-wide policy of others that refuses the study's requests is not reported beforehand, and what else is mesh-wide is in the figures unnamed"
	alone      = "roles of a runner that died stay until somebody deletes the run's namespace"
)

// feature is a feature of the table, built of constants alone.
type feature struct {
	Name, Doc, Privileged, Without string

	when when
	rows []row
	also []row // shared with others
}

// row is one or more rights of the table.
type row struct {
	verbs string // as the API server's audit log says them
	// name is the resource as kubectl writes it (deployments.apps, pods/log),
	// several of them, or a path.
	name  string
	where Where
	why   string
	// without makes it optional, mesh one mesh's.
	without, mesh string
	// when, changes (kinds of changes of a control plane) and counted (a factor
	// of which a cell has more than none) say which plans need it.
	when             when
	changes, counted string
}

// nodeRole is what roles on nodes need that want a token.
var nodeRole = []row{
	{verbs: "create", name: "secrets", where: InRun, why: "the token that the role wants"},
	{verbs: "create", name: "daemonsets.apps", where: InRun, why: "the role on each node"},
}

// deadNodes is for the nodes that an ambient mesh lacks.
var deadNodes = row{verbs: "get", name: "nodes", where: Everywhere, why: "whether a node without ztunnel is ready", mesh: study.MeshIstio, when: ambient,
	without: "a node that is not ready keeps ambient studies from the cluster"}

// agentElsewhere is for the node agent of an ambient mesh where it is not beside istiod: see
// mesh/istio, readAgent.
var agentElsewhere = row{verbs: "get", name: "daemonsets.apps", where: InSystem, why: "whether Istio's node agent is ready, if it is there", mesh: study.MeshIstio, when: ambient,
	without: "an ambient mesh whose node agent is in kube-system, as on GKE, is refused"}

// agentsElsewhere is for its pods.
var agentsElsewhere = row{verbs: "list", name: "pods", where: InSystem, why: "the pods of Istio's node agent, whose CPU is measured too, if they are there", mesh: study.MeshIstio, when: ambient,
	without: "what a node agent in kube-system uses is not measured"}

// Events say what a controller or a kubelet cannot do for a pod that is waited for: see
// internal/podwait. silentPods is what is lost without them.
const silentPods = "if a node cannot start a pod (network, volume) or a DaemonSet's pods are refused, the wait ends after minutes, and does not say why"

var eventsOfRun = row{verbs: "list", name: "events", where: InRun, why: "why pods do not come", without: silentPods}

// whyNoWaypoint is for whoever waits for a waypoint: see site.Unready.
var whyNoWaypoint = row{verbs: "get", name: "gateways" + gatewayAPI, where: InRun, why: "why there is no waypoint", mesh: study.MeshIstio, when: waypoint,
	without: "if a waypoint does not come, the run does not say what istiod made of its Gateway"}

// istiodPages are what signals are read from.
var istiodPages = []row{
	{verbs: "list", name: "pods", where: InMesh, why: "istiod's pods", mesh: study.MeshIstio},
	{verbs: open, name: forward, where: InMesh, why: "istiod's metrics", mesh: study.MeshIstio},
	{verbs: "get", name: "nodes/proxy", where: Everywhere, why: "the CPU of istiod's container, from its kubelet; a strong right, which reaches the kubelet's exec", without: "the saturation of istiod's CPU is unknown"},
}

// table is all rights by feature, in the order of documents.
var table = []feature{
	{Name: Reach, Doc: "Finds the cluster, and asks what this user may do. Kubernetes' own roles system:basic-user and system:discovery grant it to everybody.", when: always, rows: []row{
		{verbs: "get", name: "/version", where: OfURL, why: "whether the cluster answers, and its version"},
		{verbs: "get", name: "/api/*", where: OfURL, why: "which kinds of objects it has"},
		{verbs: "get", name: "/apis/*", where: OfURL, why: "which kinds of objects it has"},
		{verbs: "create", name: "selfsubjectaccessreviews.authorization.k8s.io", where: Everywhere, why: "what this user may do"},
	}},
	{Name: EveryRun, Doc: "A namespace of the run's own, lines to its pods, and a look at the mesh.", when: always, rows: []row{
		{verbs: "create delete", name: "namespaces", where: Everywhere, why: "the run's own namespace, with all that is in it"},
		{verbs: "list", name: "namespaces", where: Everywhere, why: "what earlier runs left", without: "what a killed run left is neither named nor waited for; its pods are measured too"},
		{verbs: "list watch", name: "pods", where: InRun, why: "where the roles run, and whether they are ready; each is told every 10 s that the runner is there"},
		{verbs: open, name: forward, where: InRun, why: "the control servers of the roles, and the proxies' admin pages"},
		eventsOfRun,
		{verbs: "get", name: "nodes", where: Everywhere, why: "the nodes' container runtime and zones", without: "the report names no container runtime, and trials no zones of their pods"},
		{verbs: "list", name: "pods", where: InMesh, why: "the pods of the control plane, whose CPU is measured too", when: meshed},
		{verbs: "list", name: "events", where: InMesh, why: "why the mesh's pods do not come", when: meshed, without: silentPods},
		{verbs: "list", name: "deployments.apps", where: InMesh, why: "whether the mesh is installed and ready", when: meshed},
		{verbs: "list", name: "mutatingwebhookconfigurations.admissionregistration.k8s.io", where: Everywhere, why: "whether sidecars are injected", when: meshed},
		{verbs: "get", name: "configmaps", where: InMesh, why: "the mesh configuration", mesh: study.MeshIstio, when: meshed},
		{verbs: "list", name: "authorizationpolicies" + security + " requestauthentications" + security + " telemetries" + telemetry + " wasmplugins" + extensions + " trafficextensions" + extensions +
			" destinationrules" + networking + " envoyfilters" + networking + " proxyconfigs" + networking + " sidecars" + networking,
			where: InMesh, why: "mesh-wide objects of others, which hold for a run's sidecars too; where the mesh has another root namespace, in that", mesh: study.MeshIstio, when: meshed, without: unforeseen},
		{verbs: "list", name: "configmaps", where: Everywhere, why: "whether the mesh gives each namespace a root certificate", when: meshed, without: late},
		{verbs: "get", name: "configmaps", where: InRun, why: "whether the root certificate has come", when: meshed, without: late},
	}},
	{Name: Observe, Doc: "A DaemonSet whose pods read CPU, memory, threads and pressure of the containers on their node.", when: always,
		Privileged: "hostPID, user 0, capability SYS_PTRACE, the node's /sys/fs/cgroup read-only; it changes nothing on the node",
		Without:    "CPU and memory per container, threads and their waits, sockets, probes, pressure, the CPU of others, and the clocks of nodes: without it only studies of the data plane run, by --observe kubelet, and they know less",
		rows:       []row{{verbs: "create", name: "daemonsets.apps", where: InRun, why: "the observer on each node"}}},
	{Name: Kubelets, Doc: "meshtrial run --observe kubelet: CPU and memory between the samples of the nodes' kubelets, in place of the observers.", rows: []row{
		{verbs: "get", name: "nodes/proxy", where: Everywhere, why: "the CPU and memory of the run's containers and of istiod, from each kubelet's page /metrics/resource; a strong right, which reaches the kubelet's exec (nodes/stats is not enough to ask through the API server)"},
	}},
	{Name: DataPlane, Doc: "Load generators, workers and their sidecars.", when: dataPlane, rows: []row{
		{verbs: "create", name: "services", where: InRun, why: "the workers' addresses"},
		{verbs: "list", name: "nodes", where: Everywhere, why: "which nodes and zones there are for pods that are to run on certain ones", when: placed},
		{verbs: "create", name: "deployments.apps", where: InRun, why: "load generators and workers"},
		{verbs: "delete", name: "pods", where: InRun, why: "pods made anew between blocks", when: renewed},
		{verbs: "list", name: endpointSlice, where: InRun, why: "whether the workers' endpoints are ready", without: "the first trials may begin before proxies know all endpoints"},
		{verbs: "list", name: "daemonsets.apps", where: InMesh, why: "whether ztunnel and Istio's node agent are ready", mesh: study.MeshIstio, when: ambient},
		agentElsewhere,
		agentsElsewhere,
		deadNodes,
		{verbs: open, name: forward, where: InMesh, why: "ztunnel's metrics", mesh: study.MeshIstio, when: ambient},
		{verbs: applied, name: "gateways" + gatewayAPI, where: InRun, why: "the waypoint, which istiod makes of it", mesh: study.MeshIstio, when: waypoint},
		whyNoWaypoint,
		{verbs: applied, name: "gateways" + networking + " virtualservices" + networking, where: InRun, why: "the ingress gateway's listeners and routes", mesh: study.MeshIstio, when: entering},
		{verbs: applied, name: "services deployments.apps", where: InRun, why: "the ingress gateway, and the workers behind it", mesh: study.MeshIstio, when: entering},
		{verbs: applied, name: "peerauthentications" + security, where: InRun, why: "mutual TLS of each sidecar", when: sidecars},
		{verbs: applied, name: "telemetries" + telemetry, where: InRun, why: "telemetry of the ingress gateway", mesh: study.MeshIstio, when: entering},
		{verbs: applied, name: "telemetries" + telemetry, where: InRun, why: "telemetry of each sidecar", when: sidecars},
		{verbs: applied, name: "envoyfilters" + networking, where: InRun, why: "parts of a sidecar that no other object switches on", when: filtered},
		{verbs: "delete", name: "envoyfilters" + networking, where: InRun, why: "an EnvoyFilter of yours that is refused", when: ownFilter},
		{verbs: applied, name: "authorizationpolicies" + security, where: InRun, why: "parts " + study.PartAuthzAllow + " and " + study.PartAuthzDeny, when: authorized},
		{verbs: applied, name: "requestauthentications" + security, where: InRun, why: "parts " + study.PartJWT + " and " + study.PartJWTToken, when: token},
		{verbs: applied, name: "sidecars" + networking, where: InRun, why: "sidecars that connections are not redirected to", when: uncaptured},
	}},
	{Name: Profiles, Doc: "A DaemonSet whose pods have perf look at a proxy on their node (measure profile).", when: profiled,
		Privileged: "hostPID, user 0, capabilities DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK, KILL, PERFMON, SYSLOG, SYS_ADMIN, SYS_CHROOT, SYS_PTRACE",
		Without:    "CPU profiles of proxies: leave the measure profile out",
		also:       nodeRole},
	{Name: ControlPlane, Doc: "Simulated sidecars connected to istiod, its metrics and its logs.", when: controlPlane, rows: []row{
		{verbs: "create", name: "deployments.apps", where: InRun, why: "the simulated sidecars' pod"},
		{verbs: open, name: forward, where: InMesh, why: "istiod's metrics, profiles and debug pages"},
		{verbs: "get", name: "pods/log", where: InMesh, why: "the stages of a change"},
		{verbs: "create", name: "serviceaccounts/token", where: Everywhere, why: "identities of simulated sidecars", when: tokens},
		{verbs: "get", name: "/metrics", where: OfURL, why: "the cost of the API server", without: "the report does not say what the API server used"},
	}},
	{Name: Levers, Doc: "Settings of istiod, put back when the run ends.", when: levers, rows: []row{
		{verbs: "list get", name: "deployments.apps", where: InMesh, why: "istiod's environment, resources and replicas"},
		{verbs: "update", name: "deployments.apps", where: InMesh, why: "levers of istiod's Deployment", when: deploymentLevers},
		{verbs: "get", name: "services", where: InMesh, why: "where istiod is reached"},
		{verbs: "list", name: "pods", where: InMesh, why: "istiod's replicas, and whether each has the lever"},
		{verbs: "delete", name: "pods", where: InMesh, why: "an istiod that starts anew before each trial", when: controlPlane},
		{verbs: "get", name: "pods/log", where: InMesh, why: "what istiod says of itself when it starts"},
		{verbs: open, name: forward, where: InMesh, why: "the proof that a lever is active"},
		{verbs: "get", name: "leases.coordination.k8s.io", where: InMesh, why: "whether a fresh istiod is elected, upon which it pushes everything", when: controlPlane,
			without: "the push of a fresh istiod that is elected may fall into a window: the trial warns of it"},
		{verbs: "get", name: "configmaps", where: InMesh, why: "the mesh configuration"},
		{verbs: "update", name: "configmaps", where: InMesh, why: "levers of the mesh configuration", when: configLevers},
		{verbs: "list get", name: autoscaler, where: InMesh, why: "istiod's autoscaler, which would change the replicas"},
		{verbs: "update", name: autoscaler, where: InMesh, why: "the autoscaler is held at the lever istiod_replicas", when: replicaLevers},
		{verbs: "list", name: "sidecars" + networking, where: Everywhere, why: "Sidecars that would hold beside the lever sidecar_scope"},
		{verbs: "get patch create update delete", name: "sidecars" + networking, where: Everywhere, why: "the lever sidecar_scope", when: scoped},
		{verbs: "get", name: "namespaces", where: Everywhere, why: "whether istiod watches its own namespace, where a mesh-wide Sidecar is", when: scoped},
	}},
	{Name: Population, Doc: "Namespaces, Services and pods on simulated nodes (kwok), and configuration that nobody uses.", when: controlPlane, rows: []row{
		{verbs: "list", name: populated + " serviceentries" + networking + " virtualservices" + networking + " destinationrules" + networking +
			" gateways" + networking + " authorizationpolicies" + security, where: Everywhere, why: "what is there of the simulated cluster"},
		{verbs: "get create update delete", name: populated, where: Everywhere, why: "the simulated cluster"},
		{verbs: "patch", name: "namespaces nodes", where: Everywhere, why: "what a dead run's simulated cluster belongs to"},
		{verbs: "get create update delete", name: "serviceentries" + networking, where: Everywhere, why: "configuration that nobody uses", counted: study.FactorServiceEntries},
		{verbs: "get create update delete", name: "virtualservices" + networking, where: Everywhere, why: "configuration that nobody uses", counted: study.FactorVirtualServices},
		{verbs: "get create update delete", name: "destinationrules" + networking, where: Everywhere, why: "configuration that nobody uses", counted: study.FactorDestinationRules},
		{verbs: "get create update delete", name: "gateways" + networking, where: Everywhere, why: "configuration that nobody uses", counted: study.FactorGatewayResources},
		{verbs: "get create update delete", name: "authorizationpolicies" + security, where: Everywhere, why: "configuration that nobody uses", counted: study.FactorAuthorizationPolicies},
		{verbs: "get create update delete", name: endpointSlice, where: Everywhere, why: "endpoints that nobody uses", counted: study.FactorEndpointSlices},
		{verbs: "list delete", name: "pods", where: Everywhere, why: "simulated pods: whether all run, and those that do not"},
		{verbs: "list", name: endpointSlice, where: Everywhere, why: "whether every Service has its endpoints"},
		{verbs: "list", name: "events", where: Everywhere, why: "why simulated pods do not come", without: silentPods},
	}},
	{Name: Changes, Doc: "Changes of configuration and endpoints during a trial, and the watch that sees when the API server has them.", when: controlPlane, rows: []row{
		{verbs: "create patch delete list watch", name: "services", where: Everywhere, why: "objects that change", changes: study.ChangeServiceGatewayVirtualService + " " + study.ChangeService + " " + study.ChangeNoOp + " " + study.ChangeSidecar + " " + study.ChangeNamespaceLabels + " " + study.ChangeVirtualService + " " + study.ChangeDestinationRule},
		{verbs: "create patch delete list watch", name: "virtualservices" + networking, where: Everywhere, why: "objects that change", changes: study.ChangeServiceGatewayVirtualService + " " + study.ChangeVirtualService + " " + study.ChangeNoOp + " " + study.ChangeGatewayRoute},
		{verbs: "create patch delete list watch", name: "gateways" + networking, where: Everywhere, why: "objects that change", changes: study.ChangeServiceGatewayVirtualService + " " + study.ChangeGateway + " " + study.ChangeGatewayRoute},
		{verbs: "create patch delete list watch", name: "gateways" + gatewayAPI + " httproutes" + gatewayAPI, where: Everywhere, why: "routes that change, and the status of the Gateway that they are attached to", changes: study.ChangeHTTPRoute, when: gateway},
		{verbs: "create patch delete list watch", name: "destinationrules" + networking, where: Everywhere, why: "objects that change", changes: study.ChangeDestinationRule},
		{verbs: "create patch delete list watch", name: "serviceentries" + networking, where: Everywhere, why: "objects that change", changes: study.ChangeServiceEntry},
		{verbs: "create patch delete list watch", name: "sidecars" + networking, where: Everywhere, why: "objects that change", changes: study.ChangeSidecar},
		{verbs: "create patch delete list watch", name: "authorizationpolicies" + security, where: Everywhere, why: "objects that change", changes: study.ChangeAuthorizationPolicy},
		{verbs: "create patch delete list watch", name: "telemetries" + telemetry, where: Everywhere, why: "objects that change", changes: study.ChangeTelemetry},
		{verbs: "create patch delete list watch", name: "namespaces", where: Everywhere, why: "objects that change", changes: study.ChangeNamespaceLabels},
		{verbs: "create patch delete list watch", name: endpointSlice, where: Everywhere, why: "changed endpoints, in slices of the driver's own", changes: endpointChanges, when: ownSlices},
		{verbs: "list watch", name: endpointSlice, where: Everywhere, why: "changed endpoints", changes: endpointChanges, when: byControllers},
		{verbs: "list watch patch delete", name: "pods", where: Everywhere, why: "pods that come, go and are labelled", changes: endpointChanges},
		{verbs: "patch", name: "pods/status", where: Everywhere, why: "pods that get unready", changes: study.ChangeEndpointsFlap, when: byControllers},
		{verbs: "patch", name: "deployments.apps", where: Everywhere, why: "Deployments scaled and restarted", changes: endpointChanges},
	}},
	{Name: RealPods, Doc: "Real pods with real sidecars, and requests, beside the simulated ones.", when: realPods, rows: []row{
		{verbs: "create get update delete", name: "deployments.apps", where: Everywhere, why: "real pods in the population's namespaces"},
		{verbs: "list", name: "pods", where: Everywhere, why: "whether they are ready"},
		{verbs: open, name: forward, where: Everywhere, why: "their sidecars and control servers"},
		{verbs: "create", name: "services", where: Everywhere, why: "the address of the requests", when: requests},
		{verbs: "get", name: "services", where: Everywhere, why: "the real gateway's address", when: gateway},
		{verbs: "get", name: "pods/log", where: Everywhere, why: "the attempts that the caller's sidecar logs", when: traffic},
		{verbs: "list watch", name: endpointSlice, where: Everywhere, why: "the endpoints of the requests", when: traffic},
		{verbs: "watch", name: "pods", where: Everywhere, why: "the endpoints of the requests", when: traffic},
		{verbs: applied, name: "peerauthentications" + security, where: Everywhere, why: "mutual TLS of the requests", when: traffic},
		{verbs: applied, name: "telemetries" + telemetry, where: Everywhere, why: "what sidecars log", when: traffic},
		{verbs: applied, name: "envoyfilters" + networking, where: Everywhere, why: "a log of each attempt", when: traffic},
	}},
	{Name: Resilience, Doc: "The service graph, its clients, what becomes of every request, and nodes that steps drain.", when: resilient, rows: []row{
		{verbs: "create get deletecollection", name: "configmaps", where: InRun, why: "settings of generators and services"},
		{verbs: "create list delete", name: "services", where: InRun, why: "the graph's services"},
		{verbs: "create deletecollection", name: "deployments.apps", where: InRun, why: "services and clients, made anew for each trial"},
		{verbs: "patch", name: "deployments.apps", where: InRun, why: "steps that remove, add and restart replicas", when: scales},
		{verbs: "deletecollection", name: "replicasets.apps", where: InRun, why: "pods that must not come back"},
		{verbs: "watch deletecollection", name: "pods", where: InRun, why: "when pods come and go"},
		{verbs: "patch", name: "pods", where: InRun, why: "steps that choose which replicas go", when: scales},
		{verbs: "list get update", name: "nodes", where: Everywhere, why: "steps that drain a node: it is cordoned; which one is known only then", when: resilience.Drains},
		{verbs: "delete", name: "pods", where: InRun, why: "pods that leave a node", when: resilience.Drains},
		{verbs: "delete", name: "pods", where: InRun, why: "steps that remove replicas at once", when: abrupt},
		{verbs: "get", name: "pods/log", where: InRun, why: "the ledger of requests", when: ledger},
		{verbs: "list watch", name: endpointSlice, where: InRun, why: "when endpoints change"},
		{verbs: "list", name: "daemonsets.apps", where: InMesh, why: "whether ztunnel and Istio's node agent are ready", mesh: study.MeshIstio, when: ambient},
		agentElsewhere,
		agentsElsewhere,
		deadNodes,
		{verbs: open, name: forward, where: InMesh, why: "ztunnel's metrics", mesh: study.MeshIstio, when: ambient},
		{verbs: "patch create delete", name: "gateways" + gatewayAPI, where: InRun, why: "the waypoint of each trial, which istiod makes of it", mesh: study.MeshIstio, when: waypoint},
		whyNoWaypoint,
		{verbs: "patch create delete", name: "peerauthentications" + security, where: InRun, why: "mutual TLS of each sidecar", when: sidecars},
		{verbs: "patch create delete", name: "telemetries" + telemetry, where: InRun, why: "what sidecars log", when: sidecars},
		{verbs: "patch create delete", name: "envoyfilters" + networking, where: InRun, why: "a log of each attempt", when: sidecarLedger},
		{verbs: "patch create delete", name: "virtualservices" + networking, where: InRun, why: "retries and timeouts", when: retries},
		{verbs: "patch create delete", name: "destinationrules" + networking, where: InRun, why: "outlier detection, circuit breakers, load balancing", when: balanced},
		{verbs: "get update", name: "daemonsets.apps", where: InMesh, why: "steps that restart ztunnel", mesh: study.MeshIstio, when: restartsNodes},
		{verbs: "delete", name: "pods", where: InMesh, why: "a ztunnel that a step killed is made anew after the trial", mesh: study.MeshIstio, when: killsNodes},
		{verbs: "list get patch", name: "deployments.apps", where: InRun, why: "steps that take the waypoint away or restart it", mesh: study.MeshIstio, when: ofWaypoint},
		{verbs: "delete", name: "pods", where: InRun, why: "a waypoint that is kept away", mesh: study.MeshIstio, when: ofWaypoint},
		{verbs: open, name: forward, where: InMesh, why: "the policies that Linkerd's proxies are told", mesh: study.MeshLinkerd},
		{verbs: "get patch", name: "namespaces", where: Everywhere, why: "the label by which the run's own namespace moves to another revision", mesh: study.MeshIstio, when: hasStep[*fault.Move]},
		{verbs: "get", name: "deployments.apps", where: InMesh, why: "whether istiod of another revision is available", mesh: study.MeshIstio, when: revised},
		{verbs: open, name: forward, where: InMesh, why: "which sidecars are connected to which istiod", mesh: study.MeshIstio, when: revised},
	}},
	{Name: Faults, Doc: "A DaemonSet whose pods kill and pause processes, bound the memory of one until the kernel kills it, and disturb packets of the study's pods; each fault is a lease that ends by itself.", when: onNodes,
		Privileged: "hostPID, user 0, capabilities KILL, NET_ADMIN, SYS_ADMIN, SYS_PTRACE",
		Without:    "steps process and network, and certificates that expire: leave them out",
		also:       nodeRole, rows: []row{
			{verbs: "get", name: "daemonsets.apps", where: InRun, why: "how many nodes have the role"},
			{verbs: "get", name: "services", where: InRun, why: "the addresses of services whose packets are disturbed", when: hasStep[*fault.Network]},
		}},
	{Name: ControlAway, Doc: "The mesh's control plane killed, paused or kept away by a step, and brought back.", when: controlPods, rows: []row{
		{verbs: "list", name: "pods", where: InMesh, why: "the control plane's pods"},
		{verbs: "delete", name: "pods", where: InMesh, why: "a control plane kept away", when: away},
		{verbs: "list get update", name: "deployments.apps", where: InMesh, why: "a control plane kept away", when: away},
	}},
	{Name: ConfigSteps, Doc: "Objects of the Kubernetes API that steps of a study change, anywhere; they are put back when the step ends.", when: hasStep[*fault.Config]},
	{Name: Journal, Doc: "The cluster's Lease, so that two runs do not change it at once, and the journal of what a run changed outside its namespaces.", when: always, rows: []row{
		{verbs: "create get delete", name: "namespaces", where: Everywhere, why: "the journal's own namespace"},
		{verbs: "create get update delete", name: "leases.coordination.k8s.io", where: InJournal, why: "who is at work in the cluster"},
		{verbs: "create get list update delete", name: "secrets", where: InJournal, why: "what to put back, also after a run was killed"},
	}},
	{Name: Keeper, Doc: "Roles that end by themselves when the runner is gone.", when: always,
		Without: alone,
		rows: []row{
			{verbs: "create", name: "serviceaccounts deployments.apps", where: InRun, why: "the keeper's pod", without: alone},
			{verbs: "create", name: "roles" + rbac + " rolebindings" + rbac, where: InJournal, why: "that the keeper may read the Lease", without: alone},
			{verbs: "create", name: "clusterroles" + rbac + " clusterrolebindings" + rbac, where: Everywhere, why: "that the keeper may delete the run's namespace", without: alone},
		}},
	{Name: PullSecret, Doc: "The Secret of --pull-secret, copied into the namespaces of a run's pods.", rows: []row{
		{verbs: "get", name: "secrets", where: InNamed, why: "the Secret by which the image is pulled"},
		{verbs: "create", name: "secrets", where: InRun, why: "its copy"},
		{verbs: "create update", name: "secrets", where: Everywhere, why: "its copies beside real pods in the population's namespaces", when: realPods},
	}},
	{Name: Detached, Doc: "meshtrial run --detach: a Job in a namespace of yours, whose pod makes the run by a service account with the rights that the study needs. Whoever begins one needs these rights too; of those that a run can go without, the pod gets those that the user has.", rows: []row{
		{verbs: "create", name: "serviceaccounts configmaps jobs.batch", where: InNamed, why: "the Job, its study, and how far it is"},
		{verbs: "get patch", name: "configmaps", where: InNamed, why: "how far it is: a right of the run's pod"},
		{verbs: "get", name: "persistentvolumeclaims", where: InNamed, why: "whether the volume for results is there"},
		{verbs: "get", name: "secrets", where: InNamed, why: "whether the Secret of --results-secret is there", without: "only the run's pod reports a Secret that lacks something"},
		{verbs: "create", name: "secrets", where: InNamed, why: "a copy of the Secret of --pull-secret", without: "a Secret of --pull-secret must be in the namespace of the volume for results"},
		{verbs: "create", name: "clusterroles" + rbac + " clusterrolebindings" + rbac + " roles" + rbac + " rolebindings" + rbac, where: Everywhere, why: "the rights of the run's pod"},
		{verbs: "delete", name: "clusterroles" + rbac, where: Everywhere, why: "what a run made that could not be begun"},
		{verbs: "list", name: "clusterroles" + rbac, where: Everywhere, why: "whether there are others, once a run could not be begun", without: "after a run that could not be begun the journal's namespace stays"},
		{verbs: "get create patch", name: "namespaces", where: Everywhere, why: "the journal's namespace, in which the run's pod has rights, and which stays as long as there are such runs"},
	}},
	{Name: DetachedRuns, Doc: "meshtrial attach, and runs list, fetch and delete. After the last run, delete takes the cluster as a run does: journal; without that right the journal's namespace stays.", rows: []row{
		{verbs: "get list patch", name: "jobs.batch", where: InNamed, why: "the runs"},
		{verbs: "list", name: "pods configmaps", where: InNamed, why: "how far they are"},
		{verbs: "get", name: "pods/log", where: InNamed, why: "what a run says"},
		{verbs: "create get delete", name: "pods", where: InNamed, why: "a pod that reads the volume for results"},
		{verbs: open, name: forward, where: InNamed, why: "its control server"},
		{verbs: "list", name: "events", where: InNamed, why: "why pods do not come", without: "a quota or a policy that refuses a run's pod shows in the Job's events alone"},
		{verbs: "get delete", name: "clusterroles" + rbac, where: Everywhere, why: "what all objects of a run belong to"},
		{verbs: "get patch", name: "namespaces", where: Everywhere, why: "the journal's namespace, which goes after the last run"},
		{verbs: "list", name: "clusterroles" + rbac, where: Everywhere, why: "runs that have no Job, because whoever began them was killed, and whether this was the last run",
			without: "runs that were killed as they began are not listed, and keep their rights; the journal's namespace stays"},
	}},
	{Name: ProfilePod, Doc: "meshtrial profile POD: a namespace and a DaemonSet of its own, as profiles of studies. It takes the cluster as a run does: journal, and keeper.",
		Privileged: "as profiles of studies", Without: "CPU profiles by perf: --kind heap and others read a page of the pod's own instead",
		also: nodeRole, rows: []row{
			{verbs: "create delete", name: "namespaces", where: Everywhere, why: "the profile's own namespace"},
			{verbs: "list watch", name: "pods", where: InRun, why: "whether the role is ready; it is told every 10 s that the runner is there"},
			eventsOfRun,
			{verbs: open, name: forward, where: InRun, why: "the role's control server"},
			{verbs: "get", name: "pods", where: InNamed, why: "the pod to profile"},
			{verbs: "get", name: "nodes", where: Everywhere, why: "the node's kernel", without: "the profile does not say on which kernel it was taken"},
		}},
	{Name: ProfilePage, Doc: "meshtrial profile POD of another kind than cpu: a page that the pod serves itself.", rows: []row{
		{verbs: "get", name: "pods", where: InNamed, why: "the pod to profile"},
		{verbs: open, name: forward, where: InNamed, why: "its page of profiles"},
	}},
	{Name: Signals, Doc: "meshtrial signals: istiod's golden signals. It writes nothing.", rows: istiodPages},
	{Name: Advise, Doc: "meshtrial advise: what limits a running mesh. It writes nothing.", also: istiodPages, rows: []row{
		{verbs: "list get", name: "deployments.apps", where: InMesh, why: "istiod's settings", mesh: study.MeshIstio},
		{verbs: "list", name: "sidecars" + networking, where: InMesh, why: "whether a Sidecar says what proxies need", mesh: study.MeshIstio},
		{verbs: "list watch", name: "services " + endpointSlice, where: Everywhere, why: "who writes what without changing anything", without: unwatched},
		{verbs: "list watch", name: "virtualservices" + networking + " destinationrules" + networking + " serviceentries" + networking + " gateways" + networking + " sidecars" + networking + " envoyfilters" + networking,
			where: Everywhere, why: "who writes what without changing anything", without: unwatched},
	}},
	{Name: Scope, Doc: "meshtrial scope: what brought which bytes of a proxy's configuration. It writes nothing.", rows: []row{
		{verbs: "list", name: "pods", where: InNamed, why: "pods with a sidecar"},
		{verbs: open, name: forward, where: InNamed, why: "their proxies' admin pages"},
		{verbs: "list", name: "envoyfilters" + networking, where: Everywhere, why: "what EnvoyFilters add", without: "what EnvoyFilters add is unattributed"},
	}},
	{Name: Generate, Doc: "meshtrial scope --generate on a cluster, beside scope: what is in the mesh. It writes nothing.", rows: []row{
		{verbs: "get", name: "configmaps", where: InMesh, why: "the mesh configuration", mesh: study.MeshIstio, without: "the root namespace and the outbound policy are taken for Istio's own defaults"},
		{verbs: "list", name: "namespaces", where: Everywhere, why: "namespaces the mesh has no use for", without: "discoverySelectors are not suggested"},
		{verbs: "list", name: "pods", where: Everywhere, why: "workloads and their labels", without: "workloads whose proxies are not read are not known"},
		{verbs: "list", name: "services", where: Everywhere, why: "what there is to call", without: "only Services that proxies hold are known"},
		{verbs: "list", name: "serviceentries" + networking + " virtualservices" + networking + " destinationrules" + networking, where: Everywhere, why: "hosts, and routes that lead to other hosts", without: "routes in other namespaces than their hosts may be left out"},
		{verbs: "list", name: "sidecars" + networking, where: Everywhere, why: "Sidecars that exist", without: "those that exist are not told from new ones"},
		{verbs: "list", name: "envoyfilters" + networking + " wasmplugins" + extensions + " trafficextensions" + extensions + " requestauthentications" + security, where: Everywhere, why: "hosts that filters and extensions call, and from which keys are fetched", without: "such hosts may be left out"},
		{verbs: "list", name: "httproutes" + gatewayAPI + " grpcroutes" + gatewayAPI + " tcproutes" + gatewayAPI + " tlsroutes" + gatewayAPI, where: Everywhere, why: "routes of the Gateway API that lead to other hosts", without: "a Service whose requests such a route sends elsewhere may be left out"},
		{verbs: "list", name: "deployments.apps statefulsets.apps daemonsets.apps cronjobs.batch workloadentries" + networking, where: Everywhere, why: "workloads that have no pods, now or at all", without: "such workloads are not known, and get the Sidecar of their namespace when they run"},
	}},
	{Name: Apply, Doc: "meshtrial scope --generate --apply, beside scope and scope-generate: the Sidecars that it generated. It takes the cluster as a run does: journal.", rows: []row{
		{verbs: "get create patch update delete", name: "sidecars" + networking, where: Everywhere, why: "generated Sidecars, and taking them back"},
	}},
	{Name: PushTest, Doc: "meshtrial controlplane-test: three objects again and again in a namespace of yours. Its figures also need signals, or a Prometheus. It takes the cluster as a run does: journal.", rows: []row{
		{verbs: "get", name: "namespaces", where: Everywhere, why: "whether the namespace is there", without: "the API server reports a missing namespace, but later"},
		{verbs: "patch create delete", name: "services gateways" + networking + " virtualservices" + networking, where: InNamed, why: "the test's objects"},
	}},
}
