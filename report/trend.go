package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// RenderTrend writes a trend for a terminal: the verdict in words, each change,
// then each series as a line of blocks. Series that do not decide and have not
// changed are shown only if all is set.
func (kinds Kinds) RenderTrend(w io.Writer, trend comparison.Trend, all bool, opt Options) error {
	t := newText(opt)
	t.wrapStyled("", clean(trendWords(trend)), StyleStrong)
	t.wrap("  study  ", clean(trend.Study))
	runs := words.Plural(len(trend.Runs), "run")
	if n := len(trend.Runs); n > 0 {
		runs += ", " + day(trend.Runs[0].Started) + " to " + day(trend.Runs[n-1].Started)
	}
	t.wrap("  runs   ", runs)
	if words := reachWords(trend); words != "" {
		t.wrap("  reach  ", words)
	}
	t.tables(kinds.changesTables(trend)...)
	t.tables(kinds.seriesTable(trend, all))
	var left []string
	for _, l := range trend.LeftOut {
		left = append(left, l.Run+": "+l.Why)
	}
	t.list("Left out", left)
	t.list("Warnings", note.Texts(trend.Warnings))
	return t.writeTo(w)
}

// trendWords describes the verdict of a trend in words.
func trendWords(t comparison.Trend) string {
	switch t.Verdict {
	case record.VerdictWorse, record.VerdictBetter:
		var when []string
		for _, s := range t.Series {
			for _, c := range s.Changes {
				if d := day(c.ToStarted); c.Stands && c.Verdict == t.Verdict && !slices.Contains(when, d) {
					when = append(when, d)
				}
			}
		}
		slices.Sort(when)
		return fmt.Sprintf("%s since %s, by over the margin of %s.", UpperFirst(t.Verdict), words.List(when), marginWords(t.MarginRatio))
	case record.VerdictInconclusive:
		return "Inconclusive: " + t.Why + "."
	}
	for _, s := range t.Series {
		if len(s.Changes) > 0 {
			return fmt.Sprintf("No change that still stands exceeds the margin of %s.", marginWords(t.MarginRatio))
		}
	}
	return "No change found."
}

// reachWords says which changes a trend cannot detect; "" if it looked for
// none.
func reachWords(t comparison.Trend) string {
	switch {
	case t.RunsAfter > 0:
		return fmt.Sprintf("with %s a change in the last %d cannot be detected, however large: it takes %d runs after it", words.Plural(len(t.Runs), "run"), t.RunsAfter-1, t.RunsAfter)
	case len(t.Runs) >= comparison.MinTrend:
		return fmt.Sprintf("with %s no change can be detected, however large", words.Plural(len(t.Runs), "run"))
	}
	return ""
}

func marginWords(ratio float64) string { return strconv.FormatFloat(100*ratio, 'g', 4, 64) + "%" }

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// changesTables returns the changes, with a table for each position that has
// any.
func (kinds Kinds) changesTables(trend comparison.Trend) []Table {
	var out []Table
	for at := range trend.Runs {
		var t Table
		for _, s := range trend.Series {
			for _, c := range s.Changes {
				if c.At != at {
					continue
				}
				scale := named(ScaleFor(s.Unit, c.Before, c.After), s.Unit)
				verdict := Verdict(c.Verdict)
				switch {
				case c.Verdict == record.VerdictSame:
					verdict.S = "within the margin"
				case c.Verdict == record.VerdictInconclusive:
					verdict.S = "may lie within the margin"
				case c.MayStand:
					verdict.S += ", perhaps not any more"
				case !c.Stands:
					verdict.S += ", not any more"
				}
				size := comparison.Change{ChangeRatio: c.ChangeRatio, LowRatio: c.LowRatio, HighRatio: c.HighRatio, Bounded: c.Bounded}
				t.Rows = append(t.Rows, []Text{decidesMark(s), {S: kinds.words(s.Name)}, {S: cellWords(s.Cell)},
					{S: stepWords(scale.Value(c.Before), c.BeforeNotReached)}, {S: stepWords(scale.Value(c.After), c.AfterNotReached)}, {S: changeWords(size)}, verdict})
				t.Title = fmt.Sprintf("%s, from run %s to run %s: %s", day(c.ToStarted), c.From, c.To, differsWords(c))
			}
		}
		if len(t.Rows) > 0 {
			t.Columns = []Column{{Head: ""}, {Head: "finding"}, {Head: "cell"}, {Head: "before", Right: true, Keep: 2}, {Head: "after", Right: true, Keep: 1}, {Head: "change (95% interval)", Right: true}, {Head: "verdict"}}
			out = append(out, t)
		}
	}
	if n := len(out); n > 0 {
		out[n-1].Notes = append(out[n-1].Notes, fmt.Sprintf("Where nothing changed, chance finds a change in at most %s of trends. A change may lie a few runs from the place shown. "+
			"Intervals take that place as given; as these runs chose it, sizes look somewhat too large, the more so the fewer runs follow it.", Percent(trend.ErrorRate)))
	}
	return out
}

