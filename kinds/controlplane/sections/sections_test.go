package sections

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

var render = reporttest.Of{Kind: Kind()}.Render

// TestGolden checks this kind's words and tables that the reports of kinds/reports do not show:
// each kind of answer once, and what is said if something is missing.
func TestGolden(t *testing.T) {
	var w reporttest.Words
	leverWords(&w)
	intervalWords(&w)
	convergenceWords(&w)
	costWords(t, &w)
	holdingWords(&w)
	soakWords(&w)
	tuningWords(&w)
	for _, f := range []record.Findings{reporttest.Phantom(t), reporttest.Routes(t), reporttest.Attached(t), reporttest.Storm(t)} {
		w.Add(f.Study, render(t, f, "text", report.Options{Width: 200}))
	}
	golden.File(t, filepath.Join("testdata", "words.txt"), w.Bytes())
}

func leverWords(w *reporttest.Words) {
	lever, none := record.Cell{"variant": "lever"}, record.Cell{"variant": "none"}
	plain := map[string]record.Finding{
		"convergence_p50\x00" + lever.Key(): {Estimate: 1.27e6, Verdict: record.VerdictMeasured},
		"convergence_p50\x00" + none.Key():  {Estimate: 1e6, Verdict: record.VerdictMeasured},
	}
	for _, c := range []struct {
		verdict  string
		estimate float64
	}{
		{record.VerdictReal, -0.25e6}, {record.VerdictReal, 0.25e6}, {record.VerdictNoEffect, 0.01e6}, {record.VerdictInconclusive, -0.25e6},
		{record.VerdictReal, -1.1e6}, // nothing would be left: other blocks
	} {
		x := record.Finding{Name: "convergence_p50_overhead", Unit: "us", Cell: lever, Against: none, Estimate: c.estimate, Verdict: c.verdict}
		got := leverPart(plain, "convergence_p50", x, "the median time")
		w.Add(fmt.Sprintf("a lever: %s of %g us", c.verdict, c.estimate), got.text, fmt.Sprintf("moved %v, left %.4g", got.moved, got.left))
	}
	base, slow := record.Cell{study.FactorVariant: "sidecars"}, record.Cell{study.FactorVariant: "every-address"}
	f := record.Findings{Cells: []record.CellSummary{{Cell: base, Baseline: true}, {Cell: slow}}}
	add := func(name string, cell, against record.Cell, estimate float64, verdict, unit string) {
		f.Findings = append(f.Findings, record.Finding{Name: name, Cell: cell, Against: against, Estimate: estimate, Verdict: verdict, Unit: unit})
	}
	add("istiod_cpu_per_change", base, nil, 23e3, record.VerdictMeasured, finding.UnitPerChange)
	add("istiod_cpu_per_change", slow, nil, 515e3, record.VerdictMeasured, finding.UnitPerChange)
	add("istiod_cpu_per_change_overhead", slow, base, 492e3, record.VerdictReal, finding.UnitPerChange)
	add("pushes", base, nil, 4050, record.VerdictMeasured, "pushes")
	add("pushes", slow, nil, 5348, record.VerdictMeasured, "pushes")
	add("pushes_overhead", slow, base, 1298, record.VerdictInconclusive, "pushes")
	w.Add("a lever that costs CPU", leverAnswers(f))
	f.Findings[2].Verdict = record.VerdictInconclusive
	w.Add("an unknown lever", leverAnswers(f))
	for _, x := range []struct {
		low, high       float64
		reason, verdict string
	}{
		{1000, 2000, "", record.VerdictMeasured}, {0, 500, "", record.VerdictMeasured}, {4000, 4000, "", record.VerdictMeasured},
		{1000, 2000, record.ReasonOneBlock, record.VerdictInconclusive}, {1000, 1000, record.ReasonNotSure, record.VerdictMeasured},
		{0, 2000, record.ReasonNotSure, record.VerdictMeasured}, {0, 0, record.ReasonNotSure, record.VerdictInconclusive}, {0, 0, "", record.VerdictInvalid},
	} {
		f := record.Findings{Findings: []record.Finding{{Name: "highest_proxies", Unit: "sidecars", Low: x.low, Estimate: x.low, High: x.high,
			Cell: record.Cell{"change_rate": "2"}, Reason: x.reason, Verdict: x.verdict}}}
		w.Add(fmt.Sprintf("search %g to %g, %s %s", x.low, x.high, x.verdict, x.reason), report.SearchAnswers(f))
	}
}

