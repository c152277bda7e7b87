package findings

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// hopMeasures are what terms are told in, by [study.HopMeasures].
func hopMeasures(s *study.Study) []analysis.Measure {
	var out []analysis.Measure
	put := func(m analysis.Measure, unit string) {
		m.Unit = unit
		out = append(out, m)
	}
	add := func(name, unit string, of func(*analysis.Observations, *record.Trial) float64) {
		put(analysis.MeasureOf(name, of), unit)
	}
	if s.Measured(study.MeasureLatency) {
		for _, q := range analysis.Quantiles {
			if name := "latency_" + q.Name; name == study.HopP50 || name == study.HopP99 {
				put(analysis.LatencyQuantile(name, q.Q), finding.UnitMicroseconds)
			}
		}
	}
	if s.Measured(study.MeasureCPU) {
		pods := func(of func(record.CPU) float64) func(*analysis.Observations, *record.Trial) float64 {
			return func(_ *analysis.Observations, t *record.Trial) float64 {
				sum := 0.0
				for _, part := range slices.Concat(study.WayOfTrial(t).Parts(), []string{record.PartGenerator, record.PartWorker}) {
					sum += analysis.CPUPerRequest(t, part, of)
				}
				return sum
			}
		}
		add(study.HopPods, finding.UnitPerRequest, pods(record.CPU.TotalS))
		kernel := pods(func(c record.CPU) float64 { return c.SystemS })
		add(study.HopKernel, finding.UnitPerRequest, func(o *analysis.Observations, t *record.Trial) float64 {
			if t.Sampled != nil { // a kubelet does not tell it apart
				return math.NaN()
			}
			return kernel(o, t)
		})
		add(study.HopMachine, finding.UnitPerRequest, func(_ *analysis.Observations, t *record.Trial) float64 {
			return analysis.CPUPerRequest(t, record.PartMachine, record.CPU.TotalS)
		})
	}
	return out
}

// addHops adds the cost breakdown of the request path.
func addHops(o *analysis.Observations, f *record.Findings) {
	hops, terms := hops(o)
	f.Hops, f.Findings = hops, append(f.Findings, terms...)
}

// hops splits the cost of a request into its terms, for each combination of
// the study's other factors. Every term is a sum of cells inside a block, so
// that in each block the terms add up to the whole.
func hops(o *analysis.Observations) (out []record.Hops, findings []record.Finding) {
	h := o.Plan.Study.Hops
	if h == nil {
		return nil, nil
	}
	for _, p := range pricings(o) {
		one := record.Hops{Cell: p.cell}
		measures := hopMeasures(o.Plan.Study)
		values := p.terms(h.Terms(), measures)
		var told []record.Finding
		var family analysis.Family
		for i, term := range h.Terms() {
			for _, m := range measures {
				f := o.Named(study.HopFinding(term.Name, m.Name), p.cell.With(nil))
				d := analysis.Difference{Estimate: stat.Mean(values[m.Name][i], stat.Options{Say: m.Say}), Say: m.Say, OnePods: o.SamePods()}
				level := math.NaN()
				if p.floor >= 0 {
					d.Floor, level = o.Floor(p.floor, m)
				}
				told, family = append(told, termFinding(f, d, o.Margin(level), len(term.Of) > 1)), append(family, d)
			}
		}
		family.Judge(told)
		for i, term := range h.Terms() {
			t := record.HopTerm{Name: term.Name, Doc: term.Doc, Figures: map[string]record.Priced{}}
			for j, m := range measures {
				f := told[i*len(measures)+j]
				t.Figures[m.Name] = record.Priced{Estimate: f.Estimate, Low: f.Low, High: f.High, Unit: f.Unit, Blocks: f.Blocks, Verdict: f.Verdict}
			}
			one.Terms = append(one.Terms, t)
		}
		findings = append(findings, told...)
		for _, name := range study.HopMeasures() {
			if says := hopWords(one, name); says != "" {
				one.Says = append(one.Says, says)
			}
		}
		out = append(out, one)
	}
	return out, findings
}

