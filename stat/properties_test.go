package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func drawPairs(t *rapid.T, least int) []Pair {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Pair {
		return Pair{rapid.Float64Range(0.1, 100).Draw(t, "base"), rapid.Float64Range(0.1, 100).Draw(t, "test")}
	}), least, 30).Draw(t, "pairs")
}

func each(pairs []Pair, f func(Pair) Pair) []Pair {
	out := make([]Pair, len(pairs))
	for i, p := range pairs {
		out[i] = f(p)
	}
	return out
}

func same(t *rapid.T, what string, got, want Estimate) {
	t.Helper()
	if !near(got.Value, want.Value, 1e-9) || !near(got.Low, want.Low, 1e-9) || !near(got.High, want.High, 1e-9) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// TestDifferenceProperties checks that a shift of the tested cell shifts the answer, a
// unit scales it, the order of blocks and common drift do not matter, and swapping the
// sides negates it.
func TestDifferenceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := drawPairs(t, 2)
		c := rapid.Float64Range(0.01, 50).Draw(t, "c")
		e := Difference(pairs, Options{})

		shifted := e
		shifted.Value, shifted.Low, shifted.High = e.Value+c, e.Low+c, e.High+c
		same(t, "shift", Difference(each(pairs, func(p Pair) Pair { return Pair{p.Base, p.Test + c} }), Options{}), shifted)

		scaled := e
		scaled.Value, scaled.Low, scaled.High = e.Value*c, e.Low*c, e.High*c
		same(t, "scale", Difference(each(pairs, func(p Pair) Pair { return Pair{p.Base * c, p.Test * c} }), Options{}), scaled)

		same(t, "drift", Difference(each(pairs, func(p Pair) Pair { return Pair{p.Base + c, p.Test + c} }), Options{}), e)

		shuffled := append([]Pair(nil), pairs...)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		same(t, "order", Difference(shuffled, Options{}), e)

		turned := e
		turned.Value, turned.Low, turned.High = -e.Value, -e.High, -e.Low
		same(t, "swap", Difference(each(pairs, func(p Pair) Pair { return Pair{p.Test, p.Base} }), Options{}), turned)

		if e.Value < e.Low || e.Value > e.High {
			t.Fatalf("%+v lies outside its own interval", e)
		}
		wide := Difference(pairs, Options{Level: 0.99})
		if wide.High-wide.Low < e.High-e.Low {
			t.Fatalf("99%% interval %v is narrower than the 95%% one %v", wide, e)
		}
	})
}

// TestRelativeDifferenceProperties checks that units and drift of whole blocks cancel, and
// that swapping the sides inverts the ratio.
func TestRelativeDifferenceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := drawPairs(t, 2)
		e := RelativeDifference(pairs, Options{})
		i := 0
		drift := rapid.SliceOfN(rapid.Float64Range(0.1, 10), len(pairs), len(pairs)).Draw(t, "drift")
		same(t, "drift", RelativeDifference(each(pairs, func(p Pair) Pair {
			i++
			return Pair{p.Base * drift[i-1], p.Test * drift[i-1]}
		}), Options{}), e)
		turned := RelativeDifference(each(pairs, func(p Pair) Pair { return Pair{p.Test, p.Base} }), Options{})
		if !near((1+e.Value)*(1+turned.Value), 1, 1e-9) || e.Low > -0.999 && !near((1+e.Low)*(1+turned.High), 1, 1e-6) {
			t.Fatalf("swapped sides: %v and %v", e, turned)
		}
	})
}

