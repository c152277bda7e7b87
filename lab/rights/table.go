package rights

import (
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/resilience"
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
	Ingress      = "ingress"
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
	Assess       = "assess"
	AssessConfig = "assess-config"
	AssessApply  = "assess-apply"
	PushTest     = "controlplane-test"
	Detached     = "detached"
	DetachedRuns = "detached runs"
)

// Resources and verbs that occur together.
const (
	rbac          = ".rbac.authorization.k8s.io"
	gatewayAPI    = ".gateway.networking.k8s.io"
	endpointSlice = "endpointslices.discovery.k8s.io"
	// PortForward is the resource of port-forwards.
	PortForward = "pods/portforward"
	// Open lists the verbs that a port-forward needs: newer API servers also require create
	// over WebSocket.
	Open = "get create"
	// populated lists the kinds of objects that every population has.
	populated = "namespaces nodes serviceaccounts services deployments.apps"
	// Changing lists the verbs for changes of a kind, including the watch that observes
	// them.
	Changing = "create patch delete list watch"
)

// What is lost without some rights.
const (
	late      = "pods may start before the mesh's root certificate exists, and then take minutes"
	unseen    = "such workloads are unknown, and get their namespace's Sidecar when they run"
	unwatched = "the cause of pushes that change nothing is unknown"
	alone     = "if the runner dies, its roles stay until someone deletes the run's namespace"
	// Events explain what a controller or a kubelet cannot do for a pod that is waited for:
	// see internal/podwait.
	silentPods = "if a node cannot start a pod (network, volume) or a DaemonSet's pods are rejected, the wait ends after minutes without a reason"
)

// feature is an entry of the table, made of constants only.
type feature struct {
	Name, Doc, Privileged, Without string

	when When
	rows []Row
	also []Row // shared with other features
}

// Row is one or more rights of a feature.
type Row struct {
	Verbs string // as the API server's audit log writes them
	// Name is the resource as kubectl writes it (deployments.apps, pods/log), several of
	// them, or a path.
	Name  string
	Where Where
	Why   string
	// Without says what is lost without the right; "" means that it is required.
	Without string
	// When reports whether a plan needs it; nil means that all plans with the feature do.
	When When

	mesh string // the mesh that needs it; "" means all
}

// nodeRole lists the rights of node roles that require a token.
var nodeRole = []Row{
	{Verbs: "create", Name: "secrets", Where: InRun, Why: "the role's token"},
	{Verbs: "create", Name: "daemonsets.apps", Where: InRun, Why: "the role on each node"},
}

var eventsOfRun = Row{Verbs: "list", Name: "events", Where: InRun, Why: "why pods do not start", Without: silentPods}

