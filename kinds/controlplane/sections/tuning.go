package sections

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/stat/tuning"
)

// tuningTables returns the results of a tuning: the recommended setting and how to apply it, the
// independent comparison, the front of everything tried, and the course of the search.
func tuningTables(f record.Findings) []report.Table {
	t := f.Tuning
	if t == nil {
		return nil
	}
	if t.Refuted() { // no recommendation to apply
		return []report.Table{confirmedTable(t), keptTable(t), frontTable(f)}
	}
	return []report.Table{settingTable(t), confirmedTable(t), keptTable(t), frontTable(f), stepsTable(t), watchTable(t)}
}

// tuningAnswers states what is recommended, whether the comparison confirms it, and the effort of
// the search.
func tuningAnswers(f record.Findings) []string {
	t := f.Tuning
	if t == nil {
		return nil
	}
	took := fmt.Sprintf("The search made %s of a grid of %s, in %s", words.Plural(t.Trials, "trial"), words.Plural(t.Grid, "cell"), words.Plural(t.Blocks, "block"))
	if t.Stop == "" {
		return []string{took + ", and has not ended: nothing is recommended yet."}
	}
	took += ", and ended because " + t.Stop + "."
	if t.Seconds >= 1 {
		took += fmt.Sprintf(" With the comparison, trials took %v.", (time.Duration(t.Seconds) * time.Second).String())
	}
	if len(t.Recommended) == 0 {
		return []string{unmoved(t), took}
	}
	return slices.Concat([]string{recommendation(t)}, keptAnswers(t), costAnswers(t), []string{took})
}

// unmoved explains why no setting is recommended.
func unmoved(t *record.Tuning) string {
	if t.Lacking != "" {
		return "No answer: " + t.Stop + "."
	}
	i := slices.IndexFunc(t.Cells, func(c record.TunedCell) bool { return c.Present })
	if i >= 0 && len(t.Constraints) > 0 && t.Cells[i].Allowed < tuning.Certain {
		return fmt.Sprintf("No setting that was tried is known to meet the constraints, and the one in use meets them with a probability of %s: nothing is recommended. The table below has how likely each is to meet them.",
			words.Percent(math.Round(100*t.Cells[i].Allowed)/100))
	}
	return "Nothing that was tried is better than the setting in use and meets the constraints: leave it as it is."
}

// mostCosts limits the number of costs in a sentence; the table has all.
const mostCosts = 5

// costAnswers states what the recommended setting makes worse, according to the comparison.
func costAnswers(t *record.Tuning) []string {
	var costs []string
	for _, d := range t.Confirmed[min(1, len(t.Confirmed)):] {
		if d.Verdict == record.VerdictReal && d.Estimate > 0 && d.Before.Known && d.After.Known && len(costs) < mostCosts {
			costs = append(costs, fmt.Sprintf("%s %s (now %s)", report.FactorName(report.Measure(d.Name)), words.Quantity(d.After.Estimate, d.Unit), words.Quantity(d.Before.Estimate, d.Unit)))
		}
	}
	if len(costs) == 0 {
		return nil
	}
	return []string{"What it costs: " + words.List(costs) + "."}
}

// recommendation returns the first of a tuning's answers.
func recommendation(t *record.Tuning) string {
	var levels []string
	for _, f := range controlplane.Levers() {
		if to, ok := t.Recommended[f.Name]; ok {
			levels = append(levels, fmt.Sprintf("%s %s (now %s)", f.Name, to, t.Present[f.Name]))
		}
	}
	setting := words.List(levels)
	if len(t.Confirmed) == 0 {
		return "The search recommends " + setting + "; no comparison has confirmed it yet."
	}
	d := t.Confirmed[0]
	what := report.FactorName(report.Measure(d.Name))
	change := ""
	if d.Relative != nil {
		change = fmt.Sprintf("%s of %s (%s to %s)", lessOrMore(d.Relative.Estimate), what, words.Percent(d.Relative.Low), words.Percent(d.Relative.High))
	}
	fresh := fmt.Sprintf("in %s that the search did not see", words.Plural(t.ConfirmBlocks, "block"))
	switch {
	case slices.ContainsFunc(t.Kept, func(k record.TunedBound) bool { return k.Verdict == record.TunedBroken }):
		return fmt.Sprintf("Not recommended: the best setting of the search, %s, breaks a constraint %s.", setting, fresh)
	case t.Mends() != "" && (d.Verdict != record.VerdictReal || d.Estimate >= 0):
		if change != "" {
			change = ": " + change
		}
		return fmt.Sprintf("Recommended: %s: it meets the constraint %s, which the setting in use breaks, %s%s.", setting, t.Mends(), fresh, change)
	case d.Verdict == record.VerdictReal && d.Estimate < 0:
		return fmt.Sprintf("Recommended: %s: %s, %s.", setting, change, fresh)
	case d.Verdict == record.VerdictReal:
		return fmt.Sprintf("Not recommended: the best setting of the search, %s, is worse %s: %s.", setting, fresh, change)
	case d.Verdict == record.VerdictNoEffect:
		return fmt.Sprintf("Not recommended: the best setting of the search, %s, makes no difference beyond the margin %s: %s.", setting, fresh, change)
	case d.Reason == record.ReasonNotReached && len(d.Warnings) > 0:
		return fmt.Sprintf("Whether %s is better is not known: %s.", setting, d.Warnings[0])
	case change == "":
		return fmt.Sprintf("Whether %s is better is not known: there are too few valid trials to compare it.", setting)
	}
	return fmt.Sprintf("Whether %s is better is inconclusive %s: %s.", setting, fresh, change)
}

