package comparison_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// scaled returns the quiet world with sidecars that cost factor times as much.
func scaled(factor float64) analysistest.World {
	w := analysistest.Quiet()
	base := w.Latency
	w.Latency = func(c record.Cell) float64 { return 100 + factor*(base(c)-100) }
	cpu := w.CPU
	w.CPU = func(c record.Cell, part string, rps float64) float64 {
		bare := c.With(record.Cell{study.FactorSidecars: "none"})
		switch part {
		case record.PartMachine:
			return cpu(bare, part, rps) + factor*(cpu(c, part, rps)-cpu(bare, part, rps))
		case record.PartClientProxy, record.PartServerProxy:
			return factor * cpu(c, part, rps)
		}
		return cpu(c, part, rps)
	}
	return w
}

// Findings and comparisons report if the rules differ from today's.
func TestOtherRulesAreTold(t *testing.T) {
	a := analysistest.Simulate(t, analysistest.QuickStudy, 4, 1, analysistest.Quiet())
	b := analysistest.Simulate(t, analysistest.QuickStudy, 4, 2, analysistest.Quiet())
	b.Header.Rules = record.Rules{Version: verdict.Version, Limits: map[string]float64{"served": 0.5}}
	const want = "trials were judged with served 0.5 instead of"
	if f := analysistest.Analyze(t, kinds, b); len(f.Warnings) == 0 || !strings.Contains(f.Warnings[0].String(), want) {
		t.Errorf("%q", f.Warnings)
	}
	if f := analysistest.Analyze(t, kinds, a); strings.Contains(note.Codes(f.Warnings), "other_rules") {
		t.Errorf("%q", f.Warnings)
	}
	c, err := analysistest.Compare(t, kinds, a, b, 0.05)
	if err != nil || !slices.ContainsFunc(note.Texts(c.Warnings), func(w string) bool { return strings.HasPrefix(w, "run B: "+want) }) {
		t.Errorf("%q, %v", c.Warnings, err)
	}
}

func TestCompare(t *testing.T) {
	noisy := analysistest.Quiet()
	noisy.Noise = 0.3
	for _, c := range []struct {
		name   string
		a, b   analysistest.World
		blocks int
		want   string
	}{
		{"same", analysistest.Quiet(), analysistest.Quiet(), 12, record.VerdictSame},
		{"worse", analysistest.Quiet(), scaled(1.5), 8, record.VerdictWorse},
		{"better", scaled(1.5), analysistest.Quiet(), 8, record.VerdictBetter},
		{"noisy", noisy, noisy, 4, record.VerdictInconclusive},
	} {
		got, err := analysistest.Compare(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, c.blocks, 21, c.a), analysistest.Simulate(t, analysistest.QuickStudy, c.blocks, 22, c.b), 0.1)
		must.OK(t, err)
		if got.Verdict != c.want {
			t.Errorf("%s: %s: %+v", c.name, got.Verdict, got.Changes)
		}
	}
}

