package study

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// levelPool returns canonical levels of every factor to draw from.
func levelPool(f Factor) []string {
	if f.Levels != nil {
		return f.Levels
	}
	return map[string][]string{
		FactorConnections: {"1", "2", "16", "64", "10000"},
		FactorGenerators:  {"1", "2", "100"},
		FactorRate:        {"1000", "0.5", "max", "123.25"},
		FactorPayload:     {"1B", "1KiB", "1500B", "2MiB"},
		FactorConcurrency: {"1", "2", "4"},
		FactorCPULimit:    {"none", "500m", "2"},
		FactorEnvoy:       {"default", "1.39.0", "1.36.2"},
		"filters":         {"none", "lua", "authz-allow-100+jwt", "planted-200"},
		"planted":         {"none", "nothing", "200us", "2ms"},
	}[f.Name]
}

func cellGen(t *rapid.T, label string, least int) record.Cell {
	out := record.Cell{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(factorNames(DataPlane)), least, 4, rapid.ID).Draw(t, label) {
		f, _ := FactorByName(name)
		out[name] = rapid.SampledFrom(levelPool(f)).Draw(t, label+" "+name)
	}
	return out
}

var proseGen = rapid.StringOfN(rapid.RuneFrom([]rune("aZ09 \n\t:#-?&*!|>'\"%@`{}[],é漢\u0085\u2028~yesno.0x")), 1, 60, -1)

