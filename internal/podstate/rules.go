package podstate

import (
	"math"
	"regexp"
	"time"
)

// Code is what keeps a pod from becoming ready.
type Code string

// Codes of problems, in the order in which a pod passes the stages where they occur.
const (
	// Refused: the API server does not let a controller make the pod.
	Refused Code = "pod-refused"
	// NotCreated: a controller failed to make the pod for a reason that passes.
	NotCreated Code = "pod-not-created"
	// Unschedulable: no node takes the pod.
	Unschedulable Code = "unschedulable"
	// ObjectMissing: a ConfigMap, Secret or claim that the pod mounts does not exist.
	ObjectMissing Code = "object-missing"
	// Volume: a volume cannot be attached or mounted for another reason.
	Volume Code = "volume"
	// Sandbox: the container runtime cannot make the pod's namespaces and network.
	Sandbox Code = "sandbox"
	// ImageName: the image's name is malformed.
	ImageName Code = "image-name"
	// ImageAbsent: the node does not have the image, and the pull policy is Never.
	ImageAbsent Code = "image-absent"
	// ImagePull: the node cannot pull the image.
	ImagePull Code = "image-pull"
	// ContainerConfig: the kubelet cannot put the container's configuration together.
	ContainerConfig Code = "container-config"
	// ContainerStart: the runtime cannot start the container's program.
	ContainerStart Code = "container-start"
	// ContainerCreate: the runtime cannot make the container.
	ContainerCreate Code = "container-create"
	// Crash: the container ends and is started again.
	Crash Code = "crash"
	// Failed: the pod has ended, or its node refused it.
	Failed Code = "pod-failed"
	// NotReady: the pod is on its way, or runs and is not ready.
	NotReady Code = "not-ready"
)

// never is the patience with a problem that only the deadline of a wait ends.
const never = time.Duration(math.MaxInt64)

// rule says when a problem ends the wait for its pod.
type rule struct {
	// patience is how long the problem may last.
	patience time.Duration
	// again requires that the cluster has reported the problem once more after that
	// time: the last event may be that of a try before the cause was removed.
	again bool
}

// rules holds a rule for each code. A wait that ends too early costs the user a run that
// would have worked; one that ends late costs a few minutes. So a problem ends a wait
// only where nothing that happens by itself removes it.
var rules = map[Code]rule{
	// A controller tries some twelve times in 20 s. A quota, Pod Security or a policy
	// does not change by itself; see passing.
	Refused: {patience: 20 * time.Second},
	// An admission webhook whose server is starting, an API server that is busy.
	NotCreated: {patience: never},
	// Nodes join, autoscalers add some, other pods leave.
	Unschedulable: {patience: never},
	// The object's creator may be a few seconds behind: istiod writes its root
	// certificate into each new namespace. The kubelet tries 32 s and 64 s after the pod
	// came: the second of these has failed too.
	ObjectMissing: {patience: 45 * time.Second, again: true},
	// A disk is detached from another node within minutes, a driver is being installed.
	Volume: {patience: never},
	// The kubelet tries again every 10 to 15 s. A network plugin that is being installed
	// on a new node needs less than a minute.
	Sandbox: {patience: 60 * time.Second, again: true},
	// A name does not change.
	ImageName: {patience: 0},
	// The kubelet may not pull, so the image must be loaded by hand.
	ImageAbsent: {patience: 0},
	// The kubelet tries again after 10 s and 20 s: two tries have failed; see passing.
	ImagePull: {patience: 20 * time.Second},
	// A ConfigMap or Secret that the environment refers to may come late; a container
	// that must not run as root stays one.
	ContainerConfig: {patience: 60 * time.Second},
	// The image has no such program, or it is for another architecture.
	ContainerStart: {patience: 60 * time.Second},
	// A runtime under load times out, and succeeds later.
	ContainerCreate: {patience: never},
	// Programs end while what they depend on is missing, and because steps of a study
	// kill them.
	Crash: {patience: never},
	// Its controller makes another one. Who waits for a certain pod looks at its phase.
	Failed:   {patience: never},
	NotReady: {patience: never},
}

// passing matches messages of problems that may pass by themselves after all, within
// [passingPatience]: a registry that is down or limits rates, and a quota that pods which
// are about to end use up.
var passing = map[Code]*regexp.Regexp{
	ImagePull: regexp.MustCompile(`(?i)time-?out|deadline exceeded|connection re(set|fused)|unexpected EOF|too ?many ?requests|\b50[0234] [A-Z]`),
	Refused:   regexp.MustCompile(`exceeded quota: .*\bused: (\S*,)?[^\s,=]+=[1-9]`),
}

// passingPatience covers the 30 s that pods have to end, and then the next try: controllers
// make one 40 s and one 80 s after their first, and kubelets after 30 s and 70 s.
const passingPatience = 90 * time.Second

// ruleOf is the rule for a problem that the cluster describes by message.
func ruleOf(code Code, message string) rule {
	r := rules[code]
	if words := passing[code]; words != nil && words.MatchString(message) {
		r.patience = passingPatience
	}
	return r
}

// ends says that a problem of a code ends a wait: it has lasted that long, and was
// reported last so long after it began.
func (r rule) ends(lasting, repeated time.Duration) bool {
	return r.patience != never && lasting >= r.patience && (!r.again || repeated >= r.patience)
}
