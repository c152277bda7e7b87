package analysis

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
)

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
