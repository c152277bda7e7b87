package assess

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Latency is what proxies added to requests in a run, over requests that none carried.
type Latency struct {
	Run     string `json:"run"`
	Machine string `json:"machine"`
	Shipped bool   `json:"shipped,omitempty"`
	// Cell has the levels of what varied: who carried the requests, the rate, connections.
	Cell record.Cell `json:"cell"`
	// Rate is that of the requests, a second.
	Rate float64 `json:"rate_per_s"`
	// P50 and P99 are differences of percentiles, in microseconds; nil if the run does not tell.
	P50 *record.Priced `json:"p50,omitempty"`
	P99 *record.Priced `json:"p99,omitempty"`
	// Lacking are the run's proxies that lack something of Istio's.
	Lacking []record.Component `json:"lacking,omitempty"`
}

// latency keeps what runs measured at the rate that is nearest to that of a sidecar of this mesh, if it is known.
func (a *Assessment) latency(e Evidence) {
	if a.Mesh.Count(Sidecar) == 0 {
		return
	}
	rate := a.eachRate()
	apart := func(l Latency) float64 { return math.Abs(math.Log(l.Rate / rate)) }
	for _, l := range e.Latency {
		nearest := l
		for _, o := range e.Latency {
			if o.Run == l.Run && rate > 0 && apart(o) < apart(nearest) {
				nearest = o
			}
		}
		if nearest.Rate == l.Rate {
			a.Cost.Latency = append(a.Cost.Latency, l)
		}
	}
	carried := func(l Latency) bool { return l.Cell["sidecars"] == "both" }
	if !slices.ContainsFunc(a.Cost.Latency, carried) {
		a.add(NoLatency.Of())
	}
}
