package carrying

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
)

// MeasurePods adds what trials used of a resource, in cores or bytes, by the number of pods in
// the mesh at one rate: all proxies together. The cost per request is unknown.
func (w *Way) MeasurePods(u Use, units int, points []stat.FitPoint) {
	shares := make([]sizing.Share, units)
	nodes, onNodes := w.at(record.PlaceNode)
	for unit, line := range Lines(units, points, nil) {
		shares[unit].Pod.Curve = sizing.Level(line.Slope)
		if onNodes {
			shares[unit].Node.Curve = sizing.Level(line.Intercept / nodes.Count)
		}
	}
	w.pods, w.poor = true, w.poor || len(stat.LinearFit(points, nil, stat.Options{}).Warnings) > 0
	if w.by == nil {
		w.by = map[string]sizing.Way{}
	}
	w.by[u.Of] = sizing.Way{Plain: shares}
}

// use returns a way's use of a resource in a mesh. If some requests pass waypoints, the idle
// use of proxies and the cost per request are those of these requests. For a price, only the
// total is known.
func (w *Way) use(u Use, way sizing.Way, m sizing.Mesh, total record.Priced) record.SizedUse {
	if u.Of == record.SizedMonth {
		return record.SizedUse{Of: u.Of, Total: total, Idle: map[record.Place]record.Priced{}, Request: record.Priced{Unit: u.total, Verdict: record.VerdictInvalid}}
	}
	shares := way.Through
	if shares == nil {
		shares, m.L7 = way.Plain, 1
	}
	out := record.SizedUse{Of: u.Of, Total: total, Idle: map[record.Place]record.Priced{},
		Request: pricedShare(shares, u.unit, u.one, func(s sizing.Share) float64 { return s.Each(m) })}
	if w.pods {
		out.Request = record.Priced{Unit: u.unit, Verdict: record.VerdictInvalid}
		if _, onNodes := w.at(record.PlaceNode); onNodes {
			each := pricedShare(shares, u.total, 1, func(s sizing.Share) float64 { return s.Pod.Curve.At(0) })
			out.Pod = &each
		}
	}
	if node, ok := w.agentShare(u, shares); ok {
		out.Idle[record.PlaceNode] = node
	}
	for _, p := range w.Proxies {
		out.Idle[p.Place] = pricedShare(shares, u.total, 1, func(s sizing.Share) float64 {
			idle := proxyAt(&s, p.Place).Curve.At(0)
			if p.Place == record.PlaceNode {
				idle += s.Agent
			}
			return idle
		})
	}
	return out
}

// pricedShare returns a part of all units' shares as a figure.
func pricedShare(shares []sizing.Share, unit string, scale float64, of func(sizing.Share) float64) record.Priced {
	values := make([]float64, len(shares))
	for i, s := range shares {
		values[i] = of(s) * scale
	}
	return pricedMean(values, unit)
}

func pricedMean(values []float64, unit string) record.Priced {
	e := stat.Mean(values, stat.Options{})
	if e.Blocks < analysis.MinBlocks || !e.Defined() {
		return record.Priced{Unit: unit, Blocks: e.Blocks, Verdict: record.VerdictInvalid}
	}
	return record.Priced{Estimate: e.Value, Low: e.Low, High: e.High, Unit: unit, Blocks: e.Blocks, Verdict: record.VerdictMeasured}
}

// price gives each way with known CPU and memory their combined cost, if the study has prices
// for both.
func (z *Ways) price(s *study.Study) {
	p := s.Money
	if p == nil || p.CoreMonth == 0 || p.GBMonth == 0 {
		return
	}
	for _, w := range z.All {
		cpu, hasCPU := w.by[record.SizedCPU]
		memory, hasMemory := w.by[record.SizedMemory]
		if hasCPU && hasMemory {
			w.by[record.SizedMonth] = sizing.Together(cpu, p.CoreMonth/p.Utilisation, memory, p.GBMonth/1e9)
		}
	}
}

// uses returns the resources by which to compare the ways. If some ways have a price, that
// comes first: where one way uses less CPU and another less memory, it says which is cheaper.
func (z *Ways) uses(s *study.Study) []Use {
	if !slices.ContainsFunc(z.All, func(w *Way) bool { _, ok := w.by[record.SizedMonth]; return ok }) {
		return Uses
	}
	return slices.Concat([]Use{{Of: record.SizedMonth, finding: study.FindingSizedMonth, total: s.MoneyUnit()}}, Uses)
}

