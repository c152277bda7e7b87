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
	late      = "pods may start before the mesh's root certificate is there, and take minutes"
	unseen    = "such workloads are not known, and get the Sidecar of their namespace when they run"
	unwatched = "pushes that change nothing are not traced to who causes them"
	alone     = "roles of a runner that died stay until somebody deletes the run's namespace"
	// Events explain what a controller or a kubelet cannot do for a pod that is waited for:
	// see internal/podwait.
	silentPods = "if a node cannot start a pod (network, volume) or a DaemonSet's pods are refused, the wait ends after minutes, and does not say why"
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
	{Verbs: "create", Name: "secrets", Where: InRun, Why: "the token that the role wants"},
	{Verbs: "create", Name: "daemonsets.apps", Where: InRun, Why: "the role on each node"},
}

var eventsOfRun = Row{Verbs: "list", Name: "events", Where: InRun, Why: "why pods do not come", Without: silentPods}

// table lists all rights by feature, in the order of the documentation.
var table = []feature{
	{Name: Reach, Doc: "Finds the cluster, and asks what this user may do. Kubernetes' own roles system:basic-user and system:discovery grant it to everybody.", when: always, rows: []Row{
		{Verbs: "get", Name: "/version", Where: OfURL, Why: "whether the cluster answers, and its version"},
		{Verbs: "get", Name: "/api/*", Where: OfURL, Why: "which kinds of objects it has"},
		{Verbs: "get", Name: "/apis/*", Where: OfURL, Why: "which kinds of objects it has"},
		{Verbs: "create", Name: "selfsubjectaccessreviews.authorization.k8s.io", Where: Everywhere, Why: "what this user may do"},
	}},
	{Name: EveryRun, Doc: "A namespace of the run's own, lines to its pods, and a look at the mesh.", when: always, rows: []Row{
		{Verbs: "create delete", Name: "namespaces", Where: Everywhere, Why: "the run's own namespace, with all that is in it"},
		{Verbs: "list", Name: "namespaces", Where: Everywhere, Why: "what earlier runs left", Without: "what a killed run left is neither named nor waited for; its pods are measured too"},
		{Verbs: "list watch", Name: "pods", Where: InRun, Why: "where the roles run, and whether they are ready; the runner sends each a sign of life every 10 s"},
		{Verbs: Open, Name: PortForward, Where: InRun, Why: "the control servers of the roles, and the proxies' admin pages"},
		eventsOfRun,
		{Verbs: "get", Name: "nodes", Where: Everywhere, Why: "the nodes' container runtime and zones", Without: "the report names no container runtime, and trials no zones of their pods"},
		{Verbs: "list", Name: "pods", Where: InMesh, Why: "the pods of the control plane, whose CPU is measured too", When: meshed},
		{Verbs: "list", Name: "events", Where: InMesh, Why: "why the mesh's pods do not come", When: meshed, Without: silentPods},
		{Verbs: "list", Name: "deployments.apps", Where: InMesh, Why: "whether the mesh is installed and ready", When: meshed},
		{Verbs: "list", Name: "mutatingwebhookconfigurations.admissionregistration.k8s.io", Where: Everywhere, Why: "whether sidecars are injected", When: meshed},
		{Verbs: "list", Name: "configmaps", Where: Everywhere, Why: "whether the mesh gives each namespace a root certificate", When: meshed, Without: late},
		{Verbs: "get", Name: "configmaps", Where: InRun, Why: "whether the root certificate has come", When: meshed, Without: late},
	}},
	{Name: Observe, Doc: "A DaemonSet whose pods read CPU, memory, threads and pressure of the containers on their node.", when: always,
		Privileged: "hostPID, user 0, capability SYS_PTRACE, the node's /sys/fs/cgroup read-only; it changes nothing on the node",
		Without:    "CPU and memory per container, threads and their waits, sockets, probes, pressure, the CPU of others, and the clocks of nodes: without it only studies of the data plane run, by --observe kubelet, and they know less",
		rows:       []Row{{Verbs: "create", Name: "daemonsets.apps", Where: InRun, Why: "the observer on each node"}}},
	{Name: Kubelets, Doc: "meshtrial run --observe kubelet: CPU and memory between the samples of the nodes' kubelets, in place of the observers.", rows: []Row{
		{Verbs: "get", Name: "nodes/proxy", Where: Everywhere, Why: "the CPU and memory of the run's containers and of istiod, from each kubelet's page /metrics/resource; a strong right, which reaches the kubelet's exec (nodes/stats is not enough to ask through the API server)"},
	}},
	{Name: DataPlane, Doc: "Load generators, workers and their sidecars.", when: dataPlane, rows: []Row{
		{Verbs: "create", Name: "services", Where: InRun, Why: "the workers' addresses"},
		{Verbs: "list", Name: "nodes", Where: Everywhere, Why: "which nodes and zones there are for pods that are to run on certain ones", When: placed},
		{Verbs: "create", Name: "deployments.apps", Where: InRun, Why: "load generators and workers"},
		{Verbs: "delete", Name: "pods", Where: InRun, Why: "pods recreated between blocks", When: renewed},
		{Verbs: "list", Name: endpointSlice, Where: InRun, Why: "whether the workers' endpoints are ready", Without: "the first trials may begin before proxies know all endpoints"},
	}},
	{Name: Profiles, Doc: "A DaemonSet whose pods have perf look at a proxy on their node (measure profile).", when: profiled,
		Privileged: "hostPID, user 0, capabilities DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK, KILL, PERFMON, SYSLOG, SYS_ADMIN, SYS_CHROOT, SYS_PTRACE",
		Without:    "CPU profiles of proxies: leave the measure profile out",
		also:       nodeRole},
	{Name: ControlPlane, Doc: "Simulated sidecars connected to istiod, its metrics and its logs.", when: controlPlane, rows: []Row{
		{Verbs: "create", Name: "deployments.apps", Where: InRun, Why: "the simulated sidecars' pod"},
		{Verbs: "get", Name: "/metrics", Where: OfURL, Why: "the cost of the API server", Without: "the report does not say what the API server used"},
	}},
	{Name: Levers, Doc: "Settings of istiod, reverted when the run ends.", when: levers},
	{Name: Population, Doc: "Namespaces, Services and pods on simulated nodes (kwok), and configuration that nobody uses.", when: controlPlane, rows: []Row{
		{Verbs: "list", Name: populated, Where: Everywhere, Why: "what is there of the simulated cluster"},
		{Verbs: "get create update delete", Name: populated, Where: Everywhere, Why: "the simulated cluster"},
		{Verbs: "patch", Name: "namespaces nodes", Where: Everywhere, Why: "what a dead run's simulated cluster belongs to"},
		{Verbs: "get create update delete", Name: endpointSlice, Where: Everywhere, Why: "endpoints that nobody uses", When: Counted(controlplane.FactorEndpointSlices)},
		{Verbs: "list delete", Name: "pods", Where: Everywhere, Why: "simulated pods: whether all run, and those that do not"},
		{Verbs: "list", Name: endpointSlice, Where: Everywhere, Why: "whether every Service has its endpoints"},
		{Verbs: "list", Name: "events", Where: Everywhere, Why: "why simulated pods do not come", Without: silentPods},
	}},
	{Name: Changes, Doc: "Changes of configuration and endpoints during a trial, and the watch that sees when the API server has them.", when: controlPlane, rows: []Row{
		{Verbs: Changing, Name: "services", Where: Everywhere, Why: "objects that change", When: OfChange(controlplane.ChangeServiceGatewayVirtualService, controlplane.ChangeService, controlplane.ChangeNoOp, controlplane.ChangeSidecar, controlplane.ChangeNamespaceLabels, controlplane.ChangeVirtualService, controlplane.ChangeDestinationRule)},
		{Verbs: Changing, Name: "namespaces", Where: Everywhere, Why: "objects that change", When: OfChange(controlplane.ChangeNamespaceLabels)},
		{Verbs: Changing, Name: endpointSlice, Where: Everywhere, Why: "changed endpoints, in slices of the driver's own", When: Both(ofEndpoints, ownSlices)},
		{Verbs: "list watch", Name: endpointSlice, Where: Everywhere, Why: "changed endpoints", When: Both(ofEndpoints, byControllers)},
		{Verbs: "list watch patch delete", Name: "pods", Where: Everywhere, Why: "pods that come, go and are labelled", When: ofEndpoints},
		{Verbs: "patch", Name: "pods/status", Where: Everywhere, Why: "pods that get unready", When: Both(OfChange(controlplane.ChangeEndpointsFlap), byControllers)},
		{Verbs: "patch", Name: "deployments.apps", Where: Everywhere, Why: "Deployments scaled and restarted", When: ofEndpoints},
	}},
	{Name: RealPods, Doc: "Real pods with real sidecars, and requests, beside the simulated ones.", when: realPods, rows: []Row{
		{Verbs: "create get update delete", Name: "deployments.apps", Where: Everywhere, Why: "real pods in the population's namespaces"},
		{Verbs: "list", Name: "pods", Where: Everywhere, Why: "whether they are ready"},
		{Verbs: Open, Name: PortForward, Where: Everywhere, Why: "their sidecars and control servers"},
		{Verbs: "create", Name: "services", Where: Everywhere, Why: "the address of the requests", When: requests},
		{Verbs: "get", Name: "services", Where: Everywhere, Why: "the real gateway's address", When: Gateway},
		{Verbs: "get", Name: "pods/log", Where: Everywhere, Why: "the attempts that the caller's sidecar logs", When: Traffic},
		{Verbs: "list watch", Name: endpointSlice, Where: Everywhere, Why: "the endpoints of the requests", When: Traffic},
		{Verbs: "watch", Name: "pods", Where: Everywhere, Why: "the endpoints of the requests", When: Traffic},
	}},
	{Name: Resilience, Doc: "The service graph, its clients, what becomes of every request, and nodes that steps drain.", when: resilient, rows: []Row{
		{Verbs: "create get deletecollection", Name: "configmaps", Where: InRun, Why: "settings of generators and services"},
		{Verbs: "create list delete", Name: "services", Where: InRun, Why: "the graph's services"},
		{Verbs: "create deletecollection", Name: "deployments.apps", Where: InRun, Why: "services and clients, recreated for each trial"},
		{Verbs: "patch", Name: "deployments.apps", Where: InRun, Why: "steps that remove, add and restart replicas", When: scales},
		{Verbs: "deletecollection", Name: "replicasets.apps", Where: InRun, Why: "pods that must not come back"},
		{Verbs: "watch deletecollection", Name: "pods", Where: InRun, Why: "when pods come and go"},
		{Verbs: "patch", Name: "pods", Where: InRun, Why: "steps that choose which replicas go", When: scales},
		{Verbs: "list get update", Name: "nodes", Where: Everywhere, Why: "steps that drain a node: it is cordoned; which one is known only then", When: resilience.Drains},
		{Verbs: "delete", Name: "pods", Where: InRun, Why: "pods that leave a node", When: resilience.Drains},
		{Verbs: "delete", Name: "pods", Where: InRun, Why: "steps that remove replicas at once", When: abrupt},
		{Verbs: "get", Name: "pods/log", Where: InRun, Why: "the ledger of requests", When: Ledger},
		{Verbs: "list watch", Name: endpointSlice, Where: InRun, Why: "when endpoints change"},
	}},
	{Name: Faults, Doc: "A DaemonSet whose pods kill and pause processes, bound the memory of one until the kernel kills it, and disturb packets of the study's pods; each fault is a lease that ends by itself.", when: onNodes,
		Privileged: "hostPID, user 0, capabilities KILL, NET_ADMIN, SYS_ADMIN, SYS_PTRACE",
		Without:    "steps process and network, and certificates that expire: leave them out",
		also:       nodeRole, rows: []Row{
			{Verbs: "get", Name: "daemonsets.apps", Where: InRun, Why: "how many nodes have the role"},
			{Verbs: "get", Name: "services", Where: InRun, Why: "the addresses of services whose packets are disturbed", When: HasStep[*fault.Network]()},
		}},
	{Name: ControlAway, Doc: "The mesh's control plane killed, paused or kept away by a step, and brought back.", when: controlPods, rows: []Row{
		{Verbs: "list", Name: "pods", Where: InMesh, Why: "the control plane's pods"},
		{Verbs: "delete", Name: "pods", Where: InMesh, Why: "a control plane kept away", When: away},
		{Verbs: "list get update", Name: "deployments.apps", Where: InMesh, Why: "a control plane kept away", When: away},
	}},
	{Name: ConfigSteps, Doc: "Objects of the Kubernetes API that steps of a study change, anywhere; they are reverted when the step ends.", when: HasStep[*fault.Config]()},
	{Name: Journal, Doc: "The cluster's Lease, so that two runs do not change it at once, and the journal of what a run changed outside its namespaces.", when: always, rows: []Row{
		{Verbs: "create get delete", Name: "namespaces", Where: Everywhere, Why: "the journal's own namespace"},
		{Verbs: "create get update delete", Name: "leases.coordination.k8s.io", Where: InJournal, Why: "which run is active in the cluster"},
		{Verbs: "create get list update delete", Name: "secrets", Where: InJournal, Why: "what to revert, also after a run was killed"},
	}},
	{Name: Keeper, Doc: "Roles that end by themselves when the runner is gone.", when: always,
		Without: alone,
		rows: []Row{
			{Verbs: "create", Name: "serviceaccounts deployments.apps", Where: InRun, Why: "the keeper's pod", Without: alone},
			{Verbs: "create", Name: "roles" + rbac + " rolebindings" + rbac, Where: InJournal, Why: "that the keeper may read the Lease", Without: alone},
			{Verbs: "create", Name: "clusterroles" + rbac + " clusterrolebindings" + rbac, Where: Everywhere, Why: "that the keeper may delete the run's namespace", Without: alone},
		}},
	{Name: PullSecret, Doc: "The Secret of --pull-secret, copied into the namespaces of a run's pods.", rows: []Row{
		{Verbs: "get", Name: "secrets", Where: InNamed, Why: "the Secret by which the image is pulled"},
		{Verbs: "create", Name: "secrets", Where: InRun, Why: "its copy"},
		{Verbs: "create update", Name: "secrets", Where: Everywhere, Why: "its copies beside real pods in the population's namespaces", When: realPods},
	}},
	{Name: Detached, Doc: "meshtrial run --detach: a Job in a namespace of yours, whose pod makes the run by a service account with the rights that the study needs. Whoever begins one needs these rights too; of those that a run can go without, the pod gets those that the user has.", rows: []Row{
		{Verbs: "create", Name: "serviceaccounts configmaps jobs.batch", Where: InNamed, Why: "the Job, its study, and how far it is"},
		{Verbs: "get patch", Name: "configmaps", Where: InNamed, Why: "how far it is: a right of the run's pod"},
		{Verbs: "get", Name: "persistentvolumeclaims", Where: InNamed, Why: "whether the volume for results is there"},
		{Verbs: "create", Name: "secrets", Where: InNamed, Why: "a copy of the Secret of --pull-secret", Without: "a Secret of --pull-secret must be in the namespace of the volume for results"},
		{Verbs: "create", Name: "clusterroles" + rbac + " clusterrolebindings" + rbac + " roles" + rbac + " rolebindings" + rbac, Where: Everywhere, Why: "the rights of the run's pod"},
		{Verbs: "delete", Name: "clusterroles" + rbac, Where: Everywhere, Why: "what a run made that could not be begun"},
		{Verbs: "list", Name: "clusterroles" + rbac, Where: Everywhere, Why: "whether there are others, once a run could not be begun", Without: "after a run that could not be begun the journal's namespace stays"},
		{Verbs: "get create patch", Name: "namespaces", Where: Everywhere, Why: "the journal's namespace, in which the run's pod has rights, and which stays as long as there are such runs"},
	}},
	{Name: DetachedRuns, Doc: "meshtrial attach, and runs list, fetch and delete. After the last run, delete takes the cluster as a run does: journal; without that right the journal's namespace stays.", rows: []Row{
		{Verbs: "get list patch", Name: "jobs.batch", Where: InNamed, Why: "the runs"},
		{Verbs: "list", Name: "pods configmaps", Where: InNamed, Why: "how far they are"},
		{Verbs: "get", Name: "pods/log", Where: InNamed, Why: "what a run says"},
		{Verbs: "create get delete", Name: "pods", Where: InNamed, Why: "a pod that reads the volume for results"},
		{Verbs: Open, Name: PortForward, Where: InNamed, Why: "its control server"},
		{Verbs: "list", Name: "events", Where: InNamed, Why: "why pods do not come", Without: "a quota or a policy that refuses a run's pod shows in the Job's events alone"},
		{Verbs: "get delete", Name: "clusterroles" + rbac, Where: Everywhere, Why: "what all objects of a run belong to"},
		{Verbs: "get patch", Name: "namespaces", Where: Everywhere, Why: "the journal's namespace, which goes after the last run"},
		{Verbs: "list", Name: "clusterroles" + rbac, Where: Everywhere, Why: "runs that have no Job, because the process that started them was killed, and whether this was the last run",
			Without: "runs that were killed as they began are not listed, and keep their rights; the journal's namespace stays"},
	}},
	{Name: ProfilePod, Doc: "meshtrial profile POD: a namespace and a DaemonSet of its own, as profiles of studies. It takes the cluster as a run does: journal, and keeper.",
		Privileged: "as profiles of studies", Without: "CPU profiles by perf: --kind heap and others read a page of the pod's own instead",
		also: nodeRole, rows: []Row{
			{Verbs: "create delete", Name: "namespaces", Where: Everywhere, Why: "the profile's own namespace"},
			{Verbs: "list watch", Name: "pods", Where: InRun, Why: "whether the role is ready; the runner sends it a sign of life every 10 s"},
			eventsOfRun,
			{Verbs: Open, Name: PortForward, Where: InRun, Why: "the role's control server"},
			{Verbs: "get", Name: "pods", Where: InNamed, Why: "the pod to profile"},
			{Verbs: "get", Name: "nodes", Where: Everywhere, Why: "the node's kernel", Without: "the profile does not say on which kernel it was taken"},
		}},
	{Name: ProfilePage, Doc: "meshtrial profile POD of another kind than cpu: a page that the pod serves itself.", rows: []Row{
		{Verbs: "get", Name: "pods", Where: InNamed, Why: "the pod to profile"},
		{Verbs: Open, Name: PortForward, Where: InNamed, Why: "its page of profiles"},
	}},
	{Name: Signals, Doc: "istiod's golden signals, for meshtrial controlplane-test. It writes nothing."},
	{Name: Assess, Doc: "meshtrial assess: what a running mesh costs and what limits it. It writes nothing: a port-forward is the one thing that it creates, and leaves no object.", rows: []Row{
		{Verbs: "list", Name: "pods", Where: Everywhere, Why: "the proxies, and what they request"},
		{Verbs: Open, Name: PortForward, Where: Everywhere, Why: "the proxies' admin pages", Without: "what proxies hold and carry is unknown"},
		{Verbs: "get", Name: "nodes/proxy", Where: Everywhere, Why: "CPU and memory of the proxies and of istiod, from the kubelets; a strong right, which reaches the kubelet's exec", Without: "what the mesh costs is unknown"},
		{Verbs: "list", Name: "namespaces services deployments.apps statefulsets.apps daemonsets.apps cronjobs.batch", Where: Everywhere, Why: "what is in the mesh", Without: "what is not listed is unknown"},
		{Verbs: "list watch", Name: "services " + endpointSlice, Where: Everywhere, Why: "who writes what without changing anything", Without: unwatched},
	}},
	{Name: AssessConfig, Doc: "meshtrial assess config: who owns the proxies' configuration, also of one namespace alone, and what is in the mesh, to generate Sidecars. It writes nothing.", rows: []Row{
		{Verbs: "list", Name: "pods", Where: InNamed, Why: "pods with a sidecar"},
		{Verbs: Open, Name: PortForward, Where: InNamed, Why: "their proxies' admin pages"},
		{Verbs: "list", Name: "namespaces", Where: Everywhere, Why: "namespaces the mesh has no use for", Without: "discoverySelectors are not suggested"},
		{Verbs: "list", Name: "pods", Where: Everywhere, Why: "workloads and their labels", Without: "workloads whose proxies are not read are not known"},
		{Verbs: "list", Name: "services", Where: Everywhere, Why: "what there is to call", Without: "only Services that proxies hold are known"},
		{Verbs: "list", Name: "deployments.apps statefulsets.apps daemonsets.apps cronjobs.batch", Where: Everywhere, Why: "workloads that have no pods, now or at all", Without: unseen},
	}},
	{Name: AssessApply, Doc: "meshtrial assess config --apply, beside assess-config: the Sidecars that it generated. It takes the cluster as a run does: journal."},
	{Name: PushTest, Doc: "meshtrial controlplane-test: three objects again and again in a namespace of yours. Its figures also need signals, or a Prometheus. It takes the cluster as a run does: journal.", rows: []Row{
		{Verbs: "get", Name: "namespaces", Where: Everywhere, Why: "whether the namespace is there", Without: "the API server reports a missing namespace, but later"},
		{Verbs: "patch create delete", Name: "services", Where: InNamed, Why: "the test's objects"},
	}},
}
