package analysis

import (
	"fmt"
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// NsToUS converts nanoseconds to microseconds.
const NsToUS = 1e-3

// Observations are a run's trials in the order of its plan.
type Observations struct {
	Plan *study.Plan
	Run  record.Run
	// trials holds the valid trials of each cell of the plan, by block.
	trials []map[int][]*record.Trial
	counts map[string]stat.Counts  // intended latency in microseconds, by trial
	pseudo map[pooled][]float64    // by unit, see pseudoValues
	merged map[turns][]stat.Counts // by unit, see latencies
	Blocks []int                   // with any trial, ascending
	// Units groups the blocks by what varies independently: blocks served by the same pods are
	// one unit, as they share whatever properties these pods happen to have.
	Units   [][]int
	onePods bool // see SamePods
	// Events holds the changes or steps of trials, by trial.
	Events   map[string][]*record.Event
	Tried    []map[int][]*record.Trial // of each cell by block, valid or not
	searched *searched                 // cached queries of searches
	kind     Kind
	Own      any         // data that the kind keeps about trials
	Decided  map[int]any // what the kind decided before blocks
}

// observe sorts a run's trials by the plan's cells. A trial of a cell that is not in the plan
// belongs to another study and is an error. The kind receives the assertions about single
// trials.
func (k Kind) observe(plan *study.Plan, run record.Run, ofTrials ...study.Expr) (*Observations, error) {
	o := &Observations{
		Plan: plan, Run: run, kind: k, counts: map[string]stat.Counts{}, pseudo: map[pooled][]float64{}, merged: map[turns][]stat.Counts{},
		Events: map[string][]*record.Event{}, Decided: map[int]any{},
		searched: &searched{verdicts: map[searchedCell]Verdict{}, broken: map[int][]brokenCell{}, measures: map[string]searchedMeasure{}},
	}
	if o.kind.Begin != nil {
		o.Own = o.kind.Begin(ofTrials)
	}
	for i := range run.Events {
		e := &run.Events[i]
		o.Events[e.Trial] = append(o.Events[e.Trial], e)
	}
	o.Run.Trials = slices.Clone(run.Trials) // see leaveOut
	o.trials = make([]map[int][]*record.Trial, len(plan.Cells))
	o.Tried = make([]map[int][]*record.Trial, len(plan.Cells))
	for i := range o.trials {
		o.trials[i], o.Tried[i] = map[int][]*record.Trial{}, map[int][]*record.Trial{}
	}
	seen := map[int]bool{}
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		cell, ok := plan.Index(t.Cell)
		if !ok {
			return nil, fmt.Errorf("trial %q measured cell %q, which the study does not have", t.ID, t.Cell.Key())
		}
		o.Tried[cell][t.Block] = append(o.Tried[cell][t.Block], t)
		if !seen[t.Block] {
			seen[t.Block] = true
			o.Blocks = append(o.Blocks, t.Block)
		}
		if t.Validity.Valid {
			o.trials[cell][t.Block] = append(o.trials[cell][t.Block], t)
		}
	}
	sort.Ints(o.Blocks)
	o.Units, o.onePods = o.units()
	for _, blocks := range o.trials {
		for _, trials := range blocks {
			sort.SliceStable(trials, func(i, j int) bool { return trials[i].Repeat < trials[j].Repeat })
		}
	}
	o.leaveOut()
	return o, nil
}

// units groups blocks by the deployments that served them: blocks that share one are a unit. A
// block whose trials have their own pods is a separate unit. If several blocks would form a
// single unit, each block becomes one for lack of a second deployment, and onePods reports
// this. That also happens if an interrupted block contains the last trials of one deployment
// and the first of the next, which joins both.
func (o *Observations) units() (out [][]int, onePods bool) {
	deployments := map[int][]int{} // by block
	for i := range o.Run.Trials {
		if t := &o.Run.Trials[i]; t.Deployment > 0 {
			deployments[t.Block] = append(deployments[t.Block], t.Deployment)
		}
	}
	last := map[int]int{}      // unit by deployment
	deployed := map[int]bool{} // units of known pods: those of lost trials are unknown
	for _, block := range o.Blocks {
		unit := len(out)
		for _, d := range deployments[block] {
			if at, ok := last[d]; ok {
				unit = min(unit, at)
			}
		}
		if unit == len(out) {
			out = append(out, nil)
		}
		out[unit] = append(out[unit], block)
		for _, d := range deployments[block] {
			last[d], deployed[unit] = unit, true
		}
	}
	if len(deployed) != 1 || len(o.Blocks) < 2 {
		return out, false
	}
	return slices.Collect(slices.Chunk(o.Blocks, 1)), true
}

// SamePods reports whether several blocks had the same pods, all of them or in succession:
// none has pods that no other block had.
func (o *Observations) SamePods() bool { return o.onePods }

