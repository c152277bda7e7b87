package comparison_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

var kinds = analyses.All()

// sideOf returns runs whose sidecars cost a factor more, and that differ by some
// percent from run to run.
func sideOf(t *testing.T, n int, seed uint64, factor, scatter float64, change func(i int, r *record.Run)) []*analysis.RunFigures {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var runs []record.Run
	for i := range n {
		run := analysistest.Simulate(t, analysistest.QuickStudy, 3, seed+uint64(i), scaled(factor*math.Exp(scatter*r.NormFloat64())))
		run.Header.Started = run.Header.Started.Add(time.Duration(i) * 24 * time.Hour)
		if change != nil {
			change(i, &run)
		}
		runs = append(runs, run)
	}
	return analysistest.Figures(t, kinds, runs...)
}

func changeOf(c comparison.Comparison, name, sidecars string) comparison.Change {
	i := slices.IndexFunc(c.Changes, func(x comparison.Change) bool { return x.Name == name && x.Cell["sidecars"] == sidecars })
	if i < 0 {
		return comparison.Change{}
	}
	return c.Changes[i]
}

// With several runs per side the interval includes the scatter between runs: runs
// that differ by 10% are no evidence, though the blocks of two of them would be.
func TestCompareRunsOfASide(t *testing.T) {
	for _, c := range []struct {
		name            string
		a, b            []*analysis.RunFigures
		margin          float64
		want, basis     string
		within, certain bool
		warned          string // "" if neither side has only one run
		args            []any
	}{
		{"equal", sideOf(t, 4, 100, 1, 0.01, nil), sideOf(t, 4, 200, 1, 0.01, nil), 0.1, record.VerdictSame, comparison.BasisRuns, false, true, "", nil},
		{"worse", sideOf(t, 4, 100, 1, 0.01, nil), sideOf(t, 4, 200, 1.3, 0.01, nil), 0.05, record.VerdictWorse, comparison.BasisRuns, false, true, "", nil},
		{"scattered", sideOf(t, 3, 100, 1, 0.1, nil), sideOf(t, 3, 200, 1.15, 0.1, nil), 0.05, record.VerdictInconclusive, comparison.BasisRuns, false, true, "", nil},
		{"one after", sideOf(t, 4, 100, 1, 0.01, nil), sideOf(t, 1, 200, 1.5, 0, nil), 0.05, record.VerdictWorse, comparison.BasisRuns, true, true, "one_run_of_a_side", []any{"B", "A"}},
		{"one each", sideOf(t, 1, 100, 1, 0, nil), sideOf(t, 1, 200, 1.5, 0, nil), 0.05, record.VerdictWorse, comparison.BasisBlocks, true, true, "one_run_a_side", nil},
	} {
		got, err := comparison.Compare(c.a, c.b, comparison.CompareOptions{MarginRatio: c.margin})
		must.OK(t, err)
		p50 := changeOf(got, "latency_p50_overhead", "both")
		if got.Verdict != c.want || got.Basis != c.basis || got.WithinRunOnly != c.within || p50.Certain != c.certain && p50.Verdict == c.want {
			t.Errorf("%s: %s on %s, within runs only: %v; %+v", c.name, got.Verdict, got.Basis, got.WithinRunOnly, p50)
		}
		if c.warned != "" {
			notetest.Args(t, got.Warnings, c.warned, c.args)
		} else if codes := note.Codes(got.Warnings); strings.Contains(codes, "one_run") {
			t.Errorf("%s: warnings %s", c.name, codes)
		}
		if len(got.RunsA) != len(c.a) || len(got.RunsB) != len(c.b) || got.A != got.RunsA[0] || (c.basis == comparison.BasisRuns) != (len(p50.ValuesA) == len(c.a)) {
			t.Errorf("%s: runs %q and %q, values %v", c.name, got.RunsA, got.RunsB, p50.ValuesA)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	}
}

// What the blocks of two scattered runs would call worse, their runs do not.
func TestBlocksAreNoRuns(t *testing.T) {
	a, b := sideOf(t, 3, 300, 1, 0.08, nil), sideOf(t, 3, 400, 1, 0.08, nil)
	worse := 0
	for i := range a {
		for j := range b {
			one, err := comparison.Compare(a[i:i+1], b[j:j+1], comparison.CompareOptions{MarginRatio: 0.02})
			must.OK(t, err)
			if one.Verdict == record.VerdictWorse || one.Verdict == record.VerdictBetter {
				worse++
			}
		}
	}
	all, err := comparison.Compare(a, b, comparison.CompareOptions{MarginRatio: 0.02})
	if err != nil || worse < 3 || all.Verdict != record.VerdictInconclusive {
		t.Errorf("%d of 9 pairs of equals differ, all together are %s, %v", worse, all.Verdict, err)
	}
}

// Deciding findings share four fifths of 5%, the others the rest.
func TestCompareShares(t *testing.T) {
	got, err := comparison.Compare(sideOf(t, 3, 500, 1, 0.01, nil), sideOf(t, 3, 600, 1, 0.01, nil), comparison.CompareOptions{MarginRatio: 0.1})
	must.OK(t, err)
	decide, others, sum := 0, 0, 0.0
	for _, c := range got.Changes {
		sum += 1 - c.JointLevel
		if c.Decides {
			decide++
		} else {
			others++
		}
	}
	p50 := changeOf(got, "latency_p50_overhead", "both")
	if decide != 1 || others < 5 || math.Abs(sum-0.05) > 1e-9 || math.Abs(p50.JointLevel-0.96) > 1e-9 || got.ErrorRate != 0.05 {
		t.Errorf("%d decide, %d others, rates add up to %v, level %v", decide, others, sum, p50.JointLevel)
	}
}

func TestCompareAcross(t *testing.T) {
	components := func(v string) []record.Component {
		return []record.Component{{Name: "envoy", Version: v}, {Name: "istiod", Version: "1"}}
	}
	plain := func(i int, r *record.Run) { r.Header.Components = components("1") }
	other := sideOf(t, 2, 710, 1, 0.01, plain)
	each := func(of []*analysis.RunFigures, changes ...func(h *record.Header)) (out []*analysis.RunFigures) {
		for i, f := range of {
			r := *f
			changes[i](&r.Header)
			out = append(out, &r)
		}
		return out
	}
	gatewayAPI := func(version string) func(h *record.Header) {
		return func(h *record.Header) {
			h.Components = append(h.Components[:2:2], record.Component{Name: record.GatewayAPI, Version: version, Source: record.SourceOfCluster})
		}
	}
	same := func(*record.Header) {}
	second := func(change func(h *record.Header)) []*analysis.RunFigures { return each(other, same, change) }
	newer := func(h *record.Header) { h.Components = components("2") }
	settings := analysistest.Simulate(t, strings.Replace(analysistest.QuickStudy, "connections: 16", "connections: 32", 1), 2, 740, analysistest.Quiet())
	window := analysistest.Simulate(t, analysistest.QuickStudy+"window: 20s\n", 2, 741, analysistest.Quiet())
	for _, run := range []*record.Run{&settings, &window} {
		plain(0, run)
	}
	before := sideOf(t, 2, 700, 1, 0.01, plain)
	for _, c := range []struct {
		name  string
		after []*analysis.RunFigures
		want  string // part of the error; "" for none
		flag  string
	}{
		{"alike", other, "", ""},
		{"other versions on the other side", each(other, newer, newer), "", ""},
		{"CPU", second(func(h *record.Header) { h.Machine.CPUModel = "Xeon" }), "the CPU model is not known in run-700, run-701, run-710; and Xeon in run-711", "machine"},
		{"revision", second(func(h *record.Header) { h.Revision = "canary" }), "the mesh's revision is default in run-710; and canary in run-711", "versions"},
		{"versions", second(newer), "envoy is 1 in run-710; and 2 in run-711", "versions"},
		{"a component less", second(func(h *record.Header) { h.Components = h.Components[:1] }), "istiod is 1 in run-710; and absent in run-711", "versions"},
		{"what one does not know", second(gatewayAPI("on")), "", ""},
		{"what the cluster has", each(other, gatewayAPI("on"), gatewayAPI("off")), "the Gateway API is on in run-710; and off in run-711", "versions"},
		{"settings of a side", analysistest.Figures(t, kinds, settings), "connections is 16 in run-700, run-701; and 32 in run-740", "study"},
		{"study", second(func(h *record.Header) { h.Study = "slow" }), "the study is quick in run-700, run-701, run-710; and slow in run-711", "study"},
		{"settings", append(other[:1:1], analysistest.Figures(t, kinds, settings)...), "connections is 16 in run-700, run-701, run-710; and 32 in run-740", "study"},
		{"window", append(other[:1:1], analysistest.Figures(t, kinds, window)...), "window is 2s in run-700, run-701, run-710; and 20s in run-741", "study"},
	} {
		_, err := comparison.Compare(before, c.after, comparison.CompareOptions{MarginRatio: 0.05})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), c.want) || !strings.Contains(errs.Hint(err), "--across "+c.flag) {
			t.Errorf("%s: %v; hint %s", c.name, err, errs.Hint(err))
		}
		got, err := comparison.Compare(before, c.after, comparison.CompareOptions{MarginRatio: 0.05, Across: comparison.Across{c.flag}})
		if err != nil || len(got.Joined) == 0 || !strings.HasPrefix(got.Joined[0].String(), "joined across "+c.flag+": "+c.want) || !slices.ContainsFunc(got.Warnings, got.Joined[0].Like) {
			t.Errorf("%s, joined: %q, %v", c.name, got.Joined, err)
		}
	}
	fewer := func(h *record.Header) { h.Components = h.Components[:1] }
	if got, err := comparison.Compare(before, each(other, fewer, fewer), comparison.CompareOptions{}); err != nil || !slices.Contains(note.Texts(got.Warnings), "istiod differs: 1 and absent") {
		t.Errorf("a component that one side lacks: %q, %v", got.Warnings, err)
	}
	off := each(before, gatewayAPI("off"), gatewayAPI("off"))
	for _, c := range []struct {
		before []*analysis.RunFigures
		told   bool
	}{{before, false}, {off, true}} {
		got, err := comparison.Compare(c.before, each(other, gatewayAPI("on"), gatewayAPI("on")), comparison.CompareOptions{})
		about := slices.DeleteFunc(note.Texts(got.Warnings), func(w string) bool { return !strings.Contains(w, "the Gateway API") })
		if err != nil || c.told && !slices.Equal(about, []string{"the Gateway API differs: off and on"}) || !c.told && len(about) > 0 {
			t.Errorf("what the cluster has, known of both sides %t: %q, %v", c.told, about, err)
		}
	}
	if _, err := comparison.Compare(before, append(before[:1:1], other...), comparison.CompareOptions{}); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "run run-700 is given twice") {
		t.Errorf("a run on both sides: %v", err)
	}
	if _, err := comparison.ParseAcross([]string{"machine", "moon"}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("across the moon: %v", err)
	}
	if _, err := comparison.Compare(before, nil, comparison.CompareOptions{}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("no side B: %v", err)
	}
}

