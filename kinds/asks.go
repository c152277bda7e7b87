package kinds

import (
	controltrial "github.com/meshtrial/meshtrial/kinds/controlplane/trial"
	datatrial "github.com/meshtrial/meshtrial/kinds/dataplane/trial"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	restrial "github.com/meshtrial/meshtrial/kinds/resilience/trial"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// Asks is what a plan asks of a mesh as it is installed, by which the adapter says
// whether the study can be run there. The error, of a cell that cannot be read, has
// its place in the study.
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
