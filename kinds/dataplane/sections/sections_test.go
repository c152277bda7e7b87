package sections

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// Reports of this kind, and their answers.
var (
	render    = reporttest.Of{Kind: Kind()}.Render
	answersOf = reporttest.Of{Kind: Kind()}.Answers
)

// TestGolden checks this kind's words and tables that the reports of kinds/reports do not show:
// each kind of answer once, and what is said if something is missing.
func TestGolden(t *testing.T) {
	var w reporttest.Words
	overheadWords(&w)
	singleWords(&w)
	manyWords(&w)
	variedWords(&w)
	threadWords(&w)
	searchWords(t, &w)
	moneyWords(t, &w)
	fitWords(&w)
	nodeWords(&w)
	versionWords(&w)
	filterWords(&w)
	waitingWords(&w)
	golden.File(t, filepath.Join("testdata", "words.txt"), w.Bytes())
}

func overheadWords(w *reporttest.Words) {
	f := record.Findings{
		Validity: record.ValiditySummary{Trials: 12, Valid: 12, Blocks: 6}, Factors: []record.FactorLevels{reporttest.Sidecars},
		Cells: []record.CellSummary{{Cell: record.Cell{"sidecars": "none"}, Baseline: true, Valid: 6}, {Cell: record.Cell{"sidecars": "both"}, Valid: 6}},
	}
	x := record.Finding{Name: "latency_p50_overhead", Probe: "latency", Cell: record.Cell{"sidecars": "both"}, Against: record.Cell{"sidecars": "none"}, Unit: "us", Blocks: 6}
	for _, c := range []struct {
		estimate, low, high, margin float64
		unit, verdict, reason       string
	}{
		{312, 281, 344, 0, "us", record.VerdictReal, ""}, {.312, .281, .344, 0, "ms", record.VerdictReal, ""}, {-50, -60, -41, 0, "us", record.VerdictReal, ""},
		{3, -4, 9, 12, "us", record.VerdictNoEffect, ""}, {40, -10, 90, 0, "us", record.VerdictInconclusive, ""},
		{1700, 1200, 2300, 0, "us", record.VerdictInconclusive, record.ReasonMany}, {1700, 1200, 2300, 0, "us", record.VerdictInconclusive, record.ReasonWithinFloor},
		{0, 0, 0, 0, "us", record.VerdictInvalid, ""},
	} {
		x.Estimate, x.Low, x.High, x.Margin, x.Unit, x.Verdict, x.Reason, x.Warnings = c.estimate, c.low, c.high, c.margin, c.unit, c.verdict, "", nil
		if c.reason != "" {
			x.Because(c.reason, note.Plain("the reason in words"))
		}
		f.Findings = []record.Finding{x}
		w.Add(fmt.Sprintf("overhead %g %s, %s %s", c.estimate, c.unit, c.verdict, c.reason), answersOf(f)[0])
	}
	for _, verdict := range []string{record.VerdictReal, record.VerdictNoEffect, record.VerdictInconclusive, record.VerdictInvalid} {
		x := record.Finding{Name: "cpu_machine_per_request_overhead", Unit: "us/request", Cell: x.Cell, Against: x.Against, Estimate: 93, Low: 90, High: 96, Margin: 2, Verdict: verdict}
		w.Add("CPU per request, "+verdict, (&answering{}).sentence(x, ""))
	}
	w.Add("no trial is valid", answersOf(record.Findings{Kind: record.KindDataPlane, Validity: record.ValiditySummary{Trials: 3}})[0])
	doubted := record.Finding{Name: "latency_p99_overhead", Probe: "latency", Cell: x.Cell, Against: x.Against,
		Estimate: 40, Low: 10, High: 70, Unit: "us", Blocks: 6, Verdict: record.VerdictInconclusive, Reason: record.ReasonMany}
	f.Findings = []record.Finding{doubted}
	w.Add("why a difference is not called", overheadTable(f).Notes)
	for _, c := range [][2]int64{{0, 0}, {2, 0}, {0, 1}, {1000, 7000}} {
		f.Cells[1].Failed, f.Cells[1].Unfinished = c[0], c[1]
		w.Add(fmt.Sprintf("%d failed, %d unfinished", c[0], c[1]), latencyTable(f).Notes)
	}
}

