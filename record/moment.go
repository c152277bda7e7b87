package record

import (
	"math"
	"slices"
)

// Moment is a sliding second as the clients saw it, with the state of the services at
// its end. Assertions about moments and conditions of steps are evaluated against it.
type Moment struct {
	AtS        float64 // its end, in seconds after the start of the timeline
	Requests   int64   // that were due in it
	Failed     int64   // of those, including the ones that never ended
	ErrorShare float64 // Failed of Requests; 0 without any
	RateRPS    float64 // answers within it per second, whenever their requests were due
	// Latency is the latency of the requests due in it, from their due time; failed
	// requests count as infinite. Answered covers only the answered requests and is
	// infinite if there are none. Both are zero without requests.
	Latency, Answered Latency
	Ready, Ejected    map[string]int // endpoints by service
}

// SetLatency sets the moment's latencies from those of its answered requests, in
// microseconds. It sorts micros. Failed must already be set.
func (m *Moment) SetLatency(micros []int64) {
	m.Latency = LatencyOf(micros, int(m.Failed))
	m.Answered = m.Latency
	if len(micros) > 0 {
		m.Answered = LatencyOf(micros, 0)
	}
}

// LatencyOf returns the percentiles of latencies in microseconds: for each share, the
// smallest value with at least that share at or below it. It sorts micros. The lost
// requests count as additional, infinite latencies. The result is all zeros without
// requests.
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
