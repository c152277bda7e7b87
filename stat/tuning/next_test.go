package tuning

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawnWorld draws a world with levers, effects and constraints of any kind.
func drawnWorld(r *rapid.T) world {
	w := world{name: "drawn"}
	for i, n := range rapid.SliceOfN(rapid.IntRange(2, 4), 1, 4).Draw(r, "levels") {
		l := Lever{Name: string(rune('p' + i))}
		sizes[l.Name] = n
		if rapid.Bool().Draw(r, "ordered") {
			values := make([]float64, n)
			for k := range values {
				values[k] = math.Pow(3, float64(k))
			}
			l.Places = Places(values)
		}
		w.space.Levers = append(w.space.Levers, l)
	}
	w.space = grid(make([]int, len(w.space.Levers)), w.space.Levers...)
	w.weight = []float64{1, rapid.SampledFrom([]float64{0, 1, 2}).Draw(r, "weight")}
	seed := rapid.Uint64().Draw(r, "effects")
	w.truth = synthesized(w.space, seed)
	for range rapid.IntRange(0, 2).Draw(r, "bounds") {
		w.bounds = append(w.bounds, Bound{Measure: rapid.IntRange(0, 1).Draw(r, "bounded"), Limit: rapid.Float64Range(-0.5, 2).Draw(r, "limit"), Relative: rapid.Bool().Draw(r, "relative")})
	}
	return w
}

// synthesized returns two measures that each lever changes by some factor.
func synthesized(s Space, seed uint64) [][]float64 {
	out := make([][]float64, 2)
	for m := range out {
		for _, c := range s.Cells {
			y := 0.0
			for k, level := range c {
				y += math.Sin(float64(seed%1000) + float64(7*m+3*k) + 1.3*float64(level))
			}
			out[m] = append(out[m], math.Exp(y/2))
		}
	}
	return out
}

// A search tries only cells of the grid, each once per block and the one in use in all
// blocks; takes no more trials than allowed; ends; decides the same for the same trials;
// and recommends a cell that it has tried.
func TestNextKeepsToTheRules(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawnWorld(r)
		p := w.problem(rapid.IntRange(1, 20).Draw(r, "trials"), rapid.Uint64().Draw(r, "seed"))
		lost := rapid.IntRange(1, 6).Draw(r, "lost") // every lost-th trial is invalid
		var trials []Trial
		for block := 0; ; block++ {
			if block > 30 {
				r.Fatal("it does not end")
			}
			d, again := p.Next(trials), p.Next(slices.Clone(trials))
			if !reflect.DeepEqual(d, again) {
				r.Fatalf("the same trials give %+v and %+v", d, again)
			}
			if (d.Stop == "") != (len(d.Cells) > 0) {
				r.Fatalf("%d cells, and it ends since %q", len(d.Cells), d.Stop)
			}
			if d.Stop != "" {
				if len(trials) > 0 && d.Spare != p.Space.Base && !tried(trials, d.Spare) {
					r.Fatalf("cell %d is recommended and was not tried", d.Spare)
				}
				if p.Space.moved(d.Spare) > p.Space.moved(d.Best) {
					r.Fatalf("cell %d is recommended for %d, and moves more levers", d.Spare, d.Best)
				}
				return
			}
			seen := map[int]bool{}
			for i, c := range d.Cells {
				if c.Cell < 0 || c.Cell >= len(w.space.Cells) || seen[c.Cell] || c.Why == "" || i == 0 && c.Cell != p.Space.Base {
					r.Fatalf("block %d tries %+v", block, d.Cells)
				}
				seen[c.Cell] = true
				one := Trial{Cell: c.Cell, Block: block, Values: []float64{w.truth[0][c.Cell], w.truth[1][c.Cell]}}
				if len(trials)%lost == lost-1 {
					one.Values = []float64{math.NaN(), math.NaN()}
				}
				trials = append(trials, one)
			}
			if len(trials) > p.Rules.Trials {
				r.Fatalf("%d trials, and %d are allowed", len(trials), p.Rules.Trials)
			}
		}
	})
}

// A search does not claim that a cell that certainly violates a constraint meets it.
func TestBestMeetsConstraints(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawnWorld(r)
		p := w.problem(30, 1)
		got := w.tune(t, p, 0.01, rapid.Uint64().Draw(r, "scatter"))
		if got.met && !w.allowed(got.best, 0.1) {
			r.Fatalf("cell %d is said to meet %+v, and has %g and %g (in use: %g and %g)", got.best, w.bounds,
				w.truth[0][got.best], w.truth[1][got.best], w.truth[0][w.space.Base], w.truth[1][w.space.Base])
		}
	})
}

