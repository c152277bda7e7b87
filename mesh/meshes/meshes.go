// Package meshes is the table of the meshes that the program knows. Whoever installs, names
// or measures a mesh finds it here; a mesh of one's own is a line in the table.
package meshes

import (
	"slices"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/study"
)

// Kits has what each mesh brings.
var Kits = []*mesh.Kit{
	&none.Kit,
	&istio.Kit,
	&linkerd.Kit,
}

func init() {
	for _, k := range Kits {
		if len(k.Carriers) > 0 {
			study.AddMesh(study.Mesh{Name: k.Name, Carriers: k.Carriers, Groups: k.Groups})
		}
		rights.Add(k.Name, k.Rights)
	}
}

// Named is the kit of a mesh; nil if there is none of that name.
func Named(name string) *mesh.Kit {
	if i := slices.IndexFunc(Kits, func(k *mesh.Kit) bool { return k.Name == name }); i >= 0 {
		return Kits[i]
	}
	return nil
}

// New makes the adapter of the mesh of that name, which the table must have.
func New(name string, images lab.Images) mesh.Mesh { return Named(name).New(images) }

// Installable are the names of the meshes that can be installed.
func Installable() []string {
	var out []string
	for _, k := range Kits {
		if k.Supply != nil {
			out = append(out, k.Name)
		}
	}
	return out
}
