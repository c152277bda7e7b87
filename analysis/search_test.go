package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const searchStudy = `
name: one
question: How many?
control: {changes: 5}
factors: {change_rate: [1, 10], proxies: [10, 20, 40]}
search: [{factor: proxies, finding: convergence_p99, bound: 150 ms}]
blocks: {min: 2, max: 3}
`

// failing makes a trial fail one check.
func failing(check string) func(*record.Trial, []record.Event) {
	return func(t *record.Trial, _ []record.Event) {
		t.Validity = record.Validity{Checks: []record.Check{{Name: check, Detail: "it failed"}}}
	}
}

// spoiltAt40 simulates one block whose trials with 40 sidecars are spoilt.
func spoiltAt40(t *testing.T, spoil func(*record.Trial, []record.Event)) record.Findings {
	t.Helper()
	return analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, searchStudy, 1, func(c record.Cell) analysistest.ControlWorld {
		if c[controlplane.FactorProxies] != "40" {
			return analysistest.ControlWorld{DebounceMS: 10}
		}
		return analysistest.ControlWorld{DebounceMS: 10, Spoil: spoil}
	}))
}

func TestSearch(t *testing.T) {
	slow := record.Cell{"change_rate": "1"}
	run := analysistest.SimulateControl(t, searchStudy, 2, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.ControlWorld{DebounceMS: 100, Pushes: 5}
		if c[controlplane.FactorChangeRate] == "10" {
			w.DebounceMS = 400
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	x := analysistest.Get(t, f, "highest_proxies", slow)
	// At 20 it is so close below the bound that two blocks give no certainty.
	if x.Estimate != 20 || x.Low != 10 || x.High != 40 || x.Open != "" || x.Unit != "sidecars" || x.Verdict != record.VerdictMeasured || x.Cell[controlplane.FactorProxies] != "" {
		t.Errorf("%+v", x)
	}
	if y := analysistest.Get(t, f, "highest_proxies", record.Cell{"change_rate": "10"}); y.Estimate != 0 || y.High != 10 || y.Open != record.OpenLow || !strings.Contains(note.Codes(y.Warnings), "bound_not_met") {
		t.Errorf("%+v", y)
	}
	for name, spoil := range map[string]func(*record.Trial, []record.Event){
		"no trial is valid (istiod-lived: it failed)": failing("istiod-lived"),
		"never arrived": func(_ *record.Trial, events []record.Event) {
			for i := range events {
				events[i].Missed = []int32{1}
			}
		},
	} {
		if x := analysistest.Get(t, spoiltAt40(t, spoil), "highest_proxies", slow); x.Estimate != 20 || x.High != 40 || !strings.Contains(note.Words(x.Warnings), name) {
			t.Errorf("%s: %+v", name, x)
		}
	}
	// A trial that fails because of the machine says nothing about istiod.
	if x := analysistest.Get(t, spoiltAt40(t, failing("simulator-lag")), "highest_proxies", slow); x.Estimate != 20 || x.High != 20 || x.Open != record.OpenHigh || !strings.Contains(note.Words(x.Warnings), "no trial is valid (simulator-lag: it failed): what istiod can do there is not known") {
		t.Errorf("%+v", x)
	}
	// A level left out above a cell that breaks the bound counts as breaking it.
	left := analysistest.SimulateControl(t, searchStudy, 2, func(c record.Cell) analysistest.ControlWorld {
		if c[controlplane.FactorProxies] == "10" && c[controlplane.FactorChangeRate] == "1" {
			return analysistest.ControlWorld{DebounceMS: 50}
		}
		return analysistest.ControlWorld{DebounceMS: 500}
	})
	left.Trials = slices.DeleteFunc(left.Trials, func(trial record.Trial) bool {
		rate, proxies := trial.Cell[controlplane.FactorChangeRate], trial.Cell[controlplane.FactorProxies]
		return proxies == "40" || rate == "10" && proxies == "20"
	})
	g := analysistest.Analyze(t, kinds, left)
	if x := analysistest.Get(t, g, "highest_proxies", slow); x.Estimate != 10 || x.High != 20 {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, g, "highest_proxies", record.Cell{"change_rate": "10"}); x.Estimate != 0 || x.High != 10 {
		t.Errorf("%+v", x)
	}
	if !strings.Contains(g.Stop, "after 2 of at most 3 blocks") {
		t.Errorf("two blocks with cells left out: %s", g.Stop)
	}
	open := analysistest.SimulateControl(t, searchStudy, 2, func(record.Cell) analysistest.ControlWorld { return analysistest.ControlWorld{DebounceMS: 1} })
	if x := analysistest.Get(t, analysistest.Analyze(t, kinds, open), "highest_proxies", slow); x.Estimate != 40 || x.Open != record.OpenHigh || !strings.Contains(note.Words(x.Warnings), "lies higher") {
		t.Errorf("%+v", x)
	}
}

// TestUnacked checks that unacknowledged changes have no convergence, and that
// this is reported.
func TestUnacked(t *testing.T) {
	slow := record.Cell{"change_rate": "1"}
	f := spoiltAt40(t, func(_ *record.Trial, events []record.Event) {
		for i := range events {
			for k := range events[i].Seen.AckedUS {
				events[i].Seen.AckedUS[k] = record.Never
			}
		}
	})
	x := analysistest.Get(t, f, "unacked", record.Cell{"change_rate": "1", "proxies": "40"})
	if x.Estimate <= 0 || x.Verdict != record.VerdictReal || !strings.Contains(note.Words(x.Warnings), "never acknowledged") {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "unacked", record.Cell{"change_rate": "1", "proxies": "20"}); x.Estimate != 0 || x.Verdict == record.VerdictReal {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "highest_proxies", slow); x.Estimate != 20 || x.High != 40 {
		t.Errorf("%+v", x)
	}
}

// TestRefine checks that the first block climbs and bisects, and the next one
// tries the ends.
func TestRefine(t *testing.T) {
	run, tried := analysistest.Climbed(t, kinds, analysistest.Refined(t, 3, analysistest.Limited(func(int) int { return 29 })), 3)
	if got, want := strings.Join(tried, " "), "0:10 0:20 0:40 0:28 0:34 0:31 1:28 1:31 2:28 2:31"; got != want {
		t.Errorf("tried %s, want %s", got, want)
	}
	f := analysistest.Analyze(t, kinds, run)
	x := analysistest.Get(t, f, "highest_proxies", record.Cell{})
	// The convergence jumps a hundredfold, so both ends are one level further
	// out.
	if x.Low != 26 || x.Estimate != 28 || x.High != 34 || x.Blocks != 3 {
		t.Errorf("%+v", x)
	}
	notetest.Args(t, x.Warnings, "beyond_bound", []any{"31 sidecars", "convergence_p99"})
	if !strings.Contains(f.Stop, "all 3 blocks done") {
		t.Error(f.Stop)
	}
	if got := f.Factors[0].Levels; !slices.Equal(got, []string{"10", "20", "28", "31", "34", "40", "80"}) {
		t.Errorf("levels %v", got)
	}
	for _, c := range f.Cells {
		if c.Trials == 0 && c.Cell[controlplane.FactorProxies] != "80" {
			t.Errorf("%s is listed and was not measured", c.Label)
		}
	}
}

// TestRefineNoise checks that if blocks disagree, the interval is at least as
// wide as their distance, and says so.
func TestRefineNoise(t *testing.T) {
	limits := []int{29, 22, 36}
	run, tried := analysistest.Climbed(t, kinds, analysistest.Refined(t, 3, analysistest.Limited(func(block int) int { return limits[block] })), 3)
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{})
	if x.Low > 22 || x.High < 36 || x.Low < 20 || x.High > 48 {
		t.Errorf("%+v\n%v", x, tried)
	}
	notetest.Args(t, x.Warnings, "blocks_disagree", []any{"26 sidecars", "300 ms", 1, 2}, []any{"28 sidecars", "300 ms", 2, 3}, []any{"34 sidecars", "300 ms", 1, 2})
	// A level without an answer is skipped.
	machine := failing("simulator-lag")
	run, tried = analysistest.Climbed(t, kinds, analysistest.Refined(t, 1, func(t *record.Trial, events []record.Event) {
		if t.Cell[controlplane.FactorProxies] == "20" || t.Cell[controlplane.FactorProxies] == "28" {
			machine(t, events)
			return
		}
		analysistest.Limited(func(int) int { return 29 })(t, events)
	}), 1)
	x = analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{})
	if x.Low > 29 || x.High <= 29 || x.High > 34 {
		t.Errorf("%+v\n%v", x, tried)
	}
	notetest.Args(t, x.Warnings, "no_valid_trial", []any{"20 sidecars", "simulator-lag: it failed"}, []any{"28 sidecars", "simulator-lag: it failed"})
}

