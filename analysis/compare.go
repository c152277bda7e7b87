package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Comparison says how run B compares with run A: the document of
// `meshtrial compare --json`.
type Comparison struct {
	Schema      int     `json:"schema"`
	A           string  `json:"run_a"`
	B           string  `json:"run_b"`
	Study       string  `json:"study"`
	MarginRatio float64 `json:"margin_ratio"`
	// Verdict of the whole: worse if a change counts and is; else
	// inconclusive if a deciding change is; else better if a change counts
	// and is; else same. Deciding changes count, and others that are certain.
	Verdict string `json:"verdict"`
	// Why says what an inconclusive verdict comes from where that is not the
	// width of intervals.
	Why string `json:"why,omitempty"`
	// Lacking says which run has too few valid trials: RunA, RunB or both; ""
	// for neither.
	Lacking  string   `json:"lacking,omitempty"`
	Changes  []Change `json:"changes"`
	Warnings []string `json:"warnings,omitempty"`
}

// What a comparison may lack trials of.
const (
	LackingA    = "a"
	LackingB    = "b"
	LackingBoth = "both"
)

// lacking is which of two runs lacks something.
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

// Change is what became of one finding from run A to run B.
type Change struct {
	Name    string      `json:"name"`
	Cell    record.Cell `json:"cell"`
	Against record.Cell `json:"against,omitempty"`
	// A and B are the findings of the two runs.
	A record.Finding `json:"a"`
	B record.Finding `json:"b"`
	// ChangeRatio is B/A - 1 with its 95% interval, all 0 unless Bounded.
	ChangeRatio float64 `json:"change_ratio"`
	LowRatio    float64 `json:"low_ratio"`
	HighRatio   float64 `json:"high_ratio"`
	// Bounded is false if there is no ratio, as to an overhead of nothing.
	Bounded bool   `json:"bounded"`
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	// Decides says that the verdict of the whole waits for this one: the
	// finding is the one the study's stop rule names, or a median latency or
	// a CPU cost if it names none. Tails need more blocks than most runs
	// have.
	Decides bool `json:"decides"`
	// Certain says that the verdict stands also at the stricter level that
	// looking at so many changes at once asks for (Bonferroni's), so that
	// chance alone makes a run worse in at most 1 of 20 comparisons of equals.
	Certain bool `json:"certain"`
}

// Compare judges run B against run A. Findings are matched by name and cell.
// Overheads are compared where there are any, each taken against its own
// run's baseline, since a machine of another day is no baseline; where a study
// compares nothing, and for CPU and memory, plain values are. Changes within
// the margin (a fraction, 0.05 for 5%) do not count: see [stat.Judge]. It
// fails if nothing can be matched (a usage error), or a run cannot be read. A run
// without valid trials makes the comparison inconclusive.
func (kinds Kinds) Compare(a, b record.Run, margin float64) (Comparison, error) {
	if !(margin >= 0) || math.IsInf(margin, 0) {
		return Comparison{}, errs.WithHint(errs.Usage("margin %v is not a share", margin), "as in --margin 5%%")
	}
	oa, ob, err := kinds.both(a, b)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{
		Schema: record.Schema, A: a.Header.RunID, B: b.Header.RunID, Study: a.Header.Study,
		MarginRatio: margin, Changes: []Change{},
	}
	if a.Header.Study != b.Header.Study {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the runs are of different studies, %s and %s", a.Header.Study, b.Header.Study))
	}
	for i, o := range []*Observations{oa, ob} {
		for _, words := range o.otherRules() {
			c.Warnings = append(c.Warnings, fmt.Sprintf("run %s: %s", []string{"A", "B"}[i], words))
		}
	}
	c.Warnings = append(c.Warnings, differences(a, b, oa.Plan.Study, ob.Plan.Study)...)
	unmatched := 0
	var pairings []pairing
	for _, m := range oa.Measures() {
		for cell := range oa.Plan.Cells {
			p, ok, wanted := newPairing(oa, ob, m, cell)
			if ok {
				pairings = append(pairings, p)
			} else if wanted {
				unmatched++
			}
		}
	}
	for _, p := range pairings {
		c.Changes = append(c.Changes, p.change(margin, len(pairings)))
	}
	if c.Lacking = lacking(oa.validity().Valid == 0, ob.validity().Valid == 0); c.Lacking != "" {
		c.Verdict, c.Why = record.VerdictInconclusive, withoutTrials[c.Lacking]
		return c, nil
	}
	if len(c.Changes) == 0 {
		return c, errs.WithHint(errs.Usage("runs %s and %s have no finding in common", c.A, c.B), "compare runs of the same study, or of studies that vary the same factors")
	}
	if unmatched > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d findings of run %s have no counterpart in run %s", unmatched, c.A, c.B))
	}
	if c.Verdict = overall(c.Changes); c.Verdict == record.VerdictInconclusive {
		c.Lacking = tooFew(c.Changes)
		c.Why = withTooFew[c.Lacking]
	}
	return c, nil
}

