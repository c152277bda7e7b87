package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
)

// mostChanges is how many changes a comparison lists before it leaves out
// those that are the same and decide nothing.
const mostChanges = 24

// RenderComparison writes a comparison of two runs for a terminal: the
// verdict in words, then what became of each finding.
func (kinds Kinds) RenderComparison(w io.Writer, c analysis.Comparison, opt Options) error {
	if opt.Width <= 0 {
		opt.Width = defaultWidth
	}
	t := &textWriter{opt: opt}
	t.wrapStyled("", clean(comparisonWords(c)), StyleStrong)
	t.wrap("  run A  ", clean(c.A))
	t.wrap("  run B  ", clean(c.B))
	t.line("")
	t.table(kinds.comparisonTable(c))
	t.list("Warnings", c.Warnings)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// comparisonWords is the verdict of the whole in words.
func comparisonWords(c analysis.Comparison) string {
	margin := strconv.FormatFloat(100*c.MarginRatio, 'g', 4, 64) + "%"
	switch c.Verdict {
	case record.VerdictWorse:
		return "Worse: run B costs more than run A by over the margin of " + margin + "."
	case record.VerdictBetter:
		return "Better: run B costs less than run A by over the margin of " + margin + "."
	case record.VerdictSame:
		return "Same: run B costs what run A does, within the margin of " + margin + "."
	}
	if c.Why != "" {
		return "Inconclusive: " + c.Why + "."
	}
	return "Inconclusive: the intervals are too wide to say whether run B costs what run A does within " + margin + "."
}

func (kinds Kinds) comparisonTable(c analysis.Comparison) Table {
	t := Table{
		Title: "Change from A to B, with its 95% interval",
		Columns: []Column{{Head: ""}, {Head: "finding"}, {Head: "cell"}, {"A", true, 5}, {"B", true, 5},
			{"change", true, 0}, {"verdict", false, 0}, {"why", false, 1}},
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
		s := ScaleFor(fa.Unit, math.Max(math.Abs(fa.Estimate), math.Abs(fb.Estimate)))
		t.Rows = append(t.Rows, []Text{{S: mark}, {S: kinds.words(change.Name)}, {S: cellWords(change.Cell)},
			side(fa, s), side(fb, s), {S: changeWords(b)}, Verdict(change.Verdict), {S: change.Why, Style: StyleDim}})
	}
	if decides {
		t.Notes = append(t.Notes, "* decides the verdict of the whole.")
	}
	if left > 0 {
		t.Notes = append(t.Notes, Plural(left, "further finding")+" the same; --json has them all.")
	}
	return t
}

// side is a run's own figure.
func side(f record.Finding, s Scale) Text {
	switch f.Verdict {
	case record.VerdictInvalid:
		return Text{verdictWords(f.Verdict), StyleDim}
	}
	s.Unit = strings.TrimSuffix(s.Unit, " per request") // the name says so
	return Text{S: s.Value(f.Estimate)}
}

// changeWords is a change in percent: "+4% (-1 to +9)".
func changeWords(c analysis.Change) string {
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

// cellWords are a cell's levels: "both, 16 connections".
func cellWords(cell record.Cell) string {
	var parts []string
	for _, factor := range Keys(cell) {
		level := cell[factor]
		if !math.IsNaN(Number(level)) {
			level += " " + strings.ReplaceAll(factor, "_", " ")
		}
		parts = append(parts, level)
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}
