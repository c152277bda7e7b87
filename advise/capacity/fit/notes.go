package fit

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/record"
)

// fallShort says how many trials are not valid, or lack a p99, and what that means for the
// model.
func fallShort(all []*Observation) []string {
	late, disturbed, unreached := 0, 0, 0
	for _, o := range all {
		if math.IsInf(o.P99, 1) {
			unreached++
		}
		switch {
		case o.Disturbed:
			disturbed++
		case o.Late:
			late++
		}
	}
	var out []string
	if late > 0 {
		out = append(out, fmt.Sprintf("in %d of %d trials changes left off their schedule: not what their cells say, but the model is given each change when it was committed", late, len(all)))
	}
	if disturbed > 0 {
		out = append(out, fmt.Sprintf("%d of %d trials are not valid, since others used the machine: their times are too long, and how much so is not known", disturbed, len(all)))
	}
	if unreached > 0 {
		out = append(out, fmt.Sprintf("in %d of %d trials p99 of convergence lies among changes that never arrived, or were never acknowledged: a cell in whose median trial it does has no measured one", unreached, len(all)))
	}
	return out
}

// differ says in what the runs differ that one model cannot have.
func differ(runs []model.Source) []string {
	versions := map[string]bool{}
	for _, r := range runs {
		versions[r.Istiod] = true
	}
	if len(versions) < 2 {
		return nil
	}
	return []string{"the runs are of different versions of istiod: what differs between these is in no parameter"}
}

// alone is how many cells have one trial.
func (f *fitter) alone() int {
	n := 0
	for _, cell := range f.cells {
		if len(cell) == 1 {
			n++
		}
	}
	return n
}

// single says what cells of one trial leave out of the intervals: drawn again they are the
// same.
func (f *fitter) single() []string {
	switch n := f.alone(); n {
	case 0:
		return nil
	case len(f.cells):
		return []string{"each cell has one trial: how far trials of a cell scatter is not known, parameters have no intervals, and those of predictions are too narrow by that; a second block of the study would tell"}
	default:
		return []string{fmt.Sprintf("%d of %d cells have one trial: how far these scatter is in no interval", n, len(f.cells))}
	}
}

// memoryOf is istiod's memory in a trial; NaN where nobody read it.
func memoryOf(t *record.Trial) float64 {
	m := t.Memory[record.PartControl]
	switch {
	case m.PSSBytes > 0:
		return float64(m.PSSBytes)
	case m.CgroupBytes > 0:
		return float64(m.CgroupBytes)
	}
	return math.NaN()
}
