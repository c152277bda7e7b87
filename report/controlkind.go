package report

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// controlKind is what reports know of studies of the control plane.
func controlKind() Kind {
	findings := study.ControlPlane.Findings()
	return Kind{
		Name:     record.KindControlPlane,
		Findings: findings,
		Sections: slices.Concat([]Section{
			one(study.SectionConvergence, convergenceTable),
			one(study.SectionEdges, edgesTable),
			one(study.SectionLevers, leversTable),
			one(study.SectionWaterfall, waterfallTable),
			one(study.SectionSources, secondSources),
			one(study.SectionHidden, hiddenTable),
			one(study.SectionAmplification, amplificationTable),
			one(study.SectionStale, staleTable),
			one(study.SectionTraffic, trafficTable),
			one(study.SectionWire, wireTable),
			one(study.SectionConfig, configTable),
			one(study.SectionScopeConfig, scopeConfigTable),
			one(study.SectionJoin, joinTable),
			one(study.SectionHoldings, holdingTable),
			one(study.SectionCost, controlCostTable),
			one(study.SectionMachine, machineTable),
			one(study.SectionRuntime, runtimeTable),
			one(study.SectionMetrics, metricsTable),
			{Name: study.SectionProfiles, Tables: profileTables},
			Conditions().unless(machineTable),
		}, Common(findings, true, false)),
		Answers: controlAnswers,
		Values:  controlValues,
	}
}