// studyGen draws a study; many of them make sense.
func studyGen(t *rapid.T) *Study {
	s := defaultsOf(DataPlane)
	s.Name = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?`).Draw(t, "name")
	s.Question = "q" + proseGen.Draw(t, "question")
	s.Title = proseGen.Draw(t, "title")
	s.Story = proseGen.Draw(t, "story")
	s.Settings = cellGen(t, "settings", 1)
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(factorNames(DataPlane)), 0, 3, rapid.ID).Draw(t, "factors") {
		delete(s.Settings, name)
		f, _ := FactorByName(name)
		levels := rapid.SliceOfNDistinct(rapid.SampledFrom(levelPool(f)), 1, 3, rapid.ID).Draw(t, name)
		s.Factors = append(s.Factors, record.FactorLevels{Factor: name, Levels: levels, Unit: f.Unit})
	}
	if rapid.Bool().Draw(t, "baseline") && len(s.Factors) > 0 {
		f := s.Factors[0]
		s.Baseline = record.Cell{f.Factor: f.Levels[0]}
	}
	if rapid.Bool().Draw(t, "stop") {
		s.Stop = &Stop{Finding: rapid.SampledFrom(DataPlane.FindingNames()).Draw(t, "finding"), HalfWidth: Ratio(rapid.Float64Range(0.001, 1).Draw(t, "width"))}
	}
	s.Seed = rapid.Uint64().Draw(t, "seed")
	for range rapid.IntRange(0, 2).Draw(t, "asserts") {
		s.Assert = append(s.Assert, Expr{Text: proseGen.Draw(t, "assert")})
	}
	if rapid.Bool().Draw(t, "headers") {
		s.Load.Headers = map[string]string{"X-A": proseGen.Draw(t, "header"), "b": "true"}
	}
	if rapid.Bool().Draw(t, "published") {
		s.Published = []Published{{Source: proseGen.Draw(t, "source"), Claim: "12", Finding: "latency_p50", Cell: cellGen(t, "cell", 1),
			Figure: rapid.Float64Range(0, 1e6).Draw(t, "figure"), Unit: "ms"}}
	}
	return s
}

// Resolved studies parse to themselves and to the same plan.
func TestResolvedRoundTrip(t *testing.T) {
	parsed := 0
	rapid.Check(t, func(t *rapid.T) {
		text := studyGen(t).Marshal()
		interval := rapid.IntRange(100, 1000).Draw(t, "interval")
		sets := []string{fmt.Sprintf("interval=%dms", interval), fmt.Sprintf("window=%dms", interval*rapid.IntRange(1, 10).Draw(t, "window"))}
		if rapid.Bool().Draw(t, "recorded") {
			sets = append(sets, "workload.service_time={distribution: recorded, values: [1ms, 1500us, 45s]}")
		}
		first, err := Parse(text, "first.yaml", sets)
		if err != nil {
			if errs.Code(err) != errs.CodeUsage {
				t.Fatalf("exit code %d: %v", errs.Code(err), err)
			}
			return // a rejected combination
		}
		parsed++
		sameAgain(t, first)
	})
	if parsed < 10 {
		t.Errorf("only %d studies were accepted", parsed)
	}
}

type failer interface {
	Fatalf(format string, args ...any)
}

func sameAgain(t failer, first *Study) {
	text := first.Marshal()
	second, err := Parse(text, "second.yaml", nil)
	if hasCode(err, CodeNoEffect) { // the resolved form does not record that flags narrowed it down
		second, err = ParseAgain(text, "second.yaml", nil)
	}
	if err != nil {
		t.Fatalf("resolved study is refused: %v\n%s", err, text)
	}
	for _, s := range []*Study{first, second} {
		for i := range s.Assert {
			s.Assert[i].Pos = Pos{}
		}
		s.places, s.levelsAt, s.flags = nil, nil, false
		if len(s.Load.Headers) == 0 {
			s.Load.Headers = nil
		}
		if s.Stop != nil && len(s.Stop.Of) == 0 {
			s.Stop.Of = nil
		}
	}
	if !reflect.DeepEqual(first, second) {
		t.Fatalf("resolved study differs:\n%+v\n%+v\n%s", first, second, text)
	}
	a, errA := NewPlan(first, 7)
	b, errB := NewPlan(second, 7)
	if errA != nil || errB != nil {
		t.Fatalf("plan: %v, %v", errA, errB)
	}
	if !reflect.DeepEqual(a.Cells, b.Cells) || fmt.Sprint(a.Block(3)) != fmt.Sprint(b.Block(3)) {
		t.Fatalf("plans differ")
	}
}

// Any number of random --set flags yields an error that names the flag, or a study that still
// round-trips.
func TestSetProperty(t *testing.T) {
	paths := []string{"window", "rate", "sidecars", "settings.rate", "factors.rate", "blocks", "blocks.max", "stop", "stop.of.sidecars",
		"published.0.figure", "load.headers.x", "mtls", "control", "control.changes", "control.duration", "proxies", "debounce_after", "variant", "variants", "variants.b", "search", "name", "nonsense", "a.b.c", "baseline", "exclude", "exclude.0"}
	values := []string{"1s", "5", "[1, 2]", "[none, both]", "none", "{}", "[]", "{sidecars: none}", "max", "x", "[", "-3", "b", "[b, a]", "{proxies: 7}", "[{factor: proxies, finding: convergence_p50, bound: 1 s}]", "{max: 3}", "&a [*a]"}
	rapid.Check(t, func(t *rapid.T) {
		var sets []string
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			sets = append(sets, rapid.SampledFrom(paths).Draw(t, "path")+"="+rapid.SampledFrom(values).Draw(t, "value"))
		}
		text := minimal + "factors: {sidecars: [none, both]}\n"
		if rapid.Bool().Draw(t, "control") {
			text = minimalControl + "variants: {a: {}, b: {proxies: 5}}\n"
		}
		s, err := Parse([]byte(text), "x.yaml", sets)
		if err != nil {
			if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "--set ") && !strings.Contains(err.Error(), "x.yaml") {
				t.Fatalf("%v", err)
			}
			return
		}
		sameAgain(t, s)
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal), "window=1s")
	f.Add([]byte(minimal+"factors:\n  sidecars: [none, server, client, both]\n  mtls: [permissive, off]\n"), "rate=[1, 2]")
	f.Add([]byte("name: x\nquestion: |\n  a\n\n  b\nassert: [\"a\\u0041 > 1\"]\nload: {headers: {a: \"\\t\"}}\n"), "stop=none")
	f.Add([]byte("a: &a [*a]\nb: {<<: *a}\n? [x]\n: - - -\n"), "exclude.0=[{rate: 1}]")
	f.Add([]byte("%YAML 1.2\n---\nname: !!str x\n...\n---\n"), "factors.rate=[")
	f.Add([]byte(minimalControl+"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2 s}]\n"), "variants.a={}")
	f.Add([]byte(minimal+"control: {trace: [0 no-op, \"1.5,service\"]}\nsettings: {change: trace}\nvariants: {a: {}, b: {export_to: \"~\"}}\n"), "variant=b")
	f.Add([]byte(minimal+"control: {duration: 30s, service_entry: {port: 1}}\nsettings: {sidecar_hosts: \"./*,a/b\", istiod_env: \"A=;B=~\"}\n"), "control.changes=3")
	f.Add([]byte(minimal+"bill: {parts: {a: {telemetry: access-log-text}, b: {mtls: permissive}}, direct: both}\n"), "variant=[base, a]")
	f.Fuzz(func(t *testing.T, data []byte, set string) {
		for _, sets := range [][]string{nil, {set}} {
			s, err := Parse(data, "x.yaml", sets)
			if err == nil {
				sameAgain(t, s)
				continue
			}
			if errs.Code(err) != errs.CodeUsage {
				t.Fatalf("exit code %d: %v", errs.Code(err), err)
			}
			if !strings.HasPrefix(err.Error(), "x.yaml") && !strings.HasPrefix(err.Error(), "--set ") {
				t.Fatalf("no place: %v", err)
			}
		}
	})
}