// TestCompareNothing checks that a run without valid trials is not judged by intervals.
func TestCompareNothing(t *testing.T) {
	good := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, analysistest.Quiet())
	empty := analysistest.Simulate(t, analysistest.QuickStudy, 0, 25, analysistest.Quiet())
	broken := analysistest.Quiet()
	broken.Spoil = func(t *record.Trial) { t.Validity.Valid = false }
	spoilt := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, broken)
	broken.Spoil = func(t *record.Trial) { t.Validity.Valid = t.Block == 0 }
	thin := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, broken)
	noisy := analysistest.Quiet()
	noisy.Noise = 0.3
	plain := strings.NewReplacer("baseline: {sidecars: none}\n", "", "latency_p50_overhead", "latency_p50").Replace(analysistest.QuickStudy)
	for _, c := range []struct {
		name string
		a, b record.Run
		why  string
	}{
		{"B empty", good, empty, "run B has no valid trial"},
		{"B invalid", good, spoilt, "run B has no valid trial"},
		{"both", spoilt, empty, "neither run has a valid trial"},
		{"plain values", analysistest.Simulate(t, plain, 4, 25, analysistest.Quiet()), analysistest.Simulate(t, plain, 0, 25, analysistest.Quiet()), "run B has no valid trial"},
		{"few", good, thin, "run B has too few valid trials for an interval of the deciding finding"},
		{"few and few", thin, thin, "both runs have too few valid trials for an interval of the deciding finding"},
		{"wide", analysistest.Simulate(t, analysistest.QuickStudy, 4, 21, noisy), analysistest.Simulate(t, analysistest.QuickStudy, 4, 22, noisy), ""},
	} {
		got, err := analysistest.Compare(t, kinds, c.a, c.b, 0.05)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Verdict != record.VerdictInconclusive || got.Why != c.why {
			t.Errorf("%s: %s, %q, want %q", c.name, got.Verdict, got.Why, c.why)
		}
	}
}

// TestCompareChange checks the figures of one change, and a sidecar that costs nothing in
// either run.
func TestCompareChange(t *testing.T) {
	got, err := analysistest.Compare(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 10, 23, analysistest.Quiet()), analysistest.Simulate(t, analysistest.QuickStudy, 10, 24, scaled(1.5)), 0.05)
	must.OK(t, err)
	seen := 0
	for _, x := range got.Changes {
		switch {
		case x.Name == "latency_p50_overhead" && x.Cell["sidecars"] == "both":
			seen++
			if x.LowRatio > 0.5 || x.HighRatio < 0.5 || x.Verdict != record.VerdictWorse || !x.Decides || !x.Bounded {
				t.Errorf("both sidecars: %+v", x)
			}
		case x.Name == "latency_p50_overhead" && x.Cell["sidecars"] == "client":
			seen++
			if x.Verdict != record.VerdictSame || x.Bounded {
				t.Errorf("client's sidecar: %+v", x)
			}
		case x.Name == "latency_p50":
			t.Errorf("plain latencies of a study with a baseline: %+v", x)
		case x.Name == "cpu_client_proxy_per_request" && x.Cell["sidecars"] == "client":
			seen++
			if x.Verdict != record.VerdictWorse || x.LowRatio > 0.5 || x.HighRatio < 0.5 {
				t.Errorf("client proxy's CPU: %+v", x)
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d of 3 changes in %d", seen, len(got.Changes))
	}
}

// TestCompareOthers checks that incomparable runs are rejected and differences reported.
func TestCompareOthers(t *testing.T) {
	a := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, analysistest.Quiet())
	if _, err := analysistest.Compare(t, kinds, a, a, -1); errs.Code(err) != errs.CodeUsage {
		t.Errorf("negative margin: %v", err)
	}
	b := analysistest.Simulate(t, strings.Replace(analysistest.QuickStudy, "connections: 16", "connections: 32", 1), 4, 26, analysistest.Quiet())
	b.Header.Machine.CPUModel = "another"
	b.Header.Components = []record.Component{{Name: "envoy", Version: "2"}}
	a.Header.Components = []record.Component{{Name: "envoy", Version: "1"}}
	if _, err := analysistest.Compare(t, kinds, a, b, 0.05); errs.Code(err) != errs.CodeUsage || err.Error() != "the runs differ in what runs must share to be compared:\n  the CPU model is not known in run-25; and another in run-26\n  connections is 16 in run-25; and 32 in run-26" ||
		errs.Hint(err) != "--across machine,study joins them all the same, and says so" {
		t.Errorf("different machines: %v; hint %s", err, errs.Hint(err))
	}
	c := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, analysistest.Quiet())
	c.Header.Observed = record.ObservedKubelet
	d := analysistest.Simulate(t, analysistest.QuickStudy, 4, 26, analysistest.Quiet())
	d.Header.Observed = record.ObservedCgroup
	if _, err := analysistest.Compare(t, kinds, c, d, 0.05); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "the source of CPU and memory is kubelet in run-25; and cgroup in run-26") ||
		errs.Hint(err) != "--across source joins them all the same, and says so" {
		t.Errorf("different sources: %v; hint %s", err, errs.Hint(err))
	}
	d.Header.Observed = record.ObservedKubelet
	if _, err := analysistest.Compare(t, kinds, c, d, 0.05); err != nil {
		t.Errorf("one source: %v", err)
	}
	got, err := comparison.Compare(analysistest.Figures(t, kinds, a), analysistest.Figures(t, kinds, b), comparison.CompareOptions{MarginRatio: 0.05, Across: comparison.Across{comparison.AcrossMachine, comparison.AcrossStudy}})
	must.OK(t, err)
	all := note.Words(got.Warnings)
	for _, want := range []string{"joined across machine: the CPU model is", "envoy differs: 1 and 2", "joined across study: connections is 16 in run-25; and 32 in run-26"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning that %q in %q", want, all)
		}
	}
	alien := strings.NewReplacer("[none, server, client, both]", "[none, server]", "of: {sidecars: both}", "of: {sidecars: server}",
		`"both"`, `"server"`, "[latency, cpu, memory]", "[latency]").Replace(analysistest.QuickStudy)
	one := strings.NewReplacer("[none, server, client, both]", "[none, client]", "of: {sidecars: both}", "of: {sidecars: client}",
		`"both"`, `"client"`, "[latency, cpu, memory]", "[latency]").Replace(analysistest.QuickStudy)
	left, right := analysistest.Figures(t, kinds, analysistest.Simulate(t, alien, 4, 27, analysistest.Quiet())), analysistest.Figures(t, kinds, analysistest.Simulate(t, one, 4, 28, analysistest.Quiet()))
	if _, err := comparison.Compare(left, right, comparison.CompareOptions{MarginRatio: 0.05, Across: comparison.Across{comparison.AcrossStudy}}); errs.Code(err) != errs.CodeUsage ||
		!strings.Contains(err.Error(), "nothing can be compared: run run-27, of study quick, and run run-28, of study quick") {
		t.Errorf("nothing in common: %v", err)
	}
}

