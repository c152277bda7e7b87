package sections

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/stat"
)

// windowTable has a row for each window of each cell, from the trial shown.
func windowTable(f record.Findings) report.Table {
	cells := judged(f)
	largest := 0.0
	for _, c := range cells {
		largest = max(largest, c.Scenario.Total.Latency.Max())
	}
	us, few := report.ScaleFor("us", largest), false
	t := report.Table{Title: "Windows between steps; latency in " + us.Unit + ", of answered requests, from intended send time", Columns: append(report.FactorColumns(f),
		report.Column{Head: "window"}, report.Column{Head: "from", Right: true, Keep: 9}, report.Column{Head: "to", Right: true, Keep: 2}, report.Column{Head: "requests", Right: true, Keep: 8}, report.Column{Head: "failed", Right: true}, report.Column{Head: "by kind", Keep: 6})}
	for _, q := range record.UpTo99() {
		t.Columns = append(t.Columns, report.Column{Head: q.Head(), Right: true, Keep: keepWindow(q)})
	}
	t.Columns = append(t.Columns, report.Column{Head: "longest failing run", Right: true, Keep: 5},
		report.Column{Head: "attempts", Right: true, Keep: 6}, report.Column{Head: "hidden", Right: true, Keep: 4}, report.Column{Head: "to stale endpoints", Right: true, Keep: 4}, report.Column{Head: "fewer ready", Right: true, Keep: 3}, report.Column{Head: "ejected", Right: true, Keep: 3})
	for _, c := range cells {
		s := c.Scenario
		if s.Shown == "" {
			continue
		}
		windows := append(slices.Clone(s.Windows), s.Total)
		if len(s.Windows) == 1 {
			windows = windows[1:] // without steps, the only window is the whole
		}
		for _, w := range windows {
			run := report.ScaleFor("us", w.LongestFailUS)
			row := append(report.FactorTexts(f, c.Cell), report.Text{S: w.Name}, report.Text{S: seconds(w.FromS)}, report.Text{S: seconds(w.ToS)}, report.Text{S: report.Count(w.Requests)}, failedText(w), report.Text{S: byCount(failedBy(w))})
			for _, q := range record.UpTo99() {
				v := w.Latency.At(q)
				few = few || v == 0 && w.Answered > 0
				row = append(row, orDash(v, us.Plain(v)))
			}
			row = append(row, report.Text{S: run.Value(w.LongestFailUS)}, orDash(w.Attempts, report.Fixed(w.Attempts, 2)), report.Text{S: report.Count(w.Hidden)}, report.Text{S: report.Count(w.Phantom)}, report.Text{S: fewer(s, w)}, report.Text{S: byCount(w.Ejected)})
			if w.Name == s.Total.Name {
				for i := range row {
					row[i].Style = report.StyleStrong
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "A window is named after the step that starts it; NAME.end starts when a step is undone. Fewer ready: the minimum of ready endpoints, for services below full; ejected: the maximum. Attempts: per request, between the two services that have the most.")
	}
	if few {
		t.Notes = append(t.Notes, fmt.Sprintf("–: too few requests for the percentile: %s, so that %d lie beyond it.", resilience.PercentilesNeed(report.Count[int64]), stat.MinBeyond))
	}
	return t
}

// keepWindow returns the priority of a quantile's column in a narrow table.
func keepWindow(q record.Quantile) int {
	switch q {
	case 0.5:
		return 7
	case 0.99:
		return 8
	case 1:
		return 3
	}
	return 1
}

// fewer lists services with fewer endpoints than in the graph.
func fewer(s *record.ScenarioSummary, w record.ScenarioWindow) string {
	out := map[string]int{}
	for _, n := range s.Graph.Nodes {
		if ready, ok := w.Ready[n.Service]; ok && ready < n.Replicas {
			out[n.Service] = ready
		}
	}
	return ready(out)
}

// ready lists numbers by name, including zeros: an absence of endpoints matters most.
func ready(m map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(out, ", ")
}

func failedText(w record.ScenarioWindow) report.Text {
	n := w.Failed + w.Unfinished
	out := report.Text{S: report.Count(n) + " (" + resilience.Percent(w.ErrorShare) + ")"}
	if n > 0 {
		out.Style = report.StyleBad
	}
	return out
}

// failedBy returns a window's failures by kind, including requests that never ended.
func failedBy(w record.ScenarioWindow) map[string]int64 {
	if w.Unfinished == 0 {
		return w.FailedBy
	}
	out := map[string]int64{"unfinished": w.Unfinished}
	maps.Copy(out, w.FailedBy)
	return out
}

// stepTable lists when each step happened and what it did.
func stepTable(f record.Findings) report.Table {
	t := report.Table{Title: "Steps", Columns: append(report.FactorColumns(f), report.Column{Head: "step"}, report.Column{Head: "does", Keep: 7}, report.Column{Head: "at", Right: true, Keep: 9}, report.Column{Head: "late", Right: true, Keep: 2},
		report.Column{Head: "to detect", Right: true, Keep: 8}, report.Column{Head: "to eject", Right: true, Keep: 6}, report.Column{Head: "to recover", Right: true, Keep: 8}, report.Column{Head: "longest failing run", Right: true, Keep: 5}, report.Column{Head: "failed", Right: true, Keep: 7}, report.Column{Head: "proof", Keep: 1})}
	for _, c := range judged(f) {
		for _, one := range c.Scenario.Steps {
			after := func(us *float64) report.Text {
				if us == nil {
					return dash
				}
				return report.Text{S: report.ScaleFor("us", *us).Value(*us)}
			}
			recovered := after(one.RecoverUS)
			if one.StillFailing {
				recovered = report.Text{S: "still failing", Style: report.StyleBad}
			}
			proof := report.Text{S: one.Proof}
			switch {
			case one.Error != "":
				proof = report.Text{S: one.Error, Style: report.StyleBad}
			case one.ProvenS == 0:
				proof = report.Text{S: "not proven", Style: report.StyleBad}
			}
			at := seconds(one.BeginS)
			if one.EndS > 0 {
				at += " to " + seconds(one.EndS)
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: one.Name}, report.Text{S: one.Op + " " + one.Object}, report.Text{S: at}, report.Text{S: report.ScaleFor("us", 1e3).Value(one.LateUS)},
				after(one.DetectUS), after(one.EjectUS), recovered, report.Text{S: report.ScaleFor("us", one.LongestFailUS).Value(one.LongestFailUS)}, report.Text{S: report.Count(one.Failed)}, proof))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Times run from the start of the step, up to the next: detect, to the first failed request; eject, until a proxy ejects an endpoint; recover, to the last failed request.")
	}
	return t
}

// expectationTable compares expected with measured values.
func expectationTable(f record.Findings) report.Table {
	t := report.Table{Title: "Expected vs. observed", Columns: append(report.FactorColumns(f), report.Column{Head: "window"}, report.Column{Head: "demand", Right: true, Keep: 7}, report.Column{Head: "tightest", Keep: 5}, report.Column{Head: "capacity", Right: true, Keep: 8}, report.Column{Head: "left", Right: true, Keep: 8},
		report.Column{Head: "expected to fail", Right: true}, report.Column{Head: "failed", Right: true}, report.Column{Head: "attempts bound", Right: true, Keep: 4}, report.Column{Head: "attempts", Right: true, Keep: 4}, report.Column{Head: "surprise", Keep: 3})}
	var retries []string
	for _, c := range judged(f) {
		s := c.Scenario
		if s.Shown == "" {
			continue
		}
		if !slices.Contains(retries, s.Retries) {
			retries = append(retries, s.Retries)
		}
		for _, w := range s.Windows {
			e := w.Expected
			tight, capacity, left := report.Text{S: "nothing bounded", Style: report.StyleDim}, dash, dash
			if e.Service != "" {
				tight = report.Text{S: fmt.Sprintf("%s, %s", e.Service, words.Plural(e.Replicas, "replica"))}
				capacity = report.Text{S: report.Fixed(e.CapacityRPS, 0) + "/s"}
			}
			if e.Service != "" && e.DemandRPS > 0 {
				left = report.Text{S: report.Fixed(100*(e.CapacityRPS/e.DemandRPS-1), 0) + "%"}
				if e.CapacityRPS < e.DemandRPS {
					left.Style = report.StyleBad
				}
			}
			surprise := report.Text{S: strings.Join(w.Surprises, "; ")}
			if surprise.S != "" {
				surprise.Style = report.StyleStrong
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: w.Name}, report.Text{S: report.Fixed(e.DemandRPS, 0) + "/s"}, tight, capacity, left, report.Text{S: resilience.Percent(e.ErrorShare)}, report.Text{S: resilience.Percent(w.ErrorShare)},
				report.Text{S: report.Fixed(e.Attempts, 0)}, orDash(w.Attempts, report.Fixed(w.Attempts, 2)), surprise))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Arithmetic knows replicas, concurrency, service times and shares that fail, and that nothing ejects a broken endpoint; it ignores proxies, networks and timeouts. Attempts are bounded by retries: %s.", strings.Join(retries, ", ")))
	}
	return t
}