// A run without a valid trial does not count for its side.
func TestCompareLeavesOutRuns(t *testing.T) {
	spoil := func(i int, r *record.Run) {
		for k := range r.Trials {
			r.Trials[k].Validity.Valid = i != 0
		}
	}
	got, err := comparison.Compare(sideOf(t, 4, 800, 1, 0.01, spoil), sideOf(t, 3, 900, 1, 0.01, nil), comparison.CompareOptions{MarginRatio: 0.2})
	if err != nil || got.Verdict != record.VerdictSame || !slices.Contains(note.Texts(got.Warnings), "left out for lack of a valid trial: run-800") {
		t.Errorf("%s, %q, %v", got.Verdict, got.Warnings, err)
	}
	all := func(_ int, r *record.Run) { spoil(0, r) }
	got, err = comparison.Compare(sideOf(t, 2, 800, 1, 0.01, nil), sideOf(t, 2, 900, 1, 0.01, all), comparison.CompareOptions{MarginRatio: 0.1})
	if err != nil || got.Verdict != record.VerdictInconclusive || got.Lacking != comparison.LackingB || got.Why != "side B has no valid trial" {
		t.Errorf("%s, %s, %q, %v", got.Verdict, got.Lacking, got.Why, err)
	}
}

func asTheyAre(int, *record.Trial) {}

