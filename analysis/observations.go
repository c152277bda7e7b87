package analysis

import (
	"fmt"
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// nsToUS turns nanoseconds into microseconds.
const nsToUS = 1e-3

// observations are a run's trials in the order of its plan.
type observations struct {
	plan *study.Plan
	run  record.Run
	// trials has the valid trials of each cell of the plan by block.
	trials []map[int][]*record.Trial
	counts map[string]stat.Counts // intended latency in microseconds by trial
	blocks []int                  // that have any trial, ascending
	// events are the changes or steps of trials, by trial.
	events   map[string][]*record.Event
	tried    []map[int][]*record.Trial // of each cell by block, valid or not
	brokenIn map[int][]int             // see broken
	kind     kind
	own      any // what the kind keeps of trials
}

// observe sorts a run's trials by the plan's cells. Trials of cells that the
// plan does not know belong to another study: that is an error. The kind is
// given the assertions about single trials.
func (k kind) observe(plan *study.Plan, run record.Run, ofTrials ...study.Expr) (*observations, error) {
	o := &observations{plan: plan, run: run, counts: map[string]stat.Counts{}, events: map[string][]*record.Event{}, brokenIn: map[int][]int{}, kind: k}
	if o.kind.begin != nil {
		o.own = o.kind.begin(ofTrials)
	}
	for i := range run.Events {
		e := &run.Events[i]
		o.events[e.Trial] = append(o.events[e.Trial], e)
	}
	o.trials = make([]map[int][]*record.Trial, len(plan.Cells))
	o.tried = make([]map[int][]*record.Trial, len(plan.Cells))
	for i := range o.trials {
		o.trials[i], o.tried[i] = map[int][]*record.Trial{}, map[int][]*record.Trial{}
	}
	seen := map[int]bool{}
	for i := range run.Trials {
		t := &run.Trials[i]
		cell, ok := plan.Index(t.Cell)
		if !ok {
			return nil, fmt.Errorf("trial %q measured cell %q, which the study does not have", t.ID, t.Cell.Key())
		}
		o.tried[cell][t.Block] = append(o.tried[cell][t.Block], t)
		if !seen[t.Block] {
			seen[t.Block] = true
			o.blocks = append(o.blocks, t.Block)
		}
		if t.Validity.Valid {
			o.trials[cell][t.Block] = append(o.trials[cell][t.Block], t)
		}
	}
	sort.Ints(o.blocks)
	for _, blocks := range o.trials {
		for _, trials := range blocks {
			sort.SliceStable(trials, func(i, j int) bool { return trials[i].Repeat < trials[j].Repeat })
		}
	}
	return o, nil
}

// until returns the observations of the first n blocks alone.
func (o *observations) until(n int) *observations {
	short := *o
	short.blocks = o.blocks[:min(n, len(o.blocks))]
	return &short
}

// latency is the trial's distribution of latency by intended time, in
// microseconds; empty if it has none.
func (o *observations) latency(t *record.Trial) stat.Counts {
	c, ok := o.counts[t.ID]
	if !ok {
		c = stat.FromHistogram(o.histogram(t).Intended, nsToUS)
		o.counts[t.ID] = c
	}
	return c
}

// histogram is the trial's latency.
func (o *observations) histogram(t *record.Trial) record.TrialHist {
	if o.kind.histogram != nil {
		if h, ok := o.kind.histogram(o, t); ok {
			return h
		}
	}
	return o.run.Hist[t.ID]
}

// valid lists a cell's valid trials in the order of blocks.
func (o *observations) valid(cell int) []*record.Trial {
	var out []*record.Trial
	for _, block := range o.blocks {
		out = append(out, o.trials[cell][block]...)
	}
	return out
}

// skipped says that a cell is one that a search might have measured between
// the study's own levels, and did not.
func (o *observations) skipped(cell int) bool {
	return len(o.tried[cell]) == 0 && o.plan.Refined(o.plan.Cells[cell])
}

// factors are the study's factors with their levels, and with those that a
// search measured between them.
func (o *observations) factors() []record.FactorLevels {
	out := slices.Clone(o.plan.Varying)
	for i, varying := range out {
		factor, ok := study.FactorByName(varying.Factor)
		if !ok || !factor.Numeric {
			continue
		}
		levels := slices.Clone(varying.Levels)
		for cell := range o.plan.Cells {
			level := o.plan.Cells[cell][varying.Factor]
			v, number := factor.Value(level)
			if !number || len(o.tried[cell]) == 0 || !o.plan.Refined(o.plan.Cells[cell]) || slices.Contains(levels, level) {
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

// baseline returns the index of the cell that a cell is compared with; false
// if there is none, or if the cell is a baseline itself.
func (o *observations) baseline(cell int) (int, bool) {
	base, ok := o.plan.BaselineOf(o.plan.Cells[cell])
	if !ok {
		return 0, false
	}
	i, ok := o.plan.Index(base)
	return i, ok && i != cell
}

// short is the part of a cell that varies in the study.
func (o *observations) short(cell int) record.Cell { return o.plan.Short(o.plan.Cells[cell]) }
