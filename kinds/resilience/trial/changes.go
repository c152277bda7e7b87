package trial

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/fault"
	"github.com/meshtrial/meshtrial/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Changes implements [Kind]: levers that trials set, and what steps change
// elsewhere.
func (resilience) Changes(ctx context.Context, o *runner.Options, plan *study.Plan) ([]journal.Planned, error) {
	var out []journal.Planned
	if o.Control != nil {
		var all []mesh.Levers
		for _, cell := range plan.Cells {
			all = append(all, mesh.LeversOf(cell))
		}
		levers, err := o.Control.Plan(ctx, all)
		if err != nil {
			return nil, err
		}
		out = levers
	}
	for _, step := range plan.Study.Scenario.Timeline.Steps {
		out = append(out, planStep(step)...)
	}
	return out, nil
}

// planStep says what a step changes outside of the run's namespace.
func planStep(step fault.Step) (out []journal.Planned) {
	note := fmt.Sprintf("by step %s, until it ends", step.Name)
	switch a := step.Action.(type) {
	case *fault.Process:
		if a.Of == fault.OfControlPlane {
			out = append(out, journal.Planned{Object: "the mesh's control plane", Done: awayWords(a), Note: note + "; meanwhile no proxy is told of changes and no pod gets a sidecar"})
		}
	case *fault.Certificates:
		if expires(&fault.Timeline{Steps: []fault.Step{step}}) {
			out = append(out, journal.Planned{Object: "the mesh's control plane", Done: "scaled to 0 replicas", Note: note + ": certificates of the whole mesh run out while it is away for long"})
		}
	case *fault.Config:
		for _, object := range a.Apply {
			if o, err := objectOf(object); err == nil && o.GetNamespace() != "" {
				out = append(out, journal.Planned{Object: journal.ObjectOf(o).String(), Done: "made or changed", Note: note})
			}
		}
		for _, r := range a.Delete {
			if r.Namespace != "" {
				out = append(out, journal.Planned{Object: journal.Object(r).String(), Done: journal.Removed, Note: note})
			}
		}
	}
	return out
}

func awayWords(a *fault.Process) journal.Done {
	if a.Do == fault.DoPause {
		return "paused"
	}
	return "killed, and scaled to 0 replicas while the step lasts"
}
