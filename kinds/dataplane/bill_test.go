package dataplane

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
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
		s := studytest.Parse(t, threeParts+c.more)
		p, err := study.NewPlan(s, 1)
		must.OK(t, err)
		if got := studytest.Labels(p); got != c.want || p.BlockSize() != c.trials {
			t.Errorf("%s: %s, %d trials; want %s, %d", c.more, got, p.BlockSize(), c.want, c.trials)
		}
		if b, ok := p.BaselineOf(p.Cells[len(p.Cells)-1]); !ok || b[study.FactorVariant] != c.baseline {
			t.Errorf("%s: compared with %v", c.more, b)
		}
		again := studytest.Parse(t, string(s.Marshal()))
		q, err := study.NewPlan(again, 1)
		if err != nil || studytest.Labels(q) != studytest.Labels(p) || string(again.Marshal()) != string(s.Marshal()) {
			t.Errorf("%s: written and read again: %s, %v", c.more, studytest.Labels(q), err)
		}
	}
}

func TestBillCells(t *testing.T) {
	s := studytest.Parse(t, threeParts+"  direct: both\n")
	p, err := study.NewPlan(s, 1)
	must.OK(t, err)
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
	if v, ok := BillWithout(s, "log"); !ok || v != "without-log" {
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
		{"an empty part", studytest.Minimal + "bill: {parts: {a: {}}}\n", "3:19", "part a names no factor", ""},
		{"a part without value", studytest.Minimal + "bill: {parts: {a: }}\n", "3:16", "part a is empty", ""},
		{"its own name", studytest.Minimal + "bill: {parts: {together: {mtls: \"off\"}}}\n", "3:16", "a name that the bill uses itself", ""},
		{"the name of all but one", studytest.Minimal + "bill: {parts: {without-a: {mtls: \"off\"}}}\n", "3:16", "a name that the bill uses itself", ""},
		{"unknown level", studytest.Minimal + "bill: {parts: {a: {mtls: stric}}}\n", "3:26", `unknown level "stric"`, "strict"},
		{"another plane's factor", studytest.Minimal + "bill: {parts: {a: {proxies: 3}}}\n", "3:20", "control plane", ""},
		{"no change", studytest.Minimal + "bill: {parts: {a: {mtls: strict}}}\n", "3:19", "part a changes nothing", ""},
		{"no change of the base", studytest.Minimal + "bill: {base: {mtls: \"off\"}, parts: {a: {mtls: \"off\"}}}\n", "3:40", "part a changes nothing", ""},
		{"the same", studytest.Minimal + "bill: {parts: {a: {mtls: \"off\"}, b: {mtls: \"off\"}}}\n", "3:37", "parts a and b are the same", ""},
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
