package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// levelsAt notes where factors are given levels: in settings and factors by their names, in
// variants by paths as variants.few.rate. Of a study that a run has begun with only flags
// are asked.
func (d *decoder) levelsAt() map[string]Pos {
	out := map[string]Pos{}
	note := func(section *node, path string) {
		if section == nil {
			return
		}
		for i, k := range section.keys {
			if pos := section.values[i].pos; pos.flag() || !d.begun {
				out[path+k.name] = pos
			}
		}
	}
	note(d.root.get("settings"), "")
	note(d.root.get("factors"), "")
	if variants := d.root.get("variants"); variants != nil {
		for i, k := range variants.keys {
			note(variants.values[i], "variants."+k.name+".")
		}
	}
	return out
}

// With is the plan of the study with more --set flags, nil if they are refused.
func (s *Study) With(sets ...string) *Plan {
	if s.with == nil {
		return nil
	}
	other, err := s.with(sets...)
	if err != nil {
		return nil
	}
	p, err := NewPlan(other, max(other.Seed, 1))
	if err != nil {
		return nil
	}
	return p
}

// takes says that the study takes more --set flags, as a shell has read them: only those
// are of use in a hint.
func (s *Study) takes(sets ...string) bool {
	if s.with == nil {
		return false
	}
	_, err := s.with(sets...)
	return err == nil
}

// flag says that a place is a --set flag.
func (p Pos) flag() bool { return strings.HasPrefix(p.File, "--set ") }

// Unmeasured says which levels that the study asks for no cell has because of them, and
// which --set flags change nothing, why, and in its hints what to do about it. Of the
// file's own levels it tells those that mean nothing in any cell.
func (p *Plan) Unmeasured() []error {
	levels := p.inEffect(false)
	var out []error
	for _, f := range p.Study.Kind.Factors() {
		pos, ok := p.Study.levelsAt[f.Name]
		if !ok || !pos.flag() {
			continue
		}
		setters := p.setters(f.Name)
		if len(setters) == len(p.variants()) {
			why, hint := p.whyNothing(f, setters)
			out = append(out, pos.Errorf(hint, "it changes nothing, as %s", why))
			continue
		}
		asked := p.Study.varied(f.Name)
		if asked == nil {
			asked = []string{p.Study.Settings[f.Name]}
		}
		in := levels[f.Name]
		lacking := slices.DeleteFunc(slices.Clone(asked), func(level string) bool {
			return has(in, level) || len(in) == 0 && level == f.Default
		})
		if len(lacking) == 0 {
			continue
		}
		cells, none := "no cell", "any cell"
		if len(setters) > 0 {
			cells, none = "no cell of a variant that does not set it", "any of them"
		}
		why, hint := "it means nothing in "+none, "leave it out, or have cells in which it does"
		if len(in) > 0 {
			why, hint = "those there are have "+strings.Join(in, ", "), "see what else decides on it"
		}
		out = append(out, pos.Errorf(hint+"; "+f.Name+" is: "+f.Doc, "%s has %s %s: %s", cells, f.Name, strings.Join(lacking, " or "), why))
	}
	return slices.Concat(out, p.vainNotes(), p.sizingNotes(), p.searchNotes())
}

// whoSets says who sets a factor in all cells.
func (p *Plan) whoSets(f Factor, setters []string) string {
	switch {
	case p.Study.Hops != nil:
		return "hops set " + f.Name + " in every cell"
	case p.Study.Bill != nil:
		return "the bill's base or parts set " + f.Name + " in every cell"
	case len(setters) == 1:
		return "variant " + setters[0] + " sets " + f.Name + " itself"
	}
	return "every variant sets " + f.Name + " itself"
}

// whyNothing says who sets a factor in all cells, in place of a flag, and what to do: a
// flag that the study would take with, if there is one.
func (p *Plan) whyNothing(f Factor, setters []string) (why, hint string) {
	s, level := p.Study, p.Study.Settings[f.Name]
	why, hint = p.whoSets(f, setters), "leave it out"
	var paths, having []string
	switch {
	case s.Hops != nil:
		return why, hint
	case s.Bill != nil:
		paths = []string{"bill.base"}
	default:
		hint = "leave it out, or measure a variant that does not set it"
		for _, name := range setters {
			if levels, _ := s.variantLevels(name); levels[f.Name] == level {
				having = append(having, name)
			} else {
				paths = append(paths, "variants."+name)
			}
		}
	}
	if len(having) > 0 {
		hint += "; " + f.Name + " " + level + " is that of " + strings.Join(having, ", ")
	}
	for _, path := range paths {
		if !s.takes(flagText(path+"."+f.Name, level)) {
			continue
		}
		flag, instead := "--set "+FlagText(path+"."+f.Name, level), " in its place"
		if name, of := strings.CutPrefix(path, "variants."); of && len(setters) > 1 {
			instead = ", for variant " + name + " alone"
		}
		return why, flag + instead
	}
	return why, hint
}

