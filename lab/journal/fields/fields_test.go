package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/testing/must"
)

// object parses YAML into the form that unstructured objects hold.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	m, ok := textMap(text)
	if !ok {
		t.Fatalf("no map: %s", text)
	}
	return m
}

const installed = `
metadata: {name: istiod, labels: {app: istiod}, resourceVersion: "7"}
spec:
  replicas: 3
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 100%}}
  template:
    metadata: {labels: {app: istiod}}
    spec:
      containers:
        - name: discovery
          image: pilot:1.30
          args: [discovery, --domain]
          env: [{name: A, value: "1"}, {name: PILOT_TRACE, value: "x"}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
          resources: {requests: {cpu: 500m}}
status: {replicas: 3}
`

const levers = `
metadata: {name: istiod, labels: {app: istiod}, resourceVersion: "8"}
spec:
  replicas: 1
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: istiod}, annotations: {restarted: now}}
    spec:
      containers:
        - name: discovery
          image: pilot:1.30
          args: [discovery, --domain]
          env: [{name: A, value: "1"}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: PILOT_DEBOUNCE_AFTER, value: 1s}, {name: EMPTY}]
          resources: {requests: {cpu: 500m}, limits: {cpu: "1"}}
status: {replicas: 1}
`

func TestDiffNamesFields(t *testing.T) {
	var got []string
	for _, f := range Diff(object(t, installed), object(t, levers)) {
		text := f.String()
		if f.Order != nil {
			text += " order"
		}
		got = append(got, text)
	}
	want := []string{
		"spec.replicas", "spec.strategy.rollingUpdate.maxSurge", "spec.strategy.type",
		"spec.template.metadata.annotations.restarted",
		"spec.template.spec.containers[discovery].env[EMPTY]",
		"spec.template.spec.containers[discovery].env[PILOT_DEBOUNCE_AFTER].value",
		"spec.template.spec.containers[discovery].env[PILOT_TRACE].value",
		"spec.template.spec.containers[discovery].env order",
		"spec.template.spec.containers[discovery].resources.limits.cpu",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestUndoGivesTheSameBytes(t *testing.T) {
	before, after := object(t, installed), object(t, levers)
	back, answers := Undo(after, Diff(before, after))
	if !reflect.DeepEqual(Own(back), Own(before)) {
		t.Errorf("got  %s\nwant %s", value(Own(back)), value(Own(before)))
	}
	for _, a := range answers {
		if a.State != Back {
			t.Errorf("%s: %s", a.Field, a.State)
		}
	}
	if !reflect.DeepEqual(after, object(t, levers)) {
		t.Error("the object that was given has changed")
	}
}

// TestUndoLeavesOthersAlone makes an upgrade, a scaling and another writer's
// variable between the change and its revert.
func TestUndoLeavesOthersAlone(t *testing.T) {
	before, after := object(t, installed), object(t, levers)
	live := object(t, strings.NewReplacer("pilot:1.30", "pilot:1.31", "replicas: 1\n  strategy", "replicas: 5\n  strategy",
		"{name: EMPTY}", "{name: EMPTY}, {name: THEIRS, value: y}", "restarted: now", "restarted: now, theirs: z").Replace(levers))
	back, answers := Undo(live, Diff(before, after))
	want := object(t, strings.NewReplacer("pilot:1.30", "pilot:1.31", "replicas: 3\n  strategy", "replicas: 5\n  strategy",
		"metadata.name}}}]", "metadata.name}}}, {name: THEIRS, value: y}]", "labels: {app: istiod}}\n    spec", "labels: {app: istiod}, annotations: {theirs: z}}\n    spec").Replace(installed))
	if !reflect.DeepEqual(Own(back), Own(want)) {
		t.Errorf("got  %s\nwant %s", value(Own(back)), value(Own(want)))
	}
	var foreign []string
	for _, a := range answers {
		if a.State == Foreign {
			foreign = append(foreign, a.Field.String()+" "+string(a.Now))
		}
	}
	if !slices.Equal(foreign, []string{"spec.replicas 5"}) {
		t.Errorf("foreign: %v", foreign)
	}
}

// A container that someone removed does not come back because a variable was
// removed from it.
func TestUndoMakesNothingOfWhatHasGone(t *testing.T) {
	before := object(t, `{spec: {containers: [{name: a, env: [{name: X, value: "1"}, {name: Y, value: "2"}]}, {name: b, image: i}]}}`)
	after := object(t, `{spec: {containers: [{name: a, env: [{name: Y, value: "2"}]}, {name: b, image: i}]}}`)
	live := object(t, `{spec: {containers: [{name: b, image: i}]}}`)
	back, answers := Undo(live, Diff(before, after))
	if !reflect.DeepEqual(back, live) || len(answers) != 1 || answers[0].State != Foreign {
		t.Errorf("%s, %+v", value(back), answers)
	}
}

func TestText(t *testing.T) {
	const before = "# ours\nrootNamespace: istio-system\ndiscoverySelectors:\n- matchLabels: {a: b}\n"
	const after = "defaultConfig:\n  proxyMetadata:\n    X: \"1\"\nrootNamespace: istio-system\n"
	of := func(text string) map[string]any {
		return map[string]any{"data": map[string]any{"mesh": text, "other": "x"}}
	}
	changes := Diff(of(before), of(after), Text("data", "mesh"))
	if len(changes) != 1 || len(changes[0].Parts) != 2 {
		t.Fatalf("%+v", changes)
	}
	if back, _ := Undo(of(after), changes); !reflect.DeepEqual(back, of(before)) {
		t.Errorf("comments and all: got %s", value(back))
	}
	theirs := "accessLogFile: /dev/stdout\n" + after
	back, answers := Undo(of(theirs), changes)
	text, _ := get(back, Text("data", "mesh"))
	m, ok := textMap(text)
	want := object(t, "accessLogFile: /dev/stdout\n"+before)
	if !ok || !reflect.DeepEqual(m, want) {
		t.Errorf("got %v, want %v", m, want)
	}
	for _, a := range answers {
		if a.State != Back || !strings.HasPrefix(a.Field.String(), "data.mesh.") {
			t.Errorf("%s: %s", a.Field, a.State)
		}
	}
	// YAML 1.1, as in istiod: off is false.
	if m, ok := textMap("a: off\n"); !ok || m["a"] != false {
		t.Errorf("%v", m)
	}
	// A text that is no longer YAML is left alone.
	if back, answers := Undo(of("{"), changes); !reflect.DeepEqual(back, of("{")) || answers[0].State != Foreign {
		t.Errorf("%v %v", back, answers)
	}
}

// Whether or not the second change takes place, the first value is the one to
// restore.
func TestOver(t *testing.T) {
	zero := object(t, `{spec: {replicas: 3}}`)
	one := object(t, `{spec: {replicas: 1, paused: true}}`)
	two := object(t, `{spec: {replicas: 2}}`)
	first := Over(nil, zero, one)
	second := Over(first, one, two)
	for name, live := range map[string]map[string]any{"before the write": one, "after it": two, "untouched": zero} {
		if back, _ := Undo(live, second); !reflect.DeepEqual(back, zero) {
			t.Errorf("%s: %s", name, value(back))
		}
	}
	// Another writer's change in between becomes the value to restore.
	theirs := object(t, `{spec: {replicas: 7, paused: true}}`)
	third := Over(first, theirs, two)
	if back, _ := Undo(two, third); !reflect.DeepEqual(back, object(t, `{spec: {replicas: 7}}`)) {
		t.Errorf("theirs: %s", value(back))
	}
}

func TestSeen(t *testing.T) {
	before, wanted := object(t, `{spec: {}}`), object(t, `{spec: {cpu: "0.5"}}`)
	written := object(t, `{spec: {cpu: 500m}}`)
	seen, differ := Seen(Diff(before, wanted), written)
	if !differ {
		t.Fatal("the API server wrote it another way")
	}
	if _, again := Seen(seen, written); again {
		t.Error("seen twice")
	}
	if back, _ := Undo(written, seen); len(back) != 0 && !reflect.DeepEqual(back, before) {
		t.Errorf("%s", value(back))
	}
}

// draw generates an object with the structure of Kubernetes' objects.
func draw(t *rapid.T, depth int, label string) any {
	kinds := 3
	if depth == 0 {
		kinds = 1
	}
	switch rapid.IntRange(0, kinds).Draw(t, label) {
	case 0:
		return rapid.SampledFrom([]any{"x", "y", int64(1), int64(2), true}).Draw(t, label+" value")
	case 1:
		return []any{rapid.SampledFrom([]any{"x", int64(1)}).Draw(t, label+" list")}
	case 2:
		m := map[string]any{}
		for _, k := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "name", "@c", ".d"}), func(s string) string { return s }).Draw(t, label+" keys") {
			m[k] = draw(t, depth-1, label+"."+k)
		}
		return m
	}
	var list []any
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"one", "two", "three"}), 1, 3, func(s string) string { return s }).Draw(t, label+" names") {
		m := map[string]any{"name": n}
		for _, k := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b"}), func(s string) string { return s }).Draw(t, label+" item") {
			m[k] = draw(t, depth-1, label+"@"+k)
		}
		list = append(list, m)
	}
	return list
}

