package analysis

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Enough reports whether a run in progress has measured enough by its study's stop rule, and
// why or why not. It considers only complete blocks, and requires that the rule was also
// satisfied one block earlier: see [stat.StopRule].
func (kinds Kinds) Enough(plan *study.Plan, run record.Run) (stop bool, why string) {
	if plan.Study.Stop == nil {
		return false, "the study has no stop rule"
	}
	o, err := kinds.Of(plan.Study).observe(plan, run)
	if err != nil {
		return false, err.Error()
	}
	return o.enough(o.wholeBlocks())
}

// enough evaluates the stop rule after n blocks.
func (o *Observations) enough(n int) (bool, string) {
	s := o.Plan.Study
	rule := stat.StopRule{RelativeWidth: 2 * float64(s.Stop.HalfWidth), MinBlocks: s.Blocks.Min}
	now, cells := o.look(n)
	before, _ := o.look(n - 1)
	d := rule.Decide(now, before)
	if d.Widest >= 0 && d.Widest < len(cells) {
		d.Why = fmt.Sprintf("%s at %s: %s", s.Stop.Finding, o.Plan.Label(o.Plan.Cells[cells[d.Widest]]), d.Why)
	}
	return d.Stop, d.Why
}

// look collects the estimates that the stop rule covers, and their cells.
func (o *Observations) look(n int) (stat.Look, []int) {
	s := o.Plan.Study
	look := stat.Look{Blocks: n}
	m, overhead, ok := o.MeasureNamed(s.Stop.Finding)
	if !ok || n < 1 {
		return look, nil
	}
	short := o.until(n)
	var cells []int
	for _, cell := range o.Plan.Matching(s.Stop.Of) {
		base, ok := o.Baseline(cell)
		switch {
		case overhead && ok:
			floor, level := short.Floor(base, m)
			e, _ := short.Apart(cell, base, m, stat.DefaultLevel) // as it is printed
			look.Margins = append(look.Margins, short.Margin(level))
			look.Estimates = append(look.Estimates, e)
			look.Floors = append(look.Floors, floor)
			cells = append(cells, cell)
		case !overhead:
			if e, ok := short.Value(cell, m); ok {
				look.Estimates = append(look.Estimates, e)
				cells = append(cells, cell)
			}
		}
	}
	return look, cells
}

// wholeBlocks returns the number of initial blocks in which every trial has ended or was left
// out by a search.
func (o *Observations) wholeBlocks() int {
	if o.Plan.Study.Chooses() {
		n := 0
		for slices.Contains(o.Blocks, n) && o.sated(n) {
			n++
		}
		return n
	}
	ended := map[int]int{}
	for i := range o.Run.Trials {
		ended[o.Run.Trials[i].Block]++
	}
	n := 0
	for ended[n] >= o.Plan.BlockSize() {
		n++
	}
	return n
}

// whyEnded derives why a run ended when it did and, if the stop rule was not the reason, what
// the rule still lacked.
func (o *Observations) whyEnded() string {
	n := o.wholeBlocks()
	limits := o.Plan.Study.Blocks
	open := ""
	if o.Plan.Study.Stop != nil {
		stop, why := o.enough(n)
		if stop && n >= limits.Min {
			return why
		}
		open = "; " + why
	}
	if n >= limits.Max {
		return study.AllDone(n) + open
	}
	if n > 0 && o.sated(n) {
		return o.Plan.Study.ChoicesDone(n) + open
	}
	if o.limited(n) {
		return limits.LimitReached(n) + open
	}
	if o.Plan.Study.Tune != nil { // a tuning counts trials
		return "interrupted after " + study.BlockWords(n)
	}
	return fmt.Sprintf("interrupted after %d of at most %s", n, study.BlockWords(limits.Max)) + open
}