// mostTold is the highest ratio reported as a figure; higher ones are only reported as exceeding
// it.
const mostTold = 10

func atMost(ratio float64) string {
	if ratio > mostTold {
		return "more than " + words.Percent(mostTold)
	}
	return words.Percent(ratio)
}

func lessOrMore(share float64) string {
	if share < 0 {
		return words.Percent(-share) + " less"
	}
	return words.Percent(share) + " more"
}

// keptAnswers lists constraints that the comparison finds violated.
func keptAnswers(t *record.Tuning) []string {
	var out []string
	for _, k := range t.Kept {
		switch k.Verdict {
		case record.TunedBroken:
			out = append(out, fmt.Sprintf("It breaks the constraint %s: %s.", k.Constraint, k.Says))
		case record.VerdictInconclusive:
			out = append(out, fmt.Sprintf("Whether it meets %s is inconclusive: %s.", k.Constraint, k.Says))
		}
	}
	return out
}

func settingTable(t *record.Tuning) report.Table {
	out := report.Table{Title: "Recommended setting", Columns: []report.Column{{Head: "lever"}, {Head: "now"}, {Head: "recommended"}, {Head: "how"}, {Head: "back"}}}
	for _, s := range t.Settings {
		out.Rows = append(out.Rows, []report.Text{{S: s.Lever}, {S: s.From}, {S: s.To, Style: report.StyleStrong}, {S: s.Do}, {S: s.Back}})
		if s.YAML != "" {
			out.Texts = append(out.Texts, report.Listing{Name: s.Lever + " " + s.To, Text: s.YAML})
		}
	}
	return out
}

// confirmedTable compares the recommended setting with the current one.
func confirmedTable(t *record.Tuning) report.Table {
	out := report.Table{Title: fmt.Sprintf("Recommended against in use, in %s that the search did not see (95%% interval)", words.Plural(t.ConfirmBlocks, "block")),
		Columns: []report.Column{{Head: "finding"}, {Head: "in use", Right: true}, {Head: "recommended", Right: true}, {Head: "difference", Right: true}, {Head: "verdict"}}}
	for _, d := range t.Confirmed {
		name := report.Measure(d.Name)
		difference := ""
		switch {
		case d.Verdict == record.VerdictInvalid && d.Reason == record.ReasonNotReached:
			difference = "not reached"
			if len(d.Warnings) > 0 {
				out.Notes = append(out.Notes, name+": "+d.Warnings[0].String()+".")
			}
		case d.Verdict == record.VerdictInvalid:
			continue
		case d.Relative != nil:
			difference = fmt.Sprintf("%s (%s to %s)", words.Percent(d.Relative.Estimate), words.Percent(d.Relative.Low), atMost(d.Relative.High))
		}
		out.Rows = append(out.Rows, []report.Text{{S: name}, {S: tunedValue(d.Before, d.Unit)}, {S: tunedValue(d.After, d.Unit)}, {S: difference}, report.Verdict(d.Verdict)})
	}
	return out
}

func tunedValue(v record.TunedValue, unit string) string {
	if !v.Known {
		return "-"
	}
	return words.Quantity(v.Estimate, unit)
}

func keptTable(t *record.Tuning) report.Table {
	out := report.Table{Title: "Constraints, in the same blocks", Columns: []report.Column{{Head: "constraint"}, {Head: "recommended setting"}, {Head: "verdict"}}}
	for _, k := range t.Kept {
		style := report.StyleNone
		switch k.Verdict {
		case record.TunedMet:
			style = report.StyleGood
		case record.TunedBroken:
			style = report.StyleBad
		}
		out.Rows = append(out.Rows, []report.Text{{S: k.Constraint}, {S: k.Says.String()}, {S: k.Verdict, Style: style}})
	}
	return out
}