func singleWords(w *reporttest.Words) {
	valid := record.ValiditySummary{Trials: 8, Valid: 8, Blocks: 4}
	cell := func(sidecars string, p50, p99 float64) record.CellSummary {
		return record.CellSummary{Cell: record.Cell{"sidecars": sidecars}, Label: sidecars, Valid: 4, Intended: record.LatencyAt(0.5, p50, 0.99, p99)}
	}
	w.Add("one cell", answersOf(record.Findings{Validity: valid, Cells: []record.CellSummary{cell("both", 412, 1310)}}))
	several := record.Findings{Validity: valid, Factors: []record.FactorLevels{reporttest.Sidecars}, Cells: []record.CellSummary{cell("none", 90, 200), cell("both", 412, 1310)}}
	w.Add("several cells", answersOf(several))
	fitted := func(name, unit, sidecars string, v float64, warnings ...note.Note) record.Finding {
		return record.Finding{Name: name, Probe: "fit", Cell: record.Cell{"sidecars": sidecars}, Estimate: v, Low: 0.9 * v, High: 1.1 * v, Unit: unit, Verdict: record.VerdictMeasured, Warnings: warnings}
	}
	several.Factors = append([]record.FactorLevels{{Factor: "rate", Levels: []string{"100", "1000"}}}, several.Factors...)
	slope, idle := fitted("cpu_client_proxy_slope", "us/request", "both", 110), fitted("cpu_client_proxy_idle", "mCPU", "both", 20)
	several.Findings = []record.Finding{slope, idle}
	w.Add("a line along rates", answersOf(several))
	several.Findings = []record.Finding{fitted("cpu_client_proxy_slope", "us/request", "both", 110, stat.PoorFit.Of()), idle}
	w.Add("a line that points lie off is not quoted", answersOf(several))
	several.Findings = []record.Finding{slope, idle, fitted("cpu_client_proxy_slope", "us/request", "server", 90)}
	w.Add("one of two lines is not quoted", answersOf(several))
}

// many is a study of six cells and a baseline.
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

func manyWords(w *reporttest.Words) {
	f := many()
	w.Add("many cells are told together", answersOf(f))
	for i := range f.Findings {
		one := &f.Findings[i]
		d := float64(one.Cell["variant"][0] - 'a')
		one.Verdict, one.Estimate, one.Low, one.High = record.VerdictReal, 50+10*d, 40+10*d, 60+10*d
		if d == 1 {
			one.Estimate, one.Low, one.High = -20, -30, -10
		}
	}
	w.Add("many costly cells are told together, one that saves alone", answersOf(f))
}

// variedWords are of studies in which one more factor varies: each of the compared levels is named.
func variedWords(w *reporttest.Words) {
	for _, varying := range []record.FactorLevels{{Factor: "protocol", Levels: []string{"http1", "grpc"}}, {Factor: "connections", Levels: []string{"2", "64"}}} {
		f := record.Findings{Validity: record.ValiditySummary{Trials: 8, Valid: 8}, Factors: []record.FactorLevels{{Factor: "variant", Levels: []string{"bare", "a", "b", "c"}}, varying}}
		for _, level := range varying.Levels {
			base := record.Cell{"variant": "bare", varying.Factor: level}
			f.Cells = append(f.Cells, record.CellSummary{Cell: base, Baseline: true, Valid: 1})
			for name, verdict := range map[string]string{"a": record.VerdictReal, "b": record.VerdictNoEffect, "c": record.VerdictInvalid} {
				cell := base.With(record.Cell{"variant": name})
				f.Cells = append(f.Cells, record.CellSummary{Cell: cell, Label: name + " · " + level, Valid: 1})
				f.Findings = append(f.Findings, record.Finding{Name: overheadP50, Probe: "latency", Unit: "us", Cell: cell, Against: base, Verdict: verdict, Estimate: 50, Low: 40, High: 60, Margin: 5})
			}
			slices.SortStableFunc(f.Cells, func(a, b record.CellSummary) int { return strings.Compare(a.Label, b.Label) })
		}
		w.Add("several levels, and "+varying.Factor, answersOf(f))
	}
}

func accepted(n int64) *int64 { return &n }

