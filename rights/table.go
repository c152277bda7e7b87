package rights

import (
	"slices"

	"github.com/meshtrial/meshtrial/study"
)

// Names of features.
const (
	Reach        = "reach"
	EveryRun     = "every run"
	Observe      = "observe"
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
	ProfilePod   = "profile"
	ProfilePage  = "profile page"
	Signals      = "signals"
	Scope        = "scope"
	PushTest     = "controlplane-test"
	Install      = "lab install"
)

// Groups of the API, as they stand after a resource, and verbs that come
// together.
const (
	networking    = ".networking.istio.io"
	security      = ".security.istio.io"
	telemetry     = ".telemetry.istio.io"
	rbac          = ".rbac.authorization.k8s.io"
	endpointSlice = "endpointslices.discovery.k8s.io"
	autoscaler    = "horizontalpodautoscalers.autoscaling"
	forward       = "pods/portforward"
	// open is what port-forwarding takes: newer API servers ask for create by
	// WebSocket too.
	open = "get create"
	// applied is server-side apply, of what is there and of what is not.
	applied = "patch create"
)

// table is all rights by feature. Verbs are as the API server's audit log says
// them.
var table = slices.Concat(runFeatures, controlFeatures, resilienceFeatures, guestFeatures, commandFeatures)

var runFeatures = []Feature{
	{Name: Reach, Doc: "Finds the cluster, and asks what this user may do. Kubernetes' own roles system:basic-user and system:discovery grant it to everybody.", when: always, Rights: []Right{
		right("get", "/version", OfURL, "whether the cluster answers, and its version"),
		right("get", "/api/*", OfURL, "which kinds of objects it has"),
		right("get", "/apis/*", OfURL, "which kinds of objects it has"),
		right("create", "selfsubjectaccessreviews.authorization.k8s.io", Everywhere, "what this user may do"),
	}},
	{Name: EveryRun, Doc: "A namespace of the run's own, lines to its pods, and a look at the mesh.", when: always, Rights: []Right{
		right("create delete", "namespaces", Everywhere, "the run's own namespace, with all that is in it"),
		right("list", "namespaces", Everywhere, "what earlier runs left").optional("what a killed run left is neither named nor waited for; its pods are measured along"),
		right("list", "pods", InRun, "where the roles run, and whether they are ready"),
		right(open, forward, InRun, "the control servers of the roles, and the proxies' admin pages"),
		right("get", "nodes", Everywhere, "the node's container runtime").optional("the report does not name the container runtime"),
		right("list", "pods", InMesh, "the pods of the control plane, whose CPU is measured too").only(meshed),
		right("list", "deployments.apps", InMesh, "whether the mesh is installed and ready").only(meshed),
		right("list", "mutatingwebhookconfigurations.admissionregistration.k8s.io", Everywhere, "whether sidecars are injected").only(meshed),
		right("get", "configmaps", InMesh, "the mesh configuration").of(study.MeshIstio).only(meshed),
		right("list", "configmaps", Everywhere, "whether the mesh gives each namespace a root certificate").only(meshed).optional(late),
		right("get", "configmaps", InRun, "whether the root certificate has come").only(meshed).optional(late),
	}},
	{Name: Observe, Doc: "A DaemonSet whose pods read CPU, memory, threads and pressure of the containers on their node.", when: always,
		Privileged: "hostPID, user 0, capability SYS_PTRACE, the node's /sys/fs/cgroup read-only; it changes nothing on the node",
		Without:    "CPU and memory per container, threads and their waits, sockets, probes, pressure, the CPU of others, and the clocks of nodes: no study runs without it",
		Rights:     []Right{right("create", "daemonsets.apps", InRun, "the observer on each node")}},
	{Name: DataPlane, Doc: "Load generators, workers and their sidecars.", when: kind(study.DataPlane), Rights: []Right{
		right("create", "services", InRun, "the workers' addresses"),
		right("create get", "deployments.apps", InRun, "load generators and workers"),
		right("delete", "pods", InRun, "pods made anew between blocks").only(renewed),
		right("list", endpointSlice, InRun, "whether the workers' endpoints are ready").optional("the first trials may begin before proxies know all endpoints"),
		right(applied, "peerauthentications"+security, InRun, "mutual TLS of each sidecar").only(sidecars),
		right(applied, "telemetries"+telemetry, InRun, "telemetry of each sidecar").only(sidecars),
		right(applied, "envoyfilters"+networking, InRun, "parts of a sidecar that no other object switches on").only(filtered()),
		right("delete", "envoyfilters"+networking, InRun, "an EnvoyFilter of yours that is refused").only(part(study.PartEnvoyFilter)),
		right(applied, "authorizationpolicies"+security, InRun, "parts "+study.PartAuthzAllow+" and "+study.PartAuthzDeny).only(part(study.PartAuthzAllow, study.PartAuthzDeny)),
		right(applied, "requestauthentications"+security, InRun, "parts "+study.PartJWT+" and "+study.PartJWTToken).only(part(study.PartJWT, study.PartJWTToken)),
		right(applied, "sidecars"+networking, InRun, "sidecars that connections are not redirected to").only(uncaptured),
	}},
	{Name: Profiles, Doc: "A DaemonSet whose pods have perf look at a proxy on their node (measure profile).", when: all(kind(study.DataPlane), profiled),
		Privileged: "hostPID, user 0, capabilities DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK, KILL, PERFMON, SYSLOG, SYS_ADMIN, SYS_CHROOT, SYS_PTRACE",
		Without:    "CPU profiles of proxies: leave the measure profile out",
		Rights:     nodeRole},
}