// trafficEdges lists the traffic between services over the whole trial.
func trafficEdges(f record.Findings) report.Table {
	t := report.Table{Title: "Traffic between services, by the callers' proxies", Columns: append(report.FactorColumns(f), report.Column{Head: "from"}, report.Column{Head: "to"}, report.Column{Head: "requests/s", Right: true, Keep: 9}, report.Column{Head: "attempts/s", Right: true, Keep: 4}, report.Column{Head: "failed", Right: true, Keep: 8}, report.Column{Head: "p50", Right: true, Keep: 6}, report.Column{Head: "p99", Right: true, Keep: 6}, report.Column{Head: "flags", Keep: 5})}
	largest := 0.0
	for _, c := range judged(f) {
		for _, e := range c.Scenario.Total.Edges {
			largest = max(largest, e.Latency.At(0.5), e.Latency.At(0.99))
		}
	}
	us := report.ScaleFor("us", largest)
	for _, c := range judged(f) {
		long := c.Scenario.Seconds
		for _, e := range c.Scenario.Total.Edges {
			failed := report.Text{S: resilience.Percent(float64(e.Failed) / float64(max(e.Requests, 1)))}
			if e.Failed > 0 {
				failed.Style = report.StyleBad
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: e.From}, report.Text{S: e.To}, report.Text{S: rate(e.Requests, long)}, report.Text{S: rate(e.Attempts, long)}, failed,
				percentile(us, e.Latency.At(0.5)), percentile(us, e.Latency.At(0.99)), report.Text{S: byCount(e.Flags)}))
		}
	}
	return t
}

