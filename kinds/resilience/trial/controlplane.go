package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	runverdict "github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// controlBefore finds the control plane's pods, and records them unless a step changes them.
func (t *scenarioTrial) controlBefore(ctx context.Context) error {
	serving, err := t.FindControlPlane(ctx, t.scene.mesh)
	if err == nil && !changesControlPlane(t.timeline.Steps) {
		t.evidence.Control = &runverdict.ControlPlane{Before: serving}
	}
	return err
}

// controlAfter records which control-plane pods serve at the end of the trial, and their clients.
func (t *scenarioTrial) controlAfter(ctx context.Context) (err error) {
	if c := t.evidence.Control; c != nil {
		c.After, err = t.FindControlPlane(ctx, t.scene.mesh)
	}
	return errors.Join(err, t.endRevisions(ctx))
}

// changesControlPlane reports whether a step changes the control plane. The trial is then about the
// control plane's absence or change.
func changesControlPlane(steps []fault.Step) bool {
	return slices.ContainsFunc(steps, func(s fault.Step) bool {
		switch a := s.Action.(type) {
		case *fault.Process:
			return a.Of == fault.OfControlPlane
		case *fault.Certificates:
			return a.Do == fault.DoExpire
		}
		return false
	})
}

// wholeControl removes the control planes' usage from the record if some of their pods could not be
// read.
func (t *scenarioTrial) wholeControl(out *record.Scenario) {
	for part, why := range map[string]string{partControlPlane: t.ControlUnseen(), partSecond: site.Unread("the other revision's control plane", t.revisions.elsewhere())} {
		if why != "" {
			t.forget(out, part, why)
		}
	}
	slices.Sort(t.evidence.Unmeasured)
}

// SetsControl reports whether a resilience plan sets levers of a control plane.
func SetsControl(plan *study.Plan) bool {
	if plan.Study.Kind != resilience.Kind {
		return false
	}
	f, _ := study.FactorByName(study.FactorDebounceAfter)
	for _, cell := range plan.Cells {
		if f.Sets(cell[f.Name]) {
			return true
		}
	}
	return false
}

// setControl sets the cell's levers on the control plane, if the run sets any, and records what
// every replica reports: a replica with other levers would be measured under the wrong name.
func (t *scenarioTrial) setControl(ctx context.Context) error {
	level := t.job.Cell[study.FactorDebounceAfter]
	if t.o.Control == nil || level == study.NotApplicable {
		return nil
	}
	levers := mesh.LeversOf(t.job.Cell)
	done, err := t.o.Control.Apply(ctx, levers, false)
	if err != nil {
		return fmt.Errorf("set %s=%s: %w", study.FactorDebounceAfter, level, err)
	}
	if done.Restarted {
		t.say("istiod was restarted with %s %s in %.1f s", study.FactorDebounceAfter, level, done.Took.Seconds())
	}
	t.evidence.Debounce = &verdict.Debounce{Level: level, Restarted: done.Restarted, Took: done.Took,
		Checks: t.o.Control.Check(ctx, levers, mesh.ControlEvidence{})}
	return ctx.Err()
}

// fitControl rejects control-plane levers that cannot be set, or that sidecars would lose when they
// move to another control plane.
func fitControl(o *runner.Options, plan *study.Plan) error {
	if SetsControl(plan) && resilience.Of(plan.Study).Timeline.Moves() {
		return errs.WithHint(errs.Usage("%s with a step that moves the namespace: only the first istiod would have it", study.FactorDebounceAfter), "leave one of the two out")
	}
	if SetsControl(plan) && o.Control == nil {
		return errs.WithHint(errs.Usage("mesh %s has no setting for %s", o.Study.Mesh, study.FactorDebounceAfter), "leave it out")
	}
	return nil
}
