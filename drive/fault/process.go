package fault

import (
	"fmt"

	"github.com/meshtrial/meshtrial/study"
)

// Values of [Process].Of.
const (
	OfControlPlane = "istiod" // the control plane of any mesh
	OfProxy        = "envoy"  // the sidecar's proxy
	OfAgent        = "agent"  // starts the proxy and fetches its certificates
	OfWorker       = "worker"
	OfZtunnel      = "ztunnel"  // node proxies, which pods share
	OfWaypoint     = "waypoint" // the proxy in front of Services
)

// Values of [Process].Do.
const (
	DoKill  = "kill"  // SIGKILL; Kubernetes restarts the container
	DoPause = "pause" // SIGSTOP, and SIGCONT at the end
	DoOOM   = "oom"   // the kernel's OOM killer; Kubernetes restarts the container
)

// Process kills or pauses processes.
type Process struct {
	usual
	Of      string
	Service string // not for the control plane and a waypoint
	Pick    int    // pods (ztunnel: nodes), the first by name; All for every one
	Do      string
}

var processKind = Kind{Name: "process", Doc: "Kills or pauses processes.", New: func() Action { return &Process{} }}

func (*Process) Kind() string { return processKind.Name }

func (a *Process) Fields() []study.Field {
	return []study.Field{
		{Name: "of", Required: true, Doc: "Kind of process.", Value: study.OneOf(&a.Of, OfControlPlane, OfProxy, OfAgent, OfWorker, OfZtunnel, OfWaypoint)},
		{Name: "service", Doc: "Whose process; not for istiod and waypoint. For ztunnel: those on the nodes of its pods, instead of all that carry the trial's requests.", Value: service(&a.Service, a.Of != OfWorker)}, pickField(&a.Pick),
		{Name: "do", Required: true, Doc: "kill (SIGKILL; istiod, and a waypoint in a step that ends, stay away until the step ends), pause (SIGSTOP until the step ends), or oom (the container's memory limit is lowered until the kernel kills the process; for ztunnel and workers).", Value: study.OneOf(&a.Do, DoKill, DoPause, DoOOM)},
	}
}

func (a *Process) Check(_, service string) []Problem {
	switch {
	case a.Do == DoOOM && a.Of != OfZtunnel && a.Of != OfWorker:
		return []Problem{{Field: "do", Hint: "as do: " + DoKill + ", which has the same effect on requests",
			Text: fmt.Sprintf("%s is only for a process that is alone in its container and restarts: %s and %s", DoOOM, OfZtunnel, OfWorker)}}
	case a.Of == OfWaypoint && a.Service != "":
		return []Problem{{Field: "service", Hint: "leave it out", Text: "one waypoint serves all services"}}
	case a.Service != "", a.Of == OfControlPlane, a.Of == OfZtunnel, a.Of == OfWaypoint:
		return nil
	}
	return []Problem{{Field: "of", Hint: "as service: " + service, Text: fmt.Sprintf("%s needs a service", a.Of)}}
}

func (a *Process) Target() string { return a.Holds() }

func (a *Process) Holds() string {
	if a.Of == OfControlPlane || a.Service == "" {
		return a.Of
	}
	return a.Of + " of " + a.Service
}

func (a *Process) Reversible() bool {
	return a.Do == DoPause || a.Of == OfControlPlane || a.Of == OfWaypoint
}

func (a *Process) Needs() []string {
	if a.Do == DoOOM {
		return []string{NeedProcess, NeedMemory}
	}
	return []string{NeedProcess}
}

// Expect models only pauses of what no request depends on. How long processes need to recover from
// a kill is unknown, and requests to a paused one wait: they fail only if a timeout is shorter.
func (a *Process) Expect(*Standing) bool {
	return a.Do == DoPause && (a.Of == OfControlPlane || a.Of == OfAgent)
}

func (a *Process) Perform(p Performer) error { return p.Process(a) }