// oneDeployment warns of such a run.
func (o *Observations) oneDeployment() []note.Note {
	if !o.SamePods() {
		return nil
	}
	sets := map[int]bool{}
	for i := range o.Run.Trials {
		if d := o.Run.Trials[i].Deployment; d > 0 {
			sets[d] = true
		}
	}
	if n := len(sets); n > 1 {
		return []note.Note{notePodSets.Of(n)}
	}
	return []note.Note{notePods.Of()}
}

// until returns the observations of only the first n blocks.
func (o *Observations) until(n int) *Observations {
	first := o.Blocks[:min(n, len(o.Blocks))]
	short := o.Within(func(block int) bool { return slices.Contains(first, block) })
	short.onePods = o.onePods // for the pods of the entire run
	return short
}

// Latency returns the trial's latency distribution by intended time, in microseconds, which is
// empty if it has none. Requests that failed or did not end have infinite latency.
func (o *Observations) Latency(t *record.Trial) stat.Counts {
	c, ok := o.counts[t.ID]
	if !ok {
		c = stat.FromHistogram(o.histogram(t).Intended, NsToUS).WithLost(o.failed(t))
		o.counts[t.ID] = c
	}
	return c
}

// failed returns how many of a trial's requests failed or did not end.
func (o *Observations) failed(t *record.Trial) int64 {
	if o.kind.Failed != nil {
		return o.kind.Failed(o, t)
	}
	if t.Load == nil {
		return 0
	}
	sum := t.Load.Unfinished
	for _, n := range t.Load.Failed {
		sum += n
	}
	return sum
}

func (o *Observations) histogram(t *record.Trial) record.TrialHist {
	if o.kind.Histogram != nil {
		if h, ok := o.kind.Histogram(o, t); ok {
			return h
		}
	}
	return o.Run.Hist[t.ID]
}

// Valid lists a cell's valid trials in block order.
func (o *Observations) Valid(cell int) []*record.Trial {
	var out []*record.Trial
	for _, block := range o.Blocks {
		out = append(out, o.trials[cell][block]...)
	}
	return out
}

// ValidIn lists a cell's valid trials in a block.
func (o *Observations) ValidIn(cell, block int) []*record.Trial { return o.trials[cell][block] }

// Skipped reports whether a cell is one that a search between the study's own levels, or a
// tuning, might have measured but did not.
func (o *Observations) Skipped(cell int) bool {
	return len(o.Tried[cell]) == 0 && (o.Plan.Study.Tune != nil || o.Plan.Refined(o.Plan.Cells[cell]))
}

// factors returns the study's factors with their levels, including those that a search
// measured in between.
func (o *Observations) factors() []record.FactorLevels {
	out := slices.Clone(o.Plan.Varying)
	for i, varying := range out {
		factor, ok := study.FactorByName(varying.Factor)
		if !ok || !factor.Numeric {
			continue
		}
		levels := slices.Clone(varying.Levels)
		for cell := range o.Plan.Cells {
			level := o.Plan.Cells[cell][varying.Factor]
			v, number := factor.Value(level)
			if !number || len(o.Tried[cell]) == 0 || !o.Plan.Refined(o.Plan.Cells[cell]) || slices.Contains(levels, level) {
				continue
			}
			at := slices.IndexFunc(levels, func(other string) bool {
				w, ok := factor.Value(other)
				return ok && w > v
			})
			if at < 0 {
				at = len(levels)
			}
			levels = slices.Insert(levels, at, level)
		}
		out[i].Levels = levels
	}
	return out
}

// Baseline returns the index of the cell that a cell is compared with, or false if there is
// none or the cell itself is a baseline.
func (o *Observations) Baseline(cell int) (int, bool) {
	base, ok := o.Plan.BaselineOf(o.Plan.Cells[cell])
	if !ok {
		return 0, false
	}
	i, ok := o.Plan.Index(base)
	return i, ok && i != cell
}

// Short returns the part of a cell that varies in the study.
func (o *Observations) Short(cell int) record.Cell { return o.Plan.Short(o.Plan.Cells[cell]) }

// Within returns the observations of only some blocks.
func (o *Observations) Within(is func(block int) bool) *Observations {
	out := *o
	out.Blocks = slices.DeleteFunc(slices.Clone(o.Blocks), func(block int) bool { return !is(block) })
	out.Units, out.onePods = out.units()
	out.pseudo, out.merged = map[pooled][]float64{}, map[turns][]stat.Counts{}
	return &out
}

// Added returns what a cell adds to another by several measures, judged together: they
// share one error rate.
func (o *Observations) Added(cell, base int, measures []Measure) []record.Finding {
	var out []record.Finding
	var family Family
	for _, m := range measures {
		f, d := o.added(cell, base, m)
		out, family = append(out, f), append(family, d)
	}
	family.Judge(out)
	return out
}
