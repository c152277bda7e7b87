package push

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pushes runs a debouncer on changes at the given times, with push contexts of
// the given duration, and returns when pushes begin and how many changes each
// has.
func pushes(d Debouncer, changes []float64, context float64) (at []float64, sizes []int) {
	now, waiting, done := 0.0, 0, math.Inf(1)
	begin := func() {
		at, sizes = append(at, now), append(sizes, waiting)
		waiting, done = 0, now+context
	}
	for {
		next := math.Min(d.Timer(), done)
		if len(changes) > 0 {
			next = math.Min(next, changes[0])
		}
		if math.IsInf(next, 1) {
			return at, sizes
		}
		now = math.Max(now, next)
		switch {
		case len(changes) > 0 && changes[0] <= now:
			d.Change(now)
			waiting++
			changes = changes[1:]
		case done <= now:
			done = math.Inf(1)
			if d.Done(now) {
				begin()
			}
		default:
			if d.Fire(now) {
				begin()
			}
		}
	}
}

func every(step float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i) * step
	}
	return out
}

// When istiod pushes, according to its own code (debounce in
// pilot/pkg/xds/discovery.go).
func TestDebouncer(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes []float64
		context float64
		at      []float64
		sizes   []int
	}{
		{"one change waits until nothing came for 100 ms", []float64{0}, 0, []float64{0.1}, []int{1}},
		{"a second one within them makes both wait", []float64{0, 0.06}, 0, []float64{0.16}, []int{2}},
		{"two farther apart are two pushes", []float64{0, 0.15}, 0, []float64{0.1, 0.25}, []int{1, 1}},
		{"changes that do not end are pushed after the longest wait", every(0.07, 45), 0, []float64{1.01, 2.06, 3.11}, []int{15, 15, 15}},
		{"what comes while a push context is made waits for it", []float64{0, 0.2}, 1, []float64{0.1, 1.1}, []int{1, 1}},
		{"and for its own quiet time", []float64{0, 1.05}, 1, []float64{0.1, 1.15}, []int{1, 1}},
		{"all that waited is one push", []float64{0, 0.2, 0.4, 0.6}, 1, []float64{0.1, 1.1}, []int{1, 3}},
	} {
		at, sizes := pushes(Debouncer{After: 0.1, Max: 1}, test.changes, test.context)
		if !slices.Equal(sizes, test.sizes) || len(at) != len(test.at) {
			t.Errorf("%s: pushes of %v at %v, want %v at %v", test.name, sizes, at, test.sizes, test.at)
			continue
		}
		for i := range at {
			if math.Abs(at[i]-test.at[i]) > 1e-9 {
				t.Errorf("%s: pushes at %v, want %v", test.name, at, test.at)
			}
		}
	}
}

// Every change is pushed once, none before the quiet time. If push contexts
// take no time, none is pushed later than the longest wait plus the quiet time
// that its timer may still run.
func TestDebouncerKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Debouncer{After: rapid.Float64Range(0.01, 1).Draw(t, "after"), Max: rapid.Float64Range(0.01, 5).Draw(t, "max")}
		context := rapid.SampledFrom([]float64{0, 0, 0.1, 2}).Draw(t, "context")
		changes := rapid.SliceOfN(rapid.Float64Range(0, 20), 1, 100).Draw(t, "changes")
		slices.Sort(changes)
		at, sizes := pushes(d, changes, context)
		first := 0
		for i, n := range sizes {
			if n == 0 {
				t.Fatalf("push %d at %v has no change", i, at[i])
			}
			oldest, newest := changes[first], changes[first+n-1]
			if quiet, waited := at[i]-newest, at[i]-oldest; quiet < d.After-1e-6 && waited < d.Max-1e-6 {
				t.Fatalf("push %d at %v has changes from %v to %v", i, at[i], oldest, newest)
			} else if context == 0 && waited > d.Max+d.After+1e-6 {
				t.Fatalf("push %d at %v waited %v", i, at[i], waited)
			}
			first += n
		}
		if first != len(changes) {
			t.Fatalf("%d of %d changes were pushed", first, len(changes))
		}
	})
}
