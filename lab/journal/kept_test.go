package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"
)

// fakeCluster is an API server with ConfigMaps.
type fakeCluster struct{ *fakeAPI }

// Open implements [Opener].
func (c *fakeCluster) Open(_ context.Context, o *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	return c.Resource(configMaps).Namespace(cmp.Or(namespace, o.GetNamespace())), nil
}

func (c *fakeCluster) enter(t *testing.T, run string) *Journal {
	t.Helper()
	j, err := enter(t.Context(), c, Options{Open: c, Holder: Holder{Run: run, Since: time.Now(), Process: run}, Wait: time.Minute, Dead: func(string) bool { return true }})
	must.OK(t, err)
	return j
}

func (j *Journal) leaves(t *testing.T) {
	t.Helper()
	must.OK(t, j.Leave(context.Background()))
}

func configMap(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "theirs", "name": name}, "data": map[string]any{"x": value}}}
}

// data returns the content of the object, or "-" if it does not exist.
func (c *fakeCluster) data(t *testing.T, name string) string {
	t.Helper()
	o, err := c.Resource(configMaps).Namespace("theirs").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "-"
	}
	must.OK(t, err)
	x, _, _ := unstructured.NestedString(o.Object, "data", "x")
	return x
}

// edit changes an object as another writer.
func (c *fakeCluster) edit(t *testing.T, name, value string) {
	t.Helper()
	at := c.Resource(configMaps).Namespace("theirs")
	o, err := at.Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		err = unstructured.SetNestedField(o.Object, value, "data", "x")
	}
	if err == nil {
		_, err = at.Update(t.Context(), o, metav1.UpdateOptions{})
	}
	must.OK(t, err)
}

func (c *fakeCluster) all(t *testing.T) string {
	t.Helper()
	return c.data(t, "made") + " " + c.data(t, "changed") + " " + c.data(t, "removed")
}

// changes makes one object, changes another, and removes a third.
func (j *Journal) changes(t *testing.T, c *fakeCluster, value string) {
	t.Helper()
	ctx := t.Context()
	write := func(name string) {
		set := func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, unstructured.SetNestedField(live.Object, value, "data", "x")
		}
		must.OK(t, must.Err(j.Change(ctx, ObjectOf(configMap(name, "")), "test", set)))
	}
	if c.data(t, "made") != "-" {
		write("made")
	} else if _, _, err := j.Apply(ctx, configMap("made", value), "test"); err != nil {
		t.Fatal(err)
	}
	write("changed")
	must.OK(t, j.Remove(ctx, ObjectOf(configMap("removed", "")), "test"))
}

func prepared(t *testing.T) *fakeCluster {
	t.Helper()
	c := &fakeCluster{newFakeAPI()}
	for _, name := range []string{"changed", "removed"} {
		must.OK(t, must.Err(c.Resource(configMaps).Namespace("theirs").Create(t.Context(), configMap(name, "0"), metav1.CreateOptions{})))
	}
	return c
}

