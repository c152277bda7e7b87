package analysis_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

var bothSidecars = record.Cell{"sidecars": "both"}

// TestAnalyze checks that the effects simulated in the lab are found.
func TestAnalyze(t *testing.T) {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 8, 1, analysistest.Quiet())
	f := analysistest.Analyze(t, kinds, run)
	for _, c := range []struct {
		name, sidecars string
		truth          float64
		verdict        string
	}{
		{"latency_p50_overhead", "both", 400, record.VerdictReal},
		{"latency_p50_overhead", "server", 300, record.VerdictReal},
		{"latency_p90_overhead", "both", 400 * math.Exp(0.3*1.2816), record.VerdictReal},
		{"latency_p99_overhead", "both", 400 * math.Exp(0.3*2.3263), record.VerdictReal},
		{"latency_p50", "none", 100, record.VerdictMeasured},
		{"cpu_machine_per_request_overhead", "both", 230, record.VerdictReal},
		{"cpu_client_proxy_per_request", "both", 130, record.VerdictMeasured},
		{"cpu_server_proxy_per_request", "server", 100, record.VerdictMeasured},
		{"memory_client_proxy", "client", 40e6, record.VerdictMeasured},
	} {
		x := analysistest.Get(t, f, c.name, record.Cell{"sidecars": c.sidecars})
		if x.Verdict != c.verdict || math.Abs(x.Estimate/c.truth-1) > 0.1 || x.Low > c.truth*1.03 || x.High < c.truth*0.97 || x.Blocks != 8 {
			t.Errorf("%s of %s: %+v, want %s of about %g", c.name, c.sidecars, x, c.verdict, c.truth)
		}
	}
	nothing := analysistest.Get(t, f, "latency_p50_overhead", record.Cell{"sidecars": "client"})
	if nothing.Verdict != record.VerdictNoEffect || nothing.Margin < 4 || nothing.Margin > 6 || len(nothing.Warnings) == 0 {
		t.Errorf("a sidecar without cost: %+v", nothing)
	}
	p50 := analysistest.Get(t, f, "latency_p50_overhead", bothSidecars)
	if p50.Relative == nil || math.Abs(p50.Relative.Estimate-4) > 0.4 || p50.MDE <= 0 || p50.MDE > 50 || p50.Against["sidecars"] != "none" {
		t.Errorf("relative overhead, effect or baseline: %+v", p50)
	}
	if f.Validity.Trials != 40 || f.Validity.Valid != 40 || f.Validity.Blocks != 8 {
		t.Errorf("validity: %+v", f.Validity)
	}
	if len(f.NoiseFloor) != len(record.Percentiles()) { // without p99.9, beyond which too few requests lie, and with the machine's CPU
		t.Errorf("noise floors: %+v", f.NoiseFloor)
	}
	for _, n := range f.NoiseFloor {
		if n.Floor <= 0 || n.RelativeRatio <= 0 || n.RelativeRatio > 0.5 || n.Blocks != 8 {
			t.Errorf("noise floor: %+v", n)
		}
	}
	if !strings.Contains(f.Stop, "8 blocks") {
		t.Errorf("ended because: %s", f.Stop)
	}
	if len(f.Assertions) != 1 || !f.Assertions[0].Passed {
		t.Errorf("assertions: %+v", f.Assertions)
	}
}

