package trial

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/drive/graph"
)

// visits holds the number of requests that reach a service per request at the entry: the expected
// number if all are answered at once, the expected number if each call is retried as often as
// allowed, the minimum for a successful answer, and the maximum that the request can cause.
type visits struct{ mean, repeated, least, most float64 }

// visits returns those of the scenario's services, in order.
func (s *scene) visits() ([]visits, error) {
	sure, every := s.scenario.Graph.WithDefaults(), s.scenario.Graph.WithDefaults() // copies
	for i := range sure.Services {
		calls := &sure.Services[i].Calls
		*calls = slices.DeleteFunc(*calls, func(c graph.Call) bool { return c.Probability < 1 })
		for j := range every.Services[i].Calls {
			every.Services[i].Calls[j].Probability = 1
		}
	}
	out := make([]visits, len(s.scenario.Graph.Services))
	for _, of := range []struct {
		graph   graph.Graph
		failing float64 // share of failing calls, which are retried
		to      func(*visits) *float64
	}{
		{s.scenario.Graph, 0, func(v *visits) *float64 { return &v.mean }},
		{s.scenario.Graph, 1, func(v *visits) *float64 { return &v.repeated }},
		{sure, 0, func(v *visits) *float64 { return &v.least }},
		{every, 1, func(v *visits) *float64 { return &v.most }},
	} {
		flow, err := of.graph.Flow(graph.Load{Entry: s.scenario.Entry, RPS: 1, FailureShare: of.failing})
		if err != nil {
			return nil, err
		}
		for i := range out {
			*of.to(&out[i]) = flow.Services[i].Visits
		}
	}
	return out, nil
}

// manyVisits is the number of possible calls from which chance evens out: the probability that
// fewer than half of the expected calls occur is then exp(-100/8), by Chernoff's bound.
const manyVisits = 100

// of returns bounds on the requests to the service caused by n answered requests at the entry.
func (v visits) of(n int64) (least, most int64) {
	low, high := v.least*float64(n), v.most*float64(n)
	if mean := v.mean * float64(n); mean >= manyVisits*v.most {
		low, high = max(low, mean/2), min(high, 3*(v.repeated*float64(n))) // retries are not random
	}
	return int64(low), int64(math.Ceil(high))
}