// TestDegenerate checks that for any input nothing panics, no interval claims more than is
// known, and a warning names what is missing.
func TestDegenerate(t *testing.T) {
	odd := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
		0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1, 1, 1,
	}))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(odd, 0, 8).Draw(t, "values")
		others := rapid.SliceOfN(odd, 0, 8).Draw(t, "others")
		var pairs []Pair
		for i := range min(len(values), len(others)) {
			pairs = append(pairs, Pair{values[i], others[i]})
		}
		floor := NoiseFloor(pairs, Options{})
		for _, e := range []Estimate{
			Mean(values, Options{}), Difference(pairs, Options{}), RelativeDifference(pairs, Options{}),
			Unpaired(values, others, Options{}), UnpairedRatio(values, others, Options{}),
		} {
			if e.Blocks == 0 && (!math.IsNaN(e.Value) || len(e.Warnings) == 0) {
				t.Fatalf("no blocks, yet %v", e)
			}
			if e.Blocks < 2 && e.Defined() {
				t.Fatalf("interval from fewer than two blocks: %v", e)
			}
			if e.Defined() && (e.Low > e.Value || e.High < e.Value) {
				t.Fatalf("%+v lies outside its interval", e)
			}
			if call, why := e.Call(floor, 0.1); call == Real && !e.Defined() || why.String() == "" {
				t.Fatalf("called %s: %s of %v", call, why, e)
			}
			Judge(e, 0.05)
			MinimumDetectable(e, floor, 0.8)
			StopRule{RelativeWidth: 0.1}.Decide(Look{8, []Estimate{e}, []Floor{floor}, []float64{1}}, Look{})
		}
		Warmup{}.Detect(values, others)
		q := rapid.Float64Range(-0.5, 1.5).Draw(t, "q")
		blocks := []QuantileBlock{{[]Counts{FromSamples(values), FromSamples(others)}, FromSamples(others)}, {}}
		d, _ := PooledDifference(blocks, q, Options{})
		if d.Defined() && d.Excludes(d.Value) {
			t.Fatalf("%+v lies outside its interval", d)
		}
		PseudoQuantiles(blocks[0].Base, q)
		var points []FitPoint
		for i, p := range pairs {
			points = append(points, FitPoint{X: p.Base, Y: p.Test, Level: p.Base, Unit: i % 3})
		}
		LinearFit(points, math.Abs, Options{})
	})
}

// TestMeanKnown checks the interval against a textbook example: 5 values with
// t(0.975, 4) = 2.776445.
func TestMeanKnown(t *testing.T) {
	e := Mean([]float64{1, 2, 3, 4, 5}, Options{})
	half := 2.776445105 * math.Sqrt(2.5) / math.Sqrt(5)
	if !near(e.Value, 3, 1e-12) || !near(e.Low, 3-half, 1e-8) || !near(e.High, 3+half, 1e-8) {
		t.Errorf("got %+v, want half a width of %.9f", e, half)
	}
	w := Unpaired([]float64{27.5, 21, 19, 23.6, 17, 17.9}, []float64{27.1, 22, 20.8, 23.4, 23.4, 23.5}, Options{})
	// Differences of means and Satterthwaite's degrees of freedom by hand.
	if !near(w.Value, 23.36666667-21, 1e-6) || w.DF < 5 || w.DF > 10 {
		t.Errorf("Welch: %v with %g degrees of freedom", w, w.DF)
	}
}

// TestQuantile compares with sorted samples, and an HdrHistogram within its precision.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Int64Range(1, 10_000_000), 1, 200).Draw(t, "samples")
		h := hdrhistogram.New(1, 60_000_000_000, 3)
		samples := make([]float64, len(raw))
		for i, v := range raw {
			samples[i] = float64(v)
			must.OK(t, h.RecordValue(v))
		}
		exact, coarse := FromSamples(samples), FromHistogram(h, 1)
		if exact.Total() != int64(len(raw)) || coarse.Total() != exact.Total() {
			t.Fatalf("counted %d and %d of %d", exact.Total(), coarse.Total(), len(raw))
		}
		last := 0.0
		for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
			a, b := exact.Quantile(q), coarse.Quantile(q)
			if math.Abs(a-b) > 0.001*a+1 {
				t.Fatalf("q%g: %g of samples, %g of the histogram", q, a, b)
			}
			if a < last {
				t.Fatalf("quantiles fall at %g", q)
			}
			last = a
		}
		half := len(samples) / 2
		merged := Merge(FromSamples(samples[:half]), FromSamples(samples[half:]))
		if merged.Quantile(0.5) != exact.Quantile(0.5) || merged.Total() != exact.Total() {
			t.Fatalf("merging changed the median")
		}
		for _, curve := range [][]Point{exact.CDF(50), exact.PercentileCurve(5)} {
			for i := 1; i < len(curve); i++ {
				if curve[i].X < curve[i-1].X || curve[i].Y < curve[i-1].Y {
					t.Fatalf("curve falls: %v", curve)
				}
			}
		}
		if cdf := exact.CDF(50); cdf[len(cdf)-1].Y != 1 || len(cdf) > 53 {
			t.Fatalf("CDF of %d points ends at %v", len(cdf), cdf[len(cdf)-1])
		}
	})
}

