package kubelet

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * 1e9)) }

// series builds samples from pairs of a time and a counter, both in seconds.
func series(pairs ...[2]float64) *Series {
	s := &Series{}
	for _, p := range pairs {
		s.Add(Sample{At: at(p[0]), UsedNS: uint64(p[1] * 1e9)})
	}
	return s
}

func TestBetween(t *testing.T) {
	steady := [][2]float64{{0, 5}, {10, 6}, {20, 7}, {30, 8}, {40, 9}, {50, 10}, {60, 11}}
	uneven := [][2]float64{{0, 0}, {10, 2}, {20, 3}, {30, 4}, {40, 5}, {50, 9}, {60, 10}}
	for _, c := range []struct {
		name                string
		pairs               [][2]float64
		a, b                float64
		used, low, high, se float64
		samples             int
	}{
		{"a steady rate has no standard error", steady, 5, 55, 5, 4, 6, 0, 7},
		{"edges on samples are exact", steady, 10, 50, 4, 4, 4, 0, 5},
		{"one edge on a sample", steady, 10, 55, 4.5, 4, 5, 0, 6},
		// v: rate 10/60; off 1/3, -2/3 four times, 7/3; squares / 10 s, / 5
		{"fluctuations", uneven, 5, 55, 1 + 7 + 0.5, 7, 10, math.Sqrt((1./9 + 4*4./9 + 49./9) / 50 * (2.5 + 2.5)), 7},
		{"nothing used", [][2]float64{{0, 3}, {10, 3}, {20, 3}, {30, 3}, {40, 3}, {50, 3}}, 1, 49, 0, 0, 0, 0, 6},
	} {
		u, err := series(c.pairs...).Between(at(c.a), at(c.b))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, v := range [][2]float64{{u.Seconds, c.used}, {u.LowS, c.low}, {u.HighS, c.high}, {u.ErrorS, c.se}, {float64(u.Samples), float64(c.samples)}} {
			if math.Abs(v[0]-v[1]) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", c.name, u, c)
				break
			}
		}
	}
}

