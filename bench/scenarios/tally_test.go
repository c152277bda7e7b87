package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestTally(t *testing.T) {
	good := cell{Label: "good", Expected: "pass", Verdict: "pass", Requests: 100, TrialS: 12}
	defect := cell{Label: "bad", Expected: "fail", Verdict: "fail", Requests: 100, Failed: 7, Unreconciled: 2, Named: 2}
	doubtful := good
	doubtful.Verdict, doubtful.Why, doubtful.TrialS = "inconclusive", []string{"step x was not proven"}, 20
	lines := []line{
		{Scenario: "a", Meshtrial: "v1", Cells: []cell{good, defect}},
		{Scenario: "b", Meshtrial: "v1", Cells: []cell{good}},
		{Scenario: "a", Meshtrial: "v2", Cells: []cell{doubtful, defect}},
		{Scenario: "b", Error: "no findings: exit status 1"},
	}
	rows := tally([]string{"b", "a"}, lines)
	var got []string
	for i := range rows {
		got = append(got, strings.Join(rows[i].columns(), " | "))
	}
	want := []string{
		"b | good | pass | 1 of 1 | 100 | 0 | reconciled 1 of 1 | 12.0",
		"b |  | none | 0 of 1 | 0 | 0 | reconciled 0 of 1 | 0.0",
		"a | good | pass | 1 of 2 | 200 | 0 | reconciled 2 of 2 | 16.0",
		"a | bad | fail | 2 of 2 | 200 | 14 | reconciled 0 of 2; 4 not, 4 named | 0.0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var text strings.Builder
	must.OK(t, printText(&text, "title", rows))
	for _, why := range []string{"a, good: 1 times inconclusive: step x was not proven", "b, whole run: 1 times no findings: exit status 1"} {
		if !strings.Contains(text.String(), "\n"+why+"\n") {
			t.Errorf("%q is not told:\n%s", why, &text)
		}
	}
	if title := title(lines); title != "scenarios, 4 runs, meshtrial unknown, v1, v2" {
		t.Error(title)
	}
	for name, c := range map[string]struct {
		lines []line
		want  error
	}{
		"as expected":     {lines[:1], nil},
		"differs":         {lines[2:3], errDiffers},
		"without a table": {lines[3:], errDiffers},
	} {
		if err := judge(tally([]string{"a", "b"}, c.lines)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if judge(nil) == nil {
		t.Error("nothing counts as what was expected")
	}
}

// From a trial's findings: the reason for its verdict, and what was lost.
func TestCellsOf(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := record.Findings{Cells: []record.CellSummary{{Label: "one", Scenario: &record.ScenarioSummary{
		Verdict: record.VerdictFail, Expected: record.VerdictPass,
		Trials: []record.TrialVerdict{{Trial: "b000-t01", Verdict: record.VerdictFail, Assertions: []record.ScenarioAssertion{
			{Expr: "total.failed == 0", Outcome: record.VerdictFail, Detail: "total.failed is 3"}, {Expr: "ledger.reconciled", Outcome: record.VerdictPass}}}},
		Total:  record.ScenarioWindow{Requests: 100, Failed: 3},
		Ledger: record.ScenarioLedger{Classes: map[string]int64{string(ledger.ClassUnreconciled): 1}, Orphans: 1, Unreconciled: make([]record.LedgerRequest, 2)},
	}}, {Label: "of another plane"}}}
	trials := []record.Trial{{ID: "b000-t00"}, {ID: "b000-t01", Started: began, Ended: began.Add(42 * time.Second)}}
	got := cellsOf(f, trials)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	c := got[0]
	if !slices.Equal(c.Why, []string{"total.failed == 0: total.failed is 3"}) || c.Requests != 100 || c.Failed != 3 || c.Unreconciled != 2 || c.Named != 2 ||
		c.TrialS != 42 {
		t.Errorf("%+v", c)
	}
}

// Scenarios are chosen by name, and their usual duration is known from the log
// or, before the first run, from the study.
func TestChosen(t *testing.T) {
	all, err := chosen("")
	if err != nil || len(all) < 10 || !slices.Contains(all, "ten-servers") || slices.Contains(all, "quick") {
		t.Errorf("%v, %v", all, err)
	}
	if some, err := chosen("retry-storm,ten-servers"); err != nil || !slices.Equal(some, []string{"retry-storm", "ten-servers"}) {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := chosen("quick"); err == nil || !strings.Contains(err.Error(), "ten-servers") {
		t.Errorf("a study of another plane: %v", err)
	}
	// The duration is known before the first run.
	if d := usual("ten-servers", nil); d != 150*time.Second {
		t.Errorf("ten-servers takes %v", d)
	}
	lines := []line{{Scenario: "ten-servers", Seconds: 140}, {Scenario: "ten-servers", Seconds: 3, Error: "broken"}}
	if d := usual("ten-servers", lines); d != 140*time.Second {
		t.Errorf("ten-servers took %v", d)
	}
}
