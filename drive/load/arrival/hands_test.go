package arrival

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// together returns the requests of several schedules in order of time.
func together(schedules []Schedule) []Request {
	var out []Request
	for _, s := range schedules {
		out = append(out, all(s)...)
	}
	slices.SortStableFunc(out, func(a, b Request) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.count, b.count))
	})
	return out
}

// For any schedule, all hands together have each request exactly once.
func TestHandsMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape, seed := drawShape(t), rapid.Uint64().Draw(t, "seed")
		of := rapid.IntRange(1, 9).Draw(t, "hands")
		size := rapid.IntRange(of, 40).Draw(t, "burst")
		edges := []int{0, size}
		if of > 1 {
			edges = append(edges, rapid.SliceOfNDistinct(rapid.IntRange(1, size-1), of-1, of-1, rapid.ID).Draw(t, "cuts")...)
			slices.Sort(edges)
		}
		rate, period := rapid.Float64Range(1, 2000).Draw(t, "rate"), rapid.Float64Range(0.01, 3).Draw(t, "period")
		at, then := rapid.Int64Range(0, 4e9).Draw(t, "change at"), rapid.Float64Range(0, 1000).Draw(t, "to")
		for name, hand := range map[string]func(i, of int) Schedule{
			"poisson":   func(i, of int) Schedule { return PoissonOf(Hand{i, of}, shape, 3, seed) },
			"repeating": func(i, of int) Schedule { return RepeatingOf(Hand{i, of}, rate, period, 3, seed) },
			"burst": func(i, n int) Schedule {
				if n == 1 {
					return Burst(shape, 3, size)
				}
				return BurstOf(edges[i], edges[i+1], shape, 3, size)
			},
			"changed": func(i, of int) Schedule {
				s := PoissonOf(Hand{i, of}, shape, 3, seed)
				s.Change(at, then)
				return s
			},
		} {
			var hands []Schedule
			for i := range of {
				hands = append(hands, hand(i, of))
			}
			if got, want := together(hands), all(hand(0, 1)); !slices.Equal(got, want) {
				t.Fatalf("%s: %d hands have %d requests, one has %d; or they differ", name, of, len(got), len(want))
			}
		}
	})
}

// A hand's share of a Poisson process is a Poisson process at its part of the rate,
// and does not depend on the shares of the others.
func TestAHandIsAPoissonProcess(t *testing.T) {
	const rate, duration, of = 4000.0, 100.0, 4
	for i := range of {
		got := all(PoissonOf(Hand{i, of}, constant(rate), duration, 7))
		if n, want := float64(len(got)), rate*duration/of; math.Abs(n-want) > 5*math.Sqrt(want) {
			t.Errorf("hand %d has %v requests, want %v", i, n, want)
		}
		exponential(t, seconds(got, 0, math.MaxInt64), rate/of)
	}
}

// A hand that gets nothing of a period ends, and the others have all of it.
func TestAHandThatGetsNothing(t *testing.T) {
	for seed := range uint64(50) {
		counts := make([]int, 64)
		for i := range counts {
			counts[i] = len(all(RepeatingOf(Hand{i, len(counts)}, 10, 1, 5, seed)))
		}
		if !slices.Contains(counts, 0) {
			t.Fatalf("seed %d: %v", seed, counts)
		}
	}
}
