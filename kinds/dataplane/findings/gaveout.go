package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// proxiesChecks are the checks of a data-plane trial that fail because sidecars are overloaded, if
// no other check fails: requests are lost, or more and more of them wait.
var proxiesChecks = map[string]bool{"served": false, "backlog": false}

// generatorsChecks are the checks that say that the load itself was not as requested.
var generatorsChecks = map[string]bool{"schedule-lag": true, "schedule-fit": true, "schedule-rate": true, "generator-cpu": true}

// whose corrects a verdict on a data-plane cell that lies beyond a bound, or is invalid, if the
// cause was the machine or the generator, which says nothing about the proxies. In a cell without
// proxies they are all there is to measure.
//
// If a proxy's own threads are saturated, or its CPU limit throttles it, the limit is its own,
// whatever else happens. Otherwise it is not if the same load is beyond the bound without sidecars,
// if the generator could not keep up, or if the machine's CPUs were all in use.
func whose(o *analysis.Observations, v analysis.Verdict, s study.Search, cell, block int) analysis.Verdict {
	full := o.Plan.Cells[cell]
	if len(study.WayOf(full)) == 0 {
		return v
	}
	tried := o.Tried[cell][block]
	for _, t := range tried {
		for _, part := range study.ProxyParts {
			th, of := t.ThreadsOf(part)
			if of == 0 {
				continue
			}
			own := threadsSummary(part, of, []record.Threads{th}, t.Pressure)
			if v.Answer == analysis.Broke && own.Limit != "" && own.Limit != record.LimitMachine {
				v.Why = noteOwnLimit.Of(v.Why, own.Says)
				return v
			}
		}
	}
	if why := notTheirs(o, s, cell, block, tried); why != "" {
		return analysis.Verdict{Answer: analysis.Crowded, Why: noteGaveOut.Of(v.Why, why)}
	}
	return v
}

// passes reports whether the requests of a cell pass a proxy.
func passes(o *analysis.Observations, cell int, part string) bool {
	for _, t := range o.Valid(cell) {
		return study.WayOfTrial(t).Has(part)
	}
	return study.WayOf(o.Plan.Cells[cell]).Has(part)
}

// notTheirs explains why the results of a cell's trials are not caused by the proxies; "" if
// nothing indicates that.
func notTheirs(o *analysis.Observations, s study.Search, cell, block int, tried []*record.Trial) string {
	for _, t := range tried {
		for _, c := range t.Validity.Checks {
			if !c.OK && generatorsChecks[c.Name] {
				return c.Detail
			}
		}
		if p := t.Pressure; p != nil && p.BusyRatio >= busyRatio {
			return fmt.Sprintf("the machine's CPUs were %s busy, and no proxy was at its own limit", words.Percent(p.BusyRatio))
		}
	}
	bare := o.Plan.Study.Kind.Effective(o.Plan.Cells[cell].With(record.Cell{study.FactorSidecars: study.SidecarsNone}))
	i, ok := o.Plan.Index(bare)
	if !ok {
		return ""
	}
	m, overhead, ok := o.MeasureNamed(s.Finding)
	if !ok || overhead {
		return "" // the search is for the difference from it
	}
	v := o.Block(i, block, m.Searched())
	if math.IsNaN(v) { // it was not measured in this block
		if values := slices.DeleteFunc(slices.Clone(o.Values(i, m.Searched())), math.IsNaN); len(values) > 0 {
			v = stat.Median(values)
		}
	}
	if math.IsInf(v, 1) {
		return fmt.Sprintf("without sidecars %s lies among requests that failed, beyond the bound as well", s.Finding)
	}
	if bare := o.Answer(s, i, block); math.IsNaN(v) && bare.Answer == analysis.Broke {
		return "without sidecars as well: " + bare.Why.String()
	}
	if v > s.Bound.Value {
		return fmt.Sprintf("without sidecars %s is %s, beyond the bound as well", s.Finding, words.Quantity(v, m.Unit))
	}
	return ""
}

// kneeRatio is the maximum ratio of the tail below the knee to the tail at the lowest rate: beyond
// it, waiting is most of the latency.
const kneeRatio = 2

