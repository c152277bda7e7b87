package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is what reports know of studies of the data plane.
func Kind() report.Kind {
	findings := study.DataPlane.Findings()
	return report.Kind{
		Name:     record.KindDataPlane,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			{Name: study.SectionBill, Tables: billTables},
			{Name: study.SectionHops, Tables: hopTables},
			report.One(study.SectionSaturation, saturationTable),
			report.One(study.SectionLatency, latencyTable),
			report.One(study.SectionTail, overheadTable),
			report.One(study.SectionWaiting, waitingTable),
			report.One(study.SectionCPU, cpuTable),
			report.One(study.SectionNodes, nodesTable),
			report.One(study.SectionThreads, threadsTable),
			report.One(study.SectionLimits, limitsTable),
			report.One(study.SectionMemory, memoryTable),
			report.One(study.SectionFits, fitsTable),
			report.One(study.SectionMoney, report.MoneyTable).Answering(report.MoneyAnswers),
			report.Section{Name: study.SectionSizing, Tables: report.SizingTables}.Leading(report.SizingAnswers),
			report.One(study.SectionVersions, func(f record.Findings) report.Table { return versionsTable(pairings(f)) }),
			report.One(study.SectionFilters, func(f record.Findings) report.Table { return filtersTable(f, filterPairings(f)) }),
			{Name: study.SectionProfiles, Tables: profilesTables},
			report.Conditions(),
		}, report.Common(findings, false, false)),
		Answers: dataAnswers,
		Values:  report.RequestValues,
		Told: func(x record.Finding) bool { // the table of limits tells the evidence
			d, ok := findings.Find(x.Name)
			return ok && d.Source == finding.FromLimits
		},
	}
}
