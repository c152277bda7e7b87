package analysis

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// maxLagRatio limits the generator's own lateness relative to a latency effect. Latency is
// measured from the intended time and so includes that lateness, which may be the effect
// itself if it is comparatively large.
const maxLagRatio = 0.25

// lateness returns how late the generator was in a cell at a measure's part of the
// distribution, in microseconds, as the median over the cell's trials: at the median for
// p50, at p90 for p90, and so on, and on average for a mean.
func (o *Observations) lateness(cell int, m Measure) float64 {
	var lags []float64
	for _, t := range o.Valid(cell) {
		if t.Load == nil || t.Load.Rate.IsMax() {
			continue // as fast as possible: no schedule
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

// DoubtLag revokes a verdict on a latency difference that the generator itself may have
// caused in one of the cells; the effect is in microseconds. It does not change other
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
