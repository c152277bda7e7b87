package fault

import (
	"time"

	"github.com/meshtrial/meshtrial/record/rate"
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

func (a *Load) Fields() []Field {
	return []Field{
		{Name: "rate", Required: true, Doc: "Requests per second in all.", Value: Number{&a.Rate, rate.Highest}},
		{Name: "announced", Doc: "How long before the step the service gets more replicas; unannounced if left out.", Value: Time{&a.Announced, time.Hour}},
		{Name: "service", Doc: "The service that is prepared (announced).", Value: Service{To: &a.Service}},
		{Name: "replicas", Doc: "Its replicas from then on (announced).", Value: Count{&a.Replicas, MaxReplicas}},
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
