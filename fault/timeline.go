package fault

import (
	"time"
)

// Timeline is what happens in a trial, counted from when the load begins.
type Timeline struct {
	Duration time.Duration // of the trial; nothing begins later
	Steps    []Step
}

// Step is one entry of a timeline. It begins at At or, if When is given, when
// that holds for the first time after At.
type Step struct {
	Name string // of its windows; unique within a timeline
	At   time.Duration
	// When is a CEL expression over what the clients see; see package
	// analysis for its variables. Empty: At is all that counts.
	When string
	// Every and Times repeat the step: Times occurrences, Every apart. A step
	// with When happens once.
	Every time.Duration
	Times int // 0 counts as 1
	// For is how long it lasts before it is undone; 0 leaves it in force
	// until the trial's end, when everything is put back.
	For    time.Duration
	Action Action
}

// Occurrence is one time that a step happens.
type Occurrence struct {
	Step  int    // index in Timeline.Steps
	Turn  int    // from 0
	Name  string // the step's, with "#2" for its second turn and so on
	Begin time.Duration
	// End is when it is undone; 0: not before the trial's end.
	End time.Duration
	// When delays Begin until it holds; End moves with it.
	When string
	For  time.Duration
	Action
}

// Action is what a step does. Exactly one of the fields is set.
type Action struct {
	Remove       *Replicas
	Add          *Replicas
	Restart      *Restart
	Worker       *Worker
	Process      *Process
	Network      *Network
	Config       *Config
	Load         *Load
	Certificates *Certificates
}

// Kinds of actions, as studies and records call them.
const (
	KindRemove       = "remove"
	KindAdd          = "add"
	KindRestart      = "restart"
	KindWorker       = "worker"
	KindProcess      = "process"
	KindNetwork      = "network"
	KindConfig       = "config"
	KindLoad         = "load"
	KindCertificates = "certificates"
)

// Kinds lists the kinds of actions in the order that documents use.
func Kinds() []string {
	return []string{KindRemove, KindAdd, KindRestart, KindWorker, KindProcess, KindNetwork, KindConfig, KindLoad, KindCertificates}
}

// All picks every replica of a service.
const All = 0

// Replicas are taken from a service or given to it.
type Replicas struct {
	Service  string
	Replicas int
	// Abrupt ends removed pods at once, without the time that Kubernetes
	// gives them to drain.
	Abrupt bool
}

// Restart replaces every pod of a service, a few at a time, as `kubectl
// rollout restart` does.
type Restart struct {
	Service string
	// Proxy is the version of Envoy that the new pods' sidecars have; "" for
	// the same as before.
	Proxy string
}

// Worker changes how replicas of a service behave, all of them in one change.
type Worker struct {
	Service string
	Pick    int // how many replicas, the first by name; All for every one
	Set     Behaviour
}

// What a process action is about.
const (
	OfControlPlane = "istiod" // the mesh's control plane, whichever it is
	OfProxy        = "envoy"  // the sidecar's proxy
	OfAgent        = "agent"  // what starts the proxy and fetches its certificates
	OfWorker       = "worker"
)

// What is done to a process.
const (
	DoKill  = "kill"  // SIGKILL; Kubernetes starts it again
	DoPause = "pause" // SIGSTOP, and SIGCONT at the end
)

// Process kills or pauses processes.
type Process struct {
	Of      string
	Service string // whose; not for the control plane
	Pick    int    // pods, the first by name; All for every one
	Do      string
}

// Network disturbs packets from one service's pods to another's. At most one
// of the disturbances may be set where a kernel cannot combine them.
type Network struct {
	From, To string // services; LoadService stands for the clients
	Pick     int    // pods of To; All for every one
	Cut      bool
	Lose     float64       // share of packets, 0..1
	Delay    time.Duration // of each packet
	Rate     int64         // bits a second; 0 for no limit
}

// LoadService is the name by which steps call the clients.
const LoadService = "clients"

// Config changes objects of the Kubernetes API.
type Config struct {
	Apply  []map[string]any // whole objects; those there are replaced
	Delete []ObjectRef
	// Rejected says that proxies are expected to reject it: the proof is then
	// that they did.
	Rejected bool
}

// ObjectRef names an object.
type ObjectRef struct{ APIVersion, Kind, Namespace, Name string }

// Load changes the clients' rate.
type Load struct {
	Rate float64 // requests a second in all
	// Announced tells the mesh's operator beforehand: replicas of Service
	// are raised to Replicas this long before the step.
	Announced time.Duration
	Service   string
	Replicas  int
}

// What is done to certificates.
const (
	DoRotate = "rotate"
	DoExpire = "expire"
)

// Certificates has workload certificates replaced, or lets them run out.
type Certificates struct {
	Service string
	Do      string
}

// Kind returns which field is set; "" if not exactly one is.
func (a Action) Kind() string {
	kind := ""
	for _, f := range []struct {
		set  bool
		kind string
	}{
		{a.Remove != nil, KindRemove}, {a.Add != nil, KindAdd}, {a.Restart != nil, KindRestart}, {a.Worker != nil, KindWorker},
		{a.Process != nil, KindProcess}, {a.Network != nil, KindNetwork}, {a.Config != nil, KindConfig}, {a.Load != nil, KindLoad},
		{a.Certificates != nil, KindCertificates},
	} {
		switch {
		case f.set && kind != "":
			return ""
		case f.set:
			kind = f.kind
		}
	}
	return kind
}
