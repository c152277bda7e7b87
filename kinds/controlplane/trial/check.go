package trial

import (
	"strconv"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// checkControl finds cells of a plan that cannot be set up, and studies whose changes would not
// reach any proxy.
func checkControl(plan *study.Plan) error {
	var followed, needed bool
	for _, cell := range plan.Cells {
		l, err := controlplane.LevelsOf(cell)
		if err != nil {
			return runner.Placed(plan, cell, err, "")
		}
		if err := sizesOf(controlplane.Of(plan.Study), l).Validate(); err != nil {
			return runner.Placed(plan, cell, err, "use fewer or smaller ones",
				controlplane.FactorServices, controlplane.FactorEndpoints, controlplane.FactorProxies, controlplane.FactorGateways)
		}
		if n, of := l.Simulators, l.Connected(); n > max(1, of) {
			return runner.Placed(plan, cell, errs.Usage("simulators %d: each needs a proxy of its own, and there are %d", n, of),
				"use more proxies or fewer simulators", controlplane.FactorSimulators, controlplane.FactorProxies, controlplane.FactorGateways)
		}
		if err := refuseZtunnels(cell, l); err != nil {
			return runner.Placed(plan, cell, err, "leave the ztunnels out", controlplane.FactorZtunnels)
		}
		if l.HBONE && l.XDS == controlplane.XDSSotW {
			return runner.Placed(plan, cell, errs.Usage("hbone true: sidecars receive workloads only by delta xDS, and the cell has %s %s", controlplane.FactorXDS, l.XDS),
				"leave hbone out, or use xds delta", controlplane.FactorHBONE)
		}
		changes, err := churn.NewPlan(churnSpec(plan.Study, cell, l, "check", 1))
		if err != nil {
			return runner.Placed(plan, cell, err, "use another change, or more services and endpoints",
				controlplane.FactorChange, controlplane.FactorChangeRate, controlplane.FactorServices, controlplane.FactorEndpoints)
		}
		for _, c := range changes.Changes {
			followed = followed || len(c.Markers) > 0
			needed = needed || reaches(c, l)
		}
	}
	if followed && !needed {
		cell := plan.Cells[0]
		return runner.Placed(plan, cell, errs.Usage("no proxy of any cell needs change %s, so it could not be followed", cell[controlplane.FactorChange]),
			"add proxies that need it, such as gateways: 1 for a change of gateways, or use another change", controlplane.FactorChange)
	}
	return nil
}

// reaches reports whether there are proxies of a kind that a change affects.
func reaches(c churn.Change, l controlplane.Levels) bool {
	if c.Scope.Owner != "" && l.ExportTo == "~" {
		return false
	}
	return c.Scope.Sidecars && l.Proxies+l.RealPods > 0 || c.Scope.Gateways && l.Gateways > 0 || c.Scope.Ztunnels
}

// refuseZtunnels returns why a cell cannot have ztunnels, or nil. Whether an installed istiod runs
// in ambient mode is only known once it runs.
func refuseZtunnels(cell record.Cell, l controlplane.Levels) error {
	if l.Ztunnels == 0 {
		return nil
	}
	if l.XDS == controlplane.XDSSotW {
		return errs.Usage("ztunnels %d: they support only delta xDS, and the cell has %s %s", l.Ztunnels, controlplane.FactorXDS, l.XDS)
	}
	value, named := ambientIn(mesh.LeversOf(cell))
	if on, err := strconv.ParseBool(value); named && (err != nil || !on) {
		return errs.WithHint(errs.Usage("ztunnels %d: the cell has %s=%s, and only an istiod in ambient mode accepts ztunnels", l.Ztunnels, ambientVariable, value),
			"set %s: %s=true, or leave the ztunnels out", controlplane.FactorIstiodEnv, ambientVariable)
	}
	return nil
}

// ambientIn returns the levers' setting of ambient mode, if any.
func ambientIn(l mesh.Levers) (value string, named bool) {
	vars, err := l.EnvVars()
	if err != nil {
		return "", false // set elsewhere
	}
	value, named = vars[ambientVariable]
	return value, named
}