func intervalWords(w *reporttest.Words) {
	s := report.Scale{Div: 1, Unit: "pushes"}
	for _, x := range []record.Finding{
		{Estimate: 540, Low: 540, High: 540, Blocks: 2}, {Estimate: 540, Low: 540, High: 540, Blocks: 2, Probe: "search"}, {Estimate: 540, Low: 539, High: 541, Blocks: 3},
	} {
		x.Verdict = record.VerdictMeasured
		w.Add(fmt.Sprintf("%g to %g %s", x.Low, x.High, x.Probe), report.WithInterval(s, x), report.Figure(x, s).S)
	}
	for _, r := range [][2]float64{{-0.647714, -0.647708}, {-0.647711, -0.647711 + 1e-15}, {-0.6481, -0.6473}} {
		x := record.Finding{Verdict: record.VerdictReal, Relative: &record.Ratio{Estimate: -0.647711, Low: r[0], High: r[1]}}
		w.Add(fmt.Sprintf("ratio %g to %g", r[0], r[1]), report.Relative(x).S)
	}
	for _, x := range [][3]float64{{10_000, 14_900, 20_000}, {-40_000, 14_900, 70_000}, {0, 14_900, 30_000}, {-30_000, -14_900, -1000}} {
		w.Add(fmt.Sprintf("hidden %g", x), hiddenWords(record.Finding{Low: x[0], Estimate: x[1], High: x[2], Unit: "us"}))
	}
}

func convergenceWords(w *reporttest.Words) {
	applied := record.LatencyAt(0.5, 130_000, 1, 190_000)
	w.Add("Envoys alone", cellAnswers(record.Findings{Cells: make([]record.CellSummary, 1)}, record.CellSummary{Control: &record.ControlSummary{Pairs: 20, Applied: &applied}}),
		cellAnswers(record.Findings{}, record.CellSummary{Control: &record.ControlSummary{}}))
}

func costWords(t *testing.T, w *reporttest.Words) {
	f := reporttest.Tuning(t)
	for i := range f.Cells {
		f.Cells[i].Control.Installed = record.Cell{"istiod_replicas": "3", "debounce_after": "1s", "xds_cache": "true"}
	}
	delete(f.Cells[1].Control.Installed, "debounce_after") // a cell that names it
	f.Cells[2].Control.Installed["istiod_replicas"] = "2"
	w.Add("levers as installed", installedTable(f))
	delete(f.Cells[1].Control.Parts, record.PartServerProxy)
	w.Add("a part that nobody counted", machineTable(f))
	for _, blocks := range []int{1, 3} { // less than idle is inconclusive in many blocks
		f := reporttest.ControlPlane(t, "control-plane-tuning", blocks, func(trial *record.Trial, _ []record.Event) {
			if trial.Cell[study.FactorVariant] == "sidecar" {
				trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 0.01}}
			}
		})
		w.Add(fmt.Sprintf("less than idle in %d blocks", blocks), controlCostTable(f))
	}
	for _, total := range []int64{30_000_000, 510_000_000, 1_000_000_000, 10_000_000_000} {
		p := record.Profile{Kind: "cpu", Unit: "nanoseconds", Total: total, Flat: []record.ProfileCost{{Function: "f", Flat: 50_000_000, Cumulative: 50_000_000}}}
		w.Add(fmt.Sprintf("a profile of %d samples", cpuSamples(p)), functionTables(p, "a profile"))
	}
	one := reporttest.IdleSidecars(t)
	one.Cells = one.Cells[:1]
	one.Findings = slices.DeleteFunc(one.Findings, func(x record.Finding) bool {
		return slices.Contains([]string{"envoy_cpu_idle", "sidecar_memory_idle", "sidecar_cpu_changing"}, x.Name)
	})
	w.Add("one figure of sidecars", sidecarAnswers(one))
	storm := reporttest.Storm(t)
	for i, x := range storm.Findings {
		storm.Findings[i] = record.Finding{Name: x.Name, Probe: x.Probe, Cell: x.Cell, Unit: x.Unit, Verdict: record.VerdictInvalid, Reason: record.ReasonNotReached}
	}
	w.Add("recovery of which the last was not reached", recoveryTables(storm)[0])
}