// threaded is quick with threads: those of the client's proxy are full if both pods have a sidecar.
func threaded() record.Findings {
	f := reporttest.Quick()
	for i := range f.Cells {
		c := &f.Cells[i]
		if s := c.Cell["sidecars"]; s != "both" && s != "client" {
			continue
		}
		c.Threads = map[string]record.ThreadsSummary{
			record.PartClientProxy: {Trials: 6, Cores: 1.1, DisagreementRatio: 0.0042, Rows: []record.ThreadRow{
				{Name: "worker_0", Worker: true, Threads: 1, UserRatio: 0.33, SystemRatio: 0.21, WaitRatio: 0.04, InvoluntaryPerS: 31, Accepted: accepted(10)},
				{Name: "worker_1", Worker: true, Threads: 1, UserRatio: 0.31, SystemRatio: 0.2, WaitRatio: 0.05, InvoluntaryPerS: 29, Accepted: accepted(6)},
				{Name: "main", Threads: 1, UserRatio: 0.004, SystemRatio: 0.001},
				{Name: "pilot-agent", Threads: 9, UserRatio: 0.002},
			}},
			record.PartWorker: {Trials: 6, Rows: []record.ThreadRow{{Name: "meshtrial", Threads: 7, UserRatio: 0.05}}},
		}
		if c.Cell["sidecars"] == "both" {
			s := c.Threads[record.PartClientProxy]
			s.Limit, s.Says = record.LimitConcurrency, note.Plain("both workers of the client's proxy ran 95% and 94% of the time: its concurrency of 2 limits it")
			c.Threads[record.PartClientProxy] = s
		}
	}
	return f
}

func threadWords(w *reporttest.Words) {
	f := many()
	f.Profiles = []json.RawMessage{[]byte("{}")}
	f.Cells[2].Threads = map[string]record.ThreadsSummary{record.PartServerProxy: {Rows: []record.ThreadRow{
		{Name: "worker_0", Worker: true, UserRatio: 0.4, SystemRatio: 0.1, WaitRatio: 0.2}, {Name: "worker_1", Worker: true, UserRatio: 0.1}, {Name: "main", UserRatio: 0.9}}}}
	w.Add("a study that profiles begins with its threads", answersOf(f)[0])
	s := f.Cells[2].Threads[record.PartServerProxy]
	s.Limit, s.Says = record.LimitCPU, note.Plain("its limit held it back")
	f.Cells[2].Threads[record.PartServerProxy] = s
	w.Add("and with what held them back", answersOf(f)[0])
	f = threaded()
	w.Add("threads", threadsTable(f))
	one := f.Cells[3]
	for range 11 { // with many cells, only proxies, with their workers in one row
		f.Cells = append(f.Cells, one)
	}
	f.Cells[len(f.Cells)-1].Cell = one.Cell.With(record.Cell{study.FactorGenerators: "4"})
	w.Add("threads of many cells, some with several generators", threadsTable(f))
}

// saturated is a search along the rate, in three modes.
func saturated() record.Findings {
	f := reporttest.Quick()
	f.Factors = []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "server", "both"}}, {Factor: "rate", Levels: []string{"500", "1000"}, Unit: "requests/s"}}
	f.Cells, f.Findings = nil, nil
	for _, sidecars := range f.Factors[0].Levels {
		for _, rate := range f.Factors[1].Levels {
			f.Cells = append(f.Cells, record.CellSummary{Cell: record.Cell{"sidecars": sidecars, "rate": rate}, Label: sidecars + " · " + rate, Trials: 2, Valid: 2})
		}
	}
	add := func(name, sidecars string, low, high float64, verdict string, warnings ...note.Note) {
		f.Findings = append(f.Findings, record.Finding{Name: name, Probe: "search", Cell: record.Cell{"sidecars": sidecars}, Estimate: low, Low: low, High: high,
			Unit: "requests/s", Blocks: 2, Verdict: verdict, Warnings: warnings})
	}
	add("highest_rate", "none", 8000, 8000, record.VerdictMeasured, note.Plain("no level that was measured breaks the bound"))
	add("highest_rate", "server", 4000, 4000, record.VerdictInconclusive, note.Plain("the machine's CPUs were 97% busy"))
	add("highest_rate", "both", 2830, 3080, record.VerdictMeasured, note.Plain("its concurrency of 2 limits it"))
	add("knee_rate", "both", 2000, 2380, record.VerdictMeasured)
	return f
}

