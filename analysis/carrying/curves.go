package carrying

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// Measure adds what trials used of a resource, in cores or bytes by the rate of requests: all
// proxies at a place together, for each of a number of units. A unit without points at two
// rates has no share.
func (w *Way) Measure(u Use, units int, points func(record.Place) []stat.FitPoint) {
	shares := make([]sizing.Share, units)
	for _, p := range w.Proxies {
		for unit, curve := range curves(units, points(p.Place), p) {
			*proxyAt(&shares[unit], p.Place) = sizing.Proxy{Curve: curve, Passes: p.Passes}
		}
	}
	if w.by == nil {
		w.by = map[string]sizing.Way{}
	}
	w.by[u.Of] = sizing.Way{Plain: shares}
}

func proxyAt(s *sizing.Share, place record.Place) *sizing.Proxy {
	switch place {
	case record.PlaceSidecar:
		return &s.Pod
	case record.PlaceNode:
		return &s.Node
	}
	return &s.Waypoint
}

// curves returns what one proxy at a place uses depending on its load, for each unit, from
// points of all such proxies together by the rate of requests.
func curves(units int, points []stat.FitPoint, p Proxies) []sizing.Curve {
	type at struct {
		unit  int
		level float64
	}
	sums, counts := map[at]sizing.Knot{}, map[at]float64{}
	for _, x := range points {
		if !stat.Finite(x.X) || !stat.Finite(x.Y) {
			continue
		}
		k := at{x.Unit, x.Level}
		sums[k], counts[k] = sizing.Knot{Rate: sums[k].Rate + x.X, Use: sums[k].Use + x.Y}, counts[k]+1
	}
	knots := make([][]sizing.Knot, units)
	for k, sum := range sums {
		knots[k.unit] = append(knots[k.unit], sizing.Knot{Rate: sum.Rate / counts[k] * p.Passes / p.Count, Use: sum.Use / counts[k] / p.Count})
	}
	out := make([]sizing.Curve, units)
	for unit := range out {
		if out[unit] = sizing.CurveOf(knots[unit]); len(out[unit]) < 2 {
			out[unit] = sizing.Unmeasured()
		}
	}
	return out
}

// rest adds the measured use of a node's proxy without requests to its use under load, in the
// same units. If that measurement is missing for some proxies, it adds nothing: a mean of
// measured and extrapolated values would be neither.
func (w *Way) rest(idle map[string][]stat.FitPoint) {
	if _, node := w.at(record.PlaceNode); !node || w.pods {
		return
	}
	w.rested = len(w.by) > 0
	for of, way := range w.by {
		means := unitMeans(len(way.Plain), idle[of])
		var units []int // units with known use of the proxy
		all := true
		for unit, s := range way.Plain {
			if len(s.Node.Curve) > 1 {
				units, all = append(units, unit), all && stat.Finite(means[unit])
			}
		}
		if w.rested = w.rested && all; !all {
			continue
		}
		for _, unit := range units {
			if at := &way.Plain[unit].Node; at.Curve[0].Rate > 0 {
				at.Curve = append(sizing.Curve{{Use: means[unit]}}, at.Curve...)
			}
		}
	}
}

// unitMeans returns the mean of each unit's points; NaN for a unit without any.
func unitMeans(units int, points []stat.FitPoint) []float64 {
	sums, counts := make([]float64, units), make([]float64, units)
	for _, p := range points {
		if stat.Finite(p.Y) {
			sums[p.Unit], counts[p.Unit] = sums[p.Unit]+p.Y, counts[p.Unit]+1
		}
	}
	for unit := range sums {
		sums[unit] /= counts[unit]
	}
	return sums
}
