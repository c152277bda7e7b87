package arrival

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

func all(s Schedule) []Request {
	var out []Request
	for {
		r, ok := s.Next()
		if !ok {
			return out
		}
		out = append(out, r)
	}
}

func constant(rate float64) Shape { return Shape{Kind: Constant, RateRPS: rate} }

// repeating returns the schedule that hands divide.
func repeating(rateRPS, periodS, durationS float64, seed uint64) Schedule {
	return RepeatingOf(Hand{Of: 1}, rateRPS, periodS, durationS, seed)
}

func TestUniformAndBurst(t *testing.T) {
	uniform := all(Uniform(constant(1000), 1))
	if len(uniform) != 1000 {
		t.Fatalf("%d requests, want 1000", len(uniform))
	}
	for k, r := range uniform {
		if r.Offset != int64(k)*1e6 {
			t.Fatalf("request %d at %d ns, want %d", k, r.Offset, k*1_000_000)
		}
	}
	burst := all(Burst(constant(1000), 1, 16))
	if len(burst) != 63*16 { // group 62 leaves at 992 ms
		t.Fatalf("%d requests, want %d", len(burst), 63*16)
	}
	for k, r := range burst {
		if r.Offset != int64(k/16)*16e6 {
			t.Fatalf("request %d at %d ns, want %d", k, r.Offset, k/16*16_000_000)
		}
	}
}

func TestPoisson(t *testing.T) {
	const rate, duration = 2000.0, 100.0
	got := all(Poisson(constant(rate), duration, 7))
	if n, want, sd := float64(len(got)), rate*duration, math.Sqrt(rate*duration); math.Abs(n-want) > 5*sd {
		t.Fatalf("%v requests, want %v within %v", n, want, 5*sd)
	}
	exponential(t, seconds(got, 0, math.MaxInt64), rate)
	again := all(Poisson(constant(rate), duration, 7))
	for i := range got {
		if got[i] != again[i] {
			t.Fatalf("the same seed gave another schedule from request %d on", i)
		}
	}
	if other := all(Poisson(constant(rate), duration, 8)); other[0] == got[0] {
		t.Error("another seed gave the same first request")
	}
}

// seconds returns the gaps that end at offsets within bounds.
func seconds(requests []Request, from, to int64) (gaps []float64) {
	for i := 1; i < len(requests); i++ {
		if at := requests[i].Offset; at > from && at < to {
			gaps = append(gaps, float64(at-requests[i-1].Offset)/1e9)
		}
	}
	return gaps
}

// exponential checks the Kolmogorov-Smirnov distance of gaps from the exponential law.
func exponential(t *testing.T, gaps []float64, rate float64) {
	t.Helper()
	slices.Sort(gaps)
	d, n := 0.0, float64(len(gaps))
	for i, g := range gaps {
		f := 1 - math.Exp(-rate*g)
		d = max(d, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	if d*math.Sqrt(n) > 1.95 { // p = 0.001
		t.Errorf("gaps are not exponential: distance %v", d)
	}
}

// drawShape draws a shape whose count over ten seconds is moderate.
func drawShape(t *rapid.T) Shape {
	rate := rapid.Float64Range(0, 2000)
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		return constant(rapid.Float64Range(1, 2000).Draw(t, "rate"))
	case 1:
		return Shape{Kind: Ramp, FromRPS: rate.Draw(t, "from"), ToRPS: rapid.Float64Range(1, 2000).Draw(t, "to"), OverS: rapid.Float64Range(0.1, 20).Draw(t, "over")}
	}
	s := Shape{Kind: Steps}
	for range rapid.IntRange(1, 5).Draw(t, "steps") {
		s.Steps = append(s.Steps, Step{RateRPS: rate.Draw(t, "rate"), DurationS: rapid.Float64Range(0.1, 5).Draw(t, "hold")})
	}
	s.Steps = append(s.Steps, Step{RateRPS: 10, DurationS: 1})
	return s
}

// wanted integrates the shape's rate numerically: the oracle for the number of
// requests before a time.
func wanted(s Shape, until float64) float64 {
	rateAt := func(x float64) float64 {
		switch s.Kind {
		case Constant:
			return s.RateRPS
		case Ramp:
			if x >= s.OverS {
				return s.ToRPS
			}
			return s.FromRPS + (s.ToRPS-s.FromRPS)*x/s.OverS
		}
		for _, step := range s.Steps {
			if x < step.DurationS {
				return step.RateRPS
			}
			x -= step.DurationS
		}
		return s.Steps[len(s.Steps)-1].RateRPS
	}
	const n = 20000
	sum := 0.0
	for i := range n {
		sum += rateAt((float64(i) + 0.5) * until / n)
	}
	return sum * until / n
}

func TestShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		must.OK(t, shape.Validate())
		const duration = 10.0
		uniform := all(Uniform(shape, duration))
		if got, want := float64(len(uniform)), wanted(shape, duration); math.Abs(got-want) > 3 {
			t.Fatalf("%v requests, the shape wants %v", got, want)
		}
		size := rapid.IntRange(1, 64).Draw(t, "size")
		for _, requests := range [][]Request{uniform, all(Poisson(shape, duration, 3)), all(Burst(shape, duration, size))} {
			last := int64(0)
			for i, r := range requests {
				if r.Offset < last || r.Offset >= duration*1e9 {
					t.Fatalf("request %d at %d ns, after %d", i, r.Offset, last)
				}
				last = r.Offset
			}
		}
		if n := len(uniform); n > 4 { // halfway in time, halfway in count
			k := n / 2
			if got := wanted(shape, float64(uniform[k].Offset)/1e9); math.Abs(got-float64(k)) > 3 {
				t.Fatalf("request %d leaves when the shape wants %v", k, got)
			}
		}
	})
}

