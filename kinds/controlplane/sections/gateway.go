package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// routesTable has a row per cell: when requests through a real gateway found its new routes,
// compared with the ACKs.
func routesTable(f record.Findings) report.Table {
	t := figureTable(f, "From a route's commit until the real gateway serves it (95% interval)", report.FigureColumns{
		{"first good request", "route_served", 9}, {"p90", "route_served_p90", 4}, {"slowest", "route_served_max", 5},
		{"ACK", "route_acked", 8}, {"served after ACK", "route_served_after_ack", 7}, {"known to within", "route_resolution", 6},
		{"never served", "routes_unserved", 3}, {"failed requests", "route_errors", 2},
	})
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "First good request: when its answer came, median over changes; each route has its own schedule of requests, which starts before it is due. "+
			"ACK: of the last simulated gateway, which holds the same routes. Known to within: from the last request that was not served to the first good answer.")
	}
	return t
}

// attachedTable has a row per cell: how a Gateway's status follows its routes.
func attachedTable(f record.Findings) report.Table {
	t := figureTable(f, "How a Gateway's status follows its routes (95% interval)", report.FigureColumns{
		{"all attached", "attached_all", 9}, {"since the first", "attached_all_since_first", 5},
		{"none left", "attached_none", 8}, {"since the first deletion", "attached_none_since_first", 4},
		{"status writes up", "gateway_status_writes", 7}, {"down", "gateway_status_writes_down", 6}, {"in all", "gateway_status_writes_total", 3},
	})
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "All attached: from the last route's commit until status.listeners[].attachedRoutes has all. None left: from the answer to the last deletion. Writes: different statuses, by a watch.")
	}
	return t
}

// routeAnswers describes when routes are served, and when the Gateway's status has them.
func routeAnswers(f record.Findings) []string {
	served := cellSentences(f, func(_ record.CellSummary, measured lookup) string {
		served, ok := measured("route_served")
		if !ok {
			return ""
		}
		s := report.ScaleOf(served)
		sentence := "a new route is served " + report.WithInterval(s, served) + " after its commit"
		if acked, ok := measured("route_acked"); ok {
			sentence += ", and acknowledged after " + s.Value(acked.Estimate)
		}
		return sentence
	})
	return append(served, cellSentences(f, func(_ record.CellSummary, measured lookup) string {
		all, ok := measured("attached_all")
		if !ok {
			return ""
		}
		sentence := "the Gateway's status has all routes " + report.WithInterval(report.ScaleOf(all), all) + " after the last one's commit"
		if writes, ok := measured("gateway_status_writes"); ok {
			sentence += fmt.Sprintf(", in %s writes", report.Fixed(writes.Estimate, 0))
		}
		if none, ok := measured("attached_none"); ok {
			sentence += ", and none " + report.WithInterval(report.ScaleOf(none), none) + " after the last deletion"
		}
		return sentence
	})...)
}