// frontTable lists everything tried, best first, and marks the cells that no other cell beats in
// every measure.
func frontTable(f record.Findings) report.Table {
	t := f.Tuning
	out := report.Table{Title: "Pareto front, and the rest of what the search tried (95% interval)", Columns: []report.Column{{Head: "setting"},
		{Head: "front"}, {Head: "trials", Right: true, Keep: 2}, {Head: "objective", Right: true}}}
	if len(t.Constraints) > 0 {
		out.Columns = append(out.Columns, report.Column{Head: "constraints met", Right: true, Keep: 9})
	}
	var shown []int
	for i, m := range t.Measures {
		if m.Missing != "" {
			out.Notes = append(out.Notes, fmt.Sprintf("%s is not on an axis: %s.", m.Finding, m.Missing))
			continue
		}
		shown = append(shown, i)
		out.Columns = append(out.Columns, report.Column{Head: report.FactorName(m.Finding), Right: true})
	}
	out.Columns = append(out.Columns, report.Column{Head: "why tried", Keep: 1})
	for _, c := range t.Cells {
		var marks []string
		style := report.StyleDim
		if c.Front {
			marks, style = append(marks, "front"), report.StyleNone
		}
		if c.Present {
			marks = append(marks, "in use")
		}
		if c.Recommended {
			marks, style = append(marks, "recommended"), report.StyleStrong
		}
		row := []report.Text{{S: moved(f, c.Cell)}}
		objective, allowed := "no valid trial", "-"
		if slices.ContainsFunc(c.Values, func(v record.TunedValue) bool { return v.Known }) {
			objective = fmt.Sprintf("%s (%s to %s)", words.Percent(c.Objective.Estimate), words.Percent(c.Objective.Low), words.Percent(c.Objective.High))
			allowed = words.Percent(math.Round(100*c.Allowed) / 100)
		}
		row = append(row, report.Text{S: strings.Join(marks, ", "), Style: style}, report.Text{S: fmt.Sprint(c.Trials)}, report.Text{S: objective})
		if len(t.Constraints) > 0 {
			row = append(row, report.Text{S: allowed})
		}
		for _, i := range shown {
			row = append(row, report.Text{S: frontValue(c.Values[i], t.Measures[i].Unit)})
		}
		out.Rows = append(out.Rows, append(row, report.Text{S: c.Why, Style: report.StyleDim}))
	}
	return noted(out, "Values are estimates from all trials of the search together. A cell is on the front if no other one that was tried is as good in everything and better in something; cells that were not tried may be.",
		"objective: the geometric mean of "+strings.Join(t.Objectives, ", ")+", against the setting in use.")
}

// moved names a cell of a grid by the levers that differ from the current setting.
func moved(f record.Findings, cell record.Cell) string {
	i := slices.IndexFunc(f.Tuning.Cells, func(c record.TunedCell) bool { return c.Present })
	var parts []string
	for _, factor := range f.Factors {
		if level := cell[factor.Factor]; i < 0 || level != f.Tuning.Cells[i].Cell[factor.Factor] {
			parts = append(parts, report.FactorName(factor.Factor)+" "+level)
		}
	}
	if len(parts) == 0 {
		return "as in use"
	}
	return strings.Join(parts, " · ")
}

func frontValue(v record.TunedValue, unit string) string {
	if !v.Known {
		return "-"
	}
	return report.ScaleFor(unit, v.Estimate).Quantity(v.Estimate, v.Low, v.High)
}

func stepsTable(t *record.Tuning) report.Table {
	out := report.Table{Title: "The way there, one step at a time", Columns: []report.Column{{Head: "step", Right: true}, {Head: "lever"}, {Head: "from"}, {Head: "to"}, {Head: "by", Right: true}, {Head: "do"}, {Head: "back", Keep: 1}}}
	for i, s := range t.Steps {
		by := ""
		if s.Share != 0 {
			by = words.Percent(s.Share)
		}
		out.Rows = append(out.Rows, []report.Text{{S: fmt.Sprint(i + 1)}, {S: s.Lever}, {S: s.From}, {S: s.To}, {S: by}, {S: s.Do}, {S: s.Back}})
	}
	return noted(out, "Change one lever at a time. Watch a day or two, with the busiest hour and a rollout in it, before the next step; turn back at once when a signal says so.")
}

func watchTable(t *record.Tuning) report.Table {
	out := report.Table{Title: "What to watch, and when to turn back", Columns: []report.Column{{Head: "signal"}, {Head: "here in use", Right: true, Keep: 4}, {Head: "here recommended", Right: true, Keep: 4}, {Head: "turn back when"}, {Head: "PromQL"}}}
	for _, w := range t.Watch {
		out.Rows = append(out.Rows, []report.Text{{S: w.Signal}, {S: w.Before}, {S: w.After}, {S: w.Back}, {S: w.Query}})
	}
	return out
}
