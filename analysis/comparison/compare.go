// Package comparison compares runs: those of two sides, to tell which is better, and those of
// several weeks, to tell when something changed. It is pure: it takes the figures of runs
// ([analysis.RunFigures]) and returns documents.
//
//	runs of two sides -> better, worse, same or inconclusive      compare.go, change.go
//	runs over time    -> where the level of a finding changes     trend.go
//	runs              -> what they differ in, joined or refused   across.go
//
// The run is the unit, as its blocks share its particular circumstances. Package stat defines
// intervals and changes of level.
package comparison

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// Comparison compares the runs of side B with those of side A: the document of `meshtrial
// compare --json`.
type Comparison struct {
	Schema int `json:"schema"`
	// A and B name the first run of each side, RunsA and RunsB all of them.
	A           string   `json:"run_a"`
	B           string   `json:"run_b"`
	RunsA       []string `json:"runs_a"`
	RunsB       []string `json:"runs_b"`
	Study       string   `json:"study"`
	MarginRatio float64  `json:"margin_ratio"`
	// Basis is what intervals rest on: the scatter between runs or, with one run per side,
	// only that between the blocks inside each.
	Basis string `json:"basis"`
	// WithinRunOnly means that a side has only one run, so the scatter between runs is
	// unknown: the verdict applies to these runs, and other runs of the same two things may
	// not confirm it.
	WithinRunOnly bool `json:"within_run_only"`
	// ErrorRate bounds the probability that chance makes the overall verdict better or worse
	// though nothing changed, as far as the intervals capture it.
	ErrorRate float64 `json:"error_rate"`
	// Joined lists the differences between runs that were joined on request.
	Joined []note.Note `json:"joined,omitempty"`
	// Verdict is the overall verdict: worse if a change certainly is; otherwise inconclusive
	// if a deciding change is inconclusive, or worse but not certainly; otherwise better if
	// a change certainly is; otherwise same if all deciding changes are.
	Verdict string `json:"verdict"`
	// Why explains an inconclusive verdict, unless the reason is the width of intervals.
	Why string `json:"why,omitempty"`
	// Lacking says which side has too few valid trials: a, b or both; "" means neither.
	Lacking  string      `json:"lacking,omitempty"`
	Changes  []Change    `json:"changes"`
	Warnings []note.Note `json:"warnings,omitempty"`
}

// Reasons for lacking trials.
const (
	LackingA    = "a"
	LackingB    = "b"
	LackingBoth = "both"
)

// lacking says which of two sides lacks something.
func lacking(a, b bool) string {
	switch {
	case a && b:
		return LackingBoth
	case a:
		return LackingA
	case b:
		return LackingB
	}
	return ""
}

// Change is the change of one finding from side A to side B.
type Change struct {
	Name    string      `json:"name"`
	Cell    record.Cell `json:"cell"`
	Against record.Cell `json:"against,omitempty"`
	// A and B are the findings of the two runs. For a side with several runs they are their
	// mean, with its 95% interval between runs.
	A record.Finding `json:"a"`
	B record.Finding `json:"b"`
	// ValuesA and ValuesB are the values of each run of a side, in the order of the runs,
	// null for a run without one; absent with one run per side.
	ValuesA []*float64 `json:"values_a,omitempty"`
	ValuesB []*float64 `json:"values_b,omitempty"`
	// ChangeRatio is B/A - 1 with its 95% interval, all 0 unless Bounded.
	ChangeRatio float64 `json:"change_ratio"`
	LowRatio    float64 `json:"low_ratio"`
	HighRatio   float64 `json:"high_ratio"`
	// Bounded is false if there is no ratio, for example if the old overhead was zero.
	Bounded bool   `json:"bounded"`
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	// Decides means that the overall verdict waits for this finding: the study's stop rule
	// names it, or it is a median latency or CPU cost if the rule names none. Tails need
	// more blocks than most runs have.
	Decides bool `json:"decides"`
	// Certain means that the verdict also holds for an interval at JointLevel, the stricter
	// confidence level required by so many simultaneous comparisons. The deciding ones share
	// four fifths of the error rate, all others the rest (see [stat.Holm]), so chance alone
	// makes any certainly better or worse in at most 1 of 20 comparisons of equals.
	Certain    bool    `json:"certain"`
	JointLevel float64 `json:"joint_level"`
}

