package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/finding"
)

// FindingsOf is the table of a plane's findings.
func FindingsOf(p Plane) finding.Table {
	switch p {
	case PlaneControl:
		return controlFindings
	case PlaneResilience:
		return scenarioFindings
	}
	return dataFindings
}

// FindingNames lists the findings of all planes that a stop rule, a published
// figure or an assertion can name.
func FindingNames() []string {
	var out []string
	for _, p := range Planes() {
		for _, name := range FindingNamesOf(p) {
			if !has(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// FindingNamesOf lists the findings of a plane's studies that a study file can
// name.
func FindingNamesOf(p Plane) []string { return FindingsOf(p).Names() }

// IsFinding reports whether studies of any plane have a finding of a name.
func IsFinding(name string) bool {
	return slices.ContainsFunc(Planes(), func(p Plane) bool {
		_, ok := FindingsOf(p).Find(name)
		return ok
	})
}

// UnitOf is a unit of findings in this study: money has its currency.
func (s *Study) UnitOf(d finding.Def) string {
	if d.Unit == finding.UnitMoney {
		return s.MoneyUnit()
	}
	return d.Unit
}

// scaleTo returns what one of a unit is in a finding's own, which it also
// returns.
func (s *Study) scaleTo(name, unit string) (one float64, own string, c *complaint) {
	d, _ := FindingsOf(s.Plane()).Find(name)
	own = s.UnitOf(d)
	one, ok := finding.Scale(own, unit)
	if !ok {
		return 0, own, complain("possible: "+strings.Join(finding.Scales(own), ", "), "%q is no unit", clip(unit, 40))
	}
	return one, own, nil
}
