package comparison

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// MinTrend is how many runs a trend needs. With fewer no order is improbable enough to show a
// change, even if one finding alone decides; if more decide it takes more: see
// [Trend.RunsAfter].
const MinTrend = 8

// Trend is how findings changed from run to run over time: the document of `meshtrial trend
// --json`.
type Trend struct {
	Schema      int     `json:"schema"`
	Study       string  `json:"study"`
	MarginRatio float64 `json:"margin_ratio"`
	// ErrorRate is how often, at most, chance makes a trend find any change in any series
	// though nothing changed.
	ErrorRate float64 `json:"error_rate"`
	// Runs are those of the trend, in the order of time; LeftOut names the others.
	Runs    []TrendRun `json:"runs"`
	LeftOut []LeftOut  `json:"left_out,omitempty"`
	// Joined lists the differences of runs that were joined on request.
	Joined []note.Note `json:"joined,omitempty"`
	// Verdict is worse if a change for the worse by more than the margin still
	// stands at the end; else better if one for the better does; else no_change;
	// inconclusive where there are too few runs to tell, where what decides has no
	// value in the newest runs, or where a change for the worse in it may lie within
	// the margin or beyond it.
	Verdict string `json:"verdict"`
	// Why is why a verdict is inconclusive.
	Why string `json:"why,omitempty"`
	// RunsAfter is how many runs a change must have after it, at least, to be found
	// in the findings that decide (all, if none does), however large it is; 0 if
	// none could be found.
	RunsAfter int         `json:"runs_after"`
	Series    []Series    `json:"series"`
	Warnings  []note.Note `json:"warnings,omitempty"`
}

// VerdictNoChange is the verdict of a trend without a detected change.
const VerdictNoChange = "no_change"

// TrendRun is a run of a trend.
type TrendRun struct {
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
}

// LeftOut is a run that is not in a trend.
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
	// Decides says that a comparison waits for the finding. Those that decide
	// share four fifths of the error rate, all others the rest.
	Decides      bool `json:"decides"`
	MoreIsBetter bool `json:"more_is_better,omitempty"`
	// Points has an entry for each run, null where it has no value.
	Points  []*Point      `json:"points"`
	Changes []LevelChange `json:"changes"`
	// EndsBefore is the first of the newest runs, all of which lack a value though
	// their studies have the cell; "" if the last run has one.
	EndsBefore string `json:"ends_before,omitempty"`
}

// Point is a run's own estimate with its 95% interval, which knows only the
// blocks of that run. One that is not reached, a percentile that lies among
// requests that failed, is above any value; its numbers are 0.
type Point struct {
	NotReached bool `json:"not_reached,omitempty"`

	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// LevelChange is a place in a series where its level changes.
type LevelChange struct {
	// At is the index of the first run with the new level, To its name; From is
	// the last run before it that has a value.
	At          int       `json:"at"`
	From        string    `json:"from_run"`
	To          string    `json:"to_run"`
	FromStarted time.Time `json:"from_started"`
	ToStarted   time.Time `json:"to_started"`
	// Differs says what else differs between these two runs: the versions of
	// components, first of all.
	Differs []Differing `json:"differs,omitempty"`
	// Before and After are the levels, medians over runs; 0 where that is not
	// reached.
	Before           float64 `json:"before"`
	After            float64 `json:"after"`
	BeforeNotReached bool    `json:"before_not_reached,omitempty"`
	AfterNotReached  bool    `json:"after_not_reached,omitempty"`
	// ChangeRatio is After/Before - 1, of means over runs, with its 95% interval
	// from run to run for a change at this place, which the same runs chose; all 0
	// unless Bounded.
	ChangeRatio float64 `json:"change_ratio"`
	LowRatio    float64 `json:"low_ratio"`
	HighRatio   float64 `json:"high_ratio"`
	Bounded     bool    `json:"bounded"`
	// P is the share of the orders of these runs in which some place separates them as much.
	P float64 `json:"p"`
	// Verdict is better or worse where the whole interval lies beyond the margin,
	// same where it lies within it, and else inconclusive: there is a change, and
	// it may lie within the margin.
	Verdict string `json:"verdict"`
	// Stands says that a change is better or worse, and the last runs still are so,
	// as certainly, beside those before the change.
	Stands bool `json:"stands"`
	// MayStand says that the last runs are on the same side of those before the change as the
	// runs after it, and that their interval lies partly beyond the margin there.
	MayStand bool `json:"may_stand,omitempty"`

	worse bool // rather than better, whatever the margin
}

// Differing is what two runs differ in.
type Differing struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// MakeTrend puts runs in the order of time and finds where the level of a finding
// changes, with [stat.Steps] and one error rate for all series. Each run is one
// value; a percentile that is not reached is above all others. Changes within the
// margin are told, and do not count. All runs must
// share machine, versions and study unless options join them, or it fails with a
// usage error. Runs without a valid trial are left out; of fewer than [MinTrend]
// others the trend is inconclusive.
func MakeTrend(runs []*analysis.RunFigures, options CompareOptions) (Trend, error) {
	margin := options.MarginRatio
	if !(margin >= 0) || math.IsInf(margin, 0) {
		return Trend{}, errs.WithHint(errs.Usage("margin %v is not a share", margin), "as in --margin 5%%")
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

// seriesOf are the findings that runs are compared by, in the last run that has
// each.
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

// pointOf is a run's own value; nil if it has none.
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

// values counts the runs that have one.
func (s *Series) values() int {
	n := 0
	for _, p := range s.Points {
		if p != nil {
			n++
		}
	}
	return n
}

// find fills in the changes of all series, and how many runs they need.
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

// levelChange is the size and direction of a change between the runs of two
// levels, judged by its interval as changes of a comparison are (see [stat.Judge]);
// where there is no ratio, by that of the difference, in shares of the level before.
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
			margin = 0 // no share of nothing is a margin
		}
	}
	if upward {
		e.Value, e.Low, e.High = -e.Value, -e.High, -e.Low
	}
	v, _ := stat.Judge(e, margin)
	c.Verdict, c.worse = string(v), e.Value > 0
	return c
}

// mostlyNotReached reports that the median of some runs is not reached.
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

// tidy removes numbers that stand for what is not reached: no level, and no ratio.
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

// between lists what two runs differ in, versions first, and the program that
// measured.
func (t traitTable) between(runs []*analysis.RunFigures, from, to int) []Differing {
	var versions, others []Differing
	for _, k := range t.order {
		a, okA := t.values[from][k]
		b, okB := t.values[to][k]
		if a == b && okA == okB || t.open[k] && okA != okB {
			continue
		}
		if !okA {
			a = absent
		}
		if !okB {
			b = absent
		}
		d := Differing{k.name, inBrief(a), inBrief(b)}
		if k.kind == AcrossVersions {
			versions = append(versions, d)
		} else {
			others = append(others, d)
		}
	}
	if a, b := runs[from].Header.Meshtrial, runs[to].Header.Meshtrial; a != b {
		others = append(others, Differing{"meshtrial", a, b})
	}
	return append(versions, others...)
}