// Runs of two studies are identified by name, and findings that only one has are counted,
// whichever it is.
func TestCompareStudies(t *testing.T) {
	fewer := strings.NewReplacer("name: quick", "name: slow", "[none, server, client, both]", "[none, both]").Replace(analysistest.QuickStudy)
	a, b := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, analysistest.Quiet()), analysistest.Simulate(t, fewer, 4, 26, analysistest.Quiet())
	b.Header.Study = "slow"
	_, err := analysistest.Compare(t, kinds, a, b, 0.05)
	if errs.Code(err) != errs.CodeUsage || !strings.HasPrefix(err.Error(), "runs of different studies are not compared, as they measured different things:\n  the study is quick in run-25; and slow in run-26\n  sidecars is ") ||
		errs.Hint(err) != "--across study joins them all the same, and says so; it compares only findings of the same name in the same cell" {
		t.Errorf("%v; hint %s", err, errs.Hint(err))
	}
	c := b
	c.Header.Observed, c.Header.Lab = record.ObservedKubelet, "cluster"
	c.Header.Machine.CPUModel, c.Header.Machine.CPUs, c.Header.Machine.Kernel = "another", 3, "6.8"
	if _, err := analysistest.Compare(t, kinds, a, c, 0.05); err == nil || strings.Count(err.Error(), "\n  ") != 7 || !strings.HasSuffix(err.Error(), "\n  and 1 more difference") {
		t.Errorf("of seven differences: %v", err)
	}
	how := comparison.CompareOptions{MarginRatio: 0.05, Across: comparison.Across{comparison.AcrossStudy}}
	left, right := analysistest.Figures(t, kinds, a), analysistest.Figures(t, kinds, b)
	told := func(before, after []*analysis.RunFigures) (changes int, warnings []string) {
		got, err := comparison.Compare(before, after, how)
		must.OK(t, err)
		return len(got.Changes), slices.DeleteFunc(note.Texts(got.Warnings), func(w string) bool { return !strings.HasPrefix(w, "not compared: ") })
	}
	all, none := told(left, left)
	same, ofA := told(left, right)
	again, ofB := told(right, left)
	if len(none) > 0 || same == 0 || again != same {
		t.Errorf("%d changes of a run and itself, %d and %d of two: %q", all, same, again, none)
	}
	for i, warnings := range [][]string{ofA, ofB} {
		want := fmt.Sprintf("not compared: %d findings of run %s, for which run %s has none of the same name in the same cell", all-same, "AB"[i:i+1], "BA"[i:i+1])
		if !slices.Equal(warnings, []string{want}) {
			t.Errorf("%q, want %q", warnings, want)
		}
	}
}

