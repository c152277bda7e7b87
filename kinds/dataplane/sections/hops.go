package sections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// hopColumns lists the measures of a request path's terms.
var hopColumns = []pricedColumn{
	{dataplane.HopP50, "p50", 9},
	{dataplane.HopP99, "p99", 4},
	{dataplane.HopPods, "CPU of all pods per request", 8},
	{dataplane.HopKernel, "of it in the kernel", 6},
	{dataplane.HopMachine, "CPU of the whole machine", 2},
}

// hopTables lists the cost breakdown of the request path.
func hopTables(f record.Findings) []report.Table {
	var out []report.Table
	for _, h := range f.Hops {
		t := report.Table{Title: "Cost breakdown of the request path" + within(f, h.Cell, " (%s)"), Columns: []report.Column{{Head: "part"}}}
		var figures []map[string]record.Priced
		for _, term := range h.Terms {
			figures = append(figures, term.Figures)
		}
		names, largest := addPriced(&t, hopColumns, figures)
		t.Columns = append(t.Columns, report.Column{Head: "what it is", Keep: 1})
		for _, term := range h.Terms {
			st := report.StyleNone
			if term.Name == dataplane.HopTotal {
				st = report.StyleStrong
			}
			row := []report.Text{{S: hopTermWords(term.Name), Style: st}}
			for _, name := range names {
				text := report.Text{S: "not valid", Style: report.StyleDim}
				if p, ok := term.Figures[name]; ok && p.Verdict != record.VerdictInvalid {
					text = pricedText(p, largest[name])
					if text.Style = st; p.Verdict == record.VerdictInconclusive {
						text.Style = report.StyleDim
					}
				}
				row = append(row, text)
			}
			t.Rows = append(t.Rows, append(row, report.Text{S: term.Doc, Style: report.StyleDim}))
		}
		t.Notes = append(t.Notes, "Each part is a within-block difference with its 95% interval; in every block the parts and the residual add up to the total. Percentiles are not additive: the residual says by how much.")
		out = append(out, t)
	}
	return out
}

func hopTermWords(name string) string {
	switch name {
	case dataplane.HopPath:
		return "path without sidecars"
	case dataplane.HopTLSTerm:
		return "TLS"
	case dataplane.HopTotal:
		return "in all"
	}
	return report.FactorName(name)
}

// hopAnswers describes the breakdown of a request's cost.
func hopAnswers(f record.Findings) []string {
	var out []string
	for _, h := range f.Hops {
		of := within(f, h.Cell, "At %s: ")
		told := len(out)
		for _, name := range dataplane.HopMeasures() {
			if says := hopWords(h, name); says != "" {
				out = append(out, of+says)
			}
		}
		if len(out) == told {
			out = append(out, of+"No cost breakdown of the request path: too few blocks have a valid trial of every cell.")
		}
	}
	return out
}

// hopCharts draws the parts of each path, with a switch per figure.
func hopCharts(f record.Findings) []report.Chart {
	var out []report.Chart
	for _, c := range hopColumns {
		for _, h := range f.Hops {
			var rows []report.IntervalRow
			for i, term := range h.Terms {
				look := report.Look{Color: report.StackColor(i%5 + 1)}
				switch term.Name {
				case dataplane.HopResidual:
					look = report.Look{Color: "series-6", Dash: 1}
				case dataplane.HopTotal:
					look = report.Look{Color: "series-0", Dash: 2}
				}
				if p, ok := term.Figures[c.name]; ok && p.Verdict != record.VerdictInvalid {
					row := pricedRow(hopTermWords(term.Name), p, look)
					row.Hollow = p.Verdict == record.VerdictInconclusive
					rows = append(rows, row)
				}
			}
			if len(rows) > 0 {
				out = append(out, pricedChart("Cost breakdown of the request path: "+c.head, within(f, h.Cell, "At %s"), c.head,
					report.Option{Switch: "figure", Choice: c.head}, rows))
			}
		}
	}
	return out
}

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
