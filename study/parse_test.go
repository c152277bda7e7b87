package study

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

const minimal = "name: x\nquestion: why?\n"

const minimalControl = minimal + "control: {}\n"

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
	for _, f := range DataPlane.Factors() {
		if level, ok := s.Settings[f.Name]; ok == f.Implied || ok && level != f.Default {
			t.Errorf("%s = %q, want the default %q", f.Name, level, f.Default)
		}
		if level, ok := s.Setting(f); !ok || level != f.Default {
			t.Errorf("the setting of %s is %q, want the default %q", f.Name, level, f.Default)
		}
	}
	if s.Title != "x" || s.Mesh != MeshIstio || len(s.Measures) != 7 || s.Stop != nil {
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

// A faulty file is rejected at the position of the error, with exit code 2.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text string
		at, want   string // line:column; code and field
	}{
		{"empty", "", "1:1", "missing"},
		{"only comments", "# hello\n\n# there\n", "1:1", "missing"},
		{"scalar", "hello\n", "1:1", "type"},
		{"no name", "question: why?\n", "1:1", "missing"},
		{"unknown field", minimal + "widow: 2s\n", "3:1", "unknown widow"},
		{"unknown nested field", minimal + "blocks: {min: 1, mx: 3}\n", "3:18", "unknown blocks.mx"},
		{"unknown factor", minimal + "factors:\n  sidecar: [none]\n", "4:3", "unknown factors.sidecar"},
		{"unknown level", minimal + "factors:\n  sidecars: [none, boht]\n", "4:20", "unknown factors.sidecars[1]"},
		{"unknown level in settings", minimal + "settings: {arrival: possion}\n", "3:21", "unknown settings.arrival"},
		{"bits", minimal + "settings: {payload: 1Kb}\n", "3:21", "unit settings.payload"},
		{"half a byte", minimal + "settings: {payload: 0.5B}\n", "3:21", "invalid settings.payload"},
		{"huge payload", minimal + "settings: {payload: 1000MiB}\n", "3:21", "range settings.payload"},
		{"negative rate", minimal + "settings: {rate: -5}\n", "3:18", "range settings.rate"},
		{"rate with unit", minimal + "settings: {rate: 1000rps}\n", "3:18", "unit settings.rate"},
		{"rate with comma", minimal + "settings: {rate: \"1,000\"}\n", "3:18", "invalid settings.rate"},
		{"nan", minimal + "settings: {rate: .nan}\n", "3:18", "invalid settings.rate"},
		{"inf", minimal + "settings: {rate: .inf}\n", "3:18", "invalid settings.rate"},
		{"hex", minimal + "settings: {rate: 0x10}\n", "3:18", "invalid settings.rate"},
		{"exponent", minimal + "settings: {rate: 1e3}\n", "3:18", "invalid settings.rate"},
		{"list without brackets", minimal + "settings: {connections: \"8,16,32\"}\n", "3:25", "invalid settings.connections"},
		{"fraction of a connection", minimal + "settings: {connections: 1.5}\n", "3:25", "invalid settings.connections"},
		{"connections beyond 64 bits", minimal + "settings: {connections: 99999999999999999999}\n", "3:25", "range settings.connections"},
		{"bad version", minimal + "settings: {envoy: 1.39}\n", "3:19", "invalid settings.envoy"},
		{"cpu unit", minimal + "settings: {cpu_limit: 500mCPU}\n", "3:23", "invalid settings.cpu_limit"},
		{"empty level", minimal + "settings: {rate: }\n", "3:12", "missing settings.rate"},
		{"list in settings", minimal + "settings: {rate: [1, 2]}\n", "3:18", "type settings.rate"},
		{"scalar in factors", minimal + "factors: {rate: 5}\n", "3:11", "type factors.rate"},
		{"empty list", minimal + "factors: {rate: []}\n", "3:17", "missing factors.rate"},
		{"duplicate level", minimal + "factors: {rate: [100, 200, 100]}\n", "3:28", "duplicate factors.rate[2]"},
		{"duplicate level, other spelling", minimal + "factors: {payload: [1KiB, 1024B]}\n", "3:27", "duplicate factors.payload[1]"},
		{"factor twice", minimal + "factors:\n  rate: [1]\n  rate: [2]\n", "5:3", "syntax"},
		{"field twice", "name: x\nquestion: y\nname: z\n", "3:1", "syntax"},
		{"factor fixed and varied", minimal + "settings: {rate: 5}\nfactors: {rate: [1, 2]}\n", "3:18", "conflict settings.rate"},
		{"time without unit", minimal + "window: 2\n", "3:9", "unit window"},
		{"negative time", minimal + "window: -2s\n", "3:9", "range window"},
		{"no time", minimal + "window: soon\n", "3:9", "invalid window"},
		{"time out of range", minimal + "window: 1ns\n", "3:9", "range window"},
		{"broken window", minimal + "window: 2100ms\n", "3:9", "conflict window"},
		{"warm-up upside down", minimal + "warmup: {min: 3s, max: 1s}\n", "3:9", "conflict warmup"},
		{"blocks upside down", minimal + "blocks: {min: 5, max: 4}\n", "3:9", "conflict blocks"},
		{"no blocks", minimal + "blocks: {min: 0}\n", "3:15", "range blocks.min"},
		{"unknown measure", minimal + "measures: [latency, cpus]\n", "3:21", "unknown measures[1]"},
		{"measure twice", minimal + "measures: [cpu, cpu]\n", "3:11", "duplicate measures"},
		{"unknown mesh", minimal + "mesh: consul\n", "3:7", "unknown mesh"},
		{"sidecars without a mesh", minimal + "mesh: none\nfactors: {sidecars: [none, both]}\n", "3:7", "conflict mesh"},
		{"an ambient mesh that is not Istio's", minimal + "mesh: linkerd\nfactors: {sidecars: [none, ambient]}\n", "3:7", "conflict mesh"},
		{"a gateway that is not Istio's", minimal + "mesh: linkerd\nfactors: {sidecars: [none, gateway]}\n", "3:7", "conflict mesh"},
		{"TCP through a gateway", minimal + "settings: {sidecars: gateway}\nfactors: {protocol: [http1, tcp]}\n", "4:", "conflict factors.protocol"},
		{"TLS through a gateway", minimal + "load: {tls: true}\nfactors: {sidecars: [none, gateway]}\n", "3:", "conflict load.tls"},
		{"a search without its factor", minimal + "search: [{finding: latency_p99, bound: 1ms}]\n", "3:10", "missing search[0]"},
		{"baseline unmeasured", minimal + "settings: {sidecars: both}\nfactors: {rate: [1, 2]}\nbaseline: {sidecars: none}\n", "5:11", "no-cell baseline"},
		{"baseline of a variant's own level", minimal + "variants: {a: {sidecars: none}, b: {sidecars: both}}\nbaseline: {sidecars: none}\n", "4:11", "no-cell baseline"},
		{"baseline of a variant that is not everywhere", minimal + "variants: {a: {sidecars: none}, b: {sidecars: both}}\nfactors: {rate: [1, 2]}\nexclude: [{variant: a, rate: 1}]\nbaseline: {sidecars: none}\n", "6:11", "no-cell baseline"},
		{"baseline beside a level with commas", minimalControl + "settings: {sidecar_scope: mesh, sidecar_hosts: \"./*,istio-system/*\"}\nfactors: {proxies: [1, 2]}\nbaseline: {sidecar_hosts: x/*}\n", "6:11", "no-cell baseline"},
		{"baseline excluded", minimal + "factors: {sidecars: [none, both], rate: [1, 2]}\nexclude: [{sidecars: none, rate: 1}]\n", "", "no-cell baseline"},
		{"exclude matches nothing", minimal + "factors: {rate: [1, 2]}\nexclude: [{rate: 1}, {rate: 3}]\n", "4:22", "no-cell exclude[1]"},
		{"exclude twice", minimal + "factors: {rate: [1, 2]}\nexclude: [{rate: 1}, {rate: 1}]\n", "4:22", "duplicate exclude[1]"},
		{"exclude everything", minimal + "factors: {rate: [1, 2]}\nexclude: [{sidecars: both}]\n", "4:10", "no-cell exclude"},
		{"strict mTLS without a client sidecar", minimal + "factors:\n  sidecars: [none, server, both]\n  mtls: [strict, off]\n", "5:9", "conflict factors.mtls"},
		{"too many cells", minimal + "factors: {connections: [" + numbers(1, 80) + "], rate: [" + numbers(1, 80) + "]}\n", "3:10", "limit factors"},
		{"far too many cells", minimal + "factors: {connections: [" + numbers(1, 3000) + "], rate: [" + numbers(1, 3000) + "]}\n", "3:10", "limit factors"},
		{"stop unknown", minimal + "stop: {finding: latency_p51, half_width: 5%}\n", "3:17", "unknown stop.finding"},
		{"stop without per cent", minimal + "stop: {finding: latency_p50, half_width: 0.05}\n", "3:42", "unit stop.half_width"},
		{"stop on nothing", minimal + "stop: {finding: latency_p50, half_width: 5%, of: {sidecars: none}}\n", "3:50", "no-cell stop.of"},
		{"stop on no overhead", minimal + "stop: {finding: latency_p50_overhead, half_width: 5%}\n", "3:17", "no-cell stop.finding"},
		{"seed", minimal + "seed: -1\n", "3:7", "invalid seed"},
		{"sigma for nothing", minimal + "workload: {service_time: {sigma: 1}}\n", "3:34", "conflict workload.service_time.sigma"},
		{"lognormal without sigma", minimal + "workload: {service_time: {distribution: lognormal, mean: 1ms}}\n", "3:41", "conflict workload.service_time.distribution"},
		{"exponential without mean", minimal + "workload: {service_time: {distribution: exponential}}\n", "3:41", "conflict workload.service_time.distribution"},
		{"recorded without times", minimal + "workload: {service_time: {distribution: recorded}}\n", "3:41", "conflict workload.service_time.distribution"},
		{"tcp without payload", minimal + "settings: {protocol: tcp, payload: 0B}\n", "", "conflict factors.payload"},
		{"header", minimal + "load: {headers: {content-length: 5}}\n", "3:18", "conflict load.headers.content-length"},
		{"bool", minimal + "load: {tls: maybe}\n", "3:13", "invalid load.tls"},
		{"published unit", minimal + "published:\n- {source: s, claim: c, finding: latency_p50, cell: {sidecars: both}, figure: 3, unit: MB}\n", "4:88", "unit published[0].unit"},
		{"bad name", "name: My Study\nquestion: y\n", "1:7", "invalid name"},
		{"tab", "name: x\nquestion: y\nblocks:\n\tmin: 3\n", "4:", "syntax"},
		{"open bracket", minimal + "factors: {rate: [1, 2\n", "", "syntax"},
		{"tag", minimal + "window: !!str 2s\n", "3:9", "syntax"},
		{"merge key", minimal + "a: &a {min: 1}\nblocks: {<<: *a}\n", "", "syntax"},
		{"missing anchor", minimal + "window: *w\n", "3:9", "syntax"},
		{"two documents", minimal + "---\nname: y\n", "4:1", "syntax"},
		{"not UTF-8", minimal + "title: \xff\xfe\n", "3:1", "syntax"},
		{"zero byte", minimal + "title: a\x00b\n", "3:9", "syntax"},
		{"deep", minimal + "title: " + strings.Repeat("[", 5000) + "\n", "3:", "syntax"},
		{"deep dashes", minimal + "title:\n" + strings.Repeat("- ", 5000) + "a\n", "4:", "syntax"},
		{"huge", minimal + "story: " + strings.Repeat("x", MaxFile) + "\n", "", "syntax"},
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
			if got := faults(err); got != c.want {
				t.Errorf("%s, want %s: %v", got, c.want, err)
			}
			if len(whole) > 3000 {
				t.Errorf("an error of %d bytes", len(whole))
			}
		})
	}
}

