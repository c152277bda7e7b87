package sections

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

func TestAnswers(t *testing.T) {
	overhead := func(name, level string, estimate, low, high float64, verdict string) record.Finding {
		return record.Finding{Name: name, Probe: "latency", Cell: record.Cell{"sidecars": level}, Against: record.Cell{"sidecars": "none"},
			Estimate: estimate, Low: low, High: high, Unit: "us", Blocks: 6, Verdict: verdict}
	}
	because := func(reason, text string) []record.Finding {
		f := overhead("latency_p50_overhead", "both", 1700, 1200, 2300, record.VerdictInconclusive)
		f.Because(reason, text)
		return []record.Finding{f}
	}
	base := record.Findings{
		Validity: record.ValiditySummary{Trials: 12, Valid: 12, Blocks: 6}, Factors: []record.FactorLevels{reporttest.Sidecars},
		Cells: []record.CellSummary{{Cell: record.Cell{"sidecars": "none"}, Baseline: true}, {Cell: record.Cell{"sidecars": "both"}}},
	}
	for _, c := range []struct {
		name     string
		findings []record.Finding
		want     string
	}{
		{"real", []record.Finding{overhead("latency_p50_overhead", "both", 312, 281, 344, "real")},
			"Both sidecars add 0.31 ms (95% interval 0.28–0.34) to the median latency."},
		{"in another unit", []record.Finding{{Name: "latency_p50_overhead", Cell: record.Cell{"sidecars": "both"}, Against: record.Cell{"sidecars": "none"}, Estimate: .312, Low: .281, High: .344, Unit: "ms", Verdict: "real"}},
			"Both sidecars add 0.31 ms (95% interval 0.28–0.34) to the median latency."},
		{"faster", []record.Finding{overhead("latency_p50_overhead", "both", -50, -60, -41, "real")},
			"Both sidecars take 50 µs (95% interval 41–60) off the median latency."},
		{"no effect", []record.Finding{{Name: "latency_p50_overhead", Cell: record.Cell{"sidecars": "both"}, Against: record.Cell{"sidecars": "none"}, Estimate: 3, Low: -4, High: 9, Margin: 12, Unit: "us", Verdict: "no_effect"}},
			"Both sidecars add no overhead to the median latency beyond 12.0 µs (95% interval -4 to 9)."},
		{"inconclusive", []record.Finding{overhead("latency_p50_overhead", "both", 40, -10, 90, "inconclusive")},
			"Both sidecars add between -10 and 90 µs to the median latency: too wide to call."},
		{"one of many", because(record.ReasonMany, "the interval excludes zero, but of 7 differences some do by chance"),
			"What both sidecars add to the median latency is inconclusive: 1.7 ms (95% interval 1.2–2.3). The interval excludes zero, but of 7 differences some do by chance."},
		{"below the floor", because(record.ReasonWithinFloor, "identical baselines differ by up to 2 ms"),
			"What both sidecars add to the median latency is inconclusive: 1.7 ms (95% interval 1.2–2.3). Identical baselines differ by up to 2 ms."},
		{"invalid", []record.Finding{overhead("latency_p50_overhead", "both", 0, 0, 0, "invalid")},
			"What both sidecars add to the median latency is unknown: too few valid trials."},
	} {
		f := base
		f.Findings = c.findings
		if got := answersOf(f); len(got) == 0 || got[0] != c.want {
			t.Errorf("%s: got %q\nwant %q", c.name, got, c.want)
		}
	}
	if got := answersOf(record.Findings{Kind: record.KindDataPlane, Validity: record.ValiditySummary{Trials: 3}})[0]; got != "No answer: none of 3 trials is valid." {
		t.Errorf("got %q", got)
	}
	if got := answersOf(reporttest.TwoPod())[0]; !strings.HasPrefix(got, "From 2 to 64 connections, what both sidecars add to the median latency grows by ") || !strings.HasSuffix(got, "stays the same within its interval with uniform arrivals and grows 16-fold with burst arrivals.") {
		t.Errorf("got %q", got)
	}
}

func TestAnswersOfOtherStudies(t *testing.T) {
	valid := record.ValiditySummary{Trials: 8, Valid: 8, Blocks: 4}
	cell := func(sidecars string, p50, p99 float64) record.CellSummary {
		return record.CellSummary{Cell: record.Cell{"sidecars": sidecars}, Label: sidecars, Valid: 4, Intended: record.LatencyAt(0.5, p50, 0.99, p99)}
	}
	single := record.Findings{Validity: valid, Cells: []record.CellSummary{cell("both", 412, 1310)}}
	if got, want := answersOf(single)[0], "The median latency is 0.412 ms, and 1 in 100 requests takes over 1.31 ms."; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	several := record.Findings{Validity: valid, Factors: []record.FactorLevels{reporttest.Sidecars}, Cells: []record.CellSummary{cell("none", 90, 200), cell("both", 412, 1310)}}
	if got, want := answersOf(several)[0], "The median latency lies between 0.0900 ms (none) and 0.412 ms (both)."; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}

	fitted := func(name, unit string, v float64) record.Finding {
		return record.Finding{Name: name, Probe: "fit", Cell: record.Cell{"sidecars": "both"}, Estimate: v, Low: 0.9 * v, High: 1.1 * v, Unit: unit, Verdict: record.VerdictMeasured}
	}
	rates := several
	rates.Factors = append([]record.FactorLevels{{Factor: "rate", Levels: []string{"100", "1000"}}}, several.Factors...)
	rates.Findings = []record.Finding{fitted("cpu_client_proxy_slope", "us/request", 110), fitted("cpu_client_proxy_idle", "mCPU", 20)}
	if got, want := answersOf(rates)[0], "Each request costs the client's proxy 110 µs (99–121) of CPU, on top of 20 mCPU (18–22), by the line along the measured rates."; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	bent := rates
	bent.Findings = slices.Clone(rates.Findings)
	for i := range bent.Findings {
		bent.Findings[i].Warnings = []string{stat.PoorFit}
	}
	if got := answersOf(bent)[0]; strings.HasPrefix(got, "Each request costs") {
		t.Errorf("a line that points lie off is quoted: %q", got)
	}
	twice := rates
	other := fitted("cpu_client_proxy_slope", "us/request", 90)
	other.Cell = record.Cell{"sidecars": "server"}
	twice.Findings = append(twice.Findings[:2:2], other)
	if got := answersOf(twice)[0]; strings.HasPrefix(got, "Each request costs") {
		t.Errorf("one of two fits is taken for the answer: %q", got)
	}
}

