package fault

// Drain has nodes take no more pods, and the pods of services leave them: they are deleted,
// where `kubectl drain` evicts, so that no PodDisruptionBudget counts. The clients stay, and
// so do a waypoint and what a DaemonSet has there.
type Drain struct {
	usual
	Service string // whose pods are on the nodes
	Pick    int    // of its pods, the first by name
}

var drainKind = Kind{Name: "drain", Doc: "Has the pods of services leave nodes, which take no others meanwhile, much as kubectl drain does. The clients stay, and so do ztunnel and a waypoint.", New: func() Action { return &Drain{} }}

// Kind implements [Action].
func (*Drain) Kind() string { return drainKind.Name }

// Fields implements [Action].
func (a *Drain) Fields() []Field {
	return []Field{serviceField(&a.Service),
		{Name: "pick", Doc: "By how many of its pods nodes are chosen, the first by name; 1 if left out.", Value: Count{To: &a.Pick, Most: MaxReplicas}},
	}
}

// Settle implements [Action].
func (a *Drain) Settle() {
	if a.Pick == 0 {
		a.Pick = 1
	}
}

// Services implements [Action].
func (a *Drain) Services() []Reference { return []Reference{{Field: "service", Service: a.Service}} }

// Target implements [Action].
func (a *Drain) Target() string { return a.Holds() }

// Holds implements [Action].
func (a *Drain) Holds() string { return "nodes of " + a.Service }

// Expect implements [Action]: which pods are there, and how soon others serve, is not
// known.
func (*Drain) Expect(*Standing) bool { return false }

// Perform implements [Action].
func (a *Drain) Perform(p Performer) error { return p.Drain(a) }

// Drains says that a step drains nodes.
func (t *Timeline) Drains() bool {
	for _, s := range t.Steps {
		if _, ok := s.Action.(*Drain); ok {
			return true
		}
	}
	return false
}
