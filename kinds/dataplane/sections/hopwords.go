package sections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
)

// hopMeasureWords names the measures of terms.
var hopMeasureWords = map[string]string{
	dataplane.HopP50: "the median latency", dataplane.HopP99: "the 99th percentile of latency", dataplane.HopPods: "the CPU of all pods per request",
}

// hopWords describes how the whole splits into terms, largest first; "" for measures without words
// or without a figure.
func hopWords(h record.Hops, name string) string {
	what, ok := hopMeasureWords[name]
	if !ok || len(h.Terms) < 2 {
		return ""
	}
	total := h.Terms[len(h.Terms)-1].Figures[name]
	residual := h.Terms[len(h.Terms)-2].Figures[name]
	if total.Verdict != record.VerdictMeasured || residual.Verdict == record.VerdictInvalid || residual.Verdict == "" || total.Estimate <= 0 {
		return ""
	}
	var parts, zero, open, unknown []string
	for _, t := range h.Terms[:len(h.Terms)-2] {
		f := t.Figures[name]
		word := strings.ReplaceAll(t.Name, "_", " ")
		if t.Name == dataplane.HopTLSTerm {
			word = "TLS"
		}
		switch {
		case f.Verdict == record.VerdictInvalid:
			unknown = append(unknown, word)
		case withinZero(f):
			zero = append(zero, word)
		case f.Verdict == record.VerdictReal || f.Verdict == record.VerdictMeasured: // the path is a cell's own value
			parts = append(parts, fmt.Sprintf("%s %s", word, words.Percent(f.Estimate/total.Estimate)))
		default:
			open = append(open, fmt.Sprintf("%s (%s)", word, whyNot(f)))
		}
	}
	says := fmt.Sprintf("Of %s, %s: %s.", what, span(total), words.List(parts))
	if len(parts) == 0 {
		says = fmt.Sprintf("No part of %s, %s, is significant.", what, span(total))
	}
	if len(unknown) > 0 {
		says += " Not known: " + words.List(unknown) + "."
	}
	// Shares that cannot be distinguished from zero would only be mistaken for figures.
	rest := ""
	switch {
	case withinZero(residual):
		zero = append(zero, fmt.Sprintf("the residual (%s)", span(residual)))
	case residual.Verdict == record.VerdictReal:
		rest = fmt.Sprintf(" The residual is %s: both sidecars together do not cost the sum of each alone.", span(residual))
	case residual.Verdict == record.VerdictMeasured:
		rest = fmt.Sprintf(" The residual is %s: whether that is more than chance is not known.", span(residual))
	default:
		open = append(open, fmt.Sprintf("the residual (%s; %s)", span(residual), whyNot(residual)))
	}
	if len(zero) > 0 {
		says += " Indistinguishable from zero: " + words.List(zero) + "."
	}
	if len(open) > 0 {
		says += " Not significant: " + words.List(open) + "."
	}
	if says += rest; slices.Contains(h.Apart, name) {
		says += " Too few blocks have all parts: these are of different blocks, and need not add up."
	}
	return says
}
