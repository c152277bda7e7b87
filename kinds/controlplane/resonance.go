package controlplane

import (
	"math"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// resonant is the distance, as a share of the time between changes, within which chance may decide
// the order of two times.
const resonant = 0.1

// mostFolds is the number of changes debounced together above which one more or less makes no
// difference.
const mostFolds = 10.5

// leastBetween is the time between changes below which chance does not decide whole trials: the API
// server's response times vary as much as the two times may differ, so each of many changes is
// decided on its own, and their mean is similar in every block.
const leastBetween = 0.2 // seconds

// resonances notes cells whose change schedule makes debouncing a lottery. Istiod waits
// debounce_after from the last change, but at most debounce_max from the first (pilot/pkg/xds,
// debounce). If changes are evenly spaced by about debounce_after, milliseconds decide whether a
// change joins the preceding ones. If they all join and debounce_max is a multiple of the spacing,
// milliseconds decide whether the last one does. Trials then differ for no other reason. There is
// one note for each kind and pair of times.
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
	noteAfterResonates = note.Define("debounce_after_resonates", "debounce_after, %s, is close to the time between changes, %s: chance decides which changes are pushed together, so blocks differ")
	noteMaxResonates   = note.Define("debounce_max_resonates", "debounce_max, %s, is close to a multiple of the time between changes, %s, which are all debounced together: chance decides whether the last is pushed with the others, so blocks differ")
)

func resonance(s *study.Study, cell record.Cell) (n note.Note, ok bool) {
	if cell[FactorChange] == ChangeTrace {
		return n, false
	}
	l, err := LevelsOf(cell)
	rate, fault := parseChangeRate(cell[FactorChangeRate])
	if err != nil || fault != nil || rate.Kind != arrival.Constant || ChangesIn(s, cell) < 2 {
		return n, false
	}
	between := 1 / rate.RateRPS // seconds
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
