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

const threeParts = studytest.Minimal + `settings: {sidecars: both, mtls: "off"}
bill:
  base: {concurrency: 1}
  parts:
    log: {telemetry: access-log-text}
    tls: {mtls: strict}
    threads: {concurrency: 2}
`

func TestBillMakesVariants(t *testing.T) {
	for _, c := range []struct {
		more, want, baseline string
		trials               int
	}{
		{"", "base; log; tls; threads; together", BillBase, 6},
		{"  direct: remove\n", "base; together; without-log; without-tls; without-threads", BillTogether, 6},
		{"  direct: both\n", "base; log; tls; threads; together; without-log; without-tls; without-threads", BillBase, 9},
		{"  together: [log, tls]\n", "base; log; tls; threads; together", BillBase, 6},
		// With two, all but one is the other.
		{"  together: [log, tls]\n  direct: both\n", "base; log; tls; threads; together", BillBase, 6},
		{"  together: [log]\n", "base; log; tls; threads", BillBase, 5},
		{"factors: {variant: [base, tls]}\n", "base; tls", BillBase, 3},
		{"factors: {rate: [500, 1000], variant: [base, tls]}\n", "500 rps · base; 500 rps · tls; 1000 rps · base; 1000 rps · tls", BillBase, 6},
	} {
		p := studytest.Plan(t, threeParts+c.more)
		if got := studytest.Labels(p); got != c.want || p.BlockSize() != c.trials {
			t.Errorf("%s: %s, %d trials; want %s, %d", c.more, got, p.BlockSize(), c.want, c.trials)
		}
		if b, ok := p.BaselineOf(p.Cells[len(p.Cells)-1]); !ok || b[study.FactorVariant] != c.baseline {
			t.Errorf("%s: compared with %v", c.more, b)
		}
		studytest.SameAgain(t, p.Study)
	}
}

func TestBillCells(t *testing.T) {
	p := studytest.Plan(t, threeParts+"  direct: both\n")
	for variant, want := range map[string]record.Cell{
		"base":         {study.FactorMTLS: "off", study.FactorTelemetry: "off", study.FactorConcurrency: "1"},
		"tls":          {study.FactorMTLS: "strict", study.FactorTelemetry: "off", study.FactorConcurrency: "1"},
		"together":     {study.FactorMTLS: "strict", study.FactorTelemetry: "access-log-text", study.FactorConcurrency: "2"},
		"without-log":  {study.FactorMTLS: "strict", study.FactorTelemetry: "off", study.FactorConcurrency: "2"},
		"without-tls":  {study.FactorMTLS: "off", study.FactorTelemetry: "access-log-text", study.FactorConcurrency: "2"},
		"without-base": nil,
	} {
		cells := p.Matching(record.Cell{study.FactorVariant: variant})
		if want == nil {
			if len(cells) > 0 {
				t.Errorf("%s is a cell", variant)
			}
			continue
		}
		if len(cells) != 1 || p.Cells[cells[0]].With(want).Key() != p.Cells[cells[0]].Key() {
			t.Errorf("%s: %v, want %v", variant, cells, want)
		}
	}
	if v, ok := BillWithout(p.Study, "log"); !ok || v != "without-log" {
		t.Errorf("without log: %s", v)
	}
}

// Levels of a factor that accepts several join; those of other factors cannot.
func TestBillJoinsLevels(t *testing.T) {
	s := &study.Study{Settings: record.Cell{"filters": "rbac-10"}, Section: &Section{Bill: &Bill{
		Base:  record.Cell{},
		Parts: []study.NamedLevels{{Name: "lua", Levels: record.Cell{FactorFilters: "lua"}}, {Name: "jwt", Levels: record.Cell{"filters": "jwt"}}, {Name: "tls", Levels: record.Cell{study.FactorMTLS: "off"}}}}}}
	if got := billLevels(s, []string{"lua"})["filters"]; got != "rbac-10+lua" {
		t.Errorf("over the settings: %s", got)
	}
	s.Settings = record.Cell{"filters": study.LevelNone}
	if got := billLevels(s, []string{"lua", "jwt", "tls"}).Key(); got != "filters=lua+jwt,mtls=off" {
		t.Errorf("together: %s", got)
	}
	Of(s).Bill.Base = record.Cell{"filters": "lua"}
	if got := billLevels(s, []string{"jwt"})["filters"]; got != "lua+jwt" {
		t.Errorf("over the base: %s", got)
	}
}

