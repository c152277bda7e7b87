package analysis

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// leaveOut removes the trials that fail checks against the other trials of their run: first
// those on unusual machines, then those that the kind finds among the rest.
func (o *Observations) leaveOut() {
	o.without(o.unlike())
	if o.kind.Unfair != nil {
		o.without(o.kind.Unfair(o))
	}
}

// without removes the trials that have failed checks (given by trial), and adds these checks
// to the run's verdicts in memory; those on disk stay unchanged.
func (o *Observations) without(found map[string][]record.Check) {
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
