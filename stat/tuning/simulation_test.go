package tuning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A world is a grid with the true value of each measure in each cell.
type world struct {
	name   string
	space  Space
	truth  [][]float64 // by measure and cell
	weight []float64
	bounds []Bound
}

// grid returns every combination of levels; levels without an order have no values.
func grid(base []int, levers ...Lever) Space {
	s := Space{Levers: levers, Cells: []Point{{}}}
	for _, l := range levers {
		var next []Point
		for _, c := range s.Cells {
			for level := range sizes[l.Name] {
				next = append(next, append(append(Point(nil), c...), level))
			}
		}
		s.Cells = next
	}
	for i, c := range s.Cells {
		same := true
		for k := range c {
			same = same && c[k] == base[k]
		}
		if same {
			s.Base = i
		}
	}
	return s
}

// sizes holds the numbers of levels of these tests' levers.
var sizes = map[string]int{}

func ordered(name string, values ...float64) Lever {
	sizes[name] = len(values)
	return Lever{Name: name, Places: Places(values)}
}

func named(name string, n int) Lever {
	sizes[name] = n
	return Lever{Name: name}
}

// pipeline returns the world of istiod's push pipeline, as advise/capacity/push simulates
// it: its levers, at a mesh that a seed chooses.
func pipeline(t testing.TB, seed uint64) world {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	after, most := []float64{0.1, 0.3, 1, 2.5}, []float64{1, 3, 10}
	throttle, cores := []float64{10, 20, 50, 100}, []float64{0.5, 1, 2}
	w := world{name: "push pipeline", weight: []float64{1, 1, 0}}
	w.space = grid([]int{0, 2, 1, 1}, ordered("after", after...), ordered("most", most...), ordered("throttle", throttle...), ordered("cores", cores...))
	mesh := model.Default()
	mesh.Proxies, mesh.Services = 50+rng.IntN(300), 100+rng.IntN(300)
	mesh.Rate, mesh.Horizon, mesh.ConnectionAge = math.Exp(rng.Float64()*3-1), 60, 0
	mesh.Mix = map[string]float64{"endpoints": 1 + 3*rng.Float64(), "configuration": rng.Float64()}
	w.truth = make([][]float64, 3)
	for _, c := range w.space.Cells {
		m := mesh
		m.DebounceAfter, m.DebounceMax, m.Throttle, m.Cores = after[c[0]], most[c[1]], int(throttle[c[2]]), cores[c[3]]
		v := model.Assumed()
		r, err := v.Simulate(m, seed)
		must.OK(t, err)
		outputs := map[string]float64{}
		for k, y := range v.Simulated(m, r) {
			outputs[model.Outputs[k].Name] = y
		}
		for i, name := range []string{model.OutConvergenceP99, model.OutPushesPerChange, model.OutCPU} {
			w.truth[i] = append(w.truth[i], outputs[name])
		}
	}
	w.bounds = []Bound{{Measure: 2, Limit: 0.10, Relative: true}}
	return w
}

// synthetic returns a world of five levers, two of them of names. Each has its own effect,
// steep or flat, some have an optimum in the middle, and pairs interact as strongly as
// together says.
func synthetic(name string, seed uint64, together float64) world {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := world{name: name, weight: []float64{1, 0}}
	w.space = grid([]int{0, 0, 0, 0}, ordered("a", 1, 2, 4, 8, 16), ordered("b", 1, 3, 10, 30), named("c", 3), named("d", 2))
	at := func(lever, level int) float64 {
		if l := w.space.Levers[lever]; l.Places != nil {
			return l.Places[level]
		}
		return float64(level)
	}
	w.truth = make([][]float64, 2)
	slope, bend, pair := make([]float64, 4), make([]float64, 4), make([]float64, 16)
	names := [4][8]float64{}
	for i := range slope {
		slope[i], bend[i] = 0.8*rng.NormFloat64(), rng.Float64()
		for j := range names[i] {
			names[i][j] = 0.6 * rng.NormFloat64()
		}
	}
	for i := range pair {
		pair[i] = together * rng.NormFloat64()
	}
	for _, c := range w.space.Cells {
		y, cost := 0.0, 0.0
		for i := range 4 {
			x := at(i, c[i])
			if w.space.Levers[i].Places == nil {
				y += names[i][c[i]]
			} else {
				y += slope[i]*x + 2*bend[i]*(x-0.5)*(x-0.5)
			}
			cost += 0.15 * x
			for j := range i {
				y += pair[4*i+j] * x * at(j, c[j])
			}
		}
		w.truth[0] = append(w.truth[0], math.Exp(y))
		w.truth[1] = append(w.truth[1], math.Exp(cost))
	}
	w.bounds = []Bound{{Measure: 1, Limit: 1.6, Relative: false}}
	return w
}

