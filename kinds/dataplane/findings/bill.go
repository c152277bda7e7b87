package findings

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// allOf returns the level of each of n intervals that hold simultaneously with [stat.DefaultLevel]
// (Bonferroni).
func allOf(n int) float64 { return 1 - (1-stat.DefaultLevel)/float64(max(n, 1)) }

// A bill's figures are differences within blocks, which cancels machine drift. Its intervals are
// Student's over blocks, and those of pooled quantiles, at a level at which those of all parts of a
// list hold simultaneously with [stat.DefaultLevel] (Bonferroni): of eight parts that cost nothing,
// one in three lists would otherwise have one that appears expensive. This holds per column. A bill
// has several columns, one for each combination of the other factors, and sums with their own
// intervals. Everything they call real shares one error rate ([told]).

// pricing is a bill in one combination of the other factors, with the plan's cell of each variant.
type pricing struct {
	o     *analysis.Observations
	cells map[string]int // by variant
	cell  record.Cell    // the other factors
	floor int            // the cell that runs twice, -1 for none

	added, removed []price
	sums           *sums
}

func billMeasures(s *study.Study) []analysis.Measure {
	var out []analysis.Measure
	table := study.DataPlane.Findings()
	put := func(m analysis.Measure) {
		m.Unit = s.UnitOf(table.Must(dataplane.FindingBill + "_" + m.Name))
		out = append(out, m)
	}
	add := func(name string, of func(*analysis.Observations, *record.Trial) float64) {
		put(analysis.MeasureOf(name, of))
	}
	cpu := func(parts ...string) func(*analysis.Observations, *record.Trial) float64 {
		return func(_ *analysis.Observations, t *record.Trial) float64 {
			return ofProxies(t, parts, func(part string) float64 { return analysis.CPUPerRequest(t, part, record.CPU.TotalS) })
		}
	}
	add(dataplane.BillCPU, cpu(study.ProxyParts...))
	for _, part := range study.ProxyParts {
		add(dataplane.BillCPUOf(part), cpu(part))
	}
	if s.Measured(study.MeasureLatency) {
		put(analysis.LatencyQuantile(dataplane.BillP50, 0.5))
		put(analysis.LatencyQuantile(dataplane.BillP99, 0.99))
	}
	if s.Measured(study.MeasureMemory) {
		add(dataplane.BillMemory, func(_ *analysis.Observations, t *record.Trial) float64 {
			return ofProxies(t, study.ProxyParts, func(part string) float64 { return idleMemory(t, part) })
		})
	}
	for _, m := range moneyMeasures(s) {
		if m.Name == study.FindingMoneyMonth {
			add(dataplane.BillMoney, m.Of)
		}
	}
	return out
}

// idleMemory returns a part's proportional set size before the trial's first request, in bytes, or
// after its last if that was not read.
func idleMemory(t *record.Trial, part string) float64 {
	if m := t.Memory[part]; m.IdlePSSBytes > 0 {
		return float64(m.IdlePSSBytes)
	}
	return analysis.Memory(t, part)
}

// ofProxies sums the use of those proxies that the trial's cell has. It is zero without any, NaN if
// one was not measured.
func ofProxies(t *record.Trial, parts []string, of func(part string) float64) float64 {
	sum := 0.0
	for _, part := range study.WayOfTrial(t).Parts() {
		if slices.Contains(parts, part) {
			sum += of(part)
		}
	}
	return sum
}

// addBills prices the parts of the study's bill, for each combination of its other factors. The
// findings hold the same by name.
func addBills(o *analysis.Observations, f *record.Findings) {
	if dataplane.Of(o.Plan.Study).Bill == nil {
		return
	}
	all := told{o: o}
	splits := pricings(o)
	for _, p := range splits {
		p.priceParts(&all)
	}
	findings := all.judge()
	for _, p := range splits {
		f.Bills = append(f.Bills, record.Bill{Cell: p.cell, Level: stat.DefaultLevel, Parts: billParts(p.added, findings),
			Removed: billParts(p.removed, findings), Together: p.sums.of(findings)})
	}
	f.Findings = append(f.Findings, findings...)
}

