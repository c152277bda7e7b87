// Package sizing says which way of carrying requests costs a stated mesh less,
// sidecars in its pods, proxies on its nodes, or those and waypoints, and where the
// border between two ways lies. It is pure arithmetic on what each block of a run
// measured.
//
//	use at several rates, in a block   ->  what one proxy takes, by what it carries  ([Curve])
//	curves, a stated mesh              ->  what its proxies take, a value a block     ([Way.At])
//	curves of two things, their prices ->  what each proxy costs                      ([Together])
//	differences inside blocks          ->  which way takes less, with an interval   ([Compare])
//	the same along pods, rates, L7     ->  where that changes                       ([Axis.Border])
//
// Nothing is lost between a measured interval and that of a stated mesh: each block
// gives the mesh a value of its own, and how far these are apart is what is not known.
// Along an axis the difference of two ways has an interval at every place; the border
// lies where that includes zero. Where the ways are lines that is Fieller's set for the
// place at which a line is zero.
package sizing

import (
	"math"

	"github.com/meshtrial/meshtrial/stat"
)

// Mesh is a stated mesh. Study files bound each field (study/sizing.go).
type Mesh struct {
	Pods  float64 `json:"pods"`
	Nodes float64 `json:"nodes"`
	// RPS are the requests per second between its pods, all together.
	RPS float64 `json:"rps"`
	// L7 is the share of requests that need more than a proxy on the node does:
	// routing, retries or policy by what is in them.
	L7 float64 `json:"l7"`
	// Waypoints are the proxies of waypoints, all together, where there are any.
	Waypoints float64 `json:"waypoints"`
}

// Default is the mesh of a study that states no more than that it wants one.
func Default() Mesh { return Mesh{Pods: 1000, Nodes: 50, RPS: 20_000, L7: 0.2, Waypoints: 10} }

// Proxy is what one proxy takes.
type Proxy struct {
	Curve Curve
	// Passes is how often a request passes one of its kind.
	Passes float64
}

// all is what so many proxies take together that share requests per second. Without
// any, it is what the requests would add to ones as busy as can be: ever fewer proxies
// take ever less, and none no more than one.
func (p Proxy) all(rps, count float64) float64 {
	if count == 0 {
		return p.Passes * rps * p.Curve.Each(math.Inf(1))
	}
	return count * p.Curve.At(p.Passes*rps/count)
}

// each is what a request adds to them on the mean.
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

// Share is what a way of carrying takes, of CPU (cores) or memory (bytes), by what
// takes it.
type Share struct {
	Pod, Node, Waypoint Proxy
	// Agent is what a node takes beside its proxy, whatever it carries.
	Agent float64
}

// at is what the way takes in a mesh, of whose requests so many per second pass
// waypoints.
func (s Share) at(m Mesh, through float64) float64 {
	return s.Pod.all(m.RPS, m.Pods) + s.Node.all(m.RPS, m.Nodes) + s.Agent*m.Nodes + s.Waypoint.all(through, m.Waypoints)
}

// Each is what a request adds at all proxies that it passes, on the mean of a mesh's
// requests; a waypoint is as busy as the mesh's share of L7 makes it.
func (s Share) Each(m Mesh) float64 {
	return s.Pod.each(m.RPS, m.Pods) + s.Node.each(m.RPS, m.Nodes) + s.Waypoint.each(m.RPS*m.L7, m.Waypoints)
}

// Way is a way of carrying requests, by what every block measured; NaN in a share
// says that a block did not.
type Way struct {
	Name string
	// Plain are the shares where requests pass no waypoint.
	Plain []Share
	// Through are those where all of them do; nil if the way has no waypoints. A
	// mesh's share of L7 goes through, the rest does not.
	Through []Share
}

// At is what the way takes in a mesh, a value a block.
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

// Together is what a way takes of two things, each of which is worth so much: its price.
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

// Compare is what a takes more than b in a mesh, by differences inside blocks.
func Compare(a, b Way, m Mesh) stat.Estimate {
	x, y := a.At(m), b.At(m)
	pairs := make([]stat.Pair, len(x))
	for i := range pairs {
		pairs[i] = stat.Pair{Base: y[i], Test: x[i]}
	}
	return stat.Difference(pairs, stat.Options{})
}

// Sign says on which side of zero a difference lies, 1 or -1; 0 where its interval
// includes zero, or there is none.
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