func TestBillRefused(t *testing.T) {
	const two = studytest.Minimal + "bill: {parts: {a: {telemetry: access-log-text}, b: {mtls: permissive}}"
	for _, c := range []struct{ name, text, at, msg, hint string }{
		{"no parts", studytest.Minimal + "bill: {}\n", "3:7", `lacks the field "parts"`, ""},
		{"one of its cells chosen", two + "}\nsettings: {variant: a}\n", "4:", "a bill needs all its cells", "leave it out"},
		{"empty parts", studytest.Minimal + "bill: {parts: {}}\n", "3:15", "parts is empty", "as {access-log"},
		{"a part without value", studytest.Minimal + "bill: {parts: {a: }}\n", "3:16", "part a is empty", ""},
		{"its own name", studytest.Minimal + "bill: {parts: {together: {mtls: \"off\"}}}\n", "3:16", "a name that the bill uses itself", ""},
		{"unknown level", studytest.Minimal + "bill: {parts: {a: {mtls: stric}}}\n", "3:26", `unknown level "stric"`, "strict"},
		{"another plane's factor", studytest.Minimal + "bill: {parts: {a: {proxies: 3}}}\n", "3:20", "control plane", ""},
		{"no change", studytest.Minimal + "bill: {parts: {a: {mtls: strict}}}\n", "3:19", "base and a are the same", ""},
		{"the same", studytest.Minimal + "bill: {parts: {a: {mtls: \"off\"}, b: {mtls: \"off\"}}}\n", "3:37", "a and b are the same", ""},
		{"two levels of a factor", studytest.Minimal + "bill: {parts: {a: {telemetry: access-log-text}, b: {telemetry: access-log-json}}}\n", "3:64",
			"parts a and b cannot be on together: telemetry is access-log-text in one and access-log-json in the other", "together: [a, ...]"},
		{"filters and none", studytest.Minimal + "settings: {filters: lua}\nbill: {parts: {a: {filters: none}, b: {filters: jwt}}}\n", "4:",
			"parts a and b cannot be on together: filters is none in one and jwt in the other", "together: [a, ...]"},
		{"parts that contradict each other", studytest.Minimal + "bill: {parts: {a: {filters: jwt}, b: {filters: jwt-token}}}\n", "", "contradict each other", "bill.together"},
		{"a part that contradicts the base", studytest.Minimal + "settings: {filters: authz-allow-10}\nbill: {parts: {a: {filters: authz-allow-100}}}\n", "4:", "contradict each other", ""},
		{"unknown part together", two + ", together: [a, c]}\n", "", `together names an unknown part: "c"`, ""},
		{"twice together", two + ", together: [a, a]}\n", "", "together names a twice", ""},
		{"removed from what it is no part of", studytest.Minimal + "bill: {parts: {a: {telemetry: access-log-text}, b: {mtls: permissive}, c: {concurrency: 1}}, together: [a, b], direct: remove}\n", "", "part c cannot be removed: it is not in together", "set direct: both"},
		{"nothing to remove", studytest.Minimal + "bill: {parts: {a: {mtls: permissive}, b: {mtls: permissive, telemetry: access-log-text}}, direct: remove}\n", "3:19", "removing part a changes nothing", "direct: add"},
		{"one to remove", studytest.Minimal + "bill: {parts: {a: {mtls: \"off\"}}, direct: remove}\n", "", "with a single part", ""},
		{"unknown direction", two + ", direct: subtract}\n", "", `unknown value "subtract"`, ""},
		{"also varied", two + "}\nfactors: {mtls: [strict, \"off\"]}\n", "", "mtls is both in variant b and in factors", ""},
		{"variants beside it", two + "}\nvariants: {x: {}, y: {rate: 5}}\n", "4:11", "the bill makes this study's variants", ""},
		{"a variant of another direction", two + "}\nfactors: {variant: [base, without-a]}\n", "4:27", "has no variant without-a", ""},
		{"no sidecar to have a part", studytest.Minimal + "settings: {sidecars: none}\nbill: {parts: {a: {filters: lua}, b: {mtls: \"off\"}}}\n", "4:19", "base and a are the same", "sidecar"},
		{"no sidecar in some cells", two + "}\nfactors: {sidecars: [none, both]}\n", "3:19", "base and a are the same", "exclude"},
		{"a part that takes the others' sidecar away", studytest.Minimal + "bill: {parts: {a: {filters: lua}, b: {sidecars: none}}}\n", "3:", "b and together are the same", ""},
		{"no CPU", two + "}\nmeasures: [latency]\n", "4:11", "needs CPU", "add cpu"},
		{"of the control plane", two + "}\ncontrol: {}\n", "3:1", "is for studies of the data plane", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := study.Parse([]byte(c.text), "x.yaml", nil)
			if err == nil || errs.Code(err) != errs.CodeUsage {
				t.Fatalf("%v", err)
			}
			whole := err.Error() + "\n" + errs.Hint(err)
			if !strings.HasPrefix(whole, "x.yaml:"+c.at) || !strings.Contains(whole, c.msg) || !strings.Contains(whole, c.hint) {
				t.Errorf("want %s and %q and %q in\n%s", c.at, c.msg, c.hint, whole)
			}
		})
	}
}

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
				if factor != FactorFilters && whole[factor] != level {
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