func drawObject(t *rapid.T, label string) map[string]any {
	m := map[string]any{}
	for _, k := range []string{"spec", "data"} {
		if rapid.Bool().Draw(t, label+" has "+k) {
			m[k] = draw(t, 3, label+"."+k)
		}
	}
	return m
}

// A reverted change leaves the original, in one step or in several, whether or
// not it took place.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zero := drawObject(t, "zero")
		live := zero
		var kept []Field
		for i := range rapid.IntRange(1, 3).Draw(t, "changes") {
			wanted := drawObject(t, fmt.Sprint("change ", i))
			kept = Over(kept, live, wanted)
			text, err := json.Marshal(kept)
			must.OK(t, err)
			kept = nil
			must.OK(t, json.Unmarshal(text, &kept))
			if rapid.Bool().Draw(t, "seen through") {
				live = wanted
			}
			back, answers := Undo(live, kept)
			if !reflect.DeepEqual(value(back), value(zero)) {
				t.Fatalf("after change %d: got %s, want %s; live %s, fields %s", i, value(back), value(zero), value(live), text)
			}
			for _, a := range answers {
				if a.State == Foreign {
					t.Fatalf("%s is called somebody's", a.Field)
				}
			}
		}
	})
}

// Whatever another writer did to an object, a field that is neither as written
// nor as before keeps its value.
func TestNeverOverwrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, wanted, live := drawObject(t, "before"), drawObject(t, "wanted"), drawObject(t, "live")
		kept := Diff(before, wanted)
		back, answers := Undo(live, kept)
		for _, a := range answers {
			if v, blocked := get(back, a.Field.Path); a.State == Foreign && !blocked && !same(value(v), a.Now) {
				t.Fatalf("%s was %s and is %s", a.Field, a.Now, value(v))
			}
		}
	})
}