func holdingWords(w *reporttest.Words) {
	held := record.Holding{Proxy: "a.test-1", Namespace: "test-1", Type: "sidecar", Proxies: 5, DumpBytes: 100_000, WireBytes: 20_000, Resources: 30,
		Others: record.OwnerBytes{DumpBytes: 10_000, WireBytes: 2_000, Resources: 3}, OtherOwners: 7}
	for i, name := range []string{"Service a/a", "Service a/b", "mesh defaults", "ServiceEntry x/y", "Service a/c"} {
		held.Owners = append(held.Owners, record.OwnerBytes{Owner: name, DumpBytes: int64(30_000 - 6000*i), WireBytes: int64(6000 - 1200*i), Resources: 10 - i})
	}
	real := record.Holding{Proxy: "real-1.test-1", Namespace: "test-1", Type: "sidecar", Real: true, Proxies: 1, DumpBytes: 300_000, Resources: 50, Owners: []record.OwnerBytes{{Owner: "mesh bootstrap", DumpBytes: 300_000, Resources: 1}}}
	router := record.Holding{Type: "router", Namespace: "edge", Proxies: 1, DumpBytes: 1}
	f := record.Findings{Cells: []record.CellSummary{{Control: &record.ControlSummary{Holdings: []record.Holding{real, held, router}}}}}
	w.Add("what proxies hold", holdingTable(f), holdingTable(record.Findings{Cells: []record.CellSummary{{Control: &record.ControlSummary{}}}}))
}

// soakFindings returns the findings of a soak with each possible answer.
func soakFindings() record.Findings {
	day := 24.0
	ratio := func(e, low, high float64) *record.Ratio { return &record.Ratio{Estimate: e, Low: low, High: high} }
	return record.Findings{Kind: record.KindControlPlane, Study: "soak", Validity: record.ValiditySummary{Trials: 118, Valid: 118},
		Findings: []record.Finding{
			{Name: controlplane.SlopeMemory, Unit: "bytes/h", Estimate: 12e6, Low: 10e6, High: 14e6, Margin: 10e6, Relative: ratio(0.06, 0.05, 0.07), Blocks: 79, Verdict: record.VerdictReal},
			{Name: controlplane.SlopeHeap, Unit: "bytes/h", Estimate: 5e6, Low: 2e6, High: 8e6, Margin: 3e6, Relative: ratio(0.08, 0.03, 0.13), Blocks: 79, Verdict: record.VerdictInconclusive, Reason: record.ReasonSettling, Warnings: []note.Note{note.Plain("it rises, but less and less")}},
			{Name: controlplane.SlopeSidecar, Unit: "bytes/h", Estimate: -20e3, Low: -300e3, High: 260e3, Margin: 2.5e6, Relative: ratio(-0.0004, -0.006, 0.005), Blocks: 79, Verdict: record.VerdictNoEffect, Reason: record.ReasonWithinMargin},
			{Name: controlplane.SlopeP50, Unit: "ratio/h", Estimate: 0.02, Low: -0.03, High: 0.07, Margin: 0.05, Relative: ratio(0.02, -0.03, 0.07), Blocks: 79, Verdict: record.VerdictInconclusive, Reason: record.ReasonTooShort},
			{Name: controlplane.SlopeP99, Unit: "ratio/h", Estimate: 0.3, Low: 0.3, High: 0.3, Open: record.OpenBoth, Margin: 0.05, Blocks: 5, Verdict: record.VerdictInconclusive, Reason: record.ReasonTooShort},
		},
		Soak: &record.Soak{Hours: 1.97, Windows: 118, Lives: 2, Elsewhere: 9, MarginRatio: 0.05, LimitBytes: 2 << 30, LimitIs: "istiod's memory limit of 2Gi", Growths: []record.Growth{
			{Finding: controlplane.SlopeMemory, Unit: "bytes", First: 180e6, Warm: 200e6, Last: 208e6, FullHours: 6.8 * day, FullLowHours: 5.8 * day, FullHighHours: 8.1 * day},
			{Finding: controlplane.SlopeHeap, Unit: "bytes", First: 50e6, Warm: 60e6, Last: 63e6, NeedsHours: 4},
			{Finding: controlplane.SlopeSidecar, Unit: "bytes", First: 50e6, Warm: 51e6, Last: 51e6},
			{Finding: controlplane.SlopeP50, Unit: "us", First: 150e3, Warm: 151e3, Last: 153e3, NeedsHours: 2.9},
			{Finding: controlplane.SlopeP99, Unit: "us", First: 250e3, Last: 251e3},
		}}}
}

