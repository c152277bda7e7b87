package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/record"
)

func TestNarrowing(t *testing.T) {
	p := analysis.Progress{TargetRatio: 0.1, Widths: []analysis.Widths{
		{Label: "both", After: []analysis.Width{{Blocks: 2, Ratio: 0.8}, {Blocks: 3, Ratio: 0.4}}},
		{Label: "server", After: []analysis.Width{{Blocks: 2, Ratio: 0}, {Blocks: 3, Ratio: 0.2, Settled: true}}}}}
	chart, ok := narrowing(p)
	if !ok || len(chart.Lines.Series) != 3 {
		t.Fatalf("%+v", chart)
	}
	both, server, target := chart.Lines.Series[0], chart.Lines.Series[1], chart.Lines.Series[2]
	if len(both.Points) != 2 || both.Points[1].Y != 40 || both.Points[1].Text != "±40%" {
		t.Errorf("both: %+v", both.Points)
	}
	if len(server.Points) != 1 || !server.Points[0].Hollow {
		t.Errorf("server: %+v", server.Points)
	}
	if len(target.Points) != 2 || target.Points[0].X != 2 || target.Points[1].X != 3 || target.Points[0].Y != 10 {
		t.Errorf("target: %+v", target.Points)
	}
	if _, ok := narrowing(analysis.Progress{TargetRatio: 0.1}); ok {
		t.Error("intervals that are not there are drawn")
	}
}

// A level extends from one change to the next, and a run without a value has no
// point.
func TestTrendCharts(t *testing.T) {
	point := func(v float64) *comparison.Point {
		return &comparison.Point{Estimate: v, Low: v - 1, High: math.Inf(1)}
	}
	trend := comparison.Trend{Runs: make([]comparison.TrendRun, 5), Series: []comparison.Series{
		{Name: "cpu", Unit: "us", Points: []*comparison.Point{point(10), point(11), nil, point(20), point(21)},
			Changes: []comparison.LevelChange{{At: 3, Before: 10.5, After: 20.5, ToStarted: time.Now()}}},
		{Name: "gone", Unit: "us", Points: make([]*comparison.Point, 5)}}}
	charts := Kinds{}.trendCharts(trend)
	if len(charts) != 1 || !charts[0].Initial || len(charts[0].Lines.Series) != 2 {
		t.Fatalf("%+v", charts)
	}
	runs, level := charts[0].Lines.Series[0], charts[0].Lines.Series[1]
	if len(runs.Points) != 4 || runs.Points[2].X != 4 || runs.Points[0].Low != nil {
		t.Errorf("runs: %+v", runs.Points)
	}
	var at []float64
	for _, p := range level.Points {
		at = append(at, p.X, p.Y)
	}
	want := []float64{1, 10.5, 3, 10.5, 4, 20.5, 5, 20.5}
	if len(at) != len(want) {
		t.Fatalf("levels %v, want %v", at, want)
	}
	for i := range want {
		if at[i] != want[i] {
			t.Errorf("levels %v, want %v", at, want)
			break
		}
	}
}

// Changes that do not decide and are the same appear only in the table.
func TestChangesChart(t *testing.T) {
	c := comparison.Comparison{MarginRatio: 0.05, Changes: []comparison.Change{
		{Name: "cpu", Bounded: true, Decides: true, Verdict: record.VerdictSame, ChangeRatio: 0.01, LowRatio: -0.01, HighRatio: 0.03},
		{Name: "memory", Bounded: true, Verdict: record.VerdictSame},
		{Name: "latency", Verdict: record.VerdictInconclusive},
		{Name: "p99", Bounded: true, Verdict: record.VerdictWorse, ChangeRatio: 0.5, LowRatio: 0.4, HighRatio: 0.6}}}
	chart, ok := Kinds{}.changesChart(c)
	if !ok || len(chart.Intervals.Rows) != 2 {
		t.Fatalf("%+v", chart.Intervals)
	}
	if same, worse := chart.Intervals.Rows[0], chart.Intervals.Rows[1]; !same.Hollow || same.Noise != 5 || worse.Hollow || worse.High != 60 {
		t.Errorf("%+v", chart.Intervals.Rows)
	}
}

// A served page does not call itself a file without network requests.
func TestServed(t *testing.T) {
	p := Page{Footer: "Made by meshtrial. " + selfContained}.Served(Live{Startable: []string{"quick"}})
	if strings.Contains(p.Footer, selfContained) || p.Live == nil || !strings.HasPrefix(p.Footer, "Made by meshtrial. ") {
		t.Errorf("%q", p.Footer)
	}
}
