package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// rendered is a table as text.
// rendered are tables as a wide terminal shows them.
func rendered(t *testing.T, tables ...report.Table) string { return renderedIn(t, 200, tables...) }

func renderedIn(t *testing.T, width int, tables ...report.Table) string {
	t.Helper()
	of := report.Kind{Name: "tables", Answers: func(record.Findings) []string { return nil },
		Sections: []report.Section{{Name: "tables", Tables: func(record.Findings) []report.Table { return tables }}}}
	var b strings.Builder
	if err := (report.Kinds{of}).Render(&b, record.Findings{Kind: of.Name}, "text", report.Options{Width: width}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// A stage that nobody measured is a dash and not a nought, and is said to be
// in what is unexplained.
func TestMissingStageIsShown(t *testing.T) {
	text := rendered(t, waterfallTable(reporttest.Tuning(t)))
	says(t, text, "wire", "–", "not measured; included in unexplained")
}

func TestSecondSources(t *testing.T) {
	f := reporttest.Tuning(t)
	text := rendered(t, secondSources(f))
	says(t, text, "generate", "pilot_xds_push_time ", "istiod's log less pilot_proxy_queue_time", "none of 5")
	for i := range f.Cells {
		for k := range f.Cells[i].Control.Stages {
			if s := &f.Cells[i].Control.Stages[k]; s.CheckUS != nil && f.Cells[i].Label == "replicas-2" {
				apart := s.MeanUS + 9000
				s.CheckUS = &apart
			}
		}
	}
	says(t, rendered(t, secondSources(f)), "1 of 5")
	for i := range f.Cells {
		f.Cells[i].Control.Stages = nil
	}
	if text := secondSources(f); len(text.Rows) != 0 {
		t.Errorf("of nothing:\n%s", rendered(t, text))
	}
}

// What istiod's processes cost, keep and run.
func TestCostTables(t *testing.T) {
	f := reporttest.Tuning(t)
	says(t, rendered(t, controlCostTable(f)), "istiod CPU per change", "API server CPU per change", "API server idle", "median over the cell's trials")
	says(t, rendered(t, runtimeTable(f)), "heap in use", "allocated, MB/s", "goroutines", "640")
	says(t, rendered(t, metricsTable(f)), "pilot_xds_write_timeout", "zero, or unknown")
}

// Less than idle is told as it is, in many blocks and in one; of many it is
// inconclusive.
func TestCostsBelowIdle(t *testing.T) {
	for _, blocks := range []int{1, 3} {
		f := reporttest.ControlPlane(t, "control-plane-tuning", blocks, func(trial *record.Trial, _ []record.Event) {
			if trial.Cell[study.FactorVariant] == "sidecar" {
				trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 0.01}}
			}
		})
		for _, row := range controlCostTable(f).Rows {
			negative, doubted := strings.HasPrefix(row[1].S, "-"), strings.HasSuffix(row[1].S, " ?")
			if below := row[0].S == "sidecar"; negative != below || doubted != (below && blocks > 1) {
				t.Errorf("%d blocks: %v", blocks, row)
			}
		}
	}
}

// Profiles are tables of the dearest functions, by themselves and with all
// they call; one in which nothing was spent is left out.
func TestProfileTables(t *testing.T) {
	text := ""
	for _, one := range profileTables(reporttest.Tuning(t)) {
		if len(one.Rows) > 0 {
			text += one.Title + "\n" + rendered(t, one)
		}
	}
	says(t, text, "istiod 0: CPU, 2,000 ms in all (200 samples) in 27 s (none)", " 15%", " 21%", "scanobject",
		"xds.(*DiscoveryServer).pushDeltaXds", " 70%", "proto.MarshalOptions.marshal[...]", "profiles/b000-t00-istiod-0-cpu.svg", "istiod 0: blocked, 90.0 s in all in", "88.9%")
	if strings.Contains(text, "waiting for locks") || strings.Contains(text, "istio.io/") {
		t.Error(text)
	}
}

// Of three samples nothing is told but that.
func TestProfileOfTooFewSamples(t *testing.T) {
	p := record.Profile{Kind: "cpu", Unit: "nanoseconds", Total: 30_000_000, Flame: "f.svg", Flat: []record.ProfileCost{{Function: "f", Flat: 10_000_000, Cumulative: 10_000_000}}}
	one := profileRows(report.Table{}, p, p.Flat, "self")
	if len(one.Rows) != 1 || !strings.Contains(one.Rows[0][2].S, "only 3 samples: too few to say where CPU time went") || !strings.Contains(strings.Join(one.Notes, ""), "of so few samples") {
		t.Errorf("%+v", one)
	}
	if more := profileRows(report.Table{}, p, p.Flat, "cumulative"); len(more.Rows) != 0 {
		t.Errorf("%+v", more)
	}
}

// A CPU profile says of how many samples it is; of few its shares have no
// decimals, and a note says what one of them is.
func TestProfileSamples(t *testing.T) {
	for _, tt := range []struct {
		total int64
		share string
		note  string
	}{
		{510_000_000, "10% (4–21)", "Only 51 samples: one sample is 2% of the total"},
		{1_000_000_000, "5% (2–11)", ""},
		{10_000_000_000, "0.5%", ""},
	} {
		p := record.Profile{Kind: "cpu", Unit: "nanoseconds", Total: tt.total, Flat: []record.ProfileCost{{Function: "f", Flat: 50_000_000, Cumulative: 50_000_000}}}
		one := profileRows(report.Table{}, p, p.Flat, "self")
		if got := one.Rows[0][0].S; got != tt.share {
			t.Errorf("%d: %s, want %s", tt.total, got, tt.share)
		}
		if got := strings.Join(one.Notes, "\n"); !strings.HasPrefix(got, tt.note) || (got == "") != (tt.note == "") {
			t.Errorf("%d: %q", tt.total, got)
		}
	}
	if n := cpuSamples(record.Profile{Kind: "heap", Unit: "bytes", Total: 1e9}); n != 0 {
		t.Errorf("a heap has %d samples", n)
	}
}
