package sections

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// soakNames are the names of growing figures, in tables and at the start of a sentence.
var soakNames = map[string]string{
	controlplane.SlopeMemory: "istiod's memory", controlplane.SlopeHeap: "istiod's live heap", controlplane.SlopeSidecar: "a real sidecar's memory",
	controlplane.SlopeP50: "p50 convergence", controlplane.SlopeP99: "p99 convergence",
}

// grownFinding returns the finding of a growth.
func grownFinding(f record.Findings, g record.Growth) (record.Finding, bool) {
	i := slices.IndexFunc(f.Findings, func(x record.Finding) bool { return x.Name == g.Finding })
	if i < 0 {
		return record.Finding{}, false
	}
	return f.Findings[i], true
}

// soakTable lists each figure per third of the soak, and the resulting growth.
func soakTable(f record.Findings) report.Table {
	if f.Soak == nil {
		return report.Table{}
	}
	t := report.Table{Title: fmt.Sprintf("What grew in %s (95%% interval)", hoursWords(f.Soak.Hours)), Columns: []report.Column{
		{Head: "figure", Keep: 10}, {Head: "first third", Right: true, Keep: 5}, {Head: "second", Right: true, Keep: 4}, {Head: "last", Right: true, Keep: 6},
		{Head: "growth", Right: true, Keep: 9}, {Head: "of its level", Right: true, Keep: 7}, {Head: "answer", Keep: 8}}}
	for _, g := range f.Soak.Growths {
		x, ok := grownFinding(f, g)
		if !ok {
			continue
		}
		level := report.ScaleFor(g.Unit, math.Max(g.First, math.Max(g.Warm, g.Last)))
		at := func(v float64) report.Text {
			if v <= 0 {
				return report.Dash
			}
			return report.Text{S: level.Value(v)}
		}
		row := []report.Text{{S: soakNames[g.Finding]}, at(g.First), at(g.Warm), at(g.Last)}
		t.Rows = append(t.Rows, append(row, growthText(x), shareText(x), soakAnswer(x)))
	}
	return noted(t, fmt.Sprintf("The first third warms up and counts towards no growth. Growth of no more than %s%% of a figure an hour does not matter here (margin).", words.Figures(f.Soak.MarginRatio*100)))
}

// growthText formats a growth per hour with its interval.
func growthText(x record.Finding) report.Text {
	switch {
	case x.Verdict == record.VerdictInvalid:
		return report.Dash
	case x.Open != "":
		return report.Text{S: "not known", Style: report.StyleDim} // without an interval a figure may be anything
	}
	return report.Text{S: report.WithInterval(report.ScaleOf(x), x)}
}

// shareText formats the growth as a share of the figure's own level. A figure that is already a
// share has none.
func shareText(x record.Finding) report.Text {
	if x.Relative == nil || x.Unit == finding.UnitRatioPerHour || x.Verdict == record.VerdictInvalid {
		return report.Text{}
	}
	return report.Text{S: report.Scale{Div: 0.01, Unit: "%/h"}.Quantity(x.Relative.Estimate, x.Relative.Low, x.Relative.High)}
}

func soakAnswer(x record.Finding) report.Text {
	switch {
	case x.Verdict == record.VerdictReal:
		return report.Text{S: "grows", Style: report.StyleBad}
	case x.Verdict == record.VerdictNoEffect:
		return report.Text{S: "does not grow", Style: report.StyleStrong}
	case x.Reason == record.ReasonSettling:
		return report.Text{S: "still settling", Style: report.StyleDim}
	case x.Verdict == record.VerdictInvalid:
		return report.Text{S: "too few windows", Style: report.StyleDim}
	}
	return report.Text{S: "inconclusive", Style: report.StyleDim}
}

// fewWindows is the number of windows below which growth is unknown.
const fewWindows = 9

// soakAnswers states for each figure whether it grows, and the consequences.
func soakAnswers(f record.Findings) []string {
	if f.Soak == nil {
		return nil
	}
	lived := fmt.Sprintf("One istiod lived through %s in %s", hoursWords(f.Soak.Hours), words.Plural(f.Soak.Windows, "window"))
	if f.Soak.Lives > 1 {
		lived += fmt.Sprintf(", the longest of %d lives: the others are left out", f.Soak.Lives)
	}
	out := []string{lived + "."}
	if f.Soak.Windows < fewWindows {
		out[0] = fmt.Sprintf("Whether anything grows is unknown: only %s of %s, in one life of istiod, can be used.", report.Count(f.Soak.Windows), words.Plural(f.Validity.Trials, "window"))
		return out
	}
	for _, g := range f.Soak.Growths {
		if x, ok := grownFinding(f, g); ok && x.Verdict != record.VerdictInvalid {
			out = append(out, report.UpperFirst(growthSentence(f.Soak, g, x)))
		}
	}
	return out
}

// growthSentence returns the answer for one figure.
func growthSentence(s *record.Soak, g record.Growth, x record.Finding) string {
	name, rate := soakNames[g.Finding], growthText(x).S
	longer := ""
	if g.NeedsHours > 0 {
		longer = fmt.Sprintf("; at this scatter it takes about %s", hoursWords(g.NeedsHours))
	}
	switch {
	case x.Verdict == record.VerdictReal && g.FullHours > 0:
		return fmt.Sprintf("%s grows by %s: at this rate %s is reached after %s (%s to %s).", name, rate, s.LimitIs, hoursWords(g.FullHours), hoursWords(g.FullLowHours), hoursWords(g.FullHighHours))
	case x.Verdict == record.VerdictReal:
		return fmt.Sprintf("%s grows by %s.", name, rate)
	case x.Verdict == record.VerdictNoEffect:
		return fmt.Sprintf("%s does not grow by more than %s: %s.", name, words.Quantity(x.Margin, x.Unit), rate)
	case x.Open != "":
		return fmt.Sprintf("Whether %s grows is not known: its windows are too few, or too much like their neighbours, for an interval.", name)
	case x.Reason == record.ReasonSettling:
		return fmt.Sprintf("%s has not settled: it rises by %s, but less and less; a soak of %s would tell whether it goes on.", name, rate, hoursWords(g.NeedsHours))
	}
	return fmt.Sprintf("Whether %s grows is inconclusive: %s%s.", name, rate, longer)
}

// hoursWords formats a time in a suitable unit.
func hoursWords(h float64) string {
	switch {
	case h >= 24*730:
		return "more than two years"
	case h >= 48:
		return words.Figures(h/24) + " days"
	case h >= 1.5:
		return words.Figures(h) + " hours"
	}
	return words.Figures(h*60) + " minutes"
}
