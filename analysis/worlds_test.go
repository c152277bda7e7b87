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
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A world is an environment that a study may meet.
type world struct {
	analysistest.Machine
	redeploy int // number of blocks that a set of pods serves, 0 for all
	requests int // of a trial
	// Drifts means that the machine's level changes during the run. The intervals
	// of plain values include that, and may then cover too often.
	drifts bool
	// Told are figures whose coverage is reported but not required, with the
	// reason.
	told map[string]string
}

// What a run of few trials cannot know, whatever its interval.
const (
	rareTail = "of all requests some are of rare slow trials, of which a short run has one or none"
	samePods = "what one set of pods happens to have is in no interval: the report says so"
)

var worlds = []world{
	{Machine: analysistest.Machine{Name: "quiet", Trial: 0.03}, redeploy: 1, requests: 800},
	{Machine: analysistest.Machine{Name: "pods differ by 2%", Trial: 0.03, Pod: 0.02}, redeploy: 1, requests: 800},
	{Machine: analysistest.Machine{Name: "pods differ by 5%", Trial: 0.03, Pod: 0.05}, redeploy: 1, requests: 800},
	{Machine: analysistest.Machine{Name: "the same, pods kept", Trial: 0.03, Pod: 0.05}, redeploy: 0, requests: 800,
		told: map[string]string{"": samePods}},
	{Machine: analysistest.Machine{Name: "10% up over the run", Trial: 0.03, Ramp: 0.1}, redeploy: 1, requests: 800, drifts: true},
	{Machine: analysistest.Machine{Name: "6% up inside blocks", Trial: 0.03, Within: 0.06}, redeploy: 1, requests: 800, drifts: true},
	{Machine: analysistest.Machine{Name: "AR(1) 0.9 over trials", Trial: 0.01, Together: 0.9, Swing: 0.03}, redeploy: 1, requests: 800, drifts: true},
	{Machine: analysistest.Machine{Name: "5% of trials 3 times", Trial: 0.03, Outlier: 3}, redeploy: 1, requests: 800,
		told: map[string]string{"latency_p50": rareTail, "latency_p90": rareTail, "latency_p99": rareTail}},
	{Machine: analysistest.Machine{Name: "5% of trials 10 times", Trial: 0.03, Outlier: 10}, redeploy: 1, requests: 800,
		told: map[string]string{"latency_p50": rareTail, "latency_p90": rareTail, "latency_p99": rareTail}},
	{Machine: analysistest.Machine{Name: "neighbour in bursts", Trial: 0.03, Burst: 0.5}, redeploy: 1, requests: 800,
		told: map[string]string{"latency_p50": rareTail, "latency_p90": rareTail, "latency_p99": rareTail}},
	{Machine: analysistest.Machine{Name: "queue, half used", Trial: 0.02, Utilisation: 0.5}, redeploy: 1, requests: 1500},
	{Machine: analysistest.Machine{Name: "queue, 65% used", Trial: 0.02, Utilisation: 0.65}, redeploy: 1, requests: 1500},
}

// figuresSimulated are the figures whose coverage is counted, for the cell with
// both sidecars.
var figuresSimulated = []string{"latency_p50", "latency_p90", "latency_p99", "cpu_machine_per_request", "memory_worker"}

func noEffect(record.Cell) float64 { return 1 }

// truths returns the true values of a run's figures: the quantiles of all
// requests, and the typical CPU time and memory, over the time of the run.
func (w world) truths(queued map[string]float64, shared []float64) map[string]float64 {
	out := map[string]float64{
		"cpu_machine_per_request": w.Truth(shared, analysistest.MiddleCPU, 0, 0.5), "memory_worker": w.Truth(shared, analysistest.MiddleMemory, 0, 0.5),
	}
	for name, q := range map[string]float64{"latency_p50": 0.5, "latency_p90": 0.9, "latency_p99": 0.99} {
		if out[name] = queued[name]; w.Utilisation == 0 {
			out[name] = w.Truth(shared, analysistest.MiddleLatency, analysistest.LatencySpread, q)
		}
	}
	return out
}

