package findings

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// hopMeasures returns the measures of terms, by [dataplane.HopMeasures].
func hopMeasures(s *study.Study) []analysis.Measure {
	var out []analysis.Measure
	add := func(m analysis.Measure, unit string) {
		m.Unit = unit
		out = append(out, m)
	}
	if s.Measured(study.MeasureLatency) {
		add(analysis.LatencyQuantile(dataplane.HopP50, 0.5), finding.UnitMicroseconds)
		add(analysis.LatencyQuantile(dataplane.HopP99, 0.99), finding.UnitMicroseconds)
	}
	if s.Measured(study.MeasureCPU) {
		pods := func(name string, of func(record.CPU) float64) {
			add(analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 {
				if t.Sampled != nil && name == dataplane.HopKernel { // kubelets do not separate it
					return math.NaN()
				}
				sum := 0.0
				for _, part := range slices.Concat(study.WayOfTrial(t).Parts(), []string{record.PartGenerator, record.PartWorker}) {
					sum += analysis.CPUPerRequest(t, part, of)
				}
				return sum
			}), finding.UnitPerRequest)
		}
		pods(dataplane.HopPods, record.CPU.TotalS)
		pods(dataplane.HopKernel, func(c record.CPU) float64 { return c.SystemS })
		add(analysis.MeasureOf(dataplane.HopMachine, func(_ *analysis.Observations, t *record.Trial) float64 {
			return analysis.CPUPerRequest(t, record.PartMachine, record.CPU.TotalS)
		}), finding.UnitPerRequest)
	}
	return out
}

// addHops splits the cost of a request into its terms, for each combination of the study's other
// factors. Every term is a sum of cells within a block, so the terms add up to the whole in each
// block. They all share one error rate.
func addHops(o *analysis.Observations, f *record.Findings) {
	h := dataplane.Of(o.Plan.Study).Hops
	if h == nil {
		return
	}
	all := told{o: o}
	terms, measures := h.Terms(), hopMeasures(o.Plan.Study)
	var at []int // index of the first finding of each split
	for _, p := range pricings(o) {
		var cells []int
		for _, term := range terms {
			of, _ := p.cellsOf(term)
			cells = append(cells, of...)
		}
		one := record.Hops{Cell: p.cell}
		p = p.whole(cells)
		values := p.terms(terms, measures)
		for _, name := range dataplane.HopMeasures() {
			if !addUp(values[name]) {
				one.Apart = append(one.Apart, name)
			}
		}
		at, f.Hops = append(at, len(all.findings)), append(f.Hops, one)
		for i, term := range terms {
			for _, m := range measures {
				p.tell(&all, term, m, values[m.Name][i])
			}
		}
	}
	findings := all.judge()
	for i := range f.Hops {
		next := at[i]
		for _, term := range terms {
			t := record.HopTerm{Name: term.Name, Doc: term.Doc, Figures: map[string]record.Priced{}}
			for _, m := range measures {
				t.Figures[m.Name] = record.PricedOf(findings[next])
				next++
			}
			f.Hops[i].Terms = append(f.Hops[i].Terms, t)
		}
	}
	f.Findings = append(f.Findings, findings...)
}

// tell adds the finding of a term in a measure, from its values in every block.
func (p *pricing) tell(all *told, term dataplane.HopTerm, m analysis.Measure, values []float64) {
	f := p.o.Named(dataplane.HopFinding(term.Name, m.Name), p.cell.With(nil))
	d := analysis.Difference{Estimate: p.termEstimate(term, m, values), Say: m.Say, OnePods: p.o.SamePods()}
	level := math.NaN()
	if p.floor >= 0 {
		d.Floor, level = p.o.Floor(p.floor, m)
	}
	cells, _ := p.cellsOf(term)
	all.add(termFinding(f, d, p.o.Margin(level), len(term.Of), m), d, m, 1, cells...)
}

