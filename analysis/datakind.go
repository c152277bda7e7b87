package analysis

import (
	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// dataKind is what analysis asks of studies of the data plane.
func dataKind() kind {
	return kind{
		name:     study.DataPlane,
		measures: dataMeasures,
		sources: []source{
			{finding.FromFits, func(o *observations, f *record.Findings) {
				fits := o.fits()
				f.Findings = append(append(f.Findings, fits...), o.moneyFits(fits)...)
			}},
			{finding.FromLimits, func(o *observations, f *record.Findings) { f.Findings = append(f.Findings, o.limits()...) }},
			{finding.FromProfile, (*observations).addProfiles},
			{finding.FromVersus, func(o *observations, f *record.Findings) { f.Findings = append(f.Findings, o.versus()...) }},
			{finding.FromBill, (*observations).addBills},
			{finding.FromHops, (*observations).addHops},
			fromSearches(),
			{finding.FromSearch, func(o *observations, f *record.Findings) { f.Findings = append(f.Findings, o.knees()...) }},
		},
		search: searched{who: "the mesh", ownChecks: proxiesChecks, whose: (*observations).whose},
	}
}
