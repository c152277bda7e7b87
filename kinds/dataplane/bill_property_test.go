package dataplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// billPool has levels for the parts of a drawn bill, the default first; some contradict each
// other.
var billPool = []struct {
	factor string
	levels []string
}{
	{study.FactorMTLS, []string{"strict", "permissive", "off"}},
	{study.FactorTelemetry, []string{"off", "access-log-text", "access-log-json"}},
	{study.FactorConcurrency, []string{"2", "1", "4"}},
	{study.FactorCPULimit, []string{"none", "500m"}},
	{study.FactorProtocol, []string{"http1", "grpc"}},
	{FactorFilters, []string{"none", "lua", "jwt", "authz-allow-10", "authz-allow-100"}},
}

// billCell draws a cell of up to two factors. Most levels are the usual ones, so that most parts
// of a bill can be on together.
func billCell(t *rapid.T, label string, least int, usual record.Cell) record.Cell {
	out := record.Cell{}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(billPool)-1), least, 2, rapid.ID).Draw(t, label) {
		factor := billPool[i].factor
		level, ok := usual[factor]
		if !ok || rapid.IntRange(0, 3).Draw(t, label+" unusual") == 3 {
			level = rapid.SampledFrom(billPool[i].levels).Draw(t, label+" "+factor)
		}
		out[factor] = level
	}
	return out
}

// flow formats a cell as in a file.
func flow(c record.Cell) string {
	var all []string
	for name, level := range c {
		all = append(all, fmt.Sprintf("%s: %q", name, level))
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ", ") + "}"
}

// An accepted bill has a cell for the base, each part and the whole. Each differs from its
// neighbour only in levels of one part, none occurs twice, and neither reordering the parts nor
// round-tripping the study changes what is measured.
func TestBillProperty(t *testing.T) {
	accepted, removed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		usual := record.Cell{}
		for _, f := range billPool {
			usual[f.factor] = rapid.SampledFrom(f.levels[1:]).Draw(t, "usual "+f.factor)
		}
		base := billCell(t, "base", 0, record.Cell{})
		var names, parts []string
		for i := range rapid.IntRange(2, 4).Draw(t, "parts") {
			names = append(names, fmt.Sprintf("part-%d", i))
			parts = append(parts, names[i]+": "+flow(billCell(t, names[i], 1, usual)))
		}
		direct := rapid.SampledFrom([]string{DirectAdd, DirectRemove, DirectBoth}).Draw(t, "direct")
		var together []string // all
		if direct != DirectRemove && rapid.Bool().Draw(t, "some together") {
			together = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).Draw(t, "together")
		}
		file := func(parts []string) string {
			text := studytest.Minimal + fmt.Sprintf("bill:\n  base: %s\n  parts: {%s}\n  direct: %s\n", flow(base), strings.Join(parts, ", "), direct)
			if len(together) > 0 {
				text += "  together: [" + strings.Join(together, ", ") + "]\n"
			}
			return text
		}
		s, err := study.Parse([]byte(file(parts)), "bill.yaml", nil)
		if err != nil {
			if errs.Code(err) != errs.CodeUsage {
				t.Fatalf("exit code %d: %v", errs.Code(err), err)
			}
			fmt.Println("REF", direct, err)
			return // contradictory parts, or parts that change nothing
		}
		accepted++
		studytest.SameAgain(t, s)
		checkBillOf(t, s)
		if Of(s).Bill.Removes() {
			removed++
		}
		slices.Reverse(parts)
		other, err := study.Parse([]byte(file(parts)), "bill.yaml", nil)
		if err != nil {
			t.Fatalf("refused in another order: %v\n%s", err, file(parts))
		}
		a, b := unordered(s), unordered(other)
		if !slices.Equal(a, b) {
			t.Fatalf("in another order:\n%v\n%v\n%s", a, b, file(parts))
		}
	})
	if accepted < 10 || removed < 5 {
		t.Errorf("%d bills were accepted, %d of them with parts removed", accepted, removed)
	}
}

// checkBillOf compares the variants of a bill with each other.
func checkBillOf(t *rapid.T, s *study.Study) {
	b := Of(s).Bill
	seen := map[string]string{}
	for _, v := range s.Variants {
		if other, twice := seen[v.Levels.Key()]; twice {
			t.Fatalf("%s and %s are the same", other, v.Name)
		}
		seen[v.Levels.Key()] = v.Name
	}
	levels := func(name string, there bool) record.Cell {
		if !there {
			t.Fatalf("there is no such variant beside %v", seen)
		}
		out, ok := s.VariantLevels(name)
		if !ok {
			t.Fatalf("there is no variant %s", name)
		}
		return out
	}
	// differ fails unless two cells differ in levels of a part, and only there.
	differ := func(part string, with, without record.Cell) {
		if with.Key() == without.Key() {
			t.Fatalf("%s makes no difference to %v", part, without)
		}
		for factor := range with.With(without) {
			if _, has := b.part(part)[factor]; !has && with[factor] != without[factor] {
				t.Fatalf("with %s %s is %q, without %q", part, factor, with[factor], without[factor])
			}
		}
	}
	base := levels(BillVariant(s))
	if base.Key() != b.Base.Key() {
		t.Fatalf("the base is %v, not %v", base, b.Base)
	}
	want := map[string]bool{base.Key(): true}
	if b.Adds() {
		for _, p := range b.Parts {
			alone := levels(BillVariant(s, p.Name))
			want[alone.Key()] = true
			differ(p.Name, alone, base)
		}
	}
	if b.Whole() {
		whole := levels(BillVariant(s, b.Together...))
		want[whole.Key()] = true
		for _, part := range b.Together {
			for factor, level := range b.part(part) {
				if _, adds := additive[factor]; whole[factor] != level && !adds {
					t.Fatalf("together %s is %q, and %q in %s", factor, whole[factor], level, part)
				}
			}
			if b.Removes() {
				rest := levels(BillWithout(s, part))
				want[rest.Key()] = true
				differ(part, whole, rest)
			}
		}
	}
	if len(want) != len(s.Variants) {
		t.Fatalf("%d cells are asked for: %v", len(want), seen)
	}
}

// unordered returns the variants of a study by name, with filters sorted by name.
func unordered(s *study.Study) []string {
	var out []string
	for _, v := range s.Variants {
		levels := v.Levels.With(nil)
		if filters, ok := levels[FactorFilters]; ok {
			all := strings.Split(filters, "+")
			slices.Sort(all)
			levels[FactorFilters] = strings.Join(all, "+")
		}
		out = append(out, v.Name+" "+levels.Key())
	}
	slices.Sort(out)
	return out
}