// knees finds, for studies that search along the rate, the rate up to which the 99th percentile
// stays within twice its value at the lowest rate, by the medians over blocks. The result extends
// from there to the next measured rate, which is not a confidence interval. Rates without a valid
// trial because of the proxies count as beyond it, as do blocks whose percentile falls among failed
// requests. Rates at which the generator or the machine failed, or of which nothing is known, say
// nothing: if no other rate lies beyond, the knee is open above.
func knees(o *analysis.Observations) []record.Finding {
	if !o.Plan.Study.Measured(study.MeasureLatency) {
		return nil
	}
	if !slices.ContainsFunc(o.Plan.Study.Search, func(s study.Search) bool { return s.Factor == study.FactorRate }) {
		return nil
	}
	var p99 analysis.Measure
	for _, m := range o.Measures() {
		if m.Quantile == 0.99 {
			p99 = m.Searched()
		}
	}
	var out []record.Finding
	for _, g := range along(o, rateAxis) {
		if f, ok := knee(o, g, p99); ok {
			out = append(out, f)
		}
	}
	return out
}

// A kneePoint is the result of trials at a rate: the median over its blocks.
type kneePoint struct {
	cell     int
	rate, us float64
	valid    bool
}

// kneePoints returns the rates that were tried, in ascending order, and the maximum number of
// blocks.
func kneePoints(o *analysis.Observations, g *track, p99 analysis.Measure) (points []kneePoint, blocks int) {
	for _, cell := range g.cells {
		if len(o.Tried[cell]) == 0 {
			continue
		}
		rate, _ := strconv.ParseFloat(o.Plan.Cells[cell][study.FactorRate], 64)
		// A block whose percentile falls among failed requests is infinitely late.
		values := slices.DeleteFunc(slices.Clone(o.Values(cell, p99)), math.IsNaN)
		us := math.Inf(1)
		if len(values) > 0 {
			us = stat.Median(values)
			blocks = max(blocks, len(values))
		}
		points = append(points, kneePoint{cell, rate, us, len(values) > 0})
	}
	slices.SortFunc(points, func(a, b kneePoint) int { return cmp.Compare(a.rate, b.rate) })
	return points, blocks
}

func knee(o *analysis.Observations, g *track, p99 analysis.Measure) (record.Finding, bool) {
	points, blocks := kneePoints(o, g, p99)
	if len(points) < 3 || math.IsInf(points[0].us, 1) {
		return record.Finding{}, false
	}
	f := o.Named(dataplane.FindingKnee, g.cell)
	f.Blocks, f.Verdict = blocks, record.VerdictMeasured
	bound := study.Quantity{Value: kneeRatio * points[0].us, Unit: finding.UnitMicroseconds}
	last := points[0]
	var others []note.Note
	for _, p := range points {
		if p.us <= bound.Value {
			last = p
			f.Estimate, f.Low, f.High = p.rate, p.rate, p.rate
			continue
		}
		if why := notTheKnee(o, p, p99.Name, bound); why != nil {
			if others == nil {
				others = why
			}
			continue
		}
		f.Warnings = append(f.Warnings, noteKnee.Of(kneeBeyond(points[0]), words.Grouped(points[0].rate), kneeBeyond(last), words.Grouped(last.rate),
			kneeBeyond(p), words.Grouped(p.rate)))
		f.High = p.rate
		return f, true
	}
	f.Open = record.OpenHigh
	if others != nil {
		f.Verdict = record.VerdictInconclusive
		f.Warnings = slices.Concat(f.Warnings, others, []note.Note{noteKneeElsewhere.Of(words.Grouped(last.rate))})
		return f, true
	}
	f.Warnings = append(f.Warnings, noteNoKnee.Of(kneeBeyond(points[0]), words.Grouped(points[0].rate), kneeBeyond(last), words.Grouped(last.rate)))
	return f, true
}

// notTheKnee explains why results beyond the knee's bound at a rate are not caused by the proxies
// in some block, or are unknown in all blocks; nil if the proxies caused them.
func notTheKnee(o *analysis.Observations, p kneePoint, name string, bound study.Quantity) []note.Note {
	var unknown []note.Note
	broke := false
	for _, block := range o.Blocks {
		v := o.Answer(study.Search{Factor: study.FactorRate, Finding: name, Bound: bound}, p.cell, block)
		switch v.Answer {
		case analysis.Crowded:
			return []note.Note{v.Why}
		case analysis.Broke:
			broke = true
		case analysis.Unknown:
			unknown = []note.Note{v.Why}
		}
	}
	if broke {
		return nil
	}
	return unknown
}

func kneeBeyond(p kneePoint) string {
	switch {
	case !p.valid:
		return "without a valid trial"
	case math.IsInf(p.us, 1):
		return "among requests that failed"
	}
	return words.Quantity(p.us, finding.UnitMicroseconds)
}