// A malformed flag yields an error that says what it should look like.
func TestSetRefuses(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"mtls=[off", "syntax"},
		{"workload.x=\"a", "syntax"},
		{"window=", "missing window"},
		{"window=null", "missing window"},
		{"money=", "missing money"},
		{"rate=1e12", "invalid settings.rate"},
		{"rat=100", "unknown rat"},
		{"blcks.min=1", "unknown blcks.min"},
		{"proxies=3", "kind settings.proxies"},
		{"mesh=kuma", "unknown mesh"},
	} {
		refused(t, minimal, c.want, c.set)
	}
}

// The mesh is a field of every study. In a resilience study it is also a factor, which a flag then
// refers to.
func TestSetMesh(t *testing.T) {
	if s := parseOK(t, minimal, "mesh=linkerd"); s.Mesh != MeshLinkerd {
		t.Errorf("%+v", s)
	}
	if s := parseOK(t, minimal+"graph: {services: {a: {}}}\ntimeline: {duration: 10s}\n", "mesh=linkerd"); s.Settings[FactorMesh] != MeshLinkerd {
		t.Errorf("%+v", s)
	}
}

func numbers(from, to int) string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, ", ")
}

// Exponential alias expansion must not take the program down.
func TestBillionLaughs(t *testing.T) {
	var b strings.Builder
	b.WriteString(minimal + "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for c := 'b'; c <= 'k'; c++ {
		b.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n")
	}
	answered(t, b.String(), nil, "", "more than 20000 values")
}

func TestAliases(t *testing.T) {
	s := parseOK(t, minimal+"warmup: {min: &t 2s, max: *t}\n")
	if s.Warmup.Min != 2*time.Second || s.Warmup.Max != 2*time.Second {
		t.Errorf("%+v", s.Warmup)
	}
}

// All errors are reported at once, in file order, each with its marker.
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
