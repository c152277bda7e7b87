package stat

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Welch's interval on logarithms, by hand: ln of 100, 110 and 121, against twice
// each, has a difference of ln 2, a standard error of ln(1.1) sqrt(2/3), and 4
// degrees of freedom, whose t is 2.776445.
func TestBetweenRuns(t *testing.T) {
	a, b := []float64{100, 110, 121}, []float64{200, 220, 242}
	half := 2.776445 * math.Log(1.1) * math.Sqrt(2.0/3)
	for _, c := range []struct {
		name                 string
		a, b                 []float64
		value, low, high, df float64
	}{
		{"three a side", a, b, 1, 2*math.Exp(-half) - 1, 2*math.Exp(half) - 1, 4},
		// One run against three: their variance, 2 degrees of freedom, t 4.302653.
		{"one run before", []float64{110}, b, 1, 2*math.Exp(-4.302653*math.Log(1.1)*math.Sqrt(4.0/3)) - 1, 2*math.Exp(4.302653*math.Log(1.1)*math.Sqrt(4.0/3)) - 1, 2},
		{"one run after", a, []float64{220}, 1, 2*math.Exp(-4.302653*math.Log(1.1)*math.Sqrt(4.0/3)) - 1, 2*math.Exp(4.302653*math.Log(1.1)*math.Sqrt(4.0/3)) - 1, 2},
	} {
		e := BetweenRuns(c.a, c.b, Options{})
		for i, pair := range [][2]float64{{e.Value, c.value}, {e.Low, c.low}, {e.High, c.high}, {e.DF, c.df}} {
			if math.Abs(pair[0]-pair[1]) > 1e-5 {
				t.Errorf("%s: figure %d is %v, want %v", c.name, i, pair[0], pair[1])
			}
		}
	}
	if e := BetweenRuns([]float64{100}, []float64{110}, Options{}); e.Defined() || math.Abs(e.Value-0.1) > 1e-12 {
		t.Errorf("one run a side: %+v", e)
	}
	plain := []float64{-1, 100, 201}
	if got, want := BetweenRuns(plain, b, Options{}), UnpairedRatio(plain, b, Options{}); got.Low != want.Low || got.High != want.High || got.Value != want.Value {
		t.Errorf("a value below zero: %+v, want Fieller's %+v", got, want)
	}
	if e := BetweenRunsDifference([]float64{1, 2, 3}, []float64{4}, Options{}); math.Abs(e.Value-2) > 1e-12 || math.Abs(e.High-2-4.302653*math.Sqrt(4.0/3)) > 1e-5 {
		t.Errorf("difference: %+v", e)
	}
}

// Swapping the sides inverts the ratio, and the unit does not matter.
func TestBetweenRunsIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(1, 1000)
		a, b := rapid.SliceOfN(value, 1, 6).Draw(t, "a"), rapid.SliceOfN(value, 2, 6).Draw(t, "b")
		there, back := BetweenRuns(a, b, Options{}), BetweenRuns(b, a, Options{})
		near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*(1+math.Abs(x)) || x == y }
		if !near((1+there.Value)*(1+back.Value), 1) || there.Defined() && there.High < 1000 && back.High < 1000 && !near(1/(1+there.Low), 1+back.High) {
			t.Fatalf("%+v and %+v", there, back)
		}
		for i := range a {
			a[i] *= 8
		}
		for i := range b {
			b[i] *= 8
		}
		if scaled := BetweenRuns(a, b, Options{}); !near(scaled.Value, there.Value) {
			t.Fatalf("%v, scaled %v", there.Value, scaled.Value)
		}
	})
}

// The p-value is where the interval begins to hold: here from one-sided normal
// theory, by Student's own distribution.
func TestPValue(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5}
	holds := func(level float64) bool { return Mean(values, Options{Level: level}).Low > 0 }
	// t is 3 / sqrt(2.5 / 5) = 4.2426 with 4 degrees of freedom: p is 0.013236.
	if p := PValue(0.95, holds); math.Abs(p-0.013236) > 1e-5 {
		t.Errorf("p is %v", p)
	}
	if p := PValue(0.95, func(float64) bool { return false }); p != 1 {
		t.Errorf("what never holds has p %v", p)
	}
	if p := PValue(0.95, func(float64) bool { return true }); p > 1e-9 {
		t.Errorf("what always holds has p %v", p)
	}
}