// Sources of a comparison's intervals.
const (
	BasisRuns   = "runs"
	BasisBlocks = "blocks"
)

// ErrorRate is the probability with which chance may make a comparison or a trend find a
// change where there is none.
const ErrorRate = 0.05

// CompareOptions configures a comparison.
type CompareOptions struct {
	// MarginRatio is the largest change that does not matter, 0.05 for 5%.
	MarginRatio float64
	// Across names what runs may differ in and still be joined.
	Across Across
}

// Compare judges runs after a change against runs before it. It matches findings by name and
// cell. If there are overheads it compares those, each relative to its own run's baseline,
// since a machine on another day is no baseline. If a study compares nothing, and for CPU
// and memory, it compares plain values. Changes within the margin do not count: see
// [stat.Judge].
//
// The unit is the run: intervals come from the scatter between the runs of each side
// ([stat.BetweenRuns]). Only with one run per side do they come from blocks, and the
// comparison then says that the scatter between runs is unknown.
//
// All runs must share machine and study, with its settings, levels and times, and those of
// one side also versions, unless options join them. Compare fails with a usage error if they
// do not, if a run is given twice, or if nothing can be matched. Without valid trials on a
// side the comparison is inconclusive.
func Compare(before, after []*analysis.RunFigures, options CompareOptions) (Comparison, error) {
	margin := options.MarginRatio
	if err := checkMargin(margin); err != nil {
		return Comparison{}, err
	}
	if len(before) == 0 || len(after) == 0 {
		return Comparison{}, errs.Usage("a comparison needs a run on each side")
	}
	if err := checkTwice(before, after); err != nil {
		return Comparison{}, err
	}
	c := Comparison{
		Schema: record.Schema, A: before[0].Header.RunID, B: after[0].Header.RunID, RunsA: idsOf(before), RunsB: idsOf(after),
		Study: before[0].Header.Study, MarginRatio: margin, ErrorRate: ErrorRate, Basis: BasisRuns, Changes: []Change{},
	}
	var err error
	if c.Joined, err = options.Across.sides(before, after); err != nil {
		return Comparison{}, err
	}
	c.Warnings = slices.Concat(c.Joined, rulesOf("A", before), rulesOf("B", after), between(before, after))
	validA, validB := withTrials(before), withTrials(after)
	for _, side := range [][2][]*analysis.RunFigures{{before, validA}, {after, validB}} {
		if all, valid := side[0], side[1]; len(valid) > 0 && len(valid) < len(all) {
			c.Warnings = append(c.Warnings, noteLeftOut.Of(named(idsOf(without(all, valid)))))
		}
	}
	c.Lacking = lacking(len(validA) == 0, len(validB) == 0)
	if c.Lacking != "" {
		validA, validB = before, after
	}
	c.basis(len(validA), len(validB))
	pairings, onlyA, onlyB := pairingsOf(validA, validB, c.Basis == BasisBlocks)
	c.Changes = changes(pairings, margin)
	if c.Lacking != "" {
		c.Verdict, c.Why = record.VerdictInconclusive, c.without()
		return c, nil
	}
	if len(c.Changes) == 0 {
		return c, errs.WithHint(errs.Usage("nothing can be compared: run %s, of study %s, and run %s, of study %s, have no finding of the same name in the same cell",
			c.A, before[0].Header.Study, c.B, after[0].Header.Study), "compare runs of the same study, or of studies that vary the same factors over the same levels")
	}
	c.leftOut("A", "B", onlyA)
	c.leftOut("B", "A", onlyB)
	if c.Verdict, c.Why = overall(c.Changes); c.Verdict == record.VerdictInconclusive && c.Why == "" {
		if c.Lacking = tooFew(c.Changes); c.Lacking != "" {
			c.Why = c.withTooFew()
		}
	}
	return c, nil
}

