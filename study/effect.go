package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// inEffect lists, in cell order, the levels of each factor of the kind in the cells where the
// factor applies. set includes the levels set by variants.
func (p *Plan) inEffect(set bool) map[string][]string {
	out := map[string][]string{}
	for _, requested := range p.requested {
		cell := p.Study.Kind.Effective(requested)
		own, _ := p.Study.VariantLevels(requested[FactorVariant])
		for _, f := range p.Study.Kind.Factors() {
			if _, sets := own[f.Name]; sets && !set {
				continue
			}
			level := cell[f.Name]
			if level == "" {
				level = f.Default
			}
			if level != NotApplicable && !slices.Contains(out[f.Name], level) {
				out[f.Name] = append(out[f.Name], level)
			}
		}
	}
	return out
}

// Fixed returns the levels shared by all cells in which their factor applies. It omits factors that
// vary and implied defaults.
func (p *Plan) Fixed() record.Cell {
	levels := p.inEffect(true)
	out := record.Cell{}
	for _, f := range p.Study.Kind.Factors() {
		if in := levels[f.Name]; len(in) == 1 && !p.Study.Varies(f.Name) && !(f.Implied && in[0] == f.Default) {
			out[f.Name] = in[0]
		}
	}
	if name, ok := p.Study.Settings[FactorVariant]; ok {
		out[FactorVariant] = name
	}
	return out
}

// Unlike returns the effective levels of factors that neither the study nor a variant varies: other
// levels of the cell determine them.
func (p *Plan) Unlike() []record.FactorLevels {
	levels := p.inEffect(true)
	var out []record.FactorLevels
	for _, f := range p.Study.Kind.Factors() {
		in := levels[f.Name]
		if len(in) < 2 || p.Study.Varies(f.Name) || len(p.setters(f.Name)) > 0 {
			continue
		}
		out = append(out, record.FactorLevels{Factor: f.Name, Levels: in})
	}
	return out
}

// Otherwise returns, for factors set by some variants, the effective levels in the cells of the
// other variants.
func (p *Plan) Otherwise() []record.FactorLevels {
	all, unset := p.inEffect(true), p.inEffect(false)
	var out []record.FactorLevels
	for _, f := range p.Study.Kind.Factors() {
		if in := unset[f.Name]; len(in) > 0 && len(all[f.Name]) > 1 && len(p.setters(f.Name)) > 0 {
			out = append(out, record.FactorLevels{Factor: f.Name, Levels: in})
		}
	}
	return out
}

// VariedVariants returns the variants that are levels of the plan's factor variant, in that order.
func (p *Plan) VariedVariants() []NamedLevels {
	var out []NamedLevels
	for _, name := range p.Study.Varied(FactorVariant) {
		levels, _ := p.Study.VariantLevels(name)
		out = append(out, NamedLevels{Name: name, Levels: levels})
	}
	return out
}

// setters returns the variants of the plan's cells that set a factor.
func (p *Plan) setters(factor string) []string {
	var out []string
	for _, name := range p.variants() {
		levels, _ := p.Study.VariantLevels(name)
		if _, sets := levels[factor]; sets {
			out = append(out, name)
		}
	}
	return out
}

// variants returns the names of the variants used by the plan's cells, "" for none.
func (p *Plan) variants() []string {
	var out []string
	for _, requested := range p.requested {
		if name := requested[FactorVariant]; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// leavesOut reports whether the study measures only some of its variants.
func (s *Study) leavesOut() bool { return len(s.Chosen()) < len(s.Variants) }

// given lists the levels that the study's file or flags give a factor in settings or factors, and
// their position. It returns nil for a factor named in neither.
func (s *Study) given(factor string) ([]string, Pos) {
	at, ok := s.levelsAt[factor]
	if !ok {
		return nil, Pos{}
	}
	if levels := s.Varied(factor); levels != nil {
		return levels, at
	}
	return []string{s.Settings[factor]}, at
}

// Unmeasured lists the levels in settings and factors that no cell has, as notes with a position
// and a hint. It ignores levels of the file that flags or omitted variants have overridden:
// narrowing a study down is not a mistake.
func (p *Plan) Unmeasured() []error {
	s := p.Study
	inEffect := p.inEffect(false)
	narrowed := s.flags || s.leavesOut()
	var out []error
	for _, f := range s.Kind.Factors() {
		levels, at := s.given(f.Name)
		if levels == nil || narrowed && !at.flag() {
			continue
		}
		at.Text = "" // notes are single-line
		overridden := len(p.setters(f.Name)) == len(p.variants())
		byDefault := len(levels) == 1 && (levels[0] == f.Default || levels[0] == f.Usual)
		lacking := slices.DeleteFunc(slices.Clone(levels), func(level string) bool { return slices.Contains(inEffect[f.Name], level) })
		switch {
		case len(lacking) == 0:
		case byDefault && (!at.flag() || !overridden && len(inEffect[f.Name]) == 0): // cells have it anyway
		case overridden:
			out = append(out, at.Fault(CodeNoEffect, "leave it out, or change the section that sets it: variants, bill or hops",
				"%s %s has no effect: every variant that is measured sets %s", f.Name, strings.Join(levels, " or "), f.Name))
		default:
			out = append(out, at.Fault(CodeNoEffect, noEffectHint(f), "no cell has %s %s", f.Name, strings.Join(lacking, " or ")))
		}
	}
	return slices.Concat(out, p.sizingNotes(), p.searchNotes())
}

// Notes lists the [Plan.Unmeasured] levels and the kind's notes about the plan.
func (p *Plan) Notes() []error { return append(p.Unmeasured(), p.Study.Kind.spec().Notes(p)...) }

// noEffectHint suggests what to do about a factor without effect.
func noEffectHint(f Factor) string {
	return "leave it out, or add cells in which it has an effect; " + f.Name + " is: " + f.Doc
}

// checkEffect rejects factors that vary without any effect, since the study would not answer its
// question. Like [Plan.Unmeasured] it accepts what flags or omitted variants override. It reports
// whether there are no such factors.
func (d *Decoder) checkEffect(p *Plan) bool {
	if d.begun {
		return true
	}
	inEffect := p.inEffect(false)
	narrowed := p.Study.flags || p.Study.leavesOut()
	ok := true
	for _, f := range p.Study.Kind.Factors() {
		levels, at := p.Study.given(f.Name)
		if len(levels) < 2 || len(inEffect[f.Name]) > 0 || narrowed && !at.flag() {
			continue
		}
		d.Fail(at, CodeNoEffect, noEffectHint(f), "no cell has %s %s", f.Name, strings.Join(levels, " or "))
		ok = false
	}
	return ok
}
