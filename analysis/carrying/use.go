package carrying

import (
	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
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