// queued returns the quantiles of all requests of very many trials with queueing.
func (w world) queued(r *rand.Rand) map[string]float64 {
	if w.Utilisation == 0 {
		return nil
	}
	var all []float64
	lab := w.Begin(r)
	for range 300 {
		all = append(all, lab.Latency(5000, math.Exp(w.Trial*r.NormFloat64()))...)
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(q*float64(len(all)))] / 1000 }
	return map[string]float64{"latency_p50": at(0.5), "latency_p90": at(0.9), "latency_p99": at(0.99)}
}

// simulatedRuns returns the number of runs for each cell of a table, and the
// deviation that chance alone may cause in a share whose true value is p: 2.5
// standard errors, or 5 in the short form.
func simulatedRuns(short int) (runs int, slack func(p float64) float64) {
	runs, wide := short, 5.0
	if n, err := strconv.Atoi(os.Getenv("MESHTRIAL_SIMULATIONS")); err == nil && n > 0 {
		runs = n
		if n >= 100 {
			wide = 2.5
		}
	}
	return runs, func(p float64) float64 { return wide * math.Sqrt(p*(1-p)/float64(runs)) }
}

// longOnly skips checks that cannot fail with as few runs as the short form has.
func longOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("MESHTRIAL_SIMULATIONS") == "" {
		t.Skip("a dozen runs tell no share of 5% from one of 30%: set MESHTRIAL_SIMULATIONS to 100 or more")
	}
}

// Without any effect, many runs have a difference that is real individually, and
// few have one that is real in its family.
func TestFamilyOfWholeStudies(t *testing.T) {
	r := rand.New(rand.NewPCG(46, 46))
	const runs, most = 120, 12 // 5%, and 2.5 standard errors
	alone, called := 0, 0
	for range runs {
		plan := quickPlan(t)
		plan.Seed = r.Uint64()
		run, _ := analysistest.Machine{Trial: 0.03}.Run(plan, 6, 800, 1, r, noEffect)
		f := analysistest.Analyze(t, kinds, run)
		is := func(x record.Finding) bool { return x.Verdict == record.VerdictReal }
		if slices.ContainsFunc(f.Findings, is) {
			called++
		}
		if slices.ContainsFunc(f.Findings, func(x record.Finding) bool { return is(x) || x.Reason == record.ReasonMany }) {
			alone++
		}
	}
	t.Logf("of %d runs %d have one that is real by itself, %d one that is real in its family", runs, alone, called)
	if called > most || alone <= most {
		t.Errorf("want more than %d without the family's rule, and no more with it", most)
	}
}

func quickPlan(t *testing.T, sets ...string) *study.Plan {
	t.Helper()
	return shippedPlan(t, "quick", sets...)
}

func shippedPlan(t *testing.T, name string, sets ...string) *study.Plan {
	t.Helper()
	text, err := studies.Read(name)
	must.OK(t, err)
	return studytest.Plan(t, string(text), sets...)
}

// TestSimulationStudy checks that in every world the entire study `quick`,
// without any effect, calls an overhead real in at most 5% of runs, and that its
// printed intervals cover the truth in 92 to 98%.
func TestSimulationStudy(t *testing.T) {
	longOnly(t)
	for i, w := range worlds {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(41, uint64(i)))
			plan, queued := quickPlan(t), w.queued(r)
			lengths := []int{6, 12}
			runs, slack := simulatedRuns(12)
			if runs < 100 {
				lengths = lengths[:1]
			}
			for _, blocks := range lengths {
				called, warned := 0, 0
				covered, printed := map[string]int{}, map[string]int{}
				for range runs {
					plan.Seed = r.Uint64()
					run, shared := w.Run(plan, blocks, w.requests, w.redeploy, r, noEffect)
					f := analysistest.Analyze(t, kinds, run)
					if slices.ContainsFunc(f.Findings, func(x record.Finding) bool { return x.Verdict == record.VerdictReal }) {
						called++
					}
					if strings.Contains(note.Codes(f.Warnings), "drift") {
						warned++
					}
					count(f, w.truths(queued, shared), covered, printed)
				}
				line := fmt.Sprintf("%-22s %2d blocks: any real %4.1f, drift told %3.0f |", w.Name, blocks, 100*float64(called)/float64(runs), 100*float64(warned)/float64(runs))
				if share := float64(called) / float64(runs); share > 0.05+slack(0.05) {
					t.Errorf("%d blocks: %.1f%% of runs call something real, want at most 5", blocks, share*100)
				}
				for _, name := range coveredNames() {
					line += w.row(t, name, blocks, covered[name], printed[name], slack)
				}
				t.Log(line)
			}
		})
	}
}