// trendOf returns runs with the cost of sidecars given by factor, and trials modified by
// spoil.
func trendOf(t *testing.T, n int, factor func(i int) float64, spoil func(run int, trial *record.Trial)) []*analysis.RunFigures {
	t.Helper()
	var runs []record.Run
	r := rand.New(rand.NewPCG(uint64(n), 8))
	small := strings.NewReplacer("rate: 1000", "rate: 300", "[none, server, client, both]", "[none, both]").Replace(analysistest.QuickStudy)
	for i := range n {
		w := scaled(factor(i) * math.Exp(0.02*r.NormFloat64()))
		w.Spoil = func(trial *record.Trial) { spoil(i, trial) }
		run := analysistest.Simulate(t, small, 2, 1000+uint64(i), w)
		run.Header.RunID, run.Header.Started = fmt.Sprintf("r%02d", i), run.Header.Started.AddDate(0, 0, i)
		run.Header.Components = []record.Component{{Name: "envoy", Version: "1.36"}}
		if factor(i) > 1 { // a later release with additional findings
			run.Header.Components = []record.Component{{Name: "envoy", Version: "1.37"}, {Name: record.GatewayAPI, Version: "on", Source: record.SourceOfCluster}}
		}
		runs = append(runs, run)
	}
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] }) // time orders them
	return analysistest.Figures(t, kinds, runs...)
}

