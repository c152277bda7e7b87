package sections

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// failureColors are the colors of failure kinds, most frequent first.
var failureColors = []string{"series-3", "series-4", "series-5", "series-7", "series-1", "series-8", "series-6",
	"series-0"}

// timelineCharts draws what happened in one trial of each cell.
func timelineCharts(f record.Findings) []report.Chart {
	l := report.LayoutOf(f)
	initial := initialCell(f)
	var out []report.Chart
	for _, c := range judged(f) {
		if c.Scenario.Shown == "" || c.Scenario.Series.BinS <= 0 {
			continue
		}
		label := l.Label(c.Cell, f.Cells)
		chart := timelineChart(c.Scenario)
		chart.Name = "What happened with " + label + ": failures by kind and latency over the timeline, with its steps"
		chart.Options, chart.Initial = []report.Option{{Switch: "cell", Choice: label}}, c.Label == initial
		out = append(out, chart)
	}
	return out
}

// initialCell returns the label of the cell to show first: one with failures, if any.
func initialCell(f record.Findings) string {
	first := ""
	for _, c := range judged(f) {
		switch {
		case c.Scenario.Shown == "":
		case c.Scenario.Total.Failed > 0:
			return c.Label
		case first == "":
			first = c.Label
		}
	}
	return first
}

func timelineChart(s *record.ScenarioSummary) report.Chart {
	bin := s.Series.BinS
	t := report.Timeline{Step: bin, X: report.Axis{Title: "seconds after the first request", Scale: report.AxisLinear,
		Range: &[2]float64{0, s.Seconds}}}
	t.Counts.Y = report.Axis{Title: "requests per second, those that failed in colour", Scale: report.AxisLinear,
		Zero: true}
	for _, n := range s.Series.Requests {
		t.Counts.All = append(t.Counts.All, float64(n)/bin)
	}
	names, total := slices.Sorted(maps.Keys(s.Series.Failed)), map[string]int64{}
	for name, counts := range s.Series.Failed {
		for _, n := range counts {
			total[name] += n
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(total[b], total[a]) })
	legend := []report.Key{{Text: "requests", Color: "rule"}}
	for i, name := range names {
		kind := report.CountKind{Name: name, Color: failureColors[i%len(failureColors)]}
		for at, n := range s.Series.Failed[name] {
			all := int64(0)
			if at < len(s.Series.Requests) {
				all = s.Series.Requests[at]
			}
			kind.Values = append(kind.Values, float64(n)/bin)
			kind.Texts = append(kind.Texts, fmt.Sprintf("%s s: %s of %s failed, %s", report.Fixed(float64(at)*bin, 1),
				report.Count(n), report.Count(all), name))
		}
		t.Counts.Kinds = append(t.Counts.Kinds, kind)
		legend = append(legend, report.Key{Text: name + ": " + report.Count(total[name]), Color: kind.Color})
	}
	largest := 0.0
	for _, values := range [][]float64{s.Series.P50US, s.Series.P99US, s.Series.MaxUS} {
		for _, us := range values {
			largest = math.Max(largest, us)
		}
	}
	us := report.ScaleFor("us", largest/2)
	t.Y = report.Axis{Title: fmt.Sprintf("latency of answered requests, %s, of each %s ms", us.Unit,
		report.Fixed(1000*bin, 0)), Scale: report.AxisLog}
	for i, curve := range []struct {
		label  string
		values []float64
	}{{"largest", s.Series.MaxUS}, {"p99", s.Series.P99US}, {"median", s.Series.P50US}} {
		one := report.Curve{Label: curve.label, Look: report.Look{Color: []string{"series-0", "series-2",
			"series-1"}[i], Dash: []int{0, 1, 0}[i]}, Dots: i == 0}
		for _, v := range curve.values {
			one.Values = append(one.Values, v/us.Div)
		}
		t.Curves = append(t.Curves, one)
	}
	for _, one := range s.Steps {
		if one.BeginS <= 0 && one.AppliedS <= 0 {
			continue
		}
		text := fmt.Sprintf("%s %s at %s", one.Op, one.Object, seconds(one.BeginS))
		for _, more := range []string{one.Proof, one.Error} {
			if more != "" {
				text += ": " + more
			}
		}
		t.Events = append(t.Events, report.Event{Name: one.Name, Begin: one.BeginS, End: one.EndS,
			Bad: one.Error != "", Text: text})
	}
	return report.Chart{Legend: legend, Timeline: &t}
}