func searchWords(t *testing.T, w *reporttest.Words) {
	f := saturated()
	w.Add("saturation", answersOf(f), render(t, f, "text", report.Options{Width: 160}))
	search := func(name, sidecars string, low, high float64, open string) record.Finding {
		return record.Finding{Name: name, Probe: "search", Cell: record.Cell{"sidecars": sidecars}, Unit: "requests/s", Estimate: low, Low: low, High: high, Open: open, Blocks: 3, Verdict: record.VerdictMeasured}
	}
	f = record.Findings{
		Validity: record.ValiditySummary{Trials: 12, Valid: 12, Blocks: 3}, Factors: []record.FactorLevels{reporttest.Sidecars},
		Cells: []record.CellSummary{{Cell: record.Cell{"sidecars": "none"}}, {Cell: record.Cell{"sidecars": "both"}}},
		Findings: []record.Finding{search("highest_rate", "none", 8000, 8000, record.OpenHigh), search("highest_rate", "both", 0, 500, record.OpenLow),
			search("knee_rate", "none", 4000, 8000, ""), search("highest_connections", "none", 64, 64, record.OpenHigh), search("highest_connections", "both", 16, 32, "")},
	}
	w.Add("searches that did not find the end", render(t, f, "text", report.Options{Width: 160}), render(t, f, "csv", report.Options{}))
}

func moneyWords(t *testing.T, w *reporttest.Words) {
	f := reporttest.Quick()
	f.Money = "100,000 requests per second, 40 USD per core-month"
	add := func(name, unit, sidecars string, estimate, low, high float64, against record.Cell) {
		f.Findings = append(f.Findings, record.Finding{Name: name, Probe: "money", Unit: unit, Cell: record.Cell{"sidecars": sidecars}, Against: against,
			Estimate: estimate, Low: low, High: high, Verdict: record.VerdictReal, Blocks: 6})
	}
	none := record.Cell{"sidecars": "none"}
	for _, sidecars := range []string{"none", "client", "both"} {
		k := map[string]float64{"none": 0, "client": 1, "both": 2}[sidecars]
		add("money_cores", "cores", sidecars, 12.4*k, 12.1*k, 12.9*k, nil)
		add("money_month", "USD/month", sidecars, 24_123*k, 23_500*k, 24_900*k, nil)
		if k > 0 {
			add("money_month_overhead", "USD/month", sidecars, 24_123*k, 23_400*k, 24_950*k, none)
		}
	}
	w.Add("money", answersOf(f), report.MoneyTable(f))
	f.Sizings = []record.Sizing{{}}
	w.Add("money beside a sizing", report.MoneyTable(f).Title)
	w.Add("a bill", answersOf(reporttest.Bill(t)))
	f = record.Findings{Kind: record.KindDataPlane, Validity: record.ValiditySummary{Trials: 2, Valid: 2}, Bills: []record.Bill{{Parts: []record.BillPart{
		{Name: "lua", Figures: map[string]record.Priced{"cpu": {Unit: "us/request", Verdict: record.VerdictInvalid}}}}}}}
	w.Add("a part without a price", answersOf(f), render(t, f, "text", report.Options{Width: 100}))
}

func fitWords(w *reporttest.Words) {
	fit := func(name, unit string, value float64, cell record.Cell) record.Finding {
		return record.Finding{Name: name, Probe: "fit", Unit: unit, Estimate: value, Low: 0.9 * value, High: 1.1 * value, Blocks: 4, Verdict: record.VerdictMeasured, Cell: cell}
	}
	lost := fit("cpu_client_proxy_idle", "mCPU", 3, nil)
	lost.Verdict = record.VerdictInvalid
	f := record.Findings{
		Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}, {Factor: "rate", Levels: []string{"100", "1000"}}},
		Findings: []record.Finding{
			fit("memory_server_proxy_per_cluster", "bytes/cluster", 21_500, record.Cell{"sidecars": "both"}),
			fit("cpu_server_proxy_per_route", "ns/request/route", 42, record.Cell{"sidecars": "both"}),
			fit("cpu_server_proxy_slope", "us/request", 110, record.Cell{"sidecars": "both"}),
			fit("latency_p50", "us", 110, nil), lost,
		},
	}
	w.Add("fits", fitsTable(f), fitsTable(record.Findings{}))
}