func (p *pricing) priceParts(all *told) {
	b := dataplane.Of(p.o.Plan.Study).Bill
	if base, ok := p.cells[dataplane.BillBase]; ok && b.Adds() {
		for _, part := range b.Parts {
			if cell, ok := p.variant(part.Name); ok {
				p.added = append(p.added, price{part: part, cell: cell, against: base, sign: 1})
			}
		}
		p.quote(p.added, dataplane.FindingBill, all)
	}
	p.sums = p.together(all)
	if whole, ok := p.variant(b.Together...); ok && b.Removes() {
		for _, part := range b.Parts {
			name, _ := dataplane.BillWithout(p.o.Plan.Study, part.Name)
			if cell, ok := p.cells[name]; ok && slices.Contains(b.Together, part.Name) {
				p.removed = append(p.removed, price{part: part, cell: cell, against: whole, sign: -1})
			}
		}
		p.quote(p.removed, dataplane.FindingSaved, all)
	}
}

// pricings groups the plan's cells by combination of the other factors.
func pricings(o *analysis.Observations) []*pricing {
	var order []*pricing
	by := map[string]*pricing{}
	for i, cell := range o.Plan.Cells {
		rest := o.Short(i)
		delete(rest, study.FactorVariant)
		p := by[rest.Key()]
		if p == nil {
			p = &pricing{o: o, cells: map[string]int{}, cell: rest, floor: -1}
			by[rest.Key()] = p
			order = append(order, p)
		}
		p.cells[cell[study.FactorVariant]] = i
		if o.Plan.IsBaseline(cell) {
			p.floor = i
		}
	}
	return order
}

// variant returns the cell with exactly these parts on.
func (p *pricing) variant(parts ...string) (int, bool) {
	name, ok := dataplane.BillVariant(p.o.Plan.Study, parts...)
	if !ok {
		return 0, false
	}
	cell, ok := p.cells[name]
	return cell, ok
}

// price is a part and the two cells whose difference is its price. sign is -1 if the cell lacks the
// part.
type price struct {
	part          study.NamedLevels
	cell, against int
	sign          float64

	figures map[string]int // index of each finding, by priced measure
	cpu     []float64      // in every block
}

// whole restricts pricing to the blocks in which all of some cells have a valid trial, so that sums
// and differences of cells cover the same blocks. It uses all blocks if those are too few.
func (p *pricing) whole(cells []int) *pricing {
	out := *p
	out.o = p.o.Within(func(block int) bool {
		return !slices.ContainsFunc(cells, func(cell int) bool { return len(p.o.ValidIn(cell, block)) == 0 })
	})
	if len(out.o.Units) < analysis.MinBlocks {
		return p
	}
	return &out
}

// blocks returns a part's price in every unit, over the unit's blocks that have both cells; NaN if
// none has.
func (p *pricing) blocks(one *price, m analysis.Measure) []float64 {
	out := make([]float64, len(p.o.Units))
	for i, pair := range p.o.Pairs(one.cell, one.against, m) {
		out[i] = one.sign * (pair.Test - pair.Base)
	}
	return out
}

// shares returns a part's CPU as a share of the proxies' use with the part on.
func (p *pricing) shares(one *price, m analysis.Measure) []float64 {
	out := p.blocks(one, m)
	for i, pair := range p.o.Pairs(one.cell, one.against, m) {
		if one.sign < 0 {
			out[i] /= pair.Base
		} else {
			out[i] /= pair.Test
		}
	}
	return out
}

func (p *pricing) cost(one *price, m analysis.Measure, level float64) stat.Estimate {
	if m.Quantile == 0 {
		return stat.Mean(p.blocks(one, m), stat.Options{Level: level, Say: m.Say, Resolution: p.step(m, one.cell, one.against)})
	}
	e, _ := p.o.Apart(one.cell, one.against, m, level)
	if one.sign < 0 {
		e.Value, e.Low, e.High = -e.Value, -e.High, -e.Low
	}
	return e
}

