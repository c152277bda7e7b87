package trial

import (
	"context"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
)

// leversAnnotation of a run's namespace says that its trials set levers of the
// control plane, beside what its plane says.
const leversAnnotation = "meshtrial.dev/levers"

// SetsControl says whether a plan of resilience sets levers of a control plane.
// One that does not leaves it as it is installed.
func SetsControl(plan *study.Plan) bool {
	if plan.Study.Kind != study.Resilience {
		return false
	}
	for _, cell := range plan.Cells {
		if cell[study.FactorDebounceAfter] != study.NotApplicable && cell[study.FactorDebounceAfter] != usualDebounce() {
			return true
		}
	}
	return false
}

// usualDebounce is istiod's own debounce.
func usualDebounce() string {
	f, _ := study.FactorByName(study.FactorDebounceAfter)
	return f.Default
}

// setControl gives the control plane the cell's levers, where the run sets any,
// and checks that every replica says so itself: one that runs with others would
// be measured under a wrong name.
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
	how := "had it already"
	if done.Restarted {
		how = fmt.Sprintf("was started anew with it, which took %.1f s", done.Took.Seconds())
		t.say("istiod %s: %s %s", how, study.FactorDebounceAfter, level)
	}
	t.out.Validity.Checks = append(t.out.Validity.Checks,
		debounceCheck(level, how, t.o.Control.Check(ctx, levers, mesh.ControlEvidence{})))
	return ctx.Err()
}

// debounceCheck sums up what the replicas say of themselves: not valid if one
// of them has another lever than the cell, or nothing was looked at.
func debounceCheck(level, how string, looked []record.Check) record.Check {
	sum := record.Check{Name: strings.ReplaceAll(study.FactorDebounceAfter, "_", "-"), OK: len(looked) > 0,
		Detail: fmt.Sprintf("the cell says %s; istiod %s", level, how)}
	var wrong []string
	for _, c := range looked {
		if !c.OK {
			wrong = append(wrong, c.Name+": "+c.Detail)
		}
	}
	switch {
	case len(looked) == 0:
		sum.Detail += ", but says nothing of itself"
	case len(wrong) > 0:
		sum.OK = false
		sum.Detail += ", but what it says of itself differs: " + strings.Join(wrong, "; ")
	default:
		sum.Detail += fmt.Sprintf(", and says so of itself, as of all its levers (%d checks)", len(looked))
	}
	return sum
}

// fitControl refuses levers of a control plane that nobody can set.
func fitControl(o *runner.Options, plan *study.Plan) error {
	if SetsControl(plan) && o.Control == nil {
		return errs.WithHint(errs.Usage("mesh %s: nothing here sets %s", o.Study.Mesh, study.FactorDebounceAfter), "leave it out")
	}
	return nil
}
