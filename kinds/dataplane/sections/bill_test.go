package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// What the bill says in words: the dearest part, the sum, what was saved where
// it was tried, and what cannot be told from nothing.
func TestBillAnswers(t *testing.T) {
	f := reporttest.Bill(t)
	said := strings.Join(answersOf(f), "\n")
	for _, want := range []string{"json-log costs ", "they interact, and together cost ", " less than the sum", "Remove json-log, save ", "USD per month", "Indistinguishable from zero: nothing.", "No significant saving from removing: nothing."} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if strings.Contains(said, "Remove text-log") {
		t.Errorf("what was not tried is promised:\n%s", said)
	}
	text := render(t, f, "text", report.Options{Width: 140})
	for _, want := range []string{"Cost of each part", "2–3  mtls", "sum of 3 parts", "beyond the sum", "Savings from removing each part"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "bill cpu") {
		t.Error("findings of the bill are told twice")
	}
}

// A part without valid trials stands there without figures.
func TestBillWithoutFigures(t *testing.T) {
	f := record.Findings{Kind: record.KindDataPlane, Validity: record.ValiditySummary{Trials: 2, Valid: 2}, Bills: []record.Bill{{Parts: []record.BillPart{
		{Name: "lua", Figures: map[string]record.Priced{"cpu": {Unit: "us/request", Verdict: record.VerdictInvalid}}, Says: "lua: no price, for want of valid trials."}}}}}
	if said := strings.Join(answersOf(f), "\n"); !strings.Contains(said, "lua: no price") {
		t.Error(said)
	}
	text := render(t, f, "text", report.Options{Width: 100})
	if !strings.Contains(text, "not valid") || !strings.Contains(text, "–  lua") {
		t.Error(text)
	}
}
