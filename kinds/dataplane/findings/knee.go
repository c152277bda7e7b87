package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// kneeRatio is by how much more than at the lowest rate the tail may take
// below the knee: from there on, waiting is most of the latency.
const kneeRatio = 2

// knees finds, where a study searches along the rate, up to which rate the
// 99th percentile stays within twice what it is at the lowest one. The
// interval goes from there to the next rate that was measured. Rates at which
// no trial is valid count as beyond it, and so do blocks whose percentile lies
// among requests that failed.
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

func knee(o *analysis.Observations, g *track, p99 analysis.Measure) (record.Finding, bool) {
	type point struct {
		rate, us float64
		valid    bool
	}
	var points []point
	blocks := 0
	for _, cell := range g.cells {
		if len(o.Tried[cell]) == 0 {
			continue
		}
		rate, _ := strconv.ParseFloat(o.Plan.Cells[cell][study.FactorRate], 64)
		// A block whose percentile lies among requests that failed is infinitely late.
		values := slices.DeleteFunc(slices.Clone(o.Values(cell, p99)), math.IsNaN)
		us := math.Inf(1)
		if len(values) > 0 {
			us = stat.Median(values)
			blocks = max(blocks, len(values))
		}
		points = append(points, point{rate, us, len(values) > 0})
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.rate, b.rate) })
	if len(points) < 3 || math.IsInf(points[0].us, 1) {
		return record.Finding{}, false
	}
	f := o.Named(study.FindingKnee, g.cell)
	f.Blocks, f.Verdict = blocks, record.VerdictMeasured
	bound := kneeRatio * points[0].us
	for i, p := range points {
		if p.us > bound {
			f.Warnings = append(f.Warnings, fmt.Sprintf("p99 is %s at %s requests per second, %s at %s and %s at %s", words.Quantity(points[0].us, finding.UnitMicroseconds), words.Grouped(points[0].rate),
				words.Quantity(points[i-1].us, finding.UnitMicroseconds), words.Grouped(points[i-1].rate), kneeBeyond(p.us, p.valid), words.Grouped(p.rate)))
			f.High = p.rate
			return f, true
		}
		f.Estimate, f.Low, f.High = p.rate, p.rate, p.rate
	}
	f.Warnings = append(f.Warnings, fmt.Sprintf("no measured rate is beyond the knee: p99 is %s at %s requests per second and %s at %s", words.Quantity(points[0].us, finding.UnitMicroseconds), words.Grouped(points[0].rate),
		words.Quantity(points[len(points)-1].us, finding.UnitMicroseconds), words.Grouped(points[len(points)-1].rate)))
	return f, true
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
