package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
)

// waitingMeasures divide the mean latency into waiting for a CPU and the rest. Unlike percentiles,
// means add up.
func waitingMeasures() []analysis.Measure {
	mean := func(t *record.Trial) float64 {
		if t.Load == nil || t.Load.Rate.IsMax() || t.Load.Completed <= 0 {
			return math.NaN()
		}
		return analysis.Positive(t.Load.Intended.Mean)
	}
	out := []analysis.Measure{
		analysis.MeasureOf(dataplane.FindingMean, func(_ *analysis.Observations, t *record.Trial) float64 { return mean(t) }),
		analysis.MeasureOf(dataplane.FindingWaiting, func(_ *analysis.Observations, t *record.Trial) float64 { return waiting(t) }),
		analysis.MeasureOf(dataplane.FindingService, func(_ *analysis.Observations, t *record.Trial) float64 { return mean(t) - waiting(t) }),
	}
	out[0].Timed, out[2].Timed = true, true
	return out
}

// waiting returns the run-queue wait of the threads that serve a trial's requests, in its proxies
// and the workload, in microseconds per request. A thread wakes up for about one request if the
// rate is far below its capacity. If a wake-up serves several requests, each of them waits as long,
// and the result is too low. It is NaN if it was not read, or if the schedule does not set the
// rate.
func waiting(t *record.Trial) float64 {
	if t.Load == nil || t.Load.Rate.IsMax() || t.Load.AnsweredWithin() <= 0 || t.Waits == nil {
		return math.NaN()
	}
	sum := 0.0
	for part, w := range t.Waits {
		if _, proxy := record.ProxyOf(part); (proxy || part == record.PartWorker) && w.Seconds > 0 {
			sum += w.WaitS / w.Seconds
		}
	}
	return sum * t.Window.Seconds * 1e6 / float64(t.Load.AnsweredWithin())
}