// valley returns a world in which two levers must move together, and either alone does harm.
func valley(seed uint64) world {
	rng := rand.New(rand.NewPCG(seed, 3))
	w := world{name: "valley", weight: []float64{1}}
	w.space = grid([]int{0, 0, 0}, ordered("v1", 1, 2, 4, 8, 16, 32), ordered("v2", 1, 2, 4, 8, 16, 32), named("v3", 3))
	w.truth = make([][]float64, 1)
	depth, off := 0.5+rng.Float64(), []float64{0, 0.3 * rng.NormFloat64(), 0.3 * rng.NormFloat64()}
	for _, c := range w.space.Cells {
		x, y := w.space.Levers[0].Places[c[0]], w.space.Levers[1].Places[c[1]]
		w.truth[0] = append(w.truth[0], math.Exp(2*math.Abs(x-y)-depth*(x+y)+off[c[2]]))
	}
	return w
}

// flat returns a world in which no lever has an effect.
func flat(uint64) world {
	w := world{name: "flat", weight: []float64{1}}
	w.space = grid([]int{0, 0, 0}, ordered("f1", 1, 2, 4, 8), ordered("f2", 1, 2, 4, 8), named("f3", 4))
	w.truth = [][]float64{make([]float64, len(w.space.Cells))}
	for i := range w.truth[0] {
		w.truth[0][i] = 1
	}
	return w
}

// tuned is the result of a search in a world.
type tuned struct {
	best, trials int
	met          bool
	stop         string
	tried        []Trial
}

// problem returns the problem of a world with a number of trials.
func (w world) problem(trials int, seed uint64) *Problem {
	p := &Problem{Space: w.space, Bounds: w.bounds, Rules: Rules{Trials: trials, Better: 0.05, Doubt: 0.1, Gain: 0.005, Seed: seed}}
	for i := range w.truth {
		p.Measures = append(p.Measures, Measure{Name: fmt.Sprint(i), Weight: w.weight[i]})
	}
	return p
}

// tune searches a world whose trials scatter by a share, and whose blocks scatter by half of
// it.
func (w world) tune(t testing.TB, p *Problem, noise float64, seed uint64) tuned {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	var out tuned
	for block := 0; ; block++ {
		d := p.Next(out.tried)
		if d.Stop != "" {
			out.best, out.met, out.stop, out.trials = d.Spare, d.Met, d.Stop, len(out.tried)
			return out
		}
		shifts := make([]float64, len(w.truth))
		for i := range shifts {
			shifts[i] = noise / 2 * rng.NormFloat64()
		}
		for _, c := range d.Cells {
			trial := Trial{Cell: c.Cell, Block: block}
			for i := range w.truth {
				trial.Values = append(trial.Values, w.truth[i][c.Cell]*math.Exp(shifts[i]+noise*rng.NormFloat64()))
			}
			out.tried = append(out.tried, trial)
		}
	}
}

// ratio returns the true objective of cell a relative to cell b's.
func (w world) ratio(a, b int) float64 {
	sum, whole := 0.0, 0.0
	for i, v := range w.truth {
		sum += w.weight[i] * math.Log(v[a]/v[b])
		whole += w.weight[i]
	}
	return math.Exp(sum / whole)
}

