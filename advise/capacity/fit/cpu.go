package fit

import (
	"fmt"
	"maps"
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
	rows := &rows{columns: map[model.Parameter][]float64{}}
	for _, o := range all {
		var types []push.Type
		for t := range push.Types {
			if o.Pushes[t] > 0 {
				types = append(types, t)
			}
		}
		if someCalm && !o.calm() && o.Generation == nil {
			for i := range types { // it weighs as much as a calm trial
				rows.add(o, fmt.Sprint("all", i), simulated[o], types, 1, e.working(o))
			}
			continue
		}
		for _, t := range types {
			if share := o.share(t); stat.Finite(share) {
				rows.add(o, t.String(), simulated[o], []push.Type{t}, share, e.working(o)*share)
			}
		}
	}
	var parts []part
	for _, p := range slices.Sorted(maps.Keys(rows.columns)) {
		parts = append(parts, part{p, append(rows.columns[p], make([]float64, len(rows.y)-len(rows.columns[p]))...)})
	}
	e.take(parts, rows.cells, rows.y)
}

// rows holds equations of CPU time. Columns end with the last row that has a non-zero
// entry.
type rows struct {
	cells   []string
	y       []float64
	columns map[model.Parameter][]float64
}

// add adds the CPU time of a trial's pushes of some types, a share of the trial's
// total.
func (r *rows) add(o *Observation, what string, s simulation, types []push.Type, share, cpu float64) {
	put := func(p model.Parameter, x float64) {
		c := r.columns[p]
		c = append(c, make([]float64, len(r.y)+1-len(c))...)
		c[len(r.y)] += x
		r.columns[p] = c
	}
	for _, t := range types {
		for p, x := range cpuParts(t).of(t, o, s) {
			put(p, x*o.Pushes[t])
		}
	}
	put(model.ChangeCPU, share*float64(o.ChangesMade*o.Replicas))
	r.cells, r.y = append(r.cells, o.cell()+what), append(r.y, cpu)
}
