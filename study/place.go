package study

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
)

// places notes where the file names each factor.
func (d *Decoder) places() map[string]Pos {
	out := map[string]Pos{}
	note := func(section *Node) {
		if section == nil {
			return
		}
		for i, k := range section.Keys {
			if _, ok := out[k.Name]; !ok {
				out[k.Name] = section.Values[i].Pos
			}
		}
	}
	note(d.Root.Get("factors"))
	note(d.Root.Get("settings"))
	if variants := d.Root.Get("variants"); variants != nil {
		for _, v := range variants.Values {
			note(v)
		}
	}
	if section := d.kind.spec().Section; d.Root.Get(section) != nil {
		out[section] = d.Root.Get(section).Pos
	}
	return out
}

// Place is where the study's file says something of the first of these
// factors of which it says anything, for faults that only the code finds that
// acts on a cell. Where it names none of them it is the section that makes the
// study one of its kind.
func (s *Study) Place(factors ...string) Pos {
	for _, name := range append(factors, s.Kind.spec().Section) {
		if p, ok := s.places[name]; ok {
			return p
		}
	}
	return Pos{File: "study " + s.Name}
}

// levelsAt notes where settings and factors give factors levels. Of a study that a run has
// begun with it notes flags alone.
func (d *Decoder) levelsAt() map[string]Pos {
	out := map[string]Pos{}
	for _, section := range []*Node{d.Root.Get("settings"), d.Root.Get("factors")} {
		if section == nil {
			continue
		}
		for i, k := range section.Keys {
			if pos := section.Values[i].Pos; pos.flag() || !d.begun {
				out[k.Name] = pos
			}
		}
	}
	return out
}

// setBy is the --set flag that gives a factor its levels, if one does.
func (s *Study) setBy(factor string) (Pos, bool) {
	p, ok := s.places[factor]
	return p, ok && p.flag()
}

// checkLevers finds what Kubernetes or istiod would refuse of a cell, or take
// as something else than it says.
func (d *Decoder) checkLevers(p *Plan, cell record.Cell, l ControlLevels) bool {
	fail := func(hint, text, factor, with string) bool {
		d.Fail(p.Study.Place(factor, with), CodeConflict, hint, "cell %s: "+text, p.Label(cell), factor, usualIn(cell, factor), with, usualIn(cell, with))
		return false
	}
	for _, pair := range [][2]string{{FactorIstiodCPURequest, FactorIstiodCPU}, {FactorIstiodMemRequest, FactorIstiodMemory}} {
		if request, limit, ok := bothValues(cell, pair[0], pair[1]); ok && request > limit {
			return fail("Kubernetes refuses a request above its limit: lower the one or raise the other", "%s %s is more than the limit, %s %s", pair[0], pair[1])
		}
	}
	if l.DebounceAfter > l.DebounceMax {
		return fail("istiod never waits longer than debounce_max: raise it too", "%s %s is longer than %s %s", FactorDebounceAfter, FactorDebounceMax)
	}
	if kind, n := l.Arrival(); kind == ArrivalBurst && n > p.Study.ChangesIn(cell) {
		d.Fail(p.Study.Place(FactorChangeArrival), CodeConflict, fmt.Sprintf("burst is all at once; or make at least %d changes", n),
			"cell %s: bursts of %d changes, but a trial makes %d", p.Label(cell), n, p.Study.ChangesIn(cell))
		return false
	}
	return true
}

// usualIn is a cell's level of a lever; of one that is as installed the usual one.
func usualIn(cell record.Cell, factor string) string {
	f, _ := FactorByName(factor)
	if level := cell[factor]; level != LevelInstalled {
		return level
	}
	return f.Usual
}

// bothValues are the levels of two factors as numbers, false unless both are.
func bothValues(cell record.Cell, a, b string) (x, y float64, ok bool) {
	value := func(name string) (float64, bool) {
		f, _ := FactorByName(name)
		return f.Value(cell[name])
	}
	x, ok = value(a)
	if !ok {
		return 0, 0, false
	}
	y, ok = value(b)
	return x, y, ok
}