// withoutTrials says which of two runs has nothing to compare, withTooFew which
// has too little.
var (
	withoutTrials = map[string]string{
		LackingBoth: "neither run has a valid trial",
		LackingA:    "run A has no valid trial",
		LackingB:    "run B has no valid trial",
	}
	withTooFew = map[string]string{
		LackingBoth: "both runs have too few valid trials for an interval of the deciding finding",
		LackingA:    "run A has too few valid trials for an interval of the deciding finding",
		LackingB:    "run B has too few valid trials for an interval of the deciding finding",
	}
)

// tooFew says which run lacks the trials for what decides, "" if neither does
// of some deciding change.
func tooFew(changes []Change) string {
	deciding := slices.ContainsFunc(changes, func(c Change) bool { return c.Decides })
	a, b := false, false
	for _, c := range changes {
		if c.Verdict != record.VerdictInconclusive || deciding && !c.Decides {
			continue
		}
		lackA, lackB := c.A.Verdict == record.VerdictInvalid && !notReached(c.A), c.B.Verdict == record.VerdictInvalid && !notReached(c.B)
		if !lackA && !lackB {
			return "" // open though there are intervals
		}
		a, b = a || lackA, b || lackB
	}
	return lacking(a, b)
}

func (kinds Kinds) both(a, b record.Run) (oa, ob *Observations, err error) {
	out := make([]*Observations, 2)
	for i, run := range []record.Run{a, b} {
		if out[i], err = kinds.Observe(run); err != nil {
			return nil, nil, err
		}
	}
	return out[0], out[1], nil
}

// A pairing is one finding of run A and its counterpart in run B.
type pairing struct {
	a, b    record.Finding
	va, vb  []float64 // the numbers of each block that they come from
	decides bool
	upward  bool // more is better
}

// newPairing finds a finding in both runs; ok is false if run B lacks it,
// wanted says whether run A has it.
func newPairing(a, b *Observations, m Measure, cell int) (p pairing, ok, wanted bool) {
	base, compared := a.Baseline(cell)
	overhead := m.Compared && compared
	if m.Quantile > 0 && !overhead && len(a.Plan.Study.Baseline) > 0 {
		return p, false, false // a baseline's own latency is the machine's
	}
	if overhead {
		if a.lacks(cell, m) || a.lacks(base, m) {
			return p, false, false // too few requests tell of it
		}
		p.a = a.overhead(cell, base, m)
	} else if p.a, wanted = a.Plain(cell, m); !wanted || a.lacks(cell, m) {
		return p, false, false
	}
	other, ok := counterpart(b, p.a.Cell)
	if !ok {
		return p, false, true
	}
	otherBase := -1
	if overhead {
		if otherBase, ok = b.Baseline(other); !ok {
			return p, false, true
		}
		p.b = b.overhead(other, otherBase, m)
	} else if p.b, ok = b.Plain(other, m); !ok {
		return p, false, true
	}
	p.va, p.vb = a.changeValues(cell, base, m, overhead), b.changeValues(other, otherBase, m, overhead)
	p.decides, p.upward = decides(a.Plan.Study, p.a, m), m.MoreIsBetter
	return p, true, true
}

// change judges a pairing that is one of many.
func (p pairing) change(margin float64, many int) Change {
	c := Change{Name: p.a.Name, Cell: p.a.Cell, Against: p.a.Against, A: p.a, B: p.b, Decides: p.decides}
	e := stat.UnpairedRatio(p.va, p.vb, stat.Options{})
	strict := stat.Options{Level: 1 - (1-stat.DefaultLevel)/float64(max(1, many))}
	switch {
	case notReached(p.a) && notReached(p.b):
		c.Verdict, c.Why = record.VerdictInconclusive, "it lies among failed requests in both runs"
	case notReached(p.b) && p.a.Verdict != record.VerdictInvalid:
		c.Verdict, c.Why, c.Certain = record.VerdictWorse, "run B: "+p.b.Warnings[0], true
	case notReached(p.a) && p.b.Verdict != record.VerdictInvalid:
		c.Verdict, c.Why, c.Certain = record.VerdictBetter, "run A: "+p.a.Warnings[0], true
	case p.a.Verdict == record.VerdictInvalid || p.b.Verdict == record.VerdictInvalid:
		c.Verdict, c.Why = record.VerdictInconclusive, "too few valid trials"
	case within(p.a, margin) && within(p.b, margin):
		c.Verdict, c.Why = record.VerdictSame, "no effect beyond the margin in both runs"
	case e.Defined():
		c.ChangeRatio, c.LowRatio, c.HighRatio, c.Bounded = e.Value, e.Low, e.High, true
		v, why := p.judge(e, margin)
		certain, _ := p.judge(stat.UnpairedRatio(p.va, p.vb, strict), margin)
		c.Verdict, c.Why, c.Certain = string(v), why, v == certain
	default:
		c.Verdict, c.Why = p.withoutRatio(stat.Unpaired(p.va, p.vb, stat.Options{}))
		certain, _ := p.withoutRatio(stat.Unpaired(p.va, p.vb, strict))
		c.Certain = c.Verdict == certain
	}
	return c
}

