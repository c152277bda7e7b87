package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A seriesWorld generates the values of a soak, minute by minute, around 200: noise
// at a constant level.
type seriesWorld struct {
	name string
	of   func(r *rand.Rand, n int) []float64
	hard bool // two hours of it carry little information
}

// ar returns a first-order autoregressive series of standard deviation 4.
func ar(rho float64) func(r *rand.Rand, n int) []float64 {
	return func(r *rand.Rand, n int) []float64 {
		x, out := r.NormFloat64(), make([]float64, n)
		for i := range out {
			out[i] = 200 + 4*x
			x = rho*x + math.Sqrt(1-rho*rho)*r.NormFloat64()
		}
		return out
	}
}

// sawtooth returns a heap that grows by a half and is collected once per period of
// values, plus noise.
func sawtooth(period float64) func(r *rand.Rand, n int) []float64 {
	return func(r *rand.Rand, n int) []float64 {
		phase, out := r.Float64(), make([]float64, n)
		for i := range out {
			phase += (1 + 0.05*r.NormFloat64()) / period
			out[i] = 200*(1+0.2*(phase-math.Floor(phase))) + r.NormFloat64()
		}
		return out
	}
}

func stray(r *rand.Rand, n int) []float64 {
	out := ar(0.3)(r, n)
	for i := range out {
		if r.Float64() < 0.05 {
			out[i] *= 3
		}
	}
	return out
}

var seriesWorlds = []seriesWorld{
	{"white noise", ar(0), false}, {"AR(1) 0.3", ar(0.3), false}, {"AR(1) 0.6", ar(0.6), true}, {"AR(1) 0.9", ar(0.9), true},
	{"sawtooth of 2.7 windows", sawtooth(2.7), false}, {"sawtooth of 7 windows", sawtooth(7), true}, {"one in 20 astray", stray, false},
}

// hourly turns values at minutes into points in hours, plus a slope.
func hourly(x []float64, slope float64) []SeriesPoint {
	out := make([]SeriesPoint, len(x))
	for i, v := range x {
		out[i] = SeriesPoint{float64(i) / 60, v + slope*float64(i)/60}
	}
	return out
}

// The interval of a slope covers the true slope at least as often as it claims.
func TestSimulationSlope(t *testing.T) {
	const runs = 200
	for _, w := range seriesWorlds {
		for _, n := range []int{24, 40, 80} {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			covered, bounded := 0, 0
			for range runs {
				e := Slope(hourly(w.of(r, n), 7), Options{})
				if !e.Excludes(7) {
					covered++
				}
				if e.Defined() {
					bounded++
				}
			}
			t.Logf("%-24s %2d windows: in %.1f%% of intervals, %.0f%% bounded", w.name, n, 100*float64(covered)/runs, 100*float64(bounded)/runs)
			if covered < 88*runs/100 {
				t.Errorf("%s, %d windows: the slope lies in %d of %d intervals", w.name, n, covered, runs)
			}
		}
	}
	if e := Slope(hourly(ar(0)(rand.New(rand.NewPCG(1, 1)), 80), 7), Options{}); e.High-e.Low > 8 || math.Abs(e.Value-7) > 4 {
		t.Errorf("of white noise the slope is %+v", e) // by least squares: 4*sqrt(12/80)/1.33 h is a standard error of 1.2
	}
}

// calls counts the calls of growths of simulated two-hour soaks, at a margin of 10
// per hour. plant is added to a value, by its minute.
func (w seriesWorld) calls(runs int, plant func(minute float64) float64) map[Call]int {
	r, out := rand.New(rand.NewPCG(3, 3)), map[Call]int{}
	for range runs {
		x := w.of(r, 120)
		for i := range x {
			x[i] += plant(float64(i))
		}
		c, _ := GrowthOf(hourly(x, 0), Options{}).Call(10)
		out[c]++
	}
	return out
}

