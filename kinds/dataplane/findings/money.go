package findings

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/study"
)

// moneyMeasures are what the proxies of a stated mesh would need and cost if
// each request took of them what it took in a trial: a figure per trial, so that
// intervals are those of trials, and differences those within blocks. The
// idle cost of proxies is in it as far as the trial's own requests share it;
// see [observations.moneyFits].
func moneyMeasures(s *study.Study) []analysis.Measure {
	m := s.PricedMesh()
	if m == nil {
		return nil
	}
	// Against cells without proxies, a cell costs what it costs.
	compared := len(s.Baseline) > 0 && baselineLevel(s, study.FactorSidecars) != study.SidecarsNone
	var out []analysis.Measure
	add := func(name string, needs bool, line func(money.Bill) money.Value) {
		if needs {
			one := analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 {
				u, ok := trialUse(s, t)
				if !ok {
					return math.NaN()
				}
				return line(m.Price(u)).Estimate
			})
			one.Alone = !compared
			out = append(out, one)
		}
	}
	cpu := s.Measured(study.MeasureCPU)
	memory := memoryPriced(s)
	add(study.FindingMoneyCores, cpu, func(b money.Bill) money.Value { return b.Cores })
	add(study.FindingMoneyCPU, cpu && memory, func(b money.Bill) money.Value { return b.CPU })
	add(study.FindingMoneyMemory, memory, func(b money.Bill) money.Value { return b.Memory })
	add(study.FindingMoneyMonth, cpu, func(b money.Bill) money.Value { return b.Total })
	return out
}

// memoryPriced says that findings in money are about memory too.
func memoryPriced(s *study.Study) bool {
	return s.Measured(study.MeasureMemory) && s.Money.Proxies > 0 && s.Money.GBMonth > 0
}

// baselineLevel is the level of a factor that the study's baseline names, by
// itself or by its variant; "" if it leaves it as it is.
func baselineLevel(s *study.Study, factor string) string {
	for _, v := range s.Variants {
		if level, ok := v.Levels[factor]; ok && v.Name == s.Baseline[study.FactorVariant] {
			return level
		}
	}
	return s.Baseline[factor]
}

// trialUse is what a hop's proxies take of one request. Sidecars are each as
// those of a trial are on the mean, with one at one end as with two. Where
// requests pass proxies that others share, a hop takes what the trial's way took,
// whatever the mesh says of proxies per hop; how many of those there are it does
// not say, so their memory has no price (NaN). Nor has memory that could not be
// read. False for a trial without any.
func trialUse(s *study.Study, t *record.Trial) (money.Use, bool) {
	var u money.Use
	m, priced := s.Money, memoryPriced(s)
	if t.Load.AnsweredWithin() <= 0 {
		return u, false
	}
	proxies, seconds, bytes, shared := 0.0, 0.0, 0.0, false
	for _, part := range study.ProxyParts {
		cpu, ok := t.CPU[part]
		if !ok {
			continue
		}
		p, _ := record.ProxyOf(part)
		shared = shared || p.Place.Shared()
		proxies++
		seconds += cpu.TotalS() / float64(t.Load.AnsweredWithin())
		if priced {
			bytes += analysis.Memory(t, part)
		}
	}
	switch {
	case proxies == 0:
		return u, false
	case shared:
		if u.CPUPerHop = money.Exact(seconds); priced {
			u.MemoryBytes = money.Exact(math.NaN())
		}
	default:
		u.CPUPerHop, u.MemoryBytes = m.PerHop(money.Exact(seconds/proxies)), money.Exact(bytes/proxies)
	}
	return u, true
}

// moneyFits prices what fits over rates say, where the rate varies and the
// mesh says how many proxies it has: each request at the slope, and each proxy
// what it uses when idle. So it does not matter at which rate was measured.
func moneyFits(o *analysis.Observations, fits []record.Finding) []record.Finding {
	m := o.Plan.Study.PricedMesh()
	if m == nil || m.Proxies <= 0 {
		return nil
	}
	type parts struct {
		cell        record.Cell
		idle, slope []record.Finding
	}
	var order []string
	by := map[string]*parts{}
	sidecarParts := record.Way(study.ProxyParts).At(record.PlaceSidecar)
	for _, f := range fits {
		for _, part := range sidecarParts {
			idle := f.Name == "cpu_"+part+dataplane.FitIdle
			if !idle && f.Name != "cpu_"+part+dataplane.FitSlope {
				continue
			}
			key := f.Cell.Key()
			if by[key] == nil {
				by[key] = &parts{cell: f.Cell}
				order = append(order, key)
			}
			if idle {
				by[key].idle = append(by[key].idle, f)
			} else {
				by[key].slope = append(by[key].slope, f)
			}
		}
	}
	var out []record.Finding
	for _, key := range order {
		p := by[key]
		f := o.Named(study.FindingMoneyFit, p.cell)
		f.Verdict, f.Blocks = record.VerdictMeasured, math.MaxInt
		var u money.Use
		ok, poor := true, false
		for _, one := range p.slope {
			u.CPUPerHop = u.CPUPerHop.Plus(m.PerHop(asMoney(one)).Times(1e-6 / float64(len(p.slope))))
		}
		for _, one := range p.idle {
			u.IdleCores = u.IdleCores.Plus(asMoney(one).Times(1e-3 / float64(len(p.idle))))
		}
		for _, one := range append(p.slope, p.idle...) {
			ok = ok && one.Verdict == record.VerdictMeasured
			f.Blocks, poor = min(f.Blocks, one.Blocks), poor || stat.PoorFit.In(one.Warnings)
		}
		if !ok || passesShared(o, p.cell) {
			continue
		}
		b := m.Price(u)
		f.Estimate, f.Low, f.High = b.CPU.Estimate, b.CPU.Low, b.CPU.High
		f.Warnings = []note.Note{noteIdleShare.Of(words.Figures(b.Cores.Estimate), words.Figures(u.IdleCores.Estimate*m.Proxies), words.Grouped(m.Proxies))}
		if poor {
			f.Warnings = append(f.Warnings, stat.PoorFit.Of())
		}
		out = append(out, f)
	}
	return out
}

// passesShared says that requests of cells with some levels pass proxies that
// others share: what those use when idle is nobody's alone, so no fit has a price.
func passesShared(o *analysis.Observations, levels record.Cell) bool {
	for i, cell := range o.Plan.Cells {
		if cell.With(levels).Key() == cell.Key() && slices.ContainsFunc(o.Valid(i), func(t *record.Trial) bool { return study.WayOfTrial(t).Shared() }) {
			return true
		}
	}
	return false
}

func asMoney(f record.Finding) money.Value {
	return money.Value{Estimate: f.Estimate, Low: f.Low, High: f.High}
}