func (p *pricing) quote(list []price, prefix string, all *told) {
	level := allOf(len(list))
	for i := range list {
		one := &list[i]
		one.figures = map[string]int{}
		add := func(m analysis.Measure, name string, e stat.Estimate) {
			f := p.o.Named(prefix+"_"+name, p.o.Short(one.cell))
			f.Against = p.o.Short(one.against)
			f, d := p.estimated(f, e, m, p.level(one.against, m), name == dataplane.BillShare)
			one.figures[name] = all.add(f, d, m, 1, one.cell, one.against)
		}
		for _, m := range billMeasures(p.o.Plan.Study) {
			if p.without(m.Name, one) {
				continue
			}
			add(m, m.Name, p.cost(one, m, level))
			if m.Name == dataplane.BillCPU {
				one.cpu = p.blocks(one, m)
				step := p.step(m, one.cell, one.against) / p.level(one.against, m)
				add(m, dataplane.BillShare, stat.Mean(p.shares(one, m), stat.Options{Level: level, Say: words.Percent, Resolution: step}))
			}
		}
	}
}

// billParts returns a list's parts with their judged findings, most expensive first.
func billParts(list []price, findings []record.Finding) []record.BillPart {
	parts, costs := make([]record.BillPart, len(list)), make([][]float64, len(list))
	for i, one := range list {
		parts[i] = record.BillPart{Name: one.part.Name, Levels: one.part.Levels, Figures: map[string]record.Priced{}}
		for name, at := range one.figures {
			parts[i].Figures[name] = record.PricedOf(findings[at])
		}
		costs[i] = one.cpu
	}
	rankParts(parts, costs)
	slices.SortStableFunc(parts, dearest)
	return parts
}

// without reports whether a figure is about a proxy that neither cell has.
func (p *pricing) without(name string, one *price) bool {
	i := slices.IndexFunc(study.ProxyParts, func(part string) bool { return name == dataplane.BillCPUOf(part) })
	return i >= 0 && !passes(p.o, one.cell, study.ProxyParts[i]) && !passes(p.o, one.against, study.ProxyParts[i])
}

// step returns the resolution of a sum or difference of the values of some cells; see
// [analysis.Observations.Resolution].
func (p *pricing) step(m analysis.Measure, cells ...int) float64 {
	return math.Sqrt(float64(len(cells))) * p.o.Resolution(m, cells...)
}

func (p *pricing) level(cell int, m analysis.Measure) float64 {
	return stat.Mean(p.o.Values(cell, m), stat.Options{}).Value
}

// estimated puts an estimate into a finding, to be judged by the noise floor between identical
// cells of the bill and by the study's margin of that level. A share is judged by both as shares.
func (p *pricing) estimated(f record.Finding, e stat.Estimate, m analysis.Measure, level float64, share bool) (record.Finding, analysis.Difference) {
	d := analysis.Difference{Estimate: e, Say: m.Say, OnePods: p.o.SamePods()}
	if p.floor >= 0 {
		d.Floor, _ = p.o.Floor(p.floor, m)
	}
	margin := p.o.Margin(level)
	if share {
		d.Say, d.Floor, margin = words.Percent, d.Floor.Over(level), float64(p.o.Plan.Study.Margin)
	}
	f.Blocks = e.Blocks
	if e.Blocks < analysis.MinBlocks || !e.Defined() {
		return withoutFigure(f, e), d
	}
	return d.Put(f, margin), d
}