func TestTrend(t *testing.T) {
	options := comparison.CompareOptions{MarginRatio: 0.05, Across: comparison.Across{comparison.AcrossVersions}}
	for _, c := range []struct {
		name   string
		factor func(i int) float64
		at     []int
		want   string
		stands []bool
	}{
		{"flat", func(int) float64 { return 1 }, nil, comparison.VerdictNoChange, nil},
		{"worse", func(i int) float64 { return 1 + 0.3*float64(i/12) }, []int{12}, record.VerdictWorse, []bool{true}},
		{"better", func(i int) float64 { return 1.3 - 0.3*float64(i/12) }, []int{12}, record.VerdictBetter, []bool{true}},
		{"worse, and back", func(i int) float64 { return 1 + 0.4*float64(i/7%2) }, []int{7, 14}, record.VerdictBetter, []bool{false, true}},
	} {
		n := 20
		trend, err := comparison.MakeTrend(trendOf(t, n, c.factor, asTheyAre), options)
		must.OK(t, err)
		if trend.Verdict != c.want {
			t.Errorf("%s: %s", c.name, trend.Verdict)
		}
		s := seriesOf(t, trend, "latency_p50_overhead")
		var at []int
		for k, change := range s.Changes {
			at = append(at, change.At)
			if k < len(c.stands) && change.Stands != c.stands[k] {
				t.Errorf("%s: change %d: %+v", c.name, k, change)
			}
		}
		if !slices.Equal(at, c.at) || len(s.Points) != n || !s.Decides {
			t.Errorf("%s: changes at %v, want %v", c.name, at, c.at)
		}
		for k, r := range trend.Runs {
			if r.Run != fmt.Sprintf("r%02d", k) {
				t.Errorf("%s: run %d is %s", c.name, k, r.Run)
			}
		}
		if c.name != "worse" {
			continue
		}
		change := s.Changes[0]
		if change.From != "r11" || change.To != "r12" || !change.Bounded || change.LowRatio > 0.3 || change.HighRatio < 0.3 || change.Verdict != record.VerdictWorse ||
			!slices.Equal(change.Differs, []comparison.Differing{{Name: "envoy", From: "1.36", To: "1.37"}}) {
			t.Errorf("%+v", change)
		}
		if len(trend.Joined) != 1 || !slices.ContainsFunc(trend.Warnings, trend.Joined[0].Like) {
			t.Errorf("joined %q", trend.Joined)
		}
	}
	step := trendOf(t, 20, func(i int) float64 { return 1 + 0.3*float64(i/12) }, asTheyAre)
	if _, err := comparison.MakeTrend(step, comparison.CompareOptions{MarginRatio: 0.05}); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "envoy is 1.36 in r00, r01, r02 and 9 more runs; and 1.37 in") {
		t.Errorf("versions: %v", err)
	}
	options.MarginRatio = 0.5
	if trend, err := comparison.MakeTrend(step, options); err != nil || trend.Verdict != comparison.VerdictNoChange {
		t.Errorf("within the margin: %s, %v", trend.Verdict, err)
	}
	few, err := comparison.MakeTrend(step[:comparison.MinTrend-1], options)
	if err != nil || few.Verdict != record.VerdictInconclusive || few.Why == "" || len(few.Series) == 0 {
		t.Errorf("too few: %s, %q, %v", few.Verdict, few.Why, err)
	}
	if none, err := comparison.MakeTrend(nil, options); err != nil || none.Verdict != record.VerdictInconclusive {
		t.Errorf("none: %s, %v", none.Verdict, err)
	}
}

func seriesOf(t *testing.T, trend comparison.Trend, name string) comparison.Series {
	t.Helper()
	i := slices.IndexFunc(trend.Series, func(s comparison.Series) bool { return s.Name == name && s.Cell["sidecars"] == "both" })
	if i < 0 {
		t.Fatalf("no series of %s", name)
	}
	return trend.Series[i]
}

