package sections

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// Placeholders for a percentile without a figure: either there are too few changes, and more would
// give one, or it lies among changes that never arrived.
var (
	tooFewChanges = report.Text{S: "too few changes", Style: report.StyleDim}
	neverReached  = report.Text{S: "not reached", Style: report.StyleDim}
)

// tooFewPairs reports whether a cell lacks a percentile because its pairs of a change and a proxy
// leave none beyond it.
func tooFewPairs(name string, c record.CellSummary) bool {
	if c.Valid == 0 {
		return false
	}
	for _, q := range record.Percentiles() {
		if q.Needs() == 0 {
			continue
		}
		switch name {
		case "convergence_" + q.Name():
			return c.Control.Acknowledged > 0
		case "applied_" + q.Name():
			return c.Control.Applied != nil
		}
	}
	return false
}

// unreached reports whether a difference is invalid because there are too few changes, or too many
// that never arrived.
func unreached(x record.Finding) bool {
	return x.Reason == record.ReasonTooFew || x.Reason == record.ReasonNotReached
}

// pairsNote describes the basis of percentiles over pairs: the cells' numbers of pairs and changes,
// and the numbers required.
func pairsNote(f record.Findings) string {
	low, high, few, many := int64(math.MaxInt64), int64(0), math.MaxInt, 0
	for _, c := range f.Cells {
		if c.Control.Followed == 0 || c.Control.Trials == 0 {
			continue
		}
		pairs, changes := c.Control.Acknowledged/int64(c.Control.Trials), c.Control.Followed/c.Control.Trials
		low, high = min(low, pairs), max(high, pairs)
		few, many = min(few, changes), max(many, changes)
	}
	const rule = "a percentile needs enough pairs per trial to leave one beyond it (100 for p99, 1,000 for p99.9), and gains precision with the number of changes"
	if many == 0 {
		return "p50 to max are over change-proxy pairs: " + rule + "."
	}
	return fmt.Sprintf("p50 to max are over change-proxy pairs, %s from %s per trial: %s.", span(low, high), span(int64(few), int64(many))+" changes", rule)
}

// span formats a range of counts: "40–140", or "40".
func span(low, high int64) string {
	if low == high {
		return report.Count(low)
	}
	return report.Count(low) + "–" + report.Count(high)
}