// less says in a sentence that a mesh uses less of something.
func (u Use) less() string {
	if u.Of == record.SizedMonth {
		return "costs less"
	}
	return "takes less " + u.words
}

// comparisonNotes says by which uses the sentences compare ways, and at which prices; compared
// is their number.
func comparisonNotes(s *study.Study, uses []Use, compared int) (out []note.Note) {
	of := "CPU or memory"
	if m := s.Money; uses[0].Of == record.SizedMonth {
		of, out = "price, CPU or memory", []note.Note{NotePrice.Of(words.Grouped(m.CoreMonth), m.Currency, inUse(m.Utilisation), words.Grouped(m.GBMonth), m.Currency)}
	} else if lacks := lacking(s); lacks != "" {
		out = []note.Note{NoteUnpriced.Of(lacks)}
	}
	if compared > 1 {
		out = append(out, NoteOwnErrorRate.Of(of))
	}
	return out
}

// lacking returns what a study with a money section lacks to price both; "" if nothing.
func lacking(s *study.Study) string {
	m := s.Money
	switch {
	case m == nil:
		return ""
	case m.GBMonth == 0:
		return "section money has no gb_month"
	case m.CoreMonth == 0:
		return "section money has no core_month"
	case !s.Measured(study.MeasureMemory):
		return "the study does not measure memory"
	case !s.Measured(study.MeasureCPU):
		return "the study does not measure CPU"
	}
	return ""
}

// inUse returns the share of the paid cores that is in use; nil means all.
func inUse(share float64) any {
	if share >= 1 {
		return nil
	}
	return words.Percent(share)
}

// MeasureAgent adds the use of the mesh's agent, if the way needs one, to a node's use without
// requests. points are the use of one agent in each trial, by unit, in cores or bytes. An
// agent carries no requests and serves all pods of its node, so a node takes the mean of a
// unit's trials, whatever their rate or number of pods. Call it after measuring the proxies.
// If a unit with shares has no such trial, the way's figures omit the agent, and a note says
// so.
func (w *Way) MeasureAgent(u Use, points []stat.FitPoint) {
	shares := w.by[u.Of].Plain
	if !w.NeedsAgent {
		return
	}
	each := unitMeans(len(shares), points)
	any := false
	for unit, s := range shares {
		known := stat.Finite(each[unit])
		if any = any || known; !known && measured(s) {
			return
		}
	}
	if !any {
		return
	}
	for unit := range shares {
		shares[unit].Agent = each[unit]
	}
	if w.agent == nil {
		w.agent = map[string][]float64{}
	}
	w.agent[u.Of] = each
}

// measured reports whether a unit knows the use of a way's proxies.
func measured(s sizing.Share) bool {
	return stat.Finite(s.Pod.Curve.At(0) + s.Node.Curve.At(0) + s.Waypoint.Curve.At(0))
}

// agentShare returns a node's share if a way has an agent there but no proxy.
func (w *Way) agentShare(u Use, shares []sizing.Share) (record.Priced, bool) {
	_, onNodes := w.at(record.PlaceNode)
	if onNodes || w.agent[u.Of] == nil {
		return record.Priced{}, false
	}
	return pricedShare(shares, u.total, 1, func(s sizing.Share) float64 { return s.Agent }), true
}

// agentNotes says which figures include the mesh's node agent and which do not.
func (z *Ways) agentNotes() (out []note.Note) {
	var counted, missing []string
	for _, w := range z.All {
		var figures, lacks []string
		for _, u := range Uses {
			each, has := w.agent[u.Of]
			if p := pricedMean(each, u.total); p.Verdict == record.VerdictMeasured {
				figures = append(figures, words.Quantity(p.Estimate, u.total))
			} else if !has && w.by[u.Of].Plain != nil {
				lacks = append(lacks, u.words)
			}
		}
		switch {
		case !w.NeedsAgent:
		case len(lacks) > 0:
			missing = append(missing, w.Name+" ("+strings.Join(lacks, ", ")+")")
		case len(figures) > 0:
			counted = append(counted, w.Name+" ("+strings.Join(figures, ", ")+")")
		default:
			counted = append(counted, w.Name)
		}
	}
	if len(counted) > 0 {
		out = append(out, NoteAgent.Of(words.List(counted)))
	}
	if len(missing) > 0 {
		out = append(out, NoteNoAgent.Of(words.List(missing)))
	}
	return out
}
