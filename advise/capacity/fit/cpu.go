package fit

import (
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/stat"
)

// cpu fits istiod's CPU time to the pushes of all types together. A calm trial has
// a row for each type, by the shares of istiod's timers, which are of time by the
// clock. Where pushes overlap these count waiting for CPUs, as long for a small type
// as for a large one, so that such a trial has a row for each type only if a profile
// says how CPU time divides among them, and else one, of all types.
func (e *estimate) cpu(all []*Observation, simulated map[*Observation]simulation) {
	someCalm := slices.ContainsFunc(all, (*Observation).calm)
	rows := newRows()
	for _, o := range all {
		var types []push.Type
		for t := range push.Types {
			if o.Pushes[t] > 0 {
				types = append(types, t)
			}
		}
		if someCalm && !o.calm() && o.Generation == nil {
			for range types { // it weighs as much as a calm one
				rows.add(o, simulated, types, 1, e.working(o))
			}
			continue
		}
		for _, t := range types {
			if share := o.share(t); stat.Finite(share) {
				rows.add(o, simulated, []push.Type{t}, share, e.working(o)*share)
			}
		}
	}
	use := make([]bool, len(rows.columns))
	for t := range push.Types {
		if with := pushed(t, all); len(with) > 0 {
			_, of := explain(t, with, simulated)
			for k := range of {
				use[place(t, k)] = of[k]
			}
		}
	}
	use[ofChanges] = varies(column(all, proxies))
	e.take(regress(rows.y, rows.columns, use))
}

// place is the column of what explains a type's pushes, k as in [explain]; what is
// needed most comes first.
func place(t push.Type, k int) int { return k*int(push.Types) + int(t) }

// ofChanges is the column of what each change takes, however many proxies it is
// pushed to.
const ofChanges = explanations * int(push.Types)

// rows are equations of CPU time.
type rows struct {
	y       []float64
	columns [][]float64
}

func newRows() *rows { return &rows{columns: make([][]float64, ofChanges+1)} }

// add puts in the CPU time of a trial's pushes of some types, a share of all that
// the trial took.
func (r *rows) add(o *Observation, simulated map[*Observation]simulation, types []push.Type, share, cpu float64) {
	i := len(r.y)
	r.y = append(r.y, cpu)
	for k := range r.columns {
		r.columns[k] = append(r.columns[k], 0)
	}
	for _, t := range types {
		x, _ := explain(t, []*Observation{o}, simulated)
		for k := range x {
			r.columns[place(t, k)][i] = x[k][0] * o.Pushes[t]
		}
	}
	r.columns[ofChanges][i] = share * float64(o.ChangesMade*o.Replicas)
}

// take sets the parameters of CPU time.
func (e *estimate) take(b []float64) {
	for t := range push.Types {
		of := make([]float64, explanations)
		for k := range of {
			of[k] = b[place(t, k)]
		}
		e.setOf(t, of, model.CPUOf(t), model.CPUPerServiceOf(t), model.CPUPerChangeOf(t))
		if t == push.EDS {
			e.set(model.EDSCPUWhole, of[3])
		}
		if t == push.RDS {
			e.set(model.RDSCPUAnew, of[4])
		}
	}
	e.set(model.ChangeCPU, b[ofChanges])
}