// Kept changes stay: the next run leaves them alone, may change the same objects, and
// reverts only its own changes. They are reverted on request, the latest first.
func TestKept(t *testing.T) {
	c, ctx := prepared(t), t.Context()
	for _, run := range []string{"1", "2"} {
		j := c.enter(t, run)
		j.changes(t, c, run)
		if n, err := j.Keep(ctx, "test"); err != nil || n < 2 {
			t.Fatal(n, err)
		}
		j.leaves(t)
	}
	j := c.enter(t, "3")
	if done, err := j.Restore(ctx, nil); err != nil || len(done) != 0 {
		t.Fatalf("%+v %v", done, err)
	}
	if got := c.all(t); got != "2 2 -" {
		t.Fatal(got)
	}
	// A run on top of it, which also removes what is kept.
	j.changes(t, c, "3")
	must.OK(t, j.Remove(ctx, ObjectOf(configMap("made", "")), "test"))
	if _, _, err := j.Apply(ctx, configMap("made", "again"), "test"); err != nil {
		t.Fatal(err)
	}
	if got := c.all(t); got != "again 3 -" {
		t.Fatal(got)
	}
	j.leaves(t) // dead, as far as the next can tell
	j = c.enter(t, "4")
	must.OK(t, must.Err(j.Restore(ctx, nil)))
	if got := c.all(t); got != "2 2 -" {
		t.Fatal(got)
	}
	kept, err := j.Kept(ctx)
	if err != nil || len(kept) != 5 || kept[0].Kept != "test" {
		t.Fatalf("%d kept, %v", len(kept), err)
	}
	// One after the other.
	for _, step := range [][2]string{{"2", "1 1 -"}, {"1", "- 0 0"}} {
		if done, err := j.TakeBack(ctx, OfRun(step[0])); err != nil || slices.ContainsFunc(done, func(o Outcome) bool { return len(o.Left) > 0 }) {
			t.Fatalf("%+v %v", done, err)
		}
		if got := c.all(t); got != step[1] {
			t.Fatalf("after taking back %s: %s, want %s", step[0], got, step[1])
		}
	}
	if kept, err := j.Kept(ctx); err != nil || len(kept) != 0 {
		t.Fatal(kept, err)
	}
	j.leaves(t)
}

// A run that dies while it keeps has kept all or nothing.
func TestKeepingIsOneMoment(t *testing.T) {
	for at := range 12 {
		c, ctx := prepared(t), t.Context()
		j := c.enter(t, "1")
		j.changes(t, c, "1")
		writes := 0
		broken := errors.New("killed")
		c.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if v := action.GetVerb(); v != "create" && v != "update" && v != "delete" || at < 0 {
				return false, nil, nil
			}
			if writes++; writes > at {
				return true, nil, broken
			}
			return false, nil, nil
		})
		_, err := j.Keep(ctx, "test")
		var stays *StaysError
		if err != nil && errors.As(err, &stays) != (at > 0) {
			t.Errorf("killed at write %d: %v", at, err)
		}
		want := "1 1 -"
		switch {
		case err == nil && at < 7:
			t.Fatalf("%d: it was not killed", at)
		case at == 0:
			want = "- 0 0"
		}
		at = -1 // from here on everything is written
		j.leaves(t)
		j = c.enter(t, "2")
		must.OK(t, must.Err(j.Restore(ctx, nil)))
		if got := c.all(t); got != want {
			t.Errorf("killed at write %d: %s, want %s", writes-1, got, want)
		}
		must.OK(t, must.Err(j.TakeBack(ctx, OfRun("1"))))
		if got := c.all(t); got != "- 0 0" {
			t.Errorf("killed at write %d, taken back: %s", writes-1, got)
		}
		if list, err := c.Resource(secrets).Namespace(Namespace).List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("%d Secrets are left, %v", len(list.Items), err)
		}
		j.leaves(t)
	}
}

// Kept objects that someone else has changed stay as they are, and are named.
func TestKeptAndChangedByOthers(t *testing.T) {
	c, ctx := prepared(t), t.Context()
	j := c.enter(t, "1")
	j.changes(t, c, "1")
	must.OK(t, must.Err(j.Keep(ctx, "test")))
	c.edit(t, "changed", "theirs")
	done, err := j.TakeBack(ctx, OfRun("1"))
	if err != nil || !slices.ContainsFunc(done, func(o Outcome) bool { return len(o.Left) == 1 && strings.Contains(o.Left[0], `"theirs"`) }) {
		t.Fatalf("%+v %v", done, err)
	}
	if got := c.all(t); got != "- theirs 0" {
		t.Error(got)
	}
	if n, err := j.Forget(ctx, OfRun("1")); err != nil || n != 1 {
		t.Error(n, err)
	}
	j.leaves(t)
}

