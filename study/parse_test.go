package study

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

const minimal = "name: x\nquestion: why?\n"

func parseOK(t *testing.T, text string, sets ...string) *Study {
	t.Helper()
	s, err := Parse([]byte(text), "x.yaml", sets)
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, errs.Hint(err))
	}
	return s
}

func TestParseDefaults(t *testing.T) {
	s := parseOK(t, minimal)
	for _, f := range dataFactors {
		if level, ok := s.Settings[f.Name]; ok == f.Implied || ok && level != f.Default {
			t.Errorf("%s = %q, want the default %q", f.Name, level, f.Default)
		}
		if level, ok := s.Setting(f); !ok || level != f.Default {
			t.Errorf("the setting of %s is %q, want the default %q", f.Name, level, f.Default)
		}
	}
	if s.Title != "x" || s.Mesh != MeshIstio || s.Window != 2*time.Second || len(s.Measures) != 7 || s.Stop != nil {
		t.Errorf("defaults: %+v", s)
	}
	if len(s.Baseline) != 0 {
		t.Errorf("baseline %v without varying sidecars", s.Baseline)
	}
}

func TestParseLevels(t *testing.T) {
	for _, c := range []struct{ factor, level, want string }{
		{"rate", "1000", "1000"}, {"rate", "max", "max"}, {"rate", "0.5", "0.5"}, {"rate", "1_000", "1000"}, {"rate", "1000.0", "1000"},
		{"connections", "64", "64"}, {"payload", "1KiB", "1KiB"}, {"payload", "1024B", "1KiB"}, {"payload", "0", "0B"},
		{"payload", "1.5KiB", "1536B"}, {"payload", "1kB", "1000B"}, {"payload", "2048KiB", "2MiB"}, {"payload", "1 KiB", "1KiB"},
		{"keep_alive", "false", "false"}, {"mtls", "off", "off"}, {"cpu_limit", "0.5", "500m"}, {"cpu_limit", "2000m", "2"},
		{"cpu_limit", "none", "none"}, {"cpu_limit", "1500m", "1500m"}, {"envoy", "1.39.0", "1.39.0"}, {"envoy", "v1.39.0", "1.39.0"},
		{"envoy", `"1.39.0"`, "1.39.0"}, {"telemetry", "access-log-json+stats", "access-log-json+stats"},
		{"concurrency", "4", "4"}, {"arrival", "burst", "burst"}, {"protocol", "grpc", "grpc"},
	} {
		s := parseOK(t, minimal+"settings: {"+c.factor+": "+c.level+"}\n")
		if got := s.Settings[c.factor]; got != c.want {
			t.Errorf("%s: %s = %q, want %q", c.factor, c.level, got, c.want)
		}
	}
}

