package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// FindingNames lists the findings of all kinds that a stop rule, a published
// figure or an assertion can name.
func FindingNames() []string {
	var out []string
	for _, p := range Kinds() {
		for _, name := range p.FindingNames() {
			if !has(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// FindingNames lists the findings of the kind's studies that a study file can
// name.
func (k Kind) FindingNames() []string {
	return slices.DeleteFunc(k.Findings().Names(), func(name string) bool { return !reached(k.Findings().Must(name)) })
}

// reached says that studies can have a finding: it is about no proxy that
// requests pass in none of the meshes.
func reached(d finding.Def) bool {
	_, proxy := record.ProxyOf(d.Part)
	return !proxy || slices.ContainsFunc(carriers(""), func(c Carrier) bool { return c.Way.Has(d.Part) || c.Way.OnOneNode().Has(d.Part) })
}

// IsFinding reports whether studies of any kind have a finding of a name.
func IsFinding(name string) bool {
	return slices.ContainsFunc(Kinds(), func(p Kind) bool {
		_, ok := p.Findings().Find(name)
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

// inMoney says that a finding is an amount of money.
func (s *Study) inMoney(name string) bool {
	d, _ := s.Kind.Findings().Find(name)
	return d.Unit == finding.UnitMoney
}

// scaleTo returns what one of a unit is in a finding's own, which it also
// returns.
func (s *Study) scaleTo(name, unit string) (one float64, own string, c *Error) {
	d, _ := s.Kind.Findings().Find(name)
	own = s.UnitOf(d)
	one, ok := finding.Scale(own, unit)
	if !ok {
		return 0, own, Complain(CodeUnit, "possible: "+strings.Join(finding.Scales(own), ", "), "%q is not a unit", Clip(unit, 40))
	}
	return one, own, nil
}

// OfProbe puts findings to a measure.
func OfProbe(probe string, defs []finding.Def) []finding.Def {
	for i := range defs {
		defs[i].Probe = probe
	}
	return defs
}

// Compared is a finding whose differences a section shows.
func Compared(d finding.Def, differences string) finding.Def {
	d.Compared, d.Differences = true, differences
	return d
}
