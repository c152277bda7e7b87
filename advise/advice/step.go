package advice

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Step is one thing to try.
type Step struct {
	Lever string `json:"lever,omitempty"`
	Level string `json:"level,omitempty"`
	// Now is the lever's level as it is; "" where that is not known.
	Now string `json:"now,omitempty"`
	Do  string `json:"do"`
	// YAML is the manifest to apply, or the setting to merge into the installation's
	// values, as its comment says.
	YAML string `json:"yaml,omitempty"`
	Back string `json:"back,omitempty"`
	// Unknown names the quantities that the level depends on and nobody knows: such a
	// step has no level and no manifest.
	Unknown []string `json:"unknown,omitempty"`
	// Expect is what is expected of this step where it is not what the advice says of
	// the cause as a whole.
	Expect *Expected `json:"expect,omitempty"`
	// Lacks names what this istiod does not have of it: such a step is not to be tried,
	// and has no manifest.
	Lacks []string `json:"lacks,omitempty"`
	// Checked says that this istiod was asked, and has what the step sets.
	Checked bool `json:"checked"`
	// Measured are what this run measured of the lever at other levels.
	Measured []string `json:"measured,omitempty"`
}

// step makes a step of a try: with its manifest, unless this istiod lacks what it
// sets.
func (r *resolved) step(t Try) (Step, error) {
	s := Step{Do: r.filled(t.Do), Lever: t.Lever}
	if s.YAML = r.of.rooted(r.leveled(&s, t.YAML, "")); len(s.Unknown) > 0 {
		s.YAML = ""
	}
	needs := t.Needs
	if t.Effect != nil {
		var err error
		if s.Expect, err = r.expected(t.Effect); err != nil {
			return s, err
		}
	}
	if f, ok := study.LeverByName(t.Lever); ok {
		s.Now = r.of.Levers[t.Lever]
		needs = append(settingsOf(f), needs...)
		r.set(&s, f, t.Level)
		for _, m := range r.of.Effects {
			if m.Lever == t.Lever {
				d := m.Finding
				s.Measured = append(s.Measured, fmt.Sprintf("%s at %s, in this run: %s (%s to %s), %s", m.Lever, m.Level,
					d.Name+" "+words.Quantity(d.Estimate, d.Unit), words.Quantity(d.Low, d.Unit), words.Quantity(d.High, d.Unit), strings.ReplaceAll(d.Verdict, "_", " ")))
			}
		}
	}
	r.check(&s, needs)
	return s, nil
}

// set gives a step its lever's level, and the manifest of it, unless the level depends
// on what nobody knows.
func (r *resolved) set(s *Step, f study.Factor, level string) {
	s.Level = r.leveled(s, level, f.Unit)
	if len(s.Unknown) > 0 {
		s.Level = ""
		s.Do = strings.TrimSpace("Change " + f.Name + ". " + s.Do)
		return
	}
	set := settingOf(f, s.Level, r.of)
	s.YAML, s.Back = r.named(set.yaml), r.named(set.back(f, s.Now))
	s.Do = strings.TrimSpace(set.words + ". " + s.Do)
}

// leveled puts values into a level or a manifest, in a unit or else their own; what
// nobody knows is noted.
func (r *resolved) leveled(s *Step, text, unit string) string {
	return fill(text, func(name string) string {
		v, ok := r.values[name]
		if !ok {
			s.Unknown = append(s.Unknown, name)
			return ""
		}
		return levelOf(study.Factor{Unit: cmp.Or(unit, v.Unit)}, v.Value)
	})
}

// rooted puts the mesh's root namespace into a manifest or a command of what is to hold
// for the whole mesh.
func (e *Evidence) rooted(text string) string {
	if e.Root == "" {
		return text
	}
	return strings.ReplaceAll(text, usualRoot, e.Root)
}

// usualRoot is the root namespace where the mesh configuration names no other.
const usualRoot = "istio-system"

// named puts istiod's Deployment into a manifest or a command: a revision has its own.
func (r *resolved) named(text string) string {
	if r.of.Deployment == "" {
		return text
	}
	return strings.NewReplacer("{name: istiod, namespace", "{name: "+r.of.Deployment+", namespace", "deployment/istiod", "deployment/"+r.of.Deployment).Replace(text)
}

// there reports whether a step's lever has the level already.
func (s Step) there() bool {
	if s.Lever == "" || s.Level == "" {
		return false
	}
	f, _ := study.LeverByName(s.Lever)
	level, known := f.Value(s.Level)
	now, is := f.Value(s.Now)
	return s.Level == s.Now || known && is && level == now
}

// check holds what a step sets against what this istiod has.
func (r *resolved) check(s *Step, needs []string) {
	if k := r.of.Known; k != nil {
		s.Checked = true
		for _, name := range needs {
			if isField(name) && len(k.Fields) == 0 {
				s.Checked = false
				continue
			}
			_, variable := k.Variable(name)
			if isField(name) && !k.HasField(name) || !isField(name) && !variable {
				s.Lacks = append(s.Lacks, name)
			}
		}
	}
	s.Checked = s.Checked && len(s.Lacks) == 0 || len(needs) == 0
	if len(s.Lacks) > 0 {
		s.YAML, s.Back = "", ""
	}
}

// isField tells fields of the mesh configuration from variables, which are in
// capitals.
func isField(name string) bool { return name != strings.ToUpper(name) }

// levelOf spells a number as a lever's level.
func levelOf(f study.Factor, v float64) string {
	switch f.Unit {
	case "s":
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
	case "CPUs", "cores":
		return strconv.FormatFloat(v*1000, 'f', 0, 64) + "m"
	case "bytes":
		return strconv.FormatFloat(v/(1<<20), 'f', 0, 64) + "Mi"
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// spell writes a value in the unit a reader would choose.
func spell(v float64, unit string) string {
	switch unit {
	case "":
		return words.Figures(v)
	case "s":
		return words.Quantity(v*1e6, finding.UnitMicroseconds)
	case "1/s":
		return words.Figures(v) + "/s"
	case "bytes/s":
		return words.Quantity(v, finding.UnitBytes) + "/s"
	}
	return words.Quantity(v, unit)
}