// Levers without effect are not recommended, however many were tried together with one
// that has an effect.
func TestLeversThatDoNothingStay(t *testing.T) {
	w := world{name: "one lever", weight: []float64{1}}
	w.space = grid([]int{0, 0, 0, 0}, named("one", 2), ordered("longer", 1, 10, 25, 50), named("other", 2), named("more", 3))
	for _, c := range w.space.Cells {
		w.truth = append(w.truth[:0], append(slices.Concat(w.truth...), 500-400*float64(c[0])))
	}
	for seed := range uint64(10) {
		p := w.problem(len(w.space.Cells)/2, seed)
		got := w.tune(t, p, 0.003, seed)
		if c := w.space.Cells[got.best]; !slices.Equal(c, []int{1, 0, 0, 0}) {
			t.Errorf("seed %d: %v is recommended after %d trials, since %s", seed, c, got.trials, got.stop)
		}
	}
}

// Cells whose trials are never valid are abandoned.
func TestUnusableCellsAreLeft(t *testing.T) {
	w := flat(0)
	p := w.problem(200, 1)
	p.Rules.Better, p.Rules.Doubt, p.Rules.Gain = 0.0001, 0, 0 // it would never end
	var trials []Trial
	counts := map[int]int{}
	for block := range 12 {
		d := p.Next(trials)
		for _, c := range d.Cells {
			v := math.NaN()
			if c.Cell == p.Space.Base {
				v = 1
			}
			counts[c.Cell]++
			trials = append(trials, Trial{Cell: c.Cell, Block: block, Values: []float64{v}})
		}
	}
	for c, n := range counts {
		if n > 2 && c != p.Space.Base {
			t.Errorf("cell %d was tried %d times without one trial that may be believed", c, n)
		}
	}
}

// If no trial has the objective, a search says so after its first block.
func TestNothingToGoBy(t *testing.T) {
	w := synthetic("levers", 1, 0)
	for name, lacking := range map[string]int{"objective": 0, "constraint": 1} {
		p := w.problem(30, 1)
		p.Measures = append(p.Measures, Measure{Name: "other"})
		d := p.Next(nil)
		var trials []Trial
		for _, c := range d.Cells {
			values := []float64{w.truth[0][c.Cell], w.truth[1][c.Cell], 1}
			values[lacking] = math.NaN()
			trials = append(trials, Trial{Cell: c.Cell, Values: values})
		}
		if d := p.Next(trials); len(d.Cells) > 0 || d.Met || d.Best != p.Space.Base || !strings.HasPrefix(d.Stop, "no trial has "+p.Measures[lacking].Name) {
			t.Errorf("without the %s: %+v", name, d)
		}
	}
}

// The belief about a cell covers its true value, also for untried cells, and the scatter
// is estimated correctly.
func TestBeliefCovers(t *testing.T) {
	const noise = 0.05
	inside, all, scatter := 0, 0, 0.0
	for seed := range uint64(20) {
		w := synthetic("levers", seed, 0)
		p := w.problem(30, seed)
		got := w.tune(t, p, noise, seed)
		b := p.Believe(got.tried)
		scatter += b.Noise(0) / 20
		for c := range w.space.Cells {
			e, ok := b.Of(0, c)
			if !ok {
				t.Fatal("nothing is believed")
			}
			if all++; e.Low <= w.truth[0][c] && w.truth[0][c] <= e.High {
				inside++
			}
		}
	}
	if share := float64(inside) / float64(all); share < 0.80 {
		t.Errorf("%.0f%% of the cells lie in their intervals", 100*share)
	}
	if scatter < noise/2 || scatter > 2*noise {
		t.Errorf("trials scatter by %.3f, and are said to by %.3f", noise, scatter)
	}
}

// Values at and below zero have a scale too.
func TestScaleOfNetCosts(t *testing.T) {
	w := flat(0)
	p := w.problem(10, 1)
	for name, values := range map[string][]float64{"net": {-3, 0, 5, 10}, "none": {0, 0, 0, 0}, "log": {1, 2, 3, 4}} {
		var trials []Trial
		for i, v := range values {
			trials = append(trials, Trial{Cell: i % 2, Block: i / 2, Values: []float64{v}})
		}
		s := scaleOf(p, trials, 0)
		if s.log != (name == "log") {
			t.Errorf("%s: logarithms %v", name, s.log)
		}
		for _, v := range values {
			if back := s.back(s.of(v)); math.Abs(back-v) > 1e-9 {
				t.Errorf("%s: %g comes back as %g", name, v, back)
			}
		}
		if e, ok := p.Believe(trials).Of(0, 0); !ok || math.IsNaN(e.Value) || e.Low > e.High {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct{ values, want []float64 }{
		{[]float64{0.1, 1, 10}, []float64{0, 0.5, 1}},
		{[]float64{0, 5, 10}, []float64{0, 0.5, 1}},
		{[]float64{1, math.NaN()}, nil},
		{[]float64{3, 3}, nil},
	} {
		got := Places(c.values)
		if len(got) != len(c.want) {
			t.Errorf("%v stand at %v, not %v", c.values, got, c.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%v stand at %v, not %v", c.values, got, c.want)
			}
		}
	}
}
