package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A curve simulates something with a limit: it maps a level, as a multiple of
// the limit, to a trial's value, as a multiple of the bound.
type curve struct {
	name  string
	noise float64 // standard deviation of the logarithm of a trial's value
	pods  float64 // of a deployment's limit
	drift float64 // of a block's limit
	at    func(load float64) float64
}

// slope returns growth by a power of the load.
func slope(power float64) func(float64) float64 {
	return func(load float64) float64 { return math.Pow(load, power) }
}

// queue behaves like a single server's queue whose limit is 90% load; beyond
// its capacity it never ends.
func queue(load float64) float64 {
	if load*0.9 >= 1 {
		return math.Inf(1)
	}
	return 0.1 / (1 - 0.9*load)
}

// cliff stays well within the bound until it dies.
func cliff(load float64) float64 {
	if load > 1 {
		return math.Inf(1)
	}
	return 0.2 + 0.1*load
}

var curves = []curve{
	{"gentle, 3% noise", 0.03, 0, 0.03, slope(1)},
	{"gentle, 10% noise, 5% pods", 0.10, 0.05, 0.05, slope(1)},
	{"square, 5% noise, 3% pods", 0.05, 0.03, 0.03, slope(2)},
	{"steep, 20% noise, 5% pods", 0.20, 0.05, 0.03, slope(6)},
	{"queue, 10% noise, 5% pods", 0.10, 0.05, 0.03, queue},
	{"queue, 5% noise, no pods", 0.05, 0, 0.02, queue},
	{"cliff, 5% pods", 0.05, 0.05, 0.03, cliff},
	{"cliff, no pods", 0.05, 0, 0.01, cliff},
}

const simulatedSearch = `
name: far
question: How far?
settings: {sidecars: both}
factors: {rate: [500, 1000, 2000, 4000, 8000, 16000]}
search: [{factor: rate, finding: cpu_client_proxy_per_request, bound: 100 us/request, tolerance: 15%%}]
blocks: {min: %d, max: %d}
stop: none
measures: [cpu]
`

// simulationRuns returns the number of runs for a line of the table: few, or
// MESHTRIAL_SIMULATIONS.
func simulationRuns(few int) int {
	if n, err := strconv.Atoi(os.Getenv("MESHTRIAL_SIMULATIONS")); err == nil {
		return n
	}
	return few
}

// search executes the trials that Next requests.
func (c curve) search(t *testing.T, plan *study.Plan, blocks int, limit float64, r *rand.Rand) record.Run {
	run := record.Run{}
	for block := range blocks {
		here := limit * math.Exp(c.drift*r.NormFloat64()+c.pods*r.NormFloat64())
		for {
			order, more, err := kinds.Next(plan, run, block)
			must.OK(t, err)
			if !more {
				break
			}
			cell := plan.Cells[plan.Block(block)[order].Cell]
			asked, err := rate.Parse(cell[study.FactorRate])
			must.OK(t, err)
			v := 100e-6 * c.at(asked.RPS()/here) * math.Exp(c.noise*r.NormFloat64())
			trial := record.Trial{ID: study.TrialID(block, order), Block: block, Order: order, Cell: cell, Deployment: block + 1, Validity: record.Validity{Valid: true},
				Load: &record.Load{Rate: asked, Completed: 1000, Within: record.Within{Answered: 1000}}}
			if math.IsInf(v, 1) {
				trial.Validity = record.Validity{Checks: []record.Check{{Name: "served", Detail: "requests failed"}}}
			} else {
				trial.CPU = map[string]record.CPU{record.PartClientProxy: {UserS: v * 1000}}
			}
			run.Trials = append(run.Trials, trial)
		}
	}
	return run
}

// simulated sums up simulated searches.
type simulated struct {
	runs, covered, open, trials int
	width                       float64 // sum of logarithms over those that are not open
}

func (c curve) simulate(t *testing.T, runs, blocks int) (out simulated) {
	s, err := study.Parse(fmt.Appendf(nil, simulatedSearch, min(blocks, 3), blocks), "study.yaml", nil)
	must.OK(t, err)
	r := rand.New(rand.NewPCG(7, uint64(blocks)))
	for n := range runs {
		plan, err := study.NewPlan(s, uint64(n))
		must.OK(t, err)
		limit := 700 * math.Pow(11000.0/700, r.Float64())
		run := c.search(t, plan, blocks, limit, r)
		found, err := kinds.Searches(plan, run)
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		f := found[0]
		high := f.High
		if high <= f.Low {
			high = math.Inf(1)
		}
		if f.Low <= limit && limit < high {
			out.covered++
		}
		if f.Low == 0 || math.IsInf(high, 1) {
			out.open++
		} else {
			out.width += math.Log(high / f.Low)
		}
		out.trials += len(run.Trials)
		out.runs++
	}
	return out
}

// TestSimulationSearch counts how often a search's interval includes the limit:
// at least 92%, allowing for chance in so few runs.
func TestSimulationSearch(t *testing.T) {
	runs := simulationRuns(10)
	for _, c := range curves {
		for blocks := 2; blocks <= 6; blocks++ {
			s := c.simulate(t, runs, blocks)
			n := float64(s.runs)
			share := float64(s.covered) / n
			t.Logf("%-28s %d blocks: %5.1f%% of %d intervals have the limit in them; %4.1f%% have an open end, the others are %4.0f%% wide; %.1f trials",
				c.name, blocks, 100*share, s.runs, 100*float64(s.open)/n, 100*math.Expm1(s.width/float64(max(1, s.runs-s.open))), float64(s.trials)/n)
			if least := 0.92 - 3*math.Sqrt(0.92*0.08/n); share < least {
				t.Errorf("%s, %d blocks: %.1f%% of intervals have the limit in them, at least %.1f%% should", c.name, blocks, 100*share, 100*least)
			}
		}
	}
}
