//go:build verify

package journal_test

import (
	"context"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
)

// childVariable names the kubeconfig for the process to kill.
const childVariable = "MESHTRIAL_JOURNAL_CHILD"

var (
	meshObject   = journal.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: theirs, Name: "mesh"}
	secretObject = journal.Object{APIVersion: "v1", Kind: "Secret", Namespace: theirs, Name: "gone"}
	madeObject   = journal.Object{APIVersion: "v1", Kind: "Service", Namespace: theirs, Name: "made"}
)

// TestFailpointChild is the process to kill: a run that enters, sets levers
// twice, has overlapping steps, and restores everything.
func TestFailpointChild(t *testing.T) {
	path := os.Getenv(childVariable)
	if path == "" {
		t.Skip("TestFailpoints runs it")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must.OK(t, err)
	open, err := lab.NewApplier(config)
	must.OK(t, err)
	ctx := t.Context()
	j, err := journal.Enter(ctx, journal.Options{Config: config, Open: open, Keep: true, Wait: time.Minute,
		Holder: journal.Holder{Run: "child", Process: "child's", Since: time.Now()}})
	must.OK(t, err)
	made := madeObject.Bare()
	made.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	var step []fields.Field
	for i, do := range []func() error{
		func() error { _, err := j.Change(ctx, webObject, "lever", lever(0, "500m", env("B", "1"))); return err },
		func() error {
			_, err := j.Change(ctx, meshObject, "lever", set("a: 2\n", "data", "mesh"), fields.Text("data", "mesh"))
			return err
		},
		func() error { _, err := j.Change(ctx, webObject, "lever", lever(0, "0.25", env("C", "2"))); return err },
		func() (err error) {
			step, err = j.Change(ctx, webObject, "step", set("x", "metadata", "labels", "step"))
			return err
		},
		func() error { _, _, err := j.Apply(ctx, made, "step"); return err },
		func() error { // ours, changed once more
			_, err := j.Change(ctx, madeObject, "step", set("x", "metadata", "labels", "step"))
			return err
		},
		func() error { // theirs, by server-side apply
			more := meshObject.Bare()
			more.Object["data"] = map[string]any{"more": "x"}
			_, _, err := j.Apply(ctx, more, "step")
			return err
		},
		func() error { return j.Remove(ctx, secretObject, "step") },
		func() error { return j.Revert(ctx, webObject, "step", step) },
		func() error {
			_, err := j.Restore(ctx, func(e *journal.Entry) bool { return e.Object == secretObject })
			return err
		},
		func() error { _, err := j.Restore(ctx, journal.OfRun("child")); return err },
		func() error { return j.Leave(ctx) },
	} {
		if err := do(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestFailpoints kills a run at each of its steps, sometimes with another writer
// changing the current object, and lets the next run restore what it left.
func TestFailpoints(t *testing.T) {
	g := newGuest(t)
	g.apply(t, web)
	g.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mesh, namespace: "+theirs+"}\ndata: {mesh: \"# theirs\\na: 1\\n\"}")
	g.apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: gone, namespace: "+theirs+", labels: {a: b}}\ndata: {x: eA==}")
	before := map[journal.Object]map[string]any{}
	for _, o := range []journal.Object{webObject, meshObject, secretObject} {
		before[o] = without(fields.Own(g.get(t, o).Object))
	}
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		steps, died, said := labtest.DiesAt(ctx, t, n, "TestFailpointChild", childVariable+"="+g.lab.Kubeconfig())
		cancel()
		at := steps[len(steps)-1]
		if n%3 == 0 { // theirs, in the meantime
			g.label(t, strconv.Itoa(n))
			before[webObject]["metadata"] = without(fields.Own(g.get(t, webObject).Object))["metadata"]
			unstructured.RemoveNestedField(before[webObject], "metadata", "labels", "step")
		}
		g.revert(t, at, before)
		if t.Failed() {
			t.Fatalf("killed at %s\n%s", at, said)
		}
		if !died {
			t.Logf("killed at %d steps, each reverted", n-1)
			if n < 40 {
				t.Errorf("%d steps, want 40", n-1)
			}
			return
		}
	}
}

// label changes the Deployment as another writer.
func (g *guest) label(t *testing.T, value string) {
	t.Helper()
	at, err := g.open.Open(t.Context(), webObject.Bare(), theirs)
	must.OK(t, err)
	live := g.get(t, webObject)
	live.SetResourceVersion("")
	labels := live.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["theirs"] = value
	live.SetLabels(labels)
	must.OK(t, must.Err(at.Update(t.Context(), live, metav1.UpdateOptions{})))
}

// revert runs the next holder, and checks the resulting state.
func (g *guest) revert(t *testing.T, at string, before map[journal.Object]map[string]any) {
	t.Helper()
	j, err := g.enter(t, "next", func(o *journal.Options) { o.Keep, o.Dead = true, func(p string) bool { return p == "child's" } })
	must.OK(t, err)
	done, err := j.Restore(t.Context(), nil)
	if err != nil {
		t.Errorf("%s: %v", at, err)
	}
	for _, o := range done {
		if len(o.Left) > 0 {
			t.Errorf("%s: %s: %s %v", at, o.Entry.Object, o.Text, o.Left)
		}
	}
	for o, want := range before {
		if now := g.get(t, o); now == nil || !reflect.DeepEqual(without(fields.Own(now.Object)), want) {
			t.Errorf("%s: %s is not as it was:\n%v\n%v", at, o, now, want)
		}
	}
	if g.get(t, madeObject) != nil {
		t.Errorf("%s: what was made is there", at)
	}
	if entries, err := journal.Entries(t.Context(), g.kube); err != nil || len(entries) != 0 {
		t.Errorf("%s: %d entries are left, %v", at, len(entries), err)
	}
	if err := j.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
