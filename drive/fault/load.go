package fault

import (
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
)

// Load changes the clients' rate.
type Load struct {
	usual
	Rate float64 // requests per second over all clients
	// Announced is how long before the step Service is scaled to Replicas; 0
	// does not announce the load.
	Announced time.Duration
	Service   string
	Replicas  int
}

var loadKind = Kind{Name: "load", Doc: "Changes the clients' rate.", New: func() Action { return &Load{} }}

func (*Load) Kind() string { return loadKind.Name }

func (a *Load) Fields() []study.Field {
	return []study.Field{
		{Name: "rate", Required: true, Doc: "Requests per second in all.", Value: study.Float(&a.Rate, rate.Highest)},
		{Name: "announced", Doc: "How long before the step the service gets more replicas; unannounced if left out.", Value: study.Duration(&a.Announced, 0, time.Hour).OmitZero()},
		{Name: "service", Doc: "The service that is prepared (announced).", Value: service(&a.Service, false)},
		{Name: "replicas", Doc: "Its replicas from then on (announced).", Value: study.Int(&a.Replicas, 1, graph.MaxReplicas).OmitZero()},
	}
}

func (a *Load) Check(_, service string) []Problem {
	if a.Announced == 0 || a.Service != "" && a.Replicas > 0 {
		return nil
	}
	return []Problem{{Field: "announced", Hint: "as service: " + service + ", replicas: 10", Text: "an announced load needs a service and its replicas"}}
}

func (a *Load) Target() string { return a.Holds() }
func (*Load) Holds() string    { return "load" }

func (a *Load) Expect(n *Standing) bool {
	n.Rate = a.Rate
	if a.Announced > 0 {
		one, _ := n.Graph.Service(a.Service)
		n.Removed[a.Service] = one.Replicas - a.Replicas
	}
	return true
}

func (a *Load) Perform(p Performer) error { return p.Load(a) }
