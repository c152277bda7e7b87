package controlplane

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const (
	minimalControl = studytest.Minimal + "control: {}\n"
)

func controlPlan(t *testing.T, text string, sets ...string) *study.Plan {
	t.Helper()
	return studytest.Plan(t, studytest.Minimal+text, sets...)
}

func TestDefaults(t *testing.T) {
	s := studytest.Parse(t, minimalControl)
	if s.Kind != study.ControlPlane {
		t.Fatalf("kind %s", s.Kind)
	}
	for _, f := range factors {
		if level, ok := s.Settings[f.Name]; ok == f.Implied || ok && level != f.Default {
			t.Errorf("%s = %q, want the default %q", f.Name, level, f.Default)
		}
		if level, ok := s.Setting(f); !ok || level != f.Default {
			t.Errorf("the setting of %s is %q, want the default %q", f.Name, level, f.Default)
		}
	}
	c := Of(s)
	if c.Changes != 10 || c.Settle != 30*time.Second || c.ScopeNamespace != "sim-1" || c.Security != SecurityMTLS {
		t.Errorf("%+v", c)
	}
	if strings.Join(s.Measures, " ") != "convergence cost config amplification staleness" || s.Warmup.Max != 0 {
		t.Errorf("%+v", s)
	}
	if text := string(s.Marshal()); strings.Contains(text, "window") || strings.Contains(text, "sidecars:") || !strings.Contains(text, "proxies: 50") {
		t.Errorf("resolved:\n%s", text)
	}
}

func TestLevels(t *testing.T) {
	for _, c := range []struct{ factor, level, want string }{
		{"proxies", "2_000", "2000"}, {"endpoints", "0", "0"}, {"change_rate", "0.40", "0.4"},
		{"sidecar_hosts", `"./*, istio-system/*"`, "./*,istio-system/*"}, {"sidecar_hosts", `"*/*.example.com"`, "*/*.example.com"}, {"sidecar_hosts", `"~/*"`, "~/*"},
		{"export_to", `"."`, "."}, {"export_to", `"~"`, "~"},
		{"discovery_selectors", "istio-discovery=enabled", "istio-discovery=enabled"}, {"discovery_selectors", `"a.b/c != d"`, "a.b/c!=d"},
		{"debounce_after", "2500ms", "2.5s"}, {"debounce_after", "0s", "0s"}, {"debounce_max", "1m30s", "1m30s"},
		{"push_throttle", "default", "default"}, {"push_throttle", "100", "100"}, {"request_limit", "12.50", "12.5"},
		{"istiod_cpu", "1000m", "1"}, {"istiod_memory", "1.5Gi", "1536Mi"}, {"istiod_memory", "2048Mi", "2Gi"}, {"istiod_memory", "1500M", "1500000000"},
		{"istiod_memory", "none", "none"}, {"istiod_env", "B=2;A=1", "A=1;B=2"}, {"istiod_env", `"A=x=y"`, "A=x=y"},
		{"istiod", "docker.io/istio/pilot:1.30.0", "docker.io/istio/pilot:1.30.0"}, {"delta", "false", "false"},
		{"change", "rolling-restart", "rolling-restart"},
	} {
		s := studytest.Parse(t, minimalControl+"settings: {"+c.factor+": "+c.level+"}\n")
		if got := s.Settings[c.factor]; got != c.want {
			t.Errorf("%s: %s = %q, want %q", c.factor, c.level, got, c.want)
		}
	}
}

