package comparison

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

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

// reach determines how many runs a change must have after it to be found in all deciding
// series that have enough runs for any, and names those that do not.
func (t *Trend) reach(weights []float64) {
	var all float64
	for _, w := range weights {
		all += w
	}
	short := 0
	for _, i := range t.deciding() {
		least := stat.LeastSteps(t.Series[i].values(), ErrorRate*weights[i]/all)
		if t.RunsAfter = max(t.RunsAfter, least); least == 0 {
			short++
		}
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
		return record.VerdictInconclusive, fmt.Sprintf("%d runs are too few to find any change: none of the %d deciding findings has a value in enough of them", len(t.Runs), len(t.deciding()))
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
