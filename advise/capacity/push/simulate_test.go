package push

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/stat/queueing"
	"pgregory.net/rapid"
)

var (
	endpoints = Kind{Name: "endpoints", Weight: 1, Types: SetOf(EDS), Context: 0.001}
	services  = Kind{Name: "service", Weight: 1, Types: SetOf(CDS, EDS, LDS, RDS), Bare: SetOf(EDS), Asks: SetOf(EDS), Context: 0.02}
	routes    = Kind{Name: "virtualservice", Weight: 1, Types: SetOf(CDS, LDS, RDS), Bare: SetOf(CDS), Spoils: SetOf(EDS), Context: 0.02}
	useless   = Kind{Name: "gateway", Weight: 1, Context: 0.001}
)

// mesh returns a mesh with plausible costs.
func mesh(proxies int, rate float64) Input {
	class := Class{Name: "all", Proxies: proxies, Needs: 1, Apply: 0.01, Connect: 0.02}
	class.CPU = [Types]Cost{CDS: {Base: 0.0002, Each: 0.0004}, EDS: {Base: 0.0001, Each: 0.0002, Whole: 0.001}, LDS: {Base: 0.0008}, RDS: {Base: 0.001, Anew: 0.003}}
	class.Bytes = [Types]Cost{CDS: {Base: 100, Each: 2000}, EDS: {Each: 350, Whole: 100000}, LDS: {Base: 17000}, RDS: {Base: 150000}}
	class.Variants = 3
	in := Input{Settings: Settings{DebounceAfter: 0.1, DebounceMax: 10, Replicas: 1, Cores: 2}, Costs: Costs{Watch: 0.002, Change: 0.0005, Skip: 0.00002, Parallel: 1.4, Idle: 0.01},
		Kinds: []Kind{endpoints, services, routes, useless}, Classes: []Class{class}, Horizon: 60, Settle: 3600, Seed: 1, Batch: 1}
	in.Changes = Schedule(Poisson, rate, in.Horizon, in.Kinds, 1)
	return in
}

// near reports whether two figures agree within a relative tolerance.
func near(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Max(math.Abs(a), math.Abs(b)) }

// At small sizes the simulation agrees with one that moves every proxy individually, from an
// idle mesh to an overloaded one.
func TestAsTheNaiveOne(t *testing.T) {
	for _, test := range []struct {
		proxies int
		rate    float64
		cores   float64
		slots   int
	}{{1, 0.5, 1, 0}, {20, 1, 2, 0}, {100, 2, 2, 0}, {100, 10, 1, 5}, {300, 5, 0.5, 0}, {300, 50, 2, 40}, {50, 3, 1, 1}, {400, 1, 0.25, 20}} {
		in := mesh(test.proxies, test.rate)
		in.Settings.Cores, in.Settings.Throttle = test.cores, test.slots
		got, want := Simulate(in), runNaive(&in)
		var all Histogram
		for _, v := range want.latencies {
			all.Add(v, 1)
		}
		name := fmt.Sprintf("%d proxies, %g changes/s, %g cores", test.proxies, test.rate, test.cores)
		if got.Needed != float64(len(want.latencies)) || got.Undelivered != 0 {
			t.Errorf("%s: %v pairs and %v not delivered, want %d", name, got.Needed, got.Undelivered, len(want.latencies))
		}
		// The first proxy of a push is random; with a queue that does not empty, it decides
		// how many changes the next turns merge.
		if !near(got.Turns, float64(want.turns), 0.02) || !near(got.CPU, want.cpu, 0.02) || !near(got.Longest, float64(want.longest), 0.05) || !near(got.AllBytes(), want.bytes, 0.02) {
			t.Errorf("%s: %v turns, %v s of CPU, a queue of %v, %v bytes; want %v, %v, %v, %v", name, got.Turns, got.CPU, got.Longest, got.AllBytes(), want.turns, want.cpu, want.longest, want.bytes)
		}
		for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
			if a, b := got.Convergence.Quantile(q), all.Quantile(q); !near(a, b, 0.03) {
				t.Errorf("%s: quantile %g is %v, want %v", name, q, a, b)
			}
		}
	}
}

