package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A queue is a simulated server: Poisson arrivals, one at a time, gamma-distributed
// service times, and a level that varies from trial to trial.
type queue struct {
	name        string
	utilisation float64
	requests    int     // per trial
	trial       float64 // standard deviation of a trial's service times, a fraction
	drift       float64 // and of the common part of all trials of a block
}

var queues = []queue{
	{"idle, 1,500 requests", 0.1, 1500, 0.02, 0},
	{"utilisation 0.5, 1,500 requests", 0.5, 1500, 0.02, 0},
	{"utilisation 0.65, 1,500 requests", 0.65, 1500, 0.02, 0},
	{"utilisation 0.65, 6,000 requests", 0.65, 6000, 0.02, 0},
	{"utilisation 0.65, 10% between blocks", 0.65, 1500, 0.02, 0.1},
}

// counts returns the latencies of a trial's requests, factor times as slow to serve,
// to a thousandth like a histogram.
func (w queue) counts(r *rand.Rand, factor float64) Counts {

	return FromSamples(w.samples(r, w.requests, factor*(1+w.trial*r.NormFloat64())))
}

// samples returns latencies by Lindley's recursion, from a queue in its steady
// state.
func (w queue) samples(r *rand.Rand, n int, level float64) []float64 {
	const settle = 300
	out := make([]float64, 0, n)
	wait := 0.0
	for i := range settle + n {
		service := -level * 100 / 3 * math.Log((1-r.Float64())*(1-r.Float64())*(1-r.Float64()))
		if i >= settle {
			out = append(out, math.Round((wait+service)*5)/5)
		}
		wait = math.Max(0, wait+service-100*r.ExpFloat64()/w.utilisation)
	}
	return out
}

// block draws the common part of all trials of a block.
func (w queue) block(r *rand.Rand) float64 {
	return 1 + w.drift*math.Max(-2.5, math.Min(2.5, r.NormFloat64()))
}

// truth returns the quantiles of all requests of very many trials.
func (w queue) truth(quantiles []float64, factor float64) []float64 {
	r := rand.New(rand.NewPCG(31, 31))
	var all []float64
	for range 400 {
		all = append(all, w.samples(r, 5000, factor*w.block(r)*(1+w.trial*r.NormFloat64()))...)
	}
	slices.Sort(all)
	out := make([]float64, len(quantiles))
	for i, q := range quantiles {
		out[i] = all[int(q*float64(len(all)))]
	}
	return out
}

// TestSimulationPooled checks that intervals of pooled quantiles and of their
// differences cover the truth in 92 to 98% of runs of queues, whose tails are long
// and whose requests wait for each other. The table also has p99.9, which is not
// required to pass. Neither is p99 if the level of blocks scatters so much that the
// server is at times nearly saturated.
func TestSimulationPooled(t *testing.T) {
	runs := simulationRuns(t, 80)
	r := rand.New(rand.NewPCG(32, 32))
	quantiles := []float64{0.5, 0.9, 0.99, 0.999}
	for _, w := range queues {
		truth, dear := w.truth(quantiles, 1), w.truth(quantiles, 1.1)
		for _, blocks := range []int{4, 12} {
			var made, plain, difference, relative [4]int
			for range runs {
				var tests []Counts
				var units []QuantileBlock
				for range blocks {
					level := w.block(r)
					u := QuantileBlock{Base: []Counts{w.counts(r, level), w.counts(r, level)}, Test: w.counts(r, 1.1*level)}
					units, tests = append(units, u), append(tests, u.Test)
				}
				for i, q := range quantiles {
					p := PooledQuantile(tests, q, Options{})
					d, ratio := PooledDifference(units, q, Options{})
					if !p.Defined() || !d.Defined() {
						continue
					}
					made[i]++
					for _, c := range []struct {
						n    *[4]int
						e    Estimate
						want float64
					}{
						{&plain, p, dear[i]}, {&difference, d, dear[i] - truth[i]}, {&relative, ratio, dear[i]/truth[i] - 1},
					} {
						if !c.e.Excludes(c.want) {
							c.n[i]++
						}
					}
				}
			}
			line := fmt.Sprintf("%-36s %2d blocks", w.name, blocks)
			for i, q := range quantiles {
				if made[i] < runs {
					continue // too few requests beyond it
				}
				share := func(n [4]int) float64 { return float64(n[i]) / float64(runs) }
				line += fmt.Sprintf(" | %-5s %.1f, difference %.1f, ratio %.1f", quantileName(q),
					share(plain)*100, share(difference)*100, share(relative)*100)
				if q > 0.99 || q > 0.9 && w.drift > 0 {
					continue // of the very busiest blocks, of which a run has few
				}
				for what, n := range map[string][4]int{"plain": plain, "difference": difference} {
					if c := share(n); c < 0.92-slack(runs) || c > 0.98+slack(runs) {
						t.Errorf("%s, %d blocks, %s %s: coverage %.1f%%, want 92 to 98", w.name, blocks, quantileName(q), what, c*100)
					}
				}
			}
			t.Log(line)
		}
	}
}

