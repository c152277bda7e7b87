package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Live is what a served page has in addition to its report.
type Live struct {
	// Status is the progress of the page's run.
	Status *Status `json:"status,omitempty"`
	// Links are links to other pages.
	Links []Link `json:"links,omitempty"`
	// Runs lists the runs of an index, the newest first; any two can be compared.
	Runs []ListedRun `json:"runs,omitempty"`
	// Studies lists the studies that have runs there; each has a trend.
	Studies []string `json:"studies,omitempty"`
	// Across lists the differences that a comparison may ignore.
	Across []string `json:"across,omitempty"`
	// Startable lists the studies that a reader may start.
	Startable []string `json:"startable,omitempty"`
}

// Status is the progress of a run.
type Status struct {
	// Run is its ID, "" if it has no directory yet.
	Run   string `json:"run,omitempty"`
	Title string `json:"title"`
	// Step is the latest step that the current trial reported.
	Step  string `json:"step,omitempty"`
	Facts []Fact `json:"facts,omitempty"`
	// Share is the share of the maximum number of trials that the study may have.
	Share float64 `json:"share"`
	// Going means that more will follow, from this server or another process.
	Going bool `json:"going,omitempty"`
	// Stop and Resume say whether the reader may request it.
	Stop   bool `json:"stop,omitempty"`
	Resume bool `json:"resume,omitempty"`
	// Last marks the last status that this server sends.
	Last bool `json:"last,omitempty"`
}

// Link leads to another page of the same server, given by its query.
type Link struct {
	Text  string `json:"text"`
	Query string `json:"query"`
}

// ListedRun is a run of an index. ID names it in queries.
type ListedRun struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Study   string `json:"study"`
	Started string `json:"started"`
	State   string `json:"state"`
	Answer  string `json:"answer"`
	Bad     bool   `json:"bad,omitempty"` // it has no answer
}

// Remarks on pages whose figures can still change.
const (
	Provisional = "Provisional: the run has not ended, and every estimate can still change."
	Interrupted = "Provisional: the run was interrupted; resuming it can change every estimate."
	// Unfinished is for comparisons and trends.
	Unfinished = "Provisional: a run among these has not ended, and can still change every estimate."
)

// ProgressSections returns the sections of a run that has not ended: how intervals narrow, and the
// latest trials.
func ProgressSections(p analysis.Progress, plan *study.Plan, trials []record.Trial) []PageSection {
	var out []PageSection
	if chart, ok := narrowing(p); ok {
		out = append(out, PageSection{Name: "narrowing", Title: "Intervals so far",
			Lead:   fmt.Sprintf("Half the width of the intervals that the stop rule waits for, as a share of the estimate. The run may end when all are at most %s; hollow points are narrow enough to be no effect.", Percent(p.TargetRatio)),
			Charts: []Chart{chart}})
	}
	if len(trials) > 0 {
		out = append(out, PageSection{Name: "trials", Title: "Last trials", Tables: []Table{lastTrials(plan, trials)}})
	}
	return out
}

// narrowing draws the widths of intervals over the number of blocks.
func narrowing(p analysis.Progress) (Chart, bool) {
	lines := Lines{X: Axis{Title: "blocks", Scale: AxisLinear}, Y: Axis{Title: "half width, % of the estimate", Scale: AxisLog}, Markers: true}
	blocks := map[int]bool{}
	for i, w := range p.Widths {
		series := Series{Label: w.Label, Cell: w.Cell, Look: Look{Color: fmt.Sprintf("series-%d", 1+i%8), Dash: i / 8}}
		for _, a := range w.After {
			if a.Ratio <= 0 {
				continue
			}
			blocks[a.Blocks] = true
			series.Points = append(series.Points, Point{X: float64(a.Blocks), Y: 100 * a.Ratio, Hollow: a.Settled,
				At: "after " + words.Plural(a.Blocks, "block"), Text: "±" + Percent(a.Ratio)})
		}
		if len(series.Points) > 0 {
			lines.Series = append(lines.Series, series)
		}
	}
	if len(lines.Series) == 0 {
		return Chart{}, false
	}
	ends := slices.Sorted(maps.Keys(blocks))
	target := Series{Label: "target", Look: Look{Color: "ink-3", Dash: 1}}
	for _, b := range slices.Compact([]int{ends[0], ends[len(ends)-1]}) {
		target.Points = append(target.Points, Point{X: float64(b), Y: 100 * p.TargetRatio, At: "target", Text: "±" + Percent(p.TargetRatio)})
	}
	for _, b := range ends {
		lines.X.Ticks = append(lines.X.Ticks, Tick{float64(b), Count(b)})
	}
	lines.Series = append(lines.Series, target)
	return Chart{Name: "How the intervals narrow from block to block", Lines: &lines}, true
}