func checkMargin(margin float64) error {
	if !(margin >= 0) || math.IsInf(margin, 0) {
		return errs.WithHint(errs.Usage("margin %v is not a share", margin), "as in --margin 5%%")
	}
	return nil
}

// checkTwice rejects a run that is given twice, unless it is compared with itself.
func checkTwice(before, after []*analysis.RunFigures) error {
	if len(before) == 1 && len(after) == 1 {
		return nil
	}
	type id struct {
		run  string
		seed uint64
		at   int64
	}
	seen := map[id]bool{}
	for _, r := range slices.Concat(before, after) {
		k := id{r.Header.RunID, r.Header.Seed, r.Header.Started.UnixNano()}
		if seen[k] {
			return errs.WithHint(errs.Usage("run %s is given twice", r.Header.RunID), "a run counts once")
		}
		seen[k] = true
	}
	return nil
}

// Takes says how many runs per side find which change, from TestSimulationCompare in package
// stat.
const Takes = "if runs vary by 3%, it takes 3 runs a side to find a change of 20%, and 6 to find one of 10%"

// basis sets what intervals rest on, given the number of runs with valid trials on each
// side; it warns of what they do not include.
func (c *Comparison) basis(a, b int) {
	if a > 1 && b > 1 {
		return
	}
	c.WithinRunOnly = true
	if a <= 1 && b <= 1 {
		c.Basis = BasisBlocks
		c.Warnings = append(c.Warnings, noteOneRunEach.Of())
		return
	}
	one, other := "A", "B"
	if b <= 1 {
		one, other = other, one
	}
	c.Warnings = append(c.Warnings, noteOneRun.Of(one, other))
}

// leftOut warns of findings that only one side has.
func (c *Comparison) leftOut(of, other string, n int) {
	if n > 0 {
		c.Warnings = append(c.Warnings, noteUnmatched.Of(words.Plural(n, "finding"), c.noun()+" "+of, c.noun()+" "+other))
	}
}

// noun returns the word for a side: a run if each side is one.
func (c *Comparison) noun() string {
	if len(c.RunsA) == 1 && len(c.RunsB) == 1 {
		return "run"
	}
	return "side"
}

// without says which side has nothing to compare, withTooFew which has too little.
func (c *Comparison) without() string {
	switch {
	case c.Lacking != LackingBoth:
		return c.noun() + " " + strings.ToUpper(c.Lacking) + " has no valid trial"
	case c.noun() == "run":
		return "neither run has a valid trial"
	}
	return "no run of either side has a valid trial"
}

func (c *Comparison) withTooFew() string {
	who := c.noun() + " " + strings.ToUpper(c.Lacking) + " has"
	if c.Lacking == LackingBoth {
		who = "both " + c.noun() + "s have"
	}
	return who + " too few valid trials for an interval of the deciding finding"
}

func idsOf(runs []*analysis.RunFigures) []string {
	out := make([]string, len(runs))
	for i, r := range runs {
		out[i] = r.Header.RunID
	}
	return out
}

func withTrials(runs []*analysis.RunFigures) []*analysis.RunFigures {
	return slices.DeleteFunc(slices.Clone(runs), func(r *analysis.RunFigures) bool { return r.Valid == 0 })
}

func without(runs, others []*analysis.RunFigures) []*analysis.RunFigures {
	return slices.DeleteFunc(slices.Clone(runs), func(r *analysis.RunFigures) bool { return slices.Contains(others, r) })
}