// TestAnalyzeCells checks the summaries and curves of each cell.
func TestAnalyzeCells(t *testing.T) {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 4, 2, analysistest.Quiet())
	f := analysistest.Analyze(t, kinds, run)
	if again := analysistest.Analyze(t, kinds, run); !reflect.DeepEqual(f, again) {
		t.Error("the same run gave two answers")
	}
	if len(f.Cells) != 4 {
		t.Fatalf("%d cells", len(f.Cells))
	}
	none, all := f.Cells[0], f.Cells[3]
	if !none.Baseline || all.Baseline || none.Valid != 8 || all.Valid != 4 || len(none.BlockP50US) != 8 {
		t.Errorf("baseline: %+v", none)
	}
	if none.Requests != 8*2000 || math.Abs(all.Intended.At(0.5)/500-1) > 0.1 || all.Intended.Min > all.Intended.At(0.5) || all.Intended.Max() < all.Intended.At(0.999) {
		t.Errorf("latency: %d requests, %+v", none.Requests, all.Intended)
	}
	c := all.CPUPerRequest[record.PartClientProxy]
	if math.Abs(c.UserUS+c.SystemUS-130) > 13 || c.LowUS > 130 || c.HighUS < 125 || c.UserUS < c.SystemUS {
		t.Errorf("client proxy: %+v", c)
	}
	if _, ok := none.CPUPerRequest[record.PartClientProxy]; ok {
		t.Error("the baseline has a proxy")
	}
	for _, points := range [][]record.CurvePoint{all.Percentiles, all.CDF} {
		if len(points) < 20 || len(points) > 400 {
			t.Errorf("curve of %d points", len(points))
		}
		for i := 1; i < len(points); i++ {
			if points[i].X < points[i-1].X || points[i].Y < points[i-1].Y {
				t.Fatalf("curve falls at %v", points[i])
			}
		}
	}
	if last := all.Percentiles[len(all.Percentiles)-1]; last.X != 100 || math.Abs(last.Y-all.Intended.Max()) > 0.01*last.Y {
		t.Errorf("percentile curve ends at %v", last)
	}
}

// TestAnalyzeInvalid checks that an invalid trial contributes nothing, with a reason.
func TestAnalyzeInvalid(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = func(trial *record.Trial) {
		if trial.Cell[study.FactorSidecars] == "both" && trial.Block > 0 || trial.Cell[study.FactorSidecars] == "server" && trial.Block == 1 {
			trial.Validity = record.Validity{Checks: []record.Check{{Name: "schedule-lag", Detail: "late by 900 us"}, {Name: "account", OK: true}}}
		}
		trial.Validity.Warnings = []note.Note{verdict.NoteStolen.Of(1.5 + float64(trial.Block))}
		if trial.ID == "b001-t02" {
			trial.Validity.Warnings = append(trial.Validity.Warnings, note.Plain("odd"))
		}
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 4, 4, w))
	for _, name := range []string{"latency_p50_overhead", "latency_p50", "cpu_client_proxy_per_request"} {
		x := analysistest.Get(t, f, name, bothSidecars)
		if x.Verdict != record.VerdictInvalid || x.Estimate != 0 || len(x.Warnings) == 0 {
			t.Errorf("one valid trial: %+v", x)
		}
	}
	server := analysistest.Get(t, f, "latency_p50_overhead", record.Cell{"sidecars": "server"})
	if server.Blocks != 3 || server.Verdict == record.VerdictInvalid || !strings.Contains(note.Codes(server.Warnings), "lost_blocks") {
		t.Errorf("three valid trials: %+v", server)
	}
	if f.Validity.Invalid != 4 || len(f.Validity.Reasons) != 1 || f.Validity.Reasons[0].Trials != 4 || !strings.Contains(f.Validity.Reasons[0].Example, "900 us") {
		t.Errorf("validity: %+v", f.Validity)
	}
	if len(f.Warnings) == 0 || !strings.HasPrefix(f.Warnings[0].String(), "20 of 20 trials, b000-t00 the first: the hypervisor took 1.5–4.5% of") || !slices.Contains(note.Texts(f.Warnings), "trial b001-t02: odd") {
		t.Errorf("warnings: %q", f.Warnings)
	}
	if f.Assertions[0].Passed || !strings.Contains(f.Assertions[0].Detail, "not valid") {
		t.Errorf("assertion over an invalid finding: %+v", f.Assertions[0])
	}
}

