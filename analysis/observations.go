package analysis

import (
	"fmt"
	"sort"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/stat"
	"github.com/meshmark/meshmark/study"
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
	// events are the changes of control-plane trials by trial, and what
	// they say once somebody has asked.
	events       map[string][]*record.Event
	convergences map[string]*convergence
	have         []bool // cells that have any trial, valid or not
	brokenCells  []int  // see broken
}

// observe sorts a run's trials by the plan's cells. Trials of cells that the
// plan does not know belong to another study: that is an error.
func observe(plan *study.Plan, run record.Run) (*observations, error) {
	o := &observations{plan: plan, run: run, counts: map[string]stat.Counts{},
		events: map[string][]*record.Event{}, convergences: map[string]*convergence{}}
	for i := range run.Events {
		e := &run.Events[i]
		o.events[e.Trial] = append(o.events[e.Trial], e)
	}
	o.have = make([]bool, len(plan.Cells))
	o.trials = make([]map[int][]*record.Trial, len(plan.Cells))
	for i := range o.trials {
		o.trials[i] = map[int][]*record.Trial{}
	}
	seen := map[int]bool{}
	for i := range run.Trials {
		t := &run.Trials[i]
		cell, ok := plan.Index(t.Cell)
		if !ok {
			return nil, fmt.Errorf("trial %q measured cell %q, which the study does not have", t.ID, t.Cell.Key())
		}
		o.have[cell] = true
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
		c = stat.FromHistogram(o.run.Hist[t.ID].Intended, nsToUS)
		o.counts[t.ID] = c
	}
	return c
}

// valid lists a cell's valid trials in the order of blocks.
func (o *observations) valid(cell int) []*record.Trial {
	var out []*record.Trial
	for _, block := range o.blocks {
		out = append(out, o.trials[cell][block]...)
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