// A faulty file is refused at the place of the fault, with exit code 2.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		at, msg, tip string // at: line:column
	}{
		{"empty", "", "1:1", "nothing is in it", "meshtrial study show quick --source"},
		{"only comments", "# hello\n\n# there\n", "1:1", "nothing is in it", "a name and a question"},
		{"scalar", "hello\n", "1:1", "must be a mapping", "name"},
		{"list", "- a\n- b\n", "1:1", "must be a mapping, not a list", ""},
		{"no name", "question: why?\n", "1:1", `lacks the field "name"`, ""},
		{"unknown field", minimal + "widow: 2s\n", "3:1", `unknown field "widow"`, "did you mean window?"},
		{"unknown nested field", minimal + "blocks: {min: 1, mx: 3}\n", "3:18", `unknown field "mx" in blocks`, "did you mean max?"},
		{"unknown factor", minimal + "factors:\n  sidecar: [none]\n", "4:3", `unknown factor "sidecar"`, "did you mean sidecars?"},
		{"unknown level", minimal + "factors:\n  sidecars: [none, boht]\n", "4:20", `sidecars: unknown level "boht"`, "did you mean both?"},
		{"unknown level in settings", minimal + "settings: {arrival: possion}\n", "3:21", `unknown level "possion"`, "did you mean poisson?"},
		{"bits", minimal + "settings: {payload: 1Kb}\n", "3:21", `unknown unit "Kb"`, "1KiB"},
		{"bytes without unit", minimal + "settings: {payload: 1024}\n", "3:21", `"1024" lacks a unit`, "1KiB"},
		{"half a byte", minimal + "settings: {payload: 0.5B}\n", "3:21", "no whole number of bytes", ""},
		{"huge payload", minimal + "settings: {payload: 1000MiB}\n", "3:21", "too large", "64MiB"},
		{"negative rate", minimal + "settings: {rate: -5}\n", "3:18", "-5 is negative", ""},
		{"zero rate", minimal + "settings: {rate: 0}\n", "3:18", "out of range", ""},
		{"rate a minute", minimal + "settings: {rate: 1000/m}\n", "3:18", "has a unit", "write 1000"},
		{"rate with unit", minimal + "settings: {rate: 1000rps}\n", "3:18", "has a unit", "write 1000"},
		{"rate with comma", minimal + "settings: {rate: \"1,000\"}\n", "3:18", "no number", "write 1000"},
		{"nan", minimal + "settings: {rate: .nan}\n", "3:18", "no number to measure with", ""},
		{"NaN", minimal + "settings: {rate: NaN}\n", "3:18", "no number to measure with", ""},
		{"inf", minimal + "settings: {rate: .inf}\n", "3:18", "no number to measure with", ""},
		{"hex", minimal + "settings: {rate: 0x10}\n", "3:18", "0x10", ""},
		{"exponent", minimal + "settings: {rate: 1e3}\n", "3:18", "1e3", "write 1000"},
		{"exponent of a fraction", minimal + "settings: {rate: 2.5E-1}\n", "3:18", "has an exponent", "write 0.25"},
		{"enormous exponent", minimal + "settings: {rate: 1e300}\n", "3:18", "has an exponent", "write the number out"},
		{"decimal comma", minimal + "settings: {rate: \"1,2\"}\n", "3:18", "no number", "1.2 with a decimal point, or a list in brackets, [1,2]"},
		{"list without brackets", minimal + "settings: {connections: \"8,16,32\"}\n", "3:25", "no number", "write a list in brackets, [8,16,32]"},
		{"commas and no number", minimal + "settings: {rate: \"a,b\"}\n", "3:18", "no number", "a number of requests per second"},
		{"fraction of a connection", minimal + "settings: {connections: 1.5}\n", "3:25", "no whole number", ""},
		{"no connection", minimal + "settings: {connections: 0}\n", "3:25", "out of range", "from 1 to 10000"},
		{"connections beyond 64 bits", minimal + "settings: {connections: 99999999999999999999}\n", "3:25", "out of range", ""},
		{"bad version", minimal + "settings: {envoy: 1.39}\n", "3:19", "no version of Envoy", "1.39.0"},
		{"cpu unit", minimal + "settings: {cpu_limit: 500mCPU}\n", "3:23", "no number", "500m"},
		{"empty level", minimal + "settings: {rate: }\n", "3:12", "rate is empty", ""},
		{"list in settings", minimal + "settings: {rate: [1, 2]}\n", "3:18", "one level of rate", "factors"},
		{"scalar in factors", minimal + "factors: {rate: 5}\n", "3:11", "must be a list", "[...]"},
		{"empty list", minimal + "factors: {rate: []}\n", "3:17", "no levels", ""},
		{"duplicate level", minimal + "factors: {rate: [100, 200, 100]}\n", "3:28", "level 100 of rate is given twice", ""},
		{"duplicate level, other spelling", minimal + "factors: {payload: [1KiB, 1024B]}\n", "3:27", "level 1KiB of payload is given twice", ""},
		{"factor twice", minimal + "factors:\n  rate: [1]\n  rate: [2]\n", "5:3", "already defined", ""},
		{"field twice", "name: x\nquestion: y\nname: z\n", "3:1", "already defined", ""},
		{"factor fixed and varied", minimal + "settings: {rate: 5}\nfactors: {rate: [1, 2]}\n", "3:18", "both in settings and in factors", ""},
		{"time without unit", minimal + "window: 2\n", "3:9", `"2" lacks a unit`, "250ms"},
		{"negative time", minimal + "window: -2s\n", "3:9", "negative", ""},
		{"no time", minimal + "window: soon\n", "3:9", "no duration", ""},
		{"time out of range", minimal + "window: 1ns\n", "3:9", "out of range", "100ms"},
		{"broken window", minimal + "window: 2100ms\n", "3:9", "no whole number of intervals of 250ms", "2s"},
		{"warm-up upside down", minimal + "warmup: {min: 3s, max: 1s}\n", "3:9", "longer than", ""},
		{"blocks upside down", minimal + "blocks: {min: 5, max: 4}\n", "3:9", "more than", ""},
		{"no blocks", minimal + "blocks: {min: 0}\n", "3:15", "out of range", ""},
		{"unknown measure", minimal + "measures: [latency, cpus]\n", "3:21", `unknown value "cpus"`, "did you mean cpu?"},
		{"measure twice", minimal + "measures: [cpu, cpu]\n", "3:11", "given twice", ""},
		{"unknown mesh", minimal + "mesh: consul\n", "3:7", "unknown value", "istio"},
		{"sidecars without a mesh", minimal + "mesh: none\nfactors: {sidecars: [none, both]}\n", "3:7", "no sidecars", ""},
		{"an ambient mesh that is not Istio's", minimal + "mesh: linkerd\nfactors: {sidecars: [none, ambient]}\n", "3:7", "mesh linkerd cannot carry requests by sidecars: ambient", "one of none, server, client, both"},
		{"a gateway that is not Istio's", minimal + "mesh: linkerd\nfactors: {sidecars: [none, gateway]}\n", "3:7", "mesh linkerd cannot carry requests by sidecars: gateway", "one of none, server, client, both"},
		{"TCP through a gateway", minimal + "settings: {sidecars: gateway}\nfactors: {protocol: [http1, tcp]}\n", "4:", "which protocol tcp does not carry", "exclude"},
		{"TLS through a gateway", minimal + "load: {tls: true}\nfactors: {sidecars: [none, gateway]}\n", "3:", "no certificate for load.tls", "leave it out"},
		{"more blocks at least than at most", minimal + "blocks: {min: 20, max: 3}\n", "3:9", "blocks.min 20 is more than blocks.max 3", "raise blocks.max"},
		{"a word for a list", minimal + "exclude: foo\n", "3:10", "a list is expected here", "in brackets, as [a, b]"},
		{"a tab", minimal + "settings:\n\trate: 5\n", "4:1", "a tab stands where YAML takes none", "indent with spaces"},
		{"a search without its factor", minimal + "search: [{finding: latency_p99, bound: 1ms}]\n", "3:10", `lacks the field "factor"`, "The factor"},
		{"baseline unmeasured", minimal + "settings: {sidecars: both}\nfactors: {rate: [1, 2]}\nbaseline: {sidecars: none}\n", "5:11", "{sidecars: none} is not measured, and cell 1 rps would", "--set sidecars=[none,both], or --set baseline={}"},
		{"baseline of variants unmeasured", minimal + "variants: {a: {sidecars: both}, b: {sidecars: client}}\nbaseline: {sidecars: none, variant: a}\n", "4:11", "{sidecars: none} is not measured", "measure a variant with sidecars: none"},
		{"first variant unmeasured", minimal + "variants: {a: {}, b: {sidecars: client}}\nfactors: {variant: [b]}\nbaseline: {variant: a}\n", "5:11", "{variant: a} is not measured", "--set variant=[a,b]"},
		{"baseline of a variant's own level", minimal + "variants: {a: {sidecars: none}, b: {sidecars: both}}\nbaseline: {sidecars: none}\n", "4:11", "variant b with sidecars: none is not measured, and cell b would be compared with it", "--set 'baseline={variant: a}', or --set baseline={}"},
		{"baseline of the settings' level", minimal + "settings: {sidecars: none}\nvariants: {b: {sidecars: both}, a: {}}\nbaseline: {sidecars: none}\n", "5:11", "variant b with sidecars: none is not measured", "--set 'baseline={variant: a}', or --set baseline={}"},
		{"baseline of a variant that is not everywhere", minimal + "variants: {a: {sidecars: none}, b: {sidecars: both}}\nfactors: {rate: [1, 2]}\nexclude: [{variant: a, rate: 1}]\nbaseline: {sidecars: none}\n", "6:11", "variant b with sidecars: none is not measured", "name a variant with sidecars: none in the baseline, or --set baseline={}"},
		{"baseline beside a default", minimal + "factors: {sidecars: [none, both]}\nbaseline: {generators: 2}\n", "4:11", "{generators: 2} is not measured", "--set generators=[2,1], or --set baseline={}"},
		{"baseline beside a level with commas", minimalControl + "settings: {sidecar_scope: mesh, sidecar_hosts: \"./*,istio-system/*\"}\nfactors: {proxies: [1, 2]}\nbaseline: {sidecar_hosts: x/*}\n", "6:11", "{sidecar_hosts: x/*} is not measured", `--set 'sidecar_hosts=[x/*,"./*,istio-system/*"]', or --set baseline={}`},
		{"baseline excluded", minimal + "factors: {sidecars: [none, both], rate: [1, 2]}\nexclude: [{sidecars: none, rate: 1}]\n", "", "cell both · 1 rps would be compared with none · 1 rps, which is not measured", "do not exclude it"},
		{"exclude matches nothing", minimal + "factors: {rate: [1, 2]}\nexclude: [{rate: 1}, {rate: 3}]\n", "4:22", "matches no cell", ""},
		{"exclude twice", minimal + "factors: {rate: [1, 2]}\nexclude: [{rate: 1}, {rate: 1}]\n", "4:22", "left out twice", ""},
		{"exclude everything", minimal + "factors: {rate: [1, 2]}\nexclude: [{sidecars: both}]\n", "4:10", "leaves no cell", ""},
		{"strict mTLS without a client sidecar", minimal + "factors:\n  sidecars: [none, server, both]\n  mtls: [strict, off]\n", "5:9", "cannot serve", "exclude: [{sidecars: server, mtls: strict}]"},
		{"too many cells", minimal + "factors: {connections: [" + numbers(1, 80) + "], rate: [" + numbers(1, 80) + "]}\n", "3:10", "6400 cells are too many", "5000"},
		{"far too many cells", minimal + "factors: {connections: [" + numbers(1, 3000) + "], rate: [" + numbers(1, 3000) + "]}\n", "3:10", "combinations", ""},
		{"stop unknown", minimal + "stop: {finding: latency_p51, half_width: 5%}\n", "3:17", "unknown value", "latency_p50"},
		{"stop without per cent", minimal + "stop: {finding: latency_p50, half_width: 0.05}\n", "3:42", "lacks its unit", "%"},
		{"stop on nothing", minimal + "stop: {finding: latency_p50, half_width: 5%, of: {sidecars: none}}\n", "3:50", "matches no cell", ""},
		{"stop on no overhead", minimal + "stop: {finding: latency_p50_overhead, half_width: 5%}\n", "3:7", "compared with another", ""},
		{"seed", minimal + "seed: -1\n", "3:7", "no seed", ""},
		{"sigma for nothing", minimal + "workload: {service_time: {sigma: 1}}\n", "3:34", "lognormal", ""},
		{"lognormal without sigma", minimal + "workload: {service_time: {distribution: lognormal, mean: 1ms}}\n", "3:41", "needs a sigma", ""},
		{"exponential without mean", minimal + "workload: {service_time: {distribution: exponential}}\n", "3:41", "needs a mean", ""},
		{"recorded without times", minimal + "workload: {service_time: {distribution: recorded}}\n", "3:41", "either values or a file", ""},
		{"tcp without payload", minimal + "settings: {protocol: tcp, payload: 0B}\n", "", "cannot do so", ""},
		{"header", minimal + "load: {headers: {content-length: 5}}\n", "3:18", "sets Content-Length itself", ""},
		{"bool", minimal + "load: {tls: maybe}\n", "3:13", "neither true nor false", ""},
		{"published unit", minimal + "published:\n- {source: s, claim: c, finding: latency_p50, cell: {sidecars: both}, figure: 3, unit: MB}\n", "4:88", "is not a unit of latency_p50", "us"},
		{"bad name", "name: My Study\nquestion: y\n", "1:7", `invalid name "My Study"`, "use lower-case letters, digits and dashes"},
		{"tab", "name: x\nquestion: y\nblocks:\n\tmin: 3\n", "4:", "", ""},
		{"open bracket", minimal + "factors: {rate: [1, 2\n", "", "", "bracket"},
		{"tag", minimal + "window: !!str 2s\n", "3:9", "no tags", ""},
		{"merge key", minimal + "a: &a {min: 1}\nblocks: {<<: *a}\n", "", "merge keys", ""},
		{"missing anchor", minimal + "window: *w\n", "3:9", "no anchor", ""},
		{"two documents", minimal + "---\nname: y\n", "4:1", "second document", ""},
		{"not UTF-8", minimal + "title: \xff\xfe\n", "3:1", "no UTF-8", ""},
		{"zero byte", minimal + "title: a\x00b\n", "3:9", "control character", ""},
		{"deep", minimal + "title: " + strings.Repeat("[", 5000) + "\n", "3:", "nested too deep", ""},
		{"deep dashes", minimal + "title:\n" + strings.Repeat("- ", 5000) + "a\n", "4:", "nested too deep", ""},
		{"huge", minimal + "story: " + strings.Repeat("x", MaxFile) + "\n", "", "more than a study may have", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text), "x.yaml", nil)
			if err == nil {
				t.Fatal("accepted")
			}
			if errs.Code(err) != errs.CodeUsage {
				t.Errorf("exit code %d", errs.Code(err))
			}
			whole := err.Error() + "\n" + errs.Hint(err)
			if !strings.HasPrefix(whole, "x.yaml") || c.at != "" && !strings.HasPrefix(whole, "x.yaml:"+c.at) {
				t.Errorf("not at %s: %s", c.at, whole)
			}
			if !strings.Contains(whole, c.msg) || !strings.Contains(whole, c.tip) {
				t.Errorf("want %q and %q in: %s", c.msg, c.tip, whole)
			}
			if len(whole) > 3000 {
				t.Errorf("an error of %d bytes", len(whole))
			}
		})
	}
}

