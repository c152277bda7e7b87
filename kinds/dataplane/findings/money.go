package findings

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/study"
)

// moneyMeasures returns the needs and costs of the proxies in a stated mesh, if each request took
// as much of them as in a trial. There is one value per trial, so that intervals cover trials and
// differences are taken within blocks. The proxies' idle cost is included in proportion to the
// trial's own requests; see [moneyFits].
func moneyMeasures(s *study.Study) []analysis.Measure {
	m := s.PricedMesh()
	if m == nil {
		return nil
	}
	// Relative to a baseline without proxies, the difference is the cost itself.
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
			one.Alone, one.Typical = !compared, true
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

// memoryPriced reports whether findings in money include memory.
func memoryPriced(s *study.Study) bool {
	return s.Measured(study.MeasureMemory) && s.Money.Proxies > 0 && s.Money.GBMonth > 0
}

// baselineLevel returns the level of a factor that the study's baseline names, directly or by its
// variant; "" if it leaves the factor unchanged.
func baselineLevel(s *study.Study, factor string) string {
	levels, _ := s.VariantLevels(s.Baseline[study.FactorVariant])
	return cmp.Or(levels[factor], s.Baseline[factor])
}

// trialUse returns the use of one request by a hop's proxies. Each sidecar counts as the mean over
// a trial's sidecars, whether at one end or both. If requests pass shared proxies, a hop uses what
// the trial's path used, whatever the mesh states as proxies per hop. The mesh does not state the
// number of shared proxies, so their memory has no price (NaN), nor does memory that could not be
// read. It returns false for a trial without proxies.
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

// moneyFits prices fits over rates, if the rate varies and the mesh states its number of proxies:
// each request at the slope, and each proxy at its idle use. The result does not depend on the
// rates measured.
func moneyFits(o *analysis.Observations, fits []record.Finding) []record.Finding {
	m := o.Plan.Study.PricedMesh()
	if m == nil || m.Proxies <= 0 {
		return nil
	}
	type parts struct {
		cell        record.Cell
		idle, slope []record.Finding
	}
	var all []*parts
	for _, f := range fits {
		part, cpu := strings.CutPrefix(f.Name, "cpu_")
		part, idle := strings.CutSuffix(part, dataplane.FitIdle)
		part, slope := strings.CutSuffix(part, dataplane.FitSlope)
		if p, ok := record.ProxyOf(part); !ok || p.Place != record.PlaceSidecar || !cpu || !idle && !slope {
			continue
		}
		i := slices.IndexFunc(all, func(p *parts) bool { return p.cell.Key() == f.Cell.Key() })
		if i < 0 {
			i, all = len(all), append(all, &parts{cell: f.Cell})
		}
		if idle {
			all[i].idle = append(all[i].idle, f)
		} else {
			all[i].slope = append(all[i].slope, f)
		}
	}
	var out []record.Finding
	for _, p := range all {
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

// passesShared reports whether requests of cells with some levels pass shared proxies. Their idle
// use cannot be attributed, so no fit has a price.
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