// noBaseline says why nothing is what a cell would be compared with: some of the
// baseline's levels are in no cell, or a variant does not have them, or the cell is
// excluded. wanted are the levels that it would have.
func (p *Plan) noBaseline(cell, wanted record.Cell) complaint {
	none := ", or --set baseline={}" + p.Study.withoutStop("baseline={}") + " to compare nothing"
	if lacking, hints, flags := p.baselineLacks(); len(lacking) > 0 {
		return complaint{
			msg:  fmt.Sprintf("{%s} is not measured, and cell %s would be compared with it", strings.Join(lacking, ", "), p.Label(cell)),
			hint: strings.Join(hints, " ") + p.Study.withoutStop(flags...) + none}
	}
	if own, instead := p.baselineOfVariant(wanted); own != "" {
		return complaint{
			msg:  fmt.Sprintf("variant %s with %s is not measured, and cell %s would be compared with it", wanted[FactorVariant], own, p.Label(cell)),
			hint: instead + none}
	}
	hint := "measure that too"
	if slices.ContainsFunc(p.Study.Exclude, func(partial record.Cell) bool { return contains(wanted, partial) }) {
		hint = "do not exclude it"
	}
	return complaint{
		msg:  fmt.Sprintf("cell %s would be compared with %s, which is not measured", p.Label(cell), p.Label(p.effective(wanted))),
		hint: hint + none}
}

// baselineLacks lists the baseline's levels that no cell has, and how each gets into one:
// by flags, where none is of a variant.
func (p *Plan) baselineLacks() (lacking, hints, flags []string) {
	variants := false
	for _, factor := range slices.Sorted(maps.Keys(p.Study.Baseline)) {
		f, _ := p.Study.Kind.Factor(factor)
		level, in := p.Study.Baseline[factor], []string(nil)
		for _, requested := range p.requested[:p.given] {
			l := requested[factor]
			if l == "" { // it goes without saying
				l = f.Default
			}
			if !has(in, l) {
				in = append(in, l)
			}
		}
		if has(in, level) {
			continue
		}
		lacking = append(lacking, factor+": "+level)
		if len(p.setters(factor)) > 0 {
			hints, variants = append(hints, "measure a variant with "+factor+": "+level), true
		} else {
			with := append([]string{level}, in...)
			hints, flags = append(hints, "--set "+listText(factor, with)), append(flags, listFlag(factor, with))
		}
	}
	if variants {
		flags = nil
	}
	return lacking, hints, flags
}

// baselineOfVariant lists the levels of the baseline in whose place the variant of wanted
// has its own, so that there is no such cell; "" if there are none. instead says which
// baseline could be meant.
func (p *Plan) baselineOfVariant(wanted record.Cell) (own, instead string) {
	levels, _ := p.Study.variantLevels(wanted[FactorVariant])
	meant, replaced := p.Study.Baseline.With(nil), record.Cell{}
	var words []string
	for _, factor := range slices.Sorted(maps.Keys(p.Study.Baseline)) {
		level := p.Study.Baseline[factor]
		if set, ok := levels[factor]; ok && set != level {
			words, replaced[factor] = append(words, factor+": "+level), level
			delete(meant, factor)
		}
	}
	if len(words) == 0 {
		return "", ""
	}
	own = strings.Join(words, " and ")
	for _, requested := range p.requested[:p.given] {
		meant[FactorVariant] = requested[FactorVariant]
		if contains(requested, replaced) && p.compares(meant) {
			return own, "--set " + cellText("baseline", meant)
		}
	}
	return own, "name a variant with " + own + " in the baseline"
}

// compares says whether every cell has one to be compared with by a baseline.
func (p *Plan) compares(baseline record.Cell) bool {
	return !slices.ContainsFunc(p.requested, func(requested record.Cell) bool {
		_, ok := p.index[p.effective(p.Study.over(requested, baseline)).Key()]
		return !ok
	})
}