// TestPlainNotNegative checks that two scattered blocks give wide intervals, none of
// which lets a latency or CPU time be negative.
func TestPlainNotNegative(t *testing.T) {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 2, 5, analysistest.Quiet())
	for i := range run.Trials {
		for part, cpu := range run.Trials[i].CPU {
			cpu.UserS *= 1 + 9*float64(run.Trials[i].Block)
			run.Trials[i].CPU[part] = cpu
		}
	}
	f := analysistest.Analyze(t, kinds, run)
	wide := 0
	for _, x := range f.Findings {
		if x.Against != nil {
			continue
		}
		if x.Low < 0 {
			t.Errorf("%+v", x)
		}
		if x.Probe == study.MeasureCPU && x.Low == 0 && x.High > x.Estimate {
			wide++
		}
	}
	if wide == 0 {
		t.Error("no interval was wide enough to reach zero: the test shows nothing")
	}
	for _, c := range f.Cells {
		for part, cpu := range c.CPUPerRequest {
			if cpu.LowUS < 0 {
				t.Errorf("%s at %s: %+v", part, c.Label, cpu)
			}
		}
	}
}

// TestAnalyzeUnattributed checks the unattributed CPU, a difference that scatters around
// zero: it is printed inside its own interval, and without a kernel part.
func TestAnalyzeUnattributed(t *testing.T) {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 2, analysistest.Quiet())
	for i := range run.Trials {
		run.Trials[i].CPU[record.PartUnattributed] = record.CPU{UserS: -0.010 + 0.004*float64(i%3)}
	}
	f := analysistest.Analyze(t, kinds, run)
	for _, c := range f.Cells {
		cpu, ok := c.CPUPerRequest[record.PartUnattributed]
		if !ok || !(cpu.UserUS < 0) || cpu.SystemUS != 0 || cpu.UserUS < cpu.LowUS || cpu.UserUS > cpu.HighUS {
			t.Errorf("%s: %+v", c.Label, cpu)
		}
	}
}

// TestAnalyzeShort checks that runs that were cut short also give reports.
func TestAnalyzeShort(t *testing.T) {
	for blocks := range 3 {
		run := analysistest.Simulate(t, analysistest.QuickStudy, blocks, 5, analysistest.Quiet())
		f := analysistest.Analyze(t, kinds, run)
		if _, err := json.Marshal(f); err != nil {
			t.Errorf("%d blocks: %v", blocks, err)
		}
		if !strings.Contains(f.Stop, "interrupted after") {
			t.Errorf("%d blocks: ended because: %s", blocks, f.Stop)
		}
		for _, x := range f.Findings {
			if blocks < 2 && x.Verdict != record.VerdictInvalid {
				t.Errorf("%d blocks: %+v", blocks, x)
			}
		}
	}
	run := analysistest.Simulate(t, analysistest.QuickStudy, 2, 5, analysistest.Quiet())
	run.Trials = run.Trials[:8] // in the middle of the second block
	if f := analysistest.Analyze(t, kinds, run); f.Validity.Trials != 8 {
		t.Errorf("validity: %+v", f.Validity)
	}
	must.OK(t, must.Err(kinds.Observe(run)))
	// Trials that the plan would not have made.
	for name, change := range map[string]func(*record.Run){
		"another study": func(r *record.Run) { r.Trials[2].Cell = record.Cell{"sidecars": "none"} },
		"another name":  func(r *record.Run) { r.Trials[2].ID = "b009-t00" },
		"another place": func(r *record.Run) { r.Trials[2].Order, r.Trials[2].ID = 99, "b000-t99" },
		"another seed":  func(r *record.Run) { r.Header.Seed += 1000 },
	} {
		other := run
		other.Trials = slices.Clone(run.Trials)
		change(&other)
		_, err := kinds.Analyze(other)
		_, same := kinds.Observe(other)
		if errs.Code(err) != errs.CodeUsage || errs.Code(same) != errs.CodeUsage || !strings.Contains(err.Error(), "trial ") || errs.Hint(err) == "" {
			t.Errorf("%s: %v, %v", name, err, same)
		}
	}
	run.StudyYAML = []byte("name: [")
	if _, err := kinds.Analyze(run); err == nil {
		t.Error("a broken study was taken")
	}
}