// TestRefineAny checks that, wherever the limit is, one block's interval
// includes it, is no wider than the tolerance except for rounding to whole
// numbers, and takes no more trials than the plan says.
func TestRefineAny(t *testing.T) {
	for _, limit := range []int{5, 10, 11, 15, 19, 20, 21, 33, 39, 47, 79, 80} {
		run, tried := analysistest.Climbed(t, kinds, analysistest.Refined(t, 1, analysistest.Limited(func(int) int { return limit })), 1)
		findings, err := kinds.Analyze(run)
		must.OK(t, err)
		x := analysistest.Get(t, findings, "highest_proxies", record.Cell{})
		switch {
		case limit < 10:
			if x.Low != 0 || x.High != 10 || len(tried) != 1 || x.Reason != record.ReasonOneBlock {
				t.Fatalf("%+v %v", x, tried)
			}
		case limit >= 80:
			if x.Low != 80 || x.High != 80 {
				t.Fatalf("%+v %v", x, tried)
			}
		default:
			if float64(limit) < x.Low || float64(limit) >= x.High || x.High > max(x.Low*1.1+1, x.Low+1) {
				t.Fatalf("limit %d: %+v %v", limit, x, tried)
			}
			if e := analysistest.PlanOf(t, string(run.StudyYAML), 3).Estimate(); len(tried) > e.Trials {
				t.Fatalf("%d trials, the plan says %d at most: %v", len(tried), e.Trials, tried)
			}
		}
	}
}

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