// The objects to remove after a plan are those of its largest cell.
func TestEndpointSlicesOfAPlan(t *testing.T) {
	for factors, want := range map[string]int{"{services: [10, 20]}": 0, "{endpoint_slices: [0, 5_000, 300]}": 5000} {
		if n := EndpointSlices(controlPlan(t, "control: {}\nfactors: "+factors+"\n")); n != want {
			t.Errorf("%s: %d, want %d", factors, n, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, at, msg, tip string }{
		{"factor of the data plane", minimalControl + "settings: {rate: 5}\n", "4:12", `"rate" is for studies of the data plane`, "leave it out"},
		{"factor of the control plane", studytest.Minimal + "settings: {proxies: 5}\n", "3:12", `"proxies" is for studies of the control plane`, "control: {}"},
		{"window", minimalControl + "window: 2s\n", "4:1", `"window" is for studies of the data plane`, "leave it out"},
		{"measure of the data plane", minimalControl + "measures: [latency]\n", "4:12", `"latency" is for studies of the data plane`, ""},
		{"finding of the data plane", minimalControl + "stop: {finding: latency_p50, half_width: 5%}\n", "4:17", "is for studies of the data plane", ""},
		{"unknown field", minimalControl[:len(minimalControl)-3] + "{change: 5}\n", "3:11", `unknown field "change" in control`, "did you mean changes?"},
		{"empty section", studytest.Minimal + "control:\n", "3:1", "control is empty", ""},
		{"no mesh", minimalControl + "mesh: none\n", "4:7", "no control plane", ""},
		{"changes and duration", studytest.Minimal + "control: {changes: 5, duration: 30s}\n", "3:33", "changes and duration both", ""},
		{"namespace", studytest.Minimal + "control: {dummies_namespace: Istio_System}\n", "3:30", `invalid namespace "Istio_System"`, "lower-case"},
		{"host", studytest.Minimal + "control: {service_entry: {host: \"a b\"}}\n", "3:33", `invalid host "a b"`, "httpbin.org"},
		{"no proxy", minimalControl + "settings: {proxies: 0}\n", "", "has no proxies", "gateways"},
		{"scope nowhere", studytest.Minimal + "control: {scope_namespace: other}\nsettings: {sidecar_scope: namespace}\n", "3:28", "no proxy of cell", "sim-1 to sim-1"},
		{"scope beyond", studytest.Minimal + "control: {scope_namespace: sim-3}\nsettings: {sidecar_scope: workload, namespaces: 2}\n", "3:28", "no proxy of cell", "sim-2"},
		{"namespaces without slices", minimalControl + "settings: {slice_namespaces: 100}\nfactors: {endpoint_slices: [0, 99]}\n", "4:30", "99 EndpointSlices cannot fill 100 namespaces", "as slices"},
		{"trace without changes", minimalControl + "settings: {change: trace}\n", "3:10", "needs recorded changes", "trace: ["},
		{"changes without trace", studytest.Minimal + "control: {trace: [1s no-op]}\n", "3:18", "does not use", "change: trace"},
		{"trace upside down", studytest.Minimal + "control: {trace: [2s no-op, 1s no-op]}\nsettings: {change: trace}\n", "3:29", "earlier than the previous", ""},
		{"bad line of a trace", studytest.Minimal + "control: {trace: [soon no-op]}\nsettings: {change: trace}\n", "3:19", "not a duration", ""},
		{"mixed in a trace", studytest.Minimal + "control: {trace: [1s mixed]}\nsettings: {change: trace}\n", "3:19", "not a single change", ""},
		{"host of a Sidecar", minimalControl + "settings: {sidecar_hosts: istio-system}\n", "4:27", "not a host of a Sidecar", "namespace/name"},
		{"host twice", minimalControl + "settings: {sidecar_hosts: \"./*,./*\"}\n", "4:27", "given twice", ""},
		{"namespace of a host", minimalControl + "settings: {sidecar_hosts: \"A/*\"}\n", "4:27", "not a valid namespace", ""},
		{"selector", minimalControl + "settings: {discovery_selectors: enabled}\n", "4:33", "selects no namespaces", "key=value"},
		{"label of a selector", minimalControl + "settings: {discovery_selectors: \"a b=c\"}\n", "4:33", "not a valid label key", "key=value or key!=value, or none"},
		{"age below zero", minimalControl + "settings: {connection_age: -5m}\n", "4:28", "is negative", "a time such as 30m, or none"},
		{"memory without unit", minimalControl + "settings: {istiod_memory: 5}\n", "4:27", "out of range", "1Mi"},
		{"memory unit", minimalControl + "settings: {istiod_memory: 5GiB}\n", "4:27", "not a number", "512Mi"},
		{"environment", minimalControl + "settings: {istiod_env: A}\n", "4:24", "not an environment variable", "NAME=VALUE"},
		{"lever in the environment", minimalControl + "settings: {istiod_env: \"PILOT_PUSH_THROTTLE=5\"}\n", "4:24", "a lever", "push_throttle"},
		{"debounce", minimalControl + "settings: {debounce_after: 100}\n", "4:28", "lacks a unit", ""},
		{"changes a minute", minimalControl + "settings: {change_rate: 5/m}\n", "4:25", "has a unit", "write 5"},
		{"throttle", minimalControl + "settings: {push_throttle: many}\n", "4:27", "not a number", "default"},
		{"request above the limit", minimalControl + "settings: {istiod_cpu: 1, istiod_cpu_request: 1500m}\n", "4:47", "more than the limit, istiod_cpu 1", "Kubernetes rejects"},
		{"memory request above the limit", minimalControl + "settings: {istiod_memory: 512Mi}\nfactors: {istiod_memory_request: [256Mi, 1Gi]}\n", "5:34", "request 1Gi: istiod_memory_request 1Gi is more", "Kubernetes rejects"},
		{"debounce", minimalControl + "settings: {debounce_after: 20s}\n", "4:28", "longer than debounce_max 10s", "never waits longer than debounce_max: raise that too"},
		{"burst", studytest.Minimal + "control: {changes: 5}\nsettings: {change_arrival: \"burst:6\"}\n", "4:28", "bursts of 6 changes, but a trial makes 5", "at least 6 changes"},
		{"searched twice", minimalControl + "factors: {proxies: [5, 10]}\nsearch:\n- {factor: proxies, finding: convergence_p99, bound: 2 s}\n- {factor: proxies, finding: convergence_p99, bound: 2000 ms, tolerance: 5%}\n", "7:3", "searched twice", "leave one"},
		{"sidecars that are asked", minimalControl + "settings: {real_pods: 5}\nmeasures: [sidecars, convergence]\n", "5:11", "polls real sidecars constantly", "leave convergence out"},
		{"sidecars never idle", studytest.Minimal + "control: {idle: 0s}\nsettings: {real_pods: 5}\nmeasures: [sidecars]\n", "3:17", "an idle period", "15s"},
		{"no real sidecars", minimalControl + "measures: [sidecars]\n", "4:11", "no cell has real_pods", "real_pods: 10"},
		{"route without a gateway", minimalControl + "settings: {change: httproute}\n", "3:10", "change httproute needs control.gateway", "gateway: {}"},
		{"gateway without a route", studytest.Minimal + "control: {gateway: {}}\n", "3:20", "no change adds a route to the gateway", "gateway-route"},
		{"route that changes again", studytest.Minimal + "control: {objects: 2, gateway: {}}\nsettings: {change: gateway-route}\n", "3:20", "already being served", "probes: 0"},
		{"HTTPRoute that changes again", studytest.Minimal + "control: {objects: 2, gateway: {probes: 0}}\nsettings: {change: httproute}\n", "3:20", "a changed route adds none", "leave it out"},
		{"HTTPRoutes and a disruption", studytest.Minimal + "control: {gateway: {}}\nsettings: {change: httproute}\nfactors: {disruption: [none, drop]}\nmeasures: [recovery]\n", "5:23", "deleted after the window", ""},
		{"route without an ACK", studytest.Minimal + "control: {gateway: {}}\nsettings: {change: gateway-route}\n", "3:20", "has no simulated gateway", "gateways: 1"},
		{"too many requests for routes", studytest.Minimal + "control: {gateway: {}}\nsettings: {change: gateway-route, gateways: 1, change_rate: 100}\n", "3:20", "about 15000 requests per second", "every: 16ms, or probes: 0"},
		{"too many at once", studytest.Minimal + "control: {changes: 20, gateway: {every: 1ms}}\nsettings: {change: httproute, gateways: 1, change_arrival: burst}\n", "3:41", "about 20000 requests per second", "every: 11ms"},
		{"route in a trace", studytest.Minimal + "control: {trace: [1s httproute]}\nsettings: {change: trace}\n", "3:19", "cannot be among recorded changes", "httproute"},
		{"requests too close", studytest.Minimal + "control: {gateway: {every: 1us}}\nsettings: {change: gateway-route}\n", "3:28", "out of range", "to 1s"},
		{"published unit", minimalControl + "published:\n- {source: s, claim: c, finding: pushes, cell: {proxies: 50}, figure: 3, unit: MB}\n", "5:80", "is not a unit of pushes", "possible: pushes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := study.Parse([]byte(c.text), "x.yaml", nil)
			if err == nil {
				t.Fatal("accepted")
			}
			whole := err.Error() + "\n" + errs.Hint(err)
			if errs.Code(err) != errs.CodeUsage || !strings.HasPrefix(whole, "x.yaml:"+c.at) {
				t.Errorf("code %d, not at %s: %s", errs.Code(err), c.at, whole)
			}
			if !strings.Contains(whole, c.msg) || !strings.Contains(whole, c.tip) {
				t.Errorf("want %q and %q in: %s", c.msg, c.tip, whole)
			}
		})
	}
}

// Levels that mean nothing in a cell do not make cells different.
func TestEffective(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"factors: {sidecar_scope: [none, mesh], outbound_policy: [ALLOW_ANY, REGISTRY_ONLY]}\n",
			"no Sidecar · ALLOW_ANY; no Sidecar · REGISTRY_ONLY; Sidecar of mesh · ALLOW_ANY; Sidecar of mesh · REGISTRY_ONLY"},
		{"factors: {sidecar_scope: [none, mesh], sidecar_hosts: [\"./*\", \"*/*\"]}\n",
			"no Sidecar; Sidecar of mesh · egress ./*; Sidecar of mesh · egress */*"},
		{"factors: {services: [0, 10], endpoints: [1, 2]}\n",
			"0 services; 10 services · 1 endpoint per service; 10 services · 2 endpoints per service"},
		{"settings: {gateways: 0, real_pods: 1}\nfactors: {proxies: [0, 1], xds: [delta, sotw]}\n",
			"0 sidecars; 1 sidecar · delta xDS; 1 sidecar · state of the world"},
	} {
		if got := studytest.Labels(controlPlan(t, "control: {}\n"+c.text)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
	p := controlPlan(t, "control: {trace: [1s no-op, 3s service]}\nsettings: {change: trace}\n")
	if c := p.Cells[0]; c[FactorChangeRate] != study.NotApplicable || ChangesIn(p.Study, c) != 2 || ChangeTime(p.Study, c) != 3*time.Second {
		t.Errorf("%v", c)
	}
}

func TestLevelsOf(t *testing.T) {
	p := controlPlan(t, `control: {}
settings: {proxies: 7, gateways: 2, sidecar_scope: mesh, sidecar_hosts: "a/*,b/*", discovery_selectors: "k!=v", debounce_after: 2500ms, push_throttle: 9,
  request_limit: 12.5, istiod_cpu: 1500m, istiod_memory: 1.5Gi, istiod_env: "A=1;B=x=y", istiod: "r/i:1", eds_debounce: false, change_rate: 2}
`)
	l, err := LevelsOf(p.Cells[0])
	must.OK(t, err)
	want := Levels{
		Proxies: 7, Gateways: 2, Services: 100, Endpoints: 1, Namespaces: 1, XDS: XDSDelta, Clients: ClientsGood, Simulators: 1,
		Change: ChangeServiceGatewayVirtualService, ChangeRate: arrival.Shape{Kind: arrival.Constant, RateRPS: 2}, ChangeArrival: study.ArrivalUniform,
		SidecarScope: SidecarScopeMesh, ExportTo: "*", DiscoverySelectors: "k!=v", DebounceAfter: 2500 * time.Millisecond,
		DebounceMax: 10 * time.Second, IstiodReplicas: 1, ConnectionAge: 30 * time.Minute,
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("got  %+v\nwant %+v", l, want)
	}
	plain, err := LevelsOf(controlPlan(t, "control: {}\n").Cells[0])
	if err != nil || plain.DiscoverySelectors != "" || plain.Connected() != 50 {
		t.Errorf("%+v %v", plain, err)
	}
	if _, err := LevelsOf(record.Cell{FactorProxies: "5"}); err == nil {
		t.Error("half a cell is read")
	}
}

func TestChangesIn(t *testing.T) {
	p := controlPlan(t, "control: {duration: 30s}\nfactors: {change_rate: [0.1, 0.5, 10], change_arrival: [uniform, burst]}\n")
	var got []string
	for _, c := range p.Cells {
		got = append(got, fmt.Sprint(ChangesIn(p.Study, c), ChangeTime(p.Study, c)))
	}
	if s := strings.Join(got, ", "); s != "3 30s, 3 0s, 15 30s, 15 0s, 300 30s, 300 0s" {
		t.Error(s)
	}
}

func TestEstimate(t *testing.T) {
	p := controlPlan(t, `control: {changes: 10, settle: 20s, quiet: 1s, idle: 2s}
factors: {debounce_after: [100ms, 2500ms]}
baseline: {debounce_after: 100ms}
blocks: {min: 2, max: 3, limit: 20m}
`)
	e := p.Estimate()
	// 8 s restart, 6 s until elected, 50 x 40 ms, 1 s, 2 s, 25 s of changes, 0.3 s.
	const base = 44300 * time.Millisecond
	block := 3*base + 2*1100*time.Millisecond + 3500*time.Millisecond
	if e.Trials != 3 || e.Trial != base+1100*time.Millisecond || e.Block != block || e.Min != 2*block || e.Max != 9*(base+20*time.Second) {
		t.Errorf("%+v", e)
	}
}

// gen draws a control-plane study.
func gen(t *rapid.T) *study.Study {
	s, err := study.Parse([]byte(minimalControl), "x.yaml", nil)
	must.OK(t, err)
	s.Baseline = nil
	Of(s).Settle = time.Duration(rapid.IntRange(1, 600).Draw(t, "settle")) * time.Second
	if rapid.Bool().Draw(t, "duration") {
		Of(s).Changes, Of(s).Duration = 0, time.Duration(rapid.IntRange(1, 60).Draw(t, "s"))*time.Second
	}
	var names []string
	for _, f := range factors {
		names = append(names, f.Name)
	}
	draw := func(label string, least, most int) record.Cell {
		out := record.Cell{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), least, most, rapid.ID).Draw(t, label) {
			f, _ := study.FactorByName(name)
			out[name] = rapid.SampledFrom(pool(f)).Draw(t, label+" "+name)
		}
		return out
	}
	s.Settings = draw("settings", 1, 6)
	for i := range rapid.IntRange(0, 3).Draw(t, "variants") {
		s.Variants = append(s.Variants, study.NamedLevels{Name: fmt.Sprintf("v%d", i), Levels: draw("variant", 0, 3)})
	}
	for name, level := range draw("factors", 0, 2) {
		delete(s.Settings, name)
		f, _ := study.FactorByName(name)
		s.Factors = append(s.Factors, record.FactorLevels{Factor: name, Levels: []string{level}, Unit: f.Unit})
	}
	if rapid.Bool().Draw(t, "published") {
		s.Published = []study.Published{{Source: "s", Claim: "c", Finding: "pushes", Cell: record.Cell{FactorProxies: "50"}, Figure: 514, Unit: "pushes"}}
	}
	return s
}