// Moving proxies in groups changes little, and nothing in the counts.
func TestBatches(t *testing.T) {
	for _, rate := range []float64{0.2, 2, 20} {
		in := mesh(4000, rate)
		in.Settings.Cores, in.Settings.Throttle = 8, 64
		one := Simulate(in)
		for _, batch := range []int{3, 8} {
			in.Batch = batch
			many := Simulate(in)
			if one.Needed != many.Needed || many.Undelivered != 0 || !near(one.Contexts, many.Contexts, 0.05) {
				t.Errorf("by %d: %v pairs and %v push contexts, want %v and %v", batch, many.Needed, many.Contexts, one.Needed, one.Contexts)
			}
			for _, pair := range [][2]float64{{one.Convergence.Quantile(0.5), many.Convergence.Quantile(0.5)}, {one.Convergence.Quantile(0.99), many.Convergence.Quantile(0.99)},
				{one.CPU, many.CPU}, {one.AllBytes(), many.AllBytes()}, {one.Stale, many.Stale}} {
				if !near(pair[0], pair[1], 0.04) {
					t.Errorf("%g changes/s by %d: %v, want %v", rate, batch, pair[1], pair[0])
				}
			}
		}
	}
}

// oneAtATime returns a mesh in which every change is for one of many proxies, so turns
// arrive as changes do: a queue that theory covers.
func oneAtATime(rate float64, servers int, work []float64, horizon float64) (Input, []float64, []float64) {
	n := len(work)
	in := Input{Settings: Settings{Replicas: 1, Cores: float64(servers), Throttle: servers}, Costs: Costs{Parallel: 1}, Kinds: []Kind{{Weight: 1, Types: SetOf(EDS)}},
		Horizon: horizon, Settle: 1000, Seed: 3, Batch: 1}
	in.Changes = Schedule(Poisson, rate, horizon, in.Kinds, 7)
	var arrivals, services []float64
	for i := range work {
		class := Class{Proxies: 1, Needs: 1 / float64(n)}
		class.CPU[EDS].Base = work[i]
		in.Classes = append(in.Classes, class)
	}
	for _, c := range in.Changes {
		arrivals, services = append(arrivals, c.At), append(services, work[min(n-1, int(c.Where*float64(n)))])
	}
	return in, arrivals, services
}

// With one slot and turns of equal length the queue is M/D/1; with several slots and turns
// of random length it is M/M/c. In both cases the waits are those of the recursion over the
// same arrivals.
func TestAsQueueingTheory(t *testing.T) {
	same, exponential := make([]float64, 250), make([]float64, 250)
	rng := rand.New(rand.NewPCG(5, 5))
	mean := 0.0
	for i := range same {
		same[i], exponential[i] = 0.01, 0.01*rng.ExpFloat64()
		mean += exponential[i] / float64(len(exponential))
	}
	for i := range exponential {
		exponential[i] *= 0.01 / mean
	}
	for _, test := range []struct {
		name    string
		rate    float64
		servers int
		work    []float64
		wait    float64 // mean by the Pollaczek-Khinchine formula, or Erlang's
	}{
		{"M/D/1 at 50%", 50, 1, same, 50 * 0.01 * 0.01 / (2 * (1 - 0.5))},
		{"M/D/1 at 65%", 65, 1, same, 65 * 0.01 * 0.01 / (2 * (1 - 0.65))},
		{"M/M/1 at 60%", 60, 1, exponential, 60 * 0.02 * 0.01 / (2 * (1 - 0.6))},
		{"M/M/4 at 65%", 260, 4, exponential, erlangWait(260, 100, 4)},
		{"M/D/4 at 70%", 280, 4, same, math.NaN()},
	} {
		in, arrivals, services := oneAtATime(test.rate, test.servers, test.work, 6000/test.rate)
		got := Simulate(in)
		want := 0.0
		for i, sojourn := range queueing.Sojourns(arrivals, services, test.servers) {
			want += (sojourn - services[i]) / float64(len(arrivals))
		}
		served := 0.0
		for _, s := range services {
			served += s / float64(len(services))
		}
		wait := got.Convergence.Mean() - served
		// Changes for a proxy that is already waiting merge: a few in a thousand.
		if !near(wait, want, 0.06) || !math.IsNaN(test.wait) && !near(wait, test.wait, 0.15) {
			t.Errorf("%s: a mean wait of %.3g ms, want %.3g by recursion, %.3g by formula", test.name, 1000*wait, 1000*want, 1000*test.wait)
		}
		if got.Needed != float64(len(in.Changes)) || got.Undelivered != 0 {
			t.Errorf("%s: %v of %d changes arrived", test.name, got.Needed-got.Undelivered, len(in.Changes))
		}
	}
}

