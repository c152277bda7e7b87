package advice

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Step is one thing to try.
type Step struct {
	Lever string `json:"lever,omitempty"`
	Level string `json:"level,omitempty"`
	// Now is the lever's current level; "" if it is unknown.
	Now string `json:"now,omitempty"`
	Do  string `json:"do"`
	// YAML is the manifest to apply, or the setting to merge into the installation's values,
	// as its comment explains.
	YAML string `json:"yaml,omitempty"`
	Back string `json:"back,omitempty"`
	// Unknown names the unknown quantities on which the level depends. Such a step has no
	// level and no manifest.
	Unknown []string `json:"unknown,omitempty"`
	// Expect is the expected effect of this step if it differs from that of the advice.
	Expect *Expected `json:"expect,omitempty"`
	// Lacks names what this istiod lacks for the step. Such a step cannot be tried, and has
	// no manifest.
	Lacks []string `json:"lacks,omitempty"`
	// Checked reports that this istiod was asked and has every environment variable that the
	// step sets.
	Checked bool `json:"checked"`
	// Measured lists this run's measurements of the lever at other levels.
	Measured []Measured `json:"measured,omitempty"`
}

// step builds a step with its manifest, unless this istiod lacks what it sets.
func (m *mesh) step(t Try) Step {
	s := Step{Do: t.Do, Lever: t.Lever}
	m.reads = nil
	if t.YAML != nil {
		s.YAML = t.YAML(m)
	}
	if t.Back != nil {
		s.Back = t.Back(m)
	}
	f, sets := controlplane.LeverByName(t.Lever)
	if sets {
		if s.Level = t.Level; t.LevelOf != nil {
			s.Level = m.level(t.LevelOf, f.Unit)
		}
	}
	for _, r := range m.reads {
		if !r.known {
			s.Unknown = append(s.Unknown, r.name)
		}
	}
	if t.Effect != nil {
		s.Expect, _ = m.expected(*t.Effect)
	}
	variables := t.Needs
	if sets {
		m.set(&s, f)
		if f.Lever.Env != "" {
			variables = append([]string{f.Lever.Env}, variables...)
		}
	}
	if len(s.Unknown) > 0 {
		s.Level, s.YAML, s.Back = "", "", ""
	}
	m.check(&s, variables)
	return s
}

// set adds to a step how to set its lever, and the run's measurements of it.
func (m *mesh) set(s *Step, f study.Factor) {
	s.Now = m.evidence.Levers[f.Name]
	do := "Change " + f.Name
	if len(s.Unknown) == 0 {
		set := settingOf(f, s.Level, s.Now, m.evidence)
		do, s.YAML, s.Back = set.do, set.yaml, set.back
	}
	s.Do = strings.TrimSpace(do + ". " + s.Do)
	for _, effect := range m.evidence.Effects {
		if effect.Lever == f.Name {
			s.Measured = append(s.Measured, effect)
		}
	}
}

// level formats a quantity as a lever's level, in the given unit or else its own; "" if it
// is unknown.
func (m *mesh) level(q *Quantity, unit string) string {
	v := m.get(q)
	if !known(v) {
		return ""
	}
	return levelOf(cmp.Or(unit, q.Unit), v)
}

// reached reports whether a step's lever is already at the level.
func (s Step) reached() bool {
	if s.Lever == "" || s.Level == "" {
		return false
	}
	f, _ := controlplane.LeverByName(s.Lever)
	level, known := f.Value(s.Level)
	now, is := f.Value(s.Now)
	return s.Level == s.Now || known && is && level == now
}

// check compares the variables that a step sets with those that this istiod has.
func (m *mesh) check(s *Step, variables []string) {
	known := m.evidence.Known
	for _, name := range variables {
		if known == nil {
			return
		}
		if _, ok := known.Variable(name); !ok {
			s.Lacks = append(s.Lacks, name)
		}
	}
	s.Checked = len(s.Lacks) == 0
	if !s.Checked {
		s.YAML, s.Back = "", ""
	}
}

// levelOf formats a number in a unit as a lever's level.
func levelOf(unit string, v float64) string {
	switch unit {
	case seconds:
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
	case "CPUs", cores:
		return strconv.FormatFloat(v*1000, 'f', 0, 64) + "m"
	case bytes:
		return strconv.FormatFloat(v/(1<<20), 'f', 0, 64) + "Mi"
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// spell formats a value in the unit a reader would choose.
func spell(v float64, unit string) string {
	switch unit {
	case "":
		return words.Figures(v)
	case seconds:
		return words.Quantity(v*1e6, finding.UnitMicroseconds)
	case perSecond:
		return words.Figures(v) + "/s"
	}
	return words.Quantity(v, unit)
}