// If there is no ratio at 95%, there is none at any level, and medians are compared if
// medians are printed.
func TestCompareWhatIsPrinted(t *testing.T) {
	w := analysistest.Quiet()
	w.Noise = 0.05
	got, err := analysistest.Compare(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 9, 31, w), analysistest.Simulate(t, analysistest.QuickStudy, 9, 32, w), 0.05)
	must.OK(t, err)
	seen := 0
	for _, c := range got.Changes {
		if !strings.HasPrefix(c.Name, "memory_") || !c.Bounded {
			continue
		}
		seen++
		if want := c.B.Estimate/c.A.Estimate - 1; math.Abs(c.ChangeRatio-want) > 1e-9 {
			t.Errorf("%s of %v: %v to %v is told as %+.5f", c.Name, c.Cell, c.A.Estimate, c.B.Estimate, c.ChangeRatio)
		}
	}
	if seen == 0 {
		t.Error("no memory is compared")
	}
}

// Activity of others on the machine is reported, but not compared.
func TestContextIsNotCompared(t *testing.T) {
	a := analysistest.Simulate(t, analysistest.QuickStudy, 6, 33, analysistest.Quiet())
	told := 0
	for _, f := range analysistest.Figures(t, kinds, a)[0].Figures {
		if strings.HasPrefix(f.Finding.Name, "cpu_unattributed") || strings.HasPrefix(f.Finding.Name, "latency_waiting") {
			if told++; f.Compared {
				t.Errorf("%s of %v is compared", f.Finding.Name, f.Finding.Cell)
			}
		}
	}
	if told == 0 {
		t.Error("no context is told")
	}
}

// A percentile among failed requests is worse than any that is not. A failing baseline
// says nothing about what is compared with it, and one block in which most requests fail
// does not represent all.
func TestCompareAmongFailures(t *testing.T) {
	compared := func(a, b func(*record.Trial) bool) comparison.Change {
		run := func(seed uint64, fails func(*record.Trial) bool) record.Run {
			w := analysistest.Quiet()
			w.Spoil = func(trial *record.Trial) {
				if fails(trial) {
					trial.Load.Failed = map[string]int64{"status": 60}
				}
			}
			return analysistest.Simulate(t, analysistest.QuickStudy, 6, seed, w)
		}
		got, err := analysistest.Compare(t, kinds, run(1, a), run(2, b), 0.05)
		must.OK(t, err)
		return changeOf(got, "latency_p99_overhead", "both")
	}
	never := func(*record.Trial) bool { return false }
	both := func(trial *record.Trial) bool { return trial.Cell["sidecars"] == "both" }
	baseline := func(trial *record.Trial) bool { return trial.Cell["sidecars"] == "none" }
	for name, c := range map[string]struct {
		a, b      func(*record.Trial) bool
		want, why string
	}{
		"B":            {never, both, record.VerdictWorse, "failed"},
		"A":            {both, never, record.VerdictBetter, "failed"},
		"A and B":      {both, both, record.VerdictInconclusive, "failed"},
		"B's baseline": {never, baseline, record.VerdictInconclusive, "in the baseline, of run B"},
	} {
		if got := compared(c.a, c.b); got.Verdict != c.want || !strings.Contains(got.Why, c.why) {
			t.Errorf("failures of %s: %+v", name, got)
		}
	}
	block := func(trial *record.Trial) bool { return both(trial) && trial.Block == 1 }
	if got := compared(never, block); got.Certain && got.Verdict != record.VerdictInconclusive && got.Verdict != record.VerdictSame {
		t.Errorf("one block: %+v", got)
	}
}

