package dataplane

import (
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Bill asks what each of some named parts costs: a base cell, each part alone put over it, and all
// together, which shows any cost beyond their sum. It is implemented by variants and their
// evaluation: see [billVariants].
type Bill struct {
	// Base holds levels over the settings in every cell of the bill.
	Base record.Cell
	// Parts lists the priced parts, each with the levels that it changes.
	Parts []study.NamedLevels
	// Together names the parts in the cell with all parts. It defaults to all of them; the file
	// must choose if two are levels of one factor.
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

// Variants that a bill generates in addition to its parts.
const (
	BillBase     = "base"
	BillTogether = "together"
	billWithout  = "without-" // followed by the part's name
)

// Adds reports whether parts are also measured alone.
func (b *Bill) Adds() bool { return b.Direct != DirectRemove }

// Removes reports whether the whole is also measured without each part.
func (b *Bill) Removes() bool { return b.Direct != DirectAdd }

func (b *Bill) part(name string) record.Cell {
	for _, p := range b.Parts {
		if p.Name == name {
			return p.Levels
		}
	}
	return nil
}

// Whole reports whether parts are measured together.
func (b *Bill) Whole() bool { return len(b.Together) > 1 }

// BillVariant returns the variant that has exactly these parts on, and false if the study has none.
func BillVariant(s *study.Study, parts ...string) (string, bool) {
	want := billLevels(s, parts)
	for _, v := range s.Variants {
		if v.Levels.Key() == want.Key() {
			return v.Name, true
		}
	}
	return "", false
}

// BillWithout returns the variant with all parts of the whole but one.
func BillWithout(s *study.Study, part string) (string, bool) {
	return BillVariant(s, Of(s).Bill.others(part)...)
}

func (b *Bill) others(part string) []string {
	return slices.DeleteFunc(slices.Clone(b.Together), func(p string) bool { return p == part })
}

// billLevels returns the base's levels with those of some parts over them.
func billLevels(s *study.Study, parts []string) record.Cell {
	out := Of(s).Bill.Base.With(nil)
	for _, name := range parts {
		for factor, level := range Of(s).Bill.part(name) {
			out[factor] = joined(s, factor, out[factor], level)
		}
	}
	return out
}

// joined returns a factor's level with another one put over it.
func joined(s *study.Study, factor, under, over string) string {
	if factor != FactorFilters { // which alone can have several levels at once, joined by +
		return over
	}
	if under == "" {
		under = s.Settings[factor]
	}
	if under == "" || under == FiltersNone || over == FiltersNone {
		return over
	}
	both := under + partSeparator + over
	if level, c := filtersLevel(both); c == nil {
		return level
	}
	return both
}

// billVariants generates the bill's cells: base, base and each part, all together, and all but
// each. Identical cells are merged.
func billVariants(s *study.Study) []study.NamedLevels {
	b := Of(s).Bill
	out := []study.NamedLevels{{Name: BillBase, Levels: billLevels(s, nil)}}
	if b.Adds() {
		for _, p := range b.Parts {
			out = append(out, study.NamedLevels{Name: p.Name, Levels: billLevels(s, []string{p.Name})})
		}
	}
	add := func(name string, parts []string) {
		levels := billLevels(s, parts)
		if !slices.ContainsFunc(out, func(v study.NamedLevels) bool { return v.Levels.Key() == levels.Key() }) {
			out = append(out, study.NamedLevels{Name: name, Levels: levels})
		}
	}
	if b.Whole() {
		add(BillTogether, b.Together)
		for _, name := range b.Together {
			if b.Removes() {
				add(billWithout+name, b.others(name))
			}
		}
	}
	return out
}

// baseline returns the variant that others are compared with, which runs twice in a block.
func (b *Bill) baseline() string {
	if b.Direct == DirectRemove {
		return BillTogether
	}
	return BillBase
}

func resolveBill(d *study.Decoder, s *study.Study) {
	b := Of(s).Bill
	if b == nil {
		return
	}
	if len(s.Variants) > 0 {
		d.Fail(d.Pos("variants"), study.CodeConflict, "leave it out, or the bill", "the bill makes this study's variants")
		return
	}
	if _, chosen := s.Settings[study.FactorVariant]; chosen {
		d.Fail(d.Pos("settings", study.FactorVariant), study.CodeConflict, "leave it out", "a bill needs all its cells, because prices are differences between them")
		return
	}
	if len(b.Together) == 0 {
		for _, p := range b.Parts {
			b.Together = append(b.Together, p.Name)
		}
	}
	checkBill(d, s)
	if len(d.Errs) > 0 {
		return
	}
	s.Variants = billVariants(s)
	for i, name := range s.Varied(study.FactorVariant) {
		if _, ok := s.VariantLevels(name); !ok {
			d.Fail(d.Pos("factors", study.FactorVariant, i), study.CodeUnknown, "leave it out", "the bill has no variant %s: that belongs to other parts or the other direction", name)
		}
	}
}

// checkBill finds invalid parts, and parts that cannot be on together.
func checkBill(d *study.Decoder, s *study.Study) {
	b := Of(s).Bill
	names := make([]string, len(b.Parts))
	for i, p := range b.Parts {
		names[i] = p.Name
	}
	setBy := map[string]string{}
	for i, name := range b.Together {
		at := d.Pos("bill", "together", i)
		if !slices.Contains(names, name) {
			d.Fail(at, study.CodeUnknown, errs.Suggest(name, names), "together names an unknown part: %q", study.Clip(name, 40))
			continue
		}
		if slices.Contains(b.Together[:i], name) {
			d.Fail(at, study.CodeDuplicate, "leave one out", "together names %s twice", name)
			continue
		}
		levels := b.part(name)
		for _, f := range factors {
			level, ok := levels[f.Name]
			if !ok {
				continue
			}
			other, taken := setBy[f.Name]
			theirs := b.part(other)[f.Name]
			if taken && theirs != level && (f.Name != FactorFilters || theirs == FiltersNone || level == FiltersNone) {
				d.Fail(d.Pos("bill", "parts", name, f.Name), study.CodeConflict, "list in bill.together the parts that can be on at once, for example together: ["+other+", ...]",
					"parts %s and %s cannot be on together: %s is %s in one and %s in the other", other, name, f.Name, theirs, level)
			} else {
				setBy[f.Name] = name
			}
		}
	}
	if b.Removes() {
		for _, name := range names {
			if !slices.Contains(b.Together, name) && b.Direct == DirectRemove {
				d.Fail(d.Pos("bill", "parts", name), study.CodeConflict, "add it to together, leave it out, or set direct: both", "part %s cannot be removed: it is not in together", name)
			}
		}
		if len(b.Together) < 2 {
			d.Fail(d.Pos("bill", "direct"), study.CodeConflict, "leave direct out", "with a single part, removing it is the same as adding it")
		}
		whole := billLevels(s, b.Together).Key()
		for _, name := range b.Together {
			if len(d.Errs) == 0 && billLevels(s, b.others(name)).Key() == whole {
				d.Fail(d.Pos("bill", "parts", name), study.CodeConflict, "set direct: add, or leave the part out", "removing part %s changes nothing: other parts also set its levels", name)
			}
		}
	}
	for _, v := range billVariants(s) {
		level, ok := v.Levels[FactorFilters]
		if !ok {
			continue
		}
		if _, c := filtersLevel(level); c != nil {
			at := d.Pos("bill", "parts", v.Name, FactorFilters)
			if v.Name == BillTogether {
				at = d.Pos("bill", "together")
			}
			d.Fail(at, c.Code, "list in bill.together the parts that can be on at once", "%s: %s: %s", v.Name, FactorFilters, c.Msg)
			return
		}
	}
	if !s.Measured(study.MeasureCPU) {
		d.Fail(d.Pos("measures"), study.CodeConflict, "add cpu", "a bill needs CPU, which is not measured")
	}
}

// checkBillCells finds variants that amount to the same cell, whose price would be that of nothing.
func checkBillCells(d *study.Decoder, p *study.Plan) {
	if Of(p.Study).Bill == nil {
		return
	}
	variants := map[string]string{} // by the other factors, in effect
	for _, cell := range p.Cells {
		rest, name := cell.With(nil), cell[study.FactorVariant]
		delete(rest, study.FactorVariant)
		other, taken := variants[rest.Key()]
		if !taken {
			variants[rest.Key()] = name
			continue
		}
		at := d.Pos("bill", "parts", name)
		if Of(p.Study).Bill.part(name) == nil {
			at = d.Pos("bill", "parts", other)
		}
		where := ""
		if of := p.Short(rest); len(of) > 0 {
			where = " where " + of.Key()
		}
		d.Fail(at, study.CodeDuplicate, "set levels that the others do not have; only a sidecar can have the part: exclude cells without one, or leave the part out",
			"%s and %s are the same%s", other, name, where)
		return
	}
}

// billNames returns the variants that a file's bill generates.
func billNames(bill *study.Node) []string {
	out := []string{BillBase, BillTogether}
	if parts := bill.Get("parts"); parts != nil && parts.Kind == study.Mapping {
		for _, k := range parts.Keys {
			out = append(out, k.Name, billWithout+k.Name)
		}
	}
	return out
}

func billFields(b *Bill) study.Object {
	return study.Object{Name: "bill", Fields: []study.Field{
		{Name: "base", Doc: "Levels on top of the settings in every cell of the bill.", Value: study.CellValue{To: &b.Base, Name: "base", Empty: true}},
		{Name: "parts", Required: true, Doc: "Parts to price: names, each with the levels that it changes.", Value: partsValue{&b.Parts}},
		{Name: "together", Doc: "The parts that are on in the cell with all parts; all if left out.", Value: study.ListValue[string]{To: &b.Together, Least: 1, Flow: true,
			Element: func(s *string) study.Value {
				return study.Named(s, study.NamePattern, "part", "use the name of a part")
			}}},
		{Name: "direct", Doc: "How parts are priced: add (each part added to the base), remove (each part removed from all together, which shows what removing it saves), or both.",
			Value: study.OneOf(&b.Direct, DirectAdd, DirectRemove, DirectBoth)},
	}}
}

// partsValue maps a bill's parts to their levels.
type partsValue struct{ to *[]study.NamedLevels }

func (v partsValue) Decode(d *study.Decoder, n *study.Node) {
	const hint = "as {access-log: {telemetry: access-log-text}}"
	if n.Kind != study.Mapping {
		d.Fail(n.Pos, study.CodeType, hint, "parts must map names to levels, not be %s", n.What())
		return
	}
	if len(n.Keys) == 0 {
		d.Fail(n.Pos, study.CodeMissing, hint, "parts is empty")
		return
	}
	for i, k := range n.Keys {
		one := study.NamedLevels{Name: k.Name}
		switch {
		case !study.NamePattern.MatchString(k.Name):
			d.Fail(k.Pos, study.CodeInvalid, study.NameHint+", as access-log", "invalid part name %q", study.Clip(k.Name, 40))
			continue
		case k.Name == BillBase, k.Name == BillTogether, strings.HasPrefix(k.Name, billWithout):
			d.Fail(k.Pos, study.CodeConflict, "another name", "%s is a name that the bill uses itself", study.Clip(k.Name, 40))
			continue
		case n.Values[i].Kind == study.Null:
			d.Fail(k.Pos, study.CodeMissing, "list the levels that it changes", "part %s is empty", k.Name)
			continue
		}
		study.CellValue{To: &one.Levels, Name: "part " + k.Name}.Decode(d, n.Values[i])
		if _, nested := one.Levels[study.FactorVariant]; nested {
			d.Fail(n.Values[i].Pos, study.CodeConflict, "name factors", "a part cannot set variant")
			continue
		}
		*v.to = append(*v.to, one)
	}
}

func (v partsValue) Encode() *study.Node { return study.VariantsValue{To: v.to}.Encode() }

func (v partsValue) Schema() *jsonschema.Schema { return study.VariantsValue{}.Schema() }