// shownTrials is the number of latest trials to show.
const shownTrials = 12

func lastTrials(plan *study.Plan, trials []record.Trial) Table {
	t := Table{Title: "What each of them measured, the newest first", Columns: []Column{{Head: "trial"}, {Head: "cell"}, {Head: "valid"},
		{Head: "warm-up", Right: true}, {Head: "answers per second", Right: true}, {Head: "p50", Right: true}, {Head: "p99", Right: true}, {Head: "CPUs used"}}}
	for i := len(trials) - 1; i >= max(0, len(trials)-shownTrials); i-- {
		one := &trials[i]
		valid := Text{S: "yes", Style: StyleGood}
		if !one.Validity.Valid {
			valid = Text{S: strings.Join(failures(one), "; "), Style: StyleBad}
		}
		row := []Text{{S: one.ID}, {S: plan.Label(one.Cell)}, valid, Dash, Dash, Dash, Dash, {S: cpusUsed(one)}}
		if s := one.Warmup.Seconds; s > 0 {
			row[3] = Text{S: Fixed(s, 1) + " s"}
		}
		if l := one.Load; l != nil {
			row[4] = Text{S: Fixed(l.AchievedRPS, 0)}
			for at, q := range map[int]record.Quantile{5: 0.5, 6: 0.99} {
				if us := l.Intended.At(q); us > 0 {
					row[at] = Text{S: ScaleFor("us", us).Value(us)}
				}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return withoutEmpty(t)
}

// withoutEmpty omits columns in which no row has a value.
func withoutEmpty(t Table) Table {
	for c := len(t.Columns) - 1; c >= 0; c-- {
		if slices.ContainsFunc(t.Rows, func(row []Text) bool { return row[c] != Dash && row[c].S != "" }) {
			continue
		}
		t.Columns = slices.Delete(t.Columns, c, c+1)
		for i, row := range t.Rows {
			t.Rows[i] = slices.Delete(row, c, c+1)
		}
	}
	return t
}

// failures lists a trial's failed checks.
func failures(t *record.Trial) (out []string) {
	for _, c := range t.Validity.Checks {
		if !c.OK {
			out = append(out, FactorName(c.Name)+": "+c.Detail)
		}
	}
	return out
}

// cpusUsed lists the CPUs that a trial's parts used, most first.
func cpusUsed(t *record.Trial) string {
	if t.Window.Seconds <= 0 {
		return ""
	}
	parts := slices.SortedFunc(maps.Keys(t.CPU), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.CPU[b].TotalS(), t.CPU[a].TotalS()), strings.Compare(a, b))
	})
	var out []string
	for _, part := range parts {
		out = append(out, PartWords(part)+" "+Fixed(t.CPU[part].TotalS()/t.Window.Seconds, 2))
	}
	return strings.Join(out, ", ")
}

// ComparisonPage returns the page of a comparison of the runs of two sides.
func (kinds Kinds) ComparisonPage(c comparison.Comparison) Page {
	out := Page{Title: c.Study, Answers: []string{comparisonWords(c)}, Warnings: note.Texts(c.Warnings),
		Facts:    []Fact{{"run A", strings.Join(c.RunsA, ", ")}, {"run B", strings.Join(c.RunsB, ", ")}},
		Sections: []PageSection{{Name: "comparison", Title: "Comparison", Tables: withRows(kinds.comparisonTable(c))}}}
	if chart, ok := kinds.changesChart(c); ok {
		out.Sections[0].Lead = fmt.Sprintf("What changed from A to B, with its 95%% interval. The band is the margin of %s.", marginWords(c.MarginRatio))
		out.Sections[0].Charts = []Chart{chart}
	}
	if c.WithinRunOnly && c.Lacking == "" {
		out.Answers = append(out.Answers, withinWords(c))
	}
	return out
}

// changesChart draws the changes that decide or have a direction or, if there are none, those that
// are not "the same".
func (kinds Kinds) changesChart(c comparison.Comparison) (Chart, bool) {
	rows := Intervals{X: Axis{Title: "change, %", Scale: AxisLinear, Zero: true}}
	tells := func(change comparison.Change) bool {
		return change.Decides || change.Verdict == record.VerdictWorse || change.Verdict == record.VerdictBetter
	}
	any := slices.ContainsFunc(c.Changes, tells)
	for _, change := range c.Changes {
		if !change.Bounded || any && !tells(change) || change.Verdict == record.VerdictSame && !change.Decides || len(rows.Rows) >= mostChanges {
			continue
		}
		rows.Rows = append(rows.Rows, IntervalRow{Label: kinds.words(change.Name) + ", " + cellWords(change.Cell), Look: Look{Color: "series-1"},
			Estimate: 100 * change.ChangeRatio, Low: 100 * change.LowRatio, High: 100 * change.HighRatio, Noise: 100 * c.MarginRatio,
			Hollow: change.Verdict != record.VerdictWorse && change.Verdict != record.VerdictBetter, Text: changeWords(change) + ", " + Verdict(change.Verdict).S})
	}
	return Chart{Name: "Changes from A to B", Intervals: &rows}, len(rows.Rows) > 0
}

