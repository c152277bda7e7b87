package analysis

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// leaveOut takes out the trials that fail checks beside the others of their run,
// and notes what each of them was held against in the verdicts of the run at hand;
// those on disk stay as they are.
func (o *Observations) leaveOut() {
	if o.kind.Unfair == nil {
		return
	}
	found := o.kind.Unfair(o)
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		checks := slices.DeleteFunc(found[t.ID], func(c record.Check) bool { return c.OK })
		if len(checks) == 0 {
			continue
		}
		t.Validity.Checks = slices.Concat(t.Validity.Checks, checks)
		t.Validity.Valid = false
	}
	for _, blocks := range o.trials {
		for block, trials := range blocks {
			blocks[block] = slices.DeleteFunc(trials, func(t *record.Trial) bool { return !t.Validity.Valid })
		}
	}
}