// table lists all rights by feature, in the order of the documentation.
var table = []feature{
	{Name: Reach, Doc: "Finds the cluster and this user's rights. Kubernetes' roles system:basic-user and system:discovery grant it to everybody.", when: always, rows: []Row{
		{Verbs: "get", Name: "/version", Where: OfURL, Why: "whether the cluster responds, and its version"},
		{Verbs: "get", Name: "/api/*", Where: OfURL, Why: "which kinds of objects it has"},
		{Verbs: "get", Name: "/apis/*", Where: OfURL, Why: "which kinds of objects it has"},
		{Verbs: "create", Name: "selfsubjectaccessreviews.authorization.k8s.io", Where: Everywhere, Why: "what this user may do"},
	}},
	{Name: EveryRun, Doc: "The run's own namespace, port-forwards to its pods, and the state of the mesh.", when: always, rows: []Row{
		{Verbs: "create delete", Name: "namespaces", Where: Everywhere, Why: "the run's own namespace, with all that is in it"},
		{Verbs: "list", Name: "namespaces", Where: Everywhere, Why: "what earlier runs left", Without: "leftovers of a killed run are neither reported nor waited for, and its pods are measured too"},
		{Verbs: "list watch", Name: "pods", Where: InRun, Why: "where the roles run, and whether they are ready; the runner sends each a heartbeat every 10 s"},
		{Verbs: Open, Name: PortForward, Where: InRun, Why: "the control servers of the roles, and the proxies' admin pages"},
		eventsOfRun,
		{Verbs: "get", Name: "nodes", Where: Everywhere, Why: "the nodes' container runtime and zones", Without: "the report lacks the container runtime, and trials lack their pods' zones"},
		{Verbs: "list", Name: "pods", Where: InMesh, Why: "the pods of the control plane, whose CPU is measured too", When: meshed},
		{Verbs: "list", Name: "events", Where: InMesh, Why: "why the mesh's pods do not start", When: meshed, Without: silentPods},
		{Verbs: "list", Name: "deployments.apps", Where: InMesh, Why: "whether the mesh is installed and ready", When: meshed},
		{Verbs: "list", Name: "mutatingwebhookconfigurations.admissionregistration.k8s.io", Where: Everywhere, Why: "whether sidecars are injected", When: meshed},
		{Verbs: "list", Name: "configmaps", Where: Everywhere, Why: "whether the mesh gives each namespace a root certificate", When: meshed, Without: late},
		{Verbs: "get", Name: "configmaps", Where: InRun, Why: "whether the root certificate exists", When: meshed, Without: late},
	}},
	{Name: Observe, Doc: "A DaemonSet that reads CPU, memory, threads and pressure of the containers on each node.", when: always,
		Privileged: "hostPID, user 0, capability SYS_PTRACE, the node's /sys/fs/cgroup read-only; it changes nothing on the node",
		Without:    "CPU and memory per container, threads and their waits, sockets, probes, pressure, the CPU of others, and the nodes' clocks: without it only data plane studies run (--observe kubelet), with less detail",
		rows:       []Row{{Verbs: "create", Name: "daemonsets.apps", Where: InRun, Why: "the observer on each node"}}},
	{Name: Kubelets, Doc: "meshtrial run --observe kubelet: CPU and memory from the nodes' kubelets, in place of the observers.", rows: []Row{
		{Verbs: "get", Name: "nodes/proxy", Where: Everywhere, Why: "the CPU and memory of the run's containers and of istiod, from each kubelet's /metrics/resource; a powerful right, which includes the kubelet's exec (nodes/stats does not suffice through the API server)"},
	}},
	{Name: DataPlane, Doc: "Load generators, workers and their sidecars.", when: dataPlane, rows: []Row{
		{Verbs: "create", Name: "services", Where: InRun, Why: "the workers' addresses"},
		{Verbs: "list", Name: "nodes", Where: Everywhere, Why: "the nodes and zones on which to place pods", When: placed},
		{Verbs: "create", Name: "deployments.apps", Where: InRun, Why: "load generators and workers"},
		{Verbs: "delete", Name: "pods", Where: InRun, Why: "pods recreated between blocks", When: renewed},
		{Verbs: "list", Name: endpointSlice, Where: InRun, Why: "whether the workers' endpoints are ready", Without: "the first trials may begin before proxies have all endpoints"},
	}},
	{Name: Profiles, Doc: "A DaemonSet that profiles proxies on its node with perf (measure profile).", when: profiled,
		Privileged: "hostPID, user 0, capabilities DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK, KILL, PERFMON, SYSLOG, SYS_ADMIN, SYS_CHROOT, SYS_PTRACE",
		Without:    "CPU profiles of proxies: leave out measure profile",
		also:       nodeRole},
	{Name: ControlPlane, Doc: "Simulated sidecars connected to istiod, its metrics and its logs.", when: controlPlane, rows: []Row{
		{Verbs: "create", Name: "deployments.apps", Where: InRun, Why: "the simulated sidecars' pod"},
		{Verbs: "get", Name: "/metrics", Where: OfURL, Why: "the cost of the API server", Without: "the report lacks the API server's CPU"},
	}},
	{Name: Ingress, Doc: "A Gateway with its routes, the pod behind them, and the one that requests them.", when: gateways, rows: []Row{
		{Verbs: "create", Name: "deployments.apps services", Where: InRun, Why: "both pods, and the address of the one behind the routes"},
		{Verbs: "create delete", Name: "secrets", Where: InRun, Why: "the listeners' certificates"},
		{Verbs: "get list create delete", Name: "gateways" + gatewayAPI, Where: InRun, Why: "a trial's Gateway and its status"},
		{Verbs: "list create delete", Name: "listenersets" + gatewayAPI, Where: InRun, Why: "listeners beyond the Gateway's own"},
		{Verbs: "get create delete", Name: "httproutes" + gatewayAPI, Where: InRun, Why: "routes, and why one is never served"},
	}},
	{Name: Levers, Doc: "Settings of istiod, reverted when the run ends.", when: levers},
	{Name: Population, Doc: "Namespaces, Services and pods on simulated nodes (kwok), and unused configuration.", when: controlPlane, rows: []Row{
		{Verbs: "list", Name: populated, Where: Everywhere, Why: "what exists of the simulated cluster"},
		{Verbs: "get create update delete", Name: populated, Where: Everywhere, Why: "the simulated cluster"},
		{Verbs: "patch", Name: "namespaces nodes", Where: Everywhere, Why: "taking over a dead run's simulated cluster"},
		{Verbs: "get create update delete", Name: endpointSlice, Where: Everywhere, Why: "unused endpoints", When: Counted(controlplane.FactorEndpointSlices)},
		{Verbs: "list delete", Name: "pods", Where: Everywhere, Why: "whether all simulated pods run; deletes those that do not"},
		{Verbs: "list", Name: endpointSlice, Where: Everywhere, Why: "whether every Service has its endpoints"},
		{Verbs: "list", Name: "events", Where: Everywhere, Why: "why simulated pods do not start", Without: silentPods},
	}},
	{Name: Changes, Doc: "Changes of configuration and endpoints during a trial, and the watch that shows when the API server has them.", when: controlPlane, rows: []Row{
		{Verbs: Changing, Name: "services", Where: Everywhere, Why: "objects that change", When: OfChange(controlplane.ChangeServiceGatewayVirtualService, controlplane.ChangeService, controlplane.ChangeNoOp, controlplane.ChangeSidecar, controlplane.ChangeNamespaceLabels, controlplane.ChangeVirtualService, controlplane.ChangeDestinationRule)},
		{Verbs: Changing, Name: "namespaces", Where: Everywhere, Why: "objects that change", When: OfChange(controlplane.ChangeNamespaceLabels)},
		{Verbs: Changing, Name: endpointSlice, Where: Everywhere, Why: "changed endpoints, in the driver's own slices", When: Both(ofEndpoints, ownSlices)},
		{Verbs: "list watch", Name: endpointSlice, Where: Everywhere, Why: "changed endpoints", When: Both(ofEndpoints, byControllers)},
		{Verbs: "list watch patch delete", Name: "pods", Where: Everywhere, Why: "pods that are created, deleted and labelled", When: ofEndpoints},
		{Verbs: "patch", Name: "pods/status", Where: Everywhere, Why: "pods that become unready", When: Both(OfChange(controlplane.ChangeEndpointsFlap), byControllers)},
		{Verbs: "patch", Name: "deployments.apps", Where: Everywhere, Why: "Deployments scaled and restarted", When: ofEndpoints},
	}},
	{Name: RealPods, Doc: "Real pods with real sidecars, and requests, beside the simulated ones.", when: realPods, rows: []Row{
		{Verbs: "create get update delete", Name: "deployments.apps", Where: Everywhere, Why: "real pods in the population's namespaces"},
		{Verbs: "list", Name: "pods", Where: Everywhere, Why: "whether they are ready"},
		{Verbs: Open, Name: PortForward, Where: Everywhere, Why: "their sidecars and control servers"},
		{Verbs: "create", Name: "services", Where: Everywhere, Why: "the address of the requests", When: requests},
		{Verbs: "get", Name: "services", Where: Everywhere, Why: "the real gateway's address", When: Gateway},
		{Verbs: "get", Name: "pods/log", Where: Everywhere, Why: "the attempts logged by the caller's sidecar", When: Traffic},
		{Verbs: "list watch", Name: endpointSlice, Where: Everywhere, Why: "the endpoints of the requests", When: Traffic},
		{Verbs: "watch", Name: "pods", Where: Everywhere, Why: "the endpoints of the requests", When: Traffic},
	}},
	{Name: Resilience, Doc: "The service graph, its clients, the outcome of every request, and nodes that steps drain.", when: resilient, rows: []Row{
		{Verbs: "create get deletecollection", Name: "configmaps", Where: InRun, Why: "settings of generators and services"},
		{Verbs: "create list delete", Name: "services", Where: InRun, Why: "the graph's services"},
		{Verbs: "create deletecollection", Name: "deployments.apps", Where: InRun, Why: "services and clients, recreated for each trial"},
		{Verbs: "patch", Name: "deployments.apps", Where: InRun, Why: "steps that remove, add and restart replicas", When: scales},
		{Verbs: "deletecollection", Name: "replicasets.apps", Where: InRun, Why: "pods that must not come back"},
		{Verbs: "watch deletecollection", Name: "pods", Where: InRun, Why: "when pods start and end"},
		{Verbs: "patch", Name: "pods", Where: InRun, Why: "steps that choose which replicas to remove", When: scales},
		{Verbs: "list get update", Name: "nodes", Where: Everywhere, Why: "steps that cordon and drain a node, which is chosen only then", When: resilience.Drains},
		{Verbs: "list get", Name: "nodes", Where: Everywhere, Why: "zones, over which pods are spread and which steps cut off", When: resilience.Zoned},
		{Verbs: "delete", Name: "pods", Where: InRun, Why: "pods that a step drains", When: resilience.Drains},
		{Verbs: "delete", Name: "pods", Where: InRun, Why: "steps that remove replicas at once", When: abrupt},
		{Verbs: "get", Name: "pods/log", Where: InRun, Why: "the ledger of requests", When: Ledger},
		{Verbs: "list watch", Name: endpointSlice, Where: InRun, Why: "when endpoints change"},
	}},
	{Name: Faults, Doc: "A DaemonSet that kills and pauses processes, lowers a process's memory limit until the kernel kills it, and disturbs packets of the study's pods; each fault is a lease that expires by itself.", when: onNodes,
		Privileged: "hostPID, user 0, capabilities KILL, NET_ADMIN, SYS_ADMIN, SYS_PTRACE",
		Without:    "steps process, network and zone, and certificates that expire: leave these out",
		also:       nodeRole, rows: []Row{
			{Verbs: "get", Name: "daemonsets.apps", Where: InRun, Why: "how many nodes have the role"},
			{Verbs: "get", Name: "services", Where: InRun, Why: "the addresses of services whose packets are disturbed", When: HasStep[*fault.Network]()},
		}},
	{Name: ControlAway, Doc: "Steps that kill, pause or keep away the mesh's control plane, and bring it back.", when: controlPods, rows: []Row{
		{Verbs: "list", Name: "pods", Where: InMesh, Why: "the control plane's pods"},
		{Verbs: "delete", Name: "pods", Where: InMesh, Why: "a control plane kept away", When: away},
		{Verbs: "list get update", Name: "deployments.apps", Where: InMesh, Why: "a control plane kept away", When: away},
	}},
	{Name: ConfigSteps, Doc: "Any objects that a study's steps change; reverted when the step ends.", when: HasStep[*fault.Config]()},
	{Name: Journal, Doc: "The cluster's Lease, so that two runs do not change it at once, and the journal of a run's changes outside its namespaces.", when: always, rows: []Row{
		{Verbs: "create get delete", Name: "namespaces", Where: Everywhere, Why: "the journal's own namespace"},
		{Verbs: "create get update", Name: "leases.coordination.k8s.io", Where: InJournal, Why: "which run is active in the cluster"},
		{Verbs: "create get list update delete", Name: "secrets", Where: InJournal, Why: "what to revert, even after a run was killed"},
	}},
	{Name: Keeper, Doc: "Deletes the run's roles when its runner has died.", when: always,
		Without: alone,
		rows: []Row{
			{Verbs: "create", Name: "serviceaccounts deployments.apps", Where: InRun, Why: "the keeper's pod", Without: alone},
			{Verbs: "create", Name: "roles" + rbac + " rolebindings" + rbac, Where: InJournal, Why: "the keeper's right to read the Lease", Without: alone},
			{Verbs: "create", Name: "clusterroles" + rbac + " clusterrolebindings" + rbac, Where: Everywhere, Why: "the keeper's right to delete the run's namespace", Without: alone},
		}},
	{Name: PullSecret, Doc: "The Secret of --pull-secret, copied to the namespaces of a run's pods.", rows: []Row{
		{Verbs: "get", Name: "secrets", Where: InNamed, Why: "the Secret with which the image is pulled"},
		{Verbs: "create", Name: "secrets", Where: InRun, Why: "its copy"},
		{Verbs: "create update", Name: "secrets", Where: Everywhere, Why: "its copies beside real pods in the population's namespaces", When: realPods},
	}},
	{Name: Detached, Doc: "meshtrial run --detach: a Job in a namespace of yours, whose pod runs the study under a service account with the rights that the study needs. Whoever starts it needs these rights too; the pod gets those optional rights that the user has.", rows: []Row{
		{Verbs: "create", Name: "serviceaccounts configmaps jobs.batch", Where: InNamed, Why: "the Job, its study, and its progress"},
		{Verbs: "get patch", Name: "configmaps", Where: InNamed, Why: "its progress, which the run's pod writes"},
		{Verbs: "get", Name: "persistentvolumeclaims", Where: InNamed, Why: "whether the volume for results exists"},
		{Verbs: "create", Name: "secrets", Where: InNamed, Why: "a copy of the Secret of --pull-secret", Without: "the Secret of --pull-secret must be in the namespace of the volume for results"},
		{Verbs: "create", Name: "clusterroles" + rbac + " clusterrolebindings" + rbac + " roles" + rbac + " rolebindings" + rbac, Where: Everywhere, Why: "the rights of the run's pod"},
		{Verbs: "delete", Name: "clusterroles" + rbac, Where: Everywhere, Why: "removing what a run created that failed to start"},
		{Verbs: "list", Name: "clusterroles" + rbac, Where: Everywhere, Why: "whether other runs exist after one failed to start", Without: "after a run that failed to start, the journal's namespace stays"},
		{Verbs: "get create patch", Name: "namespaces", Where: Everywhere, Why: "the journal's namespace, which stays while there are such runs"},
	}},
	{Name: DetachedRuns, Doc: "meshtrial attach, and runs list, fetch and delete. After the last run, delete also needs journal to remove the journal's namespace.", rows: []Row{
		{Verbs: "get list patch", Name: "jobs.batch", Where: InNamed, Why: "the runs"},
		{Verbs: "list", Name: "pods configmaps", Where: InNamed, Why: "their progress"},
		{Verbs: "get", Name: "pods/log", Where: InNamed, Why: "a run's output"},
		{Verbs: "create get delete", Name: "pods", Where: InNamed, Why: "a pod that reads the volume for results"},
		{Verbs: Open, Name: PortForward, Where: InNamed, Why: "its control server"},
		{Verbs: "list", Name: "events", Where: InNamed, Why: "why pods do not start", Without: "a quota or policy that rejects a run's pod shows only in the Job's events"},
		{Verbs: "get delete", Name: "clusterroles" + rbac, Where: Everywhere, Why: "the owner of all objects of a run"},
		{Verbs: "get patch", Name: "namespaces", Where: Everywhere, Why: "the journal's namespace, deleted after the last run"},
		{Verbs: "list", Name: "clusterroles" + rbac, Where: Everywhere, Why: "runs without a Job, whose starting process was killed, and whether this was the last run",
			Without: "runs killed while starting are not listed and keep their rights; the journal's namespace stays"},
	}},
	{Name: ProfilePod, Doc: "meshtrial profile POD: its own namespace and DaemonSet, like profiles of studies. Also needs journal and keeper.",
		Privileged: "as for profiles of studies", Without: "CPU profiles by perf: --kind heap and others read the pod's own pages instead",
		also: nodeRole, rows: []Row{
			{Verbs: "create delete", Name: "namespaces", Where: Everywhere, Why: "the profile's own namespace"},
			{Verbs: "list watch", Name: "pods", Where: InRun, Why: "whether the role is ready; the runner sends it a heartbeat every 10 s"},
			eventsOfRun,
			{Verbs: Open, Name: PortForward, Where: InRun, Why: "the role's control server"},
			{Verbs: "get", Name: "pods", Where: InNamed, Why: "the pod to profile"},
			{Verbs: "get", Name: "nodes", Where: Everywhere, Why: "the node's kernel", Without: "the profile does not name the kernel"},
		}},
	{Name: ProfilePage, Doc: "meshtrial profile POD of a kind other than cpu, from a page that the pod serves.", rows: []Row{
		{Verbs: "get", Name: "pods", Where: InNamed, Why: "the pod to profile"},
		{Verbs: Open, Name: PortForward, Where: InNamed, Why: "its profile pages"},
	}},
	{Name: Signals, Doc: "istiod's golden signals, for meshtrial controlplane-test. It writes nothing."},
	{Name: Assess, Doc: "meshtrial assess: what a running mesh costs and what limits it. It writes nothing; it only opens port-forwards.", rows: []Row{
		{Verbs: "list", Name: "pods", Where: Everywhere, Why: "the proxies and their resource requests"},
		{Verbs: Open, Name: PortForward, Where: Everywhere, Why: "the proxies' admin pages", Without: "the proxies' configuration and load are unknown"},
		{Verbs: "get", Name: "nodes/proxy", Where: Everywhere, Why: "CPU and memory of the proxies and of istiod, from the kubelets; a powerful right, which includes the kubelet's exec", Without: "what the mesh costs is unknown"},
		{Verbs: "list", Name: "namespaces services deployments.apps statefulsets.apps daemonsets.apps cronjobs.batch", Where: Everywhere, Why: "what is in the mesh", Without: "what is not listed is unknown"},
		{Verbs: "list", Name: "horizontalpodautoscalers.autoscaling", Where: Everywhere, Why: "how many replicas of istiod and of gateways there may be", Without: "that is unknown"},
		{Verbs: "list watch", Name: "services " + endpointSlice, Where: Everywhere, Why: "who writes objects without changing them", Without: unwatched},
	}},
	{Name: AssessConfig, Doc: "meshtrial assess config: which objects the proxies' configuration comes from, also of only one namespace, and what is in the mesh, to generate Sidecars. It writes nothing.", rows: []Row{
		{Verbs: "list", Name: "pods", Where: InNamed, Why: "pods with a sidecar"},
		{Verbs: Open, Name: PortForward, Where: InNamed, Why: "their proxies' admin pages"},
		{Verbs: "list", Name: "namespaces", Where: Everywhere, Why: "namespaces that the mesh does not need", Without: "discoverySelectors are not suggested"},
		{Verbs: "list", Name: "pods", Where: Everywhere, Why: "workloads and their labels", Without: "workloads whose proxies are not read are unknown"},
		{Verbs: "list", Name: "services", Where: Everywhere, Why: "the Services that can be called", Without: "only Services in the proxies' configuration are known"},
		{Verbs: "list", Name: "deployments.apps statefulsets.apps daemonsets.apps cronjobs.batch", Where: Everywhere, Why: "workloads without pods", Without: unseen},
	}},
	{Name: AssessApply, Doc: "meshtrial assess config --apply, in addition to assess-config: the generated Sidecars. Also needs journal."},
	{Name: PushTest, Doc: "meshtrial controlplane-test: writes three objects repeatedly in a namespace of yours. Its figures also need signals, or a Prometheus. Also needs journal.", rows: []Row{
		{Verbs: "get", Name: "namespaces", Where: Everywhere, Why: "whether the namespace exists", Without: "a missing namespace is reported later, by the API server"},
		{Verbs: "patch create delete", Name: "services", Where: InNamed, Why: "the test's objects"},
		{Verbs: "get create delete", Name: "configmaps", Where: InNamed, Why: "owns the test's objects, which are deleted with it if the test is killed"},
	}},
}
