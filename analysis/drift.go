package analysis

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// Neighbouring trials count as correlated if there are at least this many trials and the
// correlation is this many standard errors above zero.
const (
	alikeTrials = 20
	alikeErrors = 2.5
)

// drifting warns of a machine whose level changed so slowly that neighbouring trials are
// correlated, whatever their cells. Differences inside blocks remain valid. A plain value
// applies only to the time of the run, and its interval says nothing about any other hour.
func (o *Observations) drifting(measures []Measure) []note.Note {
	for _, m := range measures {
		if m.Quantile != 0.5 && m.Part != record.PartMachine {
			continue
		}
		if r, n := o.alike(m); n >= alikeTrials && r > alikeErrors/math.Sqrt(float64(n)) {
			return []note.Note{noteDrift.Of(m.Name, r)}
		}
	}
	return nil
}

// alike returns the correlation of a measure between successive trials of any cells, on a
// ratio scale and after subtracting each cell's mean, and the number of trials.
func (o *Observations) alike(m Measure) (correlation float64, trials int) {
	type one struct {
		trial *record.Trial
		value float64
	}
	var all []one
	for cell := range o.Plan.Cells {
		var sum, n float64
		from := len(all)
		for _, t := range o.Valid(cell) {
			if v := m.Of(o, t); v > 0 && !math.IsInf(v, 1) {
				all = append(all, one{t, math.Log(v)})
				sum, n = sum+math.Log(v), n+1
			}
		}
		for i := range all[from:] {
			all[from+i].value -= sum / n
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		if a.trial.Block != b.trial.Block {
			return a.trial.Block - b.trial.Block
		}
		return a.trial.Order - b.trial.Order
	})
	var square, next float64
	for i, x := range all {
		square += x.value * x.value
		if i > 0 {
			next += x.value * all[i-1].value
		}
	}
	if square == 0 {
		return 0, len(all)
	}
	return next / square, len(all)
}
