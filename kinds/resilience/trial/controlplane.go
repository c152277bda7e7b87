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

// controlBefore finds the control plane's pods, and records them unless a step changes them.
func (t *scenarioTrial) controlBefore(ctx context.Context) error {
	serving, err := t.FindControlPlane(ctx, t.scene.mesh)
	if err == nil && !changesControlPlane(t.timeline.Steps) {
		t.evidence.Control = &verdict.ControlPlane{Before: serving}
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
			delete(out.CPU, part)
			delete(out.Memory, part)
			t.evidence.Unmeasured = append(t.evidence.Unmeasured, why)
		}
	}
	slices.Sort(t.evidence.Unmeasured)
}