// A flag that cannot be read says what it should look like.
func TestSetRefuses(t *testing.T) {
	for _, c := range []struct{ set, msg, hint string }{
		{"mtls=[off", "--set mtls=[off", "--set 'mtls=[a, b]'"},
		{"workload.x=\"a", "", "in quotes"},
		{"window=", "the value is missing", "--set window=1s"},
		{"window=# soon", "the value is missing", "--set window=1s"},
		{"window=null", "the value is missing", "--set window=1s"},
		{"sizing=null", "the value is missing", "--set sizing=none leaves the section out"},
		{"money=", "the value is missing", "--set money=none leaves the section out"},
		{"rate=1e12", `"1e12" has an exponent`, "write 1000000000000"},
		{"rate=1,2", `"1,2" is no number`, "[1,2]"},
		{"rat=100", `--set rat=100: unknown field "rat" in the study`, "did you mean rate?"},
		{"sidecar=none", `unknown field "sidecar" in the study`, "did you mean sidecars?"},
		{"widow=1s", `unknown field "widow" in the study`, "did you mean window?"},
		{"blcks.min=1", `unknown field "blcks" in the study`, "did you mean blocks?"},
		{"proxies=3", `"proxies" belongs to the control plane`, "control: {}"},
		{"mesh=kuma", `unknown value "kuma"`, "linkerd"},
	} {
		_, err := Parse([]byte(minimal), "x.yaml", []string{c.set})
		if err == nil || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		if !strings.Contains(err.Error(), c.msg) || !strings.Contains(errs.Hint(err), c.hint) {
			t.Errorf("%s: %v\nhint: %s", c.set, err, errs.Hint(err))
		}
	}
}

