package sections

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// nodesTable lists the use of node proxies: per request if requests pass them, else without
// requests.
func nodesTable(f record.Findings) report.Table {
	t := report.Table{Title: "Proxies on nodes", Columns: append(report.FactorColumns(f),
		right("CPU, µs a request", 9), right("request alone", 8), right("mCPU idle", 8), right("memory, MB", 6), right("threads", 4), right("connections", 5))}
	s := report.Scale{Div: 1}
	idle, net := report.Named(f, dataplane.FindingIdleNode), report.Named(f, dataplane.FindingNodesNet)
	figure := func(of map[string]record.Finding, cell record.Cell) report.Text {
		x, ok := of[cell.Key()]
		if !ok || x.Verdict == record.VerdictInvalid {
			return report.Dash
		}
		return report.Text{S: s.Interval(x.Estimate, x.Low, x.High)}
	}
	for _, c := range f.Cells {
		parts := c.Way.At(record.PlaceNode)
		if len(parts) == 0 {
			if _, ok := idle[c.Cell.Key()]; !ok {
				continue
			}
			parts = []string{record.PartIdleNode}
		}
		sum := sumOfNodes(c, parts)
		gross := report.Dash
		if parts[0] != record.PartIdleNode && sum.cpu > 0 {
			gross = report.Text{S: s.Plain(sum.cpu)}
		}
		row := append(report.FactorTexts(f, c.Cell), gross, figure(net, c.Cell), figure(idle, c.Cell))
		for _, n := range []struct {
			v    float64
			text string
		}{{sum.memory, s.Plain(sum.memory / 1e6)}, {float64(sum.threads), fmt.Sprint(sum.threads)}, {float64(sum.connections), fmt.Sprint(sum.connections)}} {
			text := report.Dash
			if n.v != 0 {
				text.S, text.Style = n.text, report.StyleNone
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "All proxies of a row together, their work for other pods included. CPU a request includes what they use without any, at the cell's own rate. "+
			"Idle: one proxy, in windows whose requests pass none. Request alone: without idle use, in the same blocks. Connections: the generator's, per trial.")
	}
	return t
}

// nodesUse is the total use of a cell's node proxies.
type nodesUse struct {
	cpu, memory float64 // microseconds per request, bytes
	threads     int
	connections int64
}

func sumOfNodes(c record.CellSummary, parts []string) (sum nodesUse) {
	for _, part := range parts {
		cpu := c.CPUPerRequest[part]
		sum.cpu += cpu.UserUS + cpu.SystemUS
		sum.memory += float64(c.MemoryBytes[part])
		for _, r := range c.Threads[part].Rows {
			sum.threads += r.Threads
		}
		// Both sides count each connection; a single proxy on both sides counts it twice.
		sum.connections = max(sum.connections, c.Connections[part].Opened, c.Connections[part].Accepted)
	}
	return sum
}

// nodeAnswers states which part of the node proxies' use is for requests, over the cells that have
// top's levels.
func nodeAnswers(f record.Findings, top record.Cell) []string {
	net, ok := onlyFinding(f, dataplane.FindingNodesNet, top)
	if !ok {
		return nil
	}
	var used []float64
	for _, x := range f.Findings {
		if x.Name == dataplane.FindingIdleNode && x.Verdict == record.VerdictMeasured {
			used = append(used, x.Estimate)
		}
	}
	if len(used) == 0 {
		return nil
	}
	idle := report.Scale{Div: 1, Unit: "mCPU"}
	each := idle.Value(slices.Max(used))
	if len(used) > 1 {
		each = "between " + idle.Plain(slices.Min(used)) + " and " + each
	}
	return []string{fmt.Sprintf("Proxies on nodes use %s for a request itself; each uses %s without any.",
		report.Scale{Div: 1, Unit: "µs"}.Quantity(net.Estimate, net.Low, net.High), each)}
}
