package study

import (
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Bill asks what each of some named parts costs: a base cell, each part alone
// put over it, and all together, which shows what they cost beyond their sum.
// It is variants and what to make of them: see [Study.billVariants].
type Bill struct {
	// Base are levels over the settings in every cell of the bill.
	Base record.Cell
	// Parts are what is priced, each by the levels that it changes.
	Parts []NamedLevels
	// Together names the parts that the cell with all has; all of them unless
	// the file says otherwise, as of two levels of one factor it must.
	Together []string
	Direct   string // DirectAdd, DirectRemove or DirectBoth
}

// Directions of a bill.
const (
	// DirectAdd compares each part over the base with the base.
	DirectAdd = "add"
	// DirectRemove compares all together with all but one part.
	DirectRemove = "remove"
	DirectBoth   = "both"
)

// Variants that a bill makes beside its parts.
const (
	BillBase     = "base"
	BillTogether = "together"
	billWithout  = "without-" // and the part's name
)

// additive are the factors of which several levels can be on at once, joined
// by +, with the level that stands for none.
var additive = map[string]string{FactorFilters: FiltersNone}

// Adds says whether parts are also measured alone.
func (b *Bill) Adds() bool { return b.Direct != DirectRemove }

// Removes says whether the whole is also measured without each part.
func (b *Bill) Removes() bool { return b.Direct != DirectAdd }

// part is a part by its name.
func (b *Bill) part(name string) record.Cell {
	for _, p := range b.Parts {
		if p.Name == name {
			return p.Levels
		}
	}
	return nil
}

// Whole says whether parts are measured together.
func (b *Bill) Whole() bool { return len(b.Together) > 1 }

// BillVariant is the variant that has exactly these parts on; false if the
// study has none.
func (s *Study) BillVariant(parts ...string) (string, bool) {
	want := s.billLevels(parts)
	for _, v := range s.Variants {
		if v.Levels.Key() == want.Key() {
			return v.Name, true
		}
	}
	return "", false
}

// BillWithout is the variant with all that are together but one.
func (s *Study) BillWithout(part string) (string, bool) {
	return s.BillVariant(slices.DeleteFunc(slices.Clone(s.Bill.Together), func(p string) bool { return p == part })...)
}

// billLevels are the base's levels with those of some parts over them.
func (s *Study) billLevels(parts []string) record.Cell {
	out := s.Bill.Base.With(nil)
	for _, name := range parts {
		for factor, level := range s.Bill.part(name) {
			out[factor] = s.joined(factor, out[factor], level)
		}
	}
	return out
}

// joined is a factor's level with another one put over it.
func (s *Study) joined(factor, under, over string) string {
	none, ok := additive[factor]
	if !ok {
		return over
	}
	if under == "" {
		under = s.Settings[factor]
	}
	if under == "" || under == none || over == none {
		return over
	}
	both := under + "+" + over
	if f, ok := FactorByName(factor); ok {
		if canonical, err := f.Canonical(both); err == nil {
			return canonical
		}
	}
	return both
}

// billVariants makes the bill's cells: base, base and each part, all together,
// all but each. Two that are the same are one.
func (s *Study) billVariants() []NamedLevels {
	b := s.Bill
	out := []NamedLevels{{BillBase, s.billLevels(nil)}}
	if b.Adds() {
		for _, p := range b.Parts {
			out = append(out, NamedLevels{p.Name, s.billLevels([]string{p.Name})})
		}
	}
	add := func(name string, parts []string) {
		levels := s.billLevels(parts)
		if !slices.ContainsFunc(out, func(v NamedLevels) bool { return v.Levels.Key() == levels.Key() }) {
			out = append(out, NamedLevels{name, levels})
		}
	}
	if b.Whole() {
		add(BillTogether, b.Together)
		for _, name := range b.Together {
			if b.Removes() {
				add(billWithout+name, slices.DeleteFunc(slices.Clone(b.Together), func(p string) bool { return p == name }))
			}
		}
	}
	return out
}

// baseline is the variant that others are compared with, and that runs
// twice in a block.
func (b *Bill) baseline() string {
	if b.Direct == DirectRemove {
		return BillTogether
	}
	return BillBase
}

// resolveBill makes the bill's variants.
func (d *decoder) resolveBill(s *Study) {
	b := s.Bill
	if b == nil {
		return
	}
	if len(s.Variants) > 0 {
		d.fail(d.pos("variants"), CodeConflict, "leave it out, or the bill", "the bill makes this study's variants")
		return
	}
	if _, chosen := s.Settings[FactorVariant]; chosen {
		d.fail(d.pos("settings", FactorVariant), CodeConflict, "leave it out", "a bill needs all its cells, as prices are differences between them")
		return
	}
	if len(b.Together) == 0 {
		for _, p := range b.Parts {
			b.Together = append(b.Together, p.Name)
		}
	}
	d.checkBill(s)
	if len(d.errs) > 0 {
		return
	}
	s.Variants = s.billVariants()
	for i, name := range s.varied(FactorVariant) {
		if _, ok := s.variantLevels(name); !ok {
			d.fail(d.pos("factors", FactorVariant, i), CodeUnknown, "leave it out", "the bill makes no variant %s: it is that of other parts, or another direction's", name)
		}
	}
}

// checkBill finds parts that are none, and such as cannot be on together.
func (d *decoder) checkBill(s *Study) {
	b := s.Bill
	names := make([]string, len(b.Parts))
	for i, p := range b.Parts {
		names[i] = p.Name
		if changesNothing(s, p) {
			d.fail(d.pos("bill", "parts", p.Name), CodeConflict, "give it a level that the base does not have", "part %s changes nothing", p.Name)
		}
		for _, earlier := range b.Parts[:i] {
			if earlier.Levels.Key() == p.Levels.Key() {
				d.fail(d.pos("bill", "parts", p.Name), CodeDuplicate, "leave one of them out", "parts %s and %s are the same", earlier.Name, p.Name)
			}
		}
	}
	setBy := map[string]string{}
	for i, name := range b.Together {
		at := d.pos("bill", "together", i)
		if !has(names, name) {
			d.fail(at, CodeUnknown, errs.Suggest(name, names), "together names no part of the bill: %q", clip(name, 40))
			continue
		}
		if slices.Contains(b.Together[:i], name) {
			d.fail(at, CodeDuplicate, "leave one out", "together names %s twice", name)
			continue
		}
		levels := b.part(name)
		for _, f := range dataFactors {
			level, ok := levels[f.Name]
			if _, adds := additive[f.Name]; !ok || adds {
				continue
			}
			if other, taken := setBy[f.Name]; taken && b.part(other)[f.Name] != level {
				d.fail(d.pos("bill", "parts", name, f.Name), CodeConflict, "name in bill.together the parts that can be on at once, as together: ["+other+", ...]",
					"parts %s and %s cannot be on together: %s is %s in the one and %s in the other", other, name, f.Name, b.part(other)[f.Name], level)
			} else {
				setBy[f.Name] = name
			}
		}
	}
	if b.Removes() {
		for _, name := range names {
			if !has(b.Together, name) && b.Direct == DirectRemove {
				d.fail(d.pos("bill", "parts", name), CodeConflict, "add it to together, leave it out, or set direct: both", "part %s cannot be removed: it is not in together", name)
			}
		}
		if len(b.Together) < 2 {
			d.fail(d.pos("bill", "direct"), CodeConflict, "leave direct out", "with a single part, removing it says the same as adding it")
		}
	}
	for _, v := range s.billVariants() {
		for factor := range additive {
			f, _ := DataPlane.Factor(factor)
			if level, ok := v.Levels[factor]; ok {
				if _, c := f.parse(level); c != nil {
					at := d.pos("bill", "parts", v.Name, factor)
					if v.Name == BillTogether {
						at = d.pos("bill", "together")
					}
					d.fail(at, c.Code, "name in bill.together the parts that can be on at once", "%s: %s: %s", v.Name, factor, c.Msg)
					return
				}
			}
		}
	}
	if !s.Measured(MeasureCPU) {
		d.fail(d.pos("measures"), CodeConflict, "add cpu", "a bill is about CPU, which is not measured")
	}
}

// checkBillCells finds cells of which two variants come to the same: a price
// would be that of nothing, and told as one.
func (d *decoder) checkBillCells(p *Plan) {
	if p.Study.Bill == nil {
		return
	}
	variants := map[string]string{} // by the other factors, as they take effect
	for _, cell := range p.Cells {
		rest, name := cell.With(nil), cell[FactorVariant]
		delete(rest, FactorVariant)
		other, taken := variants[rest.Key()]
		if !taken {
			variants[rest.Key()] = name
			continue
		}
		at := d.pos("bill", "parts", name)
		if p.Study.Bill.part(name) == nil {
			at = d.pos("bill", "parts", other)
		}
		where := ""
		if of := p.Short(rest); len(of) > 0 {
			where = " where " + of.Key()
		}
		d.fail(at, CodeDuplicate, "it takes a sidecar that has the part: exclude cells without one, or leave the part out",
			"%s and %s are the same%s", other, name, where)
		return
	}
}

// changesNothing says that every level of a part is the base's already.
func changesNothing(s *Study, p NamedLevels) bool {
	for name, level := range p.Levels {
		f, _ := DataPlane.Factor(name)
		under := f.Default
		if l, ok := s.Settings[name]; ok {
			under = l
		}
		if l, ok := s.Bill.Base[name]; ok {
			under = l
		}
		if level != under {
			return false
		}
	}
	return true
}

// billNames are the variants that a file's bill makes.
func billNames(bill *node) []string {
	out := []string{BillBase, BillTogether}
	if parts := bill.get("parts"); parts != nil && parts.kind == mapping {
		for _, k := range parts.keys {
			out = append(out, k.name, billWithout+k.name)
		}
	}
	return out
}

// billSection is the section bill.
func billSection(to **Bill) value {
	return statedValue[Bill]{to, func() Bill { return Bill{Direct: DirectAdd, Base: record.Cell{}} }, billFields}
}

func billFields(b *Bill) object {
	return object{name: "bill", fields: []field{
		{name: "base", doc: "Levels over the settings in every cell of the bill.", value: cellValue{to: &b.Base, name: "base", empty: true}},
		{name: "parts", required: true, doc: "Parts to price: names, each with the levels that it changes.", value: partsValue{&b.Parts}},
		{name: "together", doc: "The parts that are on in the cell with all parts; every part if left out.", value: listValue[string]{to: &b.Together, least: 1, flow: true,
			element: func(s *string) value {
				return textValue{to: s, pattern: reName, noun: "part", hint: "use the name of a part"}
			}}},
		{name: "direct", doc: "add: each part added to the base; remove: each part removed from all together, which alone shows what removing it saves; both.",
			value: textValue{to: &b.Direct, oneOf: []string{DirectAdd, DirectRemove, DirectBoth}}},
	}}
}

// partsValue is the mapping of a bill's parts to their levels.
type partsValue struct{ to *[]NamedLevels }

func (v partsValue) decode(d *decoder, n *node) {
	const hint = "as {access-log: {telemetry: access-log-text}}"
	if n.kind != mapping {
		d.fail(n.pos, CodeType, hint, "parts maps names to levels; this is %s", n.what())
		return
	}
	if len(n.keys) == 0 {
		d.fail(n.pos, CodeMissing, hint, "parts is empty")
		return
	}
	for i, k := range n.keys {
		one := NamedLevels{Name: k.name}
		switch {
		case !reName.MatchString(k.name):
			d.fail(k.pos, CodeInvalid, nameHint+", as access-log", "invalid part name %q", clip(k.name, 40))
			continue
		case k.name == BillBase, k.name == BillTogether, strings.HasPrefix(k.name, billWithout):
			d.fail(k.pos, CodeConflict, "another name", "%s is a name that the bill itself gives", clip(k.name, 40))
			continue
		case n.values[i].kind == null:
			d.fail(k.pos, CodeMissing, "name the levels that it changes", "part %s is empty", k.name)
			continue
		}
		cellValue{to: &one.Levels, name: "part " + k.name}.decode(d, n.values[i])
		if _, nested := one.Levels[FactorVariant]; nested {
			d.fail(n.values[i].pos, CodeConflict, "name factors", "a part cannot contain a variant")
			continue
		}
		*v.to = append(*v.to, one)
	}
}

func (v partsValue) encode() *node { return variantsValue{to: v.to}.encode() }

func (v partsValue) schema() *jsonschema.Schema { return variantsValue{}.schema() }