// limited reports whether the study's time limit leaves no room for another block after the
// first n or, in a study that searches, for another trial. A block that has begun is not cut
// short.
func (o *Observations) limited(n int) bool {
	s := o.Plan.Study
	if s.Blocks.Limit <= 0 || !s.Chooses() && slices.Contains(o.Blocks, n) {
		return false
	}
	elapsed, longest := o.elapsed()
	return elapsed+longest > s.Blocks.Limit
}

// elapsed returns the time from the first trial's start to the last one's end, and that of the
// longest block or, in a study that searches, the longest trial.
func (o *Observations) elapsed() (total, longest time.Duration) {
	type span struct{ from, to time.Time }
	extend := func(s span, t *record.Trial) span {
		if s.from.IsZero() || t.Started.Before(s.from) {
			s.from = t.Started
		}
		if t.Ended.After(s.to) {
			s.to = t.Ended
		}
		return s
	}
	var all span
	blocks := map[int]span{}
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		all = extend(all, t)
		one := extend(blocks[t.Block], t)
		if o.Plan.Study.Chooses() {
			one = span{t.Started, t.Ended}
		}
		blocks[t.Block], longest = one, max(longest, one.to.Sub(one.from))
	}
	return all.to.Sub(all.from), longest
}

// Progress is the progress of a run.
type Progress struct {
	// Blocks counts the complete blocks. Done means that the study needs no more. Limited means
	// that its time limit leaves no room for another, so a run that has stopped was ended by it.
	Blocks  int
	Done    bool
	Limited bool
	// Why is the stop rule's reason, "" without a rule. TargetRatio is the half width that the
	// rule waits for, as a share of the estimate.
	Why         string
	TargetRatio float64
	// Widths holds the widths of the intervals under the rule, by cell.
	Widths []Widths
}

// Ended reports whether a run is over; going means that a process is still writing it.
func (p Progress) Ended(going bool) bool { return p.Done || p.Limited && !going }

// Widths shows how a cell's interval narrowed.
type Widths struct {
	Cell  record.Cell
	Label string
	After []Width
}

// Width is the half width of an interval after some blocks, as a share of the estimate. Settled
// means that it lies within the margin, so the rule does not wait for it.
type Width struct {
	Blocks  int
	Ratio   float64
	Settled bool
}

// mostWidths limits the numbers of blocks for which intervals are estimated: each costs as much
// as the findings under the rule.
const mostWidths = 12

// Progress returns the progress of a run, complete or not.
func (kinds Kinds) Progress(run record.Run) (Progress, error) {
	o, err := kinds.Observe(run)
	if err != nil {
		return Progress{}, err
	}
	n, s := o.wholeBlocks(), o.Plan.Study
	p := Progress{Blocks: n, Done: n >= s.Blocks.Max || n > 0 && o.sated(n), Limited: o.limited(n)}
	if s.Stop == nil {
		return p, nil
	}
	stop, why := o.enough(n)
	p.Why, p.TargetRatio = why, float64(s.Stop.HalfWidth)
	p.Done = p.Done || stop && n >= s.Blocks.Min
	at := map[int]int{} // index into Widths, by cell
	step := max(1, (n+mostWidths-1)/mostWidths)
	for after := n - (n-2)/step*step; n >= 2 && after <= n; after += step {
		look, cells := o.look(after)
		for i, e := range look.Estimates {
			ratio := (e.High - e.Low) / 2 / math.Abs(e.Value)
			if !e.Defined() || math.IsNaN(ratio) || math.IsInf(ratio, 0) {
				continue
			}
			w, ok := at[cells[i]]
			if !ok {
				w = len(p.Widths)
				at[cells[i]] = w
				cell := o.Plan.Cells[cells[i]]
				p.Widths = append(p.Widths, Widths{Cell: o.Short(cells[i]), Label: o.Plan.Label(cell)})
			}
			p.Widths[w].After = append(p.Widths[w].After, Width{Blocks: after, Ratio: ratio, Settled: look.Settled(i)})
		}
	}
	return p, nil
}
