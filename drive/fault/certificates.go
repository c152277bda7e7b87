package fault

// What is done to certificates.
const (
	DoRotate = "rotate"
	DoExpire = "expire"
)

// Certificates has workload certificates replaced, or lets them run out.
type Certificates struct {
	usual
	Service string
	Do      string
}

var certificatesKind = Kind{Name: "certificates", Doc: "Has workload certificates replaced, or lets them run out.", New: func() Action { return &Certificates{} }}

// Kind implements [Action].
func (*Certificates) Kind() string { return certificatesKind.Name }

// Fields implements [Action].
func (a *Certificates) Fields() []Field {
	return []Field{serviceField(&a.Service),
		{Name: "do", Required: true, Doc: "rotate or expire.", Value: Text{To: &a.Do, OneOf: []string{DoRotate, DoExpire}}},
	}
}

// Services implements [Action].
func (a *Certificates) Services() []Reference {
	return []Reference{{Field: "service", Service: a.Service}}
}

// Target implements [Action].
func (a *Certificates) Target() string { return a.Holds() }

// Holds implements [Action].
func (a *Certificates) Holds() string { return "certificates of " + a.Service }

// Reversible implements [Action].
func (*Certificates) Reversible() bool { return false }

// Expect implements [Action]: what proxies do without one is not known.
func (*Certificates) Expect(*Standing) bool { return false }

// Perform implements [Action].
func (a *Certificates) Perform(p Performer) error { return p.Certificates(a) }
