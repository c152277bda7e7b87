package report

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// dataKind is what reports know of studies of the data plane.
func dataKind() Kind {
	findings := study.DataPlane.Findings()
	return Kind{
		Name:     record.KindDataPlane,
		Findings: findings,
		Sections: slices.Concat([]Section{
			{Name: study.SectionBill, Tables: billTables},
			{Name: study.SectionHops, Tables: hopTables},
			one(study.SectionSaturation, saturationTable),
			one(study.SectionLatency, latencyTable),
			one(study.SectionTail, overheadTable),
			one(study.SectionCPU, cpuTable),
			one(study.SectionThreads, threadsTable),
			one(study.SectionLimits, limitsTable),
			one(study.SectionMemory, memoryTable),
			one(study.SectionFits, fitsTable),
			one(study.SectionMoney, moneyTable).answering(moneyAnswers),
			one(study.SectionVersions, func(f record.Findings) table { return versionsTable(pairings(f)) }),
			one(study.SectionFilters, func(f record.Findings) table { return filtersTable(f, filterPairings(f)) }),
			{Name: study.SectionProfiles, Tables: profilesTables},
			Conditions(),
		}, Common(findings, false, false)),
		Answers: dataAnswers,
		Values:  dataValues,
	}
}
