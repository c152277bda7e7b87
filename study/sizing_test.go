package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

const sizedStudy = `
name: sized
question: Which takes less?
factors: {sidecars: [none, both, ambient], rate: [250, 1000]}
measures: [cpu, memory]
`

func TestSizing(t *testing.T) {
	s, err := Parse([]byte(sizedStudy+"sizing: {pods: 200, l7: 0%}\n"), "s.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := s.Sizing; m == nil || m.Pods != 200 || m.L7 != 0 || m.Nodes != 50 || m.RPS != 20_000 || m.Waypoints != 10 {
		t.Fatalf("%+v", m)
	}
	again, err := Parse(s.Marshal(), "s.yaml", []string{"sizing.nodes=4"})
	if err != nil || again.Sizing.Pods != 200 || again.Sizing.L7 != 0 || again.Sizing.Nodes != 4 {
		t.Errorf("%+v, %v", again, err)
	}
	if s, err = Parse([]byte(sizedStudy), "s.yaml", nil); err != nil || s.Sizing != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// What no cell could tell, and what is no mesh, is refused at its place.
func TestSizingRefused(t *testing.T) {
	for text, want := range map[string]string{
		sizedStudy + "sizing: {pods: 0}":                                                         "s.yaml:6:16: 0 is too small: it must be more than 0",
		sizedStudy + "sizing: {nodes: 0}":                                                        "s.yaml:6:17: 0 is too small: it must be more than 0",
		sizedStudy + "sizing: {waypoints: 2000000000}":                                           "s.yaml:6:21: 2000000000 is too large",
		sizedStudy + "sizing: {l7: 120%}":                                                        "s.yaml:6:14: 120% is more than all",
		sizedStudy + "sizing: {l7: 0.2}":                                                         `s.yaml:6:14: "0.2" lacks its unit`,
		sizedStudy + "sizing: {podz: 100}":                                                       `s.yaml:6:10: unknown field "podz" in sizing`,
		strings.Replace(sizedStudy, "[250, 1000]", "[250]", 1) + "sizing: {}":                    "s.yaml:6:9: sizing separates what a proxy takes without requests",
		strings.Replace(sizedStudy, "[250, 1000]", "[250, max]", 1) + "sizing: {}":               "s.yaml:6:9: sizing separates what a proxy takes without requests",
		strings.Replace(sizedStudy, "[none, both, ambient]", "[none, server]", 1) + "sizing: {}": "s.yaml:6:9: sizing is about who carries requests",
		strings.Replace(sizedStudy, "[cpu, memory]", "[latency]", 1) + "sizing: {}":              "s.yaml:6:9: sizing is about CPU and memory",
	} {
		if _, err := Parse([]byte(text), "s.yaml", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v, want %s", text, err, want)
		}
	}
}

// What a flag has left at one level another flag varies, or it takes the section away: nobody
// can write into a shipped file. A run that was made has the rates that it has.
func TestSizingBySet(t *testing.T) {
	one := strings.Replace(sizedStudy, "[250, 1000]", "[250]", 1)
	graph := strings.Replace(ambientGraph, "sidecars: [both, ambient]}", "sidecars: [both, ambient], replicas: [1, 5]}", 1) + "sizing: {rps: 0}\n"
	for _, c := range []struct {
		text, set, at, hint string
		parse               func([]byte, string, []string) (*Study, error)
	}{
		{sizedStudy + "sizing: {}\n", "rate=500", "--set rate=500: ", "--set rate=[20,200,1000], or --set sizing=none", Parse},
		{sizedStudy + "sizing: {}\n", "rate=[500,max]", "--set rate=[500,max]: ", "--set rate=[20,200,1000], or --set sizing=none", Parse},
		{graph, "replicas=5", "--set replicas=5: ", "--set replicas=[1,5,10], or --set sizing=none", Parse},
		{one, "sizing.pods=10", "--set sizing.pods=10: ", "--set rate=[20,200,1000]", Parse},
		{one, "sizing.pods=10", "--set sizing.pods=10: ", "run the study with --set rate=[20,200,1000]: this run has one rate", ParseStored},
	} {
		_, err := c.parse([]byte(c.text), "s.yaml", []string{c.set})
		if err == nil || !strings.HasPrefix(err.Error(), c.at+"sizing follows the rate or the number of pods") || errs.Hint(err) != c.hint {
			t.Errorf("%s: %v, hint %q, want %q", c.set, err, errs.Hint(err), c.hint)
		}
	}
	s, err := Parse([]byte(sizedStudy+"sizing: {}\n"), "s.yaml", []string{"rate=500", "sizing=none"})
	if err != nil || s.Sizing != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = Parse([]byte(sizedStudy+"money: {}\n"), "s.yaml", []string{"money=none"}); err != nil || s.Money != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// Variants that a flag leaves may be too few, which is told; the file is as it was.
func TestSizingOfLeftVariants(t *testing.T) {
	text := strings.Replace(sizedStudy, ", rate: [250, 1000]}", "}", 1) + "variants: {a: {}, b: {rate: 50}}\nsizing: {}\n"
	sized := func(sets ...string) *Plan {
		p, err := NewPlan(parseOK(t, text, sets...), 1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for set, want := range map[string]string{
		"variant=a":      "--set variant=a: the report will not say where each wins",
		"variant=[a,b]":  "",
		"measures=[cpu]": "",
	} {
		said := sized(set).Unmeasured()
		if want == "" && len(said) > 0 || want != "" && (len(said) != 1 || !strings.HasPrefix(said[0].Error(), want)) {
			t.Errorf("--set %s: %v, want %q", set, said, want)
		}
	}
	if said := sized("variant=a", "sizing=none").Unmeasured(); len(said) > 0 {
		t.Errorf("the hint, followed: %v", said)
	}
}

// Where a flag is the reason it is named, and what is proposed are flags that the study takes.
func TestSizingFlagHints(t *testing.T) {
	graph := strings.Replace(ambientGraph, "sidecars: [both, ambient]}", "sidecars: [both, ambient], replicas: [1, 5]}", 1) + "sizing: {rps: 0}\n"
	for _, c := range []struct{ text, sets, want, hint string }{
		{sizedStudy + "sizing: {}\n", "sidecars=[none,server]", "--set sidecars=[none,server]: sizing is about who carries", "--set sidecars=[none,both,ambient], or --set sizing=none"},
		{sizedStudy + "sizing: {}\n", "mesh=linkerd sidecars=[none,server]", "--set sidecars=[none,server]: sizing is about who carries", "--set sidecars=[none,both], or --set sizing=none"},
		{sizedStudy + "sizing: {}\n", "measures=[latency]", "--set measures=[latency]: sizing is about CPU and memory", "--set measures=[latency,cpu,memory], or --set sizing=none"},
		{graph, "rate=[1,2]", "--set rate=[1,2]: sizing follows the rate or the number of pods, and the study varies both", "--set sizing=none"},
		{graph, "sizing.rps=5", "--set sizing.rps=5: the study varies the number of pods and not the rate", "--set sizing.rps=0, or --set sizing=none"},
		{graph, "rate=10 replicas=5", "--set replicas=5: sizing follows the rate or the number of pods", "--set replicas=[1,5,10], or --set sizing=none"},
		{graph, "replicas=[graph,1]", "--set replicas=[graph,1]: sizing follows the rate or the number of pods: it needs two levels", "--set replicas=[1,5,10], or --set sizing=none"},
	} {
		sets := strings.Fields(c.sets)
		_, err := Parse([]byte(c.text), "s.yaml", sets)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || errs.Hint(err) != c.hint {
			t.Errorf("--set %s: %v, hint %q, want %q", c.sets, err, errs.Hint(err), c.hint)
			continue
		}
		for flag := range strings.SplitSeq(c.hint, ", or ") {
			if _, err := Parse([]byte(c.text), "s.yaml", append(slices.Clone(sets), strings.TrimPrefix(flag, "--set "))); err != nil {
				t.Errorf("--set %s %s: %v", c.sets, flag, err)
			}
		}
	}
}

// A graph of services can be sized while nothing happens to it and all of it is in the mesh.
func TestSizingOfAGraph(t *testing.T) {
	text := strings.Replace(ambientGraph, "sidecars: [both, ambient]}", "sidecars: [both, ambient], rate: [100, 300]}", 1) + "sizing: {pods: 100}\n"
	s, err := Parse([]byte(text), "s.yaml", nil)
	if err != nil || s.Sizing == nil || s.Sizing.Pods != 100 {
		t.Fatalf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		strings.Replace(text, "b: {replicas: 2}", "b: {replicas: 2, sidecar: false}", 1):                                                                                           "one of the graph has no sidecar",
		strings.NewReplacer("sidecars: [both, ambient], ", "", "{duration: 5s}", "{duration: 5s, steps: [{name: gone, at: 1s, remove: {service: b, replicas: 1}}]}").Replace(text): "the timeline has steps",
		strings.NewReplacer("rate: [100, 300]", "rate: [100, 300], replicas: [1, 5]").Replace(text):                                                                                "the study varies both",
		strings.NewReplacer("rate: [100, 300]", "replicas: [1, 5]").Replace(text):                                                                                                  "it cannot tell what the requests of a mesh would add",
		strings.NewReplacer("rate: [100, 300]", "replicas: [graph, 5]").Replace(text):                                                                                              "the study needs two rates that are numbers",
		strings.NewReplacer("rate: [100, 300]", "replicas: [0, 5]").Replace(text):                                                                                                  "0 is out of range",
		strings.Replace(text, "rate: [100, 300]", "rate: [100]", 1):                                                                                                                "the study needs two rates that are numbers",
	} {
		if _, err := Parse([]byte(text), "s.yaml", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Along the number of pods what each adds is told, of a mesh without requests. A cell's
// services have as many as it says.
func TestSizingAlongPods(t *testing.T) {
	text := strings.Replace(ambientGraph, "sidecars: [both, ambient]}", "sidecars: [both, ambient], replicas: [graph, 1, 5]}", 1) + "sizing: {pods: 100, rps: 0}\n"
	s, err := Parse([]byte(text), "s.yaml", nil)
	if err != nil || s.SizedAlong() != FactorReplicas {
		t.Fatalf("%v", err)
	}
	plan, err := NewPlan(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	own, seen := s.Scenario.Graph.Pods(), map[int]bool{}
	for _, cell := range plan.Cells {
		pods := s.Scenario.In(cell).Graph.Pods()
		want := map[string]int{ReplicasOfGraph: own, "1": len(s.Scenario.Graph.Services), "5": 5 * len(s.Scenario.Graph.Services)}[cell[FactorReplicas]]
		if seen[pods] = true; pods != want || s.Scenario.Graph.Pods() != own {
			t.Errorf("%v has %d pods, want %d", cell, pods, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
	if s, err = Parse([]byte(ambientGraph), "s.yaml", nil); err != nil || s.SizedAlong() != FactorRate || s.Settings[FactorReplicas] != "" {
		t.Errorf("%v, %v", s, err)
	}
}
