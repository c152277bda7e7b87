package findings

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// A quotedSum is a bill's sum that has not been judged yet, with the index of each of its findings.
type quotedSum struct {
	parts                      []string
	together, sum, interaction int
}

// together adds the cost of all parts at once, the sum of what each adds alone, and the difference.
// It returns nil if the study does not have both.
func (p *pricing) together(list priceList, told *told) *quotedSum {
	b := dataplane.Of(p.o.Plan.Study).Bill
	base, haveBase := p.cells[dataplane.BillBase]
	whole, haveWhole := p.variant(b.Together...)
	if !haveBase || !haveWhole || !b.Whole() {
		return nil
	}
	cells := []int{base, whole}
	for _, one := range list {
		if slices.Contains(b.Together, one.part.Name) {
			cells = append(cells, one.cell)
		}
	}
	p = p.whole(cells)
	m := billMeasures(p.o.Plan.Study)[0]
	all := p.blocks(price{cell: whole, against: base, sign: 1}, m)
	sums := make([]float64, len(all))
	n := 0
	for _, one := range list {
		if !slices.Contains(b.Together, one.part.Name) {
			continue
		}
		n++
		for i, v := range p.blocks(one, m) {
			sums[i] += v
		}
	}
	beyond := make([]float64, len(all))
	for i := range all {
		if n < len(b.Together) {
			sums[i] = math.NaN() // not all of them were measured alone
		}
		beyond[i] = all[i] - sums[i]
	}
	wholeBlocks(beyond, all, sums)
	tell := func(name string, values []float64) int {
		f := p.o.Named(name, p.o.Short(whole))
		f.Against = p.o.Short(base)
		f, d := p.estimated(f, stat.Mean(values, stat.Options{Say: m.Say, Resolution: p.step(m, cells...)}), m, p.level(price{against: base}, m), false)
		return told.add(f, d, nil)
	}
	return &quotedSum{b.Together, tell(dataplane.FindingBill+"_"+dataplane.BillCPU, all), tell(dataplane.FindingBillSum, sums), tell(dataplane.FindingInteraction, beyond)}
}

// of returns the sum with its judged findings.
func (q *quotedSum) of(findings []record.Finding) *record.BillSum {
	if q == nil {
		return nil
	}
	return &record.BillSum{Parts: q.parts, Sum: record.PricedOf(findings[q.sum]), Together: record.PricedOf(findings[q.together]), Interaction: record.PricedOf(findings[q.interaction])}
}

// wholeBlocks drops, from figures reported next to a derived one, the blocks in which the derived
// figure has no number, so that they add up, unless too few blocks would be left.
func wholeBlocks(of []float64, figures ...[]float64) {
	n := 0
	for _, v := range of {
		if stat.Finite(v) {
			n++
		}
	}
	if n < analysis.MinBlocks {
		return
	}
	for i, v := range of {
		if stat.Finite(v) {
			continue
		}
		for _, values := range figures {
			values[i] = math.NaN()
		}
	}
}
