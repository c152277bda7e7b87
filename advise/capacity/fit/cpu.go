package fit

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/stat"
)

// cpu fits istiod's CPU time to the pushes of all types together. A calm trial has a
// row for each type, weighted by istiod's timers, which measure wall-clock time. If
// pushes overlap, the timers include waiting for CPUs, which is as long for a small
// type as for a large one. Such a trial has a row for each type only if a profile says
// how CPU time divides among them, and otherwise one row for all types.
func (e *estimate) cpu(all []*Observation, simulated map[*Observation]simulation) {
	someCalm := slices.ContainsFunc(all, (*Observation).calm)
	var equations []equation
	// A trial's pushes of some types take a share of its CPU time.
	add := func(o *Observation, what string, types []push.Type, share float64) {
		of := amounts{model.ChangeCPU: share * float64(o.ChangesMade*o.Replicas)}
		for _, t := range types {
			for p, x := range cpuAmounts(t, o, simulated[o]) {
				of[p] += x * o.Pushes[t]
			}
		}
		equations = append(equations, equation{o.cell() + what, share * e.working(o), of})
	}
	for _, o := range all {
		var types []push.Type
		for t := range push.Types {
			if o.Pushes[t] > 0 {
				types = append(types, t)
			}
		}
		if someCalm && !o.calm() && o.Generation == nil {
			for i := range types { // it weighs as much as a calm trial
				add(o, fmt.Sprint("all", i), types, 1)
			}
			continue
		}
		for _, t := range types {
			if share := o.share(t); stat.Finite(share) {
				add(o, t.String(), []push.Type{t}, share)
			}
		}
	}
	e.fit(equations)
}
