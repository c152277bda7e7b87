package sections

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// A control-plane report says what each lever does, and has no empty tables of
// the data plane.
func TestControlReport(t *testing.T) {
	f := reporttest.Tuning(t)
	answers := answersOf(f)
	for i, want := range []string{
		"Variant sidecar cuts pushes from 480 to 80, cuts the median time from commit to ACK from 119 to 112 ms and cuts istiod's CPU time from 224 to 43.6 ms per change.",
		"Variant sidecar-debounce cuts pushes from 480 to 80, raises the median time from commit to ACK",
		"Neither pushes nor convergence differ from the baseline beyond the margin with replicas-2 and discovery-selectors.",
		"In the baseline (none), half of the 960 change-proxy pairs take at most 119 ms from commit to ACK, and 1 in 100 takes more than 127.2 ms (",
		"Of those 80 changes, half reach half of their proxies within 119 ms and the last one within 127 ms.",
		"debouncing takes 100 ms",
		"it hides 28.2 ms",
		"A change costs istiod 22",
	} {
		if i >= len(answers) || !strings.Contains(answers[i], want) {
			t.Errorf("answer %d is not %q: %q", i, want, answers)
		}
	}
	s := render(t, f, "text", report.Options{Width: 200})
	for _, want := range []string{"Convergence by cell", "Against the baseline", "Where the time goes", "hides", "Push amplification", "by type", "Cost of the control plane", "Published vs. measured"} {
		if !strings.Contains(s, want) {
			t.Errorf("no table %q", want)
		}
	}
	for _, no := range []string{"CPU per request", "Latency by cell", "requests", "received p50"} {
		if strings.Contains(s, no) {
			t.Errorf("%q in a report of the control plane:\n%s", no, s)
		}
	}
}

// What a change costs istiod is told of a cell where it is another than the baseline's, also
// where pushes are not: an istiod that does not keep up sends fewer of them.
func TestLeversTellCPU(t *testing.T) {
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
	const want = "Variant every-address raises istiod's CPU time from 23.0 to 515 ms per change."
	if got := leverAnswers(f); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.Findings[2].Verdict = record.VerdictInconclusive
	if got := leverAnswers(f); len(got) != 0 {
		t.Errorf("told though nobody knows: %q", got)
	}
}

// A report says how many pods had the simulated proxies, where that is more than one.
func TestSimulatorsAreTold(t *testing.T) {
	for want, levels := range map[string][]string{
		"":                          {"1", ""},
		"in 3 pods. Those of":       {"3", "3"},
		"in 1 and 3 pods, by cell.": {"", "3"},
	} {
		var f record.Findings
		for _, level := range levels {
			f.Cells = append(f.Cells, record.CellSummary{Cell: record.Cell{study.FactorSimulators: level}})
		}
		if text := strings.Join(simulatorsNote(f), "\n"); (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// What never arrived comes first, and is no figure among others.
func TestControlFaultsComeFirst(t *testing.T) {
	f := reporttest.Faulty(t)
	answers := answersOf(f)
	if !strings.HasPrefix(answers[0], "Some changes never arrived: of 1,018 change-proxy pairs, 6 never did (replicas-2)") ||
		answers[1] != "The API server refused 2 changes." {
		t.Errorf("%q", answers)
	}
	s := render(t, f, "text", report.Options{Width: 200})
	for _, want := range []string{"6 of 218", "changes that proxies never saw", "more than 5% or 2 ms is unexplained", "proxies 10, 11, 12", "context deadline exceeded"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is not told", want)
		}
	}
}

func TestSearchAnswers(t *testing.T) {
	find := func(low, high float64) record.Finding {
		return record.Finding{Name: "highest_proxies", Unit: "sidecars", Low: low, Estimate: low, High: high, Cell: record.Cell{"change_rate": "2"}, Verdict: record.VerdictMeasured}
	}
	for want, x := range map[string]record.Finding{
		"1,000 sidecars meet the bound at 2 changes per second, 2,000 do not.":             find(1000, 2000),
		"Even 500 sidecars are too many at 2 changes per second.":                          find(0, 500),
		"Every level tried meets the bound at 2 changes per second, up to 4,000 sidecars.": find(4000, 4000),
	} {
		if got := report.SearchAnswers(record.Findings{Findings: []record.Finding{x}}); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	because := func(x record.Finding, reason, verdict string) record.Finding {
		x.Reason, x.Verdict = reason, verdict
		return x
	}
	for want, x := range map[string]record.Finding{
		"1,000 sidecars met the bound at 2 changes per second and 2,000 did not, in the only block: one trial a level is no interval.": because(find(1000, 2000), record.ReasonOneBlock, record.VerdictInconclusive),
		"1,000 sidecars meet the bound at 2 changes per second; with so few blocks, how many more do is unknown.":                      because(find(1000, 1000), record.ReasonNotSure, record.VerdictMeasured),
		"2,000 sidecars are too many at 2 changes per second; with so few blocks, how many are not is unknown.":                        because(find(0, 2000), record.ReasonNotSure, record.VerdictMeasured),
		"How many sidecars meet the bound at 2 changes per second is unknown: trials vary too much for so few blocks.":                 because(find(0, 0), record.ReasonNotSure, record.VerdictInconclusive),
	} {
		if got := report.SearchAnswers(record.Findings{Findings: []record.Finding{x}}); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := report.SearchAnswers(record.Findings{Findings: []record.Finding{{Name: "highest_proxies", Verdict: record.VerdictInvalid}}}); got != nil {
		t.Errorf("%q", got)
	}
}

// The document alone has all that a page draws.
func TestControlJSON(t *testing.T) {
	var f record.Findings
	if err := json.Unmarshal([]byte(render(t, reporttest.Tuning(t), "json", report.Options{})), &f); err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Cells {
		k := c.Control
		if k == nil || len(k.Percentiles) < 5 || len(k.CDF) < 5 || len(k.Stages) != 6 || len(k.Changes) == 0 || len(k.Wire) != 2 || len(k.ConfigBytes) != 3 || len(c.BlockP50US) < 4 {
			t.Fatalf("%s: %+v", c.Label, k)
		}
	}
}

func TestControlCSV(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(render(t, reporttest.Tuning(t), "csv", report.Options{}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	name, value := slices.Index(rows[0], "name"), slices.Index(rows[0], "value")
	seen := map[string]string{}
	for _, row := range rows[1:] {
		if row[2] == "cell" && row[4] == "none" {
			seen[row[name]] = row[value]
		}
	}
	if _, ok := seen["convergence_p999"]; ok || seen["convergence_p99"] == "" {
		t.Errorf("960 pairs have a p99, and no p99.9: %v", seen)
	}
	if seen["pushes_cds"] != "120" || seen["missed"] != "0" || seen["stage_debounce"] != "100000" || seen["latency_intended_p50"] != "" {
		t.Errorf("%v", seen)
	}
}

// Control-plane findings at the edge of what can be render in every format.
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
		for _, format := range report.Formats {
			if s := render(t, f, format, report.Options{}); format != "html" && strings.Contains(s, "NaN") || strings.Contains(s, "+Inf") {
				t.Errorf("%s shows what is no number", format)
			}
		}
	}
	if s := render(t, invalid, "text", report.Options{Width: 200}); !strings.Contains(s, "not valid") {
		t.Error("invalid findings are not told")
	}
}