// dash stands for a figure that does not exist.
var dash = report.Text{S: "–", Style: report.StyleDim}

// orDash returns the words of a value, or a dash if it is zero.
func orDash(v float64, words string) report.Text {
	if v == 0 {
		return dash
	}
	return report.Text{S: words}
}

// percentile formats a value, with a dash if there is none.
func percentile(scale report.Scale, v float64) report.Text { return orDash(v, scale.Value(v)) }

func rate(n int64, s float64) string {
	if s <= 0 {
		return "–"
	}
	v := float64(n) / s
	return report.Fixed(v, report.Clamp(2-report.Magnitude(v), 0, 2))
}

// balanceTable lists the ledger's equations.
func balanceTable(f record.Findings) report.Table {
	t := report.Table{Title: "Ledger: requests sent vs. received between stations", Columns: append(report.FactorColumns(f), report.Column{Head: "balance"}, report.Column{Head: "left", Right: true, Keep: 9}, report.Column{Head: "arrived", Right: true, Keep: 9}, report.Column{Head: "lost, by cause", Keep: 6}, report.Column{Head: "holds"})}
	for _, c := range judged(f) {
		for _, e := range c.Scenario.Ledger.Equations {
			holds := report.Text{S: "yes", Style: report.StyleGood}
			if !e.Holds {
				holds = report.Text{S: fmt.Sprintf("no: %s missing, %s too many", report.Count(e.Missing), report.Count(e.Surplus)), Style: report.StyleBad}
			}
			if e.Open {
				holds.S += " (some senders do not log)"
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: e.Name}, report.Text{S: report.Count(e.Left)}, report.Text{S: report.Count(e.Arrived)}, report.Text{S: byCount(e.Lost)}, holds))
		}
	}
	return t
}