func TestBetweenRefuses(t *testing.T) {
	steady := [][2]float64{{0, 0}, {10, 1}, {20, 2}, {30, 3}, {40, 4}, {50, 5}, {60, 6}}
	for _, c := range []struct {
		name  string
		pairs [][2]float64
		a, b  float64
		want  string
	}{
		{"no samples", nil, 0, 40, "the kubelet has no sample from before the window"},
		{"none before", steady, -1, 45, "the kubelet has no sample from before the window"},
		{"none after", steady, 5, 61, "the kubelet has no sample from after the window yet"},
		{"no length", steady, 5, 5, "a window from 2026-01-02 03:04:10 +0000 UTC to 2026-01-02 03:04:10 +0000 UTC has no length"},
		{"shorter than a gap", steady, 11, 19, "the window of 8s is too short for samples 10s apart: it would have to be 40s"},
		{"too short", steady, 5, 44, "the window of 39s is too short for samples 10s apart: it would have to be 40s"},
		{"a hole within", [][2]float64{{0, 0}, {10, 1}, {20, 2}, {35.5, 3}, {45, 4}, {55, 5}, {65, 6}}, 5, 60, "the window of 55s is too short for samples 15.5s apart: it would have to be 1m2s"},
	} {
		if _, err := series(c.pairs...).Between(at(c.a), at(c.b)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	// A window that is too short still yields what is known.
	for _, c := range []struct {
		a, b            float64
		used, low, high float64
		se              float64
		least           time.Duration
	}{
		{5, 15, 1, 0, 2, 0, 40 * time.Second},
		{12, 18, 0.6, 0, 1, 0.5, 40 * time.Second}, // between two samples: nothing is known about fluctuations
	} {
		short := &ShortError{}
		u, err := series(steady...).Between(at(c.a), at(c.b))
		if !errors.As(err, &short) || short.Least != c.least || math.Abs(u.Seconds-c.used)+math.Abs(u.LowS-c.low)+math.Abs(u.HighS-c.high)+math.Abs(u.ErrorS-c.se) > 1e-9 {
			t.Errorf("%v to %v: %+v, %v", c.a, c.b, u, err)
		}
	}
	none := &Series{}
	none.Add(Sample{UsedNS: 5})
	if _, ok := none.Last(); ok {
		t.Error("a sample without a time was taken for one")
	}
	fell := [][2]float64{{0, 5}, {10, 6}, {20, 1}, {30, 2}, {40, 3}, {50, 9}}
	if _, err := series(fell...).Between(at(1), at(49)); !errors.Is(err, ErrReset) {
		t.Errorf("a counter that fell: %v", err)
	}
}

// A restarted container that has since used more than its predecessor is detected
// by its start time.
func TestStartedAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		since []float64 // when the container of each sample started; 0: unknown
		reset bool
	}{
		"one container":                {[]float64{-5, -5, -5, -5, -5, -5}, false},
		"not known":                    {[]float64{0, 0, 0, 0, 0, 0}, false},
		"not always known":             {[]float64{-5, 0, -5, -5, 0, -5}, false},
		"another one":                  {[]float64{-5, -5, 12, 12, 12, 12}, true},
		"started before it was seen":   {[]float64{-5, -5, -5.2, -5.2, -5.2, -5.2}, false},
		"another one after the window": {[]float64{-5, -5, -5, -5, -5, -5, 51}, false},
	} {
		s := &Series{}
		for i, since := range tt.since {
			x := Sample{At: at(float64(10 * i)), UsedNS: uint64(i) * 1e9}
			if since != 0 {
				x.Since = at(since)
			}
			s.Add(x)
		}
		if _, err := s.Between(at(1), at(49)); errors.Is(err, ErrReset) != tt.reset || err != nil && !tt.reset {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Adding the same sample again, or an older one, has no effect.
func TestAddTwice(t *testing.T) {
	s := series([2]float64{0, 1}, [2]float64{10, 2}, [2]float64{10, 2}, [2]float64{0, 1})
	if last, ok := s.Last(); !ok || last.UsedNS != 2e9 || len(s.samples) != 2 {
		t.Errorf("%+v", s.samples)
	}
}

// The true use always lies within the bounds, whatever a container does between
// samples.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The true counter, per tenth of a second.
		steps := rapid.SliceOfN(rapid.IntRange(0, 1e8), 1500, 1500).Draw(t, "steps")
		counter := make([]uint64, len(steps)+1)
		for i, step := range steps {
			counter[i+1] = counter[i] + uint64(step)
		}
		s := &Series{}
		for i := rapid.IntRange(0, 99).Draw(t, "first"); i < len(counter); i += rapid.IntRange(100, 200).Draw(t, "gap") {
			s.Add(Sample{At: at(float64(i) / 10), UsedNS: counter[i]})
		}
		a := rapid.IntRange(100, 400).Draw(t, "a")
		b := a + rapid.IntRange(400, 900).Draw(t, "length")
		u, err := s.Between(at(float64(a)/10), at(float64(b)/10))
		if short := (&ShortError{}); errors.As(err, &short) {
			if short.Least <= short.Window {
				t.Fatalf("%+v", short)
			}
		} else if err != nil {
			return // samples end before the window
		}
		truth := float64(counter[b]-counter[a]) / 1e9
		const rounding = 1e-9
		if truth < u.LowS-rounding || truth > u.HighS+rounding || u.Seconds < u.LowS-rounding || u.Seconds > u.HighS+rounding {
			t.Fatalf("used %v, told %+v", truth, u)
		}
	})
}

// The standard error matches the deviations from the truth, for a rate that
// fluctuates independently between tenths of a second.
func TestStandardError(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	var squares, told float64
	const windows = 4000
	for range windows {
		counter := make([]uint64, 1601)
		for i := 1; i < len(counter); i++ {
			counter[i] = counter[i-1] + uint64(r.ExpFloat64()*5e7) // half a CPU
		}
		s := &Series{}
		for i := r.IntN(100); i < len(counter); i += 100 + r.IntN(100) { // with the jitter of a kubelet
			s.Add(Sample{At: at(float64(i) / 10), UsedNS: counter[i]})
		}
		a, b := 250, 1050
		u, err := s.Between(at(float64(a)/10), at(float64(b)/10))
		must.OK(t, err)
		off := u.Seconds - float64(counter[b]-counter[a])/1e9
		squares, told = squares+off*off, told+u.ErrorS*u.ErrorS
	}
	if ratio := told / squares; ratio < 0.9 || ratio > 1.1 {
		t.Errorf("variance told is %.3f of the true one", ratio)
	}
}