func TestPooled(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	unit := func(n int, level float64) Counts {
		x := make([]float64, n)
		for i := range x {
			x[i] = level * r.ExpFloat64()
		}
		return FromSamples(x)
	}
	units := []Counts{unit(1400, 100), unit(1500, 103), unit(1300, 98), unit(1400, 105)}
	p := newPool(units)
	for out := range units {
		others := Merge(slices.Delete(slices.Clone(units), out, out+1)...)
		for _, q := range []float64{0.001, 0.5, 0.99, 0.9999} {
			if got, want := p.quantile(q, out), others.Quantile(q); got != want {
				t.Errorf("without %d: %g-quantile is %v, want %v", out, q, got, want)
			}
		}
	}
	e := PooledQuantile(units, 0.99, Options{})
	if e.Value != Merge(units...).Quantile(0.99) && math.Abs(e.Value-Merge(units...).Quantile(0.99)) > 1e-9*e.Value || e.Excludes(e.Value) || !e.Defined() || e.Blocks != 4 {
		t.Errorf("%+v", e)
	}
	values := PseudoQuantiles(append([]Counts{{}}, units...), 0.99)
	if !math.IsNaN(values[0]) || math.Abs(mean(values[1:])-e.Value) > 1e-9*e.Value {
		t.Errorf("pseudo-values %v, the pooled quantile is %v", values, e.Value)
	}
	if j := Mean(values[1:], Options{}); j.Low < e.Low*0.9 || j.High > e.High*1.1 {
		t.Errorf("of pseudo-values %v to %v, of logarithms and positions %v to %v", j.Low, j.High, e.Low, e.High)
	}
	for _, v := range PseudoQuantiles(units, 0.999) {
		if !math.IsNaN(v) {
			t.Errorf("a pseudo-value %v of too few requests", v)
		}
	}
	if e := PooledQuantile(units, 0.999, Options{}); !math.IsNaN(e.Value) || len(e.Warnings) != 1 || e.Warnings[0].String() != "p99.9 is not estimated: 5.6 requests lie beyond it, and it takes 30" {
		t.Errorf("a quantile of 5.6 requests: %+v", e)
	}
	if e := PooledQuantile([]Counts{units[0], {}}, 0.5, Options{}); e.Defined() || !Finite(e.Value) || e.Blocks != 1 {
		t.Errorf("one block: %+v", e)
	}
	if e := PooledQuantile(nil, 0.5, Options{}); !math.IsNaN(e.Value) {
		t.Errorf("no block: %+v", e)
	}
}

// Failed requests lie beyond every finite quantile.
func TestPooledWithFailures(t *testing.T) {
	some := make([]float64, 10_000)
	for i := range some {
		some[i] = float64(i + 1)
	}
	whole, failing := FromSamples(some), FromSamples(some[:9800]).WithLost(200)
	if q := failing.Quantile(0.5); q != whole.Quantile(0.5) {
		t.Errorf("median %v, want %v", q, whole.Quantile(0.5))
	}
	if q := failing.Quantile(0.985); !math.IsInf(q, 1) {
		t.Errorf("p98.5 is %v with 2%% failed", q)
	}
	units := []Counts{whole, whole, failing, whole}
	if e := PooledQuantile(units, 0.98, Options{}); !Finite(e.Value) || !e.Defined() {
		t.Errorf("0.5%% failed: p98 is %+v", e)
	}
	if e := PooledQuantile(units, 0.996, Options{}); !math.IsInf(e.Value, 1) || !math.IsInf(e.High, 1) {
		t.Errorf("0.5%% failed: p99.6 is %+v", e)
	}
	var blocks []QuantileBlock
	for _, u := range units {
		blocks = append(blocks, QuantileBlock{Base: []Counts{whole}, Test: u})
	}
	if d, _ := PooledDifference(blocks, 0.996, Options{}); !math.IsInf(d.Value, 1) {
		t.Errorf("difference %+v", d)
	}
	if c := failing.PercentileCurve(5); c[len(c)-1].X >= 98.1 || math.IsInf(c[len(c)-1].Y, 1) {
		t.Errorf("the curve ends at %v", c[len(c)-1])
	}
}