// count adds a run's figures to those that cover the truth.
func count(f record.Findings, truth map[string]float64, covered, printed map[string]int) {
	for _, x := range f.Findings {
		want, known := truth[x.Name]
		if base, overhead := strings.CutSuffix(x.Name, finding.Overhead); overhead {
			_, known = truth[base]
			want = 0
		}
		if !known || x.Cell[study.FactorSidecars] != study.SidecarsBoth || x.Verdict == record.VerdictInvalid {
			continue
		}
		printed[x.Name]++
		if x.Low <= want && want <= x.High {
			covered[x.Name]++
		}
	}
}

func coveredNames() []string {
	out := slices.Clone(figuresSimulated)
	for _, name := range figuresSimulated[:4] {
		out = append(out, name+finding.Overhead)
	}
	return out
}

// row formats a figure's part of a world's line, and checks the figure's
// coverage.
func (w world) row(t *testing.T, name string, blocks, covered, printed int, slack func(float64) float64) string {
	t.Helper()
	share := float64(covered) / float64(printed)
	_, told := w.told[name]
	if _, all := w.told[""]; all {
		told = true
	}
	_, overhead := strings.CutSuffix(name, finding.Overhead)
	upper := overhead || !w.drifts
	if overhead && (w.Outlier > 0 || w.Burst > 0) {
		upper = false // a difference with such a trial has a wide interval
	}
	if !told && (share < 0.92-slack(0.92) || upper && share > 0.98+slack(0.98)) {
		t.Errorf("%d blocks, %s: %.1f%% of %d intervals cover the truth, want 92 to 98", blocks, name, share*100, printed)
	}
	mark := ""
	if told {
		mark = "*"
	}
	short := strings.NewReplacer("latency_", "", "_machine_per_request", "", "_worker", "", finding.Overhead, "+").Replace(name)
	return fmt.Sprintf(" %s %.0f%s", short, share*100, mark)
}

// TestSimulationStudyPower checks that a true 10% is called real in at least 80%
// of runs within the default length of two-pod-latency, at 3 and 5% of trial
// noise, and likewise the actual cost of a pair of sidecars in a quick study of
// few blocks.
func TestSimulationStudyPower(t *testing.T) {
	longOnly(t)
	runs, slack := simulatedRuns(2)
	many := max(1, runs/15) // a large study has 36 of each overhead
	for _, c := range []struct {
		study    string
		blocks   int
		noise    float64
		factor   float64
		required float64
		runs     int
	}{
		{"two-pod-latency", 7, 0.03, 1.1, 0.8, many},
		{"two-pod-latency", 7, 0.05, 1.1, 0.8, many},
		{"quick", 4, 0.05, 1.5, 0.8, runs},
		{"quick", 6, 0.05, 1.5, 0.95, runs},
		{"quick", 12, 0.03, 1.1, 0.8, runs},
	} {
		t.Run(fmt.Sprintf("%s, %d blocks, noise %g, factor %g", c.study, c.blocks, c.noise, c.factor), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(42, uint64(1000*c.noise)))
			plan := shippedPlan(t, c.study)
			effect := func(cell record.Cell) float64 {
				if study.HasServerProxy(cell) {
					return c.factor
				}
				return 1
			}
			found, of, wrong := map[string]int{}, map[string]int{}, 0
			for range c.runs {
				plan.Seed = r.Uint64()
				run, _ := analysistest.Machine{Trial: c.noise}.Run(plan, c.blocks, 800, 1, r, effect)
				any := false
				for _, x := range analysistest.Analyze(t, kinds, run).Findings {
					if len(x.Against) == 0 || x.Verdict == record.VerdictInvalid || !strings.HasSuffix(x.Name, finding.Overhead) {
						continue
					}
					if x.Cell[study.FactorSidecars] == study.SidecarsClient {
						any = any || x.Verdict == record.VerdictReal
						continue
					}
					of[x.Name]++
					if x.Verdict == record.VerdictReal {
						found[x.Name]++
					}
				}
				if any {
					wrong++
				}
			}
			line := ""
			for _, name := range figuresSimulated[:4] {
				name += finding.Overhead
				line += fmt.Sprintf(" %s %.0f%%", name, 100*float64(found[name])/float64(of[name]))
			}
			t.Logf("called real:%s; of a cell without effect anything in %.1f%% of runs", line, 100*float64(wrong)/float64(c.runs))
			for _, name := range []string{"latency_p50_overhead", "cpu_machine_per_request_overhead"} {
				if share := float64(found[name]) / float64(of[name]); share < c.required-slack(c.required) {
					t.Errorf("%s is called real in %.1f%%, want at least %.0f%%", name, share*100, c.required*100)
				}
			}
		})
	}
}

