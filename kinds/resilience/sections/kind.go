package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is what reports know of studies of resilience.
func Kind() report.Kind {
	findings := study.Resilience.Findings()
	return report.Kind{
		Name:     record.KindResilience,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			report.One(study.SectionVerdicts, verdictTable),
			report.One(study.SectionExpected, scenarioAssertions),
			report.One(study.SectionWindows, windowTable),
			report.One(study.SectionSteps, stepTable),
			report.One(study.SectionArithmetic, expectationTable),
			report.One(study.SectionEdgeTraffic, trafficEdges),
			report.One(study.SectionBalance, balanceTable),
			report.One(study.SectionFaults, faultTable),
			report.One(study.SectionUnreconciled, unreconciledTable),
			report.One(study.SectionWhole, wholeTable),
			report.One(study.SectionUse, scenarioCost),
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
