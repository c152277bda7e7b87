package sections

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// trafficTable has a row per cell: what real requests met at removed endpoints.
func trafficTable(f record.Findings) report.Table {
	each := func(of func(t *record.Traffic) float64) func(c *record.ControlSummary) float64 {
		return func(c *record.ControlSummary) float64 {
			if c.Traffic == nil || c.Trials == 0 {
				return math.NaN()
			}
			return of(c.Traffic)
		}
	}
	mean := func(of func(t *record.Traffic) int64) func(c *record.ControlSummary) float64 {
		return func(c *record.ControlSummary) float64 {
			return each(func(t *record.Traffic) float64 { return float64(of(t)) / float64(c.Trials) })(c)
		}
	}
	t := valueTable(f, "Requests to stale endpoints per trial (95% interval)", []valueColumn{
		{"hit one", "phantom_requests", 9, mean(func(t *record.Traffic) int64 { return t.PhantomRequests })},
		{"of all", "phantom_share", 6, each(func(t *record.Traffic) float64 { return float64(t.PhantomRequests) / float64(t.Requests) })},
		{"failed", "phantom_failures", 8, mean(func(t *record.Traffic) int64 { return t.PhantomFailures })},
		{"of all", "phantom_failure_share", 7, each(func(t *record.Traffic) float64 { return float64(t.PhantomFailures) / float64(t.Requests) })},
		{"hidden by a retry", "phantom_hidden", 5, mean(func(t *record.Traffic) int64 { return t.PhantomHidden })},
		{"last one after", "phantom_last", 4, each(func(t *record.Traffic) float64 { return t.LastPhantomUS })},
		{"all failures", "traffic_failures", 3, mean(func(t *record.Traffic) int64 { return t.Lost() })},
		{"p99", "traffic_latency_p99", 2, each(func(t *record.Traffic) float64 {
			if float64(t.Lost()) > 0.01*float64(t.Requests) {
				return math.NaN()
			}
			return t.Latency.At(0.99)
		})},
		{"unexplained", "traffic_residual", 1, mean(func(t *record.Traffic) int64 { return t.Residual })},
	})
	if len(t.Rows) == 0 || len(t.Columns) == len(report.FactorColumns(f)) {
		return report.Table{}
	}
	t.Notes = append(t.Notes, "Stale: no EndpointSlice lists the endpoint any more. Last one after: time from then to the last attempt to it. "+
		"p99: latency of answered requests from intended send time; not reached where more than 1% failed or never ended. Unexplained: failures the generator saw and the caller's sidecar did not.")
	return t
}

// trafficAnswers describes what real requests met, in each of the first cells.
func trafficAnswers(f record.Findings) []string {
	const most = 4
	var out []string
	for _, c := range f.Cells {
		if len(out) == most {
			break
		}
		k := c.Control
		if c.Valid == 0 || k == nil || k.Traffic == nil || k.Traffic.Requests == 0 {
			continue
		}
		x := k.Traffic
		where := ""
		if len(f.Cells) > 1 {
			where = "With " + c.Label + ", "
		}
		if x.PhantomRequests == 0 {
			out = append(out, report.UpperFirst(fmt.Sprintf("%snone of %s requests went to a stale endpoint, while %s went.",
				where, report.Count(x.Requests), words.Plural(x.Gone, "endpoint"))))
			continue
		}
		var fates []string
		fate := func(n int64, what string) {
			if n > 0 {
				fates = append(fates, report.Count(n)+" "+what)
			}
		}
		fate(x.PhantomFailures, "failed for the caller")
		hidden := "were saved by a retry"
		if x.HiddenMaxUS >= 1e6 {
			s := report.ScaleFor("us", x.HiddenMaxUS)
			hidden += ", after up to " + s.Value(x.HiddenMaxUS)
		}
		fate(x.PhantomHidden, hidden)
		fate(x.PhantomServed, "were still served by a terminating pod")
		fate(x.PhantomOpen, "have an unknown outcome")
		last := report.ScaleFor("us", x.LastPhantomUS)
		out = append(out, report.UpperFirst(fmt.Sprintf("%s%s of %s requests (%s) went to a stale endpoint, the last %s after it had: %s.", where,
			report.Count(x.PhantomRequests), report.Count(x.Requests), shareWords(float64(x.PhantomRequests)/float64(x.Requests)), last.Value(x.LastPhantomUS), strings.Join(fates, "; "))))
	}
	return out
}

// shareWords formats a share in percent with two significant digits.
func shareWords(v float64) string {
	return report.Fixed(100*v, report.Clamp(1-report.Magnitude(100*v), 0, 4)) + "%"
}
