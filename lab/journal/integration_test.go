//go:build integration

package journal_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/testing/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestJournal lets a run change, make and remove others' objects several times, and die; the next
// run restores everything.
func TestJournal(t *testing.T) {
	g := newGuest(t)
	g.apply(t, web)
	config := journal.ObjectOf(g.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mesh, namespace: "+theirs+"}\ndata: {mesh: \"# theirs\\na: 1\\n\"}"))
	secret := journal.ObjectOf(g.apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: gone, namespace: "+theirs+", labels: {a: b}}\ndata: {x: eA==}"))
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "made", "namespace": theirs}, "spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}}}
	before := map[journal.Object]map[string]any{}
	for _, o := range []journal.Object{webObject, config, secret} {
		before[o] = fields.Own(g.get(t, o).Object)
	}

	j := g.entered(t, "first")
	ctx := t.Context()
	for _, edit := range []journal.Edit{
		lever(0, "500m", env("B", "1"), env("C", "x")),
		lever(2, "0.25", env("A", "3")), // normalized by the API server
		set("x", "metadata", "labels", "step"),
	} {
		must.OK(t, must.Err(j.Change(ctx, webObject, "test", edit)))
	}
	must.OK(t, must.Err(j.Change(ctx, config, "test", set("a: 2\nb: 3\n", "data", "mesh"), fields.Text("data", "mesh"))))
	if _, isMade, err := j.Apply(ctx, made, "test"); err != nil || !isMade {
		t.Fatal(isMade, err)
	}
	must.OK(t, j.Remove(ctx, secret, "test"))
	if entries, err := journal.Entries(ctx, g.kube); err != nil || len(entries) != 4 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	journal.Die(j)

	second, err := g.enter(t, "second", func(o *journal.Options) { o.Dead = func(p string) bool { return p == "first's" } })
	must.OK(t, err)
	done, err := second.Restore(ctx, nil)
	must.OK(t, err)
	for _, o := range done {
		if len(o.Left) > 0 {
			t.Errorf("%s: %s %v", o.Entry.Object, o.Text, o.Left)
		}
	}
	for o, want := range before {
		if now := g.get(t, o); now == nil || !reflect.DeepEqual(without(fields.Own(now.Object)), without(want)) {
			t.Errorf("%s is not as it was:\n%v\n%v", o, now, want)
		}
	}
	if g.get(t, journal.ObjectOf(made)) != nil {
		t.Error("what was made is there")
	}
	must.OK(t, second.Leave(ctx))
	g.gone(t)
}

// TestForeignChangesStay lets others scale, upgrade, delete and recreate objects between a change
// and its end.
func TestForeignChangesStay(t *testing.T) {
	g := newGuest(t)
	g.apply(t, web)
	ctx := t.Context()
	j := g.entered(t, "only")
	defer func() {
		if _, err := j.Forget(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if err := j.Leave(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	step, err := j.Change(ctx, webObject, "test", lever(0, "500m", env("B", "1")))
	if err != nil || len(step) == 0 {
		t.Fatal(step, err)
	}
	at, err := g.open.Open(ctx, webObject.Bare(), theirs)
	must.OK(t, err)
	live := g.get(t, webObject)
	containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
	c := containers[0].(map[string]any)
	c["image"] = "example.com/web:2"
	c["resources"] = map[string]any{"limits": map[string]any{"cpu": "3"}}
	must.OK(t, unstructured.SetNestedSlice(live.Object, containers, "spec", "template", "spec", "containers"))
	live.SetResourceVersion("") // its controller writes as well
	must.OK(t, must.Err(at.Update(ctx, live, metav1.UpdateOptions{})))
	done, err := j.Restore(ctx, journal.OfRun("only"))
	if err != nil || len(done) != 1 || len(done[0].Left) != 1 || !strings.Contains(done[0].Left[0], `is "3"; it was "1", this program wrote "500m"`) {
		t.Fatalf("%+v, %v", done, err)
	}
	now := g.get(t, webObject)
	text, _ := json.Marshal(now.Object["spec"])
	for _, want := range []string{`"web:2"`, `"cpu":"3"`, `[{"name":"B","value":"1"},{"name":"A","value":"2"}]`} {
		if !strings.Contains(strings.ReplaceAll(string(text), "example.com/web", `"web`), strings.Trim(want, `"`)) && !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	// A person must decide; until then nothing is retried.
	if again, err := j.Restore(ctx, nil); err != nil || len(again) != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	entries, err := journal.Entries(ctx, g.kube)
	if err != nil || len(entries) != 1 || entries[0].Left == "" {
		t.Errorf("%+v, %v", entries, err)
	}
	// Recreated by someone else, without anything of ours.
	must.OK(t, must.Err(j.Change(ctx, webObject, "test", set(int64(1), "spec", "revisionHistoryLimit"))))
	must.OK(t, at.Delete(ctx, "web", metav1.DeleteOptions{}))
	g.apply(t, web)
	if done, err := j.Restore(ctx, nil); err != nil || len(done) != 1 || len(done[0].Back)+len(done[0].Left) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	// Recreated from its live state, as by kubectl replace --force: what was written is reverted.
	must.OK(t, must.Err(j.Change(ctx, webObject, "test", set(int64(2), "spec", "revisionHistoryLimit"))))
	live = g.get(t, webObject)
	must.OK(t, at.Delete(ctx, "web", metav1.DeleteOptions{}))
	live.SetResourceVersion("")
	live.SetUID("")
	must.OK(t, must.Err(at.Create(ctx, live, metav1.CreateOptions{})))
	if done, err := j.Restore(ctx, nil); err != nil || len(done) != 1 || !slices.Equal(done[0].Back, []string{"spec.revisionHistoryLimit"}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestRevert reverts overlapping steps individually.
func TestRevert(t *testing.T) {
	g := newGuest(t)
	g.apply(t, web)
	ctx := t.Context()
	before := fields.Own(g.get(t, webObject).Object)
	j := g.entered(t, "steps")
	one, err := j.Change(ctx, webObject, "one", set("a", "metadata", "labels", "one"))
	must.OK(t, err)
	two, err := j.Change(ctx, webObject, "two", set("b", "metadata", "labels", "two"))
	must.OK(t, err)
	must.OK(t, j.Revert(ctx, webObject, "one", one))
	if labels := g.get(t, webObject).GetLabels(); !reflect.DeepEqual(labels, map[string]string{"two": "b"}) {
		t.Errorf("%v", labels)
	}
	must.OK(t, j.Revert(ctx, webObject, "two", two))
	if now := fields.Own(g.get(t, webObject).Object); !reflect.DeepEqual(without(now), without(before)) {
		t.Errorf("%v\n%v", now, before)
	}
	if entries, err := journal.Entries(ctx, g.kube); err != nil || len(entries) != 0 {
		t.Errorf("%d entries are left, %v", len(entries), err)
	}
	must.OK(t, j.Leave(ctx))
	g.gone(t)
}

func TestForeignNamespace(t *testing.T) {
	g := newGuest(t)
	g.gone(t)
	g.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+journal.Namespace+"}")
	if _, err := g.enter(t, "x", nil); err == nil || !strings.Contains(err.Error(), "not meshtrial's") {
		t.Errorf("%v", err)
	}
	// Objects of others are not removed either.
	must.OK(t, journal.RemoveNamespace(t.Context(), g.kube))
	must.OK(t, g.kube.Resource(journal.Namespaces).Delete(t.Context(), journal.Namespace, metav1.DeleteOptions{}))
	g.gone(t)
}