// rankParts gives each part its possible ranks by CPU: below those that are certainly more
// expensive in the same blocks. All ranks hold simultaneously with [stat.DefaultLevel]: each pair
// of parts is a comparison.
func rankParts(parts []record.BillPart, costs [][]float64) {
	priced := func(i int) bool { return parts[i].Figures[dataplane.BillCPU].Verdict != record.VerdictInvalid }
	n := 0
	for i := range parts {
		if priced(i) {
			n++
		}
	}
	level := allOf(n * (n - 1) / 2)
	for i := range parts {
		if !priced(i) {
			continue
		}
		parts[i].RankLow, parts[i].RankHigh = 1, n
		for j := range parts {
			if i == j || !priced(j) {
				continue
			}
			pairs := make([]stat.Pair, len(costs[i]))
			for k := range pairs {
				pairs[k] = stat.Pair{Base: costs[i][k], Test: costs[j][k]}
			}
			e := stat.Difference(pairs, stat.Options{Level: level})
			switch {
			case e.Low > 0:
				parts[i].RankLow++
			case e.High < 0:
				parts[i].RankHigh--
			}
		}
	}
}

// dearest orders parts by CPU, those without a price last.
func dearest(a, b record.BillPart) int {
	x, y := a.Figures[dataplane.BillCPU], b.Figures[dataplane.BillCPU]
	last := func(p record.Priced) int {
		if p.Verdict == record.VerdictInvalid {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(x), last(y)), cmp.Compare(y.Estimate, x.Estimate))
}

// sums are a bill's sums that have not been judged yet: the index of each of their findings.
type sums struct {
	parts                      []string
	together, sum, interaction int
}

// together adds the cost of all parts at once, the sum of what each adds alone, and the difference.
// It returns nil if the study does not have both.
func (p *pricing) together(all *told) *sums {
	b := dataplane.Of(p.o.Plan.Study).Bill
	base, haveBase := p.cells[dataplane.BillBase]
	whole, haveWhole := p.variant(b.Together...)
	if !haveBase || !haveWhole || !b.Whole() {
		return nil
	}
	cells := []int{base, whole}
	alone := slices.DeleteFunc(slices.Clone(p.added), func(one price) bool { return !slices.Contains(b.Together, one.part.Name) })
	for _, one := range alone {
		cells = append(cells, one.cell)
	}
	p = p.whole(cells)
	m := billMeasures(p.o.Plan.Study)[0]
	cost := p.blocks(&price{cell: whole, against: base, sign: 1}, m)
	sum, beyond := make([]float64, len(cost)), make([]float64, len(cost))
	for _, one := range alone {
		for i, v := range p.blocks(&one, m) {
			sum[i] += v
		}
	}
	for i := range cost {
		if len(alone) < len(b.Together) {
			sum[i] = math.NaN() // not all of them were measured alone
		}
		beyond[i] = cost[i] - sum[i]
	}
	wholeBlocks(beyond, cost, sum)
	tell := func(name string, values []float64) int {
		f := p.o.Named(name, p.o.Short(whole))
		f.Against = p.o.Short(base)
		f, d := p.estimated(f, stat.Mean(values, stat.Options{Say: m.Say, Resolution: p.step(m, cells...)}), m, p.level(base, m), false)
		return all.add(f, d, m, 1)
	}
	return &sums{b.Together, tell(dataplane.FindingBill+"_"+dataplane.BillCPU, cost), tell(dataplane.FindingBillSum, sum), tell(dataplane.FindingInteraction, beyond)}
}

func (q *sums) of(findings []record.Finding) *record.BillSum {
	if q == nil {
		return nil
	}
	return &record.BillSum{Parts: q.parts, Sum: record.PricedOf(findings[q.sum]), Together: record.PricedOf(findings[q.together]), Interaction: record.PricedOf(findings[q.interaction])}
}

// wholeBlocks drops, from figures reported next to a derived one, the blocks in which the derived
// figure has no number, so that they add up, unless too few blocks would be left.
func wholeBlocks(of []float64, figures ...[]float64) {
	if known := slices.DeleteFunc(slices.Clone(of), func(v float64) bool { return !stat.Finite(v) }); len(known) < analysis.MinBlocks {
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
