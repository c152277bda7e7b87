// Package meshes is the table of all known meshes, for code that installs, names or
// measures a mesh. To add a mesh, add a line to the table.
package meshes

import (
	"slices"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/envoygateway"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/study"
)

// Kits has the kit of each mesh.
var Kits = []*mesh.Kit{
	&none.Kit,
	&istio.Kit,
	&linkerd.Kit,
	&envoygateway.Kit,
}

func init() {
	for _, k := range Kits {
		if len(k.Carriers) > 0 {
			study.AddMesh(study.Mesh{Name: k.Name, Carriers: k.Carriers, Groups: k.Groups})
		}
		rights.Add(k.Name, k.Rights)
	}
}

// Named returns the kit of a mesh; nil if there is none of that name.
func Named(name string) *mesh.Kit {
	if i := slices.IndexFunc(Kits, func(k *mesh.Kit) bool { return k.Name == name }); i >= 0 {
		return Kits[i]
	}
	return nil
}

// New returns the adapter of the named mesh, which must be in the table.
func New(name string, images lab.Images) mesh.Mesh { return Named(name).New(images) }

// Ingress returns the named kit's adapter for gateways; nil if it has none.
func Ingress(name string, images lab.Images) mesh.Ingress {
	if k := Named(name); k != nil && k.Ingress != nil {
		return k.Ingress(images)
	}
	return nil
}

// ControlPlane returns the namespace of the named kit's control plane.
func ControlPlane(name string) string {
	if k := Named(name); k.New == nil {
		namespace, _ := k.Ingress(lab.Images{}).ControlPlane()
		return namespace
	}
	namespace, _ := New(name, lab.Images{}).ControlPlane()
	return namespace
}

// Installable returns the names of the meshes that can be installed.
func Installable() []string {
	var out []string
	for _, k := range Kits {
		if k.Supply != nil {
			out = append(out, k.Name)
		}
	}
	return out
}