// graphCharts draws the service graph of each cell in each window.
func graphCharts(f record.Findings) []report.Chart {
	l := report.LayoutOf(f)
	initial := initialCell(f)
	var out []report.Chart
	for _, c := range judged(f) {
		s := c.Scenario
		if s.Shown == "" || len(s.Graph.Nodes) == 0 {
			continue
		}
		label := l.Label(c.Cell, f.Cells)
		for i, w := range append([]record.ScenarioWindow{s.Total}, s.Windows...) {
			out = append(out, report.Chart{Name: "The service graph in " + w.Name + " with " + label +
				": rate, errors and latency on each edge",
				Options: []report.Option{{Switch: "cell", Choice: label},
					{Switch: "window", Choice: w.Name}}, Initial: i == 0 && c.Label == initial, Graph: graphOf(s, w)})
		}
	}
	return out
}

// clients is the node where requests originate.
const clients = "clients"

func graphOf(s *record.ScenarioSummary, w record.ScenarioWindow) *report.Graph {
	g := &report.Graph{Width: s.Graph.Width + 1, Height: s.Graph.Height}
	entry := s.Graph.Height / 2
	for _, n := range s.Graph.Nodes {
		if n.Service == s.Graph.Entry {
			entry = n.Y
		}
	}
	// The clients have their own column, before the others.
	g.Nodes = append(g.Nodes, report.GraphNode{Name: clients, State: report.Count(s.Graph.Clients), X: 0.5, Y: entry})
	for _, n := range s.Graph.Nodes {
		node := report.GraphNode{Name: n.Service, State: fmt.Sprintf("%d ready", n.Replicas), X: n.X + 1, Y: n.Y}
		if ready, ok := w.Ready[n.Service]; ok && ready < n.Replicas {
			node.State, node.Bad = fmt.Sprintf("%d of %d ready", ready, n.Replicas), true
		}
		if ejected := w.Ejected[n.Service]; ejected > 0 {
			node.State, node.Bad = fmt.Sprintf("%s, %d ejected", node.State, ejected), true
		}
		g.Nodes = append(g.Nodes, node)
	}
	most := int64(1)
	for _, e := range w.Edges {
		most = max(most, e.Requests)
	}
	for _, line := range append([]record.ScenarioLine{{From: clients, To: s.Graph.Entry}}, s.Graph.Lines...) {
		edge := report.GraphEdge{From: line.From, To: line.To}
		for _, via := range line.Via {
			edge.Via = append(edge.Via, [2]float64{via[0] + 1, via[1]})
		}
		i := slices.IndexFunc(w.Edges, func(e record.ScenarioEdge) bool {
			return e.From == line.From &&
				e.To == line.To
		})
		if i >= 0 {
			passed(&edge, w, w.Edges[i], most)
		}
		g.Edges = append(g.Edges, edge)
	}
	return g
}

// passed describes the traffic on an edge in a window.
func passed(edge *report.GraphEdge, w record.ScenarioWindow, e record.ScenarioEdge, most int64) {
	us := report.ScaleFor("us", math.Max(e.Latency.At(0.5), e.Latency.At(0.99)))
	latency := func(q record.Quantile) string { return percentile(us, e.Latency.At(q)).S }
	failed, rate, extra := 0.0, 0.0, ""
	if e.Requests > 0 {
		failed = float64(e.Failed) / float64(e.Requests)
		if float64(e.Attempts) > 1.0005*float64(e.Requests) {
			extra = " ×" + report.Fixed(float64(e.Attempts)/float64(e.Requests), 2)
		}
	}
	if length := w.ToS - w.FromS; length > 0 {
		rate = float64(e.Requests) / length
	}
	edge.Weight, edge.Bad = float64(e.Requests)/float64(most), failed > 0
	share := report.GraphLine{Text: resilience.Percent(failed) + " failed", Short: resilience.Percent(failed), Style: "dim"}
	if failed > 0 {
		share.Style = "bad"
	}
	perSecond := report.Scale{Div: 1}.Plain(rate) + "/s" + extra
	edge.Lines = []report.GraphLine{{Text: perSecond, Short: perSecond}, share,
		{Text: "p50 " + latency(0.5), Short: latency(0.5), Style: "dim"}, {Text: "p99 " + latency(0.99),
			Short: latency(0.99), Style: "dim"}}
	edge.Text = fmt.Sprintf("%s to %s: %s requests, %s attempts, %s failed, p50 %s, p99 %s in %s", e.From, e.To,
		report.Count(e.Requests), report.Count(e.Attempts), report.Count(e.Failed), latency(0.5), latency(0.99), w.Name)
}
