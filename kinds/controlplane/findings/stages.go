package findings

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
)

// residual returns the part of the measured mean from commit to ACK that a trial's stages leave
// unexplained, and that mean, in microseconds.
func residual(o *analysis.Observations, t *record.Trial) (rest, mean float64) {
	mean = converged(o, t).acked.Mean()
	if len(t.Control.Stages) == 0 {
		return math.NaN(), mean
	}
	rest = mean
	for _, s := range t.Control.Stages {
		rest -= s.MeanUS
	}
	return rest, mean
}

// largeResidual warns of waterfalls that do not add up.
func largeResidual(o *analysis.Observations, cell int) []note.Note {
	n, all := 0, 0
	var rest, mean float64
	for _, t := range o.Valid(cell) {
		r, m := residual(o, t)
		if !stat.Finite(r) || !stat.Finite(m) {
			continue
		}
		if all++; math.Abs(r) > record.MaxResidualUS(m) {
			if n++; math.Abs(r) > math.Abs(rest) {
				rest, mean = r, m
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []note.Note{noteResidual.Of(n, all, record.ResidualRule(""), words.Quantity(rest, finding.UnitMicroseconds), words.Quantity(mean, finding.UnitMicroseconds))}
}

// stageApart warns if two sources of a stage differ by more than a waterfall may leave unexplained,
// or if only some trials have the stage.
func stageApart(name string) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note {
		var out []note.Note
		apart, lacking, all := 0, 0, o.Valid(cell)
		var worst record.Stage
		for _, t := range all {
			i := slices.IndexFunc(t.Control.Stages, func(s record.Stage) bool { return s.Name == name })
			if i < 0 {
				lacking++
				continue
			}
			s := t.Control.Stages[i]
			_, mean := residual(o, t)
			if s.CheckUS == nil || !stat.Finite(mean) || !(math.Abs(*s.CheckUS-s.MeanUS) > record.MaxResidualUS(mean)) {
				continue
			}
			if apart++; apart == 1 || math.Abs(*s.CheckUS-s.MeanUS) > math.Abs(*worst.CheckUS-worst.MeanUS) {
				worst = s
			}
		}
		if apart > 0 {
			out = append(out, noteStageApart.Of(apart, len(all), record.ResidualRule("the whole"),
				words.Quantity(worst.MeanUS, finding.UnitMicroseconds), worst.Source, words.Quantity(*worst.CheckUS, finding.UnitMicroseconds), worst.CheckSource))
		}
		if lacking > 0 {
			out = append(out, noteStageLacks.Of(lacking, len(all)))
		}
		return out
	}
}

// maxUnexplained is the maximum share of a cell's pairs whose own stages may differ by more than a
// waterfall may: what two clocks and a log with microsecond resolution allow for.
const maxUnexplained = 0.05

// unexplainedPairs warns if errors of single pairs cancel in the mean.
func unexplainedPairs(o *analysis.Observations, cell int) []note.Note {
	u := unexplained(o.Valid(cell))
	if u == nil || float64(u.Beyond) <= maxUnexplained*float64(u.Pairs) {
		return nil
	}
	var unlogged any
	if u.Unlogged > 0 {
		unlogged = u.Unlogged
	}
	return []note.Note{notePairsApart.Of(u.Beyond, u.Pairs, record.ResidualRule("their time"), words.Quantity(u.LargestUS, finding.UnitMicroseconds), unlogged)}
}

// unexplained sums the trials' pairs; nil if none counted them.
func unexplained(trials []*record.Trial) *record.Unexplained {
	var sum *record.Unexplained
	for _, t := range trials {
		u := t.Control.Unexplained
		if u == nil {
			continue
		}
		sum = cmp.Or(sum, &record.Unexplained{})
		sum.Pairs, sum.Beyond, sum.Unlogged = sum.Pairs+u.Pairs, sum.Beyond+u.Beyond, sum.Unlogged+u.Unlogged
		if math.Abs(u.LargestUS) > math.Abs(sum.LargestUS) {
			sum.LargestUS = u.LargestUS
		}
	}
	return sum
}
