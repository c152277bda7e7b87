package study

import (
	"math"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record"
)

// Search asks for the highest level of a factor that keeps a finding within a bound. Levels are
// measured in ascending order, and those above one that breaks the bound may be skipped. Between
// the last level that keeps the bound and the first that breaks it the search bisects; see
// [Plan.Refined].
type Search struct {
	Factor  string
	Finding string
	Bound   Quantity // in the finding's unit
	// At restricts the search to these levels of other factors; empty: it runs for each of their
	// combinations.
	At record.Cell
	// Tolerance is the maximum final distance between the last level that keeps the bound and the
	// first that breaks it, relative to the lower one; 0: only given levels are measured.
	Tolerance Ratio
}

// Quantity is a number with its unit, as written in a file.
type Quantity struct {
	Value float64
	Unit  string
}

// String formats the quantity as written in a file.
func (q Quantity) String() string {
	text := strconv.FormatFloat(q.Value, 'f', -1, 64)
	if q.Unit == "" {
		return text
	}
	if q.Unit[0] >= 'a' && q.Unit[0] <= 'z' || q.Unit[0] >= 'A' && q.Unit[0] <= 'Z' {
		return text + " " + q.Unit
	}
	return text + q.Unit
}

func parseQuantity(s string) (Quantity, *Error) {
	m := UnitPattern.FindStringSubmatch(s)
	if m == nil {
		return Quantity{}, Complain(CodeInvalid, "a number and its unit, such as 2 s", "%q is not a quantity", Clip(s, 40))
	}
	v, c := Number(m[1])
	if c != nil {
		return Quantity{}, c
	}
	return Quantity{Value: v, Unit: m[2]}, nil
}

func search(s *Search) Value {
	return Object{Name: "a search", Flow: true, Fields: []Field{
		{Name: "factor", Required: true, Doc: "The factor; its levels must increase.", Value: Prose(&s.Factor)},
		{Name: "finding", Required: true, Doc: "The finding to bound.", Value: nameValue{&s.Finding, Kind.FindingNames}},
		{Name: "bound", Required: true, Doc: "Upper bound of the finding, with its unit: 2 s.", Value: Parsed(&s.Bound, parseQuantity, Quantity.String, jsonschema.Schema{Type: "string", Pattern: UnitPattern.String(), Examples: []any{"2 s", "500 ms"}})},
		{Name: "at", Doc: "Levels of other factors that restrict the search; without it, each of their combinations is searched. If every search of a study has it, cells outside all of them are not measured.",
			Value: CellValue{To: &s.At, Name: "at"}},
		{Name: "tolerance", Doc: "Resolution of the search, such as 10%: it halves the gap between the last level that keeps the bound and the first that breaks it until it is no wider than this, seven times at most; `meshtrial study plan` shows the width then possible. Without it, only given levels are measured.",
			Value: Percent(&s.Tolerance, 0.01, 1).OmitZero()},
	}}
}

// resolveSearches converts bounds to the findings' own units.
func (d *Decoder) resolveSearches(s *Study) {
	for i := range s.Search {
		one := &s.Search[i]
		scale, own, c := s.scaleTo(one.Finding, one.Bound.Unit)
		if c != nil {
			d.Fail(d.Pos("search", i, "bound"), c.Code, c.Hint, "%s of %s", c.Msg, one.Finding)
			continue
		}
		one.Bound = Quantity{one.Bound.Value * scale, own}
	}
}

func (d *Decoder) checkSearches(s *Study) {
	for i, one := range s.Search {
		for _, earlier := range s.Search[:i] {
			if earlier.Factor == one.Factor && earlier.Finding == one.Finding && earlier.Bound == one.Bound && earlier.At.Key() == one.At.Key() {
				d.Fail(d.Pos("search", i), CodeDuplicate, "leave one of them out", "%s is searched twice by %s", Clip(one.Factor, 40), one.Finding)
				break
			}
		}
		f, ok := FactorByName(one.Factor)
		if !ok || !f.Numeric || !s.Varies(one.Factor) {
			d.Fail(d.Pos("search", i, "factor"), CodeConflict, "list increasing levels of it in factors", "%s is not a numeric factor that this study varies", Clip(one.Factor, 40))
			continue
		}
		last := math.Inf(-1)
		for _, level := range s.Levels(one.Factor) {
			v, ok := f.Value(level)
			if !ok || v <= last {
				d.Fail(d.Pos("factors", one.Factor), CodeConflict, "sort them in increasing order", "the levels of %s must increase for a search", one.Factor)
				break
			}
			last = v
		}
		for _, name := range factorNames(s.Kind) {
			level, named := one.At[name]
			switch {
			case named && name == one.Factor:
				d.Fail(d.Pos("search", i, "at"), CodeConflict, "leave it out", "%s is the factor that is searched", name)
			case named && !slices.Contains(s.Written(name), level):
				d.Fail(d.Pos("search", i, "at", name), CodeNoCell, "name one of the study's levels", "no cell has %s at %s", name, level)
			}
		}
	}
}

// searchNotes lists the searches for which the variants left by a flag have no cell. As in
// [Plan.Climbs], cells count as searched even if the levels in at mean nothing in them.
func (p *Plan) searchNotes() (out []error) {
	at, ok := p.Study.setBy(FactorVariant)
	if !ok {
		return nil
	}
	for _, one := range p.Study.Search {
		if !slices.ContainsFunc(p.Cells, func(cell record.Cell) bool { return p.Study.Kind.Matches(cell, one.At) }) {
			out = append(out, at.Fault(CodeNoCell, "also measure a variant that has it", "%s is not searched by %s: no cell has %s", one.Factor, one.Finding, flowText(one.At)))
		}
	}
	return out
}
