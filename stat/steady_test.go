package stat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// online feeds a series interval by interval and returns the length at which
// the detector was satisfied, and the cut; 0 if never.
func online(w Warmup, series ...[]float64) (length, index int) {
	for n := 1; n <= len(series[0]); n++ {
		part := make([][]float64, len(series))
		for i := range series {
			part[i] = series[i][:n]
		}
		if s := w.Detect(part...); s.OK {
			return n, s.Index
		}
	}
	return 0, 0
}

// TestWarmupStationary checks that noise alone does not delay a trial.
func TestWarmupStationary(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, noise := range []float64{0.005, 0.05, 0.3} {
		early, never := 0, 0
		const runs = 1000
		for range runs {
			latency, cpu := make([]float64, 20), make([]float64, 20)
			for i := range latency {
				latency[i] = 100 * math.Exp(noise*r.NormFloat64())
				cpu[i] = 0.1 * (1 + noise/3*r.NormFloat64())
			}
			n, _ := online(Warmup{}, latency, cpu)
			if n > 0 && n <= 12 {
				early++
			}
			if n == 0 {
				never++
			}
		}
		if early < runs*80/100 || never > runs/50 {
			t.Errorf("noise %g: steady within 12 intervals in %d of %d runs, never in 20 in %d", noise, early, runs, never)
		}
	}
}

// TestWarmupSettling checks that the detector waits for a start that costs
// more, whatever its shape, and leaves it out.
func TestWarmupSettling(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	shapes := map[string]func(i int) float64{
		"decay":  func(i int) float64 { return 1 + 2*math.Exp(-float64(i)/2) },
		"step":   func(i int) float64 { return map[bool]float64{true: 3, false: 1}[i < 3] },
		"rising": func(i int) float64 { return 1 - 0.6*math.Exp(-float64(i)/2) },
		"spike":  func(i int) float64 { return map[bool]float64{true: 20, false: 1}[i == 0] },
	}
	for name, shape := range shapes {
		const runs = 500
		bad, never, bias := 0, 0, 0.0
		for range runs {
			x, flat := make([]float64, 20), make([]float64, 20)
			for i := range x {
				x[i] = shape(i) * math.Exp(0.03*r.NormFloat64())
				flat[i] = math.Exp(0.03 * r.NormFloat64())
			}
			n, _ := online(Warmup{}, flat, x) // either series may delay it
			if n == 0 {
				never++
				continue
			}
			// The window starts with the next interval.
			b := math.Abs(shape(n) - 1)
			bias += b / runs
			if b > 0.1 {
				bad++
			}
		}
		if bad > runs/50 || never > runs/50 {
			t.Errorf("%s: window more than 10%% off in %d of %d runs, never steady in %d, mean bias %.3f", name, bad, runs, never, bias)
		}
	}
}

// TestWarmupTrend checks that a series that keeps rising is never steady.
func TestWarmupTrend(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	called := 0
	for range 200 {
		x := make([]float64, 20)
		for i := range x {
			x[i] = 100 * (1 + 0.1*float64(i)) * (1 + 0.01*r.NormFloat64())
		}
		if n, _ := online(Warmup{}, x); n > 0 {
			called++
		}
	}
	if called > 2 {
		t.Errorf("a rise of 10%% an interval was called steady in %d of 200 runs", called)
	}
	missing := []float64{math.NaN(), 1, 1, 1, 1}
	if s := (Warmup{}).Detect(missing); !s.OK || s.Index != 1 {
		t.Errorf("a missing first interval: %+v", s)
	}
}

// TestWarmupNames checks that the series that delays a trial is reported by its
// name.
func TestWarmupNames(t *testing.T) {
	flat, rising := make([]float64, 8), make([]float64, 8)
	for i := range flat {
		flat[i], rising[i] = 1, float64(i+1)
	}
	w := Warmup{Names: []string{"latency", "CPU"}}
	for _, c := range []struct {
		w      Warmup
		series [][]float64
		want   string
	}{
		{w, [][]float64{rising, flat}, "latency still "},
		{w, [][]float64{flat, rising}, "CPU still "},
		{w, [][]float64{flat, flat, rising}, "series 3 still "},
		{Warmup{}, [][]float64{flat, rising}, "series 2 still "},
	} {
		if got := c.w.Detect(c.series...); got.OK || !strings.HasPrefix(got.Why, c.want) {
			t.Errorf("%+v, want %q", got, c.want)
		}
	}
}