// faultTable lists where and how requests failed.
func faultTable(f record.Findings) report.Table {
	t := report.Table{Title: "Where requests failed", Columns: append(report.FactorColumns(f), report.Column{Head: "requests", Right: true}, report.Column{Head: "hop"}, report.Column{Head: "service"}, report.Column{Head: "flag"}, report.Column{Head: "meaning", Keep: 5}, report.Column{Head: "usual cause", Keep: 3})}
	shared := false
	for _, c := range judged(f) {
		for _, x := range c.Scenario.Ledger.Faults {
			flag := x.Flag
			if flag == "" {
				flag = "none"
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: report.Count(x.Count)}, report.Text{S: hopWords(x.Hop)}, report.Text{S: x.Service}, report.Text{S: flag}, report.Text{S: x.Meaning}, report.Text{S: x.Cause}))
			shared = shared || x.Hop == hopNetwork && c.Scenario.LedgerOf == record.LedgerEnds
		}
		if hidden := byCount(c.Scenario.Ledger.HiddenBy); hidden != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: retries hid attempts that failed by %s.", c.Label, hidden))
		}
	}
	if shared {
		t.Notes = append(t.Notes, "In an ambient mesh the network here includes ztunnel and waypoints: they log connections, or nothing.")
	}
	return t
}

// maxUnreconciled limits the number of a cell's requests that a text names; findings list all of
// them.
const maxUnreconciled = 20

func unreconciledTable(f record.Findings) report.Table {
	t := report.Table{Title: "Requests that do not reconcile", Columns: append(report.FactorColumns(f), report.Column{Head: "request"}, report.Column{Head: "at", Right: true}, report.Column{Head: "outcome"}, report.Column{Head: "lacks"})}
	for _, c := range judged(f) {
		all := c.Scenario.Ledger.Unreconciled
		for _, r := range all[:min(len(all), maxUnreconciled)] {
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: r.ID}, report.Text{S: seconds(r.AtS)}, report.Text{S: r.Outcome}, report.Text{S: strings.Join(r.Lacks, "; ")}))
		}
		if n := len(all) - maxUnreconciled; n > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s more are in the findings (--format json).", c.Label, words.Plural(n, "request")))
		}
	}
	return t
}

// wholeTable lists the findings over whole trials, from all of a cell's trials.
func wholeTable(f record.Findings) report.Table {
	return report.FigureTable(f, "All trials (95% interval)", report.FigureColumns{
		{"failed", "error_share", 9}, {"p50", "latency_p50", 5}, {"p99", "latency_p99", 7}, {"attempts", "attempt_ratio", 4}, {"hidden failures", "hidden_failures", 3},
		{"attempts to stale endpoints", "phantom_attempts", 3}, {"longest failing run", "longest_failing_run", 8},
		{"to detect", "time_to_detect", 6}, {"to eject", "time_to_eject", 5}, {"to recover", "time_to_recover", 6}, {"to move", "time_to_move", 6},
	}, nil)
}

