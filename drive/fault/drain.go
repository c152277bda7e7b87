package fault

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/study"
)

// Drain cordons nodes and deletes the pods of services there. `kubectl drain` evicts instead,
// so a PodDisruptionBudget does not apply here. The clients, a waypoint and the pods of
// DaemonSets stay.
type Drain struct {
	usual
	Service string // the nodes of its pods are drained
	Pick    int    // how many of its pods choose nodes, the first by name
}

var drainKind = Kind{Name: "drain", Doc: "Cordons nodes and evicts the services' pods, much as kubectl drain does. Clients, ztunnel and waypoints stay.", New: func() Action { return &Drain{} }}

func (*Drain) Kind() string { return drainKind.Name }

func (a *Drain) Fields() []study.Field {
	return []study.Field{serviceField(&a.Service),
		{Name: "pick", Doc: "How many of its pods, the first by name, choose the nodes; 1 if left out.", Value: study.Int(&a.Pick, 1, graph.MaxReplicas).OmitZero()},
	}
}

func (a *Drain) Settle() {
	a.Pick = cmp.Or(a.Pick, 1)
}

func (a *Drain) Target() string { return a.Holds() }
func (a *Drain) Holds() string  { return "nodes of " + a.Service }

func (a *Drain) Perform(p Performer) error { return p.Drain(a) }

// Drains reports whether a step drains nodes.
func (t *Timeline) Drains() bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool { _, ok := s.Action.(*Drain); return ok })
}
