package signals

import (
	"maps"
	"math"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// MetricConvergence is meshtrial's own histogram of true convergence, in
// seconds: from when the API server has committed a change until a proxy
// acknowledges configuration that contains it. Each change has one observation
// for each proxy that needs it. It covers what istiod's
// pilot_proxy_convergence_time omits: the watch, debouncing, the wire and the
// acknowledgement.
const MetricConvergence = "meshtrial_convergence_seconds"

// MetricMissed counts changes that a proxy needed and never received.
const MetricMissed = "meshtrial_convergence_missed_total"

// convergenceBounds has the upper bounds of the buckets in seconds: about 20%
// apart in the usual range, which bounds the error of a quantile.
var convergenceBounds = func() []float64 {
	var bounds []float64
	for _, decade := range []float64{0.001, 0.01, 0.1, 1, 10} {
		for _, step := range []float64{1, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2} {
			bounds = append(bounds, rounded(decade*step))
		}
	}
	return append(bounds, 100, 300)
}()

func rounded(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return r
}

// Convergence collects true convergence as a Prometheus histogram,
// [MetricConvergence]. It is safe for concurrent use.
type Convergence struct {
	labels map[string]string

	mu     sync.Mutex
	counts []uint64 // one per bucket, the last one beyond all bounds
	sum    float64
	missed uint64
}

// NewConvergence returns an empty histogram whose series carry the labels.
func NewConvergence(labels map[string]string) *Convergence {
	return &Convergence{labels: maps.Clone(labels), counts: make([]uint64, len(convergenceBounds)+1)}
}

// Observe counts one proxy that acknowledged one change that many seconds after
// the commit. A negative time counts as zero; NaN is ignored.
func (c *Convergence) Observe(seconds float64) {
	if math.IsNaN(seconds) {
		return
	}
	seconds = max(seconds, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[sort.SearchFloat64s(convergenceBounds, seconds)]++
	c.sum += seconds
}

// Miss counts one proxy that never received a change that it needed.
func (c *Convergence) Miss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed++
}

// Samples returns the current histogram, for [Recorder.Append].
func (c *Convergence) Samples() []Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Sample, 0, len(c.counts)+3)
	var sum uint64
	for i, n := range c.counts {
		sum += n
		le := "+Inf"
		if i < len(convergenceBounds) {
			le = spellBound(convergenceBounds[i])
		}
		with := maps.Clone(c.labels)
		if with == nil {
			with = map[string]string{}
		}
		with["le"] = le
		out = append(out, Sample{Name: MetricConvergence + "_bucket", Labels: with, Value: float64(sum)})
	}
	return append(out, Sample{Name: MetricConvergence + "_sum", Labels: c.labels, Value: c.sum},
		Sample{Name: MetricConvergence + "_count", Labels: c.labels, Value: float64(sum)},
		Sample{Name: MetricMissed, Labels: c.labels, Value: float64(c.missed)})
}

// spellBound formats a bucket's bound as Prometheus stores it: always as a
// floating-point number.
func spellBound(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
