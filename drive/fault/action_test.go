package fault_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/study"
)

// TestKinds checks that each kind has a unique name, creates new actions, and has fields that
// point into the action.
func TestKinds(t *testing.T) {
	names := map[string]bool{}
	for _, k := range fault.Kinds() {
		a := k.New()
		if a.Kind() != k.Name || names[k.Name] || k.Doc == "" {
			t.Errorf("kind %q makes actions of kind %q", k.Name, a.Kind())
		}
		names[k.Name] = true
		before := reflect.ValueOf(a).Elem().Interface()
		for _, f := range a.Fields() {
			if f.Name == "" || f.Doc == "" || f.Value == nil {
				t.Errorf("%s: a field lacks something: %+v", k.Name, f)
			}
			if s, ok := f.Value.(fault.ServiceValue); ok {
				*s.To = "bar"
			}
		}
		for _, r := range fault.Services(a) {
			if r.Service == "" {
				t.Errorf("%s names no service in %s", k.Name, r.Field)
			}
			if !slices.ContainsFunc(a.Fields(), func(f study.Field) bool { return f.Name == r.Field }) {
				t.Errorf("%s has no field %s", k.Name, r.Field)
			}
		}
		if len(fault.Services(a)) > 0 && reflect.DeepEqual(before, reflect.ValueOf(a).Elem().Interface()) {
			t.Errorf("%s: its fields do not lead into it", k.Name)
		}
		if reflect.ValueOf(k.New()).Pointer() == reflect.ValueOf(a).Pointer() {
			t.Errorf("%s: two actions are one", k.Name)
		}
	}
}

// TestExpect checks the modelled effects of actions.
func TestExpect(t *testing.T) {
	notReady, half := false, 0.5
	for _, c := range []struct {
		name   string
		action fault.Action
		known  bool
		right  func(n fault.Standing) bool
	}{
		{"removed", &fault.Remove{Replicas: fault.Replicas{Service: "bar", Count: 2}}, true, func(n fault.Standing) bool { return n.Removed["bar"] == 2 }},
		{"added", &fault.Add{Replicas: fault.Replicas{Service: "bar", Count: 2}}, true, func(n fault.Standing) bool { return n.Removed["bar"] == -2 }},
		{"load", &fault.Load{Rate: 7}, true, func(n fault.Standing) bool { return n.Rate == 7 }},
		{"announced load", &fault.Load{Rate: 7, Announced: 1, Service: "bar", Replicas: 6}, true, func(n fault.Standing) bool { return n.Removed["bar"] == -2 }},
		{"requests to one that is paused wait", &fault.Process{Of: fault.OfWorker, Service: "bar", Pick: 1, Do: fault.DoPause}, false, func(n fault.Standing) bool { return n.Broken["bar"] == 0 }},
		{"paused agents break nothing", &fault.Process{Of: fault.OfAgent, Service: "bar", Do: fault.DoPause}, true, func(n fault.Standing) bool { return n.Broken["bar"] == 0 }},
		{"killed", &fault.Process{Of: fault.OfWorker, Service: "bar", Do: fault.DoKill}, false, func(n fault.Standing) bool { return n.Broken["bar"] == 0 }},
		{"all cut off", &fault.Network{From: "front", To: "bar", Cut: true}, true, func(n fault.Standing) bool { return n.Broken["bar"] == 1 }},
		{"delayed", &fault.Network{From: "front", To: "bar", Delay: 1}, false, func(n fault.Standing) bool { return n.Broken["bar"] == 0 }},
		{"not ready", &fault.Worker{Service: "bar", Pick: 3, Set: fault.Behaviour{Ready: &notReady}}, true, func(n fault.Standing) bool { return n.Removed["bar"] == 3 }},
		{"failing", &fault.Worker{Service: "bar", Pick: 2, Set: fault.Behaviour{Failures: []graph.Failure{{Share: half}}}}, true,
			func(n fault.Standing) bool { return n.Failing["bar"] == 0.25 && n.Some["bar"][0].Count == 2 }},
		{"restarted", &fault.Restart{Service: "bar"}, false, func(n fault.Standing) bool { return n.Removed["bar"] == 0 }},
		{"ztunnel without memory", &fault.Process{Of: fault.OfZtunnel, Do: fault.DoOOM}, false, func(n fault.Standing) bool { return n.Broken["bar"] == 0 }},
		{"a paused ztunnel", &fault.Process{Of: fault.OfZtunnel, Service: "bar", Do: fault.DoPause}, false, func(n fault.Standing) bool { return n.Broken["bar"] == 0 }},
		{"another revision", &fault.Revision{Name: "canary"}, true, func(n fault.Standing) bool { return n.Removed["bar"] == 0 }},
	} {
		n := fault.NewStanding(graph.Graph{Services: []graph.Service{{Name: "bar", Replicas: 4}}}, 100)
		if known := c.action.Expect(&n); known != c.known || !c.right(n) {
			t.Errorf("%s: known %v, and then %+v", c.name, known, n)
		}
	}
}

// An object has the name of a pod exactly if the step says whose.
func TestPodOfConfig(t *testing.T) {
	object := func(value string) []map[string]any {
		return []map[string]any{{"spec": map[string]any{"list": []any{value}}}}
	}
	for _, c := range []struct{ pod, value, field string }{
		{"", "plain", ""}, {"edge", "$(POD)", ""}, {"", "a-$(POD)", "apply"}, {"edge", "plain", "pod"},
	} {
		got := (&fault.Config{Apply: object(c.value), Pod: c.pod}).Check("step", "edge")
		if (len(got) == 0) != (c.field == "") || len(got) > 0 && (got[0].Field != c.field || got[0].Hint == "") {
			t.Errorf("pod %q, %q: %+v", c.pod, c.value, got)
		}
	}
}