func soakWords(w *reporttest.Words) {
	f := soakFindings()
	w.Add("a soak", soakAnswers(f), soakTable(f))
	f.Soak.Windows = 1
	w.Add("a soak of one window", soakAnswers(f))
}

// tunedFindings returns the findings of a tuning that recommends a Sidecar and a longer debounce.
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
		Kept: []record.TunedBound{{Constraint: "convergence_p99<=3000000 us", Verdict: record.TunedMet, Says: note.Plain("2.4 s (2.2 s to 2.6 s)")}}}
	advice.Careful(t)
	return record.Findings{Kind: record.KindControlPlane, Study: "tuned", Validity: record.ValiditySummary{Trials: 36, Valid: 36}, Tuning: t,
		Factors: []record.FactorLevels{{Factor: "sidecar_scope", Levels: []string{"installed", "mesh"}}}}
}

func tuningWords(w *reporttest.Words) {
	add := func(name, verdict string, relative float64, spoil func(*record.Tuning)) record.Findings {
		f := tunedFindings(verdict, relative)
		if spoil != nil {
			spoil(f.Tuning)
		}
		w.Add("tuning: "+name, tuningAnswers(f), fmt.Sprintf("%d tables", len(tuningTables(f))))
		return f
	}
	w.Add("tuning: all tables", tuningTables(add("recommended", record.VerdictReal, -0.86, nil)))
	for _, c := range []struct {
		verdict  string
		relative float64
	}{{record.VerdictReal, 0.2}, {record.VerdictNoEffect, -0.01}, {record.VerdictInconclusive, -0.1}} {
		add(fmt.Sprintf("%s %g", c.verdict, c.relative), c.verdict, c.relative, nil)
		add("mends a constraint, "+c.verdict, c.verdict, 0.2, func(t *record.Tuning) { t.Kept[0].Present = record.TunedBroken })
	}
	for _, verdict := range []string{record.TunedBroken, record.VerdictInconclusive} {
		add("constraint "+verdict, record.VerdictReal, -0.86, func(t *record.Tuning) { t.Kept[0].Verdict = verdict })
	}
	add("dear", record.VerdictReal, -0.86, func(t *record.Tuning) { t.Confirmed[1].Verdict, t.Seconds = record.VerdictReal, 900 })
	lost := add("not reached", record.VerdictInvalid, 0, func(t *record.Tuning) {
		t.Confirmed[0].Finding = record.Finding{Name: "convergence_last_overhead", Unit: "us", Verdict: record.VerdictInvalid, Reason: record.ReasonNotReached, Warnings: []note.Note{note.Plain("mesh: not reached: in 2 of 4 trials")}}
		t.Confirmed[0].After = record.TunedValue{}
	})
	w.Add("tuning: not reached, in the table", confirmedTable(lost.Tuning))
	for name, spoil := range []func(*record.Tuning){
		func(t *record.Tuning) {},
		func(t *record.Tuning) { t.Cells[1].Allowed = 0.02 },
		func(t *record.Tuning) {
			t.Lacking, t.Stop = "stale_proxy_seconds_per_change", "no trial has stale_proxy_seconds_per_change"
		},
		func(t *record.Tuning) { t.Stop = "" },
	} {
		add(fmt.Sprintf("nothing is recommended (%d)", name), record.VerdictReal, -0.86, func(t *record.Tuning) {
			t.Recommended, t.Kept = nil, nil
			spoil(t)
		})
	}
	f := tunedFindings(record.VerdictReal, -0.86)
	f.Factors = append(f.Factors, record.FactorLevels{Factor: "push_throttle", Levels: []string{"installed", "10"}})
	for i := range f.Tuning.Cells {
		f.Tuning.Cells[i].Cell["push_throttle"] = "installed"
	}
	f.Tuning.Confirmed[1].Relative = &record.Ratio{Estimate: 1.8, Low: -1, High: 114504}
	w.Add("tuning: a cell is told by what is moved in it", frontTable(f), confirmedTable(f.Tuning))
}