// TestEnough checks that the stop rule requires a minimum of blocks and two narrow looks,
// and names what is missing.
func TestEnough(t *testing.T) {
	ask := func(text string, blocks int, w analysistest.World) (bool, string) {
		run := analysistest.Simulate(t, text, blocks, 6, w)
		plan, err := analysis.Plan(run)
		must.OK(t, err)
		return kinds.Enough(plan, run)
	}
	noisy := analysistest.Quiet()
	noisy.Noise = 0.4
	for _, c := range []struct {
		name   string
		text   string
		blocks int
		w      analysistest.World
		stop   bool
		why    string
	}{
		{"none", analysistest.QuickStudy, 0, analysistest.Quiet(), false, "0 of at least 4"},
		{"too few", analysistest.QuickStudy, 3, analysistest.Quiet(), false, "3 of at least 4"},
		{"first look", analysistest.QuickStudy, 4, analysistest.Quiet(), false, "confirmed"},
		{"second look", analysistest.QuickStudy, 5, analysistest.Quiet(), true, "narrow enough after 5 blocks"},
		{"noisy", analysistest.QuickStudy, 6, noisy, false, "both"},
		{"no rule", analysistest.SweepStudy, 6, analysistest.Quiet(), false, "no stop rule"},
		{"everywhere", strings.Replace(analysistest.QuickStudy, ", of: {sidecars: both}", "", 1), 6, analysistest.Quiet(), true, "narrow enough"},
	} {
		if stop, why := ask(c.text, c.blocks, c.w); stop != c.stop || !strings.Contains(why, c.why) {
			t.Errorf("%s: %v, %q", c.name, stop, why)
		}
	}
	// A time limit is distinguished from an interruption.
	run := analysistest.Simulate(t, strings.Replace(analysistest.QuickStudy, "limit: 10m", "limit: 60s", 1), 4, 6, analysistest.Quiet())
	if f := analysistest.Analyze(t, kinds, run); !strings.Contains(f.Stop, "time limit of 1m0s after 4 blocks; narrow enough, to be confirmed by one more block") {
		t.Errorf("ended because: %s", f.Stop)
	}
}

// TestFit checks that idle cost and slope of CPU are found if the rate varies.
func TestFit(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.RateStudy, 6, 7, analysistest.Quiet()))
	idle := analysistest.Get(t, f, "cpu_client_proxy_idle", bothSidecars)
	slope := analysistest.Get(t, f, "cpu_client_proxy_slope", bothSidecars)
	if math.Abs(idle.Estimate-20) > 6 || idle.Unit != "mCPU" || math.Abs(slope.Estimate-110) > 8 || slope.Low > 112 || slope.High < 108 {
		t.Errorf("idle %+v, slope %+v", idle, slope)
	}
	if _, ok := slope.Cell["rate"]; ok {
		t.Errorf("a slope has no rate: %v", slope.Cell)
	}
	quick := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 4, 7, analysistest.Quiet()))
	if slices.ContainsFunc(quick.Findings, func(f record.Finding) bool { return f.Name == "cpu_client_proxy_slope" }) {
		t.Error("a slope from one rate")
	}
}

// TestThroughput checks that cells that request as much as possible report how much.
func TestThroughput(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, strings.Replace(analysistest.QuickStudy, "rate: 1000", "rate: max", 1), 4, 8, analysistest.Quiet()))
	if x := analysistest.Get(t, f, "throughput", bothSidecars); math.Abs(x.Estimate/50_000-1) > 0.05 || x.Unit != "rps" {
		t.Errorf("throughput: %+v", x)
	}
}

