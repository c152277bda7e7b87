package fault

import (
	"slices"

	"github.com/meshtrial/meshtrial/study"
)

// Zone cuts the services' pods in a zone off: packets between them and pods elsewhere, or clients,
// are dropped. Clients stand for users outside the zones. The control plane and kubelets keep
// reaching the pods, so that their Services keep them as endpoints, as they do at first when a zone
// fails.
type Zone struct {
	usual
	Service string // the zone is that of its first pod, by name; or LoadService
}

// ZoneKind is the kind of [Zone].
const ZoneKind = "zone"

var zoneKind = Kind{Name: ZoneKind, Doc: "Cuts the services' pods in a zone off from the other zones and from clients.", New: func() Action { return &Zone{} }}

func (*Zone) Kind() string { return zoneKind.Name }

func (a *Zone) Fields() []study.Field {
	return []study.Field{{Name: "service", Required: true, Doc: "A service of the graph, or clients: the zone is that of its first pod, by name.", Value: service(&a.Service, true)}}
}

func (a *Zone) Target() string { return a.Holds() }
func (a *Zone) Holds() string  { return "zone of " + a.Service }
func (*Zone) Needs() []string  { return []string{NeedCut} }

func (a *Zone) Perform(p Performer) error { return p.Zone(a) }

// Zones reports whether a step acts on zones.
func (t *Timeline) Zones() bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool { _, ok := s.Action.(*Zone); return ok })
}
