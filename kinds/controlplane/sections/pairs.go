package sections

import (
	"cmp"
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// pairsReach returns a percentile of convergence over the pairs of all trials, NaN if there are too
// few pairs to leave one beyond it.
func pairsReach(q record.Quantile) func(c *record.ControlSummary) float64 {
	return func(c *record.ControlSummary) float64 {
		if c.Acknowledged < int64(q.Needs()) {
			return math.NaN()
		}
		return c.Convergence.At(q)
	}
}

// Placeholders for a percentile without a figure: either there are too few changes, and more would
// give one, or it lies among changes that never arrived.
var (
	tooFewChanges = report.Text{S: "too few changes", Style: report.StyleDim}
	neverReached  = report.Text{S: "not reached", Style: report.StyleDim}
)

// tooFewPairs reports whether a cell lacks a percentile because its pairs of a change and a proxy
// leave none beyond it.
func tooFewPairs(name string, c record.CellSummary) bool {
	if c.Control == nil || c.Valid == 0 {
		return false
	}
	if name == "hidden_convergence_p99" {
		return c.Control.Acknowledged > 0 && c.Control.ReportedTrials > 0
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
		if c.Control == nil || c.Control.Edges == nil || c.Control.Trials == 0 {
			continue
		}
		pairs, changes := c.Control.Acknowledged/int64(c.Control.Trials), c.Control.Edges.Changes/c.Control.Trials
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

// convergenceSentences describes how long changes take in a cell, over pairs and per change. in
// begins the first sentence: "In the baseline (none), half".
func convergenceSentences(in string, k *record.ControlSummary, p99 string) []string {
	s := report.ScaleFor("us", cmp.Or(k.Convergence.At(0.99), k.Convergence.Max()))
	first := fmt.Sprintf("%s of the %s change-proxy pairs take at most %s from commit to ACK", in, report.Count(k.Acknowledged), s.Value(k.Convergence.At(0.5)))
	if p99 != "" {
		first += fmt.Sprintf(", and 1 in 100 takes more than %s", p99)
	}
	out := []string{first + "."}
	if e := k.Edges; e != nil && e.Median.Known(0.5) && e.Last.Known(0.5) {
		out = append(out, fmt.Sprintf("Of those %s, half reach half of their proxies within %s and the last one within %s.", words.Plural(e.Changes, "change"), s.Value(k.MedianUS), s.Value(k.LastUS)))
	}
	return out
}
