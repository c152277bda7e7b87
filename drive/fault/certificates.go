package fault

import "github.com/meshtrial/meshtrial/study"

// Values of [Certificates].Do.
const (
	DoRotate = "rotate"
	DoExpire = "expire"
)

// Certificates replaces workload certificates, or lets them expire.
type Certificates struct {
	usual
	Service string
	Do      string
}

var certificatesKind = Kind{Name: "certificates", Doc: "Replaces workload certificates, or lets them expire.", New: func() Action { return &Certificates{} }}

func (*Certificates) Kind() string { return certificatesKind.Name }

func (a *Certificates) Fields() []study.Field {
	return []study.Field{serviceField(&a.Service),
		{Name: "do", Required: true, Doc: "rotate or expire.", Value: study.OneOf(&a.Do, DoRotate, DoExpire)},
	}
}

func (a *Certificates) Target() string { return a.Holds() }
func (a *Certificates) Holds() string  { return "certificates of " + a.Service }
func (*Certificates) Reversible() bool { return false }

func (a *Certificates) Perform(p Performer) error { return p.Certificates(a) }
