package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// ofTraffic returns a measure of what real requests met; NaN without requests.
func ofTraffic(of func(t *record.Traffic) float64) func(*analysis.Observations, *record.Trial) float64 {
	return ofControl(func(c *record.Control) float64 {
		if c.Traffic == nil || c.Traffic.Requests <= 0 {
			return math.NaN()
		}
		return of(c.Traffic)
	})
}

func trafficMeasures() []analysis.Measure {
	share := func(of func(t *record.Traffic) int64) func(*analysis.Observations, *record.Trial) float64 {
		return ofTraffic(func(t *record.Traffic) float64 { return float64(of(t)) / float64(t.Requests) })
	}
	plain := func(of func(t *record.Traffic) int64) func(*analysis.Observations, *record.Trial) float64 {
		return ofTraffic(func(t *record.Traffic) float64 { return float64(of(t)) })
	}
	met := func(t *record.Traffic) int64 { return t.PhantomRequests }
	failures := func(t *record.Traffic) int64 { return t.PhantomFailures }
	hidden := func(t *record.Traffic) int64 { return t.PhantomHidden }
	return []analysis.Measure{
		analysis.MeasureOf("phantom_requests", plain(met)),
		analysis.MeasureOf("phantom_share", share(met)),
		analysis.MeasureOf("phantom_failures", plain(failures)),
		analysis.MeasureOf("phantom_failure_share", share(failures)),
		analysis.MeasureOf("phantom_hidden", plain(hidden)).Warning(slowlyHidden),
		analysis.MeasureOf("phantom_last", ofTraffic(func(t *record.Traffic) float64 {
			if t.PhantomAttempts == 0 {
				return math.NaN()
			}
			return t.LastPhantomUS
		})),
		analysis.MeasureOf("traffic_failures", plain(func(t *record.Traffic) int64 { return t.Lost() })),
		analysis.MeasureOf("traffic_latency_p99", ofTraffic(func(t *record.Traffic) float64 {
			if float64(t.Lost()) > 0.01*float64(t.Requests) {
				return math.Inf(1)
			}
			return analysis.Positive(t.Latency.At(0.99))
		})).Reaching("more than 1% of the requests failed or never ended"),
		analysis.MeasureOf("traffic_residual", plain(func(t *record.Traffic) int64 { return t.Residual })),
	}
}

// slowlyHidden states the cost of rescuing requests.
func slowlyHidden(o *analysis.Observations, cell int) []note.Note {
	longest := 0.0
	for _, t := range o.Valid(cell) {
		if t.Control.Traffic != nil {
			longest = max(longest, t.Control.Traffic.HiddenMaxUS)
		}
	}
	if longest < 1e6 {
		return nil
	}
	return []note.Note{noteHiddenLate.Of(words.Quantity(longest, "us"))}
}

// addTraffic adds a trial's traffic to a cell's. Counts are summed. Maximum times, and percentiles
// too, keep the largest, since histograms of traffic are not kept.
func addTraffic(s *record.ControlSummary, t *record.Traffic) {
	if t == nil {
		return
	}
	if s.Traffic == nil {
		s.Traffic = &record.Traffic{Latency: record.Latency{Min: t.Latency.Min}, RateRPS: t.RateRPS, Connections: t.Connections, Failed: map[string]int64{}, ProxyFailed: map[string]int64{}, PhantomFlags: map[string]int64{}}
	}
	x := s.Traffic
	for _, sum := range []struct {
		to   *int64
		from int64
	}{
		{&x.Requests, t.Requests}, {&x.Completed, t.Completed}, {&x.Unfinished, t.Unfinished}, {&x.Attempts, t.Attempts},
		{&x.Unconnected, t.Unconnected}, {&x.GivenUp, t.GivenUp}, {&x.Counted, t.Counted}, {&x.Residual, t.Residual},
		{&x.PhantomAttempts, t.PhantomAttempts}, {&x.PhantomEnded, t.PhantomEnded}, {&x.PhantomFailed, t.PhantomFailed},
		{&x.PhantomRequests, t.PhantomRequests}, {&x.PhantomServed, t.PhantomServed}, {&x.PhantomHidden, t.PhantomHidden},
		{&x.PhantomFailures, t.PhantomFailures}, {&x.PhantomOpen, t.PhantomOpen},
	} {
		*sum.to += sum.from
	}
	x.Gone += t.Gone
	for _, sum := range []struct{ to, from map[string]int64 }{{x.Failed, t.Failed}, {x.ProxyFailed, t.ProxyFailed}, {x.PhantomFlags, t.PhantomFlags}} {
		for kind, n := range sum.from {
			sum.to[kind] += n
		}
	}
	x.HiddenMaxUS, x.LastPhantomUS = max(x.HiddenMaxUS, t.HiddenMaxUS), max(x.LastPhantomUS, t.LastPhantomUS)
	l := t.Latency
	x.Latency = record.Latency{Min: min(x.Latency.Min, l.Min), Quantiles: x.Latency.Larger(l.Quantiles), Mean: max(x.Latency.Mean, l.Mean)}
}
