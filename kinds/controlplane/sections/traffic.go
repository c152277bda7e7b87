package sections

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// trafficTable has a row per cell: what real requests met at removed endpoints.
func trafficTable(f record.Findings) report.Table {
	t := figureTable(f, "Requests to stale endpoints per trial (95% interval)", report.FigureColumns{
		{"hit one", "phantom_requests", 9}, {"of all", "phantom_share", 6}, {"failed", "phantom_failures", 8}, {"of all", "phantom_failure_share", 7},
		{"hidden by a retry", "phantom_hidden", 5}, {"last one after", "phantom_last", 4}, {"all failures", "traffic_failures", 3},
		{"p99", "traffic_latency_p99", 2}, {"unexplained", "traffic_residual", 1},
	})
	if len(t.Rows) == 0 {
		return t
	}
	t.Notes = append(t.Notes, "Stale: no EndpointSlice lists the endpoint any more. Last one after: time from then to the last attempt to it. "+
		"p99: latency of answered requests from intended send time; not reached where more than 1% failed or never ended. Unexplained: failures the generator saw and the caller's sidecar did not.")
	return t
}

// trafficAnswers describes what real requests met, in each of the first cells.
func trafficAnswers(f record.Findings) []string {
	return cellSentences(f, func(c record.CellSummary, _ lookup) string {
		if c.Valid == 0 || c.Control == nil || c.Control.Traffic == nil || c.Control.Traffic.Requests == 0 {
			return ""
		}
		x := c.Control.Traffic
		if x.PhantomRequests == 0 {
			return fmt.Sprintf("none of %s requests went to a stale endpoint, while %s went", report.Count(x.Requests), words.Plural(x.Gone, "endpoint"))
		}
		hidden := "were saved by a retry"
		if x.HiddenMaxUS >= 1e6 {
			hidden += ", after up to " + report.ScaleFor("us", x.HiddenMaxUS).Value(x.HiddenMaxUS)
		}
		var fates []string
		for _, fate := range []struct {
			n    int64
			what string
		}{
			{x.PhantomFailures, "failed for the caller"}, {x.PhantomHidden, hidden}, {x.PhantomServed, "were still served by a terminating pod"}, {x.PhantomOpen, "have an unknown outcome"},
		} {
			if fate.n > 0 {
				fates = append(fates, report.Count(fate.n)+" "+fate.what)
			}
		}
		return fmt.Sprintf("%s of %s requests (%s) went to a stale endpoint, the last %s after it had: %s", report.Count(x.PhantomRequests), report.Count(x.Requests),
			shareWords(float64(x.PhantomRequests)/float64(x.Requests)), report.ScaleFor("us", x.LastPhantomUS).Value(x.LastPhantomUS), strings.Join(fates, "; "))
	})
}

// shareWords formats a share in percent with two significant digits.
func shareWords(v float64) string {
	return report.Fixed(100*v, report.Clamp(1-report.Magnitude(100*v), 0, 4)) + "%"
}
