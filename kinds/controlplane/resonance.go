package controlplane

import (
	"math"
	"time"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// resonant is how near two times lie that chance may put in either order, as a
// share of the time between changes.
const resonant = 0.1

// mostFolds is how many changes debounced together are so many that one more
// or less makes no difference.
const mostFolds = 10.5

// leastBetween is the time between changes below which chance is no lottery of
// whole trials: the API server's answers vary by as much as the two times may
// lie apart, so that each of many changes is decided by itself, and their mean
// is much the same in every block.
const leastBetween = 0.2 // seconds

// resonances says in which cells the schedule of changes makes debouncing a
// lottery: istiod waits debounce_after from the last change, but no longer than
// debounce_max from the first (pilot/pkg/xds, debounce). Where changes come at
// even times as far apart as debounce_after, some milliseconds decide whether a
// change joins the ones before it; where they all join, and debounce_max is a
// multiple of the time between them, whether the last one does. Such a trial's
// figures differ from another's for no other reason. One note for each kind
// and pair of times.
func resonances(p *study.Plan) []note.Note {
	var out []note.Note
	seen := map[string]bool{}
	for _, cell := range p.Cells {
		if n, ok := resonance(p.Study, cell); ok && !seen[n.String()] {
			seen[n.String()] = true
			out = append(out, n.At("at "+p.Label(cell)))
		}
	}
	return out
}

var (
	noteAfterResonates = note.Define("debounce_after_resonates", "debounce_after, %s, is about the time between changes, %s: chance decides which changes are pushed together, and blocks differ by it")
	noteMaxResonates   = note.Define("debounce_max_resonates", "debounce_max, %s, is about a multiple of the time between changes, %s, which are all debounced together: chance decides whether the last of them is pushed with the others, and blocks differ by it")
)

func resonance(s *study.Study, cell record.Cell) (n note.Note, ok bool) {
	if cell[FactorChange] == ChangeTrace {
		return n, false
	}
	l, err := LevelsOf(cell)
	rate, fault := parseChangeRate(cell[FactorChangeRate])
	if err != nil || fault != nil || rate.Kind != RateConstant || ChangesIn(s, cell) < 2 {
		return n, false
	}
	between := 1 / rate.Highest() // seconds
	switch kind, burst := l.Arrival(); {
	case kind == study.ArrivalPoisson, kind == study.ArrivalBurst && burst == 0:
		return n, false
	case kind == study.ArrivalBurst:
		between *= float64(burst)
	}
	if between < leastBetween {
		return n, false
	}
	after, most := l.DebounceAfter.Seconds(), l.DebounceMax.Seconds()
	each := time.Duration(between * float64(time.Second)).Round(time.Millisecond)
	folds := most / between
	switch {
	case math.Abs(after-between) <= resonant*between:
		return noteAfterResonates.Of(l.DebounceAfter, each), true
	case after > between && folds >= 1 && folds < mostFolds && math.Abs(folds-math.Round(folds)) <= resonant:
		return noteMaxResonates.Of(l.DebounceMax, each), true
	}
	return n, false
}