// Of what is measured for each request the words say so, and the figure does not.
func TestFiguresOfEachRequestSayItOnce(t *testing.T) {
	x := record.Finding{Name: "cpu_machine_per_request_overhead", Unit: "us/request", Cell: record.Cell{"sidecars": "both"},
		Against: record.Cell{"sidecars": "none"}, Estimate: 93, Low: 90, High: 96, Margin: 2}
	a := &answering{}
	for _, verdict := range []string{record.VerdictReal, record.VerdictNoEffect, record.VerdictInconclusive, record.VerdictInvalid} {
		x.Verdict = verdict
		if got := a.sentence(x, ""); strings.Count(got, "request") != 1 {
			t.Errorf("%q names requests more than once, or not at all", got)
		}
	}
}

// many is a study of six cells beside a baseline.
func many() record.Findings {
	f := record.Findings{Kind: record.KindDataPlane, Factors: []record.FactorLevels{{Factor: "variant"}}, NoiseFloor: []record.NoiseFloor{{Measure: "latency_p50", Unit: "us", Floor: 4}}}
	f.Validity.Trials, f.Validity.Valid = 7, 7
	base := record.Cell{"variant": "bare"}
	f.Cells = append(f.Cells, record.CellSummary{Cell: base, Label: "bare", Trials: 1, Valid: 1})
	for name, verdict := range map[string]string{"a": record.VerdictNoEffect, "b": record.VerdictReal, "c": record.VerdictNoEffect, "d": record.VerdictInconclusive, "e": record.VerdictInvalid, "f": record.VerdictNoEffect} {
		cell := record.Cell{"variant": name}
		f.Factors[0].Levels = append(f.Factors[0].Levels, name)
		f.Cells = append(f.Cells, record.CellSummary{Cell: cell, Label: name, Trials: 1, Valid: 1})
		f.Findings = append(f.Findings, record.Finding{Name: "latency_p50_overhead", Probe: "latency", Unit: "us", Cell: cell, Against: base, Verdict: verdict,
			Estimate: 50, Low: 40, High: 60, MDE: 9, Margin: 4, Blocks: 4})
	}
	slices.SortFunc(f.Cells[1:], func(a, b record.CellSummary) int { return strings.Compare(a.Label, b.Label) })
	return f
}

// Of many cells only those have sentences of their own in which there is
// something to say.
func TestManyCellsAreToldTogether(t *testing.T) {
	got := strings.Join(answersOf(many()), "\n")
	want := "Variant b adds 50 µs (95% interval 40–60) to the median latency of 0.0 µs.\n" +
		"f, c and a add no overhead to the median latency beyond 4.00 µs.\n" +
		"What d adds to the median latency is inconclusive.\n" +
		"What e adds to the median latency is unknown: too few valid trials or requests."
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Where many cells add something, one sentence says between what and what; one
// that takes something off has its own.
func TestManyCostlyCellsAreToldTogether(t *testing.T) {
	f := many()
	for i := range f.Findings {
		one := &f.Findings[i]
		d := float64(one.Cell["variant"][0] - 'a')
		one.Verdict, one.Estimate, one.Low, one.High = record.VerdictReal, 50+10*d, 40+10*d, 60+10*d
		if d == 1 {
			one.Estimate, one.Low, one.High = -20, -30, -10
		}
	}
	got := strings.Join(answersOf(f), "\n")
	want := "5 of 6 cells add overhead to the median latency of 0.0 µs, from 50 µs (a, 40–60) to 100 µs (f, 90–110), with 95% intervals.\n" +
		"Variant b takes 20 µs (95% interval 10–30) off the median latency of 0.0 µs."
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A study that profiles begins with its threads.
func TestThreadsFirst(t *testing.T) {
	f := many()
	f.Profiles = []json.RawMessage{[]byte("{}")}
	f.Cells[2].Threads = map[string]record.ThreadsSummary{record.PartServerProxy: {Rows: []record.ThreadRow{
		{Name: "worker_0", Worker: true, UserRatio: 0.4, SystemRatio: 0.1, WaitRatio: 0.2}, {Name: "worker_1", Worker: true, UserRatio: 0.1}, {Name: "main", UserRatio: 0.9}}}}
	want := "No proxy thread was saturated: the busiest worker was on-CPU 50% of the time, with a run-queue wait of 20% (server's proxy, b)."
	if got := answersOf(f); len(got) < 2 || got[0] != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if page := render(t, f, "html", report.Options{}); !strings.Contains(page, "busiest worker was on-CPU 50% of the time") {
		t.Error("the page begins otherwise")
	}
	s := f.Cells[2].Threads[record.PartServerProxy]
	s.Limit, s.Says = record.LimitCPU, "its limit held it back"
	f.Cells[2].Threads[record.PartServerProxy] = s
	if got := answersOf(f); got[0] != "b: Its limit held it back." {
		t.Errorf("%q", got)
	}
}