// A machine that drifts during a run is reported, and one that does not is not.
func TestDriftIsTold(t *testing.T) {
	for _, c := range []struct {
		machine analysistest.Machine
		told    bool
	}{
		{analysistest.Machine{Trial: 0.03}, false},
		{analysistest.Machine{Trial: 0.03, Pod: 0.05}, false},
		{analysistest.Machine{Trial: 0.01, Together: 0.9, Swing: 0.03}, true},
		{analysistest.Machine{Trial: 0.03, Ramp: 0.3}, true},
	} {
		plan := quickPlan(t)
		run, _ := c.machine.Run(plan, 12, 200, 1, rand.New(rand.NewPCG(44, 44)), noEffect)
		warnings := note.Words(analysistest.Analyze(t, kinds, run).Warnings)
		if told := strings.Contains(warnings, "the machine drifted: neighbouring trials are alike in latency_p50"); told != c.told {
			t.Errorf("%+v: told of drift is %v: %s", c.machine, told, warnings)
		}
	}
}

// The stop rule considers the printed interval, even if that is wider than the
// blocks' differences alone would make it.
func TestStopRuleLooksAtWhatIsPrinted(t *testing.T) {
	w := analysistest.Machine{Trial: 0.03, Utilisation: 0.5}
	plan := quickPlan(t)
	twice := func(cell record.Cell) float64 {
		return map[bool]float64{true: 1.5, false: 1}[study.HasClientProxy(cell)]
	}
	whole, _ := w.Run(plan, 8, 1500, 1, rand.New(rand.NewPCG(45, 45)), twice)
	until := func(blocks int) record.Run {
		short := whole
		short.Trials = whole.Trials[:blocks*plan.BlockSize()]
		return short
	}
	for _, name := range []string{"latency_p99_overhead", "cpu_machine_per_request", "latency_p99"} {
		halfWidth := func(blocks int) float64 {
			x := analysistest.Get(t, analysistest.Analyze(t, kinds, until(blocks)), name, bothSidecars)
			return (x.High - x.Low) / 2 / math.Abs(x.Estimate)
		}
		now, before := halfWidth(8), halfWidth(7)
		for _, c := range []struct {
			half float64
			stop bool
		}{{1.001 * max(now, before), true}, {0.999 * max(now, before), false}} {
			asked := quickPlan(t, "stop.finding="+name, fmt.Sprintf("stop.half_width=%.4f%%", 100*c.half))
			if stop, why := kinds.Enough(asked, until(8)); stop != c.stop {
				t.Errorf("%s: half widths %.4f and %.4f, asked for %.4f: stops %v, %s", name, before, now, c.half, stop, why)
			}
		}
	}
}
