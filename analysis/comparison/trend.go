package comparison

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// MinTrend is the number of runs that a trend requires. With fewer runs no order is
// improbable enough to show a change, even if only one finding decides. If more decide, it
// takes more runs: see [Trend.RunsAfter].
const MinTrend = 8

// Trend shows how findings changed from run to run over time: the document of `meshtrial
// trend --json`.
type Trend struct {
	Schema      int     `json:"schema"`
	Study       string  `json:"study"`
	MarginRatio float64 `json:"margin_ratio"`
	// ErrorRate bounds the probability that chance makes a trend find any change in any
	// series though nothing changed.
	ErrorRate float64 `json:"error_rate"`
	// Runs lists the runs of the trend in time order; LeftOut names the others.
	Runs    []TrendRun `json:"runs"`
	LeftOut []LeftOut  `json:"left_out,omitempty"`
	// Joined lists the differences between runs that were joined on request.
	Joined []note.Note `json:"joined,omitempty"`
	// Verdict is worse if a change for the worse by more than the margin still stands at the
	// end; otherwise better if one for the better does; otherwise no_change. It is
	// inconclusive if there are too few runs, if a deciding finding has no value in the
	// newest runs, or if its change for the worse may lie within the margin or beyond it.
	Verdict string `json:"verdict"`
	// Why explains an inconclusive verdict.
	Why string `json:"why,omitempty"`
	// RunsAfter is the minimum number of runs after a change for it to be found in the
	// deciding findings (all, if none decides), however large it is; 0 if none could be
	// found.
	RunsAfter int         `json:"runs_after"`
	enough    int         // runs that it takes to find any change, if too few have a value; at most mostRuns
	Series    []Series    `json:"series"`
	Warnings  []note.Note `json:"warnings,omitempty"`
}

// VerdictNoChange is the verdict of a trend without a detected change.
const VerdictNoChange = "no_change"

// TrendRun is one run of a trend.
type TrendRun struct {
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
}

// LeftOut is a run that was left out of a trend.
type LeftOut struct {
	Run string `json:"run"`
	Why string `json:"why"`
}

// Series is one finding from run to run.
type Series struct {
	Name    string      `json:"name"`
	Cell    record.Cell `json:"cell"`
	Against record.Cell `json:"against,omitempty"`
	Unit    string      `json:"unit"`
	// Decides means that a comparison waits for the finding. The deciding findings share four
	// fifths of the error rate, all others the rest.
	Decides      bool `json:"decides"`
	MoreIsBetter bool `json:"more_is_better,omitempty"`
	// Points has an entry for each run, null if it has no value.
	Points  []*Point      `json:"points"`
	Changes []LevelChange `json:"changes"`
	// EndsBefore is the first of the newest runs without a value, if all of them lack one
	// though their studies have the cell; "" if the last run has one.
	EndsBefore string `json:"ends_before,omitempty"`
}