// alone turns a study into one without comparisons.
var alone = strings.NewReplacer("baseline: {sidecars: none}", "baseline: {}", "latency_p50_overhead", "latency_p50",
	"stop: {finding: latency_p50_overhead, half_width: 7.5%, of: {sidecars: both}}", "stop: none").Replace(analysistest.QuickStudy)

// A cell that one side lost is not left out of the verdict: whether it is the same
// is unknown.
func TestCompareALostCell(t *testing.T) {
	run := func(lost bool, seed uint64) record.Run {
		w := analysistest.Quiet()
		w.Spoil = func(trial *record.Trial) {
			trial.Validity.Valid = !lost || trial.Cell["sidecars"] != "both"
		}
		return analysistest.Simulate(t, alone, 12, seed, w)
	}
	for _, c := range []struct {
		name               string
		a, b               bool
		verdict, lack, why string
	}{
		{"neither", false, false, record.VerdictSame, "", ""},
		{"B", false, true, record.VerdictInconclusive, comparison.LackingB, "run B has too few valid trials for an interval of the deciding finding"},
		{"A", true, false, record.VerdictInconclusive, comparison.LackingA, "run A has too few valid trials for an interval of the deciding finding"},
	} {
		got, err := analysistest.Compare(t, kinds, run(c.a, 31), run(c.b, 32), 0.2)
		must.OK(t, err)
		if got.Verdict != c.verdict || got.Lacking != c.lack || got.Why != c.why {
			t.Errorf("%s lost a cell: %s, lacking %q: %s", c.name, got.Verdict, got.Lacking, got.Why)
		}
		p50 := changeOf(got, "latency_p50", "both")
		if lost := c.a || c.b; p50.Name == "" || lost != (p50.Verdict == record.VerdictInconclusive) || p50.ValuesA != nil || p50.ValuesB != nil {
			t.Errorf("%s lost a cell: %+v", c.name, p50)
		}
	}
	// With several runs per side, those that have the cell represent it.
	figures := func(lost bool, seeds ...uint64) (out []*analysis.RunFigures) {
		for _, seed := range seeds {
			out = append(out, analysistest.Figures(t, kinds, run(lost, seed))...)
		}
		return out
	}
	got, err := comparison.Compare(figures(false, 1, 2, 3), figures(true, 4, 5, 6), comparison.CompareOptions{MarginRatio: 0.2})
	if p50 := changeOf(got, "latency_p50", "both"); err != nil || got.Verdict != record.VerdictInconclusive || len(p50.ValuesB) != 3 || p50.ValuesB[0] != nil {
		t.Errorf("%s, %v: %+v", got.Verdict, err, p50)
	}
	got, err = comparison.Compare(figures(false, 1, 2, 3), append(figures(true, 4), figures(false, 5, 6, 7)...), comparison.CompareOptions{MarginRatio: 0.2})
	if err != nil || got.Verdict != record.VerdictSame {
		t.Errorf("%s, %v", got.Verdict, err)
	}
}