// allowed reports whether a cell truly meets the bounds, with some slack.
func (w world) allowed(c int, slack float64) bool {
	for _, b := range w.bounds {
		limit := b.Limit
		if b.Relative {
			limit = (1 + b.Limit) * w.truth[b.Measure][w.space.Base]
		}
		if w.truth[b.Measure][c] > limit*(1+slack) {
			return false
		}
	}
	return true
}

// best returns the true optimum of the cells that meet the bounds by a margin of the scatter
// of trials: no trial can tell whether a closer one does.
func (w world) best(noise float64) int {
	best := w.space.Base
	for c := range w.space.Cells {
		if w.allowed(c, -noise) && w.ratio(c, best) < 1 {
			best = c
		}
	}
	return best
}

// exhaustive returns the cell chosen after trying every cell once: the one with the lowest
// objective among those whose trial meets the bounds.
func (w world) exhaustive(noise float64, seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, 11))
	seen := world{space: w.space, weight: w.weight, bounds: w.bounds}
	for _, v := range w.truth {
		row := make([]float64, len(v))
		for c := range row {
			row[c] = v[c] * math.Exp(noise*rng.NormFloat64())
		}
		seen.truth = append(seen.truth, row)
	}
	return seen.best(0)
}

// simulations returns how often to tune each world: few in a test, the number in the
// environment in a benchmark.
func simulations(t testing.TB, few int) int {
	text := os.Getenv("MESHTRIAL_SIMULATIONS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MESHTRIAL_SIMULATIONS is %q, no number of simulations", text)
	}
	return n
}

// A search comes within 10% of the best cell of its grid with a quarter of the trials that
// trying each cell once takes, in at least 90% of the seeds of each world. Its
// recommendation may exceed a constraint by at most twice the scatter of trials. The table
// also has the share of seeds in which the whole grid comes as near.
func TestSimulationTuning(t *testing.T) {
	n := simulations(t, 10)
	worlds := []func(seed uint64) world{
		func(s uint64) world { return pipeline(t, s) },
		func(s uint64) world { return synthetic("levers alone", s, 0) },
		func(s uint64) world { return synthetic("levers together", s, 0.4) },
		valley, flat,
	}
	t.Logf("%-28s %5s %6s %7s %9s %9s %9s %9s %9s", "world", "noise", "cells", "trials", "near", "median", "worst", "beyond", "grid near")
	for _, of := range worlds {
		for _, noise := range []float64{0.03, 0.05, 0.10} {
			var over []float64
			near, beyond, trials, cells, whole, name := 0, 0, 0, 0, 0, ""
			for seed := range n {
				w := of(uint64(seed))
				cells, name = len(w.space.Cells), w.name
				got := w.tune(t, w.problem(cells/4, uint64(seed)), noise, uint64(seed))
				if got.trials > cells/4 {
					t.Fatalf("%s: %d trials, more than %d", name, got.trials, cells/4)
				}
				trials += got.trials
				best := w.best(noise)
				ratio := w.ratio(got.best, best)
				if c := w.exhaustive(noise, uint64(seed)); w.ratio(c, best) <= 1.1 && w.allowed(c, 2*noise) {
					whole++
				}
				over = append(over, ratio-1)
				if !w.allowed(got.best, 2*noise) {
					beyond++
				}
				if ratio <= 1.1 {
					near++
				}
			}
			t.Logf("%-28s %4.0f%% %6d %7.1f %8.0f%% %8.1f%% %8.1f%% %9d %8.0f%%", name, 100*noise, cells, float64(trials)/float64(n),
				100*float64(near)/float64(n), 100*middle(over), 100*maxOf(over), beyond, 100*float64(whole)/float64(n))
			if beyond > 0 {
				t.Errorf("%s at %.0f%%: %d of %d recommendations break a constraint by more than trials scatter", name, 100*noise, beyond, n)
			}
			if enough := 0.9 - 1.5*math.Sqrt(0.09/float64(n)); float64(near)/float64(n) < enough {
				t.Errorf("%s at %.0f%%: within 10%% of the best in %d of %d", name, 100*noise, near, n)
			}
		}
	}
}

func maxOf(values []float64) float64 {
	most := math.Inf(-1)
	for _, v := range values {
		most = max(most, v)
	}
	return most
}
