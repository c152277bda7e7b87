package reports

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/meshtrial/meshtrial/internal/openmetrics/openmetricstest"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// recorded returns the findings of a run of each kind, as the program left it. The last data-plane
// trial is made invalid here.
func recorded(t *testing.T) map[string]record.Findings {
	t.Helper()
	out := map[string]record.Findings{}
	for _, kind := range []string{record.KindDataPlane, record.KindControlPlane, record.KindResilience, record.KindIngress} {
		run, _, err := store.Load(t.Context(), filepath.Join("..", "testdata", kind))
		if err != nil {
			t.Fatal(err)
		}
		if kind == record.KindDataPlane {
			last := &run.Trials[len(run.Trials)-1].Validity
			last.Valid, last.Checks = false, append(last.Checks, record.Check{Name: "made-up"})
		}
		if out[kind], err = analyses.All().Analyze(run); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Each finding with a figure is a sample of OpenMetrics, with its interval, as Prometheus reads it.
func TestRecordedAsOpenMetrics(t *testing.T) {
	for kind, f := range recorded(t) {
		text := render(t, f, "openmetrics", report.Options{})
		golden.File(t, filepath.Join("testdata", "recorded-"+kind+".openmetrics"), []byte(text))
		figures := 0
		for series := range openmetricstest.Read(t, []byte(text)) {
			if strings.HasPrefix(series, "meshtrial_finding_") && !strings.Contains(series, "_low") && !strings.Contains(series, "_high") {
				figures++
			}
		}
		want := 0
		for _, x := range f.Findings {
			if x.Verdict != record.VerdictInvalid {
				want++
			}
		}
		if figures != want || want == 0 {
			t.Errorf("%s: %d samples of %d findings", kind, figures, want)
		}
	}
	f := recorded(t)[record.KindDataPlane]
	got := openmetricstest.Read(t, []byte(render(t, f, "openmetrics", report.Options{})))
	i := slices.IndexFunc(f.Findings, func(x record.Finding) bool { return x.Name == "latency_p50_overhead" })
	x := f.Findings[i]
	labels := `{study="recorded-data-plane",finding="latency_p50_overhead",cell="sidecars=both",baseline="sidecars=none",quantile="0.5"}`
	for name, us := range map[string]float64{"": x.Estimate, "_low": x.Low, "_high": x.High} {
		if seconds := got["meshtrial_finding"+name+"_seconds"+labels]; math.Abs(seconds*1e6-us) > 1e-6 {
			t.Errorf("%s%s: %v s, want %v us", x.Name, name, seconds, us)
		}
	}
}

// Findings with arbitrary names, and those with extreme values, still make a page.
func TestOpenMetricsOfAnything(t *testing.T) {
	open := reporttest.Quick()
	open.Findings = []record.Finding{
		{Name: "no_interval", Unit: "us/change", Estimate: 2, Low: math.NaN(), High: math.Inf(1), Verdict: record.VerdictMeasured},
		{Name: "at_least", Unit: "1/s", Estimate: 5, Low: 5, High: 5, Open: record.OpenHigh, Verdict: record.VerdictMeasured},
		{Name: "at_most", Unit: "rps", Estimate: 0, Low: 0, High: 7, Open: record.OpenLow, Verdict: record.VerdictMeasured},
		{Name: "none", Verdict: record.VerdictInvalid},
		{Name: "fault", Unit: "missed", Estimate: 1, Low: 0, High: 3, Trials: &record.FaultTrials{}, Verdict: record.VerdictReal},
		{Name: "money", Unit: "Fr./Monat €", Estimate: 3, Low: 2, High: 4, Verdict: record.VerdictMeasured},
		{Name: "cpu", Unit: "mCPU", Estimate: 250, Low: 250, High: 250, Verdict: record.VerdictMeasured},
	}
	got := openmetricstest.Read(t, []byte(render(t, open, "openmetrics", report.Options{})))
	var names []string
	for _, series := range slices.Sorted(maps.Keys(got)) {
		if name, _, _ := strings.Cut(series, "{"); strings.HasPrefix(name, "meshtrial_finding") {
			names = append(names, name+" "+strconv.FormatFloat(got[series], 'g', -1, 64))
		}
	}
	if want := []string{"meshtrial_finding_Fr_per_Monat 3", "meshtrial_finding_cores 0.25", "meshtrial_finding_high_Fr_per_Monat 4",
		"meshtrial_finding_high_cores 0.25", "meshtrial_finding_high_requests_per_second 7", "meshtrial_finding_low_Fr_per_Monat 2",
		"meshtrial_finding_low_cores 0.25", "meshtrial_finding_low_per_second 5", "meshtrial_finding_missed 1", "meshtrial_finding_per_second 5",
		"meshtrial_finding_seconds_per_change 2e-06"}; !slices.Equal(names, want) {
		t.Errorf("%q\nwant %q", names, want)
	}
	for _, f := range []record.Findings{reporttest.Hostile(), reporttest.TwoPod(), reporttest.Bill(t), sizedFindings(t), reporttest.Tuning(t), reporttest.Faulty(t)} {
		openmetricstest.Read(t, []byte(render(t, f, "openmetrics", report.Options{})))
	}
}

// benchmarks parses lines of Go's benchmark format like benchstat.
func benchmarks(t *testing.T, text string) (out []*benchfmt.Result) {
	t.Helper()
	r := benchfmt.NewReader(strings.NewReader(text), "report")
	for r.Scan() {
		switch line := r.Result().(type) {
		case *benchfmt.Result:
			out = append(out, line.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%v in\n%s", line, text)
		}
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	return out
}

// Each cell has a line with its measurements per deployment, as benchstat reads it, and no line has
// invalid values.
func TestRecordedAsBenchmarks(t *testing.T) {
	for kind, f := range recorded(t) {
		text := render(t, f, "benchfmt", report.Options{})
		golden.File(t, filepath.Join("testdata", "recorded-"+kind+".benchfmt"), []byte(text))
		lines := benchmarks(t, text)
		if len(lines) != len(f.Samples) || len(lines) == 0 {
			t.Fatalf("%s: %d lines of %d samples", kind, len(lines), len(f.Samples))
		}
		for i, line := range lines {
			study, cell := "/study="+f.Study, ""
			for _, factor := range slices.Sorted(maps.Keys(f.Samples[i].Cell)) {
				cell += "/" + factor + "=" + f.Samples[i].Cell[factor]
			}
			_, parts := line.Name.Parts()
			var named strings.Builder
			for _, part := range parts {
				named.Write(part)
			}
			if want := study + cell + "-" + strconv.Itoa(f.Machine.CPUs); named.String() != want {
				t.Errorf("%s: named %s, want %s", kind, named.String(), want)
			}
			if len(line.Values) != len(f.Samples[i].Values) || int64(line.Iters) != max(1, f.Samples[i].Requests) {
				t.Errorf("%s: %d values of %d requests", kind, len(line.Values), line.Iters)
			}
			for k, v := range f.Samples[i].Values {
				unit, want := line.Values[k].Unit, v.Value
				if v.Unit == "us" {
					want *= 1e-6
					if unit != v.Name+"-sec" {
						t.Errorf("%s is read as %s", v.Name, unit)
					}
				} else if strings.HasPrefix(v.Unit, "us/") {
					want *= 1e-6
				}
				if got := line.Values[k].Value; math.Abs(got-want) > 1e-6*math.Abs(want) {
					t.Errorf("%s: %v %s, want %v", v.Name, got, unit, want)
				}
			}
		}
	}
	f := recorded(t)[record.KindDataPlane]
	text := render(t, f, "benchfmt", report.Options{})
	if len(f.LeftOut) != 1 || !strings.Contains(text, "\n# trial "+f.LeftOut[0].Trial+" (sidecars=") || !strings.Contains(text, "left out, not valid: made-up\n") {
		t.Errorf("left out is %+v in\n%s", f.LeftOut, text)
	}
}

// Arbitrary names remain one name each, and break no line.
func TestBenchmarksOfAnything(t *testing.T) {
	f := reporttest.Hostile()
	f.Machine.CPUs = 0
	values := []record.SampleValue{{Name: "lost", Unit: "us", Value: math.Inf(1)}, {Name: "plain", Value: 3}, {Name: "size", Unit: "bytes", Value: 2048}, {Name: "cost", Unit: "Fr. €/h", Value: 0.1}}
	for _, level := range []string{"one two", "one/two", "one%20two", "k=v-8", "a\nBenchmarkB", "ü"} {
		f.Samples = append(f.Samples, record.Sample{Cell: record.Cell{"factor": level}, Values: values})
	}
	f.LeftOut = []record.LeftOut{{Trial: "x\nBenchmarkC 1 1 ns/op", Cell: record.Cell{"f": "\n"}}}
	names := map[string]bool{}
	lines := benchmarks(t, render(t, f, "benchfmt", report.Options{}))
	for _, line := range lines {
		names[string(line.Name)] = true
		if !slices.EqualFunc(line.Values, []float64{math.Inf(1), 3, 2048, 0.1}, func(v benchfmt.Value, want float64) bool { return v.Value == want }) {
			t.Errorf("%s: %+v", line.Name, line.Values)
		}
	}
	if len(lines) != len(f.Samples) || len(names) != len(f.Samples) {
		t.Errorf("%d lines, %d names of %d samples", len(lines), len(names), len(f.Samples))
	}
}