// TrendPage returns the page of a trend: its changes, then each finding from run to run.
func (kinds Kinds) TrendPage(trend comparison.Trend) Page {
	out := Page{Title: trend.Study, Answers: []string{trendWords(trend)}, Warnings: note.Texts(trend.Warnings)}
	if n := len(trend.Runs); n > 0 {
		out.Facts = append(out.Facts, Fact{"runs", fmt.Sprintf("%s, %s to %s", words.Plural(n, "run"), day(trend.Runs[0].Started), day(trend.Runs[n-1].Started))})
	}
	if reach := reachWords(trend); reach != "" {
		out.Facts = append(out.Facts, Fact{"reach", reach})
	}
	for _, l := range trend.LeftOut {
		out.Warnings = append(out.Warnings, fmt.Sprintf("Left out: %s: %s", l.Run, l.Why))
	}
	if tables := kinds.changesTables(trend); len(tables) > 0 {
		out.Sections = append(out.Sections, PageSection{Name: "changes", Title: "Changes", Tables: tables})
	}
	out.Sections = append(out.Sections, PageSection{Name: "runs", Title: "From run to run",
		Lead:   "Each run's own estimate with its 95% interval. The dashed line is the level, which changes where a change was found.",
		Charts: kinds.trendCharts(trend), Tables: withRows(kinds.seriesTable(trend, true))})
	return out
}

const servedFrom = "Served by meshtrial on this machine."

// trendCharts draws each series: the runs' estimates, and the level between changes.
func (kinds Kinds) trendCharts(trend comparison.Trend) []Chart {
	var out []Chart
	for _, s := range trend.Series {
		values := reached(s.Points)
		if len(values) == 0 {
			continue
		}
		scale := named(ScaleFor(s.Unit, values...), s.Unit)
		lines := Lines{X: Axis{Title: "run", Scale: AxisLinear}, Y: Axis{Title: scale.Unit, Scale: AxisLinear}, Markers: true}
		runs := Series{Label: "runs", Look: Look{Color: "series-1"}}
		for i, p := range s.Points {
			if p == nil || p.NotReached {
				continue
			}
			low, high := p.Low/scale.Div, p.High/scale.Div
			point := Point{X: float64(i + 1), Y: p.Estimate / scale.Div, At: fmt.Sprintf("run %s, %s", trend.Runs[i].Run, day(trend.Runs[i].Started)),
				Text: scale.Quantity(p.Estimate, p.Low, p.High)}
			if !math.IsInf(low, 0) && !math.IsInf(high, 0) && !math.IsNaN(low+high) {
				point.Low, point.High = &low, &high
			}
			runs.Points = append(runs.Points, point)
		}
		lines.Series = append(lines.Series, runs)
		if level := levels(s, scale); len(level.Points) > 0 {
			lines.Series = append(lines.Series, level)
		}
		for i := 0; i < len(trend.Runs); i += (len(trend.Runs) + 5) / 6 {
			lines.X.Ticks = append(lines.X.Ticks, Tick{float64(i + 1), day(trend.Runs[i].Started)})
		}
		title := kinds.words(s.Name) + ", " + cellWords(s.Cell)
		out = append(out, Chart{Name: title + ", from run to run", Options: []Option{{"finding", title}},
			Initial: len(s.Changes) > 0 && !slices.ContainsFunc(out, func(c Chart) bool { return c.Initial }), Lines: &lines})
	}
	return out
}

// levels returns the levels of a series before, between and after its changes.
func levels(s comparison.Series, scale Scale) Series {
	out := Series{Label: "level", Look: Look{Color: "ink-3", Dash: 1}}
	from := 0
	add := func(to int, level float64, reached bool) {
		if !reached {
			return
		}
		for _, at := range []int{from, to} {
			out.Points = append(out.Points, Point{X: float64(at + 1), Y: level / scale.Div, At: "level", Text: scale.Value(level)})
		}
	}
	changes := slices.SortedFunc(slices.Values(s.Changes), func(a, b comparison.LevelChange) int { return a.At - b.At })
	for i, c := range changes {
		add(c.At-1, c.Before, !c.BeforeNotReached)
		if from = c.At; i == len(changes)-1 {
			add(len(s.Points)-1, c.After, !c.AfterNotReached)
		}
	}
	return out
}