const late = "pods may start before the mesh's root certificate is there, and take minutes"

// nodeRole is what roles on nodes need that want a token.
var nodeRole = []Right{
	right("create", "secrets", InRun, "the token that the role wants"),
	right("create", "daemonsets.apps", InRun, "the role on each node"),
}

var controlFeatures = []Feature{
	{Name: ControlPlane, Doc: "Simulated sidecars connected to istiod, its metrics and its logs.", when: kind(study.ControlPlane), Rights: []Right{
		right("create", "deployments.apps", InRun, "the simulated sidecars' pod"),
		right(open, forward, InMesh, "istiod's metrics, profiles and debug pages"),
		right("get", "pods/log", InMesh, "the stages of a change"),
		right("create", "serviceaccounts/token", Everywhere, "identities of simulated sidecars").only(tokens),
		right("get", "/metrics", OfURL, "the cost of the API server").optional("the report does not say what the API server used"),
	}},
	{Name: Levers, Doc: "Settings of istiod, put back when the run ends.", when: levers, Rights: []Right{
		right("list get update", "deployments.apps", InMesh, "istiod's environment, resources and replicas"),
		right("get", "services", InMesh, "where istiod is reached"),
		right("list", "pods", InMesh, "istiod's replicas, and whether each has the lever"),
		right("get", "pods/log", InMesh, "what istiod says of itself when it starts"),
		right(open, forward, InMesh, "the proof that a lever is active"),
		right("get update", "configmaps", InMesh, "the mesh configuration"),
		right("list get update", autoscaler, InMesh, "istiod's autoscaler, which would change the replicas"),
		right("list patch create delete", "sidecars"+networking, Everywhere, "the lever sidecar_scope, and Sidecars that would hold beside it"),
	}},
	{Name: Population, Doc: "Namespaces, Services and pods on simulated nodes (kwok), and configuration that nobody uses.", when: kind(study.ControlPlane), Rights: slices.Concat(
		each("list get create update delete", Everywhere, "the simulated cluster", "namespaces", "nodes", "serviceaccounts", "services", "deployments.apps",
			"serviceentries"+networking, "virtualservices"+networking, "destinationrules"+networking, "gateways"+networking, "authorizationpolicies"+security),
		[]Right{
			right("list delete", "pods", Everywhere, "simulated pods: whether all run, and those that do not"),
			right("list", endpointSlice, Everywhere, "whether every Service has its endpoints"),
		})},
	{Name: Changes, Doc: "Changes of configuration and endpoints during a trial, and the watch that sees when the API server has them.", when: kind(study.ControlPlane), Rights: slices.Concat(
		changed("services", study.ChangeServiceGatewayVirtualService, study.ChangeService, study.ChangeNoOp, study.ChangeSidecar, study.ChangeNamespaceLabels, study.ChangeVirtualService, study.ChangeDestinationRule),
		changed("virtualservices"+networking, study.ChangeServiceGatewayVirtualService, study.ChangeVirtualService, study.ChangeNoOp),
		changed("gateways"+networking, study.ChangeServiceGatewayVirtualService, study.ChangeGateway),
		changed("destinationrules"+networking, study.ChangeDestinationRule),
		changed("serviceentries"+networking, study.ChangeServiceEntry),
		changed("sidecars"+networking, study.ChangeSidecar),
		changed("authorizationpolicies"+security, study.ChangeAuthorizationPolicy),
		changed("telemetries"+telemetry, study.ChangeTelemetry),
		changed("namespaces", study.ChangeNamespaceLabels),
		[]Right{
			right("create patch delete list watch", endpointSlice, Everywhere, "changed endpoints, in slices of the driver's own").only(all(changes(endpointChanges...), ownSlices)),
			right("list watch", endpointSlice, Everywhere, "changed endpoints").only(all(changes(endpointChanges...), byControllers)),
			right("list watch patch delete", "pods", Everywhere, "pods that come, go and are labelled").only(changes(endpointChanges...)),
			right("patch", "pods/status", Everywhere, "pods that get unready").only(all(changes(study.ChangeEndpointsFlap), byControllers)),
			right("patch", "deployments.apps", Everywhere, "Deployments scaled and restarted").only(changes(endpointChanges...)),
		})},
	{Name: RealPods, Doc: "Real pods with real sidecars, and requests, beside the simulated ones.", when: realPods, Rights: []Right{
		right("create get update delete", "deployments.apps", Everywhere, "real pods in the population's namespaces"),
		right("list", "pods", Everywhere, "whether they are ready"),
		right(open, forward, Everywhere, "their sidecars and control servers"),
		right("create", "services", Everywhere, "the address of the requests").only(traffic),
		right("get", "pods/log", Everywhere, "the attempts that the caller's sidecar logs").only(traffic),
		right("list watch", endpointSlice, Everywhere, "the endpoints of the requests").only(traffic),
		right("watch", "pods", Everywhere, "the endpoints of the requests").only(traffic),
		right(applied, "peerauthentications"+security, Everywhere, "mutual TLS of the requests").only(traffic),
		right(applied, "telemetries"+telemetry, Everywhere, "what sidecars log").only(traffic),
		right(applied, "envoyfilters"+networking, Everywhere, "a log of each attempt").only(traffic),
	}},
}