// erlangWait returns the mean wait of M/M/c (Erlang's C formula).
func erlangWait(lambda, mu float64, c int) float64 {
	a := lambda / mu
	sum, term := 0.0, 1.0
	for k := range c {
		sum += term
		term *= a / float64(k+1)
	}
	last := term / (1 - a/float64(c))
	return last / (sum + last) / (float64(c)*mu - lambda)
}

// Jobs that share CPUs evenly have the mean time of M/G/1 processor sharing: work divided by
// the remaining CPU, whatever the distribution of work. Push contexts of endpoints that are
// not debounced are such jobs.
func TestSharesCPUs(t *testing.T) {
	in := Input{Settings: Settings{Replicas: 1, Cores: 1, DirectEndpoints: true}, Costs: Costs{Parallel: 1}, Horizon: 2000, Settle: 100, Batch: 1,
		Kinds:   []Kind{{Weight: 3, Types: SetOf(EDS), Context: 0.02}, {Weight: 1, Types: SetOf(EDS), Context: 0.14}},
		Classes: []Class{{Proxies: 1, Needs: 1}}}
	in.Changes = Schedule(Poisson, 12, in.Horizon, in.Kinds, 2)
	got := Simulate(in)
	if want := 0.05 / (1 - 12*0.05); !near(got.Convergence.Mean(), want, 0.05) {
		t.Errorf("a mean of %v s, want %v", got.Convergence.Mean(), want)
	}
}

// drawInputs draws an input, and a function that draws its changes at other times.
func drawInputs(t *rapid.T) (_ Input, anew func(seed uint64) []Change) {
	in := mesh(rapid.IntRange(1, 120).Draw(t, "proxies"), rapid.Float64Range(0.1, 30).Draw(t, "rate"))
	in.Horizon = rapid.Float64Range(1, 20).Draw(t, "horizon")
	in.Seed = rapid.Uint64().Draw(t, "seed")
	in.Settings.Cores = rapid.Float64Range(0.1, 8).Draw(t, "cores")
	in.Settings.Throttle = rapid.IntRange(0, 20).Draw(t, "throttle")
	in.Settings.Replicas = rapid.IntRange(1, 4).Draw(t, "replicas")
	in.Settings.DirectEndpoints = rapid.Bool().Draw(t, "direct")
	in.Settings.DebounceMax = rapid.SampledFrom([]float64{0.1, 1, 10}).Draw(t, "max")
	in.Batch = rapid.IntRange(0, 10).Draw(t, "batch")
	more := in.Classes[0]
	more.Name, more.Proxies, more.Needs = "some", rapid.IntRange(0, 50).Draw(t, "some"), rapid.Float64Range(0, 1).Draw(t, "needs")
	in.Classes = append(in.Classes, more)
	process := rapid.SampledFrom([]string{Poisson, Uniform}).Draw(t, "process")
	rate := rapid.Float64Range(0.1, 30).Draw(t, "changes")
	anew = func(seed uint64) []Change { return Schedule(process, rate, in.Horizon, in.Kinds, seed) }
	in.Changes = anew(in.Seed)
	return in, anew
}

