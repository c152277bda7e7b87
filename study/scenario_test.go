package study

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const smallScenario = `name: small
question: q
story: s
graph:
  services:
    front: {replicas: 1, calls: [{to: bar}]}
    bar: {replicas: 2}
load: {to: front}
settings: {rate: 10}
timeline:
  duration: 10s
  steps:
  - {name: gone, at: 1s, remove: {service: bar}}
  - {name: sale, at: 5s, for: 2s, load: {rate: 20, announced: 2s, service: bar, replicas: 4}}
variants:
  all: {}
  less: {skip: gone}
expect: {less: fail}
`

// Contradictions in a graph or a timeline are rejected before anything starts, with their position
// in the file.
func TestScenarioRefused(t *testing.T) {
	answered(t, smallScenario, nil, "", "")
	replace := func(old, with string) string {
		if !strings.Contains(smallScenario, old) {
			t.Fatalf("there is no %q", old)
		}
		return strings.Replace(smallScenario, old, with, 1)
	}
	steps := func(lines ...string) string {
		return replace("  - {name: gone, at: 1s, remove: {service: bar}}\n", "  - {name: gone, at: 1s, remove: {service: bar}}\n  - "+strings.Join(lines, "\n  - ")+"\n")
	}
	for name, c := range map[string]struct{ text, at, want string }{
		"a cycle":                   {replace("bar: {replicas: 2}", "bar: {replicas: 2, calls: [{to: front}]}"), "", "front"},
		"a cycle of one":            {replace("bar: {replicas: 2}", "bar: {replicas: 2, calls: [{to: bar}]}"), "7:", "bar"},
		"a call to nobody":          {replace("[{to: bar}]", "[{to: baz}]"), "6:", "baz"},
		"load to nobody":            {replace("{to: front}", "{to: frond}"), "8:", `there is no service "frond"`},
		"a step about nobody":       {replace("remove: {service: bar}", "remove: {service: baz}"), "13:", `there is no service "baz"`},
		"a network from nobody":     {steps("{name: cut, at: 1s, network: {from: baz, to: bar, cut: true}}"), "14:", `there is no service "baz"`},
		"a negative time":           {replace("at: 1s, remove", "at: -1s, remove"), "13:", "-1s"},
		"a negative end":            {replace("for: 2s", "for: -2s"), "14:", "-2s"},
		"a time after the end":      {replace("at: 1s, remove", "at: 11s, remove"), "13:", "after the timeline's end"},
		"a timeline without length": {replace("duration: 10s", "duration: 0s"), "11:", "0s"},
		"overlapping moves": {steps("{name: moved, at: 1s, move: {to: installed}}", "{name: back, at: 6s, move: {to: installed}}"),
			"15:22:", `"back" moves the namespace at 6s, while "moved" may still be moving it until 31s`},
		"overlapping steps": {steps("{name: slow, at: 1s, for: 3s, worker: {service: bar, set: {cpu: 1ms}}}", "{name: sick, at: 2s, for: 3s, worker: {service: bar, set: {cpu: 2ms}}}"),
			"15:", `"sick" begins at 2s, while "slow" affects the same workers of bar until 4s`},
		"overlapping turns": {steps("{name: slow, at: 1s, for: 3s, every: 2s, times: 2, worker: {service: bar, set: {cpu: 1ms}}}"), "14:", "overlaps itself"},
		"one name twice":    {steps("{name: gone, at: 2s, remove: {service: bar}}"), "14:", "has the name of step 1"},
		"no action":         {steps("{name: idle, at: 2s}"), "14:", "must do exactly one thing"},
		"two actions":       {steps("{name: both, at: 2s, remove: {service: bar}, add: {service: bar}}"), "14:", "must do exactly one thing"},
		"no way back":       {steps("{name: again, at: 2s, for: 1s, restart: {service: bar}}"), "14:", "not reverted automatically"},
		"whose worker":      {steps("{name: dead, at: 2s, process: {of: worker, do: kill}}"), "14:", "worker needs a service"},
		"nothing to packets": {steps("{name: cut, at: 2s, network: {from: front, to: bar}}"), "14:",
			`step "cut" has no effect on the network`},
		"more than all packets": {steps("{name: lost, at: 2s, network: {from: front, to: bar, lose: 110%}}"), "14:", "more than 100%"},
		"skips nobody":          {replace("skip: gone", "skip: gon"), "17:", `there is no step "gon" to skip`},
		"expects of nobody":     {replace("expect: {less", "expect: {fewer"), "18:", "variant"},
	} {
		t.Run(name, func(t *testing.T) {
			answered(t, c.text, nil, c.at, c.want)
		})
	}
}

