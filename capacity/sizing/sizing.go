// Package sizing says which way of carrying requests costs a stated mesh less,
// sidecars in its pods, proxies on its nodes, or those and waypoints, and where the
// border between two ways lies. It is pure arithmetic on what each block of a run
// measured.
//
//	use at several rates, in a block   ->  what each proxy takes idle, what a request adds ([Share])
//	shares, a stated mesh              ->  what its proxies take, a value a block           ([Way.At])
//	shares of two things, their prices ->  what each proxy and request costs                ([Together])
//	differences inside blocks          ->  which way takes less, with an interval         ([Compare])
//	the same along pods, rates, L7     ->  where that changes                             ([Axis.Border])
//
// All of it is linear in what was measured. So nothing is lost between a measured
// interval and that of a stated mesh: each block gives the mesh a value of its own,
// and how far these are apart is what is not known. Along an axis the difference of
// two ways has an interval at every place; the border lies where that includes zero,
// which is Fieller's set for the place at which a line is zero.
package sizing

import "github.com/meshtrial/meshtrial/stat"

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

// Share is what a way of carrying takes, of CPU (cores) or memory (bytes), by what
// takes it.
type Share struct {
	Pod      float64 // each sidecar, without requests
	Node     float64 // each proxy of a node, likewise
	Waypoint float64 // each proxy of a waypoint, likewise
	Request  float64 // each request per second, at all proxies that it passes
}

func (s Share) at(m Mesh) float64 {
	return s.Pod*m.Pods + s.Node*m.Nodes + s.Waypoint*m.Waypoints + s.Request*m.RPS
}

// mixed is the share of a way by which some requests pass waypoints too.
func mixed(plain, through Share, l7 float64) Share {
	mix := func(a, b float64) float64 { return a*(1-l7) + b*l7 }
	return Share{Pod: mix(plain.Pod, through.Pod), Node: mix(plain.Node, through.Node), Request: mix(plain.Request, through.Request), Waypoint: through.Waypoint}
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
		if w.Through != nil {
			s = mixed(s, w.Through[i], m.L7)
		}
		out[i] = s.at(m)
	}
	return out
}

// Together is what a way takes of two things, each of which is worth so much: its price.
func Together(a Way, eachA float64, b Way, eachB float64) Way {
	sum := func(a, b []Share) []Share {
		if a == nil || b == nil {
			return nil
		}
		out := make([]Share, min(len(a), len(b)))
		for i := range out {
			x, y := a[i], b[i]
			out[i] = Share{Pod: x.Pod*eachA + y.Pod*eachB, Node: x.Node*eachA + y.Node*eachB, Waypoint: x.Waypoint*eachA + y.Waypoint*eachB, Request: x.Request*eachA + y.Request*eachB}
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