// Runs with different prices differ in money, whatever was measured.
func TestComparePrices(t *testing.T) {
	at := func(price string, seed uint64) []*analysis.RunFigures {
		return analysistest.Figures(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy+price, 6, seed, analysistest.Quiet()))
	}
	const cheap, dear = "money: {rps: 1000000, core_month: 40}\n", "money: {rps: 1000000, core_month: 80}\n"
	options := comparison.CompareOptions{MarginRatio: 0.2}
	if _, err := comparison.Compare(at(cheap, 1), at(dear, 2), options); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "money.core_month is 40 in run-1; and 80 in run-2") || !strings.Contains(errs.Hint(err), "--across study") {
		t.Errorf("%v, %s", err, errs.Hint(err))
	}
	if _, err := comparison.Compare(at(cheap, 1), at(cheap, 2), options); err != nil {
		t.Errorf("the same prices: %v", err)
	}
	if _, err := comparison.Compare(at("", 1), at(dear, 2), options); err != nil {
		t.Errorf("no prices on one side, so that money is not compared: %v", err)
	}
	options.Across = comparison.Across{comparison.AcrossStudy}
	got, err := comparison.Compare(at(cheap, 1), at(dear, 2), options)
	if err != nil || !strings.Contains(note.Words(got.Joined), "joined across study: money.core_month is ") {
		t.Errorf("%v, %q", err, got.Joined)
	}
}

// Missing pairs do not make a percentile of the rest better: it was not reached in
// a trial in which more pairs are missing than it leaves beyond it.
func TestCompareLostPairs(t *testing.T) {
	run := func(debounce float64, loses func(block int) bool) record.Run {
		return analysistest.SimulateControl(t, analysistest.ControlStudy, 6, func(c record.Cell) analysistest.ControlWorld {
			w := analysistest.Tuned(c)
			if c["variant"] == "slow" {
				w.DebounceMS = debounce
				w.Spoil = func(trial *record.Trial, events []record.Event) {
					if loses(trial.Block) { // 3 of 130 pairs
						for i := range 3 {
							events[i].Seen.AckedUS[12] = record.Never
						}
					}
				}
			}
			return w
		})
	}
	never, always := func(int) bool { return false }, func(int) bool { return true }
	once := func(block int) bool { return block == 4 }
	for name, c := range map[string]struct {
		a, b func(block int) bool
		p99  string
		all  string
	}{
		"neither":     {never, never, record.VerdictBetter, record.VerdictBetter},
		"B":           {never, always, record.VerdictWorse, record.VerdictWorse},
		"A":           {always, never, record.VerdictBetter, record.VerdictBetter},
		"B, one time": {never, once, record.VerdictInconclusive, record.VerdictBetter},
		"both":        {always, always, record.VerdictInconclusive, record.VerdictBetter},
	} {
		got, err := analysistest.Compare(t, kinds, run(2500, c.a), run(1000, c.b), 0.05)
		must.OK(t, err)
		verdicts, worse := map[string]string{}, []string{}
		for _, change := range got.Changes {
			if change.Cell["variant"] == "slow" {
				verdicts[change.Name] = change.Verdict
			}
			if change.Verdict == record.VerdictWorse && change.Certain {
				worse = append(worse, change.Name+": "+change.Why)
			}
		}
		if verdicts["convergence_p99_overhead"] != c.p99 || verdicts["convergence_p50_overhead"] != record.VerdictBetter || got.Verdict != c.all {
			t.Errorf("%s lost pairs: %s, p99 %s, p50 %s: %s; worse: %q", name, got.Verdict, verdicts["convergence_p99_overhead"], verdicts["convergence_p50_overhead"], got.Why, worse)
		}
	}
}

// usualLevers names all levers with istiod's built-in levels or those a study sets.
var usualLevers = record.Cell{"sidecar_scope": "none", "sidecar_hosts": "./*,istio-system/*", "outbound_policy": "ALLOW_ANY", "export_to": "*", "discovery_selectors": "none",
	"dns_capture": "false", "debounce_after": "100ms", "debounce_max": "10s", "eds_debounce": "true", "push_throttle": "default", "request_limit": "default", "istiod_replicas": "1",
	"istiod_cpu": "none", "istiod_memory": "none", "istiod_cpu_request": "installed", "istiod_memory_request": "installed", "delta": "true", "xds_cache": "true", "istiod_env": "installed", "istiod": "installed"}

