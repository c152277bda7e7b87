package kinds

import (
	controltrial "github.com/meshtrial/meshtrial/kinds/controlplane/trial"
	datatrial "github.com/meshtrial/meshtrial/kinds/dataplane/trial"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	restrial "github.com/meshtrial/meshtrial/kinds/resilience/trial"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// Asks returns what a plan requires of an installed mesh, from which the adapter decides whether
// the study can run there. An error about an unreadable cell has its position in the study.
func Asks(plan *study.Plan, name string) (mesh.Asked, error) {
	switch {
	case plan.Study.Kind == resilience.Kind:
		return restrial.Asks(plan, name)
	case plan.Study.Mesh != name:
		return mesh.Asked{}, nil
	case plan.Study.Kind == study.ControlPlane:
		return controltrial.Asks(plan)
	case plan.Study.Kind == study.DataPlane:
		return datatrial.Asks(plan), nil
	}
	return mesh.Asked{}, nil
}
