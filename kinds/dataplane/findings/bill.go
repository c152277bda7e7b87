package findings

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// allOf is the level of each of n intervals that hold all at once with
// [stat.DefaultLevel] (Bonferroni).
func allOf(n int) float64 { return 1 - (1-stat.DefaultLevel)/float64(max(n, 1)) }

// A bill's figures are differences inside blocks, so that what a machine
// drifts by cancels. Its intervals are Student's over blocks at a level that
// lets those of all parts of a list hold at once with [stat.DefaultLevel]
// (Bonferroni): of eight parts that cost nothing one in three lists would have
// one "dear" otherwise.

// pricing is a bill in one combination of the other factors: the plan's cell
// of each variant.
type pricing struct {
	o     *analysis.Observations
	cells map[string]int // by variant
	cell  record.Cell    // the other factors
	floor int            // the cell that runs twice, -1 for none
}

// billMeasures are what a bill prices, by [study.BillMeasures].
func billMeasures(s *study.Study) []analysis.Measure {
	var out []analysis.Measure
	table := study.DataPlane.Findings()
	put := func(m analysis.Measure) {
		m.Unit = s.UnitOf(table.Must(study.FindingBill + "_" + m.Name))
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
	add(study.BillCPU, cpu(analysis.ProxyParts...))
	for _, part := range analysis.ProxyParts {
		add(study.BillCPUOf(part), cpu(part))
	}
	if s.Measured(study.MeasureLatency) {
		put(analysis.LatencyQuantile(study.BillP50, 0.5))
		put(analysis.LatencyQuantile(study.BillP99, 0.99))
	}
	if s.Measured(study.MeasureMemory) {
		add(study.BillMemory, func(_ *analysis.Observations, t *record.Trial) float64 {
			return ofProxies(t, analysis.ProxyParts, func(part string) float64 { return idleMemory(t, part) })
		})
	}
	for _, m := range moneyMeasures(s) {
		if m.Name == study.FindingMoneyMonth {
			add(study.BillMoney, m.Of)
		}
	}
	return out
}

// idleMemory is a part's proportional set size before the trial's first
// request, in bytes; after its last where that was not read.
func idleMemory(t *record.Trial, part string) float64 {
	if m := t.Memory[part]; m.IdlePSSBytes > 0 {
		return float64(m.IdlePSSBytes)
	}
	return analysis.Memory(t, part)
}

// ofProxies adds up what those proxies used that the trial's cell has: nothing
// where it has none, NaN where one was not measured.
func ofProxies(t *record.Trial, parts []string, of func(part string) float64) float64 {
	sum := 0.0
	for _, part := range study.WayOfTrial(t).Parts() {
		if slices.Contains(parts, part) {
			sum += of(part)
		}
	}
	return sum
}

// addBills adds what the parts of the study's bill cost.
func addBills(o *analysis.Observations, f *record.Findings) {
	bills, priced := bills(o)
	f.Bills, f.Findings = bills, append(f.Findings, priced...)
}

// bills prices the parts of the study's bill, for each combination of its
// other factors; the findings say the same by name.
func bills(o *analysis.Observations) (out []record.Bill, findings []record.Finding) {
	b := o.Plan.Study.Bill
	if b == nil {
		return nil, nil
	}
	for _, p := range pricings(o) {
		bill := record.Bill{Cell: p.cell, Level: stat.DefaultLevel, Parts: []record.BillPart{}}
		var list priceList
		if base, ok := p.cells[study.BillBase]; ok && b.Adds() {
			for _, part := range b.Parts {
				if cell, ok := p.variant(part.Name); ok {
					list = append(list, price{part: part, cell: cell, against: base, sign: 1})
				}
			}
			bill.Parts, findings = p.priced(list, study.FindingBill, findings)
		}
		if sum := p.together(list); sum != nil {
			bill.Together = sum
			findings = append(findings, p.sumFindings(sum)...)
		}
		var removed priceList
		if whole, ok := p.variant(b.Together...); ok && b.Removes() {
			for _, part := range b.Parts {
				if name, ok := o.Plan.Study.BillWithout(part.Name); ok && slices.Contains(b.Together, part.Name) {
					if cell, ok := p.cells[name]; ok {
						removed = append(removed, price{part: part, cell: cell, against: whole, sign: -1})
					}
				}
			}
			bill.Removed, findings = p.priced(removed, study.FindingSaved, findings)
		}
		out = append(out, bill)
	}
	return out, findings
}

// pricings are the plan's cells by combination of the other factors.
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

// variant is the cell with exactly these parts on.
func (p *pricing) variant(parts ...string) (int, bool) {
	name, ok := p.o.Plan.Study.BillVariant(parts...)
	if !ok {
		return 0, false
	}
	cell, ok := p.cells[name]
	return cell, ok
}

// price is a part and the two cells whose difference it is; sign is -1 where
// the cell lacks the part.
type price struct {
	part          study.NamedLevels
	cell, against int
	sign          float64
}

type priceList []price

// blocks are a part's price in every unit, NaN where a trial is missing.
func (p *pricing) blocks(one price, m analysis.Measure) []float64 {
	out := make([]float64, len(p.o.Units))
	for i := range out {
		out[i] = one.sign * (p.o.Unit(one.cell, i, m) - p.o.Unit(one.against, i, m))
	}
	return out
}

// shares are a part's CPU as a share of what the proxies use where it is on.
func (p *pricing) shares(one price, m analysis.Measure) []float64 {
	out := p.blocks(one, m)
	with := one.cell
	if one.sign < 0 {
		with = one.against
	}
	for i := range out {
		out[i] /= p.o.Unit(with, i, m)
	}
	return out
}

// priced makes the parts of a list, dearest first, and their findings.
func (p *pricing) priced(list priceList, prefix string, findings []record.Finding) ([]record.BillPart, []record.Finding) {
	level := allOf(len(list))
	measures := billMeasures(p.o.Plan.Study)
	parts := make([]record.BillPart, len(list))
	costs := make([][]float64, len(list))
	for i, one := range list {
		parts[i] = record.BillPart{Name: one.part.Name, Levels: one.part.Levels, Figures: map[string]record.Priced{}}
		add := func(m analysis.Measure, name string, values []float64, say func(float64) string) {
			e := stat.Mean(values, stat.Options{Level: level, Say: say})
			f := p.o.Named(prefix+"_"+name, p.o.Short(one.cell))
			f.Against = p.o.Short(one.against)
			f = p.estimated(f, e, m, p.level(one, m), name == study.BillShare)
			parts[i].Figures[name] = record.Priced{Estimate: f.Estimate, Low: f.Low, High: f.High, Unit: f.Unit, Blocks: f.Blocks, Verdict: f.Verdict}
			findings = append(findings, f)
		}
		for _, m := range measures {
			if p.without(m.Name, one) {
				continue
			}
			values := p.blocks(one, m)
			add(m, m.Name, values, m.Say)
			if m.Name == study.BillCPU {
				costs[i] = values
				add(m, study.BillShare, p.shares(one, m), words.Percent)
			}
		}
	}
	rankParts(parts, costs)
	for i := range parts {
		parts[i].Says = partWords(parts[i], prefix == study.FindingSaved)
	}
	slices.SortStableFunc(parts, dearest)
	return parts, findings
}

// without says that a figure is about a proxy that neither cell has.
func (p *pricing) without(name string, one price) bool {
	i := slices.IndexFunc(analysis.ProxyParts, func(part string) bool { return name == study.BillCPUOf(part) })
	return i >= 0 && !passes(p.o, one.cell, analysis.ProxyParts[i]) && !passes(p.o, one.against, analysis.ProxyParts[i])
}

// level is a measure's value in the cell that a price is a difference to.
func (p *pricing) level(one price, m analysis.Measure) float64 {
	return stat.Mean(p.o.Values(one.against, m), stat.Options{}).Value
}

// estimated puts an estimate into a finding, judged by what identical cells of
// the bill differ by and by the study's margin of that level; a share by both as
// shares.
func (p *pricing) estimated(f record.Finding, e stat.Estimate, m analysis.Measure, level float64, share bool) record.Finding {
	f.Blocks = e.Blocks
	if e.Blocks < analysis.MinBlocks || !e.Defined() {
		return analysis.Invalid(f, e.Blocks)
	}
	d := analysis.Difference{Estimate: e, Say: m.Say, OnePods: p.o.SamePods()}
	if p.floor >= 0 {
		d.Floor, _ = p.o.Floor(p.floor, m)
	}
	margin := p.o.Margin(level)
	if share {
		d.Say, d.Floor, margin = words.Percent, d.Floor.Over(level), float64(p.o.Plan.Study.Margin)
	}
	return d.Put(f, margin)
}

// rankParts gives each part the places that it may have by CPU: beyond those that
// are dearer in the same blocks for certain. All of them hold at once with
// [stat.DefaultLevel]: each pair of parts is a comparison.
func rankParts(parts []record.BillPart, costs [][]float64) {
	priced := func(i int) bool { return parts[i].Figures[study.BillCPU].Verdict != record.VerdictInvalid }
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
	x, y := a.Figures[study.BillCPU], b.Figures[study.BillCPU]
	if invalid := record.VerdictInvalid; (x.Verdict == invalid) != (y.Verdict == invalid) {
		if x.Verdict == invalid {
			return 1
		}
		return -1
	}
	return cmp.Compare(y.Estimate, x.Estimate)
}

// together sets all parts at once beside the sum of what each adds alone; nil
// if the study does not have both.
func (p *pricing) together(list priceList) *record.BillSum {
	b := p.o.Plan.Study.Bill
	base, haveBase := p.cells[study.BillBase]
	whole, haveWhole := p.variant(b.Together...)
	if !haveBase || !haveWhole || !b.Whole() {
		return nil
	}
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
	figure := func(values []float64) record.Priced {
		f := p.estimated(record.Finding{}, stat.Mean(values, stat.Options{Say: m.Say}), m, p.level(price{against: base}, m), false)
		return record.Priced{Estimate: f.Estimate, Low: f.Low, High: f.High, Unit: m.Unit, Blocks: f.Blocks, Verdict: f.Verdict}
	}
	sum := &record.BillSum{Parts: b.Together, Sum: figure(sums), Together: figure(all), Interaction: figure(beyond)}
	sum.Says = sumWords(sum)
	return sum
}

// wholeBlocks leaves blocks out of figures that are told beside what is made of
// all of them, where that has no number, so that they add up; unless too few
// would be left.
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

// sumFindings are the sums of a bill as findings.
func (p *pricing) sumFindings(sum *record.BillSum) []record.Finding {
	whole, _ := p.variant(p.o.Plan.Study.Bill.Together...)
	base := p.cells[study.BillBase]
	var out []record.Finding
	for _, one := range []struct {
		name string
		of   record.Priced
	}{{study.FindingBill + "_" + study.BillCPU, sum.Together}, {study.FindingBillSum, sum.Sum}, {study.FindingInteraction, sum.Interaction}} {
		f := p.o.Named(one.name, p.o.Short(whole))
		f.Against, f.Blocks, f.Verdict = p.o.Short(base), one.of.Blocks, one.of.Verdict
		f.Estimate, f.Low, f.High = one.of.Estimate, one.of.Low, one.of.High
		out = append(out, f)
	}
	return out
}
