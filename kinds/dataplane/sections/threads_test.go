package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

func accepted(n int64) *int64 { return &n }

// threaded is quick with threads: those of the client's proxy are full where
// both pods have a sidecar.
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
			s.Limit, s.Says = record.LimitConcurrency, "both workers of the client's proxy ran 95% and 94% of the time: its concurrency of 2 limits it"
			c.Threads[record.PartClientProxy] = s
		}
	}
	return f
}

func TestThreadsTable(t *testing.T) {
	text := render(t, threaded(), "text", report.Options{Width: 140})
	for _, want := range []string{
		"Threads: on-CPU time share", "client's proxy  worker_0", "33%", "21%", "4.0%", "pilot-agent", "0.2%",
		"within 0.4% or 1 ms", "Proxy bottlenecks", "concurrency", "Both workers of the client's proxy ran 95% and 94% of the time",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	f := threaded()
	const says = "the busiest one of each trial is shown"
	if strings.Contains(text, says) {
		t.Error("one generator is several")
	}
	f.Cells[len(f.Cells)-1].Cell = f.Cells[len(f.Cells)-1].Cell.With(record.Cell{study.FactorGenerators: "4"})
	if !strings.Contains(render(t, f, "text", report.Options{Width: 300}), says) {
		t.Error("whose threads are shown is not said")
	}
	if strings.Contains(render(t, reporttest.Quick(), "text", report.Options{Width: 140}), "Threads") {
		t.Error("a study without threads has a table of them")
	}
}

// Studies of many cells show the threads of proxies alone, or their workers in
// one row.
func TestThreadsTableOfManyCells(t *testing.T) {
	f := threaded()
	one := f.Cells[3]
	for range 10 {
		f.Cells = append(f.Cells, one)
	}
	table := threadsTable(f)
	if len(table.Rows) != 48 {
		t.Errorf("%d rows", len(table.Rows))
	}
	f.Cells = append(f.Cells, one)
	got := threadsTable(f)
	if len(got.Rows) != 13 || len(got.Rows[0]) != len(got.Columns) {
		t.Fatalf("%d rows of %d in %d columns", len(got.Rows), len(got.Rows[0]), len(got.Columns))
	}
	var row []string
	for _, cell := range got.Rows[0][len(report.FactorColumns(f)):] {
		row = append(row, cell.S)
	}
	if want := "client's proxy|2|54%|21%|52%|4.0%|–"; strings.Join(row, "|") != want {
		t.Errorf("%q, want %s", row, want)
	}
	if got.Rows[len(got.Rows)-1][len(got.Columns)-1].S != "concurrency" {
		t.Errorf("%+v", got.Rows[len(got.Rows)-1])
	}
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
	add := func(name, sidecars string, low, high float64, verdict string, warnings ...string) {
		f.Findings = append(f.Findings, record.Finding{Name: name, Probe: "search", Cell: record.Cell{"sidecars": sidecars}, Estimate: low, Low: low, High: high,
			Unit: "requests/s", Blocks: 2, Verdict: verdict, Warnings: warnings})
	}
	add("highest_rate", "none", 8000, 8000, record.VerdictMeasured, "no level that was measured breaks the bound")
	add("highest_rate", "server", 4000, 4000, record.VerdictInconclusive, "the machine's CPUs were 97% busy")
	add("highest_rate", "both", 2830, 3080, record.VerdictMeasured, "its concurrency of 2 limits it")
	add("knee_rate", "both", 2000, 2380, record.VerdictMeasured)
	return f
}

func TestSaturation(t *testing.T) {
	f := saturated()
	text := render(t, f, "text", report.Options{Width: 160})
	for _, want := range []string{"Maximum sustainable rate", "8,000 or more", "4,000 or more", "2,830–3,080", "2,000–2,380", "its concurrency of 2 limits it", "97% busy"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	answers := strings.Join(answersOf(f), "\n")
	for _, want := range []string{
		"2,830 requests per second meet the bound with sidecars both, 3,080 do not.",
		"4,000 requests per second meet the bound with sidecars server; the limit beyond is unknown, since the machine or the generator saturates first.",
		"up to 8,000 requests per second.",
	} {
		if !strings.Contains(answers, want) {
			t.Errorf("%q lacks %q", answers, want)
		}
	}
}

func TestMoneyTable(t *testing.T) {
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
	text := render(t, f, "text", report.Options{Width: 160})
	for _, want := range []string{"Monthly cost of the proxies in the stated mesh", "24.8 (24.2–25.8)", "48,200 (47,000–49,800)", "in all, USD/month", "For a mesh with 100,000 requests"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	besideSizing := f
	besideSizing.Sizings = []record.Sizing{{}}
	if got := report.MoneyTable(besideSizing).Title; got != "Monthly cost of the proxies in the mesh of section money" {
		t.Errorf("two meshes are stated, and a table is called %q", got)
	}
	if answers := strings.Join(answersOf(f), "\n"); !strings.Contains(answers, "would cost 48,200 (47,000–49,800) USD per month (both) and 24,100 (23,500–24,900) USD per month (client).") {
		t.Error(answers)
	}
}