// Every change reaches every proxy that needs it once, bytes and pushes are counted for each
// turn, and no proxy gets a change before debouncing permits it: one that arrives when
// DebounceMax has nearly passed waits only for the rest of that.
func TestEachChangeReachesEachProxyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, _ := drawInputs(t)
		in.Classes[0].Returning = rapid.IntRange(0, 60).Draw(t, "returning")
		in.StormAt = rapid.Float64Range(0, 5).Draw(t, "storm")
		storm := in.Classes[0].Returning
		r := Simulate(in)
		least, most := 0.0, 0.0
		counts := newCounts(&in)
		for i := range in.Changes {
			counts.append(&in.Changes[i])
			for k, class := range in.Classes {
				if counts.needed(k, i, i+1) == 1 {
					least += float64(class.Proxies)
				}
			}
			if in.Kinds[in.Changes[i].Kind].Types != 0 {
				most += float64(storm)
			}
		}
		most += least // a returning proxy lacks what was pushed in the meantime
		if r.Undelivered != 0 || !near(r.Convergence.Total(), r.Needed, 1e-9) || r.Needed < least-1e-6 || r.Needed > most+1e-6 {
			t.Fatalf("%v pairs acknowledged of %v, %v lost; between %v and %v there were", r.Convergence.Total(), r.Needed, r.Undelivered, least, most)
		}
		if storm == 0 && r.Needed != least {
			t.Fatalf("%v pairs, want %v", r.Needed, least)
		}
		if float64(storm) != r.Connecting.Total() {
			t.Fatalf("%v of %d came back", r.Connecting.Total(), storm)
		}
		if r.Turns > r.AllPushes()+1e-6 || r.CPU < 0 || r.Stale < 0 || r.Longest > float64(in.Classes[0].Proxies+in.Classes[1].Proxies+storm) {
			t.Fatalf("%+v", r)
		}
		if storm == 0 && !in.Settings.DirectEndpoints && r.Needed > 0 {
			least := in.Costs.Watch
			if len(in.Changes) == 1 {
				least += math.Min(0.1, in.Settings.DebounceMax)
			}
			if first := r.Convergence.Quantile(0); first < least*0.98 {
				t.Fatalf("a proxy had a change after %v s", first)
			}
		}
	})
}

// On average, more CPU makes no mesh slower and more work none faster. Individual cases may
// differ, since milliseconds decide what merges.
func TestMoreCPUMoreWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, anew := drawInputs(t)
		in.Settings.Replicas, in.Batch = 1, 1
		in.Settings.Throttle = DefaultThrottle(1)
		in.Classes[1].Proxies = 0
		mean := func(in Input) float64 {
			sum, pairs := 0.0, 0.0
			for k := range uint64(20) {
				in.Seed += k
				in.Changes = anew(in.Seed)
				r := Simulate(in)
				if n := r.Convergence.Total(); n > 0 {
					sum, pairs = sum+n*r.Convergence.Mean(), pairs+n
				}
			}
			return sum / pairs
		}
		base := mean(in)
		if math.IsNaN(base) {
			return
		}
		better := in
		better.Settings.Cores *= rapid.Float64Range(1.2, 4).Draw(t, "more")
		worse := in
		worse.Classes = slices.Clone(in.Classes)
		for k := range worse.Classes[0].CPU {
			worse.Classes[0].CPU[k].Base *= 1.5
			worse.Classes[0].CPU[k].Each *= 1.5
		}
		if b := mean(better); b > base*1.05+0.02 {
			t.Fatalf("with more CPU the mean is %v s, with less %v", b, base)
		}
		if w := mean(worse); w < base*0.95-0.02 {
			t.Fatalf("with more work the mean is %v s, with less %v", w, base)
		}
	})
}