// A Secret that says that something stays, but not what, is reported and left.
func TestKeepOfNobody(t *testing.T) {
	c := prepared(t)
	c.enter(t, "1").leaves(t)
	if _, err := c.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace, "labels": map[string]any{Label: "namespace"}}}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	must.OK(t, must.Err(c.Resource(secrets).Namespace(Namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "keep-x", "namespace": Namespace, "labels": map[string]any{Label: keepLabel}}}}, metav1.CreateOptions{})))
	_, err := enter(t.Context(), c, Options{Open: c, Holder: Holder{Run: "2"}, Dead: func(string) bool { return true }})
	if err == nil || !strings.Contains(err.Error(), "keep-x") {
		t.Error(err)
	}
}

// Kept changes are reverted from the last to the first: one below another is rejected by
// name, and nothing of it is lost. The same applies to an object with an undecided remark
// of an earlier run, whose entry is older than the kept change.
func TestTakenBackInOrder(t *testing.T) {
	for before, foreign := range map[string]bool{"0": false, "theirs": true} {
		c, ctx := prepared(t), t.Context()
		if foreign {
			j := c.enter(t, "0")
			j.changes(t, c, "-1")
			c.edit(t, "changed", "theirs")
			must.OK(t, must.Err(j.Restore(ctx, nil)))
			j.leaves(t)
		}
		for _, run := range []string{"1", "2"} {
			j := c.enter(t, run)
			j.changes(t, c, run)
			must.OK(t, must.Err(j.Keep(ctx, "test")))
			j.leaves(t)
		}
		j := c.enter(t, "3")
		done, err := j.TakeBack(ctx, OfRun("1"))
		if err == nil || !strings.Contains(err.Error(), "run 2 has changed it since") || !strings.Contains(errs.Hint(err), "cluster restore --run 2") {
			t.Errorf("%v, hint %q", err, errs.Hint(err))
		}
		if slices.ContainsFunc(done, func(o Outcome) bool { return len(o.Left) > 0 }) {
			t.Errorf("%+v", done)
		}
		if got := c.all(t); got != "2 2 0" {
			t.Error(got)
		}
		for _, step := range [][2]string{{"2", "1 1 0"}, {"1", "- " + before + " 0"}} {
			must.OK(t, must.Err(j.TakeBack(ctx, OfRun(step[0]))))
			if got := c.all(t); got != step[1] {
				t.Errorf("after taking back %s: %s, want %s", step[0], got, step[1])
			}
		}
		if left, err := Entries(ctx, c); err != nil || len(left) > 0 != foreign {
			t.Errorf("%+v, %v", left, err)
		}
		j.leaves(t)
	}
}

// A decision that was stored, but whose answer was lost, is withdrawn before anything is
// reverted: a run that dies then has kept all or nothing.
func TestKeptUnheard(t *testing.T) {
	for at := range 12 {
		c, ctx := prepared(t), t.Context()
		j := c.enter(t, "1")
		j.changes(t, c, "1")
		broken, lost, writes := errors.New("the network is gone"), false, -1
		c.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if v := action.GetVerb(); writes < 0 || v != "create" && v != "update" && v != "delete" || action.GetResource() == leases {
				return false, nil, nil
			}
			if writes++; writes > at {
				return true, nil, broken
			}
			return false, nil, nil
		})
		c.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			o := action.(clienttesting.CreateActionImpl).Object.(*unstructured.Unstructured)
			if lost || o.GetName() != keepName("1") {
				return false, nil, nil
			}
			lost = true
			if err := c.Tracker().Create(secrets, o, Namespace); err != nil {
				return true, nil, err
			}
			return true, nil, broken
		})
		var stays *StaysError
		if _, err := j.Keep(ctx, "test"); !errors.Is(err, broken) || errors.As(err, &stays) {
			t.Fatal(err)
		}
		writes = 0
		_, err := j.Restore(ctx, OfRun("1"))
		if at == 0 && (!errors.Is(err, broken) || c.all(t) != "1 1 -") {
			t.Errorf("reverted before the decision was: %s, %v", c.all(t), err)
		}
		if done := err == nil; done && c.all(t) != "- 0 0" || done && at < 6 {
			t.Fatalf("%d: %s", at, c.all(t))
		}
		writes = -1 // from here on everything is written
		j.leaves(t)
		j = c.enter(t, "2")
		must.OK(t, must.Err(j.Restore(ctx, nil)))
		if got := c.all(t); got != "1 1 -" && got != "- 0 0" {
			t.Errorf("killed at write %d: %s", at, got)
		}
		must.OK(t, must.Err(j.TakeBack(ctx, OfRun("1"))))
		if got := c.all(t); got != "- 0 0" {
			t.Errorf("killed at write %d, taken back: %s", at, got)
		}
		j.leaves(t)
	}
}

