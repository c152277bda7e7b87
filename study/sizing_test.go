package study

import (
	"strings"
	"testing"
)

const sizedStudy = `
name: sized
question: Which takes less?
factors: {sidecars: [none, both, ambient], rate: [250, 1000]}
measures: [cpu, memory]
`

func TestSizing(t *testing.T) {
	s := parseOK(t, sizedStudy+"sizing: {pods: 200, l7: 0%}\n")
	if m := s.Sizing; m == nil || m.Pods != 200 || m.L7 != 0 || m.Nodes != 50 || m.RPS != 20_000 || m.Waypoints != 10 {
		t.Fatalf("%+v", m)
	}
	if again := parseOK(t, string(s.Marshal()), "sizing.nodes=4"); again.Sizing.Pods != 200 || again.Sizing.L7 != 0 || again.Sizing.Nodes != 4 {
		t.Errorf("%+v", again)
	}
	if s = parseOK(t, sizedStudy); s.Sizing != nil {
		t.Errorf("%+v", s)
	}
}

func TestSizingRefused(t *testing.T) {
	for text, want := range map[string]string{
		sizedStudy + "sizing: {pods: 0}":                                                         "range sizing.pods",
		sizedStudy + "sizing: {nodes: 0}":                                                        "range sizing.nodes",
		sizedStudy + "sizing: {waypoints: 2000000000}":                                           "range sizing.waypoints",
		sizedStudy + "sizing: {l7: 120%}":                                                        "range sizing.l7",
		sizedStudy + "sizing: {l7: 0.2}":                                                         "unit sizing.l7",
		sizedStudy + "sizing: {podz: 100}":                                                       "unknown sizing.podz",
		strings.Replace(sizedStudy, "[250, 1000]", "[250]", 1) + "sizing: {}":                    "conflict sizing",
		strings.Replace(sizedStudy, "[250, 1000]", "[250, max]", 1) + "sizing: {}":               "conflict sizing",
		strings.Replace(sizedStudy, "[none, both, ambient]", "[none, server]", 1) + "sizing: {}": "conflict sizing",
		strings.Replace(sizedStudy, "[cpu, memory]", "[latency]", 1) + "sizing: {}":              "conflict sizing",
	} {
		refused(t, text, want)
	}
	refused(t, sizedStudy+"sizing: {}\n", "conflict sizing", "rate=500")
	for _, section := range []string{"sizing", "money"} {
		s := parseOK(t, strings.TrimPrefix(sizedStudy, "\n")+section+": {}\n", "rate=500", section+"=none")
		if s.Sizing != nil || s.Money != nil {
			t.Errorf("%s=none leaves %+v, %+v", section, s.Sizing, s.Money)
		}
	}
}

// If the variants left by a flag are too few, that is reported; the file is unchanged.
func TestSizingOfLeftVariants(t *testing.T) {
	text := strings.Replace(sizedStudy, ", rate: [250, 1000]}", "}", 1) + "variants: {a: {}, b: {rate: 50}}\nsizing: {}\n"
	for set, want := range map[string]string{
		"variant=a":      "--set variant=a: ",
		"variant=[a,b]":  "",
		"measures=[cpu]": "",
	} {
		said := planOf(t, text, set).Unmeasured()
		if want == "" && len(said) > 0 || want != "" && (len(said) != 1 || !strings.HasPrefix(said[0].Error(), want)) {
			t.Errorf("--set %s: %v, want %q", set, said, want)
		}
	}
	if said := planOf(t, text, "variant=a", "sizing=none").Unmeasured(); len(said) > 0 {
		t.Errorf("the hint, followed: %v", said)
	}
}

// A graph of services can be sized if it has no steps and is entirely in the mesh.
func TestSizingOfAGraph(t *testing.T) {
	text := strings.Replace(ambientGraph, "sidecars: [both, ambient]}", "sidecars: [both, ambient], rate: [100, 300]}", 1) + "sizing: {pods: 100}\n"
	if s := parseOK(t, text); s.Sizing == nil || s.Sizing.Pods != 100 {
		t.Fatalf("%+v", s)
	}
	for _, text := range []string{
		strings.Replace(text, "b: {replicas: 2}", "b: {replicas: 2, sidecar: false}", 1),
		strings.NewReplacer("sidecars: [both, ambient], ", "", "{duration: 5s}", "{duration: 5s, steps: [{name: gone, at: 1s, remove: {service: b, replicas: 1}}]}").Replace(text),
		strings.Replace(text, "rate: [100, 300]", "rate: [100, 300], replicas: [1, 5]", 1),
		strings.Replace(text, "rate: [100, 300]", "replicas: [1, 5]", 1),
		strings.Replace(text, "rate: [100, 300]", "replicas: [graph, 5]", 1),
		strings.Replace(text, "rate: [100, 300]", "rate: [100]", 1),
	} {
		refused(t, text, "conflict sizing")
	}
	refused(t, strings.Replace(text, "rate: [100, 300]", "replicas: [0, 5]", 1), "range factors.replicas[0]")
}
