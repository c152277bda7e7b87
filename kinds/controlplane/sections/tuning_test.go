package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// tunedFindings are those of a tuning that recommends a Sidecar and a longer debounce.
func tunedFindings(verdict string, relative float64) record.Findings {
	value := func(v float64) record.TunedValue {
		return record.TunedValue{Known: true, Estimate: v, Low: 0.9 * v, High: 1.1 * v}
	}
	compared := record.TunedDifference{Finding: record.Finding{Name: "pushes_overhead", Unit: "pushes", Verdict: verdict, Estimate: 500 * relative, Blocks: 4,
		Relative: &record.Ratio{Estimate: relative, Low: relative - 0.01, High: relative + 0.01}}, Before: value(500), After: value(500 * (1 + relative))}
	hidden := record.TunedDifference{Finding: record.Finding{Name: "reported_convergence_p99_overhead", Unit: "us", Verdict: record.VerdictNoEffect, Estimate: 1}, Before: value(99e3), After: value(98e3)}
	t := &record.Tuning{Objectives: []string{"pushes"}, Constraints: []string{"convergence_p99<=3000000 us"}, Grid: 96, Trials: 24, Most: 24, Blocks: 4, Stop: "all 24 trials are made",
		Measures: []record.TunedMeasure{{Finding: "pushes", Unit: "pushes", Axis: true, NoiseRatio: 0.03}, {Finding: "stale_proxy_seconds_per_change", Missing: "no trial has one"}},
		Cells: []record.TunedCell{
			{Cell: record.Cell{"sidecar_scope": "mesh"}, Trials: 4, Objective: record.Ratio{Estimate: -0.86, Low: -0.88, High: -0.84}, Allowed: 0.97, Values: []record.TunedValue{value(70), {}}, Front: true, Recommended: true},
			{Cell: record.Cell{"sidecar_scope": "installed"}, Trials: 4, Allowed: 1, Values: []record.TunedValue{value(500), {}}, Present: true},
		},
		Recommended: record.Cell{"sidecar_scope": "mesh", "sidecar_hosts": "istio-system/*,prometheus/*", "outbound_policy": "REGISTRY_ONLY", "debounce_after": "2.5s"},
		Present:     record.Cell{"sidecar_scope": "none", "sidecar_hosts": "", "outbound_policy": "ALLOW_ANY", "debounce_after": "100ms"},
		Verdict:     verdict, Confirmed: []record.TunedDifference{compared, hidden}, ConfirmBlocks: 4,
		Kept: []record.TunedBound{{Constraint: "convergence_p99<=3000000 us", Verdict: record.TunedMet, Says: "2.4 s (2.2 s to 2.6 s)"}}}
	advice.Careful(t)
	return record.Findings{Kind: record.KindControlPlane, Study: "tuned", Validity: record.ValiditySummary{Trials: 36, Valid: 36}, Tuning: t,
		Factors: []record.FactorLevels{{Factor: "sidecar_scope", Levels: []string{"installed", "mesh"}}}}
}

