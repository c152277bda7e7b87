package record

import (
	"math"
	"slices"
)

// Moment is a sliding second as its clients saw it, with what the services
// were like at its end: what assertions about moments and conditions of steps
// are asked of.
type Moment struct {
	AtS        float64 // its end, after the timeline's begin
	Requests   int64   // that were due in it
	Failed     int64   // of them, those that never ended too
	ErrorShare float64 // Failed of Requests; 0 without any
	RateRPS    float64 // answers within it per second, whenever their requests were due
	// Latency of the requests due in it, from when they were due: infinite of those that
	// failed. Answered is that of the others; infinite if there are none. Both are
	// zero without any request.
	Latency, Answered Latency
	Ready, Ejected    map[string]int // endpoints by service
}

// SetLatency sets the moment's latencies from those of its answered requests, in
// microseconds, which it sorts. Failed must be set.
func (m *Moment) SetLatency(micros []int64) {
	m.Latency = LatencyOf(micros, int(m.Failed))
	m.Answered = m.Latency
	if len(micros) > 0 {
		m.Answered = LatencyOf(micros, 0)
	}
}

// LatencyOf returns the percentiles of latencies in microseconds, which it sorts: the
// smallest value that so large a share is not above. Those of lost requests more are
// infinite. It is all zeros of no request.
func LatencyOf(micros []int64, lost int) Latency {
	n := len(micros) + lost
	if n == 0 {
		return Latency{}
	}
	slices.Sort(micros)
	sum := 0.0
	for _, v := range micros {
		sum += float64(v)
	}
	if lost > 0 {
		sum = math.Inf(1)
	}
	at := func(q float64) float64 {
		if at := max(0, min(n-1, int(math.Ceil(q*float64(n)))-1)); at < len(micros) {
			return float64(micros[at])
		}
		return math.Inf(1)
	}
	return Latency{Min: at(0), Quantiles: QuantilesOf(at), Mean: sum / float64(n)}
}
