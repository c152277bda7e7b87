package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// soakFindings are those of a soak in which each answer comes up.
func soakFindings() record.Findings {
	day := 24.0
	ratio := func(e, low, high float64) *record.Ratio { return &record.Ratio{Estimate: e, Low: low, High: high} }
	return record.Findings{Kind: record.KindControlPlane, Study: "soak", Validity: record.ValiditySummary{Trials: 118, Valid: 118},
		Findings: []record.Finding{
			{Name: study.SlopeMemory, Unit: "bytes/h", Estimate: 12e6, Low: 10e6, High: 14e6, Margin: 10e6, Relative: ratio(0.06, 0.05, 0.07), Blocks: 79, Verdict: record.VerdictReal},
			{Name: study.SlopeHeap, Unit: "bytes/h", Estimate: 5e6, Low: 2e6, High: 8e6, Margin: 3e6, Relative: ratio(0.08, 0.03, 0.13), Blocks: 79, Verdict: record.VerdictInconclusive, Reason: record.ReasonSettling, Warnings: []string{"it rises, but less and less"}},
			{Name: study.SlopeSidecar, Unit: "bytes/h", Estimate: -20e3, Low: -300e3, High: 260e3, Margin: 2.5e6, Relative: ratio(-0.0004, -0.006, 0.005), Blocks: 79, Verdict: record.VerdictNoEffect, Reason: record.ReasonWithinMargin},
			{Name: study.SlopeP50, Unit: "ratio/h", Estimate: 0.02, Low: -0.03, High: 0.07, Margin: 0.05, Relative: ratio(0.02, -0.03, 0.07), Blocks: 79, Verdict: record.VerdictInconclusive, Reason: record.ReasonTooShort},
			{Name: study.SlopeP99, Unit: "ratio/h", Estimate: 0.3, Low: 0.3, High: 0.3, Open: record.OpenBoth, Margin: 0.05, Blocks: 5, Verdict: record.VerdictInconclusive, Reason: record.ReasonTooShort},
		},
		Soak: &record.Soak{Hours: 1.97, Windows: 118, Lives: 2, Elsewhere: 9, MarginRatio: 0.05, LimitBytes: 2 << 30, LimitIs: "istiod's memory limit of 2Gi", Growths: []record.Growth{
			{Finding: study.SlopeMemory, Unit: "bytes", First: 180e6, Warm: 200e6, Last: 208e6, FullHours: 6.8 * day, FullLowHours: 5.8 * day, FullHighHours: 8.1 * day},
			{Finding: study.SlopeHeap, Unit: "bytes", First: 50e6, Warm: 60e6, Last: 63e6, NeedsHours: 4},
			{Finding: study.SlopeSidecar, Unit: "bytes", First: 50e6, Warm: 51e6, Last: 51e6},
			{Finding: study.SlopeP50, Unit: "us", First: 150e3, Warm: 151e3, Last: 153e3, NeedsHours: 2.9},
			{Finding: study.SlopeP99, Unit: "us", First: 250e3, Last: 251e3},
		}}}
}

func TestSoakAnswers(t *testing.T) {
	want := []string{
		"One istiod lived through 2.0 hours in 118 windows, the longest of 2 lives: the others are left out.",
		"Istiod's memory grows by 12 MB/h (10–14): at this rate istiod's memory limit of 2Gi is reached after 6.8 days (5.8 days to 8.1 days).",
		"Istiod's live heap has not settled: it rises by 5 MB/h (2–8), but less and less; a soak of 4.0 hours would tell whether it goes on.",
		"A real sidecar's memory does not grow by more than 2.5 MB per hour: -20 kB/h (-300 to 260).",
		"Whether p50 convergence grows is inconclusive: 2%/h (-3 to 7); at this scatter it takes about 2.9 hours.",
		"Whether p99 convergence grows is not known: its windows are too few, or too much like their neighbours, for an interval.",
	}
	got := soakAnswers(soakFindings())
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	few := soakFindings()
	few.Soak.Windows = 1
	if got := soakAnswers(few); len(got) != 1 || got[0] != "Whether anything grows is unknown: only 1 of 118 windows, in one life of istiod, can be used." {
		t.Errorf("of one window: %q", got)
	}
	if got := soakAnswers(record.Findings{}); got != nil {
		t.Errorf("no soak: %q", got)
	}
}

// Every format has each figure's growth.
func TestSoakReports(t *testing.T) {
	for _, format := range []string{"text", "markdown", "json", "csv", "html"} {
		got := render(t, soakFindings(), format, report.Options{Width: 180})
		wants := map[string][]string{
			"text":     {"What grew in 2.0 hours", "istiod's memory", "still settling", "does not grow", "6.8 days", "no more than 5.0% of a figure"},
			"markdown": {"What grew in 2.0 hours", "istiod's live heap", "grows"},
			"json":     {`"soak":`, `"full_h": 163.2`, `"memory_slope"`},
			"csv":      {"memory_slope,12000000,10000000,14000000,bytes/h,79,,real", "convergence_p99_slope,0.3,,,ratio/h"},
			"html":     {"still settling"},
		}[format]
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%.3000s", format, want, got)
			}
		}
	}
}