// terms are the values of all terms in every block, by measure. All are of the
// same blocks, those with every cell, if there are enough of them.
func (p *pricing) terms(terms []study.HopTerm, measures []analysis.Measure) map[string][][]float64 {
	out := map[string][][]float64{}
	for _, m := range measures {
		all := make([]float64, len(p.o.Units))
		for _, term := range terms {
			values := p.term(term, m)
			out[m.Name] = append(out[m.Name], values)
			for i, v := range values {
				all[i] += v // a number where every term is one
			}
		}
		wholeBlocks(all, out[m.Name]...)
	}
	return out
}

// term is a term's value in every block, NaN where a cell is missing.
func (p *pricing) term(term study.HopTerm, m analysis.Measure) []float64 {
	out := make([]float64, len(p.o.Units))
	for i := range out {
		for _, variant := range slices.Sorted(maps.Keys(term.Of)) { // one order: sums of floats depend on it
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

// termFinding puts a term's estimate into a finding: a difference, which is one of
// three answers, or a cell's own value.
func termFinding(f record.Finding, d analysis.Difference, margin float64, difference bool) record.Finding {
	f.Blocks = d.Blocks
	if d.Blocks < analysis.MinBlocks || !d.Defined() {
		return analysis.Invalid(f, d.Blocks)
	}
	if difference {
		return d.Put(f, margin)
	}
	f.Estimate, f.Low, f.High, f.Warnings, f.Verdict = d.Value, d.Low, d.High, d.Warnings, record.VerdictMeasured
	return f
}

// hopMeasureWords name what terms are told in.
var hopMeasureWords = map[string]string{
	study.HopP50: "the median latency", study.HopP99: "the 99th percentile of latency", study.HopPods: "the CPU of all pods per request",
}

// hopWords says how the whole is split, largest terms in their order; "" for
// measures that are not told in words, or have no figure.
func hopWords(h record.Hops, name string) string {
	what, ok := hopMeasureWords[name]
	if !ok || len(h.Terms) < 2 {
		return ""
	}
	total := h.Terms[len(h.Terms)-1].Figures[name]
	residual := h.Terms[len(h.Terms)-2].Figures[name]
	if total.Verdict != record.VerdictMeasured || residual.Verdict == record.VerdictInvalid || residual.Verdict == "" || total.Estimate <= 0 {
		return ""
	}
	var parts, zero, unknown []string
	for _, t := range h.Terms[:len(h.Terms)-2] {
		f := t.Figures[name]
		word := strings.ReplaceAll(t.Name, "_", " ")
		if t.Name == study.HopTLSTerm {
			word = "TLS"
		}
		switch {
		case f.Verdict == record.VerdictInvalid:
			unknown = append(unknown, word)
		case withinZero(f):
			zero = append(zero, word)
		default:
			parts = append(parts, fmt.Sprintf("%s %s", word, words.Percent(f.Estimate/total.Estimate)))
		}
	}
	says := fmt.Sprintf("Of %s, %s: %s.", what, span(total), words.List(parts))
	if len(parts) == 0 {
		says = fmt.Sprintf("No part of %s, %s, is significant.", what, span(total))
	}
	if len(unknown) > 0 {
		says += " Not known: " + words.List(unknown) + "."
	}
	// Shares of what cannot be told from zero would only be read as figures.
	if withinZero(residual) {
		zero = append(zero, fmt.Sprintf("the residual (%s)", span(residual)))
	}
	if len(zero) > 0 {
		says += " Indistinguishable from zero: " + words.List(zero) + "."
	}
	if withinZero(residual) {
		return says
	}
	return says + fmt.Sprintf(" The residual is %s: both sidecars together do not cost the sum of each alone.", span(residual))
}