func pool(f study.Factor) []string {
	if f.Levels != nil {
		return f.Levels
	}
	return append([]string{f.Default}, f.Examples...)
}

func TestRoundTrip(t *testing.T) {
	parsed := 0
	rapid.Check(t, func(t *rapid.T) {
		first, err := study.Parse(gen(t).Marshal(), "first.yaml", nil)
		if err != nil {
			if errs.Code(err) != errs.CodeUsage {
				t.Fatalf("exit code %d: %v", errs.Code(err), err)
			}
			return
		}
		parsed++
		studytest.SameAgain(t, first)
		p, err := study.NewPlan(first, 7)
		must.OK(t, err)
		for _, c := range p.Cells {
			l, err := LevelsOf(c)
			if err != nil || study.ControlPlane.Effective(c).Key() != c.Key() {
				t.Fatalf("cell %s: %+v %v", c.Key(), l, err)
			}
		}
		if e := p.Estimate(); e.Trial <= 0 || e.Block < e.Trial || e.Min > e.Max {
			t.Fatalf("%+v", e)
		}
	})
	if parsed < 10 {
		t.Errorf("only %d studies were accepted", parsed)
	}
}

// The levels that describe a factor are valid and canonical.
func TestFactors(t *testing.T) {
	for _, f := range factors {
		for _, level := range append(append([]string{f.Default}, f.Levels...), f.Examples...) {
			if got, err := f.Canonical(level); (err != nil || got != level) && f.Name != study.FactorDebounceAfter {
				t.Errorf("%s: %q becomes %q (%v)", f.Name, level, got, err)
			}
		}
		if _, err := f.Canonical(""); err == nil || f.Doc == "" || f.Scope == "" {
			t.Errorf("%s has an empty level or is not described", f.Name)
		}
	}
}

