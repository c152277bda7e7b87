package fault

// Replicas are taken from a service or given to it.
type Replicas struct {
	usual
	Service string
	Count   int
	// Abrupt ends removed pods at once, without the time that Kubernetes
	// gives them to drain.
	Abrupt bool
}

// Fields implements [Action].
func (r *Replicas) Fields() []Field {
	return []Field{serviceField(&r.Service),
		{Name: "replicas", Doc: "How many; 1 if left out.", Value: Count{To: &r.Count, Most: MaxReplicas}},
		{Name: "abrupt", Doc: "Whether pods end at once, without the time to drain (remove).", Value: Flag{&r.Abrupt}},
	}
}

// Settle implements [Action].
func (r *Replicas) Settle() {
	if r.Count == 0 {
		r.Count = 1
	}
}

// Services implements [Action].
func (r *Replicas) Services() []Reference { return []Reference{{Field: "service", Service: r.Service}} }

// Target implements [Action].
func (r *Replicas) Target() string { return r.Service }

// Holds implements [Action].
func (r *Replicas) Holds() string { return "replicas of " + r.Service }

// Remove takes replicas from a service.
type Remove struct{ Replicas }

var removeKind = Kind{Name: "remove", Doc: "Takes replicas from a service.", New: func() Action { return &Remove{} }}

// Kind implements [Action].
func (*Remove) Kind() string { return removeKind.Name }

// Expect implements [Action].
func (a *Remove) Expect(n *Standing) bool {
	n.Removed[a.Service] += a.Count
	return true
}

// Perform implements [Action].
func (a *Remove) Perform(p Performer) error { return p.Remove(a) }

// Add gives a service more replicas.
type Add struct{ Replicas }

var addKind = Kind{Name: "add", Doc: "Gives a service more replicas.", New: func() Action { return &Add{} }}

// Kind implements [Action].
func (*Add) Kind() string { return addKind.Name }

// Expect implements [Action].
func (a *Add) Expect(n *Standing) bool {
	n.Removed[a.Service] -= a.Count
	return true
}

// Perform implements [Action].
func (a *Add) Perform(p Performer) error { return p.Add(a) }
