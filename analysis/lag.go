package analysis

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// maxLagRatio is how much of a latency effect the generator's own lateness may be. Latency
// counts from the intended time, and so includes that lateness; where it is large beside the
// effect, it may be the effect.
const maxLagRatio = 0.25

// lateness is how late the generator was in a cell at a measure's part of the
// distribution, in microseconds, in the middle of the cell's trials: at the median
// for p50, at p90 for p90, and so on, on the mean for a mean.
func (o *Observations) lateness(cell int, m Measure) float64 {
	var lags []float64
	for _, t := range o.Valid(cell) {
		if t.Load == nil || t.Load.Rate.IsMax() {
			continue // as fast as possible: there is no schedule
		}
		lags = append(lags, lagAt(t.Load.Lag, m))
	}
	if len(lags) == 0 {
		return 0
	}
	return stat.Median(lags)
}

func lagAt(lag record.Latency, m Measure) float64 {
	if m.Timed {
		return lag.Mean
	}
	return lag.At(record.Quantile(m.Quantile))
}

// DoubtLag revokes a verdict on a difference in latency that the generator itself may have
// caused in one of its cells; the effect is in microseconds. It does nothing to other
// measures.
func (o *Observations) DoubtLag(f *record.Finding, m Measure, effect float64, cells ...int) {
	if m.Quantile == 0 && !m.Timed || f.Verdict != record.VerdictReal {
		return
	}
	lag := 0.0
	for _, cell := range cells {
		lag = math.Max(lag, o.lateness(cell, m))
	}
	if lag <= maxLagRatio*math.Abs(effect) {
		return
	}
	f.Verdict = record.VerdictInconclusive
	f.Because(record.ReasonLateLoad, noteLateLoad.Of(lag))
}