func TestTooFewPairs(t *testing.T) {
	k := &record.ControlSummary{Trials: 2, Acknowledged: 80, Convergence: record.LatencyAt(0.99, 5), Followed: 40}
	c := record.CellSummary{Valid: 2, Control: k}
	for name, want := range map[string]bool{"convergence_p99": true, "convergence_p999": true, "convergence_p50": false, "applied_p99": false, "pushes": false} {
		if got := tooFewPairs(name, c); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if tooFewPairs("convergence_p99", record.CellSummary{Control: k}) || tooFewPairs("convergence_p99", record.CellSummary{Valid: 1, Control: &record.ControlSummary{}}) {
		t.Error("not valid has too few pairs")
	}
	other := record.CellSummary{Control: &record.ControlSummary{Trials: 1, Acknowledged: 1140, Followed: 20}}
	if got := pairsNote(record.Findings{Cells: []record.CellSummary{c, other, {Control: &record.ControlSummary{}}}}); !strings.Contains(got, "change-proxy pairs, 40–1,140 from 20 changes per trial: a percentile") {
		t.Error(got)
	}
	if got := pairsNote(record.Findings{}); strings.Contains(got, "per trial:") {
		t.Error(got)
	}
}

// Control-plane findings with extreme values render in every format.
func TestControlRendersWhatIsNotThere(t *testing.T) {
	empty := reporttest.Tuning(t)
	for i := range empty.Cells {
		empty.Cells[i].Control = &record.ControlSummary{}
	}
	bare := empty
	bare.Findings, bare.NoiseFloor, bare.Published = nil, nil, nil
	invalid := reporttest.Tuning(t)
	for i := range invalid.Findings {
		x := &invalid.Findings[i]
		*x = record.Finding{Name: x.Name, Cell: x.Cell, Against: x.Against, Unit: x.Unit, Verdict: record.VerdictInvalid}
	}
	for _, f := range []record.Findings{empty, bare, invalid, {Kind: record.KindControlPlane, Cells: []record.CellSummary{{Control: &record.ControlSummary{}}}, Validity: record.ValiditySummary{Trials: 1, Valid: 1}}} {
		for _, format := range report.Formats() {
			if s := render(t, f, format, report.Options{}); format != "html" && strings.Contains(s, "NaN") || strings.Contains(s, "+Inf") {
				t.Errorf("%s shows what is no number", format)
			}
		}
	}
	if s := render(t, invalid, "text", report.Options{Width: 200}); !strings.Contains(s, "not valid") {
		t.Error("invalid findings are not told")
	}
}

// The stages shown add up at terminal width too: with many factors a row becomes a paragraph.
func TestWaterfallLeavesOutNoStage(t *testing.T) {
	k := &record.ControlSummary{MeanUS: 5_455_500, ResidualUS: -1200}
	for i, name := range record.Stages() {
		k.Stages = append(k.Stages, record.Stage{Name: name, MeanUS: float64(i)*1e6 - 4100})
	}
	cell := record.Cell{"variant": "discovery-selectors"}
	factors := []record.FactorLevels{{Factor: "variant", Levels: []string{"none", "discovery-selectors"}}}
	for _, more := range []string{"", "services", "virtual_services", "destination_rules"} {
		if more != "" {
			cell[more] = "10000"
			factors = append(factors, record.FactorLevels{Factor: more, Levels: []string{"100", "10000"}})
		}
		table := waterfallTable(record.Findings{Factors: factors, Cells: []record.CellSummary{{Cell: cell, Label: "discovery-selectors", Control: k}}})
		out := reporttest.TextOf(t, 100, table)
		for _, s := range []string{"watch", "debounce", "context", "queue", "generate", "wire", "ack", "unexplained", "-4.1", "5995.9", "-1.2"} {
			if !strings.Contains(strings.ReplaceAll(out, ",", ""), s) {
				t.Errorf("with %d factors %q is not there:\n%s", len(factors), s, out)
			}
		}
		if strings.Contains(out, "- discovery-selectors; ") != (more != "") {
			t.Errorf("with %d factors:\n%s", len(factors), out)
		}
		if !slices.ContainsFunc(table.Notes, func(n string) bool { return strings.HasPrefix(n, "Negative watch") }) {
			t.Errorf("nothing is said of a negative watch: %q", table.Notes)
		}
	}
}
