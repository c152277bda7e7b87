package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// mostChanges is the number of changes that a comparison lists before it omits
// those that are the same and do not decide.
const mostChanges = 24

// RenderComparison writes a comparison of the runs of two sides for a terminal:
// the verdict in words, then the change of each finding.
func (kinds Kinds) RenderComparison(w io.Writer, c comparison.Comparison, opt Options) error {
	t := newText(opt)
	t.wrapStyled("", clean(comparisonWords(c)), StyleStrong)
	if c.WithinRunOnly && c.Lacking == "" {
		t.wrap("", withinWords(c))
	}
	who := "run"
	if !oneEach(c) {
		who = "side"
	}
	t.wrap("  "+who+" A  ", clean(strings.Join(c.RunsA, ", ")))
	t.wrap("  "+who+" B  ", clean(strings.Join(c.RunsB, ", ")))
	t.tables(kinds.comparisonTable(c))
	t.list("Warnings", note.Texts(c.Warnings))
	return t.writeTo(w)
}

// withinWords says what a verdict does not cover about runs.
func withinWords(c comparison.Comparison) string {
	switch {
	case c.Basis == comparison.BasisBlocks:
		return "This holds for these two runs only: the variance from run to run is unknown."
	case len(c.RunsB) == 1:
		return "Side B is one run: its variance from run to run is taken from side A."
	}
	return "One side is one run: its variance from run to run is taken from the other."
}

// oneEach reports whether a comparison has one run per side.
func oneEach(c comparison.Comparison) bool { return len(c.RunsA) == 1 && len(c.RunsB) == 1 }

// comparisonWords describes the overall verdict in words.
func comparisonWords(c comparison.Comparison) string {
	margin := strconv.FormatFloat(100*c.MarginRatio, 'g', 4, 64) + "%"
	a, b := "run A", "run B"
	if !oneEach(c) {
		a, b = "side A", "side B"
	}
	switch c.Verdict {
	case record.VerdictWorse:
		return fmt.Sprintf("Worse: %s costs more than %s by over the margin of %s.", b, a, margin)
	case record.VerdictBetter:
		return fmt.Sprintf("Better: %s costs less than %s by over the margin of %s.", b, a, margin)
	case record.VerdictSame:
		return fmt.Sprintf("Same: %s costs what %s does, within the margin of %s.", b, a, margin)
	}
	if c.Why != "" {
		return "Inconclusive: " + c.Why + "."
	}
	return fmt.Sprintf("Inconclusive: the intervals are too wide to say whether %s costs what %s does within %s.", b, a, margin)
}

func (kinds Kinds) comparisonTable(c comparison.Comparison) Table {
	t := Table{
		Title: "Change from A to B, with its 95% interval",
		Columns: []Column{{Head: ""}, {Head: "finding"}, {Head: "cell"}, {Head: "A", Right: true, Keep: 5}, {Head: "B", Right: true, Keep: 5},
			{Head: "change", Right: true}, {Head: "verdict"}, {Head: "why", Keep: 1}},
	}
	left := 0
	decides := false
	for _, change := range c.Changes {
		if len(c.Changes) > mostChanges && !change.Decides && change.Verdict == record.VerdictSame {
			left++
			continue
		}
		mark := ""
		if change.Decides {
			mark, decides = "*", true
		}
		a, b := inMicroseconds(record.Findings{Findings: []record.Finding{change.A, change.B}}), change
		fa, fb := a.Findings[0], a.Findings[1]
		s := ScaleFor(fa.Unit, fa.Estimate, fb.Estimate)
		t.Rows = append(t.Rows, []Text{{S: mark}, {S: kinds.words(change.Name)}, {S: cellWords(change.Cell)},
			side(fa, s), side(fb, s), {S: changeWords(b)}, Verdict(change.Verdict), {S: change.Why, Style: StyleDim}})
	}
	if decides {
		t.Notes = append(t.Notes, "* decides the verdict of the whole.")
	}
	if len(c.Changes) > 0 {
		t.Notes = append(t.Notes, levelWords(c))
	}
	if left > 0 {
		t.Notes = append(t.Notes, words.Plural(left, "further finding")+" the same; --json has them all.")
	}
	return t
}

// levelWords says at which confidence level changes count for the overall
// verdict, since the intervals in the table are 95% each.
func levelWords(c comparison.Comparison) string {
	low, high := math.Inf(1), 0.0
	for _, decides := range []bool{true, false} { // others only if none decides
		for _, change := range c.Changes {
			if change.Decides == decides {
				low, high = math.Min(low, change.JointLevel), math.Max(high, change.JointLevel)
			}
		}
		if high > 0 {
			break
		}
	}
	level := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + "%" }
	words := level(low)
	if level(high) != words {
		words += " to " + level(high)
	}
	of := "of equals"
	if c.Basis == comparison.BasisBlocks {
		of = "of equals, if runs of the same thing did not differ"
	}
	return fmt.Sprintf("Each interval is one of 95%%. An overall verdict of better or worse requires intervals of %s, so that chance gives either in at most %s of comparisons %s.",
		words, Percent(c.ErrorRate), of)
}

// side formats a run's own figure, or that of a side's runs.
func side(f record.Finding, s Scale) Text {
	switch {
	case f.Verdict == record.VerdictInvalid && f.Reason == record.ReasonNotReached:
		return Text{"not reached", StyleBad}
	case f.Verdict == record.VerdictInvalid:
		return Text{verdictWords(f.Verdict), StyleDim}
	}
	return Text{S: named(s, f.Unit).Value(f.Estimate)}
}

// named returns the scale of a figure whose name already says that it is per
// request.
func named(s Scale, unit string) Scale {
	if _, per := SplitUnit(unit); per == "request" {
		return s.Bare()
	}
	return s
}

// changeWords formats a change in percent: "+4% (-1 to +9)".
func changeWords(c comparison.Change) string {
	if !c.Bounded {
		return "–"
	}
	e, low, high := 100*c.ChangeRatio, 100*c.LowRatio, 100*c.HighRatio
	d := min(Decimals(e, low, high), 1)
	signed := func(v float64) string {
		if s := Fixed(v, d); v > 0 {
			return "+" + s
		} else {
			return s
		}
	}
	return fmt.Sprintf("%s%% (%s to %s)", signed(e), signed(low), signed(high))
}

// cellWords formats a cell's levels: "both, 16 connections".
func cellWords(cell record.Cell) string {
	var parts []string
	for _, factor := range slices.Sorted(maps.Keys(cell)) {
		level := cell[factor]
		if !math.IsNaN(Number(level)) {
			level += " " + FactorName(factor)
		}
		parts = append(parts, level)
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}
