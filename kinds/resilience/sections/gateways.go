package sections

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

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
