package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// sectionMemory appears only on the page: memory of all parts, stacked.
const sectionMemory = "memory"

// Kind returns the report of control-plane studies.
func Kind() report.Kind {
	findings := study.ControlPlane.Findings()
	return report.Kind{
		Name:     record.KindControlPlane,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			report.Section{Name: controlplane.SectionTuning, Tables: tuningTables}.Drawn("",
				"Each mark is a setting that the search tried. A filled one is on the front: "+
					"no other setting tried is as good in every measure and better in one. The square is in use, the diamond is recommended. Less is better.", frontCharts),
			{Name: controlplane.SectionSidecars, Tables: sidecarTables},
			{Name: controlplane.SectionRecovery, Tables: recoveryTables},
			report.One(controlplane.SectionSoak, soakTable),
			report.One(controlplane.SectionConvergence, convergenceTable).Drawn("",
				"From the API server's commit of a change to the proxy's ACK; one sample per change and proxy that needed it.", convergenceCharts),
			report.One(controlplane.SectionEdges, edgesTable),
			report.One(controlplane.SectionZtunnels, ztunnelTable),
			report.One(controlplane.SectionLevers, leversTable).Drawn("Against the baseline", report.DifferenceLead,
				func(f record.Findings) []report.Chart {
					return report.DifferenceCharts(findings, f, func(d finding.Def, x record.Finding) bool {
						return x.Verdict != record.VerdictInvalid &&
							(d.Section == controlplane.SectionLevers || report.LatencyDifference(d, x))
					})
				}),
			report.One(controlplane.SectionWaterfall, waterfallTable).Drawn("Where the time goes",
				"The average path of a change, stage by stage. What the stages do not account for is shown as unexplained.", waterfallCharts),
			report.One(controlplane.SectionHidden, hiddenTable),
			report.One(controlplane.SectionAmplification, amplificationTable),
			report.One(controlplane.SectionStale, staleTable),
			report.One(controlplane.SectionRoutes, routesTable),
			report.One(controlplane.SectionAttached, attachedTable),
			report.One(controlplane.SectionTraffic, trafficTable).Drawn("Requests to stale endpoints",
				"An endpoint is stale once no EndpointSlice lists it. A proxy that has not been told keeps sending requests there.", trafficCharts),
			report.One(controlplane.SectionWire, wireTable),
			report.One(controlplane.SectionConfig, sizesTable(configOf, "Configuration of a proxy (median), %s by type")).
				Drawn("Configuration that a proxy holds", "", sizeCharts(configOf, "Configuration that a proxy holds")),
			report.One(controlplane.SectionScopeConfig, sizesTable(scopeConfigOf, "Configuration of a proxy in the scope's namespace (median), %s by type")).
				Drawn("Configuration in the scope's namespace", "", sizeCharts(scopeConfigOf, "Configuration that a proxy holds in the namespace of the Sidecar")),
			report.One(controlplane.SectionJoin, joinTable),
			report.One(controlplane.SectionHoldings, holdingTable),
			report.One(controlplane.SectionCost, controlCostTable),
			report.One(controlplane.SectionMachine, machineTable),
			report.Charted(sectionMemory, "", report.MemoryLead, report.MemoryCharts),
			report.One(controlplane.SectionRuntime, runtimeTable),
			report.One(controlplane.SectionMetrics, metricsTable),
			report.One(controlplane.SectionInstalled, installedTable),
			{Name: study.SectionProfiles, Tables: profileTables},
			report.Conditions().Unless(machineTable),
		}, report.Common(findings, true, false)),
		Answers: controlAnswers,
		Told:    unreached, // in tables
	}
}
