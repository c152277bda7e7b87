// Package sections renders reports of data-plane studies: it supplies a [report.Kind], with one
// file per section or group of related sections. It is pure.
package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// Kind returns the report of data-plane studies.
func Kind() report.Kind {
	findings := study.DataPlane.Findings()
	return report.Kind{
		Name:     record.KindDataPlane,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			report.Section{Name: dataplane.SectionBill, Tables: billTables}.Drawn("The bill",
				"A part's cost is the within-block difference to the same pods without it. "+
					"The number before each name is its rank by CPU; parts that cannot be ranked share one. Hollow marks are not significant.", billCharts),
			report.Section{Name: dataplane.SectionHops, Tables: hopTables}.Drawn("Cost breakdown of the request path",
				"Each part is the within-block difference between cells with and without it. Hollow marks are not significant.", hopCharts),
			report.One(dataplane.SectionSaturation, saturationTable).Drawn("Latency against the rate",
				"Over all valid trials at each rate measured. Where a curve turns up, queueing starts to dominate.", saturationCharts),
			report.One(study.SectionLatency, latencyTable).Drawn("", report.LatencyLead, report.LatencyCharts),
			report.Charted(sectionHeat, "", "How many requests of each block took how long: the darker, the more.",
				heatCharts),
			report.One(study.SectionTail, overheadTable).Drawn("Overhead", report.DifferenceLead,
				func(f record.Findings) []report.Chart {
					return report.DifferenceCharts(findings, f, report.LatencyDifference)
				}),
			report.One(dataplane.SectionWaiting, waitingTable),
			report.One(dataplane.SectionCPU, cpuTable).Drawn("CPU per request", report.CPULead, report.CPUCharts),
			report.One(dataplane.SectionNodes, nodesTable),
			report.One(dataplane.SectionThreads, threadsTable).Drawn("",
				"Per-thread CPU time from just before the window to just after it, as the kernel accounts it; "+
					"a thread at 100% is saturated.", threadCharts),
			report.One(dataplane.SectionLimits, limitsTable),
			report.One(dataplane.SectionMemory, memoryTable).Drawn("", report.MemoryLead, report.MemoryCharts),
			report.One(dataplane.SectionFits, fitsTable),
			report.One(study.SectionMoney, report.MoneyTable).Answering(report.MoneyAnswers),
			report.Section{Name: study.SectionSizing, Tables: report.SizingTables}.Leading(report.SizingAnswers),
			report.One(dataplane.SectionVersions,
				func(f record.Findings) report.Table { return versionsTable(pairings(f)) }),
			report.One(dataplane.SectionFilters, func(f record.Findings) report.Table {
				return filtersTable(f, filterPairings(f))
			}),
			report.Section{Name: study.SectionProfiles, Tables: profilesTables}.Drawn("", "", profileCharts),
			report.Conditions(),
		}, report.Common(findings, false, false)),
		Answers: dataAnswers,
		Values:  report.RequestValues,
		Told: func(x record.Finding) bool { // the table of limits has the evidence
			d, ok := findings.Find(x.Name)
			return ok && d.Source == finding.FromLimits
		},
	}
}

// right returns a column of figures with its priority in narrow tables.
func right(head string, keep int) report.Column {
	return report.Column{Head: head, Right: true, Keep: keep}
}
