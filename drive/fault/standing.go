package fault

import (
	"math"

	"github.com/meshtrial/meshtrial/drive/graph"
)

// Standing is the modelled state of the services after some steps.
type Standing struct {
	Removed map[string]int     // replicas
	Broken  map[string]float64 // share of a service's endpoints that cannot answer
	Failing map[string]float64 // share of a service's requests that its workers fail
	Some    map[string][]Some  // workers of a service whose behaviour differs from the rest
	Rate    float64            // requests per second of all clients
	Graph   graph.Graph
}

// Some are replicas of a service that share a different behaviour.
type Some struct {
	Count int
	Set   Behaviour
}

// NewStanding returns the state before any step.
func NewStanding(g graph.Graph, rate float64) Standing {
	return Standing{Removed: map[string]int{}, Broken: map[string]float64{}, Failing: map[string]float64{}, Some: map[string][]Some{}, Rate: rate, Graph: g}
}

// part returns the share that pick replicas have of a service.
func (n *Standing) part(service string, pick int) float64 {
	one, _ := n.Graph.Service(service)
	left := one.Replicas - n.Removed[service]
	if pick == All || left <= 0 || pick >= left {
		return 1
	}
	return float64(pick) / float64(left)
}

// breaks stops pick of a service's endpoints from answering.
func (n *Standing) breaks(service string, pick int) {
	n.Broken[service] = math.Min(1, n.Broken[service]+n.part(service, pick))
}
