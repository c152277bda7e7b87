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
}

// billMeasures returns what a bill prices in a study.
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

// addBills adds the costs of the parts of the study's bill.
func addBills(o *analysis.Observations, f *record.Findings) {
	bills, priced := bills(o)
	f.Bills, f.Findings = bills, append(f.Findings, priced...)
}

// bills prices the parts of the study's bill, for each combination of its other factors. The
// findings hold the same by name.
func bills(o *analysis.Observations) (out []record.Bill, findings []record.Finding) {
	if dataplane.Of(o.Plan.Study).Bill == nil {
		return nil, nil
	}
	var all told
	var quotes []quote
	for _, p := range pricings(o) {
		quotes = append(quotes, p.quote(&all))
	}
	findings = all.judge()
	for _, q := range quotes {
		bill := record.Bill{Cell: q.cell, Level: stat.DefaultLevel, Parts: q.added.parts(findings), Together: q.sums.of(findings)}
		if q.removes {
			bill.Removed = q.removed.parts(findings)
		}
		out = append(out, bill)
	}
	return out, findings
}

// A quote is a bill whose figures have not been judged yet.
type quote struct {
	cell           record.Cell
	added, removed quoteList
	removes        bool
	sums           *quotedSum
}

// quote prices the parts of a bill.
func (p *pricing) quote(all *told) quote {
	b, q := dataplane.Of(p.o.Plan.Study).Bill, quote{cell: p.cell}
	var list priceList
	if base, ok := p.cells[dataplane.BillBase]; ok && b.Adds() {
		for _, part := range b.Parts {
			if cell, ok := p.variant(part.Name); ok {
				list = append(list, price{part: part, cell: cell, against: base, sign: 1})
			}
		}
		q.added = p.priced(list, dataplane.FindingBill, all)
	}
	q.sums = p.together(list, all)
	if whole, ok := p.variant(b.Together...); ok && b.Removes() {
		var removed priceList
		for _, part := range b.Parts {
			if name, ok := dataplane.BillWithout(p.o.Plan.Study, part.Name); ok && slices.Contains(b.Together, part.Name) {
				if cell, ok := p.cells[name]; ok {
					removed = append(removed, price{part: part, cell: cell, against: whole, sign: -1})
				}
			}
		}
		q.removed, q.removes = p.priced(removed, dataplane.FindingSaved, all), true
	}
	return q
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
}

type priceList []price

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
func (p *pricing) blocks(one price, m analysis.Measure) []float64 {
	out := make([]float64, len(p.o.Units))
	for i, pair := range p.o.Pairs(one.cell, one.against, m) {
		out[i] = one.sign * (pair.Test - pair.Base)
	}
	return out
}

// shares returns a part's CPU as a share of the proxies' use with the part on.
func (p *pricing) shares(one price, m analysis.Measure) []float64 {
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

// cost estimates a part's price.
func (p *pricing) cost(one price, m analysis.Measure, level float64) stat.Estimate {
	if m.Quantile == 0 {
		return stat.Mean(p.blocks(one, m), stat.Options{Level: level, Say: m.Say, Resolution: p.step(m, one.cell, one.against)})
	}
	e := p.o.Apart(one.cell, one.against, m, level)
	if one.sign < 0 {
		e.Value, e.Low, e.High = -e.Value, -e.High, -e.Low
	}
	return e
}

// quoteList is a list of parts whose prices have not been judged yet.
type quoteList []quoted

type quoted struct {
	part    study.NamedLevels
	figures map[string]int // index of each finding, by priced measure
	cpu     []float64      // in every block
}

// priced adds the prices of a list's parts to all.
func (p *pricing) priced(list priceList, prefix string, all *told) quoteList {
	level := allOf(len(list))
	measures := billMeasures(p.o.Plan.Study)
	out := make(quoteList, len(list))
	for i, one := range list {
		out[i] = quoted{part: one.part, figures: map[string]int{}}
		add := func(m analysis.Measure, name string, e stat.Estimate) {
			f := p.o.Named(prefix+"_"+name, p.o.Short(one.cell))
			f.Against = p.o.Short(one.against)
			f, d := p.estimated(f, e, m, p.level(one, m), name == dataplane.BillShare)
			out[i].figures[name] = all.add(f, d, doubted(p.o, m, one.cell, one.against))
		}
		for _, m := range measures {
			if p.without(m.Name, one) {
				continue
			}
			add(m, m.Name, p.cost(one, m, level))
			if m.Name == dataplane.BillCPU {
				out[i].cpu = p.blocks(one, m)
				step := p.step(m, one.cell, one.against) / p.level(one, m)
				add(m, dataplane.BillShare, stat.Mean(p.shares(one, m), stat.Options{Level: level, Say: words.Percent, Resolution: step}))
			}
		}
	}
	return out
}

// parts returns a list's parts with their judged findings, most expensive first.
func (list quoteList) parts(findings []record.Finding) []record.BillPart {
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
func (p *pricing) without(name string, one price) bool {
	i := slices.IndexFunc(study.ProxyParts, func(part string) bool { return name == dataplane.BillCPUOf(part) })
	return i >= 0 && !passes(p.o, one.cell, study.ProxyParts[i]) && !passes(p.o, one.against, study.ProxyParts[i])
}

// step returns the resolution of a sum or difference of the values of some cells; see
// [analysis.Observations.Resolution].
func (p *pricing) step(m analysis.Measure, cells ...int) float64 {
	return math.Sqrt(float64(len(cells))) * p.o.Resolution(m, cells...)
}

// level returns a measure's value in the reference cell of a price.
func (p *pricing) level(one price, m analysis.Measure) float64 {
	return stat.Mean(p.o.Values(one.against, m), stat.Options{}).Value
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
	if invalid := record.VerdictInvalid; (x.Verdict == invalid) != (y.Verdict == invalid) {
		if x.Verdict == invalid {
			return 1
		}
		return -1
	}
	return cmp.Compare(y.Estimate, x.Estimate)
}
