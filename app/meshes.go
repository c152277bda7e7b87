package app

import (
	"slices"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/study"
)

// adapters make the adapter of each mesh, by its name.
var adapters = map[string]func(lab.Images) mesh.Mesh{
	study.MeshNone:    func(lab.Images) mesh.Mesh { return none.Mesh{} },
	study.MeshIstio:   func(images lab.Images) mesh.Mesh { return &istio.Mesh{ProxyImage: images.ProxyFor} },
	study.MeshLinkerd: func(lab.Images) mesh.Mesh { return &linkerd.Mesh{} },
}

// Mesh makes the adapter of the mesh of that name.
func Mesh(name string, images lab.Images) mesh.Mesh { return adapters[name](images) }

// cellMeshes makes the adapters of the meshes that a plan's cells name.
func cellMeshes(plan *study.Plan, images lab.Images) map[string]mesh.Mesh {
	out := map[string]mesh.Mesh{}
	for _, cell := range plan.Cells {
		if name := cell[study.FactorMesh]; name != "" && out[name] == nil {
			out[name] = Mesh(name, images)
		}
	}
	return out
}

// planAmbient says whether a cell of a plan has its requests carried by ztunnel.
func planAmbient(plan *study.Plan) bool { return slices.ContainsFunc(plan.Cells, study.Ambient) }

// planLinkerd says whether a cell of a plan is of Linkerd.
func planLinkerd(plan *study.Plan) bool {
	return slices.Contains(rights.Meshes(plan), study.MeshLinkerd)
}

// envoyVersions are the versions of Envoy that a plan names.
func envoyVersions(plan *study.Plan) []string {
	var versions []string
	for _, cell := range plan.Cells {
		if v := cell[study.FactorEnvoy]; v != "" && v != study.EnvoyDefault && v != study.NotApplicable {
			versions = append(versions, v)
		}
	}
	if plan.Study.Kind == resilience.Kind {
		for _, step := range resilience.Of(plan.Study).Timeline.Steps {
			if r, ok := step.Action.(*fault.Restart); ok && r.Proxy != "" {
				versions = append(versions, r.Proxy)
			}
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// fitsMeshes refuses --ztunnel and --linkerd where they have no effect: no cell has such a
// mesh, or the running lab has another than they name. ztunnelImage is the image that a lab
// has of the ztunnel in a folder.
func (o *RunOptions) fitsMeshes(plan *study.Plan, ztunnelImage func(dir string) (string, error)) error {
	var has lab.Images
	running, err := local.Open("")
	if err == nil {
		has = running.Images()
	}
	if o.Ztunnel != "" {
		if !planAmbient(plan) {
			return errs.WithHint(errs.Usage("--ztunnel is for cells whose requests ztunnel carries, and the study has none"), "%s", ambientHint(plan.Study.Kind))
		}
		switch image, err := ztunnelImage(o.Ztunnel); {
		case err != nil:
			return err
		case running != nil && image != has.Ztunnel:
			return otherThan("ztunnel", has.Ztunnel, "--ztunnel "+o.Ztunnel)
		}
	}
	if o.Linkerd != "" {
		if !planLinkerd(plan) {
			return errs.WithHint(errs.Usage("--linkerd is for cells of Linkerd, and the study has none"), "%s", linkerdHint(plan.Study.Kind))
		}
		switch same, err := components.LinkerdIs(has.LinkerdVersion, o.Linkerd); {
		case err != nil:
			return err
		case running != nil && !same:
			return otherThan("Linkerd", has.LinkerdVersion, "--linkerd "+o.Linkerd)
		}
	}
	return nil
}

// ambientHint says what to do about --ztunnel with a study of no ambient mesh.
func ambientHint(kind study.Kind) string {
	switch kind {
	case study.DataPlane:
		return "leave it out, or --set sidecars=[none,both,ambient]"
	case resilience.Kind:
		return "leave it out, or --set sidecars=[both,ambient]"
	}
	return "leave it out"
}

// linkerdHint says what to do about --linkerd with a study without Linkerd, which carries
// requests by sidecars alone.
func linkerdHint(kind study.Kind) string {
	switch kind {
	case study.DataPlane:
		return "leave it out, or --set mesh=linkerd --set sidecars=[none,both]"
	case resilience.Kind:
		return "leave it out, or --set mesh=[none,istio,linkerd]"
	}
	return "leave it out"
}

// otherThan says that the lab that runs has something else than a flag names; has is "" if it
// has nothing of the kind.
func otherThan(what, has, flag string) error {
	const anew = "`meshtrial lab down`, and the run starts a lab that has it"
	if has == "" {
		return errs.WithHint(errs.Usage("the running lab has no %s, and %s adds none to it", what, flag), anew)
	}
	return errs.WithHint(errs.Usage("the running lab has %s %s, not that of %s", what, has, flag), "leave the flag out, to measure the lab's; or "+anew)
}
