package comparison_test

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

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
