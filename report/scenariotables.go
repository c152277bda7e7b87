package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// windowTable has a row for each window of each cell, by the trial that is
// shown.
func windowTable(f record.Findings) table {
	cells := judged(f)
	largest := 0.0
	for _, c := range cells {
		largest = max(largest, c.Scenario.Total.Latency.P99)
	}
	us := scaleFor("us", largest)
	t := table{Title: "Windows between steps; latency in " + us.Unit + ", of answered requests from when they were due", Columns: append(factorColumns(f),
		column{"window", false, 0}, column{"from", true, 9}, column{"to", true, 2}, column{"requests", true, 8}, column{"failed", true, 0}, column{"by kind", false, 6},
		column{"p50", true, 7}, column{"p90", true, 1}, column{"p99", true, 8}, column{"max", true, 3}, column{"longest failing run", true, 5},
		column{"attempts", true, 6}, column{"hidden", true, 4}, column{"at gone endpoints", true, 4}, column{"fewer ready", true, 3}, column{"ejected", true, 3})}
	for _, c := range cells {
		s := c.Scenario
		if s.Shown == "" {
			continue
		}
		windows := append(slices.Clone(s.Windows), s.Total)
		if len(s.Windows) == 1 {
			windows = windows[1:] // nothing happens: the window is the whole
		}
		for _, w := range windows {
			run := scaleFor("us", w.LongestFailUS)
			row := append(factorTexts(f, c.Cell), text{S: w.Name}, text{S: seconds(w.FromS)}, text{S: seconds(w.ToS)}, text{S: count(w.Requests)}, failedText(w), text{S: byCount(w.FailedBy)})
			for _, v := range []float64{w.Latency.P50, w.Latency.P90, w.Latency.P99, w.Latency.Max} {
				if w.Answered == 0 {
					row = append(row, text{"–", styleDim})
				} else {
					row = append(row, text{S: us.plain(v)})
				}
			}
			attempts := text{S: fixed(w.Attempts, 2)}
			if w.Attempts == 0 {
				attempts = text{"–", styleDim}
			}
			row = append(row, text{S: run.value(w.LongestFailUS)}, attempts, text{S: count(w.Hidden)}, text{S: count(w.Phantom)}, text{S: fewer(s, w)}, text{S: byCount(w.Ejected)})
			if w.Name == s.Total.Name {
				for i := range row {
					row[i].Style = styleStrong
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "A window is named after the step that begins it; NAME.end begins when a step is undone. Fewer ready: the fewest endpoints of services that had not all; ejected: the most. Attempts: a request, between the two services that have the most.")
	}
	return t
}

// fewer lists services with fewer endpoints than the graph gives them.
func fewer(s *record.ScenarioSummary, w record.ScenarioWindow) string {
	out := map[string]int{}
	for _, n := range s.Graph.Nodes {
		if ready, ok := w.Ready[n.Service]; ok && ready < n.Replicas {
			out[n.Service] = ready
		}
	}
	return ready(out)
}

// ready lists numbers by name, zeros too: none left is what matters most.
func ready(m map[string]int) string {
	var out []string
	for _, name := range mapKeys(m) {
		out = append(out, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(out, ", ")
}

func failedText(w record.ScenarioWindow) text {
	out := text{S: count(w.Failed) + " (" + errorShare(w.ErrorShare) + ")"}
	if w.Failed > 0 {
		out.Style = styleBad
	}
	return out
}

// stepTable says when each step happened, and what it did.
func stepTable(f record.Findings) table {
	t := table{Title: "Steps", Columns: append(factorColumns(f), column{"step", false, 0}, column{"does", false, 7}, column{"at", true, 9}, column{"late", true, 2},
		column{"to detect", true, 8}, column{"to eject", true, 6}, column{"to recover", true, 8}, column{"longest failing run", true, 5}, column{"failed", true, 7}, column{"proof", false, 1})}
	for _, c := range judged(f) {
		for _, one := range c.Scenario.Steps {
			after := func(us *float64) text {
				if us == nil {
					return text{"–", styleDim}
				}
				return text{S: scaleFor("us", *us).value(*us)}
			}
			recovered := after(one.RecoverUS)
			if one.StillFailing {
				recovered = text{"still failing", styleBad}
			}
			proof := text{S: one.Proof}
			switch {
			case one.Error != "":
				proof = text{one.Error, styleBad}
			case one.ProvenS == 0:
				proof = text{"not proven", styleBad}
			}
			at := seconds(one.BeginS)
			if one.EndS > 0 {
				at += " to " + seconds(one.EndS)
			}
			t.Rows = append(t.Rows, append(factorTexts(f, c.Cell), text{S: one.Name}, text{S: one.Op + " " + one.Object}, text{S: at}, text{S: scaleFor("us", 1e3).value(one.LateUS)},
				after(one.DetectUS), after(one.EjectUS), recovered, text{S: scaleFor("us", one.LongestFailUS).value(one.LongestFailUS)}, text{S: count(one.Failed)}, proof))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Each time is from the step's begin until the next step: to detect until the first request failed, to eject until a proxy took an endpoint out, to recover until the last request failed.")
	}
	return t
}

// expectationTable sets arithmetic beside what was found.
func expectationTable(f record.Findings) table {
	t := table{Title: "Expected beside found", Columns: append(factorColumns(f), column{"window", false, 0}, column{"demand", true, 7}, column{"tightest", false, 5}, column{"capacity", true, 8}, column{"left", true, 8},
		column{"expected to fail", true, 0}, column{"failed", true, 0}, column{"attempts bound", true, 4}, column{"attempts", true, 4}, column{"surprise", false, 3})}
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
			tight, capacity, left := text{"nothing bounded", styleDim}, text{"–", styleDim}, text{"–", styleDim}
			if e.Service != "" {
				tight = text{S: fmt.Sprintf("%s, %s", e.Service, plural(e.Replicas, "replica"))}
				capacity = text{S: fixed(e.CapacityRPS, 0) + "/s"}
			}
			if e.Service != "" && e.DemandRPS > 0 {
				left = text{S: fixed(100*(e.CapacityRPS/e.DemandRPS-1), 0) + "%"}
				if e.CapacityRPS < e.DemandRPS {
					left.Style = styleBad
				}
			}
			attempts := text{"–", styleDim}
			if w.Attempts > 0 {
				attempts = text{S: fixed(w.Attempts, 2)}
			}
			surprise := text{S: strings.Join(w.Surprises, "; ")}
			if surprise.S != "" {
				surprise.Style = styleStrong
			}
			t.Rows = append(t.Rows, append(factorTexts(f, c.Cell), text{S: w.Name}, text{S: fixed(e.DemandRPS, 0) + "/s"}, tight, capacity, left, text{S: errorShare(e.ErrorShare)}, text{S: errorShare(w.ErrorShare)},
				text{S: fixed(e.Attempts, 0)}, attempts, surprise))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Arithmetic knows replicas, concurrency, service times and shares that fail, and that nobody takes a broken endpoint out; it knows nothing of proxies, networks and timeouts. Attempts are bounded by retries: %s.", strings.Join(retries, ", ")))
	}
	return t
}

// trafficEdges has the traffic between services over the whole trial.
func trafficEdges(f record.Findings) table {
	t := table{Title: "Traffic between services, by the callers' proxies", Columns: append(factorColumns(f), column{"from", false, 0}, column{"to", false, 0}, column{"requests/s", true, 9}, column{"attempts/s", true, 4}, column{"failed", true, 8}, column{"p50", true, 6}, column{"p99", true, 6}, column{"flags", false, 5})}
	largest := 0.0
	for _, c := range judged(f) {
		for _, e := range c.Scenario.Total.Edges {
			largest = max(largest, e.P99US)
		}
	}
	us := scaleFor("us", largest)
	for _, c := range judged(f) {
		long := c.Scenario.Seconds
		for _, e := range c.Scenario.Total.Edges {
			failed := text{S: errorShare(float64(e.Failed) / float64(max(e.Requests, 1)))}
			if e.Failed > 0 {
				failed.Style = styleBad
			}
			t.Rows = append(t.Rows, append(factorTexts(f, c.Cell), text{S: e.From}, text{S: e.To}, text{S: rate(e.Requests, long)}, text{S: rate(e.Attempts, long)}, failed,
				text{S: us.value(e.P50US)}, text{S: us.value(e.P99US)}, text{S: byCount(e.Flags)}))
		}
	}
	return t
}

func rate(n int64, s float64) string {
	if s <= 0 {
		return "–"
	}
	v := float64(n) / s
	return fixed(v, clamp(2-magnitude(v), 0, 2))
}

// balanceTable has the ledger's equations.
func balanceTable(f record.Findings) table {
	t := table{Title: "Ledger: what left one station and arrived at the next", Columns: append(factorColumns(f), column{"balance", false, 0}, column{"left", true, 9}, column{"arrived", true, 9}, column{"lost, by cause", false, 6}, column{"holds", false, 0})}
	for _, c := range judged(f) {
		for _, e := range c.Scenario.Ledger.Equations {
			holds := text{"yes", styleGood}
			if !e.Holds {
				holds = text{fmt.Sprintf("no: %s missing, %s too many", count(e.Missing), count(e.Surplus)), styleBad}
			}
			if e.Open {
				holds.S += " (more may be sent than anybody writes)"
			}
			t.Rows = append(t.Rows, append(factorTexts(f, c.Cell), text{S: e.Name}, text{S: count(e.Left)}, text{S: count(e.Arrived)}, text{S: byCount(e.Lost)}, holds))
		}
	}
	return t
}

// faultTable says where and how requests failed.
func faultTable(f record.Findings) table {
	t := table{Title: "Where requests failed", Columns: append(factorColumns(f), column{"requests", true, 0}, column{"hop", false, 0}, column{"service", false, 0}, column{"flag", false, 0}, column{"meaning", false, 5}, column{"usual cause", false, 3})}
	for _, c := range judged(f) {
		for _, x := range c.Scenario.Ledger.Faults {
			flag := x.Flag
			if flag == "" {
				flag = "none"
			}
			t.Rows = append(t.Rows, append(factorTexts(f, c.Cell), text{S: count(x.Count)}, text{S: hopWords(x.Hop)}, text{S: x.Service}, text{S: flag}, text{S: x.Meaning}, text{S: x.Cause}))
		}
		if hidden := byCount(c.Scenario.Ledger.HiddenBy); hidden != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: retries hid attempts that failed by %s.", c.Label, hidden))
		}
	}
	return t
}

// maxUnreconciled is how many requests of a cell a text names; findings have
// all of them.
const maxUnreconciled = 20

func unreconciledTable(f record.Findings) table {
	t := table{Title: "Requests that do not reconcile", Columns: append(factorColumns(f), column{"request", false, 0}, column{"at", true, 0}, column{"outcome", false, 0}, column{"lacks", false, 0})}
	for _, c := range judged(f) {
		all := c.Scenario.Ledger.Unreconciled
		for _, r := range all[:min(len(all), maxUnreconciled)] {
			t.Rows = append(t.Rows, append(factorTexts(f, c.Cell), text{S: r.ID}, text{S: seconds(r.AtS)}, text{S: r.Outcome}, text{S: strings.Join(r.Lacks, "; ")}))
		}
		if n := len(all) - maxUnreconciled; n > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s more are in the findings (--format json).", c.Label, plural(n, "request")))
		}
	}
	return t
}

// trialColumn is a column that shows a finding of each cell, or the shown
// trial's own value where there are too few for an interval.
type trialColumn struct {
	head, name string
	keep       int
}

// wholeTable has the findings over whole trials, of all of a cell's.
func wholeTable(f record.Findings) table {
	return trialTable(f, "Over all trials (95% interval)", []trialColumn{
		{"failed", "error_share", 9}, {"p50", "latency_p50", 5}, {"p99", "latency_p99", 7}, {"attempts", "attempt_ratio", 4}, {"hidden failures", "hidden_failures", 3},
		{"attempts at gone endpoints", "phantom_attempts", 3}, {"longest failing run", "longest_failing_run", 8},
		{"to detect", "time_to_detect", 6}, {"to eject", "time_to_eject", 5}, {"to recover", "time_to_recover", 6},
	})
}

// scenarioCost has CPU and memory by cell.
func scenarioCost(f record.Findings) table {
	return trialTable(f, "CPU and memory (95% interval)", []trialColumn{
		{"control plane", "cpu_control_plane", 8}, {"a client's proxy", "cpu_client_proxy", 9}, {"a server's proxy", "cpu_server_proxy", 9},
		{"first service's", "cpu_entry_proxy", 7}, {"last services'", "cpu_last_proxy", 7}, {"a request and proxy", "cpu_proxy_per_request", 6}, {"machine", "cpu_machine", 3},
		{"control plane memory", "memory_control_plane", 5}, {"client's proxy memory", "memory_client_proxy", 4}, {"server's proxy memory", "memory_server_proxy", 4},
		{"first service's proxy memory", "memory_entry_proxy", 2}, {"last services' proxy memory", "memory_last_proxy", 2},
	})
}

// trialTable has a row a cell and a column a finding, each with its unit.
// Columns that no cell has are left out.
func trialTable(f record.Findings, title string, columns []trialColumn) table {
	t := table{Title: title, Columns: factorColumns(f)}
	plain := plainFindings(f)
	for _, c := range judged(f) {
		t.Rows = append(t.Rows, factorTexts(f, c.Cell))
	}
	single := false
	for _, one := range columns {
		cells := judged(f)
		shown := make([]text, len(cells))
		any := false
		for i, c := range cells {
			x, ok := plain[one.name+"\x00"+c.Cell.Key()]
			v, own := c.Scenario.Values[one.name]
			shown[i] = text{"–", styleDim}
			switch {
			case ok && x.Verdict != record.VerdictInvalid && x.Low < x.High:
				shown[i] = text{S: scaleOf(x).quantity(x.Estimate, x.Low, x.High)}
			case ok && x.Verdict != record.VerdictInvalid:
				shown[i] = text{S: scaleOf(x).value(x.Estimate)}
			case ok && own:
				shown[i] = text{S: scaleFor(x.Unit, v).value(v) + " *"}
				single = true
			}
			shown[i].S = strings.Replace(shown[i].S, " attempts/request", "", 1) // the head says it
			any = any || shown[i].Style != styleDim
		}
		if !any {
			continue
		}
		t.Columns = append(t.Columns, column{one.head, true, one.keep})
		for i := range t.Rows {
			t.Rows[i] = append(t.Rows[i], shown[i])
		}
	}
	if single {
		t.Notes = append(t.Notes, "* of one trial: too few for an interval.")
	}
	if len(t.Columns) == len(factorColumns(f)) {
		t.Rows = nil
	}
	return t
}