// stepWords formats a level, or says that it lies among failed requests.
func stepWords(value string, notReached bool) string {
	if notReached {
		return "not reached"
	}
	return value
}

func decidesMark(s comparison.Series) Text {
	if s.Decides {
		return Text{S: "*"}
	}
	return Text{}
}

// differsWords says what else changed between the two runs of a change.
func differsWords(c comparison.LevelChange) string {
	if len(c.Differs) == 0 {
		return "nothing else that runs record changed there"
	}
	var parts []string
	for _, d := range c.Differs {
		parts = append(parts, fmt.Sprintf("%s %s to %s", strings.TrimPrefix(d.Name, "the "), d.From, d.To))
	}
	const most = 4
	if n := len(parts); n > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(parts, ", ")
}

func (kinds Kinds) seriesTable(trend comparison.Trend, all bool) Table {
	t := Table{Title: "From run to run", Columns: []Column{{Head: ""}, {Head: "finding"}, {Head: "cell"}, {Head: "lowest to highest"},
		{Head: "range", Right: true, Keep: 2}, {Head: "last run (95% interval)", Right: true, Keep: 3}}}
	decides := slices.ContainsFunc(trend.Series, func(s comparison.Series) bool { return s.Decides })
	left, marked := 0, false
	for _, s := range trend.Series {
		if decides && !s.Decides && !all && len(s.Changes) == 0 {
			left++
			continue
		}
		marked = marked || s.Decides
		values := reached(s.Points)
		row := []Text{decidesMark(s), {S: kinds.words(s.Name)}, {S: cellWords(s.Cell)}, {S: blocks(s)}}
		if len(values) > 0 {
			low, high, scale := slices.Min(values), slices.Max(values), named(ScaleFor(s.Unit, values...), s.Unit)
			row = append(row, Text{S: Join(scale.Plain(low)+"–"+scale.Plain(high), scale.Unit)}, Text{S: lastWords(s, scale)})
		}
		t.Rows = append(t.Rows, row)
	}
	if marked {
		t.Notes = append(t.Notes, "* decides in comparisons of runs.")
	}
	if left > 0 {
		t.Notes = append(t.Notes, words.Plural(left, "further finding")+" without a change; --all shows them, --json has their values.")
	}
	return t
}

// reached returns the values of runs that have one.
func reached(points []*comparison.Point) []float64 {
	var out []float64
	for _, p := range points {
		if p != nil && !p.NotReached {
			out = append(out, p.Estimate)
		}
	}
	return out
}

// lastWords formats the value of the last run, if it has one.
func lastWords(s comparison.Series, scale Scale) string {
	last := s.Points[len(s.Points)-1]
	switch {
	case last == nil && s.EndsBefore != "":
		return "none since run " + s.EndsBefore
	case last == nil:
		return "none"
	case last.NotReached:
		return "not reached"
	}
	return scale.Quantity(last.Estimate, last.Low, last.High)
}

// mostBlocks is the maximum number of columns of a series; with more runs, each
// column is the median of several.
const mostBlocks = 40

// blocks draws a series as a line of characters, from its lowest value to its
// highest, with a bar where its level changes and a space for a run without a
// value.
func blocks(s comparison.Series) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	per := (len(s.Points) + mostBlocks - 1) / mostBlocks
	var columns []float64
	low, high := math.Inf(1), math.Inf(-1)
	for i := 0; i < len(s.Points); i += per {
		values := reached(s.Points[i:min(i+per, len(s.Points))])
		v := math.NaN()
		if len(values) > 0 {
			v = stat.Median(values)
			low, high = math.Min(low, v), math.Max(high, v)
		}
		columns = append(columns, v)
	}
	var out strings.Builder
	for i, v := range columns {
		if slices.ContainsFunc(s.Changes, func(c comparison.LevelChange) bool { return c.At/per == i }) {
			out.WriteString("│")
		}
		switch {
		case math.IsNaN(v):
			out.WriteByte(' ')
		case high > low:
			out.WriteRune(levels[Clamp(int(float64(len(levels))*(v-low)/(high-low)), 0, len(levels)-1)])
		default:
			out.WriteRune(levels[len(levels)/2])
		}
	}
	return out.String()
}