// TestFloor checks the parts of a floor, from one block on.
func TestFloor(t *testing.T) {
	one := NoiseFloor([]Pair{{10, 11}}, Options{})
	if !near(one.Value, 12.7062*math.Sqrt(0.75), 1e-4) {
		t.Errorf("one block: %+v", one)
	}
	if none := NoiseFloor(nil, Options{}); !math.IsNaN(none.Value) {
		t.Errorf("no blocks: %+v", none)
	}
	// A remnant that always costs the second baseline 3 is not chance.
	var biased []Pair
	for i := range 30 {
		biased = append(biased, Pair{100, 103 + 0.1*float64(i%3)})
	}
	if f := NoiseFloor(biased, Options{}); f.Value < 3 || !f.Systematic {
		t.Errorf("systematic difference: %+v", f)
	}
	if call, _ := (Estimate{Value: 2, Low: 1, High: 3}).Call(NoiseFloor(biased, Options{}), 1); call != Inconclusive {
		t.Errorf("overhead of 2 over a floor of 3 is %s", call)
	}
	if f := (Floor{Value: 1}).AtLeast(2); f.Value != 2 {
		t.Errorf("raised floor: %v", f)
	}
}

// TestVerdicts checks the whole decision table.
func TestVerdicts(t *testing.T) {
	e := func(low, value, high float64) Estimate { return Estimate{Value: value, Low: low, High: high} }
	for _, c := range []struct {
		e    Estimate
		want Call
	}{
		{e(5, 6, 7), Real}, {e(-7, -6, -5), Real},
		{e(0.2, 0.5, 0.8), NoEffect}, {e(-1.5, 0.1, 1.7), NoEffect}, {e(1.2, 1.5, 1.8), Real},
		{e(-1, 2, 5), Inconclusive}, {e(-9, 0.1, 9), Inconclusive}, {e(-2.1, 0.1, 1.9), Inconclusive},
		{e(0.1, 0.9, 2.2), Inconclusive}, {e(math.Inf(-1), 6, math.Inf(1)), Inconclusive}, {e(0, 0, 0), NoEffect},
	} {
		if got, why := c.e.Call(Floor{Value: 1}, 2); got != c.want {
			t.Errorf("%v over floor 1 is %s (%s), want %s", c.e, got, why, c.want)
		}
		if got, _ := c.e.Call(Floor{Value: 1}, 0); got == NoEffect && (c.e.Low != 0 || c.e.High != 0) {
			t.Errorf("%v is no effect without a margin", c.e)
		}
		if got, _ := c.e.Call(Floor{Value: math.NaN()}, 2); got == Real {
			t.Errorf("%v is real over a floor that is not known", c.e)
		}
	}
	for _, c := range []struct {
		e    Estimate
		want Verdict
	}{
		{e(2, 3, 4), Worse}, {e(-4, -3, -2), Better}, {e(-0.5, 0, 0.5), Same}, {e(0.1, 0.5, 0.9), Same},
		{e(0.5, 1.5, 2.5), Undetermined}, {e(-3, 0, 3), Undetermined}, {e(math.NaN(), math.NaN(), math.NaN()), Undetermined},
	} {
		if got, why := Judge(c.e, 1); got != c.want {
			t.Errorf("%v against margin 1 is %s (%s), want %s", c.e, got, why, c.want)
		}
	}
}