func FuzzUndo(f *testing.F) {
	f.Add(`{"spec":{"a":1}}`, `[{"path":[".spec",".a"],"there":1,"kept":2,"before":2,"wrote":[1]}]`)
	f.Add(`{"spec":[{"name":"x"}]}`, `[{"path":[".spec","@x",".v"],"there":9,"kept":-1,"wrote":[null]},{"path":[".spec"],"order":["y"]}]`)
	f.Add(`{"data":{"mesh":"a: 1"}}`, `[{"path":[".data",".mesh"],"wrote":["x"],"parts":[{"path":[".a"],"wrote":[1]}]}]`)
	f.Add(`{"a":"x"}`, `[{"path":[".a"],"there":-1,"wrote":["x"]}]`)
	f.Add(`{"a":"x"}`, `[{"path":[],"there":-9,"wrote":[{"a":"x"}]}]`)
	f.Add(`{}`, `[{"path":[""],"wrote":[{}],"before":"}"}]`)
	f.Fuzz(func(t *testing.T, live, kept string) {
		var object map[string]any
		var all []Field
		if json.Unmarshal([]byte(live), &object) != nil || json.Unmarshal([]byte(kept), &all) != nil {
			return
		}
		before, _ := Copy(object).(map[string]any)
		_, answers := Undo(object, all)
		if !reflect.DeepEqual(value(object), value(before)) {
			t.Error("the object that was given has changed")
		}
		for _, a := range answers {
			_ = a.Field.String()
		}
		_ = Over(all, object, map[string]any{"spec": map[string]any{"a": int64(3)}})
	})
}

func TestOwn(t *testing.T) {
	got := Own(object(t, installed))
	if !slices.Equal(slices.Sorted(maps.Keys(got)), []string{"metadata", "spec"}) || !reflect.DeepEqual(got["metadata"], map[string]any{"labels": map[string]any{"app": "istiod"}}) {
		t.Errorf("%v", got)
	}
	if _, err := yaml.Marshal(got); err != nil {
		t.Error(err)
	}
}