func TestSoak(t *testing.T) {
	const good = "name: soak\nquestion: Does it leak?\ncontrol: {soak: true, changes: 10, idle: 0s}\nsettings: {proxies: 20, change_rate: 1}\nblocks: {min: 18, max: 600, limit: 2h}\n"
	p := studytest.Plan(t, good)
	s := p.Study
	if !Of(s).Soak || p.BlockSize() != 1 {
		t.Fatalf("a block has %d trials", p.BlockSize())
	}
	short, _ := controlTrial(s, p.Cells[0])
	Of(s).Soak = false
	fresh, _ := controlTrial(s, p.Cells[0])
	if fresh-short != restartTime+electedTime || short < 10*time.Second {
		t.Errorf("a window takes %v, a trial with a fresh istiod %v", short, fresh)
	}
	for _, c := range []struct{ from, to, want string }{
		{"blocks:", "factors: {services: [1, 2]}\nblocks:", "this study has 2"},
		{"blocks:", "variants: {a: {}, b: {services: 3}}\nblocks:", "a soak has one cell"},
		{"min: 18, max: 600", "min: 2, max: 17", "a soak of fewer than 18 windows"},
		{"blocks:", "stop: {finding: convergence_p50, half_width: 5%}\nblocks:", "must not end early"},
	} {
		if _, err := study.Parse([]byte(strings.Replace(good, c.from, c.to, 1)), "soak.yaml", nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}

// A schedule in step with istiod's debouncing is reported, any other is not.
func TestResonances(t *testing.T) {
	for _, tt := range []struct {
		settings string
		want     string // "" for nothing
	}{
		{"change_rate: 0.4, debounce_after: 2500ms", "debounce_after, 2.5s, is close to the time between changes, 2.5s"},
		{"change_rate: 0.4, debounce_after: 2300ms", "debounce_after, 2.3s, is close to"},
		{"change_rate: 0.4, debounce_after: 2200ms", ""},
		{"change_rate: 0.4, debounce_after: 3s", "debounce_max, 10s, is close to a multiple of the time between changes, 2.5s"},
		{"change_rate: 0.4, debounce_after: 3s, debounce_max: 11s", ""},
		{"change_rate: 20", ""},
		{"change_rate: 0.4", ""},
		{"change_rate: 5, debounce_after: 200ms", "debounce_after, 200ms, is close to"},
		// So fast that each of many changes is decided on its own.
		{"change_rate: 10", ""},
		{"change_rate: 9.5", ""},
		{"change_rate: 100, debounce_after: 10ms", ""},
		{"change_rate: 10, debounce_after: 300ms, debounce_max: 500ms", ""},
		{"change_rate: 10, change_arrival: poisson", ""},
		{"change_rate: 0.4, debounce_after: 2500ms, change_arrival: burst", ""},
		{"change_rate: 4, debounce_after: 2500ms, change_arrival: 'burst:10'", "2.5s, is close to the time between changes, 2.5s"},
		{"change_rate: 'ramp:1:10:5s', debounce_after: 1s", ""},
	} {
		p := controlPlan(t, "control: {changes: 20}\nsettings: {"+tt.settings+"}\n")
		got := note.Words(p.Warnings())
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q", tt.settings, got)
		}
	}
}

// A study with one simulator has the same cells and text as before there could be several. A study
// that varies their number states it in each cell.
func TestOneSimulatorGoesWithoutSaying(t *testing.T) {
	plain := controlPlan(t, "control: {}\nfactors: {services: [10, 20]}\n")
	if bytes.Contains(plain.Study.Marshal(), []byte(FactorSimulators)) {
		t.Error("the resolved study names simulators")
	}
	one := controlPlan(t, "control: {}\nfactors: {services: [10, 20]}\n", "simulators=1")
	for i, cell := range one.Cells {
		l, err := LevelsOf(cell)
		if _, said := cell[FactorSimulators]; said || err != nil || l.Simulators != 1 || SimulatorsIn(cell) != 1 || cell.Key() != plain.Cells[i].Key() {
			t.Errorf("%v: %+v, %v", cell, l, err)
		}
	}
	if Simulators(one) != 1 {
		t.Errorf("%d pods", Simulators(one))
	}
	several := controlPlan(t, "control: {}\nsettings: {proxies: 0, gateways: 4}\nfactors: {simulators: [1, 3]}\nbaseline: {simulators: 1}\n")
	if len(several.Cells) != 2 || Simulators(several) != 3 {
		t.Fatalf("%d cells, %d pods", len(several.Cells), Simulators(several))
	}
	for i, cell := range several.Cells {
		if l, err := LevelsOf(cell); err != nil || l.Simulators != 1+2*i || SimulatorsIn(cell) != l.Simulators {
			t.Errorf("%v: %+v, %v", cell, l, err)
		}
		if base, ok := several.BaselineOf(cell); !ok || base[FactorSimulators] != "1" {
			t.Errorf("%v is compared with %v", cell, base)
		}
	}
}

const stormFile = `
name: storm
question: How long until all are back?
control: {changes: 1, settle: 2s, aftermath: 30s}
settings: {proxies: 100, change: no-op}
factors:
  disruption: [drop, restart]
baseline: {disruption: drop}
measures: [recovery, cost]
blocks: {min: 2, max: 4}
`

// A trial takes as long as its disruption is watched, and cells name the disruption.
func TestDisruption(t *testing.T) {
	p := studytest.Plan(t, stormFile)
	kinds := map[string]bool{}
	for _, c := range p.Cells {
		l, err := LevelsOf(c)
		must.OK(t, err)
		kinds[l.Disruption.Kind] = l.Disruption.Restarts()
		short, long := controlTrial(p.Study, c)
		if long-short < 20*time.Second || long < 30*time.Second {
			t.Errorf("%s: a trial takes %v to %v", c.Key(), short, long)
		}
	}
	if restarts, ok := kinds[DisruptionRestart]; len(kinds) != 2 || !ok || !restarts || kinds[DisruptionDrop] {
		t.Errorf("%v", kinds)
	}
	if l, _ := LevelsOf(p.Cells[0].With(map[string]string{FactorDisruption: "scale:3"})); l.Disruption != (Disruption{DisruptionScale, 3}) {
		t.Errorf("%+v", l.Disruption)
	}
	if l, _ := LevelsOf(p.Cells[0].With(map[string]string{FactorDisruption: study.LevelNone})); l.Disruption != (Disruption{}) {
		t.Errorf("%+v", l.Disruption)
	}
}

// Disruptions that cannot be measured or recovered from are rejected.
func TestDisruptionsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"nobody measures it":      {"measures: [recovery, cost]", "measures: [cost]", "no measure records the effect of its disruption"},
		"nothing to recover from": {"disruption: [drop, restart]\nbaseline: {disruption: drop}", "xds: [delta, sotw]\nbaseline: {xds: delta}", "no cell has a disruption"},
		"nobody to come back":     {"proxies: 100", "proxies: 0, real_pods: 1", "without simulated proxies"},
		"misbehaving":             {"change: no-op", "change: no-op, clients: rejects", "never recover"},
		"scaled from who knows":   {"[drop, restart]", "[drop, \"scale:3\"]", "needs istiod_replicas set to fewer"},
		"scaled to as many":       {"change: no-op}\nfactors:\n  disruption: [drop, restart]", "change: no-op, istiod_replicas: 3}\nfactors:\n  disruption: [drop, \"scale:3\"]", "set to fewer"},
		"to one":                  {"[drop, restart]", "[drop, \"scale:1\"]", "scale"},
		"of another kind":         {"[drop, restart]", "[drop, flood]", "is not a disruption"},
	} {
		text := strings.Replace(stormFile, tt.from, tt.to, 1)
		if text == stormFile {
			t.Fatalf("%s: nothing was replaced", name)
		}
		s, err := study.Parse([]byte(text), "storm.yaml", nil)
		if err == nil {
			_, err = study.NewPlan(s, 1)
		}
		if err == nil || name != "to one" && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChangeRate(t *testing.T) {
	for level, want := range map[string]string{
		"0.40": "0.4", "ramp:1:20:30s": "ramp:1:20:30s", "ramp:0:2.50:60s": "ramp:0:2.5:1m", "steps:1:10s,8:5s": "steps:1:10s,8:5s", "steps:1:1s, 0:500ms": "steps:1:1s,0:500ms",
	} {
		if got, c := changeRateLevel(level); c != nil || got != want {
			t.Errorf("%s: %s, %v", level, got, c)
		}
	}
	for level, want := range map[string]string{
		"0": "out of range", "-1": "", "1001": "out of range", "ramp:1:2": "not a rate", "ramp:0:0:1s": "makes no change", "ramp:1:2:0s": "out of range", "ramp:1:2:2h": "out of range",
		"ramp:x:2:1s": "", "steps:1": "", "steps:0:1s": "makes no change", "steps:": "number is missing", "wave:1:2": "not a rate", "steps:2000:1s": "out of range", "ramp:1:2:NaN": "", "ramp:NaN:2:1s": "",
		"steps:" + strings.Repeat("1:1s,", 100) + "1:1s": "more than 100 steps",
	} {
		if _, c := changeRateLevel(level); c == nil || !strings.Contains(c.Msg, want) || c.Hint == "" {
			t.Errorf("%.40s: %+v, want %s", level, c, want)
		}
	}
}

func TestChangeArrival(t *testing.T) {
	for level, want := range map[string]struct {
		kind  string
		burst int
	}{"uniform": {"uniform", 0}, "poisson": {"poisson", 0}, "burst": {"burst", 0}, "burst:25": {"burst", 25}} {
		text, c := arrivalLevel(level)
		kind, burst := Levels{ChangeArrival: text}.Arrival()
		if c != nil || text != level || kind != want.kind || burst != want.burst {
			t.Errorf("%s: %s, %s of %d, %v", level, text, kind, burst, c)
		}
	}
	for _, level := range []string{"", "burst:", "burst:0", "burst:x", "burst:1.5", "burst:40001", "uniform:2", "all"} {
		if _, c := arrivalLevel(level); c == nil || c.Hint == "" {
			t.Errorf("%q passes: %+v", level, c)
		}
	}
}

// TestChangeTime checks the number of changes and the time that they take.
func TestChangeTime(t *testing.T) {
	for _, c := range []struct {
		control, rate, arrival string
		changes                int
		time                   time.Duration
	}{
		{"{changes: 10}", "0.4", "uniform", 10, 25 * time.Second},
		{"{duration: 10s}", "2", "poisson", 20, 10 * time.Second},
		{"{changes: 10}", "2", "burst", 10, 0},
		{"{changes: 10}", "2", "burst:5", 10, 2500 * time.Millisecond},
		{"{changes: 11}", "2", "burst:5", 11, 5 * time.Second},
		{"{duration: 10s}", "ramp:0:10:10s", "uniform", 50, 10 * time.Second},
		{"{changes: 60}", "ramp:0:10:10s", "uniform", 60, 11 * time.Second},
		{"{duration: 20s}", "\"steps:1:10s,5:5s,0:1s\"", "uniform", 35, 15 * time.Second},
		{"{duration: 20s}", "\"steps:1:10s,5:1s\"", "uniform", 60, 20 * time.Second},
	} {
		p := controlPlan(t, "control: "+c.control+"\nsettings: {change_rate: "+c.rate+", change_arrival: \""+c.arrival+"\"}\n")
		cell := p.Cells[0]
		if n, long := ChangesIn(p.Study, cell), ChangeTime(p.Study, cell); n != c.changes || long != c.time {
			t.Errorf("%+v: %d changes in %v", c, n, long)
		}
	}
	if _, err := study.Parse([]byte(studytest.Minimal+"control: {changes: 20}\nsettings: {change_rate: \"steps:1:10s,0:1s\"}\n"), "x.yaml", nil); err == nil || !strings.Contains(err.Error(), "never reaches 20 changes") {
		t.Error(err)
	}
	s := &study.Study{Kind: study.ControlPlane, Section: defaults()}
	if got := ChangesIn(s, record.Cell{}); got != 10 {
		t.Error(got)
	}
}
