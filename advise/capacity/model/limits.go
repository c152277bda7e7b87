package model

import (
	"cmp"
	"math"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// Loss is the cost of losing a replica: its proxies connect to the other replicas, or to its
// replacement, all at once.
type Loss struct {
	Proxies  int `json:"proxies"`  // that lose their stream
	Replicas int `json:"replicas"` // that are left to serve them
	// Half and All are the times at which half of them, and all, have their configuration again.
	// Away counts those that still lack it at the end of the simulation, in which case Half and All
	// are at most that time.
	Half    float64 `json:"half_s"`
	All     float64 `json:"all_s"`
	Away    int     `json:"away,omitempty"`
	Refused float64 `json:"refused"` // connection attempts
	// ConvergenceP99 covers the changes during this time, over Pairs of a change and a proxy that
	// needs it; 0 without pairs.
	ConvergenceP99 float64  `json:"convergence_p99_s"`
	Pairs          float64  `json:"pairs"`
	CPU            float64  `json:"cpu_s"` // to serve these proxies
	Assumed        []string `json:"assumed,omitempty"`
	Outside                 // of the remaining replicas
}

// Loss simulates the loss of a replica. A single replica is replaced immediately; its startup is
// not simulated. Loss returns nil if no replica has a proxy to lose.
func (m *Model) Loss(mesh Mesh, o Options) (*Loss, error) {
	left := mesh
	left.Replicas = max(1, mesh.Replicas-1)
	return m.reconnect(mesh, left, int(mesh.each()), o)
}

// Storm simulates that all proxies lose their streams at once, as when the network to istiod
// fails, and connect again to as many replicas.
func (m *Model) Storm(mesh Mesh, o Options) (*Loss, error) {
	return m.reconnect(mesh, mesh, mesh.Proxies, o)
}

// reconnect simulates that lost proxies of a mesh connect to the replicas that are left.
func (m *Model) reconnect(mesh, left Mesh, lost int, o Options) (*Loss, error) {
	if err := mesh.Check(); err != nil {
		return nil, err
	}
	v, err := m.Values()
	if err != nil {
		return nil, err
	}
	in := v.Input(left)
	// Long enough for all to reconnect at the rate at which streams are served.
	limit := cmp.Or(mesh.ConnectLimit, float64(push.DefaultThrottle(mesh.Cores)))
	class := v.class("", float64(mesh.Services)*mesh.Visible)
	back := float64(lost) / float64(left.Replicas) * math.Max(1/limit, class.Connect/mesh.Cores)
	in.StormAt = 10
	in.Horizon = in.StormAt + math.Max(60, 3*back)
	in.Settle, in.Seed = math.Max(600, 2*in.Horizon), o.Seed
	in.Batch = max(1, min(push.DefaultThrottle(mesh.Cores)/4, mesh.Proxies/left.Replicas/500))
	returning := 0
	for i := range in.Classes {
		c := &in.Classes[i]
		c.Returning = int(math.Round(float64(c.Proxies) * float64(lost) / float64(mesh.Proxies)))
		c.Proxies -= c.Returning
		returning += c.Returning
	}
	if returning == 0 {
		return nil, nil
	}
	in.Changes = push.Schedule(mesh.Arrival, mesh.Rate, in.Horizon, in.Kinds, o.Seed)
	r := push.Simulate(in)
	end := in.Horizon + in.Settle - in.StormAt
	out := &Loss{Proxies: returning, Replicas: left.Replicas, Half: end, All: end, Refused: r.Refused,
		ConvergenceP99: late(r, 0.99), Pairs: r.Needed, CPU: class.Connect * float64(returning), Outside: m.Outside(left)}
	came := r.Connecting.Total()
	if half := float64(returning) / 2; came >= half {
		out.Half = r.Connecting.Quantile(half / came)
	}
	if out.Away = returning - int(math.Round(came)); out.Away == 0 {
		out.All = r.Connecting.Max()
	}
	for _, p := range []Parameter{ConnectCPU, ConnectPerService} {
		if m.Parameters[p].Assumed {
			out.Assumed = append(out.Assumed, m.Parameters[p].Name)
		}
	}
	return out, nil
}

// Limits describes how far a mesh can grow before it stops converging. They are estimates without
// intervals.
type Limits struct {
	BoundS float64 `json:"bound_s"`
	// Rate and Proxies are the highest rate of changes and the largest number of proxies at which
	// the push queue still empties and the p99 of convergence is within the bound; 0 if the mesh
	// already exceeds them.
	Rate    float64 `json:"rate"`
	Proxies int     `json:"proxies"`
	// RateEnd and ProxiesEnd say what happens above these limits.
	RateEnd    End `json:"rate_end"`
	ProxiesEnd End `json:"proxies_end"`
	// RateBeyond and ProxiesBeyond are how many times beyond the measured range the limits lie;
	// 1 within it.
	RateBeyond    float64 `json:"rate_beyond,omitempty"`
	ProxiesBeyond float64 `json:"proxies_beyond,omitempty"`
}

// End says why a mesh cannot grow further. The zero value means that it can.
type End struct {
	Code    EndCode `json:"code"`
	Seconds float64 `json:"seconds,omitempty"` // p99 of convergence, or the duration of a sweep
}

// EndCode identifies an end.
type EndCode string

// The ends of growth.
const (
	EndQueue         EndCode = "queue_never_empty"
	EndConvergence   EndCode = "convergence"
	EndUnpredictable EndCode = "unpredictable" // the mesh fails [Mesh.Check]
	EndNone          EndCode = "none_found"
)

// Limits searches for the rate and the number of proxies at which changes stop reaching proxies
// or p99 of convergence exceeds the bound.
func (m *Model) Limits(mesh Mesh, bound float64, o Options) (*Limits, error) {
	if err := mesh.Check(); err != nil {
		return nil, err
	}
	v, err := m.Values()
	if err != nil {
		return nil, err
	}
	out := &Limits{BoundS: bound}
	holds := func(at Mesh) End {
		if at.Check() != nil {
			return End{Code: EndUnpredictable}
		}
		at.Horizon = math.Max(30, math.Max(at.lasting(100), math.Min(1800, 5*v.sweep(at))))
		r := v.simulate(at, o.Seed, 300)
		switch p99 := late(r, 0.99); {
		case !r.Drained:
			return End{EndQueue, v.sweep(at)}
		case p99 > bound:
			return End{EndConvergence, p99}
		}
		return End{}
	}
	grow := func(from float64, set func(at *Mesh, x float64)) (most float64, end End, beyond float64) {
		at := mesh
		most, end = climb(from, func(x float64) End {
			set(&at, x)
			return holds(at)
		})
		if most > 0 {
			set(&at, most)
			beyond = m.Outside(at).Times
		}
		return most, end, beyond
	}
	setProxies := func(at *Mesh, x float64) { at.Proxies = int(math.Round(x)) }
	out.Rate, out.RateEnd, out.RateBeyond = grow(mesh.Rate, func(at *Mesh, x float64) { at.Rate = x })
	proxies, end, beyond := grow(float64(mesh.Proxies), setProxies)
	out.Proxies, out.ProxiesEnd, out.ProxiesBeyond = int(math.Round(proxies)), end, beyond
	return out, nil
}

// climb finds the largest value that holds, or 0 if none does, and what ends it. It starts at any
// value, changes it by a factor of 1.5 in each step, and then halves the last step four times.
func climb(from float64, holds func(x float64) End) (largest float64, end End) {
	const step, steps, halvings = 1.5, 40, 4
	first := holds(from)
	factor := 1 / step // downwards, unless it holds
	if first == (End{}) {
		factor = step
	}
	good, bad, end := from, from, first
	for i := 0; ; i++ {
		if i == steps && first == (End{}) {
			return good, End{Code: EndNone}
		}
		if i == steps {
			return 0, first
		}
		next := factor * from * math.Pow(factor, float64(i))
		e := holds(next)
		if e == (End{}) {
			good = next
		} else {
			bad, end = next, e
		}
		if (e == (End{})) != (first == (End{})) {
			break
		}
	}
	for range halvings {
		middle := math.Sqrt(good * bad)
		if e := holds(middle); e == (End{}) {
			good = middle
		} else {
			bad, end = middle, e
		}
	}
	return good, end
}
