package cli

import (
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/study"
)

// fitsMeshes says why --ztunnel or --linkerd would have no effect: no cell has such a mesh,
// or the lab that runs has another than they name. ztunnelImage is the image that a lab has
// of the ztunnel in a folder.
func (f runFlags) fitsMeshes(plan *study.Plan, ztunnelImage func(dir string) (string, error)) error {
	var has lab.Images
	running, err := local.Open("")
	if err == nil {
		has = running.Images()
	}
	if f.ztunnel != "" {
		if !planAmbient(plan) {
			return errs.WithHint(errs.Usage("--ztunnel is for cells whose requests ztunnel carries, and the study has none"), "%s", withoutAmbient(plan))
		}
		switch image, err := ztunnelImage(f.ztunnel); {
		case err != nil:
			return err
		case running != nil && image != has.Ztunnel:
			return otherThan("ztunnel", has.Ztunnel, "--ztunnel "+f.ztunnel)
		}
	}
	if f.linkerd != "" {
		if !planLinkerd(plan) {
			return errs.WithHint(errs.Usage("--linkerd is for cells of Linkerd, and the study has none"), "%s", withoutLinkerd(plan))
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

// withoutAmbient says what to do about --ztunnel with a plan of which no cell has an ambient
// mesh.
func withoutAmbient(plan *study.Plan) string {
	switch plan.Study.Kind {
	case study.DataPlane:
		return leaveOutOr(plan, planAmbient, []string{"sidecars=[none,both,ambient]"})
	case study.Resilience:
		return leaveOutOr(plan, planAmbient, []string{"sidecars=[both,ambient]"})
	}
	return leaveOut
}

// withoutLinkerd says what to do about --linkerd with a plan of which no cell has Linkerd:
// that carries requests by sidecars alone.
func withoutLinkerd(plan *study.Plan) string {
	switch plan.Study.Kind {
	case study.DataPlane:
		return leaveOutOr(plan, planLinkerd, []string{"mesh=linkerd"}, []string{"mesh=linkerd", "sidecars=[none,both]"})
	case study.Resilience:
		return leaveOutOr(plan, planLinkerd, []string{"mesh=[none,istio,linkerd]"})
	}
	return leaveOut
}

const leaveOut = "leave it out"

// leaveOutOr is leaveOut, or the first of several lists of --set flags that the study takes
// and that give the plan what it lacks.
func leaveOutOr(plan *study.Plan, has func(*study.Plan) bool, flags ...[]string) string {
	for _, sets := range flags {
		if with := plan.Study.With(sets...); with != nil && has(with) {
			return leaveOut + ", or --set " + strings.Join(sets, " --set ")
		}
	}
	return leaveOut
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