var resilienceFeatures = []Feature{
	{Name: Resilience, Doc: "The service graph, its clients, and what becomes of every request.", when: kind(study.Resilience), Rights: []Right{
		right("create get deletecollection", "configmaps", InRun, "settings of generators and services"),
		right("create list delete", "services", InRun, "the graph's services"),
		right("create deletecollection", "deployments.apps", InRun, "services and clients, made anew for each trial"),
		right("patch", "deployments.apps", InRun, "steps that remove, add and restart replicas").only(scales),
		right("deletecollection", "replicasets.apps", InRun, "pods that are to come no more"),
		right("watch deletecollection", "pods", InRun, "when pods come and go"),
		right("patch delete", "pods", InRun, "steps that remove replicas").only(scales),
		right("get", "pods/log", InRun, "the ledger of requests").only(measured(study.MeasureLedger)),
		right("list watch", endpointSlice, InRun, "when endpoints change"),
		right("patch create delete", "peerauthentications"+security, InRun, "mutual TLS of each sidecar").only(sidecars),
		right("patch create delete", "telemetries"+telemetry, InRun, "what sidecars log").only(sidecars),
		right("patch create delete", "envoyfilters"+networking, InRun, "a log of each attempt").only(all(sidecars, measured(study.MeasureLedger))),
		right("patch create delete", "virtualservices"+networking, InRun, "retries and timeouts").
			only(all(istio, set(study.FactorRetries, study.FactorRetryOn, study.FactorPerTryTimeout, study.FactorRequestTimeout))),
		right("patch create delete", "destinationrules"+networking, InRun, "outlier detection, circuit breakers, load balancing").
			only(all(istio, set(study.FactorOutlierDetection, study.FactorCircuitBreaker, study.FactorLoadBalancer))),
		right(open, forward, InMesh, "the policies that Linkerd's proxies are told").of(study.MeshLinkerd),
		right("list", "deployments.apps", Everywhere, "control planes that a step has taken away, to bring them back"),
	}},
	{Name: Faults, Doc: "A DaemonSet whose pods kill and pause processes and disturb packets of the study's pods; each fault is a lease that ends by itself.", when: onNodes,
		Privileged: "hostPID, user 0, capabilities KILL, NET_ADMIN, SYS_ADMIN, SYS_PTRACE",
		Without:    "steps process and network, and certificates that expire: leave them out",
		Rights: slices.Concat(nodeRole, []Right{
			right("get", "daemonsets.apps", InRun, "how many nodes have the role"),
			right("get", "services", InRun, "the addresses of services whose packets are disturbed"),
		})},
	{Name: ControlAway, Doc: "The mesh's control plane killed, paused or kept away by a step, and brought back.", when: controlPods, Rights: []Right{
		right("list", "pods", InMesh, "the control plane's pods"),
		right("delete", "pods", InMesh, "a control plane kept away").only(away),
		right("list patch", "deployments.apps", InMesh, "a control plane kept away").only(away),
	}},
	{Name: ConfigSteps, Doc: "Objects of the Kubernetes API that steps of a study change, anywhere; they are put back when the step ends.", when: configures, Rights: []Right{
		right("create patch", "configmaps", InRun, "the note of what to put back"),
	}},
}

