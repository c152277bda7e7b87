package study

import (
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// FactorVariant is the factor whose levels are the study's variants.
const FactorVariant = "variant"

// ScopeVariant is the scope of the factor variant: what its levels touch.
const ScopeVariant Scope = "variants"

// NamedLevels is an entry of variants: a name for levels of several factors.
type NamedLevels struct {
	Name   string
	Levels record.Cell
}

// variantFactor stands in no table: its levels are the study's own.
var variantFactor = Factor{Name: FactorVariant, Scope: ScopeVariant, Doc: "One of the study's variants, by its name.",
	Pattern: reName.String(), parse: func(s string) (string, *Error) {
		if !reName.MatchString(s) {
			return "", complain(CodeInvalid, nameHint, "invalid variant name %q", clip(s, 40))
		}
		return s, nil
	}}

// variantLevels are the levels of a variant; false if there is none of that
// name.
func (s *Study) variantLevels(name string) (record.Cell, bool) {
	for _, v := range s.Variants {
		if v.Name == name {
			return v.Levels, true
		}
	}
	return nil, false
}

// over puts levels over a requested combination. Another variant among them
// takes the former variant's levels away first.
func (s *Study) over(requested, levels record.Cell) record.Cell {
	out := requested.With(nil)
	name, ok := levels[FactorVariant]
	if ok && name != requested[FactorVariant] {
		old, _ := s.variantLevels(requested[FactorVariant])
		for factor := range old {
			out[factor] = s.Settings[factor]
		}
		now, _ := s.variantLevels(name)
		out = out.With(now)
	}
	return out.With(levels)
}

// variantsValue is the mapping of names to levels.
type variantsValue struct {
	to *[]NamedLevels
	// made are variants that another section makes, and that are not written.
	made bool
}

// made says that the study's variants come from a section that asks something
// of them.
func (s *Study) made() bool { return s.Bill != nil || s.Hops != nil }

func (v variantsValue) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "as {plain: {}, small: {payload: 1KiB}}", "variants maps names to levels; this is %s", n.what())
		return
	}
	if len(n.keys) == 0 {
		d.fail(n.pos, CodeMissing, "leave it out, or name some", "variants names none")
		return
	}
	for i, k := range n.keys {
		if !reName.MatchString(k.name) {
			d.fail(k.pos, CodeInvalid, nameHint+", as no-sidecar", "invalid variant name %q", clip(k.name, 40))
			continue
		}
		one := NamedLevels{Name: k.name}
		if n.values[i].kind == null {
			d.fail(k.pos, CodeMissing, "write "+k.name+": {} for the settings as they are", "%s is empty", k.name)
			continue
		}
		cellValue{to: &one.Levels, name: k.name, empty: true}.decode(d, n.values[i])
		if _, nested := one.Levels[FactorVariant]; nested {
			d.fail(n.values[i].pos, CodeConflict, "name factors", "a variant cannot contain another")
			continue
		}
		*v.to = append(*v.to, one)
	}
}

func (v variantsValue) encode() *node {
	if len(*v.to) == 0 || v.made {
		return nil
	}
	out := &node{kind: mapping}
	for i := range *v.to {
		one := &(*v.to)[i]
		out.set(one.Name, Pos{}, cellValue{to: &one.Levels, empty: true}.encode())
	}
	return out
}

func (v variantsValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: cellValue{}.schema()}
}

// resolveVariants makes the factor variant of a study that has variants but
// does not say which of them to measure.
func (d *decoder) resolveVariants(s *Study) {
	_, fixed := s.Settings[FactorVariant]
	if len(s.Variants) == 0 || fixed || s.varies(FactorVariant) {
		return
	}
	all := record.FactorLevels{Factor: FactorVariant}
	for _, v := range s.Variants {
		all.Levels = append(all.Levels, v.Name)
	}
	s.Factors = append(s.Factors, all)
}

// chosen are the variants that the study measures, in the file's order.
func (s *Study) chosen() []NamedLevels {
	names := s.varied(FactorVariant)
	if name, fixed := s.Settings[FactorVariant]; fixed {
		names = []string{name}
	}
	return slices.DeleteFunc(slices.Clone(s.Variants), func(v NamedLevels) bool { return !has(names, v.Name) })
}

// ofLeftOut says whether levels are those of a variant that the study does not measure.
func (s *Study) ofLeftOut(partial record.Cell) bool {
	chosen := s.chosen()
	return slices.ContainsFunc(s.Variants, func(v NamedLevels) bool {
		if slices.ContainsFunc(chosen, func(c NamedLevels) bool { return c.Name == v.Name }) {
			return false
		}
		cell := s.Settings.With(v.Levels).With(record.Cell{FactorVariant: v.Name})
		for factor, level := range partial {
			_, set := cell[factor]
			if set && cell[factor] != level || !set && !has(s.varied(factor), level) {
				return false
			}
		}
		return true
	})
}

// checkVariants finds variants that contradict the rest of the study: those that it
// measures, and all where a section makes them, which tells them apart. Names
// of variants that do not exist are found wherever cells stand.
func (d *decoder) checkVariants(s *Study) {
	if _, fixed := s.Settings[FactorVariant]; fixed && s.varies(FactorVariant) {
		d.fail(d.pos("settings", FactorVariant), CodeConflict, "leave it out of one of them", "variant is both in settings and in factors")
	}
	variants := s.Variants
	if !s.made() {
		variants = s.chosen()
	}
	for i, v := range variants {
		for factor := range v.Levels {
			if s.varies(factor) {
				d.fail(d.variantPos(s, v.Name, factor), CodeConflict, "leave it out of one of them", "%s is both in variant %s and in factors", factor, v.Name)
			}
		}
		if s.made() {
			continue // alike ones are one
		}
		for _, earlier := range variants[:i] {
			if s.Kind.Effective(s.Settings.With(v.Levels)).Key() == s.Kind.Effective(s.Settings.With(earlier.Levels)).Key() {
				d.fail(d.pos("variants", v.Name), CodeDuplicate, "give it a level of its own, or leave it out", "variants %s and %s are the same", earlier.Name, v.Name)
			}
		}
	}
}

// variantPos is where a variant's factor stands in the file.
func (d *decoder) variantPos(s *Study, name, factor string) Pos {
	if s.Bill == nil {
		return d.pos("variants", name, factor)
	}
	if _, ok := s.Bill.Base[factor]; ok {
		return d.pos("bill", "base", factor)
	}
	return d.pos("bill", "parts", strings.TrimPrefix(name, billWithout), factor)
}

// knowsVariant complains of a variant that the study does not have.
func (d *decoder) knowsVariant(name string, pos Pos) bool {
	var names []string
	if n := d.root.get("variants"); n != nil && n.kind == mapping {
		for _, k := range n.keys {
			names = append(names, k.name)
		}
	}
	if n := d.root.get("bill"); n != nil && n.kind == mapping {
		names = append(names, billNames(n)...)
	}
	if d.root.get("hops") != nil {
		for _, v := range (&Hops{Interception: true}).variants() {
			names = append(names, v.Name)
		}
	}
	if has(names, name) {
		return true
	}
	if len(names) == 0 {
		d.fail(pos, CodeUnknown, "variants: {"+clip(name, 40)+": {...}} makes one", "this study has no variants")
	} else {
		d.fail(pos, CodeUnknown, errs.Suggest(name, names), "unknown variant %q", clip(name, 40))
	}
	return false
}
