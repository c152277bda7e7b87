package fault

import (
	"cmp"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/study"
)

// Replicas counts replicas to remove from a service or to add to it.
type Replicas struct {
	usual
	Service string
	Count   int
	// Abrupt deletes pods without a grace period, so that they do not drain.
	Abrupt bool
}

func (r *Replicas) Fields() []study.Field {
	return []study.Field{serviceField(&r.Service),
		{Name: "replicas", Doc: "Number of replicas; 1 if left out.", Value: study.Int(&r.Count, 1, graph.MaxReplicas).OmitZero()},
		{Name: "abrupt", Doc: "Whether pods are killed at once, without time to drain (remove).", Value: study.Bool(&r.Abrupt).OmitZero()},
	}
}

func (r *Replicas) Settle() {
	r.Count = cmp.Or(r.Count, 1)
}

func (r *Replicas) Target() string { return r.Service }
func (r *Replicas) Holds() string  { return "replicas of " + r.Service }

// Remove scales a service down.
type Remove struct{ Replicas }

var removeKind = Kind{Name: "remove", Doc: "Removes replicas of a service.", New: func() Action { return &Remove{} }}

func (*Remove) Kind() string { return removeKind.Name }

func (a *Remove) Expect(n *Standing) bool {
	n.Removed[a.Service] += a.Count
	return true
}

func (a *Remove) Perform(p Performer) error { return p.Remove(a) }

// Add scales a service up.
type Add struct{ Replicas }

var addKind = Kind{Name: "add", Doc: "Adds replicas to a service.", New: func() Action { return &Add{} }}

func (*Add) Kind() string { return addKind.Name }

func (a *Add) Expect(n *Standing) bool {
	n.Removed[a.Service] -= a.Count
	return true
}

func (a *Add) Perform(p Performer) error { return p.Add(a) }