var guestFeatures = []Feature{
	{Name: Journal, Doc: "The cluster's Lease, so that two runs do not change it at once, and the journal of what a run changed outside its namespaces.", when: always, Rights: []Right{
		right("create get delete", "namespaces", Everywhere, "the journal's own namespace"),
		right("create get update delete", "leases.coordination.k8s.io", InJournal, "who is at work in the cluster"),
		right("create get list update delete", "secrets", InJournal, "what to put back, also after a run was killed"),
	}},
	{Name: Keeper, Doc: "Roles that end by themselves when the runner is gone.", when: always,
		Without: alone,
		Rights: slices.Concat(
			keeps(InRun, "roles"+rbac, "rolebindings"+rbac, "serviceaccounts"),
			keeps(Everywhere, "clusterroles"+rbac, "clusterrolebindings"+rbac))},
}

const alone = "roles of a runner that died stay until somebody deletes the run's namespace"

var commandFeatures = []Feature{
	{Name: ProfilePod, Doc: "meshtrial profile POD: a namespace and a DaemonSet of its own, as profiles of studies.",
		Privileged: "as profiles of studies", Without: "CPU profiles by perf: --kind heap and others read a page of the pod's own instead",
		Rights: slices.Concat(nodeRole, []Right{
			right("create delete", "namespaces", Everywhere, "the profile's own namespace"),
			right("list", "pods", InRun, "whether the role is ready"),
			right(open, forward, InRun, "the role's control server"),
			right("get", "pods", InNamed, "the pod to profile"),
			right("get", "nodes", Everywhere, "the node's kernel").optional("the profile does not say on which kernel it was taken"),
		})},
	{Name: ProfilePage, Doc: "meshtrial profile POD of another kind than cpu: a page that the pod serves itself.", Rights: []Right{
		right("get", "pods", InNamed, "the pod to profile"),
		right(open, forward, InNamed, "its page of profiles"),
	}},
	{Name: Signals, Doc: "meshtrial signals: istiod's golden signals. It writes nothing.", Rights: istiodPages},
	{Name: Scope, Doc: "meshtrial scope: what brought which bytes of a proxy's configuration. It writes nothing.", Rights: []Right{
		right("list", "pods", InNamed, "pods with a sidecar"),
		right(open, forward, InNamed, "their proxies' admin pages"),
		right("list", "envoyfilters"+networking, Everywhere, "what EnvoyFilters add").optional("what EnvoyFilters add is unattributed"),
	}},
	{Name: PushTest, Doc: "meshtrial controlplane-test: three objects again and again in a namespace of yours. Its figures need signals besides, or a Prometheus.", Rights: slices.Concat([]Right{
		right("get", "namespaces", Everywhere, "whether the namespace is there").optional("a namespace that is not there is told later, by the API server"),
	}, each("patch create delete", InNamed, "the test's objects", "services", "gateways"+networking, "virtualservices"+networking))},
	{Name: Install, Doc: "meshtrial lab install and uninstall: a mesh from its charts. Who installs a mesh grants its control plane rights, which needs those rights, or escalate and bind.", Rights: slices.Concat(
		each("get patch create delete", Everywhere, "the mesh's charts", "namespaces", "serviceaccounts", "configmaps", "secrets", "services", "deployments.apps",
			"daemonsets.apps", autoscaler, "poddisruptionbudgets.policy", "cronjobs.batch", "customresourcedefinitions.apiextensions.k8s.io",
			"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io"),
		each("get patch create delete escalate bind", Everywhere, "the control plane's own rights", "clusterroles"+rbac, "roles"+rbac),
		each("get patch create delete", Everywhere, "the control plane's own rights", "clusterrolebindings"+rbac, "rolebindings"+rbac),
		[]Right{
			right("list", "deployments.apps", InMesh, "whether the control plane is available"),
			right("list", "pods", InMesh, "whether the control plane is available"),
			right("list", "nodes", Everywhere, "whether nodes have images that were assembled here"),
			right("list", "configmaps", Everywhere, "what istiod left"),
		},
		each("list", Everywhere, "objects of a definition, which then stays", "*"+networking, "*"+security, "*"+telemetry, "*.extensions.istio.io").of(study.MeshIstio),
		each("list", Everywhere, "objects of a definition, which then stays", "*.linkerd.io", "*.policy.linkerd.io", "*.workload.linkerd.io",
			"*.multicluster.linkerd.io", "*.gateway.networking.k8s.io").of(study.MeshLinkerd),
	)},
}