// cellsOf returns a term's cells, positive ones first, and false if the plan lacks one.
func (p *pricing) cellsOf(term dataplane.HopTerm) (cells []int, all bool) {
	all = true
	variants := slices.SortedFunc(maps.Keys(term.Of), func(a, b string) int {
		return cmp.Or(cmp.Compare(term.Of[b], term.Of[a]), strings.Compare(a, b))
	})
	for _, variant := range variants {
		cell, ok := p.cells[variant]
		if all = all && ok; ok {
			cells = append(cells, cell)
		}
	}
	return cells, all
}

// termEstimate estimates a term from its values in every block: their mean, so that terms add up,
// with Student's interval. In the far tail that interval is overconfident, so a term of one or two
// cells has the interval of their pooled quantiles there.
func (p *pricing) termEstimate(term dataplane.HopTerm, m analysis.Measure, values []float64) stat.Estimate {
	cells, ok := p.cellsOf(term)
	e := stat.Mean(values, stat.Options{Say: m.Say, Resolution: p.step(m, cells...)})
	if m.Quantile < stat.FarTail || !ok || !e.Defined() {
		return e
	}
	switch len(cells) {
	case 1:
		own, _ := p.o.Value(cells[0], m)
		return widened(e, own)
	case 2:
		apart, _ := p.o.Apart(cells[0], cells[1], m, e.Level)
		e = widened(e, apart)
		e.SE = max(e.SE, apart.SE)
	}
	return e
}

// terms returns the values of all terms in every block, by measure. They all cover the same blocks,
// those with every cell, if there are enough of them.
func (p *pricing) terms(terms []dataplane.HopTerm, measures []analysis.Measure) map[string][][]float64 {
	out := map[string][][]float64{}
	for _, m := range measures {
		all := make([]float64, len(p.o.Units))
		for _, term := range terms {
			values := p.term(term, m)
			out[m.Name] = append(out[m.Name], values)
			for i, v := range values {
				all[i] += v // a number only if every term is one
			}
		}
		wholeBlocks(all, out[m.Name]...)
	}
	return out
}

// addUp reports whether the terms of a measure that have a figure cover the same blocks, and so add
// up. It is false for a measure that the study lacks.
func addUp(terms [][]float64) bool {
	known := slices.DeleteFunc(slices.Clone(terms), func(of []float64) bool { return !slices.ContainsFunc(of, stat.Finite) })
	for _, of := range known {
		for i, v := range of {
			if stat.Finite(v) != stat.Finite(known[0][i]) {
				return false
			}
		}
	}
	return terms != nil
}

// term returns a term's value in every block, NaN if a cell is missing.
func (p *pricing) term(term dataplane.HopTerm, m analysis.Measure) []float64 {
	out := make([]float64, len(p.o.Units))
	for i := range out {
		for _, variant := range slices.Sorted(maps.Keys(term.Of)) { // fixed order, for a reproducible sum
			cell, ok := p.cells[variant]
			if !ok {
				out[i] = math.NaN()
				continue
			}
			out[i] += term.Of[variant] * p.o.Unit(cell, i, m)
		}
	}
	return out
}

// termFinding puts the estimate of a term of some cells into a finding: a difference, which gets
// one of three verdicts, or a cell's own value. A percentile in the far tail over more than two
// cells gets no verdict, since its interval comes from the jackknife alone.
func termFinding(f record.Finding, d analysis.Difference, margin float64, cells int, m analysis.Measure) record.Finding {
	f.Blocks = d.Blocks
	if d.Blocks < analysis.MinBlocks || !d.Defined() {
		return withoutFigure(f, d.Estimate)
	}
	unsure := cells > 2 && m.Quantile >= stat.FarTail
	if cells > 1 && !unsure {
		return d.Put(f, margin)
	}
	f.Estimate, f.Low, f.High, f.Warnings, f.Verdict = d.Value, d.Low, d.High, d.Warnings, record.VerdictMeasured
	if unsure {
		f.Warnings = append(f.Warnings, noteFarTails.Of(cells))
	}
	return f
}
