package fault

// Restart replaces every pod of a service, a few at a time, as `kubectl
// rollout restart` does.
type Restart struct {
	usual
	Service string
	// Proxy is the version of Envoy that the new pods' sidecars have; "" for
	// the same as before.
	Proxy string
}

var restartKind = Kind{Name: "restart", Doc: "Replaces every pod of a service, a few at a time, as kubectl rollout restart does.", New: func() Action { return &Restart{} }}

// Kind implements [Action].
func (*Restart) Kind() string { return restartKind.Name }

// Fields implements [Action].
func (a *Restart) Fields() []Field {
	return []Field{serviceField(&a.Service),
		{Name: "proxy", Doc: "Version of Envoy in the new pods' sidecars; as before if left out.", Value: Version{&a.Proxy}},
	}
}

// Services implements [Action].
func (a *Restart) Services() []Reference {
	return []Reference{{Field: "service", Service: a.Service}}
}

// Target implements [Action].
func (a *Restart) Target() string { return a.Service }

// Holds implements [Action].
func (a *Restart) Holds() string { return "replicas of " + a.Service }

// Reversible implements [Action].
func (*Restart) Reversible() bool { return false }

// Expect implements [Action]: how long pods take to be replaced is not known.
func (*Restart) Expect(*Standing) bool { return false }

// Perform implements [Action].
func (a *Restart) Perform(p Performer) error { return p.Restart(a) }