// The mesh is a field of every study; of a study of resilience it is a factor,
// too, which a flag means then.
func TestSetMesh(t *testing.T) {
	s, err := Parse([]byte(minimal), "x.yaml", []string{"mesh=linkerd"})
	if err != nil || s.Mesh != MeshLinkerd {
		t.Errorf("%+v, %v", s, err)
	}
	scenario := minimal + "graph: {services: {a: {}}}\ntimeline: {duration: 10s}\n"
	s, err = Parse([]byte(scenario), "x.yaml", []string{"mesh=linkerd"})
	if err != nil || s.Settings[FactorMesh] != MeshLinkerd {
		t.Errorf("%+v, %v", s, err)
	}
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		if i > from {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(i))
	}
	return b.String()
}

// Aliases that multiply must not take the program down.
func TestBillionLaughs(t *testing.T) {
	var b strings.Builder
	b.WriteString(minimal + "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for c := 'b'; c <= 'k'; c++ {
		b.WriteString(string(c) + ": &" + string(c) + " [")
		for i := range 9 {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString("*" + string(c-1))
		}
		b.WriteString("]\n")
	}
	_, err := Parse([]byte(b.String()), "x.yaml", nil)
	if err == nil || !strings.Contains(err.Error(), "more than 20000 values") {
		t.Fatalf("got %v", err)
	}
}

