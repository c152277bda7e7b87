package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// routesTable has a row per cell: when requests through a real gateway found its new routes,
// compared with the ACKs.
func routesTable(f record.Findings) report.Table {
	t := valueTable(f, "From a route's commit until the real gateway serves it (95% interval)", []valueColumn{
		{"first good request", "route_served", 9, nil}, {"p90", "route_served_p90", 4, nil}, {"slowest", "route_served_max", 5, nil},
		{"ACK", "route_acked", 8, nil}, {"served after ACK", "route_served_after_ack", 7, nil}, {"known to within", "route_resolution", 6, nil},
		{"never served", "routes_unserved", 3, nil}, {"failed requests", "route_errors", 2, nil},
	})
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "First good request: when its answer came, median over changes; each route has its own schedule of requests, which starts before it is due. "+
			"ACK: of the last simulated gateway, which holds the same routes. Known to within: from the last request that was not served to the first good answer.")
	}
	return t
}

// attachedTable has a row per cell: how a Gateway's status follows its routes.
func attachedTable(f record.Findings) report.Table {
	t := valueTable(f, "How a Gateway's status follows its routes (95% interval)", []valueColumn{
		{"all attached", "attached_all", 9, nil}, {"since the first", "attached_all_since_first", 5, nil},
		{"none left", "attached_none", 8, nil}, {"since the first deletion", "attached_none_since_first", 4, nil},
		{"status writes up", "gateway_status_writes", 7, nil}, {"down", "gateway_status_writes_down", 6, nil}, {"in all", "gateway_status_writes_total", 3, nil},
	})
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "All attached: from the last route's commit until status.listeners[].attachedRoutes has all. None left: from the answer to the last deletion. Writes: different statuses, by a watch.")
	}
	return t
}

// maxRouteAnswers is the number of sentences after which no cell adds more; the tables have all.
const maxRouteAnswers = 4

// routeAnswers describes when routes are served.
func routeAnswers(f record.Findings) []string {
	in := measuredIn(f)
	var out []string
	for _, c := range f.Cells {
		if len(out) >= maxRouteAnswers {
			break
		}
		where := ""
		if len(f.Cells) > 1 {
			where = "with " + c.Label + ", "
		}
		if served, ok := in(c.Cell, "route_served"); ok {
			s := report.ScaleOf(served)
			sentence := fmt.Sprintf("%sa new route is served %s after its commit", where, report.WithInterval(s, served))
			if acked, ok := in(c.Cell, "route_acked"); ok {
				sentence += fmt.Sprintf(", and acknowledged after %s", s.Value(acked.Estimate))
			}
			out = append(out, report.UpperFirst(sentence+"."))
		}
		if all, ok := in(c.Cell, "attached_all"); ok {
			s := report.ScaleOf(all)
			sentence := fmt.Sprintf("%sthe Gateway's status has all routes %s after the last one's commit", where, report.WithInterval(s, all))
			if writes, ok := in(c.Cell, "gateway_status_writes"); ok {
				sentence += fmt.Sprintf(", in %s writes", report.Fixed(writes.Estimate, 0))
			}
			if none, ok := in(c.Cell, "attached_none"); ok {
				s := report.ScaleOf(none)
				sentence += fmt.Sprintf(", and none %s after the last deletion", report.WithInterval(s, none))
			}
			out = append(out, report.UpperFirst(sentence+"."))
		}
	}
	return out
}
