package comparison_test

import (
	"encoding/json"
	"fmt"
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
			for _, x := range got.Changes {
				if x.Decides || x.Verdict == record.VerdictWorse {
					t.Logf("%s %v: %.3f [%.3f, %.3f] %s: %s", x.Name, x.Cell, x.ChangeRatio, x.LowRatio, x.HighRatio, x.Verdict, x.Why)
				}
			}
			t.Errorf("%s: %s", c.name, got.Verdict)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
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
	few := analysistest.Quiet()
	few.Spoil = func(t *record.Trial) { t.Validity.Valid = t.Block == 0 }
	thin := analysistest.Simulate(t, analysistest.QuickStudy, 4, 25, few)
	noisy := analysistest.Quiet()
	noisy.Noise = 0.3
	plain := strings.NewReplacer("baseline: {sidecars: none}\n", "", "latency_p50_overhead", "latency_p50").Replace(analysistest.QuickStudy)
	for _, c := range []struct {
		name string
		a, b record.Run
		why  string
	}{
		{"B empty", good, empty, "run B has no valid trial"},
		{"A empty", empty, good, "run A has no valid trial"},
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
	figures := analysistest.Figures(t, kinds, a)[0]
	told := 0
	for _, f := range figures.Figures {
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

// failing returns a run with many failed requests in trials selected by fails; nil means
// none.
func failing(t *testing.T, seed uint64, fails func(*record.Trial) bool) record.Run {
	w := analysistest.Quiet()
	w.Spoil = func(trial *record.Trial) {
		if fails != nil && fails(trial) {
			trial.Load.Failed = map[string]int64{"status": 60}
		}
	}
	return analysistest.Simulate(t, analysistest.QuickStudy, 6, seed, w)
}

// A failing baseline says nothing about what is compared with it.
func TestCompareFailedBaseline(t *testing.T) {
	got, err := analysistest.Compare(t, kinds, failing(t, 1, nil), failing(t, 2, func(trial *record.Trial) bool { return trial.Cell["sidecars"] == "none" }), 0.05)
	must.OK(t, err)
	if c := changeOf(got, "latency_p99_overhead", "both"); c.Verdict != record.VerdictInconclusive || !strings.Contains(c.Why, "in the baseline, of run B") {
		t.Errorf("%+v", c)
	}
}

// One block in which most requests fail does not represent all.
func TestCompareFailedBlock(t *testing.T) {
	got, err := analysistest.Compare(t, kinds, failing(t, 1, nil), failing(t, 2, func(trial *record.Trial) bool { return trial.Cell["sidecars"] == "both" && trial.Block == 1 }), 0.05)
	must.OK(t, err)
	if c := changeOf(got, "latency_p99_overhead", "both"); found(c.Verdict) && c.Certain {
		t.Errorf("%+v", c)
	}
}

func found(verdict string) bool {
	return verdict == record.VerdictWorse || verdict == record.VerdictBetter
}

// A percentile among failed requests is worse than any that is not.
func TestCompareNotReached(t *testing.T) {
	run := func(fail bool, seed uint64) record.Run {
		return failing(t, seed, func(trial *record.Trial) bool { return fail && trial.Cell["sidecars"] == "both" })
	}
	for _, c := range []struct {
		a, b bool
		want string
	}{{false, true, record.VerdictWorse}, {true, false, record.VerdictBetter}, {true, true, record.VerdictInconclusive}} {
		comparison, err := analysistest.Compare(t, kinds, run(c.a, 1), run(c.b, 2), 0.05)
		must.OK(t, err)
		found := false
		for _, change := range comparison.Changes {
			if change.Name == "latency_p99_overhead" && change.Cell["sidecars"] == "both" {
				found = true
				if change.Verdict != c.want || !strings.Contains(change.Why, "failed") {
					t.Errorf("failures %v and %v: %s: %s", c.a, c.b, change.Verdict, change.Why)
				}
			}
		}
		if !found {
			t.Errorf("failures %v and %v: the change is not told", c.a, c.b)
		}
	}
}
