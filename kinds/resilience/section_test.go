package resilience

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	head      = "name: small\nquestion: q\n"
	named     = "graph: {services: {a: {replicas: 1, calls: [{to: b}]}, b: {replicas: 2}}}\n"
	quiet     = "timeline: {duration: 5s}\n"
	eventful  = "timeline:\n  duration: 10s\n  steps:\n  - {name: gone, at: 1s, remove: {service: b}}\n  - {name: sale, at: 5s, for: 2s, load: {rate: 20, announced: 2s, service: b, replicas: 4}}\n"
	bothWays  = "factors: {sidecars: [both, ambient]}\nbaseline: {sidecars: both}\n"
	fromEntry = "load: {to: a}\n"
)

func parse(t *testing.T, text string) *study.Study {
	t.Helper()
	s, err := study.Parse([]byte(head+text), "small.yaml", nil)
	must.OK(t, err)
	return s
}

func TestTimelineOf(t *testing.T) {
	c := Of(parse(t, named+fromEntry+eventful))
	for level, want := range map[string][]string{
		"none": {"gone", "sale announced"}, "gone": {"sale announced"}, "sale-announced": {"gone", "sale"}, "gone,sale": nil,
	} {
		timeline := c.TimelineOf(record.Cell{FactorSkip: level})
		var got []string
		for _, step := range timeline.Steps {
			if l, ok := step.Action.(*fault.Load); ok && l.Announced > 0 {
				step.Name += " announced"
			}
			got = append(got, step.Name)
		}
		if !slices.Equal(got, want) || timeline.Duration != c.Timeline.Duration {
			t.Errorf("skip %s: %q, want %q", level, got, want)
		}
	}
	if c.Timeline.Steps[1].Action.(*fault.Load).Announced == 0 {
		t.Error("the study itself has changed")
	}
	f, _ := Kind.Factor(FactorSkip)
	if got, err := f.Canonical("sale, gone,sale"); err != nil || got != "gone,sale" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := f.Canonical("Sale!"); err == nil {
		t.Error("a name that no step can have is accepted")
	}
}

func TestExpected(t *testing.T) {
	s := parse(t, named+fromEntry+eventful+"variants: {all: {}, less: {skip: gone}}\nexpect: {less: fail}\n")
	for variant, want := range map[string]string{"all": ExpectPass, "less": ExpectFail} {
		if got := Expected(s, record.Cell{study.FactorVariant: variant}); got != want {
			t.Errorf("%s is expected to %s, want %s", variant, got, want)
		}
	}
}

// Services have sidecars unless the study says otherwise, wherever their graph comes from.
func TestGraphsHaveSidecars(t *testing.T) {
	for name, text := range map[string]string{
		"named":     named + fromEntry,
		"generated": "graph: {generate: {services: 3, depth: 2, fan_out: 2}}\n",
	} {
		s := parse(t, text+quiet+bothWays)
		for _, one := range Of(s).Graph.Services {
			if !one.Sidecar {
				t.Errorf("%s: service %s has no sidecar", name, one.Name)
			}
		}
		if len(Of(s).Graph.Services) < 2 {
			t.Errorf("%s: %d services", name, len(Of(s).Graph.Services))
		}
	}
}