// rulesOf warns of runs that were judged by rules other than today's.
func rulesOf(side string, runs []*analysis.RunFigures) []note.Note {
	var out []note.Note
	for _, r := range runs {
		for _, n := range r.Rules {
			if len(runs) > 1 {
				side = r.Header.RunID
			}
			out = append(out, n.At("run "+side))
		}
	}
	return out
}

// sides returns the traits in which joined runs of two sides differ, or rejects the runs.
func (across Across) sides(before, after []*analysis.RunFigures) (joined []note.Note, err error) {
	all := slices.Concat(before, after)
	found := traitsOf(all).differences(all, func(t trait) bool { return t.kind != AcrossVersions })
	for _, side := range [][]*analysis.RunFigures{before, after} {
		found = append(found, traitsOf(side).differences(side, func(t trait) bool { return t.kind == AcrossVersions })...)
	}
	return across.join(found)
}

// between lists differences that are allowed between the sides: the measured binaries,
// including those that one side lacks, and the program that measured.
func between(before, after []*analysis.RunFigures) []note.Note {
	var out []note.Note
	ta, tb := traitsOf(before), traitsOf(after)
	side := func(t traitTable, k trait) string {
		var values []string
		for _, run := range t.values {
			if v, ok := run[k]; ok && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if values == nil {
			return absent
		}
		return inBrief(strings.Join(values, " or "))
	}
	both := traitsOf(slices.Concat(before, after))
	for _, k := range both.order {
		if k.kind != AcrossVersions {
			continue
		}
		a, b := side(ta, k), side(tb, k)
		if unknown := both.open[k] && (a == absent || b == absent); a != b && !unknown {
			out = append(out, noteDiffers.Of(k.name, a, b))
		}
	}
	programs := map[string]bool{}
	for _, r := range slices.Concat(before, after) {
		programs[r.Header.Meshtrial] = true
	}
	if len(programs) > 1 {
		out = append(out, notePrograms.Of(strings.Join(slices.Sorted(maps.Keys(programs)), ", ")))
	}
	return out
}

// tooFew says which run has too few trials for the deciding changes; "" if for some deciding
// change neither run does.
func tooFew(changes []Change) string {
	deciding := slices.ContainsFunc(changes, func(c Change) bool { return c.Decides })
	a, b := false, false
	for _, c := range changes {
		if c.Verdict != record.VerdictInconclusive || deciding && !c.Decides {
			continue
		}
		lackA, lackB := c.A.Verdict == record.VerdictInvalid && !notReached(c.A), c.B.Verdict == record.VerdictInvalid && !notReached(c.B)
		if !lackA && !lackB {
			return "" // undecided despite having intervals
		}
		a, b = a || lackA, b || lackB
	}
	return lacking(a, b)
}

// overall returns the overall verdict and, if it is inconclusive for a reason other than the
// width of intervals, that reason.
func overall(changes []Change) (verdict, why string) {
	deciding := slices.ContainsFunc(changes, func(c Change) bool { return c.Decides })
	certain := func(verdict string) bool {
		return slices.ContainsFunc(changes, func(c Change) bool { return c.Verdict == verdict && c.Certain })
	}
	decided := func(verdict string) bool {
		return slices.ContainsFunc(changes, func(c Change) bool { return c.Verdict == verdict && (c.Decides || !deciding) })
	}
	switch {
	case certain(record.VerdictWorse):
		return record.VerdictWorse, ""
	case decided(record.VerdictInconclusive):
		return record.VerdictInconclusive, ""
	case decided(record.VerdictWorse):
		return record.VerdictInconclusive, "a deciding change is worse by its own interval, but not at the stricter level for all of them together"
	case certain(record.VerdictBetter):
		return record.VerdictBetter, ""
	case decided(record.VerdictBetter):
		return record.VerdictInconclusive, "a deciding change is better by its own interval, but not at the stricter level for all of them together"
	}
	return record.VerdictSame, ""
}
