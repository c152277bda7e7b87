package trial

import (
	"context"
	"errors"
	"slices"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// controlBefore finds the control plane's pods, and records them where no step changes them.
func (t *scenarioTrial) controlBefore(ctx context.Context) error {
	serving, err := t.FindControlPlane(ctx, t.scene.mesh)
	if err == nil && !changesControlPlane(t.timeline.Steps) {
		t.evidence.Control = &verdict.ControlPlane{Before: serving}
	}
	return err
}

// controlAfter records who serves at the trial's end, and whom.
func (t *scenarioTrial) controlAfter(ctx context.Context) (err error) {
	if c := t.evidence.Control; c != nil {
		c.After, err = t.FindControlPlane(ctx, t.scene.mesh)
	}
	return errors.Join(err, t.endRevisions(ctx))
}

// changesControlPlane reports whether a step changes the control plane: then its end is the
// point of the trial.
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

// wholeControl removes the use of control planes from the record if some of their pods could
// not be read.
func (t *scenarioTrial) wholeControl(out *record.Scenario) {
	for part, why := range map[string]string{partControlPlane: t.ControlUnseen(), partSecond: site.Unread("the other revision's control plane", t.revisions.elsewhere())} {
		if why != "" {
			delete(out.CPU, part)
			delete(out.Memory, part)
			t.evidence.Unmeasured = append(t.evidence.Unmeasured, why)
		}
	}
	slices.Sort(t.evidence.Unmeasured)
}
