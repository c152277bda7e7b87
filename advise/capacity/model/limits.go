package model

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// Loss is what the loss of a replica costs: its proxies come to the others, or
// to the one that takes its place, all at once.
type Loss struct {
	Proxies  int `json:"proxies"`  // that lose their stream
	Replicas int `json:"replicas"` // that are left to serve them
	// Half and All are when so many of them have their configuration again. Away are
	// those that do not have it when the simulation ends: All is then that time, and so
	// is Half where half of them are away.
	Half    float64 `json:"half_s"`
	All     float64 `json:"all_s"`
	Away    int     `json:"away,omitempty"`
	Refused float64 `json:"refused"` // attempts that were turned away
	// ConvergenceP99 is that of the changes meanwhile.
	ConvergenceP99 float64 `json:"convergence_p99_s"`
	// Pairs are those of such a change and a proxy that needs it; with none ConvergenceP99
	// is 0 and says nothing.
	Pairs float64 `json:"pairs"`
	// CPU is what serving them takes, CPU seconds.
	CPU     float64  `json:"cpu_s"`
	Assumed []string `json:"assumed,omitempty"`
	// Outside is of the replicas that are left.
	Outside
}

// Loss simulates the loss of one replica of a mesh, that with most proxies. Where there is one, its
// proxies find another in its place at once: what it takes to start is not in
// it. Nil where no replica has a proxy to lose.
func (m *Model) Loss(mesh Mesh, o Options) (*Loss, error) {
	if err := mesh.Check(); err != nil {
		return nil, err
	}
	v, err := m.Values()
	if err != nil {
		return nil, err
	}
	lost := int(mesh.most())
	if mesh.Replicas == 1 {
		lost = mesh.Proxies
	}
	left := mesh
	left.Replicas = max(1, mesh.Replicas-1)
	left.Shares = nil
	in := v.Input(left)
	// Long enough for all to come back at the rate at which streams are served.
	limit := mesh.ConnectLimit
	if limit == 0 {
		limit = float64(push.DefaultThrottle(mesh.Cores))
	}
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
	in.Changes = push.Schedule(mesh.Arrival, mesh.Rate, in.Horizon, mesh.Burst, in.Kinds, o.Seed)
	r, err := push.Simulate(in)
	if err != nil {
		return nil, err
	}
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

// Limits are how far a mesh may grow until it does not converge.
type Limits struct {
	BoundS float64 `json:"bound_s"`
	// Rate is the highest rate of changes, and Proxies the largest number of
	// proxies, at which the push queue empties again and again and p99 of
	// convergence is within the bound; 0 if the mesh is beyond them as it is.
	Rate    float64 `json:"rate"`
	Proxies int     `json:"proxies"`
	// RateWhy and ProxiesWhy are what ends it there.
	RateWhy    string `json:"rate_why"`
	ProxiesWhy string `json:"proxies_why"`
	// RateBeyond and ProxiesBeyond are how many times beyond what was measured these lie,
	// 1 within. They are estimates alone, and have no interval.
	RateBeyond    float64 `json:"rate_beyond,omitempty"`
	ProxiesBeyond float64 `json:"proxies_beyond,omitempty"`
}

// Limits climbs from the mesh as it is, by rate and by proxies, until changes
// do not reach proxies any more or p99 of convergence passes a bound, and
// halves the last step four times.
func (m *Model) Limits(mesh Mesh, bound float64, o Options) (*Limits, error) {
	if err := mesh.Check(); err != nil {
		return nil, err
	}
	v, err := m.Values()
	if err != nil {
		return nil, err
	}
	out := &Limits{BoundS: bound}
	holds := func(at Mesh) (string, error) {
		if at.Check() != nil {
			return "this program predicts nothing", nil
		}
		at.Horizon = math.Max(30, math.Max(at.lasting(100), math.Min(1800, 5*v.sweep(at))))
		r, err := v.simulate(at, o.Seed, 300)
		if err != nil {
			return "", err
		}
		switch p99 := late(r, 0.99); {
		case !r.Drained:
			return fmt.Sprintf("the push queue is never empty: each sweep over the proxies takes %s s of all CPUs", Figure(v.sweep(at), 3)), nil
		case p99 > bound:
			return fmt.Sprintf("p99 of convergence is %s s, longer than %s s", Figure(p99, 3), Figure(bound, 3)), nil
		}
		return "", nil
	}
	out.Rate, out.RateWhy, err = climb(mesh.Rate, func(x float64) (string, error) {
		at := mesh
		at.Rate = x
		return holds(at)
	})
	if err != nil {
		return nil, err
	}
	proxies, why, err := climb(float64(mesh.Proxies), func(x float64) (string, error) {
		at := mesh
		at.Proxies = int(math.Round(x))
		return holds(at)
	})
	if err != nil {
		return nil, err
	}
	if out.Proxies, out.ProxiesWhy = int(math.Round(proxies)), why; out.Proxies > 0 {
		at := mesh
		at.Proxies = out.Proxies
		out.ProxiesBeyond = m.Outside(at).Beyond
	}
	if out.Rate > 0 {
		at := mesh
		at.Rate = out.Rate
		out.RateBeyond = m.Outside(at).Beyond
	}
	return out, nil
}

// climb finds the largest value that holds: from one that may or may not it
// goes up, or down, by halves more each step, and then halves the step.
func climb(from float64, holds func(x float64) (string, error)) (largest float64, why string, err error) {
	const step, steps, halvings = 1.5, 40, 4
	why, err = holds(from)
	if err != nil {
		return 0, "", err
	}
	good, bad, first := from, from, why
	if why == "" {
		for range steps {
			bad = good * step
			if why, err = holds(bad); err != nil || why != "" {
				break
			}
			good = bad
		}
		if why == "" || err != nil {
			return good, "no end was found", err
		}
	} else {
		for i := 0; ; i++ {
			good = bad / step
			if i == steps {
				return 0, first, nil
			}
			w, err := holds(good)
			if err != nil {
				return 0, "", err
			}
			if w == "" {
				break
			}
			bad, why = good, w
		}
	}
	for range halvings {
		middle := math.Sqrt(good * bad)
		w, err := holds(middle)
		if err != nil {
			return 0, "", err
		}
		if w == "" {
			good = middle
		} else {
			bad, why = middle, w
		}
	}
	return good, why, nil
}