// TestStopRule checks the minimum, confirmation, and what settles an estimate.
func TestStopRule(t *testing.T) {
	rule := StopRule{RelativeWidth: 0.1, MinBlocks: 4}
	narrow, wide := Estimate{Value: 100, Low: 98, High: 102}, Estimate{Value: 100, Low: 80, High: 120}
	noise := Estimate{Value: 1, Low: -3, High: 5}
	look := func(n int, e ...Estimate) Look { return Look{Blocks: n, Estimates: e} }
	for _, c := range []struct {
		name        string
		now, before Look
		want        bool
	}{
		{"too early", look(3, narrow), look(2, narrow), false},
		{"first look", look(4, narrow), look(3, narrow), false},
		{"confirmed", look(5, narrow), look(4, narrow), true},
		{"was wide", look(5, narrow), look(4, wide), false},
		{"one of two wide", look(6, narrow, wide), look(5, narrow, wide), false},
		{"never narrow", look(8, wide), look(7, wide), false},
		{"nothing", look(5), look(4), false},
		{"no effect", Look{5, []Estimate{noise}, []Floor{{Value: 6}}, []float64{6}}, Look{4, []Estimate{noise}, []Floor{{Value: 6}}, []float64{6}}, true},
		{"within the floor, beyond the margin", Look{5, []Estimate{noise}, []Floor{{Value: 6}}, []float64{4}}, Look{4, []Estimate{noise}, []Floor{{Value: 6}}, []float64{4}}, false},
	} {
		if got := rule.Decide(c.now, c.before); got.Stop != c.want || got.Why == "" {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
	if d := rule.Decide(look(6, narrow, wide), look(5, narrow, wide)); d.Widest != 1 {
		t.Errorf("the second estimate holds the run up: %+v", d)
	}
}

// TestLinearFit finds a known line, and reports when there is none.
func TestLinearFit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var straight, bent []FitPoint
	for block := range 8 {
		level := 1 + 0.05*r.NormFloat64()
		for _, x := range []float64{250, 500, 1000, 2000, 3000} {
			noise := level * (1 + 0.01*r.NormFloat64())
			straight = append(straight, FitPoint{X: x, Y: (0.02 + 100e-6*x) * noise, Level: x, Unit: block})
			bent = append(bent, FitPoint{X: x, Y: 1e-7 * x * x * noise, Level: x, Unit: block})
		}
	}
	weight := func(x float64) float64 { return x }
	line := LinearFit(straight, weight, Options{})
	if line.Slope.Excludes(100e-6) || line.Intercept.Excludes(0.02) || line.Slope.High-line.Slope.Low > 20e-6 || len(line.Warnings) > 0 {
		t.Errorf("straight: %+v", line)
	}
	if line := LinearFit(bent, weight, Options{}); len(line.Warnings) == 0 {
		t.Errorf("a parabola fits a line without a warning: %+v", line)
	}
}

// A difference below the step in which values are read is no evidence, however many blocks
// agree to the step, neither for means nor for quantiles. Counts are exact.
func TestDifferenceBelowTheResolution(t *testing.T) {
	for _, n := range []int{2, 3, 5, 30, 1000} {
		for _, apart := range []float64{0, 0.5, 1, 6, 100} { // steps
			const step, base = 4.0, 4096.0
			pairs := make([]Pair, n)
			units := make([]QuantileBlock, n)
			for i := range pairs {
				pairs[i] = Pair{Base: base, Test: base + apart*step}
				same := func(v float64) Counts { return FromSamples(slices.Repeat([]float64{v}, 100)) }
				units[i] = QuantileBlock{Base: []Counts{same(base)}, Test: same(base + apart*step)}
			}
			read := Options{Resolution: step}
			pooled, pooledRatio := PooledDifference(units, 0.5, read)
			for name, e := range map[string]Estimate{"difference": Difference(pairs, read), "ratio": RelativeDifference(pairs, read), "quantiles": pooled, "ratio of quantiles": pooledRatio} {
				switch real := e.Excludes(0); {
				case !e.Defined() || e.Low == e.High:
					t.Errorf("%s of %d blocks: %+v", name, n, e)
				case apart < 0.8 && (real || e.P() < 0.05), apart >= 6 && (!real || e.P() > 0.05):
					t.Errorf("%s of %d blocks, %v steps: %v to %v, p %v", name, n, apart, e.Low, e.High, e.P())
				}
			}
			if e := Difference(pairs, Options{}); e.Excludes(0) != (apart > 0) {
				t.Errorf("counts, %d blocks, %v apart: %+v", n, apart, e)
			}
		}
	}
}

// If values scatter by more than a step, reading them in steps does not matter to the
// interval: it covers the truth as often, in few blocks and in many.
func TestSimulationResolution(t *testing.T) {
	runs := simulationRuns(t, 4000)
	for _, blocks := range []int{2, 4, 8, 30} {
		for _, steps := range []float64{0.1, 0.5, 1, 3} { // scatter of the values
			random, covered := rand.New(rand.NewPCG(1, uint64(blocks))), 0
			for range runs {
				truth := 10 * random.Float64()
				base := 100 * random.Float64()
				pairs := make([]Pair, blocks)
				for i := range pairs {
					pairs[i] = Pair{Base: math.Round(base + steps*random.NormFloat64()), Test: math.Round(base + truth + steps*random.NormFloat64())}
				}
				if e := Difference(pairs, Options{Resolution: 1}); !e.Excludes(truth) {
					covered++
				}
			}
			if share := float64(covered) / float64(runs); share < 0.93-slack(runs) {
				t.Errorf("%d blocks that scatter by %v steps: %.1f%% cover", blocks, steps, 100*share)
			}
		}
	}
}