// A scenario can be narrowed to one of its variants, whatever is expected of the others. Its cell
// has the variant's name.
func TestOneVariantOfAScenario(t *testing.T) {
	for set, name := range map[string]string{"variant=all": "all", "variant=[all]": "all", "variant=less": "less"} {
		p := planOf(t, string(parseOK(t, smallScenario, set).Marshal())) // as for resuming a run
		if len(p.Cells) != 1 || p.Label(p.Cells[0]) != name {
			t.Errorf("%s: %v, the first called %s", set, p.Cells, p.Label(p.Cells[0]))
		}
	}
}

const ambientGraph = `
name: ambient-graph
question: What do they use?
graph: {services: {a: {replicas: 1, calls: [{to: b}]}, b: {replicas: 2}}}
load: {to: a, clients: 2}
settings: {mtls: strict, retries: 2, retry_on: 5xx}
factors: {mesh: [none, istio, linkerd], sidecars: [both, ambient]}
baseline: {mesh: none}
timeline: {duration: 5s}
measures: [latency, cpu, memory]
`

// Only Istio's requests can be carried by ztunnel, and sidecar settings mean nothing there.
func TestAmbientGraph(t *testing.T) {
	p := planOf(t, ambientGraph)
	var got []string
	for _, cell := range p.Cells {
		got = append(got, cell[FactorMesh]+" "+cell[FactorSidecars]+" "+cell[FactorMTLS]+" "+cell[FactorRetries]+" "+cell[FactorRetryOn])
	}
	want := []string{"none - - - -", "istio both strict 2 5xx", "istio ambient - - -", "linkerd - strict 2 5xx"}
	if !slices.Equal(got, want) {
		t.Errorf("the cells are %q, want %q", got, want)
	}
	// A study that does not vary it does not name it: cells are unchanged.
	p = planOf(t, ambientGraph, "sidecars=both")
	for _, cell := range p.Cells {
		if level, ok := cell[FactorSidecars]; ok {
			t.Errorf("sidecars: %s in cell %v", level, cell)
		}
	}
	if len(p.Cells) != 3 {
		t.Errorf("%d cells", len(p.Cells))
	}
}

// carriedScenario has one step, in cells of three ways of carrying requests.
const carriedScenario = `name: carried
question: q
graph: {services: {a: {calls: [{to: b}]}, b: {replicas: 2}}}
load: {to: a}
settings: {rate: 10, sidecars: LEVEL}
timeline:
  duration: 20s
  steps:
  - {name: step, at: 1s, ACTION}
`

// The carrier of requests determines what can happen to it: a step that has nothing to act on, or
// that cannot be proved, is rejected with its position, unless no cell has it.
func TestCarriedSteps(t *testing.T) {
	const objects = `config: {apply: "{apiVersion: GROUP/v1, kind: X, metadata: {name: x}}"}`
	for _, c := range []struct {
		levels, action, at, want string // no want: accepted
	}{
		{"ambient waypoint", "process: {of: ztunnel, do: kill}", "", ""},
		{"ambient waypoint", "process: {of: ztunnel, service: b, pick: 1, do: kill}", "", ""},
		{"ambient waypoint", "for: 2s, process: {of: ztunnel, do: pause}", "", ""},
		{"ambient waypoint", "process: {of: ztunnel, do: oom}", "", ""},
		{"ambient both", "process: {of: worker, service: b, do: oom}", "", ""},
		{"ambient waypoint", "restart: {of: ztunnel}", "", ""},
		{"ambient waypoint both", "restart: {service: b}", "", ""},
		{"ambient waypoint both", "remove: {service: b}", "", ""},
		{"ambient waypoint both", "process: {of: worker, service: b, do: kill}", "", ""},
		{"ambient waypoint both", "process: {of: istiod, do: kill}", "", ""},
		{"ambient both", "network: {from: a, to: b, cut: true}", "", ""},
		{"ambient", strings.Replace(objects, "GROUP", "apps", 1), "", ""},
		{"waypoint", "process: {of: waypoint, do: kill}", "", ""},
		{"waypoint", "for: 5s, process: {of: waypoint, do: kill}", "", ""},
		{"waypoint", "restart: {of: waypoint}", "", ""},
		{"ambient waypoint", "revision: {name: canary}", "", ""},
		{"ambient waypoint", "move: {to: installed}", "", ""},

		{"both", "process: {of: ztunnel, do: kill}", "9:40:", "pass no ztunnel"},
		{"both", "process: {of: ztunnel, do: oom}", "9:40:", "pass no ztunnel"},
		{"both", "process: {of: envoy, service: b, do: oom}", "9:", "alone in its container"},
		{"waypoint", "process: {of: waypoint, do: oom}", "9:", "alone in its container"},
		{"both", "restart: {of: ztunnel}", "9:40:", "pass no ztunnel"},
		{"both ambient", "process: {of: waypoint, do: kill}", "9:40:", "pass no waypoint"},
		{"both ambient", "restart: {of: waypoint}", "9:40:", "pass no waypoint"},
		{"ambient waypoint", "process: {of: envoy, service: b, do: kill}", "9:40:", "no sidecars"},
		{"ambient waypoint", "process: {of: agent, service: b, do: kill}", "9:40:", "no sidecars"},
		{"ambient waypoint", "restart: {service: b, proxy: 1.39.0}", "9:55:", "no sidecars"},
		{"waypoint", "network: {from: a, to: b, cut: true}", "9:42:", "packets pass the waypoint"},
		{"ambient waypoint", "certificates: {service: b, do: rotate}", "9:", "expose certificates"},
		{"ambient waypoint", strings.Replace(objects, "GROUP", "security.istio.io", 1), "9:", "accepted the configuration"},

		{"ambient", "for: 2s, process: {of: ztunnel, do: kill}", "9:", "not reverted automatically"},
		{"waypoint", "process: {of: waypoint, service: b, do: kill}", "9:", "one waypoint serves all services"},
		{"ambient", "restart: {of: ztunnel, service: b}", "9:", "either a service or shared proxies"},
		{"both", "restart: {}", "9:", "either a service or shared proxies"},
		{"ambient", "restart: {of: ztunnel, proxy: 1.39.0}", "9:", "restarts no sidecar"},
	} {
		for level := range strings.FieldsSeq(c.levels) {
			text := strings.NewReplacer("LEVEL", level, "ACTION", c.action).Replace(carriedScenario)
			answered(t, text, nil, c.at, c.want)
		}
	}
	variants := strings.NewReplacer(", sidecars: LEVEL", "", "ACTION", "process: {of: ztunnel, do: kill}").Replace(carriedScenario) +
		"variants: {ambient: {sidecars: ambient}, sidecars: {sidecars: both, skip: step}}\n"
	answered(t, variants, nil, "", "")
	answered(t, strings.Replace(variants, ", skip: step", "", 1), nil, "", "step \"step\" cannot apply to sidecars")
}

