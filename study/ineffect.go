package study

import "github.com/meshtrial/meshtrial/record"

// inEffect lists the levels that each factor of the kind has in the cells where it means
// something, in the order of the cells; with those that variants set, or without.
func (p *Plan) inEffect(set bool) map[string][]string {
	out := map[string][]string{}
	for _, requested := range p.requested {
		cell := p.Study.Kind.Effective(requested)
		own, _ := p.Study.variantLevels(requested[FactorVariant])
		for _, f := range p.Study.Kind.Factors() {
			if _, sets := own[f.Name]; sets && !set {
				continue
			}
			level := cell[f.Name]
			if level == "" {
				level = f.Default
			}
			if level != NotApplicable && !has(out[f.Name], level) {
				out[f.Name] = append(out[f.Name], level)
			}
		}
	}
	return out
}

// Fixed are the levels that all cells have in which their factor means something, without
// those of factors that vary or go without saying.
func (p *Plan) Fixed() record.Cell {
	levels := p.inEffect(true)
	out := record.Cell{}
	for _, f := range p.Study.Kind.Factors() {
		if in := levels[f.Name]; len(in) == 1 && !p.Study.varies(f.Name) && !(f.Implied && in[0] == f.Default) {
			out[f.Name] = in[0]
		}
	}
	if name, ok := p.Study.Settings[FactorVariant]; ok {
		out[FactorVariant] = name
	}
	return out
}

// Unlike are the levels in effect of factors that neither the study nor a variant varies:
// what else a cell has decides on them.
func (p *Plan) Unlike() []record.FactorLevels {
	levels := p.inEffect(true)
	var out []record.FactorLevels
	for _, f := range p.Study.Kind.Factors() {
		in := levels[f.Name]
		if len(in) < 2 || p.Study.varies(f.Name) || len(p.setters(f.Name)) > 0 {
			continue
		}
		out = append(out, record.FactorLevels{Factor: f.Name, Levels: in})
	}
	return out
}

// Otherwise are the levels in effect of factors that some variants set, in the cells of
// those that do not.
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

// VariedVariants are the variants that are levels of the plan's factor variant, in their order there.
func (p *Plan) VariedVariants() []NamedLevels {
	var out []NamedLevels
	for _, name := range p.Study.varied(FactorVariant) {
		levels, _ := p.Study.variantLevels(name)
		out = append(out, NamedLevels{Name: name, Levels: levels})
	}
	return out
}

// setters are the variants of the plan's cells that set a factor.
func (p *Plan) setters(factor string) []string {
	var out []string
	for _, name := range p.variants() {
		levels, _ := p.Study.variantLevels(name)
		if _, sets := levels[factor]; sets {
			out = append(out, name)
		}
	}
	return out
}

// variants are the names of the variants that the plan's cells are of, "" for none.
func (p *Plan) variants() []string {
	var out []string
	for _, requested := range p.requested {
		if name := requested[FactorVariant]; !has(out, name) {
			out = append(out, name)
		}
	}
	return out
}
