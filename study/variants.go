package study

import (
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// FactorVariant is the factor whose levels are the study's variants.
const FactorVariant = "variant"

// ScopeVariant is the scope of the factor variant: its levels decide what it affects.
const ScopeVariant Scope = "variants"

// NamedLevels is an entry of variants: a name for levels of several factors.
type NamedLevels struct {
	Name   string
	Levels record.Cell
}

// variantFactor is in no table: the study defines its levels.
var variantFactor = Factor{Name: FactorVariant, Scope: ScopeVariant, Doc: "One of the study's variants, by its name.",
	Pattern: NamePattern.String(), Parse: func(s string) (string, *Error) {
		if !NamePattern.MatchString(s) {
			return "", Complain(CodeInvalid, NameHint, "invalid variant name %q", Clip(s, 40))
		}
		return s, nil
	}}

// VariantLevels returns the levels of a variant, and false if there is no variant of that name.
func (s *Study) VariantLevels(name string) (record.Cell, bool) {
	for _, v := range s.Variants {
		if v.Name == name {
			return v.Levels, true
		}
	}
	return nil, false
}

// over puts levels over a requested combination. A different variant among them first removes the
// former variant's levels.
func (s *Study) over(requested, levels record.Cell) record.Cell {
	out := requested.With(nil)
	name, ok := levels[FactorVariant]
	if ok && name != requested[FactorVariant] {
		old, _ := s.VariantLevels(requested[FactorVariant])
		for factor := range old {
			out[factor] = s.Settings[factor]
		}
		now, _ := s.VariantLevels(name)
		out = out.With(now)
	}
	return out.With(levels)
}

// VariantsValue maps names to levels.
type VariantsValue struct {
	To *[]NamedLevels
	// made lists variants that another section generates; they are not written.
	made bool
}

func (v VariantsValue) Decode(d *Decoder, n *Node) {
	if n.Kind != Mapping {
		d.Fail(n.Pos, CodeType, "as {plain: {}, small: {payload: 1KiB}}", "variants must map names to levels, not be %s", n.What())
		return
	}
	if len(n.Keys) == 0 {
		d.Fail(n.Pos, CodeMissing, "name a variant, or leave it out", "variants is empty")
		return
	}
	for i, k := range n.Keys {
		if !NamePattern.MatchString(k.Name) {
			d.Fail(k.Pos, CodeInvalid, NameHint+", as no-sidecar", "invalid variant name %q", Clip(k.Name, 40))
			continue
		}
		one := NamedLevels{Name: k.Name}
		if n.Values[i].Kind == Null {
			d.Fail(k.Pos, CodeMissing, "write "+k.Name+": {} for the settings as they are", "%s is empty", k.Name)
			continue
		}
		CellValue{To: &one.Levels, Name: k.Name, Empty: true}.Decode(d, n.Values[i])
		if _, nested := one.Levels[FactorVariant]; nested {
			d.Fail(n.Values[i].Pos, CodeConflict, "name factors", "a variant cannot set variant")
			continue
		}
		*v.To = append(*v.To, one)
	}
}

func (v VariantsValue) Encode() *Node {
	if len(*v.To) == 0 || v.made {
		return nil
	}
	out := &Node{Kind: Mapping}
	for i := range *v.To {
		one := &(*v.To)[i]
		out.Set(one.Name, Pos{}, CellValue{To: &one.Levels, Empty: true}.Encode())
	}
	return out
}

func (v VariantsValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: CellValue{}.Schema()}
}

// resolveVariants adds the factor variant to a study that has variants but does not select any.
func (d *Decoder) resolveVariants(s *Study) {
	_, fixed := s.Settings[FactorVariant]
	if len(s.Variants) == 0 || fixed || s.Varies(FactorVariant) {
		return
	}
	all := record.FactorLevels{Factor: FactorVariant}
	for _, v := range s.Variants {
		all.Levels = append(all.Levels, v.Name)
	}
	s.Factors = append(s.Factors, all)
}

// Chosen returns the variants that the study measures, in the file's order.
func (s *Study) Chosen() []NamedLevels {
	names := s.Varied(FactorVariant)
	if name, fixed := s.Settings[FactorVariant]; fixed {
		names = []string{name}
	}
	return slices.DeleteFunc(slices.Clone(s.Variants), func(v NamedLevels) bool { return !slices.Contains(names, v.Name) })
}

// ofLeftOut reports whether levels are those of a variant that the study does not measure.
func (s *Study) ofLeftOut(partial record.Cell) bool {
	chosen := s.Chosen()
	return slices.ContainsFunc(s.Variants, func(v NamedLevels) bool {
		if slices.ContainsFunc(chosen, func(c NamedLevels) bool { return c.Name == v.Name }) {
			return false
		}
		cell := s.Settings.With(v.Levels).With(record.Cell{FactorVariant: v.Name})
		for factor, level := range partial {
			_, set := cell[factor]
			if set && cell[factor] != level || !set && !slices.Contains(s.Varied(factor), level) {
				return false
			}
		}
		return true
	})
}

// checkVariants finds variants that contradict the rest of the study. It checks the measured ones,
// or all if a section generates and distinguishes them. Unknown variant names are reported where
// cells are read.
func (d *Decoder) checkVariants(s *Study) {
	if _, fixed := s.Settings[FactorVariant]; fixed && s.Varies(FactorVariant) {
		d.Fail(d.Pos("settings", FactorVariant), CodeConflict, "leave it out of one of them", "variant is both in settings and in factors")
	}
	variants := s.Variants
	if !s.Made {
		variants = s.Chosen()
	}
	for i, v := range variants {
		for factor := range v.Levels {
			if s.Varies(factor) {
				d.Fail(d.variantPos(s, v.Name, factor), CodeConflict, "leave it out of one of them", "%s is both in variant %s and in factors", factor, v.Name)
			}
		}
		if s.Made {
			continue // identical variants are merged
		}
		for _, earlier := range variants[:i] {
			if s.Kind.Effective(s.Settings.With(v.Levels)).Key() == s.Kind.Effective(s.Settings.With(earlier.Levels)).Key() {
				d.Fail(d.Pos("variants", v.Name), CodeDuplicate, "give it a level of its own, or leave it out", "variants %s and %s are the same", earlier.Name, v.Name)
			}
		}
	}
}

// variantPos returns the position of a variant's factor in the file.
func (d *Decoder) variantPos(s *Study, name, factor string) Pos {
	if at := s.Kind.spec().MadeAt(s, name, factor); at != nil {
		return d.Pos(at...)
	}
	return d.Pos("variants", name, factor)
}

// KnowsVariant reports whether the study has a variant, and records an error if not.
func (d *Decoder) KnowsVariant(name string, pos Pos) bool {
	var names []string
	if n := d.Root.Get("variants"); n != nil && n.Kind == Mapping {
		for _, k := range n.Keys {
			names = append(names, k.Name)
		}
	}
	names = append(names, d.kind.spec().MadeNames(d.Root)...)
	if slices.Contains(names, name) {
		return true
	}
	if len(names) == 0 {
		d.Fail(pos, CodeUnknown, "variants: {"+Clip(name, 40)+": {...}} makes one", "this study has no variants")
	} else {
		d.Fail(pos, CodeUnknown, errs.Suggest(name, names), "unknown variant %q", Clip(name, 40))
	}
	return false
}
