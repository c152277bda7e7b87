package fault

import (
	"math"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/study"
)

// Worker changes how replicas of a service behave, all in one change.
type Worker struct {
	usual
	Service string
	Pick    int // how many replicas, the first by name; All for every one
	Set     Behaviour
}

var workerKind = Kind{Name: "worker", Doc: "Changes how replicas of a service behave, all at once.", Long: true, New: func() Action { return &Worker{} }}

func (*Worker) Kind() string { return workerKind.Name }

func (a *Worker) Fields() []study.Field {
	return []study.Field{serviceField(&a.Service), pickField(&a.Pick),
		{Name: "set", Required: true, Doc: "What changes; everything else stays as it is.", Value: behaviour(&a.Set)},
	}
}

func (a *Worker) Settle() {
	for i := range a.Set.Failures {
		if f := &a.Set.Failures[i]; f.How == "" {
			f.How = graph.FailStatus
		}
	}
}

func (a *Worker) Target() string { return a.Service }
func (a *Worker) Holds() string  { return "workers of " + a.Service }

// Expect counts workers that are not ready as removed.
func (a *Worker) Expect(n *Standing) bool {
	share := n.part(a.Service, a.Pick)
	if a.Set.Failures != nil {
		failing := 0.0
		for _, f := range a.Set.Failures {
			failing += f.Share
		}
		n.Failing[a.Service] = math.Min(1, failing*share)
	}
	one, _ := n.Graph.Service(a.Service)
	count := a.Pick
	if share >= 1 {
		count = one.Replicas - n.Removed[a.Service]
	}
	switch {
	case a.Set.Ready != nil && !*a.Set.Ready:
		n.Removed[a.Service] += count
	case share < 1:
		n.Some[a.Service] = append(n.Some[a.Service], Some{count, a.Set})
	default:
		n.Graph = a.Set.In(n.Graph, a.Service)
	}
	return true
}

func (a *Worker) Perform(p Performer) error { return p.Worker(a) }
