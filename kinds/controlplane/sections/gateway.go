package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

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
