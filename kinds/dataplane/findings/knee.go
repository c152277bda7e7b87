package findings

import (
	"cmp"
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
	for _, g := range along(o, axes[0]) {
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
		f.Warnings = append(f.Warnings, noteKnee.Of(words.Quantity(points[0].us, finding.UnitMicroseconds), words.Grouped(points[0].rate),
			words.Quantity(last.us, finding.UnitMicroseconds), words.Grouped(last.rate), kneeBeyond(p.us, p.valid), words.Grouped(p.rate)))
		f.High = p.rate
		return f, true
	}
	f.Open = record.OpenHigh
	if others != nil {
		f.Verdict = record.VerdictInconclusive
		f.Warnings = slices.Concat(f.Warnings, others, []note.Note{noteKneeElsewhere.Of(words.Grouped(last.rate))})
		return f, true
	}
	f.Warnings = append(f.Warnings, noteNoKnee.Of(words.Quantity(points[0].us, finding.UnitMicroseconds), words.Grouped(points[0].rate),
		words.Quantity(last.us, finding.UnitMicroseconds), words.Grouped(last.rate)))
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

func kneeBeyond(us float64, valid bool) string {
	switch {
	case !valid:
		return "without a valid trial"
	case math.IsInf(us, 1):
		return "among requests that failed"
	}
	return words.Quantity(us, finding.UnitMicroseconds)
}