// TestPublished checks the comparison with published figures.
func TestPublished(t *testing.T) {
	w := analysistest.Quiet()
	w.Latency = func(c record.Cell) float64 {
		if c[study.FactorSidecars] == "none" {
			return 100
		}
		return map[string]float64{"16": 3100, "64": 12500}[c[study.FactorConnections]]
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.SweepStudy, 6, 9, w))
	if len(f.Published) != 3 {
		t.Fatalf("published: %+v", f.Published)
	}
	low, high, missing := f.Published[0], f.Published[1], f.Published[2]
	if low.Measured == nil || high.Measured == nil || missing.Measured != nil {
		t.Fatalf("measured: %+v", f.Published)
	}
	if note.Codes(low.Says) != "published_agrees" {
		t.Errorf("16 connections: %s", note.Words(low.Says))
	}
	if note.Codes(high.Says) != "published_differs" {
		t.Errorf("64 connections: %s", note.Words(high.Says))
	}
	if note.Codes(missing.Says) != "published_no_cell" {
		t.Errorf("missing: %s", note.Words(missing.Says))
	}
}

// TestWhyEndedOfOneBlock checks that a single block does not count as blocks.
func TestWhyEndedOfOneBlock(t *testing.T) {
	one := strings.NewReplacer("{min: 4, max: 8, limit: 10m}", "{min: 1, max: 1}",
		"stop: {finding: latency_p50_overhead, half_width: 7.5%, of: {sidecars: both}}", "stop: none").Replace(analysistest.QuickStudy)
	limited := strings.Replace(one, "{min: 1, max: 1}", "{min: 1, max: 8, limit: 1s}", 1)
	for _, c := range []struct {
		text   string
		blocks int
		want   string
	}{
		{one, 1, "the only block done"},
		{one, 0, "interrupted after 0 of at most 1 block"},
		{limited, 1, "time limit of 1s after 1 block"},
	} {
		if got := analysistest.Analyze(t, kinds, analysistest.Simulate(t, c.text, c.blocks, 3, analysistest.Quiet())).Stop; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A percentile covers the requests of all blocks: it lies in its own interval, equals the
// one in the table of cells, and is absent if too few requests lie beyond it.
func TestPooledPercentiles(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 6, 4, analysistest.Quiet()))
	for _, cell := range f.Cells {
		for name, us := range map[string]float64{"latency_p50": cell.Intended.At(0.5), "latency_p90": cell.Intended.At(0.9), "latency_p99": cell.Intended.At(0.99)} {
			x := analysistest.Get(t, f, name, cell.Cell)
			if x.Verdict != record.VerdictMeasured || x.Low > us || us > x.High || math.Abs(x.Estimate/us-1) > 1e-3 {
				t.Errorf("%s of %s: %+v, the table says %g", name, cell.Label, x, us)
			}
		}
		x := analysistest.Get(t, f, "latency_p999", cell.Cell)
		if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonTooFew || cell.Intended.At(0.999) != 0 || x.Warnings[0].Code != "few_beyond" {
			t.Errorf("p99.9 of %s: %+v, the table says %g", cell.Label, x, cell.Intended.At(0.999))
		}
	}
}

// Requests that failed or did not end have infinite latency.
func TestPercentilesAmongFailures(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = func(trial *record.Trial) {
		if trial.Cell["sidecars"] == "both" {
			trial.Load.Failed, trial.Load.Unfinished = map[string]int64{"status": 20}, 15
		}
	}
	run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 4, w)
	f := analysistest.Analyze(t, kinds, run)
	if x := analysistest.Get(t, f, "latency_p50", bothSidecars); x.Verdict != record.VerdictMeasured {
		t.Errorf("the median: %+v", x)
	}
	for _, name := range []string{"latency_p99", "latency_p99_overhead"} {
		x := analysistest.Get(t, f, name, bothSidecars)
		if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonNotReached || x.Warnings[0].Code != "requests_failed" || x.Warnings[0].Args[0] != 210.0 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := analysistest.Get(t, f, "latency_p99", record.Cell{"sidecars": "none"}); x.Verdict != record.VerdictMeasured {
		t.Errorf("where none fails: %+v", x)
	}
	for _, cell := range f.Cells {
		if got := slices.Contains(cell.NotReached, "p99"); got != (cell.Cell["sidecars"] == "both") || got != (cell.Intended.At(0.99) == 0) {
			t.Errorf("%s: not reached %v, p99 %g", cell.Label, cell.NotReached, cell.Intended.At(0.99))
		}
	}
}

