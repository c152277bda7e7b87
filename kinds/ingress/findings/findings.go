// Package findings analyzes studies of gateways. It is pure.
package findings

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	judged "github.com/meshtrial/meshtrial/kinds/ingress/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
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

func routeMeasures(s *study.Study) []analysis.Measure {
	trial := func(name string, figure func(*record.Ingress) float64) analysis.Measure {
		return analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 {
			return figure(t.Ingress)
		})
	}
	served, others := analysis.RouteMeasures(s, ingress.FamilyServed, ingress.FindingResolution, ingress.FindingUnserved, ingress.FindingErrors)
	return append(slices.Concat(served, others),
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
		return analysis.MeasureOf(name, func(_ *analysis.Observations, t *record.Trial) float64 { return analysis.Memory(t, part) })
	}
	milli := func(t *record.Trial, c record.CPU) float64 { return 1000 * c.TotalS() / t.Window.Seconds }
	return []analysis.Measure{
		cpu(ingress.FindingGatewayCPU, record.PartGateway, milli),
		cpu(ingress.FindingControlCPU, record.PartControl, milli),
		cpu(ingress.FindingPerChange, record.PartControl, func(t *record.Trial, c record.CPU) float64 {
			if t.Ingress.Changes == 0 {
				return math.NaN()
			}
			return 1e6 * c.TotalS() / float64(t.Ingress.Changes)
		}),
		memory(ingress.FindingGatewayMem, record.PartGateway),
		memory(ingress.FindingControlMem, record.PartControl),
	}
}
