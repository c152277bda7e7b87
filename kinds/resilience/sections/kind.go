package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// Kind returns the report of resilience studies.
func Kind() report.Kind {
	findings := resilience.Kind.Findings()
	return report.Kind{
		Name:     record.KindResilience,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			report.One(resilience.SectionVerdicts, verdictTable),
			report.One(resilience.SectionExpected, scenarioAssertions),
			report.Charted("timeline", "",
				"One trial of each cell, from the first request on. Steps are marked where they happened.", timelineCharts),
			report.Charted("service graph", "",
				"On each edge: requests per second (with attempts per request where there were more), the share that failed, "+
					"median and p99 latency, by the caller's proxy.", graphCharts),
			report.One(resilience.SectionWindows, windowTable),
			report.One(resilience.SectionSteps, stepTable),
			report.One(resilience.SectionArithmetic, expectationTable),
			report.One(resilience.SectionEdgeTraffic, trafficEdges),
			report.One(resilience.SectionZones, zoneTable),
			report.One(resilience.SectionGateways, gatewayTable),
			report.One(resilience.SectionBalance, balanceTable),
			report.One(resilience.SectionFaults, faultTable),
			report.One(resilience.SectionUnreconciled, unreconciledTable),
			report.Charted("overhead", "", report.DifferenceLead, func(f record.Findings) []report.Chart {
				return report.DifferenceCharts(findings, f, report.LatencyDifference)
			}),
			report.Charted("latency", "", report.LatencyLead, report.LatencyCharts),
			report.One(resilience.SectionWhole, wholeTable),
			report.One(resilience.SectionUse, scenarioCost).Drawn("", report.CPULead,
				func(f record.Findings) []report.Chart {
					return append(report.CPUCharts(f), report.MemoryCharts(f)...)
				}),
			{Name: resilience.SectionPlanes, Tables: func(f record.Findings) []report.Table { return []report.Table{planeTable(f), configTable(f)} }},
			report.One(study.SectionMoney, report.MoneyTable),
			report.Section{Name: study.SectionSizing, Tables: report.SizingTables}.Leading(report.SizingAnswers),
			report.Conditions(),
		}, report.Common(findings, false, true)),
		Answers: scenarioAnswers,
		Values:  report.RequestValues,
		Verdict: func(c record.CellSummary) (found, expected string) {
			if c.Scenario == nil {
				return "", ""
			}
			return c.Scenario.Verdict, c.Scenario.Expected
		},
		Cases: scenarioCases,
	}
}
