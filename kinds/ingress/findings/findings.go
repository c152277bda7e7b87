// Package findings analyzes studies of gateways. It is pure.
package findings

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	judged "github.com/meshtrial/meshtrial/kinds/ingress/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Kind returns the analysis of studies of gateways.
func Kind() analysis.Kind {
	return analysis.Kind{
		Name:     ingress.Kind,
		Outdated: func(by record.Rules) string { return verdict.Outdated(by, judged.Limits) },
		Measures: func(s *study.Study) []analysis.Measure { return append(routeMeasures(s), costMeasures()...) },
		Sources:  []analysis.Source{analysis.FromSearches()},
	}
}

// routes holds the outcomes of requests to a trial's added routes, in microseconds after the routes'
// commits.
type routes struct {
	served, resolution []float64
	unserved, errors   int
	asked              int
}

func routesOf(events []*record.Event) (out routes) {
	for _, e := range events {
		s := e.Served
		if s == nil {
			continue
		}
		out.asked++
		out.errors += s.Failed
		if s.AnsweredUS == nil {
			out.unserved++
			continue
		}
		out.served = append(out.served, float64(*s.AnsweredUS))
		if s.BadUS != nil {
			out.resolution = append(out.resolution, float64(*s.AnsweredUS-*s.BadUS))
		}
	}
	return out
}

// at returns a quantile of the times until routes were served. Routes that never were count as
// infinitely late.
func (r routes) at(q record.Quantile) float64 {
	if r.asked == 0 || r.asked < q.Needs() {
		return math.NaN()
	}
	all := slices.Concat(r.served, slices.Repeat([]float64{math.Inf(1)}, r.unserved))
	slices.Sort(all)
	if q == 0.5 && r.unserved == 0 {
		return stat.Median(all)
	}
	return all[max(1, int(math.Ceil(float64(q)*float64(len(all))-1e-9)))-1]
}

func routeMeasures(s *study.Study) []analysis.Measure {
	of := func(name string, figure func(routes) float64) analysis.Measure {
		return analysis.MeasureOf(name, func(o *analysis.Observations, t *record.Trial) float64 {
			r := routesOf(o.Events[t.ID])
			if r.asked == 0 {
				return math.NaN()
			}
			return figure(r)
		})
	}
	trial := func(name string, figure func(*record.Ingress) float64) analysis.Measure {
		return analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 {
			if t.Ingress == nil {
				return math.NaN()
			}
			return figure(t.Ingress)
		})
	}
	out := analysis.OfFamily(s, ingress.FamilyServed, func(d finding.Def) analysis.Measure {
		never := map[record.Quantile]string{0.5: "half of the routes were never served", 1: "a route was never served"}[d.At]
		if never == "" {
			never = "too many routes were never served"
		}
		return of(d.Name, func(r routes) float64 { return r.at(d.At) }).Reaching(never)
	})
	return append(out,
		of(ingress.FindingResolution, func(r routes) float64 {
			if len(r.resolution) == 0 {
				return math.NaN()
			}
			return stat.Median(r.resolution)
		}),
		of(ingress.FindingUnserved, func(r routes) float64 { return float64(r.unserved) }),
		of(ingress.FindingErrors, func(r routes) float64 { return float64(r.errors) }),
		trial(ingress.FindingOldErrors, func(i *record.Ingress) float64 {
			if len(i.Watched) == 0 {
				return math.NaN()
			}
			return float64(i.Wrong)
		}),
		trial(ingress.FindingReady, func(i *record.Ingress) float64 { return float64(i.ReadyUS) }))
}

func costMeasures() []analysis.Measure {
	cpu := func(name, part string, figure func(t *record.Trial, cpu record.CPU) float64) analysis.Measure {
		return analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 {
			c, ok := t.CPU[part]
			if !ok || t.Window.Seconds == 0 {
				return math.NaN()
			}
			return figure(t, c)
		})
	}
	memory := func(name, part string) analysis.Measure {
		return analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 {
			m, ok := t.Memory[part]
			if !ok || m.PSSBytes == 0 {
				return math.NaN()
			}
			return float64(m.PSSBytes)
		})
	}
	milli := func(t *record.Trial, c record.CPU) float64 { return 1000 * c.TotalS() / t.Window.Seconds }
	return []analysis.Measure{
		cpu(ingress.FindingGatewayCPU, record.PartGateway, milli),
		cpu(ingress.FindingControlCPU, record.PartControl, milli),
		cpu(ingress.FindingPerChange, record.PartControl, func(t *record.Trial, c record.CPU) float64 {
			if t.Ingress == nil || t.Ingress.Changes == 0 {
				return math.NaN()
			}
			return 1e6 * c.TotalS() / float64(t.Ingress.Changes)
		}),
		memory(ingress.FindingGatewayMem, record.PartGateway),
		memory(ingress.FindingControlMem, record.PartControl),
	}
}