// A waypoint serves all services.
func TestAmbientGraphRefused(t *testing.T) {
	waypoint := strings.Replace(ambientGraph, "[both, ambient]", "[both, waypoint]", 1)
	answered(t, waypoint, nil, "", "")
	answered(t, strings.Replace(waypoint, "b: {replicas: 2}", "b: {replicas: 2, sidecar: false}", 1), nil, "7:", "all services use the waypoint")
}

// Calls into an ambient mesh from a service outside pass no ztunnel on the caller's side, which
// each trial would then require.
func TestAmbientCallFromOutside(t *testing.T) {
	for _, c := range []struct{ services, column string }{
		{"{a: {calls: [{to: b}]}, b: {sidecar: false}}", ""},
		{"{a: {sidecar: false, calls: [{to: b}]}, b: {sidecar: false}}", ""},
		{"{a: {calls: [{to: b}]}, b: {}, c: {sidecar: false, calls: [{to: b}]}}", ""},
		{"{a: {sidecar: false, calls: [{to: b}]}, b: {}}", "a: {sidecar: "},
		{"{a: {calls: [{to: b}]}, b: {calls: [{to: c, probability: 1%}], sidecar: false}, c: {}}", "b: {calls: [{to: c, probability: 1%}], sidecar: "},
	} {
		line := "graph: {services: " + c.services + "}"
		text := strings.Replace(ambientGraph, "graph: {services: {a: {replicas: 1, calls: [{to: b}]}, b: {replicas: 2}}}", line, 1)
		if text == ambientGraph {
			t.Fatal("the graph is not replaced")
		}
		words := ""
		if c.column != "" {
			words = "remove sidecar: false from"
		}
		answered(t, text, nil, fmt.Sprintf("4:%d:", strings.Index(line, c.column)+len(c.column)+1), words)
		answered(t, text, []string{"sidecars=both"}, "", "")
	}
}

// TestStreamsRefused checks settings that streams of messages do not have.
func TestStreamsRefused(t *testing.T) {
	const scenario = "name: s\nquestion: q\ngraph: {services: {a: {}}}\nload: {to: a}\ntimeline: {duration: 5s}\nsettings: {protocol: websocket}\n"
	const two = "name: s\nquestion: q\nmesh: istio\nwarmup: {min: 500ms, max: 2s}\nfactors: {sidecars: [none, both], protocol: [http1, grpc-stream], keep_alive: [true, false]}\nbaseline: {sidecars: none}\n"
	const without = "exclude: [{protocol: grpc-stream, keep_alive: false}]\n"
	for _, c := range []struct{ text, at, want string }{
		{scenario, "6:", "measures: ledger"},
		{scenario + "measures: [latency, cpu]\n", "", ""},
		{scenario + "measures: [latency, cpu]\nvariants: {kept: {}, new: {keep_alive: false}}\nbaseline: {}\n", "8:", "stays open"},
		{two, "5:", "stays open"},
		{two + without, "", ""},
		{two + without + "load: {tls: true}\n", "8:", "plain text only"},
		{two + without + "settings: {filters: lua}\n", "8:", "share one request"},
	} {
		answered(t, c.text, nil, c.at, c.want)
	}
}