// A run that dies after recreating an object, before that is recorded, leaves nothing
// that needs a decision; what lies below is still recognized.
func TestMadeAgainAndDied(t *testing.T) {
	for name, again := range map[string]bool{"removed": false, "removed and made": true} {
		t.Run(name, func(t *testing.T) {
			c, ctx := prepared(t), t.Context()
			j := c.enter(t, "1")
			j.changes(t, c, "1")
			must.OK(t, must.Err(j.Keep(ctx, "test")))
			j.leaves(t)
			j = c.enter(t, "2")
			must.OK(t, j.Remove(ctx, ObjectOf(configMap("made", "")), "test"))
			if again {
				if _, _, err := j.Apply(ctx, configMap("made", "2"), "test"); err != nil {
					t.Fatal(err)
				}
			}
			j.leaves(t) // dead
			dead := true
			c.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				v := action.GetVerb()
				return dead && (v == "create" || v == "update" || v == "delete"), nil, errors.New("killed")
			})
			j = c.enter(t, "3")
			if _, err := j.Restore(ctx, nil); err == nil || c.data(t, "made") != "1" {
				t.Fatalf("%v, %s", err, c.data(t, "made"))
			}
			dead = false
			j.leaves(t)
			j = c.enter(t, "4")
			if done, err := j.Restore(ctx, nil); err != nil || len(done) != 1 || len(done[0].Left) > 0 || c.data(t, "made") != "1" {
				t.Errorf("%+v, %v, %s", done, err, c.data(t, "made"))
			}
			must.OK(t, must.Err(j.TakeBack(ctx, OfRun("1"))))
			if got := c.all(t); got != "- 0 0" {
				t.Error(got)
			}
			if left, err := Entries(ctx, c); err != nil || len(left) > 0 {
				t.Errorf("%+v, %v", left, err)
			}
			j.leaves(t)
		})
	}
}

// An object that was made and kept, and to which someone has added since, is left to
// them.
func TestKeptAndAddedTo(t *testing.T) {
	for name, add := range map[string]struct {
		path []string
		left bool
	}{"a field": {[]string{"data", "y"}, true}, "a map": {[]string{"binaryData", "y"}, true}, "a note of kubectl's": {[]string{"metadata", "annotations", "y"}, false}} {
		t.Run(name, func(t *testing.T) {
			c, ctx := prepared(t), t.Context()
			j := c.enter(t, "1")
			j.changes(t, c, "1")
			must.OK(t, must.Err(j.Keep(ctx, "test")))
			o, err := c.Resource(configMaps).Namespace("theirs").Get(ctx, "made", metav1.GetOptions{})
			if err == nil {
				err = unstructured.SetNestedField(o.Object, "theirs", add.path...)
			}
			if err == nil {
				_, err = c.Resource(configMaps).Namespace("theirs").Update(ctx, o, metav1.UpdateOptions{})
			}
			must.OK(t, err)
			done, err := j.TakeBack(ctx, OfRun("1"))
			said := slices.ContainsFunc(done, func(o Outcome) bool {
				return len(o.Left) == 1 && strings.Contains(o.Left[0], strings.Join(add.path, "."))
			})
			if err != nil || said != add.left {
				t.Errorf("%+v %v", done, err)
			}
			if there := c.data(t, "made") == "1"; there != add.left {
				t.Error(c.all(t))
			}
			j.leaves(t)
		})
	}
}
