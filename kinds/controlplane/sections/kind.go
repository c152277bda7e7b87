package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is what reports know of studies of the control plane.
func Kind() report.Kind {
	findings := study.ControlPlane.Findings()
	return report.Kind{
		Name:     record.KindControlPlane,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			{Name: study.SectionTuning, Tables: tuningTables},
			{Name: study.SectionSidecars, Tables: sidecarTables},
			{Name: study.SectionRecovery, Tables: recoveryTables},
			report.One(study.SectionSoak, soakTable),
			report.One(study.SectionConvergence, convergenceTable),
			report.One(study.SectionEdges, edgesTable),
			report.One(study.SectionZtunnels, ztunnelTable),
			report.One(study.SectionLevers, leversTable),
			report.One(study.SectionWaterfall, waterfallTable),
			report.One(study.SectionSources, secondSources),
			report.One(study.SectionHidden, hiddenTable),
			report.One(study.SectionAmplification, amplificationTable),
			report.One(study.SectionStale, staleTable),
			report.One(study.SectionRoutes, routesTable),
			report.One(study.SectionAttached, attachedTable),
			report.One(study.SectionTraffic, trafficTable),
			report.One(study.SectionWire, wireTable),
			report.One(study.SectionConfig, configTable),
			report.One(study.SectionScopeConfig, scopeConfigTable),
			report.One(study.SectionJoin, joinTable),
			report.One(study.SectionHoldings, holdingTable),
			report.One(study.SectionCost, controlCostTable),
			report.One(study.SectionMachine, machineTable),
			report.One(study.SectionRuntime, runtimeTable),
			report.One(study.SectionMetrics, metricsTable),
			report.One(study.SectionInstalled, installedTable),
			{Name: study.SectionProfiles, Tables: profileTables},
			report.Conditions().Unless(machineTable),
		}, report.Common(findings, true, false)),
		Answers: controlAnswers,
		Values:  controlValues,
		Told:    unreached, // by tables
	}
}
