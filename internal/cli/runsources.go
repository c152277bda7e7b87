package cli

import (
	"slices"

	"github.com/meshtrial/meshtrial/components"
	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/study"
)

// fitsMeshes says why --ztunnel or --linkerd would have no effect: no cell has such a mesh,
// or the lab that runs has another than they name. ztunnelImage is the image that a lab has
// of the ztunnel in a folder.
func (f runFlags) fitsMeshes(plan *study.Plan, ztunnelImage func(dir string) (string, error)) error {
	ambient, linkerd := "", "" // how the study would have them
	switch plan.Study.Kind {
	case study.DataPlane:
		ambient, linkerd = ", or --set sidecars=[none,both,ambient]", ", or --set mesh=linkerd"
	case study.Resilience:
		ambient, linkerd = ", or --set sidecars=[both,ambient]", ", or --set mesh=[none,istio,linkerd]"
	}
	var has lab.Images
	running, err := local.Open("")
	if err == nil {
		has = running.Images()
	}
	if f.ztunnel != "" {
		if !planAmbient(plan) {
			return errs.WithHint(errs.Usage("--ztunnel is for cells whose requests ztunnel carries, and the study has none"), "leave it out%s", ambient)
		}
		switch image, err := ztunnelImage(f.ztunnel); {
		case err != nil:
			return err
		case running != nil && image != has.Ztunnel:
			return otherThan("ztunnel", has.Ztunnel, "--ztunnel "+f.ztunnel)
		}
	}
	if f.linkerd != "" {
		if !slices.Contains(planMeshes(plan), study.MeshLinkerd) {
			return errs.WithHint(errs.Usage("--linkerd is for cells of Linkerd, and the study has none"), "leave it out%s", linkerd)
		}
		switch same, err := components.LinkerdIs(has.LinkerdVersion, f.linkerd); {
		case err != nil:
			return err
		case running != nil && !same:
			return otherThan("Linkerd", has.LinkerdVersion, "--linkerd "+f.linkerd)
		}
	}
	return nil
}

// otherThan says that the lab that runs has something else than a flag names; has is "" if it
// has nothing of the kind.
func otherThan(what, has, flag string) error {
	const anew = "`meshtrial lab down`, and the run starts a lab that has it"
	if has == "" {
		return errs.WithHint(errs.Usage("the lab that runs has no %s, and %s adds none to it", what, flag), anew)
	}
	return errs.WithHint(errs.Usage("the lab that runs has %s %s, not that of %s", what, has, flag), "leave the flag out, to measure the lab's; or "+anew)
}