func nodeWords(w *reporttest.Words) {
	none, ambient := record.Cell{"sidecars": "none"}, record.Cell{"sidecars": "ambient"}
	f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "ambient"}}},
		Cells: []record.CellSummary{{Cell: none, Baseline: true}, {Cell: ambient}}}
	f.Cells[0].MemoryBytes = map[string]int64{record.PartIdleNode: 12e6}
	f.Cells[1] = record.CellSummary{Cell: ambient, Way: record.Way{record.PartClientNode, record.PartServerNode},
		CPUPerRequest: map[string]record.CPUPerRequest{record.PartClientNode: {UserUS: 40, SystemUS: 20}, record.PartServerNode: {UserUS: 30, SystemUS: 20}},
		MemoryBytes:   map[string]int64{record.PartClientNode: 20e6, record.PartServerNode: 22e6},
		Threads:       map[string]record.ThreadsSummary{record.PartClientNode: {Rows: []record.ThreadRow{{Name: "ztunnel", Threads: 3}}}, record.PartServerNode: {Rows: []record.ThreadRow{{Name: "ztunnel", Threads: 3}}}},
		Connections:   map[string]record.Connections{record.PartClientNode: {Opened: 16}, record.PartServerNode: {Accepted: 16}}}
	f.Findings = []record.Finding{
		{Name: dataplane.FindingIdleNode, Unit: "mCPU", Cell: none, Verdict: record.VerdictMeasured, Estimate: 4, Low: 3, High: 5},
		{Name: dataplane.FindingNodesNet, Unit: "us/request", Cell: ambient, Verdict: record.VerdictMeasured, Estimate: 102, Low: 100, High: 104},
	}
	w.Add("proxies on nodes", nodesTable(f), nodeAnswers(f, ambient))
	w.Add("no proxy on a node", nodesTable(record.Findings{Cells: []record.CellSummary{{Cell: none}}}))
}

func versionWords(w *reporttest.Words) {
	x := func(name, verdict string, value float64, version, before string) record.Finding {
		return record.Finding{Name: name + "_change_since_x", Probe: "versus", Unit: "ratio", Estimate: value, Low: value - 0.02, High: value + 0.02, Blocks: 8, Verdict: verdict,
			Cell: record.Cell{"envoy": version}, Against: record.Cell{"envoy": before}}
	}
	f := record.Findings{Findings: []record.Finding{
		x("cpu_server_proxy", record.VerdictReal, 0.1, "1.2.0", "1.1.0"),
		x("latency_p50", record.VerdictReal, -0.05, "1.2.0", "1.1.0"),
		x("cpu_server_proxy", record.VerdictNoEffect, 0.01, "1.1.0", "1.0.0"),
		x("memory_server_proxy", record.VerdictReal, 0.3, "1.2.0", "1.0.0"),
		x("latency_p99", record.VerdictInvalid, 0.3, "1.2.0", "1.0.0"),
		x("latency_p50", record.VerdictInconclusive, 0.01, "1.2.0", "1.0.0"),
	}}
	w.Add("versions", versionAnswers(f), versionsTable(pairings(f)))
	w.Add("versions have no filters", filterAnswers(f), filtersTable(f, filterPairings(f)))
}

func filterWords(w *reporttest.Words) {
	x := func(name, by, verdict string, value float64, concurrency string) record.Finding {
		return record.Finding{Name: name + "_saved_by_" + by, Probe: "versus", Unit: "ratio", Estimate: value, Low: value - 0.02, High: value + 0.02, Blocks: 8, Verdict: verdict,
			Cell: record.Cell{"filters": "wasm", "concurrency": concurrency}, Against: record.Cell{"filters": by, "concurrency": concurrency}}
	}
	f := record.Findings{
		Factors: []record.FactorLevels{{Factor: "filters", Levels: []string{"none", "wasm", "lua"}}, {Factor: "concurrency", Levels: []string{"1", "2"}}},
		Findings: []record.Finding{
			x("cpu_server_proxy", "none", record.VerdictReal, 0.14, "1"),
			x("cpu_server_proxy", "lua", record.VerdictNoEffect, 0.01, "1"),
			x("cpu_server_proxy", "none", record.VerdictInvalid, 0.2, "2"),
			x("memory_server_proxy", "none", record.VerdictReal, 0.3, "1"),
			x("memory_server_proxy", "none", record.VerdictInconclusive, 0.07, "2"),
		}}
	// The reverse direction, for a study that names lua first.
	back := x("cpu_server_proxy", "wasm", record.VerdictNoEffect, -0.01, "1")
	back.Cell, back.Against = back.Against.With(record.Cell{"filters": "lua"}), record.Cell{"filters": "wasm", "concurrency": "1"}
	f.Findings = append([]record.Finding{back}, f.Findings...)
	w.Add("filters", filterAnswers(f), filtersTable(f, filterPairings(f)))
	w.Add("filters are not told twice", report.Other(Kind().Findings, false).Tables(f))
}