// Planted leaks are found; series that keep their level or fill up are not leaks.
func TestSimulationGrowth(t *testing.T) {
	const runs = 80
	for _, w := range seriesWorlds {
		line := ""
		for _, c := range []struct {
			name        string
			plant       func(minute float64) float64
			least, most int // percent called growth, in worlds no worse than AR(1) 0.3
		}{
			{"nothing", func(float64) float64 { return 0 }, 0, 4},
			{"a leak of 40 an hour", func(m float64) float64 { return 40 * m / 60 }, 85, 100},
			{"a leak of 100 an hour", func(m float64) float64 { return 100 * m / 60 }, 95, 100},
			{"a cache of 300 in 15 minutes", fills(300, 15), 0, 6},
			{"a cache of 100 in 40 minutes", fills(100, 40), 0, 10},
			{"a cache of 300 in 40 minutes", fills(300, 40), 0, 10},
			{"a cache of 100 in 80 minutes", fills(100, 80), 0, 30},
			{"a cache of 300 and a leak of 100 an hour", func(m float64) float64 { return fills(300, 10)(m) + 100*m/60 }, 75, 100},
			{"a step of 100 in the first quarter", func(m float64) float64 { return 100 * math.Floor(math.Min(1, m/30)) }, 0, 4},
		} {
			got := w.calls(runs, c.plant)
			percent := got[Real] * 100 / runs
			line += fmt.Sprintf("; %s: %d%% grows, %d%% not", c.name, percent, got[NoEffect]*100/runs)
			if percent > c.most || !w.hard && percent < c.least {
				t.Errorf("%s, %s: called growth in %d%%", w.name, c.name, percent)
			}
			if c.name == "nothing" && !w.hard && got[NoEffect]*100/runs < 90 {
				t.Errorf("%s: %d of %d are said to keep their level", w.name, got[NoEffect], runs)
			}
		}
		t.Logf("%s%s", w.name, line)
	}
}

// fills returns a cache that fills up to a size and takes minutes for 63% of it.
func fills(size, minutes float64) func(float64) float64 {
	return func(m float64) float64 { return size * (1 - math.Exp(-m/minutes)) }
}

// An inconclusive growth says how long an answer would take, and after that it is
// conclusive.
func TestGrowthNeeds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	short := GrowthOf(hourly(ar(0.3)(r, 30), 3), Options{})
	call, why := short.Call(10)
	if call != Inconclusive || why != TooShort {
		t.Fatalf("half an hour tells %s: %+v", call, short.Slope)
	}
	needs := short.Needs(10)
	if !(needs > short.Length && needs < 10*short.Length) {
		t.Errorf("it would take %v h, of %v h", needs, short.Length)
	}
	if call, _ := GrowthOf(hourly(ar(0.3)(r, int(2*needs*60)), 3), Options{}).Call(10); call != NoEffect {
		t.Errorf("after twice of that it is %s", call)
	}
	x := ar(0)(r, 120)
	for i := range x {
		x[i] += fills(300, 40)(float64(i))
	}
	settling := GrowthOf(hourly(x, 0), Options{})
	if call, why := settling.Call(10); call != Inconclusive || why != Settling || settling.Needs(10) != 2*settling.Length {
		t.Errorf("a cache that fills is %s, and takes %v h", call, settling.Needs(10))
	}
	none := GrowthOf(nil, Options{})
	if call, _ := none.Call(10); call != Inconclusive || !math.IsInf(none.Needs(10), 1) {
		t.Errorf("of nothing: %s, %v", call, none.Needs(10))
	}
}

func TestSlopeOfLittle(t *testing.T) {
	if e := Slope([]SeriesPoint{{0, 1}}, Options{}); !math.IsNaN(e.Value) || e.Defined() || len(e.Warnings) == 0 {
		t.Errorf("of one value: %+v", e)
	}
	if e := Slope([]SeriesPoint{{0, 1}, {1, 3}}, Options{}); e.Value != 2 || e.Defined() {
		t.Errorf("of two values: %+v", e)
	}
	flat := make([]SeriesPoint, 50)
	for i := range flat {
		flat[i] = SeriesPoint{float64(i), 5}
	}
	if e := Slope(flat, Options{}); e.Value != 0 || e.Low != 0 || e.High != 0 {
		t.Errorf("of a constant: %+v", e)
	}
	flat[7].Y = math.NaN()
	if e := Slope(flat, Options{}); e.Blocks != 49 || len(e.Warnings) != 1 {
		t.Errorf("with one that is no number: %+v", e)
	}
	long := hourly(ar(0.6)(rand.New(rand.NewPCG(5, 5)), 5000), 7)
	if e := Slope(long, Options{}); e.Excludes(7) || e.High-e.Low > 0.1 {
		t.Errorf("of many: %+v", e)
	}
}