// Along the number of pods, the cost of each is reported for a mesh without requests. A cell's
// services have as many pods as it says.
func TestSizingAlongPods(t *testing.T) {
	s := parse(t, named+fromEntry+quiet+strings.Replace(bothWays, "ambient]", "ambient], replicas: [graph, 1, 5]", 1)+"sizing: {pods: 100, rps: 0}\n")
	if along := s.SizedAlong(); along != study.FactorReplicas {
		t.Fatalf("sized along %s", along)
	}
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
	own, seen := Of(s).Graph.Pods(), map[int]bool{}
	for _, cell := range plan.Cells {
		pods := Of(s).In(cell).Graph.Pods()
		want := map[string]int{ReplicasOfGraph: own, "1": len(Of(s).Graph.Services), "5": 5 * len(Of(s).Graph.Services)}[cell[study.FactorReplicas]]
		if seen[pods] = true; pods != want || Of(s).Graph.Pods() != own {
			t.Errorf("%v has %d pods, want %d", cell, pods, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
	s = parse(t, named+fromEntry+quiet+bothWays)
	if s.SizedAlong() != study.FactorRate || s.Settings[study.FactorReplicas] != "" {
		t.Errorf("sized along %s", s.SizedAlong())
	}
}

const gated = "graph: {services: {edge: {gateway: true, replicas: 2, calls: [{to: b}]}, b: {replicas: 2}}}\n"

// Steps and cells that a graph does not support are refused, at their position: a gateway is where
// clients enter, has no worker, and needs a mesh with ingress gateways; revisions need a mesh in every
// cell; a waypoint is in none of the zones that a step cuts off.
func TestRefused(t *testing.T) {
	step := func(action string) string {
		return "timeline:\n  duration: 60s\n  steps:\n  - {name: sick, at: 1s, " + action + "}\n"
	}
	const moved = "timeline:\n  duration: 60s\n  steps:\n  - {name: second, at: 1s, revision: {name: other, istio: second}}\n  - {name: moved, at: 20s, move: {to: other}}\n"
	for _, c := range []struct {
		text  string
		wants []string // none if it is accepted
	}{
		{gated + quiet, nil}, {gated + step("process: {of: envoy, service: edge, do: kill}"), nil}, {gated + strings.ReplaceAll(eventful, "service: b", "service: edge"), nil},
		{gated + "load: {to: b}\n" + quiet, []string{"small.yaml:4:12"}},
		{gated + step("worker: {service: edge, set: {ready: false}}"), []string{"small.yaml:7:44"}},
		{gated + step("process: {of: worker, service: edge, do: kill}"), []string{"small.yaml:7:40"}},
		{gated + step("process: {of: envoy, service: clients, do: kill}"), []string{"small.yaml:7:40"}},
		{gated + quiet + "mesh: none\n", []string{"small.yaml:3:36"}},
		{gated + quiet + bothWays, []string{"small.yaml:3:36"}},
		{named + fromEntry + moved, nil},
		{named + fromEntry + moved + "mesh: none\n", []string{"small.yaml:8:", "small.yaml:9:", "no revisions"}},
		{named + fromEntry + moved + "settings: {sidecars: ambient}\n", nil}, {named + fromEntry + moved + "settings: {sidecars: waypoint}\n", nil},
		{named + fromEntry + moved + "variants: {with: {}, bare: {mesh: none}}\n", []string{"small.yaml:8:", "small.yaml:9:", "no revisions"}},
		{named + fromEntry + step("zone: {service: b}") + "settings: {sidecars: ambient}\n", nil},
		{named + fromEntry + step("zone: {service: b}") + "settings: {sidecars: waypoint}\n", []string{"small.yaml:8:42"}},
	} {
		s, err := study.Parse([]byte(head+c.text), "small.yaml", nil)
		if err == nil {
			_, err = study.NewPlan(s, 1)
		}
		if (err == nil) != (c.wants == nil) {
			t.Errorf("%s: %v", c.text, err)
		}
		for _, want := range c.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want one with %q", c.text, err, want)
			}
		}
	}
}

const everywhere = "graph: {services: {a: {replicas: 3, calls: [{to: b}]}, b: {replicas: 3}}}\n"

// Weights need a share for each zone, and a pod in each.
func TestUnweighed(t *testing.T) {
	for _, c := range []struct {
		graph, level string
		zones        int
		says         string // "" if the weights can be had
	}{
		{everywhere, "own=98%", 3, ""}, {everywhere, "ignore", 9, ""}, {named, "prefer", 3, ""},
		{everywhere, "own=99%", 3, "own=99% leaves 1% for 2 other zones"},
		{everywhere, "own=80%", 4, "service a has fewer replicas (3) than there are zones (4)"},
		{named, "own=80%", 3, "service a has fewer replicas (1) than there are zones (3)"},
	} {
		scenario := Of(parse(t, c.graph+fromEntry+quiet))
		why, hint := scenario.Unweighed(record.Cell{study.FactorLocality: c.level}, c.zones)
		if (why == "") != (c.says == "") || !strings.HasPrefix(why, c.says) || (why == "") != (hint == "") {
			t.Errorf("%s in %d zones: %q (%s), want %q", c.level, c.zones, why, hint, c.says)
		}
		_, err := study.Parse([]byte(head+c.graph+fromEntry+quiet+"settings: {locality: "+c.level+"}\n"), "small.yaml", nil)
		if refused := c.says != "" && c.zones == ZonesNeeded; (err != nil) != refused || refused && !strings.Contains(err.Error(), "small.yaml:6:") {
			t.Errorf("%s: %v", c.level, err)
		}
	}
}

// Zones matter with a step on them or with weights, and then a run needs three.
func TestZoned(t *testing.T) {
	away := "timeline:\n  duration: 10s\n  steps:\n  - {name: away, at: 1s, zone: {service: b}}\n"
	for text, want := range map[string]bool{quiet: false, away: true, quiet + "settings: {locality: own=80%}\n": true, quiet + "settings: {locality: ignore}\n": false} {
		plan, err := study.NewPlan(parse(t, everywhere+fromEntry+text), 1)
		must.OK(t, err)
		if nodes, zones := plan.Spread(); Zoned(plan) != want || want != (nodes == ZonesNeeded) || want != (zones == ZonesNeeded) {
			t.Errorf("%s: %v, %d nodes in %d zones", text, Zoned(plan), nodes, zones)
		}
	}
	f, _ := Kind.Factor(study.FactorLocality)
	for level, ok := range map[string]bool{"own=1%": true, "own=99%": true, "own=0%": false, "own=100%": false, "own=08%": false, "own=8": false, "own": false, "near": false} {
		if _, err := f.Canonical(level); (err == nil) != ok {
			t.Errorf("%s: %v", level, err)
		}
	}
}
