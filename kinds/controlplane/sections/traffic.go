package sections

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// trafficAnswers describes what real requests met, in each of the first cells.
func trafficAnswers(f record.Findings) []string {
	return cellSentences(f, func(c record.CellSummary, _ lookup) string {
		if c.Valid == 0 || c.Control.Traffic == nil || c.Control.Traffic.Requests == 0 {
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