func TestAliases(t *testing.T) {
	s := parseOK(t, minimal+"warmup: {min: &t 2s, max: *t}\nwindow: *t\n")
	if s.Warmup.Min != 2*time.Second || s.Warmup.Max != 2*time.Second || s.Window != 2*time.Second {
		t.Errorf("%+v %v", s.Warmup, s.Window)
	}
}

// All faults are told at once, in the file's order, each with its mark.
func TestManyFaults(t *testing.T) {
	_, err := Parse([]byte("name: X!\nquestion: y\nwindow: 2\nsettings: {rate: -5, payload: 1Kb}\n"), "x.yaml", nil)
	want := `x.yaml:1:7: invalid name "X!"
    1 | name: X!
      |       ^
      = use lower-case letters, digits and dashes, as two-pod-latency
x.yaml:3:9: "2" lacks a unit
    3 | window: 2
      |         ^
      = write a time with its unit: 250ms, 2s, 1m30s
x.yaml:4:18: rate: -5 is negative
    4 | settings: {rate: -5, payload: 1Kb}
      |                  ^
      = a number of requests per second, or max
x.yaml:4:31: payload: unknown unit "Kb" of a size
    4 | settings: {rate: -5, payload: 1Kb}
      |                               ^
      = write bytes as 512B, 1KiB (1024 bytes) or 1kB (1000 bytes)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWithFiles(t *testing.T) {
	s := parseOK(t, minimal+"workload: {service_time: {distribution: recorded, file: times.txt}}\n")
	got, err := s.WithFiles(func(name string) ([]byte, error) {
		return []byte("# measured\n1ms\n2.5ms # slow\n\n300us\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{time.Millisecond, 2500 * time.Microsecond, 300 * time.Microsecond}
	if v := got.Workload.ServiceTime.Values; len(v) != 3 || v[0] != want[0] || v[1] != want[1] || v[2] != want[2] {
		t.Errorf("got %v", v)
	}
	if s.Workload.ServiceTime.File == "" || got.Workload.ServiceTime.File != "" {
		t.Error("the file's name stayed, or went from the original")
	}
	if _, err := Parse(got.Marshal(), "r.yaml", nil); err != nil {
		t.Errorf("resolved: %v", err)
	}
	_, err = s.WithFiles(func(string) ([]byte, error) { return []byte("1ms\n2\n"), nil })
	if err == nil || !strings.HasPrefix(err.Error(), `times.txt:2:1: "2" lacks a unit`) {
		t.Errorf("got %v", err)
	}
}

func TestPublishedUnits(t *testing.T) {
	s := parseOK(t, minimal+`published:
- {source: s, claim: c, finding: latency_p50_overhead, cell: {sidecars: both}, figure: 3, unit: ms}
- {source: s, claim: c, finding: memory_client_proxy, cell: {sidecars: both}, figure: 50, unit: MB}
`)
	if p := s.Published[0]; p.Figure != 3000 || p.Unit != "us" {
		t.Errorf("%+v", p)
	}
	if p := s.Published[1]; p.Figure != 50e6 || p.Unit != "bytes" {
		t.Errorf("%+v", p)
	}
}