func waitingWords(w *reporttest.Words) {
	both, none := record.Cell{"sidecars": "both"}, record.Cell{"sidecars": "none"}
	f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}}, Cells: []record.CellSummary{{Cell: none, Baseline: true}, {Cell: both}}}
	add := func(name string, cell record.Cell, estimate, half float64) {
		f.Findings = append(f.Findings, record.Finding{Name: name, Unit: "us", Cell: cell, Against: cell.With(none), Verdict: record.VerdictReal, Estimate: estimate, Low: estimate - half, High: estimate + half, Blocks: 6})
	}
	w.Add("nobody read what threads waited", waitingTable(f), waitingAnswers(f, both))
	add("latency_mean_overhead", both, 1200, 10)
	add("latency_waiting_overhead", both, 400, 10)
	add("latency_service_overhead", both, 800, 10)
	w.Add("waiting", waitingTable(f), waitingAnswers(f, both))
	f.Findings[1].Estimate = 50
	w.Add("hardly any waiting", waitingAnswers(f, both))
	f.Findings[1].Estimate, f.Findings[1].Verdict = 400, record.VerdictInconclusive
	w.Add("waiting is inconclusive", waitingAnswers(f, both))
	for _, c := range []struct {
		name                  string
		low, high, half, busy float64
	}{{"grows", 300, 500, 10, 0.1}, {"stays", 300, 305, 10, 0.1}, {"falls", 500, 300, 10, 0.1}, {"is wide", 300, 500, 300, 0.1}, {"is unknown, for CPUs were busy", 300, 500, 10, 0.6}} {
		f = record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}, {Factor: "rate", Levels: []string{"200", "2000"}}}}
		for i, rate := range f.Factors[1].Levels {
			cell := record.Cell{"sidecars": "both", "rate": rate}
			f.Cells = append(f.Cells, record.CellSummary{Cell: cell, Pressure: &record.Pressure{BusyRatio: c.busy}})
			add("latency_waiting_overhead", cell, []float64{c.low, c.high}[i], c.half)
			add("latency_mean_overhead", cell, 1000, c.half)
		}
		w.Add("contention "+c.name, contentionAnswers(f, both))
	}
	f.Factors = f.Factors[:1]
	w.Add("contention without a rate that varies", contentionAnswers(f, both))
}

// The headline gives shares for what the verdicts call real, and explains why it omits the rest.
func TestHopWordsGoByVerdicts(t *testing.T) {
	term := func(name string, estimate, low, high float64, verdict, reason string) record.HopTerm {
		p := record.Priced{Estimate: estimate, Low: low, High: high, Unit: finding.UnitMicroseconds, Blocks: 8, Verdict: verdict, Reason: reason}
		return record.HopTerm{Name: name, Figures: map[string]record.Priced{dataplane.HopP50: p}}
	}
	h := record.Hops{Terms: []record.HopTerm{
		term(dataplane.HopPath, 1000, 950, 1050, record.VerdictMeasured, ""),
		term(dataplane.HopClientProxy, 400, 300, 500, record.VerdictReal, ""),
		term(dataplane.HopServerProxy, 30, 5, 55, record.VerdictInconclusive, record.ReasonWithinFloor),
		term(dataplane.HopTLSTerm, 24, 2, 46, record.VerdictInconclusive, record.ReasonMany),
		term(dataplane.HopInterception, 1, -9, 11, record.VerdictInconclusive, record.ReasonIncludesZero),
		term(dataplane.HopResidual, 5, 1, 9, record.VerdictInconclusive, record.ReasonLateLoad),
		term(dataplane.HopTotal, 2000, 1900, 2100, record.VerdictMeasured, ""),
	}}
	const want = "Of the median latency, 2.0 ms (1.9 to 2.1): path 50% and client proxy 20%. Indistinguishable from zero: interception. " +
		"Not significant: server proxy (within the noise floor), TLS (of so many differences some exclude zero by chance) and the residual (5.0 µs (1.0 to 9.0); the generator's own lag is large beside it)."
	if got := hopWords(h, dataplane.HopP50); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	h.Terms[5] = term(dataplane.HopResidual, 5, 1, 9, record.VerdictMeasured, "")
	if got := hopWords(h, dataplane.HopP50); strings.Contains(got, "do not cost the sum") || !strings.Contains(got, "whether that is more than chance is not known") {
		t.Error(got)
	}
	h.Terms[5] = term(dataplane.HopResidual, 5, 1, 9, record.VerdictReal, "")
	if got := hopWords(h, dataplane.HopP50); !strings.HasSuffix(got, "both sidecars together do not cost the sum of each alone.") {
		t.Error(got)
	}
}
