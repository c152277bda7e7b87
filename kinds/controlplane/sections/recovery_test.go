package sections

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// How proxies came back has its tables and sentences, against the baseline too, and
// the connections of several replicas as time went on; other studies have none.
func TestRecoveryTables(t *testing.T) {
	f := reporttest.Storm(t)
	text := rendered(t, recoveryTables(f)...)
	says(t, text, "until proxies had all of their configuration again", "first, ms", "p50, s", "last, s", "refused", "random part of 0.5 s",
		"istiod after the disruption", "until ready, ms", "peak CPU, cores", "peak memory, MB", "fullest replica beyond its share",
		"Connections of istiod's replicas", "240 / 80 / 80", "80%", "replicas-3", "request-limit-100")
	spread := spreadTable(f)
	if len(spread.Rows) != spreadRows {
		t.Errorf("%d rows of one cell with several replicas", len(spread.Rows))
	}
	answers := recoveryAnswers(f)
	if len(answers) != maxRecoveryAnswers || !strings.HasPrefix(answers[0], "With dropped, the last proxy had its configuration again 4") || !strings.Contains(answers[0], "half of them after 2") || !strings.Contains(answers[0], "istiod needed up to 30") {
		t.Errorf("%q", answers)
	}
	says(t, rendered(t, leversTable(f)), "last proxy back", "p99 proxy back", "peak memory")
	other := reporttest.Tuning(t)
	if text := render(t, other, "text", report.Options{Width: 200}); strings.Contains(text, "disruption") || len(recoveryAnswers(other)) > 0 {
		t.Error("a study without a disruption tells of one")
	}
}

// Of one block the tables have its figures, and dashes for what never came.
func TestRecoveryOfOneBlock(t *testing.T) {
	f := reporttest.Storm(t)
	for i := range f.Findings {
		f.Findings[i].Verdict = record.VerdictInvalid
	}
	for i := range f.Cells {
		f.Cells[i].Control.Recovery.RecoveredUS = f.Cells[i].Control.Recovery.RecoveredUS[:200]
	}
	tables := recoveryTables(f)
	says(t, rendered(t, tables[0]), "first, ms", "p50, s", "not valid")
	if at := recoveredAt(0.5)(f.Cells[0].Control); at != float64(f.Cells[0].Control.Recovery.RecoveredUS[199]) {
		t.Errorf("the median came back at %v", at)
	}
}

// A column names the unit of its figures. One that has none names none, where its
// figures would have been in seconds.
func TestUnitOfAColumnWithoutFigures(t *testing.T) {
	f := reporttest.Storm(t)
	for i, x := range f.Findings {
		if x.Name == "recovery_last" {
			f.Findings[i] = record.Finding{Name: x.Name, Probe: x.Probe, Cell: x.Cell, Unit: x.Unit, Verdict: record.VerdictInvalid, Reason: record.ReasonNotReached}
		}
	}
	for _, c := range f.Cells {
		c.Control.Recovery.RecoveredUS = c.Control.Recovery.RecoveredUS[:200]
	}
	var heads []string
	for _, c := range recoveryTables(f)[0].Columns {
		heads = append(heads, c.Head)
	}
	if !slices.Contains(heads, "p99, s") || !slices.Contains(heads, "last") {
		t.Errorf("the columns are %q", heads)
	}
}