func TestHolm(t *testing.T) {
	stand := func(p, weights []float64) []bool {
		rates := Holm(p, weights, 0.05)
		out := make([]bool, len(p))
		for i := range p {
			out[i] = weights[i] > 0 && p[i] <= rates[i]
		}
		return out
	}
	one := []float64{1, 1, 1, 1}
	for _, c := range []struct {
		p, weights []float64
		want       []bool
	}{
		{[]float64{0.01, 0.04, 0.03, 0.005}, one, []bool{true, false, false, true}}, // 0.0125, then 0.0167, then 0.025 < 0.03
		{[]float64{0.012, 0.016, 0.024, 0.049}, one, []bool{true, true, true, true}},
		{[]float64{0.013, 0.016, 0.024, 0.049}, one, []bool{false, false, false, false}},
		{[]float64{0.05}, []float64{3}, []bool{true}},
		{[]float64{0.03, 0.03}, []float64{0.8, 0.2}, []bool{true, true}}, // 0.04 for the first, then 0.05 for the second
		{[]float64{0.045, 0.03}, []float64{0.8, 0.2}, []bool{false, false}},
		{[]float64{0.001, 0.001}, []float64{1, 0}, []bool{true, false}},
		{nil, nil, []bool{}},
	} {
		if got := stand(c.p, c.weights); !slices.Equal(got, c.want) {
			t.Errorf("p %v with weights %v: %v, want %v", c.p, c.weights, got, c.want)
		}
	}
}

// Chance makes any of six claims stand in at most 5% of families, whatever share
// of them is true.
func TestHolmKeepsTheRate(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	for _, truths := range []int{0, 3, 5} {
		const families = 4000
		wrong := 0
		for range families {
			p, w := make([]float64, 6), make([]float64, 6)
			for i := range p {
				if p[i], w[i] = r.Float64(), 1+float64(i%2); i < truths {
					p[i] *= 1e-4
				}
			}
			for i, rate := range Holm(p, w, 0.05) {
				if i >= truths && p[i] <= rate {
					wrong++
					break
				}
			}
		}
		if share := float64(wrong) / families; share > 0.05+3*math.Sqrt(0.05*0.95/families) || share < 0.02 {
			t.Errorf("%d of 6 true: another stands in %.1f%%", truths, 100*share)
		}
	}
}

// series returns values of a level with noise of 3%, multiplied by effect from an
// index on.
func series(r *rand.Rand, n, at int, effect float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 100 * math.Exp(0.03*r.NormFloat64())
		if i >= at {
			out[i] *= effect
		}
	}
	return out
}

func TestSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 32))
	places := func(steps []Step) (out []int) {
		for _, s := range steps {
			out = append(out, s.At)
		}
		return out
	}
	up := series(r, 30, 20, 1.2)
	for i := range up[25:] { // and down again, in the same series
		up[25+i] /= 1.4
	}
	gaps := series(r, 30, 20, 0.8)
	for _, i := range []int{0, 7, 18, 19, 29} {
		gaps[i] = math.NaN()
	}
	far := series(r, 30, 30, 1)
	far[11], far[29] = 300, 1000 // two outliers are not a level
	counts := make([]float64, 30)
	for i := range counts {
		if counts[i] = 7; i >= 12 {
			counts[i] = 8
		}
	}
	negative := series(r, 30, 15, 1)
	for i := range negative {
		if negative[i] -= 100; i >= 15 {
			negative[i] += 30
		}
	}
	bump := series(r, 24, 8, 1.2)
	for i := range bump[16:] {
		bump[16+i] /= 1.2
	}
	all := [][]float64{up, gaps, far, counts, negative, series(r, 5, 2, 3), make([]float64, 30), nil, bump}
	weights := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}
	got := Steps(all, weights, 0.05)
	for i, want := range [][]int{{20, 25}, {20}, nil, {12}, {15}, nil, nil, nil, {8, 16}} {
		if !slices.Equal(places(got[i]), want) {
			t.Errorf("series %d: steps %v, want %v", i, got[i], want)
		}
	}
	if again := Steps(all, weights, 0.05); !reflect.DeepEqual(got, again) {
		t.Errorf("%v, and again %v", got, again)
	}
}

// Neither the unit of a series nor the direction of time matters.
func TestStepsAreEven(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	for _, at := range []int{5, 12, 20} {
		x := series(r, 24, at, 1.3)
		scaled, back := slices.Clone(x), slices.Clone(x)
		slices.Reverse(back)
		for i := range scaled {
			scaled[i] *= 1000
		}
		got := Steps([][]float64{x, scaled, back}, []float64{1, 1, 1}, 0.05)
		if len(got[0]) != 1 || got[0][0].At != at || got[1][0].At != at || got[2][0].At != 24-at {
			t.Errorf("a step at %d of 24: %v", at, got)
		}
	}
}

func TestStepSize(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 34))
	x := series(r, 30, 20, 1.1)
	clean := StepSize(x[:20], x[20:], Options{})
	if clean.Excludes(0.1) || clean.High-clean.Low > 0.06 {
		t.Errorf("a step of 10%%: %+v", clean)
	}
	x[3], x[25] = 300, 1100
	if e := StepSize(x[:20], x[20:], Options{}); e.Excludes(0.1) || e.High-e.Low > 0.2 {
		t.Errorf("beside runs that went astray: %+v, without %+v", e, clean)
	}
	if e := StepSize([]float64{-1, 0, 1}, []float64{9, 10, 11}, Options{}); e.Defined() {
		t.Errorf("from nothing there is no ratio: %+v", e)
	}
	if e := StepSize(nil, x, Options{}); e.Defined() {
		t.Errorf("from no value: %+v", e)
	}
}
