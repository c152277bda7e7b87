package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// ask is what a study asks of a factor: levels, of settings and factors or of a variant.
type ask struct {
	factor  Factor
	variant string // "" for settings and factors
	levels  []string
}

// path is where it stands, as in [Study.levelsAt].
func (a ask) path() string {
	if a.variant == "" {
		return a.factor.Name
	}
	return "variants." + a.variant + "." + a.factor.Name
}

// something says that there is a question: several levels, or one that cells do not have
// by themselves.
func (a ask) something() bool {
	return len(a.levels) > 1 || len(a.levels) == 1 && a.levels[0] != a.factor.Default && a.levels[0] != a.factor.Usual
}

// allAsks are all asks of a study but those of variants that another section makes.
func (s *Study) allAsks() []ask {
	var out []ask
	add := func(f Factor, variant string, levels []string) {
		if a := (ask{f, variant, levels}); a.something() {
			out = append(out, a)
		}
	}
	for _, f := range s.Kind.Factors() {
		if levels := s.varied(f.Name); levels != nil {
			add(f, "", levels)
		} else if level, ok := s.Settings[f.Name]; ok {
			add(f, "", []string{level})
		}
		for _, v := range s.Variants {
			if level, ok := v.Levels[f.Name]; ok && !s.made() {
				add(f, v.Name, []string{level})
			}
		}
	}
	return out
}

// answers says whether an ask takes effect in a cell: its factor means something there,
// and no variant decides on it in its place.
func (s *Study) answers(requested record.Cell, a ask) bool {
	name := requested[FactorVariant]
	own, _ := s.variantLevels(name)
	if _, sets := own[a.factor.Name]; a.variant == "" && sets || a.variant != "" && a.variant != name {
		return false
	}
	return a.factor.idle == nil || !a.factor.idle(requested)
}

// possible are the combinations of levels of the plan's cells, and those that variants
// which it leaves out would have: what they need may stay.
func (p *Plan) possible() []record.Cell {
	out, measured := slices.Clone(p.requested), p.variants()
	for _, v := range p.Study.Variants {
		if has(measured, v.Name) {
			continue
		}
		for _, requested := range p.requested {
			out = append(out, p.Study.over(requested, record.Cell{FactorVariant: v.Name}))
		}
	}
	return out
}

// unanswered are the asks that no cell answers, nor would one of a variant that is left
// out.
func (p *Plan) unanswered() []ask {
	cells := p.possible()
	return slices.DeleteFunc(p.Study.allAsks(), func(a ask) bool {
		return slices.ContainsFunc(cells, func(requested record.Cell) bool { return p.Study.answers(requested, a) })
	})
}

// vain are the asks of flags that nothing answers, and those of the file that nothing would
// answer without flags either: flags that narrow a study down leave something out, which
// goes without saying.
func (p *Plan) vain() []ask {
	out := p.unanswered()
	if len(out) == 0 || p.Study.alone == nil {
		return out
	}
	alone := p.Study.alone()
	if alone == nil {
		return out
	}
	var always []string
	for _, a := range alone.unanswered() {
		always = append(always, a.path())
	}
	return slices.DeleteFunc(out, func(a ask) bool { return !p.Study.levelsAt[a.path()].flag() && !has(always, a.path()) })
}

// vainNotes say which levels of the file mean nothing in any cell, why, and what to do.
// Those that flags give settings and factors are [Plan.Unmeasured]'s own.
func (p *Plan) vainNotes() []error {
	var out []error
	for _, a := range p.vain() {
		at, ok := p.Study.levelsAt[a.path()]
		if !ok || a.variant == "" && at.flag() {
			continue
		}
		at.Text = "" // it is a note, of one line
		f, levels := a.factor, strings.Join(a.levels, " or ")
		setters := p.Study.settersOf(f.Name)
		switch {
		case a.variant != "":
			out = append(out, at.Errorf("leave it out; "+f.Name+" is: "+f.Doc, "no cell of variant %s has %s %s: it means nothing in any of them", a.variant, f.Name, levels))
		case len(setters) > 0 && len(setters) == len(p.Study.Variants):
			out = append(out, at.Errorf("leave it out", "%s %s changes nothing, as %s", f.Name, levels, p.whoSets(f, setters)))
		default:
			cells, none := "no cell", "any cell"
			if len(setters) > 0 {
				cells, none = "no cell of a variant that does not set it", "any of them"
			}
			out = append(out, at.Errorf("leave it out, or have cells in which it does; "+f.Name+" is: "+f.Doc, "%s has %s %s: it means nothing in %s", cells, f.Name, levels, none))
		}
	}
	return out
}

