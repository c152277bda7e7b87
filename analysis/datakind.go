package analysis

import (
	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// DataPlane is what analysis asks of studies of the data plane.
func DataPlane() Kind {
	return Kind{
		Name:     study.DataPlane,
		Measures: dataMeasures,
		Sources: []Source{
			{finding.FromFits, func(o *Observations, f *record.Findings) {
				fits := o.fits()
				f.Findings = append(append(f.Findings, fits...), o.moneyFits(fits)...)
			}},
			{finding.FromLimits, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, o.limits()...) }},
			{finding.FromProfile, (*Observations).addProfiles},
			{finding.FromVersus, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, o.versus()...) }},
			{finding.FromBill, (*Observations).addBills},
			{finding.FromHops, (*Observations).addHops},
			FromSearches(),
			{finding.FromSearch, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, o.knees()...) }},
		},
		Search: Searched{Who: "the mesh", OwnChecks: proxiesChecks, whose: (*Observations).whose},
	}
}
