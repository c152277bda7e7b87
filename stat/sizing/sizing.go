// Package sizing determines which way of carrying requests costs a stated mesh less: sidecars in
// its pods, proxies on its nodes, or the latter with waypoints. It also finds the border between
// two ways. It is pure arithmetic on what each block of a run measured.
//
//	use at several rates, in a block   ->  use of one proxy by its load            ([Curve])
//	curves, a stated mesh              ->  use of its proxies, one value per block ([Way.At])
//	curves of two uses, their prices   ->  cost of each proxy                      ([Together])
//	differences inside blocks          ->  which way uses less, with an interval   ([Compare])
//	the same along pods, rates, L7     ->  where that changes                      ([Axis.Border])
//
// Intervals carry over to the stated mesh without loss: each block gives the mesh a value, and the
// scatter of these values is the uncertainty. Along an axis the difference of two ways has an
// interval at every place; the border lies where that includes zero. If the ways are linear, that
// is Fieller's set for the place at which a line is zero.
package sizing

import (
	"math"

	"github.com/meshtrial/meshtrial/stat"
)

// Mesh is a stated mesh. Study files bound each field (study/sizing.go).
type Mesh struct {
	Pods  float64 `json:"pods"`
	Nodes float64 `json:"nodes"`
	// RPS is the total number of requests per second between its pods.
	RPS float64 `json:"rps"`
	// L7 is the share of requests that need more than a node proxy can do: routing, retries or
	// policy based on their content.
	L7 float64 `json:"l7"`
	// Waypoints is the total number of waypoint proxies, if the way has any.
	Waypoints float64 `json:"waypoints"`
}

// Default returns the mesh of a study that states none of its values.
func Default() Mesh { return Mesh{Pods: 1000, Nodes: 50, RPS: 20_000, L7: 0.2, Waypoints: 10} }

// Proxy describes the use of one kind of proxy.
type Proxy struct {
	Curve Curve
	// Passes is the number of proxies of this kind that a request passes.
	Passes float64
}

// all returns the total use of count proxies that share rps requests per second. For zero proxies
// it is the limit of ever fewer, ever busier ones: the marginal cost of the requests at the
// highest rates.
func (p Proxy) all(rps, count float64) float64 {
	if count == 0 {
		return p.Passes * rps * p.Curve.Each(math.Inf(1))
	}
	return count * p.Curve.At(p.Passes*rps/count)
}

// each returns the mean use that a request adds to count such proxies.
func (p Proxy) each(rps, count float64) float64 {
	if count == 0 {
		return p.Passes * p.Curve.Each(math.Inf(1))
	}
	at := p.Passes * rps / count
	if at == 0 {
		return p.Passes * p.Curve.Each(0)
	}
	return p.Passes * (p.Curve.At(at) - p.Curve.At(0)) / at
}

// Share is the use of CPU (cores) or memory (bytes) of a way, by component.
type Share struct {
	Pod, Node, Waypoint Proxy
	// Agent is what a node uses in addition to its proxy, regardless of load.
	Agent float64
}

// at returns the use of the way in a mesh where through requests per second pass waypoints.
func (s Share) at(m Mesh, through float64) float64 {
	return s.Pod.all(m.RPS, m.Pods) + s.Node.all(m.RPS, m.Nodes) + s.Agent*m.Nodes + s.Waypoint.all(through, m.Waypoints)
}

// Each returns the mean use that a request of the mesh adds at all proxies that it passes. The
// mesh's share of L7 determines the load of a waypoint.
func (s Share) Each(m Mesh) float64 {
	return s.Pod.each(m.RPS, m.Pods) + s.Node.each(m.RPS, m.Nodes) + s.Waypoint.each(m.RPS*m.L7, m.Waypoints)
}

// Way is a way of carrying requests, as measured by every block. A share is NaN if a block did not
// measure it.
type Way struct {
	Name string
	// Plain holds the shares when requests pass no waypoint.
	Plain []Share
	// Through holds the shares when all requests pass one; nil if the way has no waypoints. A
	// mesh's share of L7 goes through, the rest does not.
	Through []Share
}

// At returns the use of the way in a mesh, one value per block.
func (w Way) At(m Mesh) []float64 {
	out := make([]float64, len(w.Plain))
	for i, s := range w.Plain {
		if w.Through == nil {
			out[i] = s.at(m, m.RPS)
			continue
		}
		through := w.Through[i]
		waypoints := through.Waypoint.all(m.RPS*m.L7, m.Waypoints)
		s.Waypoint, through.Waypoint = Proxy{}, Proxy{}
		out[i] = (1-m.L7)*s.at(m, 0) + m.L7*through.at(m, 0) + waypoints
	}
	return out
}

// Together returns the weighted sum of two uses of a way, such as its price.
func Together(a Way, eachA float64, b Way, eachB float64) Way {
	proxy := func(x, y Proxy) Proxy {
		return Proxy{Curve: x.Curve.plus(eachA, y.Curve, eachB), Passes: max(x.Passes, y.Passes)}
	}
	sum := func(a, b []Share) []Share {
		if a == nil || b == nil {
			return nil
		}
		out := make([]Share, min(len(a), len(b)))
		for i := range out {
			x, y := a[i], b[i]
			out[i] = Share{Pod: proxy(x.Pod, y.Pod), Node: proxy(x.Node, y.Node), Waypoint: proxy(x.Waypoint, y.Waypoint), Agent: x.Agent*eachA + y.Agent*eachB}
		}
		return out
	}
	return Way{Name: a.Name, Plain: sum(a.Plain, b.Plain), Through: sum(a.Through, b.Through)}
}

// Compare estimates a's use minus b's in a mesh, from differences inside blocks.
func Compare(a, b Way, m Mesh) stat.Estimate {
	x, y := a.At(m), b.At(m)
	pairs := make([]stat.Pair, len(x))
	for i := range pairs {
		pairs[i] = stat.Pair{Base: y[i], Test: x[i]}
	}
	return stat.Difference(pairs, stat.Options{})
}

// Sign returns the sign of a difference, 1 or -1; 0 if its interval includes zero or there is
// none.
func Sign(e stat.Estimate) int {
	switch {
	case !e.Defined():
		return 0
	case e.Low > 0:
		return 1
	case e.High < 0:
		return -1
	}
	return 0
}
