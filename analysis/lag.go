package analysis

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// maxLagRatio is how much of a latency effect the generator's own lateness
// may be. Latency counts from the intended time, so that lateness is in it;
// where it is large beside the effect, it may be the effect.
const maxLagRatio = 0.25

// lateness is how late the generator was in a cell at the quantile's part of
// the distribution, in microseconds, in the middle of the cell's trials: at
// the median for p50, at p90 for p90, at p99 for whatever lies beyond.
func (o *Observations) lateness(cell int, quantile float64) float64 {
	var lags []float64
	for _, t := range o.Valid(cell) {
		if t.Load == nil || t.Load.Rate.IsMax() {
			continue // as fast as possible: there is no schedule
		}
		switch lag := t.Load.Lag; {
		case quantile <= 0.5:
			lags = append(lags, lag.P50)
		case quantile <= 0.9 && lag.P90 > 0:
			lags = append(lags, lag.P90)
		default:
			lags = append(lags, lag.P99)
		}
	}
	if len(lags) == 0 {
		return 0
	}
	return stat.Median(lags)
}

// doubtLag takes back a verdict that the generator itself may have caused.
func (o *Observations) doubtLag(f *record.Finding, cell, base int, m Measure) {
	at := m.Quantile
	if at == 0 && m.Timed {
		at = 0.5
	}
	if at == 0 || f.Verdict != record.VerdictReal {
		return
	}
	lag := math.Max(o.lateness(cell, at), o.lateness(base, at))
	if lag <= maxLagRatio*math.Abs(f.Estimate) {
		return
	}
	f.Verdict = record.VerdictInconclusive
	f.Because(record.ReasonLateLoad, fmt.Sprintf(
		"the generator itself lagged by %.0f µs, which is large beside this effect: something else kept the machine busy", lag))
}