// A pod's individual properties are not an effect: identical cells are called different
// in few runs, though their pods differ. If one set of pods serves all blocks, no
// interval includes the difference between pods: the findings say so, and the noise floor
// is that of a single deployment.
func TestPodsAreDrawnAgain(t *testing.T) {
	w := analysistest.Quiet()
	w.Latency = func(record.Cell) float64 { return 100 }
	w.Pod, w.Noise = 0.05, 0.01
	called := func(deployments, runs int) (n, excludes int) {
		w.Deployments = deployments
		for seed := range runs {
			f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 6, uint64(seed+1), w))
			if warned := strings.Contains(note.Codes(f.Warnings), "same_pods"); warned != (deployments >= 6) {
				t.Fatalf("%d blocks each: warned %v: %q", deployments, warned, f.Warnings)
			}
			if x := analysistest.Get(t, f, "latency_p50_overhead", bothSidecars); x.Verdict == record.VerdictReal {
				n++
			}
			if x := analysistest.Get(t, f, "latency_p50_overhead", bothSidecars); x.Low > 0 || x.High < 0 {
				excludes++
			}
		}
		return n, excludes
	}
	const runs = 60
	anew, _ := called(1, runs)
	kept, excludes := called(6, runs)
	t.Logf("called real in %d of %d runs with pods made anew for each block, in %d with the same pods, though the intervals of %d exclude zero", anew, runs, kept, excludes)
	if anew > 7 || kept > 9 || excludes < 20 {
		t.Error("pods are taken for an effect, or nothing is left to tell them by")
	}
}

// Blocks of one deployment are one unit.
func TestUnits(t *testing.T) {
	w := analysistest.Quiet()
	w.Deployments = 2
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 8, 3, w))
	for _, x := range f.Findings {
		if x.Verdict != record.VerdictInvalid && x.Blocks != 4 {
			t.Errorf("%s rests on %d units, want 4 deployments of 2 blocks", x.Name, x.Blocks)
		}
	}
	if x := analysistest.Get(t, f, "latency_p50_overhead", bothSidecars); x.Verdict != record.VerdictReal || x.Low > 400 || x.High < 400 {
		t.Errorf("%+v", x)
	}
}

// Intervals narrow from block to block until the stop rule is satisfied.
func TestProgress(t *testing.T) {
	progress := func(text string, blocks int) analysis.Progress {
		p, err := kinds.Progress(analysistest.Simulate(t, text, blocks, 6, analysistest.Quiet()))
		must.OK(t, err)
		return p
	}
	for blocks, done := range map[int]bool{0: false, 1: false, 4: false, 5: true} {
		p := progress(analysistest.QuickStudy, blocks)
		if p.Blocks != blocks || p.Done != done || p.Why == "" || p.TargetRatio <= 0 {
			t.Errorf("after %d blocks: %+v", blocks, p)
		}
		if blocks < 2 {
			if len(p.Widths) > 0 {
				t.Errorf("after %d blocks there are intervals: %+v", blocks, p.Widths)
			}
			continue
		}
		for _, w := range p.Widths {
			first, last := w.After[0], w.After[len(w.After)-1]
			if w.Label == "" || first.Blocks != 2 || last.Blocks != blocks || last.Ratio >= first.Ratio {
				t.Errorf("after %d blocks: %+v", blocks, w)
			}
		}
		if len(p.Widths) == 0 {
			t.Errorf("after %d blocks there is no interval", blocks)
		}
	}
	long := progress(analysistest.QuickStudy, 40)
	if n := len(long.Widths[0].After); n > 12 || long.Widths[0].After[n-1].Blocks != 40 {
		t.Errorf("of 40 blocks: %+v", long.Widths[0].After)
	}
	if p := progress(analysistest.SweepStudy, 6); p.Why != "" || len(p.Widths) > 0 || p.Blocks != 6 {
		t.Errorf("without a stop rule: %+v", p)
	}
}
