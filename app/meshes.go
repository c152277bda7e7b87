package app

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/study"
)

// Mesh returns the adapter of the named mesh.
func Mesh(name string, images lab.Images) mesh.Mesh { return meshes.New(name, images) }

// planMeshes returns the adapters of a plan's meshes: the study's own, and those that its cells
// name.
func planMeshes(plan *study.Plan, images lab.Images) (own mesh.Mesh, cells map[string]mesh.Mesh) {
	own, cells = Mesh(plan.Study.Mesh, images), map[string]mesh.Mesh{}
	for _, cell := range plan.Cells {
		switch name := cell[study.FactorMesh]; {
		case name == "" || cells[name] != nil:
		case name == own.Name():
			cells[name] = own
		default:
			cells[name] = Mesh(name, images)
		}
	}
	return own, cells
}

// planIngresses returns the adapters of a plan's ingresses by name.
func planIngresses(plan *study.Plan, images lab.Images) map[string]mesh.Ingress {
	out := map[string]mesh.Ingress{}
	for _, name := range ingress.Ingresses(plan) {
		if of := meshes.Ingress(name, images); of != nil {
			out[name] = of
		}
	}
	return out
}

// adapter returns the first adapter of a plan's meshes that implements T.
func adapter[T any](plan *study.Plan, own mesh.Mesh, cells map[string]mesh.Mesh) (found T, ok bool) {
	for _, name := range rights.Meshes(plan) {
		m := cells[name]
		if m == nil {
			m = own
		}
		if found, ok = m.(T); ok {
			return found, true
		}
	}
	return found, false
}

// fitsMeshes returns an error for mesh settings that have no effect: no cell has such a mesh, or
// the running lab has other settings.
func (o *RunOptions) fitsMeshes(ctx context.Context, plan *study.Plan) error {
	running, err := local.Open("")
	for _, kit := range meshes.Kits {
		if kit.Fits == nil {
			continue
		}
		var has map[string]string
		if err == nil {
			has = map[string]string{}
			maps.Copy(has, running.Images().Meshes[kit.Name])
		}
		if refused := kit.Fits(ctx, plan, o.Meshes[kit.Name], has); refused != nil {
			if err == nil { // another build may know the same programs by other names
				refused = cmp.Or(sameBuild(running), refused)
			}
			return refused
		}
	}
	return nil
}

// planChoices returns the mesh settings for a lab that is started for a plan.
func planChoices(plan *study.Plan, names []string, given mesh.Choices) (mesh.Choices, error) {
	out := mesh.Choices{}
	for _, kit := range meshes.Kits {
		s := given[kit.Name]
		if kit.Needs != nil {
			s = kit.Needs(plan, s)
		}
		out[kit.Name] = s
	}
	return ResolveMeshes(mesh.Run, names, out)
}

// ResolveMeshes completes the settings for a command that installs the named meshes. It returns
// an error if they contradict each other.
func ResolveMeshes(c mesh.Command, names []string, given mesh.Choices) (mesh.Choices, error) {
	out := mesh.Choices{}
	for _, kit := range meshes.Kits {
		s := given[kit.Name]
		if kit.Resolve != nil {
			var err error
			if s, err = kit.Resolve(c, slices.Contains(names, kit.Name), s); err != nil {
				return nil, err
			}
		}
		out[kit.Name] = s
	}
	return out, nil
}

// Supplies returns what the named meshes add to a lab in which they are installed.
func Supplies(ctx context.Context, names []string, settings mesh.Choices) ([]lab.Supply, error) {
	var out []lab.Supply
	for _, kit := range meshes.Kits {
		if kit.Supply == nil {
			continue
		}
		supply, err := kit.Supply(ctx, settings[kit.Name], slices.Contains(names, kit.Name))
		if err != nil {
			return nil, err
		}
		out = append(out, supply)
	}
	return out, nil
}
