package report

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// scenarioKind is what reports know of studies of resilience.
func scenarioKind() Kind {
	findings := study.Resilience.Findings()
	return Kind{
		Name:     record.KindResilience,
		Findings: findings,
		Sections: slices.Concat([]Section{
			one(study.SectionVerdicts, verdictTable),
			one(study.SectionExpected, scenarioAssertions),
			one(study.SectionWindows, windowTable),
			one(study.SectionSteps, stepTable),
			one(study.SectionArithmetic, expectationTable),
			one(study.SectionEdgeTraffic, trafficEdges),
			one(study.SectionBalance, balanceTable),
			one(study.SectionFaults, faultTable),
			one(study.SectionUnreconciled, unreconciledTable),
			one(study.SectionWhole, wholeTable),
			one(study.SectionUse, scenarioCost),
			one(study.SectionMoney, moneyTable),
			Conditions(),
		}, Common(findings, false, true)),
		Answers: scenarioAnswers,
		Values:  dataValues,
		Verdict: func(c record.CellSummary) (found, expected string) {
			if c.Scenario == nil {
				return "", ""
			}
			return c.Scenario.Verdict, c.Scenario.Expected
		},
		Cases: scenarioCases,
	}
}
