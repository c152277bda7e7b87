package push

import (
	"math"
	"testing"
)

// An overloaded mesh merges: its queue never exceeds its number of proxies,
// turns carry several changes, and lateness is bounded by two sweeps over all
// proxies.
func TestOverloadMerges(t *testing.T) {
	in := mesh(2000, 5)
	in.Settings.Cores = 1
	r := Simulate(in)
	if r.Drained {
		t.Error("a push of 2,000 proxies takes 6 s of CPU, and 5 changes come a second, yet the queue empties")
	}
	if r.Longest > 2000 || r.Overlapped < 0.5 {
		t.Errorf("a queue of %v, %v of pushes overlap", r.Longest, r.Overlapped)
	}
	if merged := r.Needed / r.Turns; merged < 5 {
		t.Errorf("%v changes in a turn", merged)
	}
	light := mesh(20, 0.5)
	if r := Simulate(light); !r.Drained || r.Overlapped > 0.1 {
		t.Errorf("20 proxies are too many: %v of pushes overlap", r.Overlapped)
	}
}

// Returning proxies come back no faster than streams are accepted, and each
// only once.
func TestConnectStorm(t *testing.T) {
	in := mesh(100, 0.2)
	in.Settings.ConnectLimit = 20
	in.Classes[0].Returning, in.StormAt = 400, 5
	r := Simulate(in)
	if n := r.Connecting.Total(); n != 400 {
		t.Fatalf("%v of 400 came back", n)
	}
	if all := r.Connecting.Max(); all < 400/20.0-1 || all > 120 {
		t.Errorf("all were back after %v s, at 20 streams a second", all)
	}
	if r.Refused < 100 {
		t.Errorf("%v attempts were refused of 400 at once", r.Refused)
	}
	in.Settings.ConnectLimit = 1000
	if quick := Simulate(in); quick.Connecting.Max() >= r.Connecting.Max() || quick.Refused >= r.Refused {
		t.Errorf("at 1,000 streams a second all were back after %v s, %v refused", quick.Connecting.Max(), quick.Refused)
	}
}

// Endpoints that are not debounced arrive sooner, and cost more pushes.
func TestDirectEndpoints(t *testing.T) {
	in := mesh(50, 0)
	in.Kinds = []Kind{endpoints}
	in.Changes = Schedule(Uniform, 20, in.Horizon, in.Kinds, 1)
	debounced := Simulate(in)
	in.Settings.DirectEndpoints = true
	direct := Simulate(in)
	if direct.Convergence.Quantile(0.5) > debounced.Convergence.Quantile(0.5)/5 || direct.Contexts < 5*debounced.Contexts {
		t.Errorf("direct: a median of %v s, %v push contexts; debounced: %v s, %v", direct.Convergence.Quantile(0.5), direct.Contexts, debounced.Convergence.Quantile(0.5), debounced.Contexts)
	}
}

// Replicas share proxies evenly, and identical ones are simulated once.
func TestReplicas(t *testing.T) {
	one := mesh(900, 0.5)
	three := one
	three.Settings.Replicas = 3
	a, b := Simulate(one), Simulate(three)
	if a.Needed != b.Needed || !near(3*a.Contexts, b.Contexts, 0.05) || b.Convergence.Quantile(0.99) > a.Convergence.Quantile(0.99) {
		t.Errorf("pairs %v and %v, contexts %v and %v, p99 %v and %v", a.Needed, b.Needed, a.Contexts, b.Contexts, a.Convergence.Quantile(0.99), b.Convergence.Quantile(0.99))
	}
	groups := replicaGroups(&three)
	if len(groups) != 1 || groups[0].times != 3 || groups[0].proxies[0] != 300 {
		t.Errorf("groups %+v", groups)
	}
	if a, b, c := part(10, 0, 3), part(10, 1, 3), part(10, 2, 3); a+b+c != 10 || max(a, b, c)-min(a, b, c) > 1 {
		t.Errorf("10 by three: %d, %d, %d", a, b, c)
	}
}

// Proxies that see a share of the services need that share of the changes.
func TestScope(t *testing.T) {
	in := mesh(100, 5)
	all := Simulate(in)
	whole := in.Classes[0]
	in.Classes = nil
	for range 4 {
		c := whole
		c.Proxies, c.Needs = 25, 0.25
		in.Classes = append(in.Classes, c)
	}
	some := Simulate(in)
	if !near(some.Needed, all.Needed/4, 1e-9) || some.Skipped == 0 || some.CPU > all.CPU/2 {
		t.Errorf("%v pairs of %v, %v turns of nothing, %v s of CPU after %v", some.Needed, all.Needed, some.Skipped, some.CPU, all.CPU)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for i := range 10_000 {
		h.Add(float64(i+1)/1000, 2)
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		if got, want := h.Quantile(q), 10*q; !near(got, want, 0.01) {
			t.Errorf("quantile %g is %v, want %v", q, got, want)
		}
	}
	if h.Total() != 20_000 || !near(h.Mean(), 5.0005, 1e-9) || h.Max() != 10 {
		t.Errorf("total %v, mean %v, max %v", h.Total(), h.Mean(), h.Max())
	}
	var none Histogram
	if !math.IsNaN(none.Quantile(0.5)) || none.Max() != 0 {
		t.Error("nothing has a quantile")
	}
	none.Merge(&h, 0.5)
	if none.Total() != 10_000 || none.Quantile(0.5) != h.Quantile(0.5) {
		t.Error("merged half as often it differs")
	}
}

func TestSchedule(t *testing.T) {
	kinds := []Kind{{Name: "a", Weight: 3}, {Name: "b", Weight: 1}}
	for _, process := range []string{Poisson, Uniform} {
		got := Schedule(process, 10, 1000, kinds, 1)
		counts := [2]float64{}
		last := 0.0
		for _, c := range got {
			counts[c.Kind]++
			if c.At < last || c.At >= 1000 || c.Where < 0 || c.Where >= 1 {
				t.Fatalf("%s: %+v after %v", process, c, last)
			}
			last = c.At
		}
		if !near(float64(len(got)), 10_000, 0.05) || !near(counts[0], 3*counts[1], 0.1) {
			t.Errorf("%s: %d changes, %v", process, len(got), counts)
		}
	}
	if Schedule(Poisson, 0, 10, kinds, 1) != nil || Schedule(Poisson, 1, 10, nil, 1) != nil {
		t.Error("no rate, or no kind, makes changes")
	}
}
