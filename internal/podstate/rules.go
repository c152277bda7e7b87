package podstate

import (
	"math"
	"regexp"
	"time"
)

// Code is what keeps a pod from becoming ready.
type Code string

// Codes of problems, in the order of the stages through which a pod passes.
const (
	// Refused: the API server does not let a controller make the pod.
	Refused Code = "pod-refused"
	// NotCreated: a controller failed to make the pod for a temporary reason.
	NotCreated Code = "pod-not-created"
	// Unschedulable: no node accepts the pod.
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
	// ContainerConfig: the kubelet cannot assemble the container's configuration.
	ContainerConfig Code = "container-config"
	// ContainerStart: the runtime cannot start the container's program.
	ContainerStart Code = "container-start"
	// ContainerCreate: the runtime cannot make the container.
	ContainerCreate Code = "container-create"
	// Crash: the container ends and is started again.
	Crash Code = "crash"
	// Failed: the pod has ended, or its node rejected it.
	Failed Code = "pod-failed"
	// NotReady: the pod is starting, or is running but not ready.
	NotReady Code = "not-ready"
)

// never is the patience with a problem that only the deadline of a wait ends.
const never = time.Duration(math.MaxInt64)

// rule says when a problem ends the wait for its pod.
type rule struct {
	// patience is how long the problem may last.
	patience time.Duration
	// again requires that the cluster has reported the problem again after that time: the
	// last event may be from an attempt before the cause was removed.
	again bool
}

// rules has a rule for each code. A wait that ends too early costs the user a run that
// would have worked; one that ends late costs a few minutes. So a problem ends a wait only
// if it cannot go away without intervention.
var rules = map[Code]rule{
	// A controller makes about twelve attempts in 20 s. A quota, Pod Security or a policy
	// does not change on its own; see passing.
	Refused: {patience: 20 * time.Second},
	// An admission webhook whose server is starting, or an API server that is busy.
	NotCreated: {patience: never},
	// Nodes join, autoscalers add nodes, other pods leave.
	Unschedulable: {patience: never},
	// The object's creator may be a few seconds behind: istiod writes its root certificate
	// into each new namespace. The kubelet tries 32 s and 64 s after the pod appeared, and
	// the second of these attempts has failed as well.
	ObjectMissing: {patience: 45 * time.Second, again: true},
	// A disk is detached from another node within minutes, a driver is being installed.
	Volume: {patience: never},
	// The kubelet retries every 10 to 15 s. A network plugin that is being installed on a
	// new node needs less than a minute.
	Sandbox: {patience: 60 * time.Second, again: true},
	// A name does not change.
	ImageName: {patience: 0},
	// The kubelet may not pull, so the image must be loaded by hand.
	ImageAbsent: {patience: 0},
	// The kubelet retries after 10 s and 20 s: two attempts have failed; see passing.
	ImagePull: {patience: 20 * time.Second},
	// A ConfigMap or Secret that the environment refers to may come late. A container that
	// must not run as root will not change.
	ContainerConfig: {patience: 60 * time.Second},
	// The image does not have the program, or is for another architecture.
	ContainerStart: {patience: 60 * time.Second},
	// A runtime under load times out, and succeeds later.
	ContainerCreate: {patience: never},
	// Programs exit while something they depend on is missing, or because steps of a study
	// kill them.
	Crash: {patience: never},
	// Its controller makes another one. Code that waits for a particular pod checks its
	// phase.
	Failed:   {patience: never},
	NotReady: {patience: never},
}

// passing matches messages of problems that may nevertheless pass within [passingPatience]:
// a registry that is down or limits rates, and a quota used up by pods that are about to
// end.
var passing = map[Code]*regexp.Regexp{
	ImagePull: regexp.MustCompile(`(?i)time-?out|deadline exceeded|connection re(set|fused)|unexpected EOF|too ?many ?requests|\b50[0234] [A-Z]`),
	Refused:   regexp.MustCompile(`exceeded quota: .*\bused: (\S*,)?[^\s,=]+=[1-9]`),
}

// passingPatience covers the 30 s that pods have to end, and then the next attempt:
// controllers retry 40 s and 80 s after their first attempt, kubelets after 30 s and 70 s.
const passingPatience = 90 * time.Second

// ruleOf returns the rule for a problem that the cluster describes by message.
func ruleOf(code Code, message string) rule {
	r := rules[code]
	if words := passing[code]; words != nil && words.MatchString(message) {
		r.patience = passingPatience
	}
	return r
}

// ends reports whether a problem ends a wait: it has lasted long enough and, if required,
// was reported again after that time.
func (r rule) ends(lasting, repeated time.Duration) bool {
	return r.patience != never && lasting >= r.patience && (!r.again || repeated >= r.patience)
}