// debounced is a study with two levels of debounce_after.
const debounced = `
name: tuning
question: Which debounce?
control: {changes: 10}
settings: {proxies: 11, LEVERS}
factors: {debounce_after: [FIRST, 2500ms]}
baseline: {debounce_after: FIRST}
`

// debouncedRun returns a run of it with the levers that settings name, in an
// installation in which it found others.
func debouncedRun(t *testing.T, id, first string, levers, installed record.Cell) *analysis.RunFigures {
	t.Helper()
	levers = levers.With(nil)
	delete(levers, study.FactorDebounceAfter)
	var named []string
	for factor, level := range levers {
		named = append(named, factor+`: "`+level+`"`)
	}
	text := strings.NewReplacer("LEVERS", strings.Join(named, ", "), "FIRST", first).Replace(debounced)
	run := analysistest.SimulateControl(t, text, 3, func(c record.Cell) analysistest.ControlWorld {
		if c[study.FactorDebounceAfter] == "2.5s" {
			return analysistest.ControlWorld{DebounceMS: 2500, Pushes: 50}
		}
		return analysistest.ControlWorld{DebounceMS: 100, Pushes: 500}
	})
	run.Header.RunID = id
	for i := range run.Trials {
		trial := &run.Trials[i]
		found := maps.Clone(installed)
		if trial.Cell[study.FactorDebounceAfter] != study.LevelInstalled {
			delete(found, study.FactorDebounceAfter)
		}
		trial.Control.Installed = found
	}
	return analysistest.Figures(t, kinds, run)[0]
}

// A lever named by one run and found at the same level by another, which left it as
// installed, is the same; differences are named.
func TestCompareAsInstalled(t *testing.T) {
	usual := usualLevers.With(record.Cell{"istiod": "hub/pilot:2", "istiod_env": "A=1", "istiod_cpu_request": "500m", "istiod_memory_request": "2Gi"})
	delete(usual, "sidecar_hosts") // without a Sidecar none are found
	named := debouncedRun(t, "named", "100ms", usualLevers, nil)
	other := func(factor, level string) record.Cell { return usual.With(record.Cell{factor: level}) }
	for _, c := range []struct {
		name, first string
		installed   record.Cell
		want        string // part of the error; "" for none
	}{
		{"installed as it was set", "installed", usual, ""},
		{"named as it was set", "100ms", usual, ""},
		{"another image", "installed", other("istiod", "hub/pilot:3"), ""},
		{"another debounce", "installed", other("debounce_after", "1s"), "debounce_after is 100ms, 2.5s in named; and 1s, 2.5s in newer"},
		{"replicas", "installed", other("istiod_replicas", "3"), "istiod_replicas is 1 in named; and 3 in newer"},
		{"selectors that no level says", "installed", other("discovery_selectors", `[{"matchLabels":{"a":"b","c":"d"}}]`), "discovery_selectors is none in named; and [{"},
		{"not known", "installed", nil, "sidecar_scope is none in named; and installed in newer"},
	} {
		newer := debouncedRun(t, "newer", c.first, nil, c.installed)
		got, err := comparison.Compare([]*analysis.RunFigures{named}, []*analysis.RunFigures{newer}, comparison.CompareOptions{MarginRatio: 0.05})
		if c.want != "" {
			if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		compared := 0
		for _, change := range got.Changes {
			if change.Name == "pushes" && change.Cell[study.FactorDebounceAfter] == "100ms" && change.B.Estimate == 500 {
				compared++
			}
		}
		if compared != 1 || len(got.Joined) > 0 || len(got.Warnings) > 1 {
			t.Errorf("%s: %d of its baselines compared; %q, %q", c.name, compared, got.Joined, got.Warnings)
		}
	}
}