// scenarioCost lists CPU and memory by cell.
func scenarioCost(f record.Findings) report.Table {
	return report.FigureTable(f, "CPU and memory (95% interval)", report.FigureColumns{
		{"control plane", "cpu_control_plane", 8}, {"other revision's", "cpu_second_control_plane", 8}, {"a client's proxy", "cpu_client_proxy", 9}, {"a server's proxy", "cpu_server_proxy", 9}, {"a node's proxy", "cpu_node_proxy", 9}, {"the waypoint", "cpu_waypoint", 9}, {"a node's agent", "cpu_node_agent", 3},
		{"first service's", "cpu_entry_proxy", 7}, {"last services'", "cpu_last_proxy", 7}, {"per request and proxy", "cpu_proxy_per_request", 6}, {"machine", "cpu_machine", 3}, {"unattributed", "cpu_unattributed", 3},
		{"control plane memory", "memory_control_plane", 5}, {"other revision's memory", "memory_second_control_plane", 5}, {"client's proxy memory", "memory_client_proxy", 4}, {"server's proxy memory", "memory_server_proxy", 4}, {"node's proxy memory", "memory_node_proxy", 4}, {"waypoint memory", "memory_waypoint", 4}, {"node's agent's memory", "memory_node_agent", 3},
		{"first service's proxy memory", "memory_entry_proxy", 2}, {"last services' proxy memory", "memory_last_proxy", 2},
	}, nil)
}

// zoneTable lists which zones answered calls, window by window.
func zoneTable(f record.Findings) report.Table {
	t := report.Table{Title: "Calls by zone", Columns: append(report.FactorColumns(f), report.Column{Head: "window"}, report.Column{Head: "calls", Right: true, Keep: 7}, report.Column{Head: "left their zone", Right: true, Keep: 9}, report.Column{Head: "answered by", Keep: 8})}
	share := func(n, of int64) string { return report.Fixed(100*float64(n)/float64(max(of, 1)), 1) + "%" }
	for _, c := range judged(f) {
		s := c.Scenario
		if s.Shown == "" || s.Total.Zoned == 0 {
			continue
		}
		for _, w := range append(slices.Clone(s.Windows), s.Total) {
			var by []string
			for _, zone := range slices.Sorted(maps.Keys(w.Zones)) {
				by = append(by, zone+" "+share(w.Zones[zone], w.Zoned))
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: w.Name}, report.Text{S: report.Count(w.Zoned)}, report.Text{S: share(w.CrossZone, w.Zoned)}, report.Text{S: strings.Join(by, ", ")}))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Answered calls, by the zone of the endpoint and that of the calling proxy.")
	}
	return t
}

// gatewayTable lists the pods of the gateway.
func gatewayTable(f record.Findings) report.Table {
	t := report.Table{Title: "Gateway pods", Columns: append(report.FactorColumns(f), report.Column{Head: "pod"}, report.Column{Head: "connections", Right: true, Keep: 7}, report.Column{Head: "requests", Right: true, Keep: 9}, report.Column{Head: "share", Right: true, Keep: 6}, report.Column{Head: "closed", Right: true, Keep: 5}, report.Column{Head: "dropped", Right: true, Keep: 8})}
	for _, c := range judged(f) {
		all := int64(0)
		for _, g := range c.Scenario.Gateways {
			all += g.Requests
		}
		for _, g := range c.Scenario.Gateways {
			dropped := report.Text{S: report.Count(g.Dropped)}
			if g.Dropped > 0 {
				dropped.Style = report.StyleBad
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: g.Pod}, report.Text{S: report.Count(g.Connections)}, report.Text{S: report.Count(g.Requests)},
				report.Text{S: report.Fixed(100*float64(g.Requests)/float64(max(all, 1)), 0) + "%"}, report.Text{S: report.Count(g.Closed)}, dropped))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Counted by the pods themselves until they were stopped. Closed: connections that the pod closed itself; dropped: those beyond one for each request without keep_alive, and all with it.")
	}
	return t
}