func TestTuningAnswers(t *testing.T) {
	for _, c := range []struct {
		verdict  string
		relative float64
		want     string
	}{
		{record.VerdictReal, -0.86, "Recommended: sidecar_scope mesh (now none), "},
		{record.VerdictReal, 0.2, "Not recommended: the best setting of the search, "},
		{record.VerdictNoEffect, -0.01, "makes no difference beyond the margin in 4 blocks that the search did not see: 1% less of pushes (-2% to 0%)."},
		{record.VerdictInconclusive, -0.1, "is inconclusive in 4 blocks"},
	} {
		f := tunedFindings(c.verdict, c.relative)
		answers := tuningAnswers(f)
		if len(answers) != 2 || !strings.Contains(answers[0], c.want) || !strings.HasPrefix(answers[1], "The search made 24 trials of a grid of 96 cells, in 4 blocks, and ended because all 24 trials") {
			t.Errorf("%s: %q", c.verdict, answers)
		}
	}
	broken := tunedFindings(record.VerdictReal, -0.86)
	broken.Tuning.Kept[0].Verdict = record.TunedBroken
	if answers := tuningAnswers(broken); !strings.HasPrefix(answers[0], "Not recommended: ") || !strings.HasPrefix(answers[1], "It breaks the constraint convergence_p99<=3000000 us: 2.4 s") {
		t.Errorf("a broken constraint: %q", answers)
	}
	if tables := tuningTables(broken); len(tables) != 3 || strings.Contains(tables[0].Title, "Recommended setting") {
		t.Errorf("a setting that breaks a constraint has %d tables", len(tables))
	}
	for _, verdict := range []string{record.VerdictReal, record.VerdictNoEffect, record.VerdictInconclusive} {
		mends := tunedFindings(verdict, 0.2)
		mends.Tuning.Kept[0].Present = record.TunedBroken
		if answers := tuningAnswers(mends); !strings.HasPrefix(answers[0], "Recommended: ") || !strings.Contains(answers[0], "it meets the constraint convergence_p99<=3000000 us, which the setting in use breaks, in 4 blocks that the search did not see: 20% more of pushes") {
			t.Errorf("a constraint that is mended: %q", answers)
		}
		if tables := tuningTables(mends); !strings.Contains(tables[0].Title, "Recommended setting") {
			t.Errorf("a constraint that is mended has no manifest: %q", tables[0].Title)
		}
	}
	doubtful := tunedFindings(record.VerdictReal, -0.86)
	doubtful.Tuning.Kept[0].Verdict = record.VerdictInconclusive
	if answers := tuningAnswers(doubtful); !strings.HasPrefix(answers[0], "Recommended: ") || !strings.HasPrefix(answers[1], "Whether it meets convergence_p99<=3000000 us is inconclusive") {
		t.Errorf("a doubtful constraint: %q", answers)
	}
	dear := tunedFindings(record.VerdictReal, -0.86)
	dear.Tuning.Confirmed[1].Verdict, dear.Tuning.Seconds = record.VerdictReal, 900
	if answers := tuningAnswers(dear); !strings.HasPrefix(answers[1], "What it costs: reported convergence p99 ") || !strings.HasSuffix(answers[2], "trials took 15m0s.") {
		t.Errorf("a cost: %q", answers)
	}
	lost := tunedFindings(record.VerdictInvalid, 0)
	lost.Tuning.Confirmed[0].Finding = record.Finding{Name: "convergence_last_overhead", Unit: "us", Verdict: record.VerdictInvalid, Reason: record.ReasonNotReached, Warnings: []string{"mesh: not reached: in 2 of 4 trials"}}
	lost.Tuning.Confirmed[0].After = record.TunedValue{}
	if answers := tuningAnswers(lost); !strings.HasSuffix(answers[0], "is better is not known: mesh: not reached: in 2 of 4 trials.") {
		t.Errorf("not reached: %q", answers)
	}
	if table := confirmedTable(lost.Tuning); len(table.Rows) != 2 || table.Rows[0][2].S != "-" || table.Rows[0][3].S != "not reached" || table.Notes[0] != "convergence_last: mesh: not reached: in 2 of 4 trials." {
		t.Errorf("not reached: %+v", table)
	}
	f := tunedFindings(record.VerdictReal, -0.86)
	f.Tuning.Recommended, f.Tuning.Kept = nil, nil
	if answers := tuningAnswers(f); !strings.HasPrefix(answers[0], "Nothing that was tried is better") {
		t.Errorf("nothing better: %q", answers)
	}
	f.Tuning.Cells[1].Allowed = 0.02
	if answers := tuningAnswers(f); !strings.HasPrefix(answers[0], "No setting that was tried is known to meet the constraints, and the one in use meets them with a probability of 2%") {
		t.Errorf("nothing meets the constraints: %q", answers)
	}
	f.Tuning.Lacking, f.Tuning.Stop = "stale_proxy_seconds_per_change", "no trial has stale_proxy_seconds_per_change"
	if answers := tuningAnswers(f); !strings.HasPrefix(answers[0], "No answer: no trial has stale_proxy_seconds_per_change.") {
		t.Errorf("nothing was measured: %q", answers)
	}
	f.Tuning.Stop = ""
	if answers := tuningAnswers(f); len(answers) != 1 || !strings.Contains(answers[0], "has not ended") {
		t.Errorf("interrupted: %q", answers)
	}
	if answers := tuningAnswers(record.Findings{}); answers != nil {
		t.Errorf("no tuning: %q", answers)
	}
}

// A cell is told by what is moved in it, and a value with one unit; a bound that says
// nothing is not spelt out.
func TestFrontTable(t *testing.T) {
	f := tunedFindings(record.VerdictReal, -0.86)
	f.Factors = append(f.Factors, record.FactorLevels{Factor: "push_throttle", Levels: []string{"installed", "10"}})
	for i := range f.Tuning.Cells {
		f.Tuning.Cells[i].Cell["push_throttle"] = "installed"
	}
	table := frontTable(f)
	if got := table.Rows[0][0].S; got != "sidecar scope mesh" {
		t.Errorf("the first is told as %q", got)
	}
	if got := table.Rows[1][0].S; got != "as in use" {
		t.Errorf("the one in use is told as %q", got)
	}
	if got := table.Rows[0][5].S; got != "70 pushes (63–77)" {
		t.Errorf("pushes are %q", got)
	}
	f.Tuning.Confirmed[1].Relative = &record.Ratio{Estimate: 1.8, Low: -1, High: 114504}
	if got := confirmedTable(f.Tuning).Rows[1][3].S; got != "180% (-100% to more than 1000%)" {
		t.Errorf("a wide interval is %q", got)
	}
}

// Every format has the setting as a manifest, whole and in its lines, and the way there.
func TestTuningReports(t *testing.T) {
	f := tunedFindings(record.VerdictReal, -0.86)
	kinds := report.Kinds{Kind()}
	for _, format := range []string{"text", "markdown", "json"} {
		var out strings.Builder
		if err := kinds.Render(&out, f, format, report.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		wants := []string{"kind: Sidecar", "REGISTRY_ONLY", "PILOT_DEBOUNCE_AFTER", "pilot_xds_pushes"}
		if format != "json" {
			wants = append(wants, "\n      egress:\n      - hosts:\n", "The way there", "turn back", "no trial has one", "front, recommended", "met")
		}
		if format == "markdown" {
			wants[3], wants[4] = "REGISTRY_ONLY", "\n  egress:\n  - hosts:\n" // names of metrics are escaped
		}
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, got)
			}
		}
	}
}