// Point is a run's own estimate with its 95% interval, which reflects only the blocks of that
// run. A percentile that was not reached, as it lies among failed requests, is above any
// value; its numbers are 0.
type Point struct {
	NotReached bool `json:"not_reached,omitempty"`

	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// LevelChange is a point in a series where its level changes.
type LevelChange struct {
	// At is the index of the first run with the new level, and To its name; From is the last
	// earlier run that has a value.
	At          int       `json:"at"`
	From        string    `json:"from_run"`
	To          string    `json:"to_run"`
	FromStarted time.Time `json:"from_started"`
	ToStarted   time.Time `json:"to_started"`
	// Differs lists other differences between these two runs, primarily the versions of
	// components.
	Differs []Differing `json:"differs,omitempty"`
	// Before and After are the levels, medians over runs; 0 if not reached.
	Before           float64 `json:"before"`
	After            float64 `json:"after"`
	BeforeNotReached bool    `json:"before_not_reached,omitempty"`
	AfterNotReached  bool    `json:"after_not_reached,omitempty"`
	// ChangeRatio is After/Before - 1, from means over runs, with its 95% interval between
	// runs for a change at this point, which the same runs selected; all 0 unless Bounded.
	ChangeRatio float64 `json:"change_ratio"`
	LowRatio    float64 `json:"low_ratio"`
	HighRatio   float64 `json:"high_ratio"`
	Bounded     bool    `json:"bounded"`
	// P is the share of orders of these runs in which some point separates them as much.
	P float64 `json:"p"`
	// Verdict is better or worse if the whole interval lies beyond the margin, same if it
	// lies within it, and otherwise inconclusive: there is a change, which may lie within the
	// margin.
	Verdict string `json:"verdict"`
	// Stands means that a change is better or worse, and that the last runs still certainly
	// are, compared with those before the change.
	Stands bool `json:"stands"`
	// MayStand means that the last runs are on the same side of those before the change as
	// the runs after it, and that their interval lies partly beyond the margin there.
	MayStand bool `json:"may_stand,omitempty"`

	worse bool // not better, whatever the margin
}

// Differing is a trait in which two runs differ.
type Differing struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// MakeTrend puts runs in time order and finds where the level of a finding changes, with
// [stat.Steps] and one error rate for all series. Each run is one value; a percentile that
// was not reached is above all others. Changes within the margin are reported but do not
// count. All runs must share machine, versions and study unless options join them; otherwise
// MakeTrend fails with a usage error. Runs without a valid trial are left out; with fewer
// than [MinTrend] others the trend is inconclusive.
func MakeTrend(runs []*analysis.RunFigures, options CompareOptions) (Trend, error) {
	margin := options.MarginRatio
	if err := checkMargin(margin); err != nil {
		return Trend{}, err
	}
	t := Trend{Schema: record.Schema, MarginRatio: margin, ErrorRate: ErrorRate, Runs: []TrendRun{}, Series: []Series{}}
	all := runs
	runs = withTrials(runs)
	for _, r := range without(all, runs) {
		t.LeftOut = append(t.LeftOut, LeftOut{r.Header.RunID, "it has no valid trial"})
	}
	slices.SortStableFunc(runs, func(a, b *analysis.RunFigures) int {
		return cmp.Or(a.Header.Started.Compare(b.Header.Started), cmp.Compare(a.Header.RunID, b.Header.RunID))
	})
	for _, r := range runs {
		t.Study = r.Header.Study
		t.Runs = append(t.Runs, TrendRun{r.Header.RunID, r.Header.Started})
	}
	if err := checkTwice(runs, nil); err != nil {
		return Trend{}, err
	}
	table := traitsOf(runs)
	var err error
	if t.Joined, err = options.Across.join(table.differences(runs, func(trait) bool { return true })); err != nil {
		return Trend{}, err
	}
	t.Warnings = slices.Concat(t.Joined, rulesOf("", runs))
	if len(runs) < MinTrend {
		t.Verdict = record.VerdictInconclusive
		t.Why = fmt.Sprintf("%d of the runs have valid trials, and a trend needs %d", len(runs), MinTrend)
	}
	t.Series = seriesOf(runs)
	if t.Verdict == "" {
		t.find(runs, table, margin)
		t.Verdict, t.Why = t.verdict(newestOf(all, runs))
	}
	return t, nil
}

// seriesOf returns the findings by which runs are compared, each as in the last run that has
// it.
func seriesOf(runs []*analysis.RunFigures) []Series {
	out := []Series{}
	seen := map[string]bool{}
	for _, reference := range slices.Backward(runs) {
		for i := range reference.Figures {
			f := &reference.Figures[i]
			key := f.Finding.Name + "\x00" + f.Finding.Cell.Key()
			if !f.Compared || seen[key] {
				continue
			}
			seen[key] = true
			s := Series{Name: f.Finding.Name, Cell: f.Finding.Cell, Against: f.Finding.Against, Unit: f.Finding.Unit,
				Decides: f.Decides, MoreIsBetter: f.MoreIsBetter, Points: make([]*Point, len(runs)), Changes: []LevelChange{}}
			for at, r := range runs {
				s.Points[at] = pointOf(r.Counterpart(reference, f.Finding.Name, f.Finding.Cell))
				switch {
				case s.Points[at] != nil:
					s.EndsBefore = ""
				case s.EndsBefore == "" && r.Has(reference, f.Finding.Cell):
					s.EndsBefore = r.Header.RunID
				}
			}
			if !runs[len(runs)-1].Has(reference, f.Finding.Cell) || s.values() == 0 {
				s.EndsBefore = "" // no followed series ends there
			}
			out = append(out, s)
		}
	}
	return out
}

// pointOf returns a run's own value, or nil if it has none.
func pointOf(f *analysis.RunFigure) *Point {
	switch {
	case f == nil:
		return nil
	case f.Unreached:
		return &Point{NotReached: true}
	case f.Finding.Verdict == record.VerdictInvalid:
		return nil
	}
	return &Point{Estimate: f.Finding.Estimate, Low: f.Finding.Low, High: f.Finding.High}
}

// values counts the runs that have a value.
func (s *Series) values() int {
	n := 0
	for _, p := range s.Points {
		if p != nil {
			n++
		}
	}
	return n
}

// find determines the changes of all series, and how many runs they need.
func (t *Trend) find(runs []*analysis.RunFigures, table traitTable, margin float64) {
	values, decides := make([][]float64, len(t.Series)), make([]bool, len(t.Series))
	for i, s := range t.Series {
		decides[i] = s.Decides
		for _, p := range s.Points {
			v := math.NaN()
			switch {
			case p != nil && p.NotReached:
				v = math.Inf(1)
			case p != nil:
				v = p.Estimate
			}
			values[i] = append(values[i], v)
		}
		values[i] = stat.AboveAll(values[i])
	}
	weights := shares(decides)
	t.reach(weights)
	for i, steps := range stat.Steps(values, weights, ErrorRate) {
		s := &t.Series[i]
		for k, step := range steps {
			begin, end := 0, len(runs)
			if k > 0 {
				begin = steps[k-1].At
			}
			if k+1 < len(steps) {
				end = steps[k+1].At
			}
			before, last := present(values[i][begin:step.At]), present(values[i][steps[len(steps)-1].At:])
			c := levelChange(before, present(values[i][step.At:end]), step.P, margin, s.MoreIsBetter)
			c.BeforeNotReached, c.AfterNotReached = s.mostlyNotReached(begin, step.At), s.mostlyNotReached(step.At, end)
			now := levelChange(before, last, step.P, margin, s.MoreIsBetter)
			c.Stands = found(c.Verdict) && now.Verdict == c.Verdict
			c.MayStand = !c.Stands && now.Verdict == record.VerdictInconclusive && now.worse == c.worse
			s.tidy(&c)
			from := step.At - 1
			for s.Points[from] == nil {
				from--
			}
			c.At, c.From, c.To = step.At, t.Runs[from].Run, t.Runs[step.At].Run
			c.FromStarted, c.ToStarted = t.Runs[from].Started, t.Runs[step.At].Started
			c.Differs = table.between(runs, from, step.At)
			s.Changes = append(s.Changes, c)
		}
	}
}

func present(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// levelChange returns the size and direction of a change between the runs of two levels. It
// judges the change by its interval like a change of a comparison (see [stat.Judge]); without
// a ratio, by the interval of the difference as a share of the level before.
func levelChange(before, after []float64, p, margin float64, upward bool) LevelChange {
	c := LevelChange{Before: stat.Median(before), After: stat.Median(after), P: p}
	e := stat.StepSize(before, after, stat.Options{})
	if e.Defined() {
		c.ChangeRatio, c.LowRatio, c.HighRatio, c.Bounded = e.Value, e.Low, e.High, true
	} else {
		e = stat.StepDifference(before, after, stat.Options{})
		if level := math.Abs(c.Before); level > 0 {
			e.Value, e.Low, e.High = e.Value/level, e.Low/level, e.High/level
		} else {
			margin = 0 // a share of zero cannot be a margin
		}
	}
	if upward {
		e.Value, e.Low, e.High = -e.Value, -e.High, -e.Low
	}
	v, _ := stat.Judge(e, margin)
	c.Verdict, c.worse = string(v), e.Value > 0
	return c
}

// mostlyNotReached reports whether the median of some runs is not reached.
func (s *Series) mostlyNotReached(begin, end int) bool {
	n, lost := 0, 0
	for _, p := range s.Points[begin:end] {
		if p != nil {
			n++
			if p.NotReached {
				lost++
			}
		}
	}
	return 2*lost > n
}

// tidy removes numbers that stand for values not reached: there is no level and no ratio.
func (s *Series) tidy(c *LevelChange) {
	if c.BeforeNotReached {
		c.Before = 0
	}
	if c.AfterNotReached {
		c.After = 0
	}
	if slices.ContainsFunc(s.Points, func(p *Point) bool { return p != nil && p.NotReached }) {
		c.ChangeRatio, c.LowRatio, c.HighRatio, c.Bounded = 0, 0, 0, false
	}
}

// between lists what two runs differ in, versions first, and the program that measured.
func (t traitTable) between(runs []*analysis.RunFigures, from, to int) []Differing {
	var versions, others []Differing
	for _, k := range t.order {
		a, okA := t.values[from][k]
		b, okB := t.values[to][k]
		if a == b && okA == okB || t.open[k] && okA != okB {
			continue
		}
		list := &others
		if k.kind == AcrossVersions {
			list = &versions
		}
		*list = append(*list, Differing{k.name, inBrief(t.of(from, k)), inBrief(t.of(to, k))})
	}
	if a, b := runs[from].Header.Meshtrial, runs[to].Header.Meshtrial; a != b {
		others = append(others, Differing{"meshtrial", a, b})
	}
	return append(versions, others...)
}

// newestOf names the newest of all runs unless it is among the others.
func newestOf(all, runs []*analysis.RunFigures) string {
	last := runs[len(runs)-1].Header.Started
	newest := ""
	for _, r := range without(all, runs) {
		if r.Header.Started.After(last) {
			last, newest = r.Header.Started, r.Header.RunID
		}
	}
	return newest
}

// mostRuns limits the search for how many runs a trend takes.
const mostRuns = 100

// reach determines how many runs a change must have after it to be found in all deciding
// series that have enough runs for any, and names those that do not.
func (t *Trend) reach(weights []float64) {
	var all float64
	for _, w := range weights {
		all += w
	}
	short := 0
	for _, i := range t.deciding() {
		n, rate := t.Series[i].values(), ErrorRate*weights[i]/all
		least := stat.LeastSteps(n, rate)
		if t.RunsAfter = max(t.RunsAfter, least); least > 0 {
			continue
		}
		short++
		for n++; stat.LeastSteps(n, rate) == 0 && n < mostRuns; n++ {
		}
		t.enough = max(t.enough, n)
	}
	if n := len(t.deciding()); short > 0 && short < n {
		t.Warnings = append(t.Warnings, noteShort.Of(short, n))
	}
}

// deciding returns the deciding series, or all if none decides.
func (t *Trend) deciding() []int {
	var all, out []int
	for i, s := range t.Series {
		if all = append(all, i); s.Decides {
			out = append(out, i)
		}
	}
	if out == nil {
		return all
	}
	return out
}

// verdict returns the verdict over all series, and why it is inconclusive. newer is a run
// newer than those of the trend, if any.
func (t *Trend) verdict(newer string) (verdict, why string) {
	stands := func(verdict string) bool {
		return slices.ContainsFunc(t.Series, func(s Series) bool {
			return slices.ContainsFunc(s.Changes, func(c LevelChange) bool { return c.Stands && c.Verdict == verdict })
		})
	}
	if stands(record.VerdictWorse) {
		return record.VerdictWorse, ""
	}
	if newer != "" {
		return record.VerdictInconclusive, fmt.Sprintf("the newest run, %s, has no valid trial", newer)
	}
	if why := t.open(); why != "" {
		return record.VerdictInconclusive, why
	}
	switch {
	case stands(record.VerdictBetter):
		return record.VerdictBetter, ""
	case t.RunsAfter == 0:
		return record.VerdictInconclusive, fmt.Sprintf("%d runs are too few to find any change: with %s it takes %d runs with a value", len(t.Runs), words.Plural(len(t.deciding()), "deciding finding"), t.enough)
	}
	return VerdictNoChange, ""
}

// open says why it is undecided whether a deciding series became worse: it ends before the
// newest runs, or a change may lie beyond the margin; "" if it is decided.
func (t *Trend) open() string {
	var ends, may []string
	for _, i := range t.deciding() {
		s := t.Series[i]
		if s.EndsBefore != "" {
			ends = append(ends, fmt.Sprintf("%s of %s has no value since run %s", s.Name, s.Cell.Key(), s.EndsBefore))
		}
		for _, c := range s.Changes {
			if c.MayStand && c.worse {
				may = append(may, fmt.Sprintf("%s of %s is worse since run %s, and that may lie within the margin", s.Name, s.Cell.Key(), c.To))
			}
		}
	}
	all := slices.Concat(ends, may)
	const most = 3
	if n := len(all); n > most {
		all = append(all[:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(all, "; ")
}