// istiodPages are what signals are read from.
var istiodPages = []Right{
	right("list", "pods", InMesh, "istiod's pods").of(study.MeshIstio),
	right(open, forward, InMesh, "istiod's metrics").of(study.MeshIstio),
	right("get", "nodes/proxy", Everywhere, "the CPU of istiod's container, from its kubelet; a strong right, which reaches the kubelet's exec").
		optional("the saturation of istiod's CPU is unknown"),
}

// lines are rows that are alike.
type lines []Right

// of makes them one mesh's.
func (l lines) of(mesh string) lines {
	for i := range l {
		l[i].mesh = mesh
	}
	return l
}

func each(verbs string, where Where, why string, names ...string) lines {
	out := make(lines, len(names))
	for i, name := range names {
		out[i] = right(verbs, name, where, why)
	}
	return out
}

// changed is what a kind of object needs that changes are about: made before
// or by a change, patched by later ones, watched, and deleted after the trial.
func changed(name string, kinds ...string) []Right {
	return []Right{right("create patch delete list watch", name, Everywhere, "objects that change").only(changes(kinds...))}
}

// keeps are objects that let the keeper do its work.
func keeps(where Where, names ...string) []Right {
	out := each("create", where, "what the keeper may do", names...)
	for i := range out {
		out[i].Without = alone
	}
	return out
}