// settersOf are the variants that set a factor, measured or not.
func (s *Study) settersOf(factor string) []string {
	var out []string
	for _, v := range s.Variants {
		if _, sets := v.Levels[factor]; sets {
			out = append(out, v.Name)
		}
	}
	return out
}

// checkVain finds factors that vary and mean nothing in any cell: the study would not
// answer what they ask. It says whether there are none.
func (d *decoder) checkVain(p *Plan) bool {
	if d.begun {
		return true
	}
	before := len(d.errs)
	for _, a := range p.vain() {
		if a.variant != "" || len(a.levels) < 2 {
			continue
		}
		f := a.factor
		with, instead := p.whereIdle(f)
		d.fail(d.pos("factors", f.Name), "leave it out, or "+instead+"; "+f.Name+" is: "+f.Doc,
			"no cell has %s %s: it means nothing %s", f.Name, strings.Join(a.levels, " or "), with)
	}
	return len(d.errs) == before
}

// whereIdle says with which levels of another factor one means nothing, and how it means
// something: by a flag that the study takes, if there is one.
func (p *Plan) whereIdle(f Factor) (with, instead string) {
	ways := p.wakes(f)
	if len(ways) == 0 {
		return "in any cell", "have cells in which it does"
	}
	text := func(w waking) string {
		return "with " + w.other.Name + ": " + strings.Join(p.levelsOf(w.other), " or ")
	}
	if first := ways[0]; len(p.setters(first.other.Name)) > 0 {
		return text(first), "measure a variant with " + first.other.Name + ": " + first.level
	}
	for _, w := range ways {
		levels := append(p.levelsOf(w.other), w.level)
		if len(p.setters(w.other.Name)) == 0 && p.Study.takes(listFlag(w.other.Name, levels)) {
			return text(w), "--set " + listText(w.other.Name, levels)
		}
	}
	if slices.ContainsFunc(ways, p.excludes) {
		return text(ways[0]), "do not exclude the cells in which it does"
	}
	return text(ways[0]), "have cells in which it does"
}

// levelsOf are the levels of a factor in the cells that are asked for.
func (p *Plan) levelsOf(f Factor) []string {
	var out []string
	for _, requested := range p.requested {
		level := requested[f.Name]
		if level == "" { // it goes without saying
			level = f.Default
		}
		if !has(out, level) {
			out = append(out, level)
		}
	}
	return out
}

// waking is a level of another factor with which one that means nothing in any cell would
// mean something.
type waking struct {
	other Factor
	level string
}

// in is a cell that has the level.
func (w waking) in(requested record.Cell) record.Cell {
	return requested.With(record.Cell{w.other.Name: w.level})
}

// excludes says that the study leaves out cells that have the level.
func (p *Plan) excludes(w waking) bool {
	return slices.ContainsFunc(p.requested, func(requested record.Cell) bool {
		cell := w.in(requested)
		return slices.ContainsFunc(p.Study.Exclude, func(partial record.Cell) bool { return contains(cell, partial) })
	})
}

// wakes finds levels of other factors with which one that means nothing in any cell would
// mean something: first those with which it would in all cells, defaults before others.
func (p *Plan) wakes(f Factor) []waking {
	if f.idle == nil {
		return nil
	}
	var all, some []waking
	for _, byDefault := range []bool{true, false} {
		for _, other := range p.Study.Kind.Factors() {
			levels := []string{other.Default}
			if !byDefault {
				levels = slices.DeleteFunc(slices.Concat(other.Levels, other.Examples), func(l string) bool { return l == other.Default })
			}
			if other.Name == FactorSidecars { // not all meshes have all
				can := carrierLevels(p.Study.Mesh)
				levels = slices.DeleteFunc(levels, func(l string) bool { return !has(can, l) })
			}
			for _, level := range levels {
				w := waking{other, level}
				idle := func(requested record.Cell) bool { return f.idle(w.in(requested)) }
				switch {
				case other.Name == f.Name:
				case !slices.ContainsFunc(p.requested, idle):
					all = append(all, w)
				case slices.ContainsFunc(p.requested, func(requested record.Cell) bool { return !idle(requested) }):
					some = append(some, w)
				}
			}
		}
	}
	return append(all, some...)
}