// notReached says that a percentile lies among requests that failed: it is worse
// than any that does not.
func notReached(f record.Finding) bool { return f.Reason == record.ReasonNotReached }

// within says that a finding is no effect by its study, nor by this margin.
func within(f record.Finding, margin float64) bool {
	return f.Verdict == record.VerdictNoEffect && f.Relative != nil && -margin <= f.Relative.Low && f.Relative.High <= margin
}

// judge weighs a change against the margin, lower being better unless the
// measure says otherwise.
func (p pairing) judge(e stat.Estimate, margin float64) (stat.Verdict, string) {
	if p.upward {
		e.Value, e.Low, e.High = -e.Value, -e.High, -e.Low
	}
	return stat.Judge(e, margin)
}

// withoutRatio judges a change from what may be nothing to what is something:
// no share of nothing can be a margin.
func (p pairing) withoutRatio(e stat.Estimate) (verdict, why string) {
	if e.Defined() && e.Low > 0 && p.b.Verdict == record.VerdictReal {
		return record.VerdictWorse, "from what may be nothing to something"
	}
	return record.VerdictInconclusive, "run A's value is indistinguishable from zero, so the change has no ratio"
}

// changeValues are the numbers of each block that two runs are compared by.
func (o *Observations) changeValues(cell, base int, m Measure, overhead bool) []float64 {
	if !overhead {
		return o.Values(cell, m)
	}
	var out []float64
	for _, p := range o.pairs(cell, base, m) {
		out = append(out, p.Test-p.Base)
	}
	return out
}

// counterpart finds the one cell of b that has the levels of a cell of the
// other run.
func counterpart(b *Observations, short record.Cell) (int, bool) {
	match := -1
	for i, cell := range b.Plan.Cells {
		if !has(cell, short) {
			continue
		}
		if b.Plan.Short(cell).Key() == short.Key() {
			return i, true
		}
		if match >= 0 {
			return 0, false
		}
		match = i
	}
	return match, match >= 0
}

// decides reports whether the comparison as a whole waits for a finding of a
// measure.
func decides(s *study.Study, f record.Finding, m Measure) bool {
	if s.Stop != nil {
		return f.Name == s.Stop.Finding && has(f.Cell, shared(s.Stop.Of, f.Cell))
	}
	return m.Decides
}

// shared is the part of partial whose factors the cell names.
func shared(partial, cell record.Cell) record.Cell {
	out := record.Cell{}
	for factor, level := range partial {
		if _, ok := cell[factor]; ok {
			out[factor] = level
		}
	}
	return out
}

func overall(changes []Change) string {
	counts := func(verdict string) bool {
		return slices.ContainsFunc(changes, func(c Change) bool { return c.Verdict == verdict && (c.Decides || c.Certain) })
	}
	deciding := slices.ContainsFunc(changes, func(c Change) bool { return c.Decides })
	open := slices.ContainsFunc(changes, func(c Change) bool {
		return c.Verdict == record.VerdictInconclusive && (c.Decides || !deciding)
	})
	switch {
	case counts(record.VerdictWorse):
		return record.VerdictWorse
	case open:
		return record.VerdictInconclusive
	case counts(record.VerdictBetter):
		return record.VerdictBetter
	}
	return record.VerdictSame
}

// differences lists what else differs between two runs than what they
// measured: the machine, the binaries, and the settings.
func differences(a, b record.Run, sa, sb *study.Study) []string {
	var out []string
	ma, mb := a.Header.Machine, b.Header.Machine
	if ma.CPUModel != mb.CPUModel || ma.CPUs != mb.CPUs || ma.Kernel != mb.Kernel {
		out = append(out, fmt.Sprintf("the machines differ: %s, %d CPUs, kernel %s; and %s, %d CPUs, kernel %s",
			ma.CPUModel, ma.CPUs, ma.Kernel, mb.CPUModel, mb.CPUs, mb.Kernel))
	}
	version := map[string]string{}
	for _, c := range a.Header.Components {
		version[c.Name] = c.Version
	}
	for _, c := range b.Header.Components {
		if v, ok := version[c.Name]; ok && v != c.Version {
			out = append(out, fmt.Sprintf("%s differs: %s and %s", c.Name, v, c.Version))
		}
	}
	for _, f := range sa.Kind.Factors() {
		x, okA := sa.Settings[f.Name]
		y, okB := sb.Settings[f.Name]
		if okA && okB && x != y {
			out = append(out, fmt.Sprintf("the studies' settings differ: %s is %s and %s", f.Name, x, y))
		}
	}
	return out
}