func TestShapeErrors(t *testing.T) {
	for _, s := range []Shape{
		{}, {Kind: "wave"}, constant(0), constant(-1), constant(math.NaN()), constant(math.Inf(1)),
		{Kind: Ramp, FromRPS: 1, ToRPS: 2}, {Kind: Ramp, OverS: 1}, {Kind: Ramp, FromRPS: -1, ToRPS: 2, OverS: 1},
		{Kind: Steps}, {Kind: Steps, Steps: []Step{{RateRPS: 0, DurationS: 1}}}, {Kind: Steps, Steps: []Step{{RateRPS: 1}}},
	} {
		if s.Validate() == nil {
			t.Errorf("%+v passes", s)
		}
	}
}

// TestAnnouncedSale checks that steps known in advance give exactly the stated
// rates: 100 rps, 1,000 from second 20 on for ten seconds, then 100 again.
func TestAnnouncedSale(t *testing.T) {
	sale := Shape{Kind: Steps, Steps: []Step{{100, 20}, {1000, 10}, {100, 30}}}
	if n := sale.Expected(60); n != 2000+10_000+3000 {
		t.Errorf("%v requests expected", n)
	}
	for n, want := range map[float64]float64{500: 5, 2500: 20.5, 12_500: 35} {
		if at := sale.Reaching(n); at != want {
			t.Errorf("%v requests after %v s, want %v", n, at, want)
		}
	}
	changed := Uniform(constant(100), 60) // the same, made by changes
	changed.Change(20e9, 1000)
	changed.Change(30e9, 100)
	again := all(changed)
	counts := make([]int, 60)
	for i, r := range all(Uniform(sale, 60)) {
		counts[r.Offset/1e9]++
		if again[i] != r {
			t.Fatalf("request %d at %d, by changes at %d", i, r.Offset, again[i].Offset)
		}
	}
	for i, n := range counts {
		if want := map[bool]int{true: 1000, false: 100}[i >= 20 && i < 30]; n != want {
			t.Errorf("second %d: %d requests, want %d", i, n, want)
		}
	}
	half := all(Uniform(sale.Scaled(0.5), 60))
	if len(half) != 7500 || sale.Steps[1].RateRPS != 1000 {
		t.Errorf("half of it has %d requests; the whole is now %+v", len(half), sale)
	}
}

// Every window of a period's length has the arrivals of the first, rotated, and
// within it they are a Poisson process.
func TestRepeating(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const unit = int64(1e6)
		rate, seed := rapid.SampledFrom([]float64{250, 1000, 4000}).Draw(t, "rate"), rapid.Uint64().Draw(t, "seed")
		period := rapid.Int64Range(50, 800).Draw(t, "period") * unit
		from := rapid.Int64Range(0, 3*800).Draw(t, "from") * unit
		got := all(repeating(rate, float64(period)/1e9, 4, seed))
		in := func(from int64) []int64 {
			var out []int64
			for _, r := range got {
				if r.Offset >= from && r.Offset < from+period && r.Offset%period > 100 && r.Offset%period < period-100 {
					out = append(out, (r.Offset%period+50)/100) // rounding moves some by a nanosecond
				}
			}
			slices.Sort(out)
			return out
		}
		a, b := in(0), in(min(from, 4e9-period))
		if math.Abs(float64(len(a)-len(b))) > 2 {
			t.Fatalf("%d and %d arrivals", len(a), len(b))
		}
		differ := 0
		for _, x := range a {
			if !slices.ContainsFunc(b, func(y int64) bool { return x-1 <= y && y <= x+1 }) {
				differ++
			}
		}
		if differ > 2 {
			t.Fatalf("%d of %d arrivals differ", differ, len(a))
		}
	})
	first, again := all(repeating(2000, 100, 100, 7)), all(Poisson(constant(2000), 100, 7))
	if !slices.Equal(first, again) {
		t.Error("the first period is not the Poisson schedule of its seed")
	}
	var gaps []float64
	for seed := range uint64(200) { // also across the start of a repetition
		gaps = append(gaps, seconds(all(repeating(1000, 0.8, 2, seed)), 4e8, 12e8)...)
	}
	exponential(t, gaps, 1000)
}

// Schedules end even at a rate that leaves whole periods empty.
func TestRepeatingRarely(t *testing.T) {
	for seed := range uint64(500) {
		for _, count := range []float64{1e-9, 0.05, 0.5, 1, 2} {
			got := all(repeating(count, 1, 20, seed))
			if len(got) > 20*8 || !slices.IsSortedFunc(got, func(a, b Request) int { return int(a.Offset - b.Offset) }) {
				t.Fatalf("seed %d, %v a period: %d arrivals", seed, count, len(got))
			}
		}
	}
}