// A finding so much worse that no trial is valid any more, or that a percentile
// is never reached, does not count as unchanged.
func TestTrendThatEnds(t *testing.T) {
	flat := func(int) float64 { return 1 }
	options := comparison.CompareOptions{MarginRatio: 0.05}
	invalid := func(from int, all bool) func(int, *record.Trial) {
		return func(run int, trial *record.Trial) {
			if run >= from && (all || trial.Cell["sidecars"] == "both") {
				trial.Validity.Valid = false
			}
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(int, *record.Trial)
		why   string
	}{
		{"sidecars", invalid(14, false), "latency_p50_overhead of sidecars=both has no value since run r14"},
		{"the last run", invalid(15, true), "the newest run, r15, has no valid trial"},
	} {
		trend, err := comparison.MakeTrend(trendOf(t, 16, flat, c.spoil), options)
		if err != nil || trend.Verdict != record.VerdictInconclusive || !strings.Contains(trend.Why, c.why) {
			t.Errorf("%s: %s, %q, %v", c.name, trend.Verdict, trend.Why, err)
		}
	}
	trend, err := comparison.MakeTrend(trendOf(t, 16, flat, func(run int, trial *record.Trial) {
		if run >= 8 && trial.Cell["sidecars"] == "both" {
			trial.Load.Failed = map[string]int64{"status": 3 * trial.Load.Completed / 2}
		}
	}), options)
	must.OK(t, err)
	s := seriesOf(t, trend, "latency_p50_overhead")
	if trend.Verdict != record.VerdictWorse || s.Points[15] == nil || !s.Points[15].NotReached || len(s.Changes) != 1 || s.Changes[0].At != 8 ||
		!s.Changes[0].AfterNotReached || s.Changes[0].After != 0 || s.Changes[0].Bounded || !s.Changes[0].Stands {
		t.Errorf("not reached: %s, %q, %+v", trend.Verdict, trend.Why, s.Changes)
	}
	if _, err := json.Marshal(trend); err != nil {
		t.Error(err)
	}
}

// A certain change that may lie within the margin is reported as such.
func TestTrendMayLieWithinTheMargin(t *testing.T) {
	for _, c := range []struct {
		factor float64
		want   string
	}{{1.1, record.VerdictInconclusive}, {1 / 1.1, comparison.VerdictNoChange}} {
		runs := trendOf(t, 20, func(i int) float64 { return 1 + (c.factor-1)*float64(i/12) }, asTheyAre)
		trend, err := comparison.MakeTrend(runs, comparison.CompareOptions{MarginRatio: math.Abs(c.factor - 1), Across: comparison.Across{comparison.AcrossVersions}})
		must.OK(t, err)
		s := seriesOf(t, trend, "latency_p50_overhead")
		if trend.Verdict != c.want || len(s.Changes) == 0 {
			t.Errorf("%v: %s, %q, %+v", c.factor, trend.Verdict, trend.Why, s.Changes)
			continue
		}
		if last := s.Changes[len(s.Changes)-1]; last.Verdict != record.VerdictInconclusive || !last.MayStand || last.Stands {
			t.Errorf("%v: %s, %q, %+v", c.factor, trend.Verdict, trend.Why, s.Changes)
		}
	}
}

// If so many findings decide that no order of so few runs shows a change, a trend
// does not claim that there is none.
func TestTrendSaysWhatItCannotTell(t *testing.T) {
	runs := trendOf(t, 9, func(int) float64 { return 1 }, asTheyAre)
	trend, err := comparison.MakeTrend(runs, comparison.CompareOptions{MarginRatio: 0.05})
	if err != nil || trend.Verdict != comparison.VerdictNoChange || trend.RunsAfter != 3 {
		t.Errorf("one decides: %s, %q, %d runs after, %v", trend.Verdict, trend.Why, trend.RunsAfter, err)
	}
	for _, r := range runs {
		for i := range r.Figures {
			r.Figures[i].Decides = true
		}
	}
	trend, err = comparison.MakeTrend(runs, comparison.CompareOptions{MarginRatio: 0.05})
	if err != nil || trend.Verdict != record.VerdictInconclusive || trend.RunsAfter != 0 || !strings.Contains(trend.Why, "9 runs are too few to find any change: with ") {
		t.Errorf("all decide: %s, %q, %d runs after, %v", trend.Verdict, trend.Why, trend.RunsAfter, err)
	}
}
