package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/fault"
	"github.com/meshtrial/meshtrial/record"
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

// What contradicts itself in a graph or a timeline is refused before anything
// starts, with its place in the file.
func TestScenarioRefused(t *testing.T) {
	if _, err := Parse([]byte(smallScenario), "small.yaml", nil); err != nil {
		t.Fatal(err)
	}
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
		"a cycle":                   {replace("bar: {replicas: 2}", "bar: {replicas: 2, calls: [{to: front}]}"), ":", "front"},
		"a cycle of one":            {replace("bar: {replicas: 2}", "bar: {replicas: 2, calls: [{to: bar}]}"), ":7:", "bar"},
		"a call to nobody":          {replace("[{to: bar}]", "[{to: baz}]"), ":6:", "baz"},
		"load to nobody":            {replace("{to: front}", "{to: frond}"), ":8:", `there is no service "frond"`},
		"a step about nobody":       {replace("remove: {service: bar}", "remove: {service: baz}"), ":13:", `there is no service "baz"`},
		"a network from nobody":     {steps("{name: cut, at: 1s, network: {from: baz, to: bar, cut: true}}"), ":14:", `there is no service "baz"`},
		"a negative time":           {replace("at: 1s, remove", "at: -1s, remove"), ":13:", "-1s"},
		"a negative end":            {replace("for: 2s", "for: -2s"), ":14:", "-2s"},
		"a time after the end":      {replace("at: 1s, remove", "at: 11s, remove"), ":13:", "after the timeline's end"},
		"a timeline without length": {replace("duration: 10s", "duration: 0s"), ":11:", "0s"},
		"overlapping moves": {steps("{name: moved, at: 1s, move: {to: installed}}", "{name: back, at: 6s, move: {to: installed}}"),
			":15:22:", `"back" moves the namespace at 6s, while "moved" may still be moving it until 31s`},
		"overlapping steps": {steps("{name: slow, at: 1s, for: 3s, worker: {service: bar, set: {cpu: 1ms}}}", "{name: sick, at: 2s, for: 3s, worker: {service: bar, set: {cpu: 2ms}}}"),
			":15:", `"sick" begins at 2s, while "slow" still acts on the same workers of bar until 4s`},
		"overlapping turns": {steps("{name: slow, at: 1s, for: 3s, every: 2s, times: 2, worker: {service: bar, set: {cpu: 1ms}}}"), ":14:", "overlaps itself"},
		"one name twice":    {steps("{name: gone, at: 2s, remove: {service: bar}}"), ":14:", "has the name of step 1"},
		"no action":         {steps("{name: idle, at: 2s}"), ":14:", "nothing, or more than one thing"},
		"two actions":       {steps("{name: both, at: 2s, remove: {service: bar}, add: {service: bar}}"), ":14:", "nothing, or more than one thing"},
		"no way back":       {steps("{name: again, at: 2s, for: 1s, restart: {service: bar}}"), ":14:", "not undone by itself"},
		"whose worker":      {steps("{name: dead, at: 2s, process: {of: worker, do: kill}}"), ":14:", "say whose worker"},
		"nothing to packets": {steps("{name: cut, at: 2s, network: {from: front, to: bar}}"), ":14:",
			`step "cut" does nothing to the network`},
		"more than all packets": {steps("{name: lost, at: 2s, network: {from: front, to: bar, lose: 110%}}"), ":14:", "more than all"},
		"skips nobody":          {replace("skip: gone", "skip: gon"), ":17:", `there is no step "gon" to skip`},
		"expects of nobody":     {replace("expect: {less", "expect: {fewer"), ":18:", "variant"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text), "small.yaml", nil)
			if err == nil {
				t.Fatal("accepted")
			}
			if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "small.yaml"+c.at) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q at %s", err, c.want, c.at)
			}
		})
	}
}

func TestTimelineOf(t *testing.T) {
	s, err := Parse([]byte(smallScenario), "small.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	for level, want := range map[string][]string{
		"none": {"gone", "sale announced"}, "gone": {"sale announced"}, "sale-announced": {"gone", "sale"}, "gone,sale": nil,
	} {
		timeline := s.Scenario.TimelineOf(record.Cell{FactorSkip: level})
		var got []string
		for _, step := range timeline.Steps {
			if l, ok := step.Action.(*fault.Load); ok && l.Announced > 0 {
				step.Name += " announced"
			}
			got = append(got, step.Name)
		}
		if !slices.Equal(got, want) || timeline.Duration != s.Scenario.Timeline.Duration {
			t.Errorf("skip %s: %q, want %q", level, got, want)
		}
	}
	if s.Scenario.Timeline.Steps[1].Action.(*fault.Load).Announced == 0 {
		t.Error("the study itself has changed")
	}
	if f, _ := Resilience.Factor(FactorSkip); f.Name != "" {
		if got, err := f.Canonical("sale, gone,sale"); err != nil || got != "gone,sale" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := f.Canonical("Sale!"); err == nil {
			t.Error("a name that no step can have is accepted")
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

// Only Istio's requests can be carried by ztunnel, and what sidecars are asked for means
// nothing there.
func TestAmbientGraph(t *testing.T) {
	s, err := Parse([]byte(ambientGraph), "s.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, cell := range p.Cells {
		got = append(got, cell[FactorMesh]+" "+cell[FactorSidecars]+" "+cell[FactorMTLS]+" "+cell[FactorRetries]+" "+cell[FactorRetryOn])
	}
	want := []string{"none - - - -", "istio both strict 2 5xx", "istio ambient - - -", "linkerd - strict 2 5xx"}
	if !slices.Equal(got, want) {
		t.Errorf("the cells are %q, want %q", got, want)
	}
	// A study that does not vary it does not name it: cells are as they were.
	s, err = Parse([]byte(ambientGraph), "s.yaml", []string{"sidecars=both"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = NewPlan(s, 1); err != nil {
		t.Fatal(err)
	}
	for _, cell := range p.Cells {
		if level, ok := cell[FactorSidecars]; ok {
			t.Errorf("sidecars: %s in cell %v", level, cell)
		}
	}
	if len(p.Cells) != 3 {
		t.Errorf("%d cells", len(p.Cells))
	}
}

func TestAmbientGraphRefused(t *testing.T) {
	waypoint := strings.Replace(ambientGraph, "[both, ambient]", "[both, waypoint]", 1)
	if _, err := Parse([]byte(waypoint), "s.yaml", nil); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		strings.Replace(waypoint, "[latency, cpu, memory]", "[latency, ledger]", 1):                                                            "with sidecars: waypoint there is no ledger",
		strings.Replace(waypoint, "b: {replicas: 2}", "b: {replicas: 2, sidecar: false}", 1):                                                   "all services are behind the waypoint",
		strings.Replace(ambientGraph, "{duration: 5s}", "{duration: 5s, steps: [{name: gone, at: 1s, remove: {service: b, replicas: 1}}]}", 1): "a timeline has no steps",
		strings.Replace(ambientGraph, "[latency, cpu, memory]", "[latency, ledger]", 1):                                                        "there is no ledger",
	} {
		if _, err := Parse([]byte(text), "s.yaml", nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "s.yaml:7:") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
