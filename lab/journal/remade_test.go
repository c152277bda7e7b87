package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// remake deletes an object, and makes it again as kubectl replace --force and backup tools
// do: from what it was, with edits. The new one has a UID of its own.
func (c *fakeCluster) remake(t *testing.T, name string, edits map[string]string) {
	t.Helper()
	at := c.Resource(configMaps).Namespace("theirs")
	o, err := at.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		o, err = configMap(name, ""), nil
	} else if err == nil {
		err = at.Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	o = (&unstructured.Unstructured{Object: restorable(o.Object)}).DeepCopy()
	for _, path := range slices.Sorted(maps.Keys(edits)) {
		if err == nil {
			err = unstructured.SetNestedField(o.Object, edits[path], strings.Split(path, ".")...)
		}
	}
	if err == nil {
		_, err = at.Create(t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An object that somebody deleted and made anew is judged by its fields. What the run wrote
// is put back, or removed; what somebody else made of it is left, and noted for somebody to
// decide.
func TestMadeAnewBySomebodyElse(t *testing.T) {
	backup := map[string]string{"metadata.labels.restored-by": "a backup"}
	for name, c := range map[string]struct {
		remade string
		edits  map[string]string
		keep   bool
		want   string // made, changed, removed
		left   string // of the object that was made anew; "": nothing is noted
	}{
		"changed, as it was live":      {remade: "changed", want: "- 0 0"},
		"changed, from a backup":       {remade: "changed", edits: backup, want: "- 0 0"},
		"changed, from before the run": {remade: "changed", edits: map[string]string{"data.x": "0"}, want: "- 0 0"},
		"changed, with more in it":     {remade: "changed", edits: map[string]string{"data.y": "theirs"}, want: "- 0 0"},
		"changed, otherwise":           {remade: "changed", edits: map[string]string{"data.x": "theirs"}, want: "- theirs 0", left: `data.x is "theirs"; it was "0", this program wrote "1"`},
		"made, as it was live":         {remade: "made", want: "- 0 0"},
		"made, from a backup":          {remade: "made", edits: backup, want: "- 0 0"},
		"made, otherwise":              {remade: "made", edits: map[string]string{"data.x": "theirs"}, want: "theirs 0 0", left: `data.x is "theirs"`},
		"made, with more in it":        {remade: "made", edits: map[string]string{"data.y": "theirs"}, want: "1 0 0", left: `data.y is "theirs"`},
		"removed, as it was":           {remade: "removed", edits: map[string]string{"data.x": "0"}, want: "- 0 0"},
		"removed, otherwise":           {remade: "removed", edits: map[string]string{"data.x": "theirs"}, want: "- 0 theirs", left: wholeObject},
		"kept, changed":                {remade: "changed", keep: true, want: "- 0 0"},
		"kept, made":                   {remade: "made", keep: true, want: "- 0 0"},
		"kept, made, otherwise":        {remade: "made", keep: true, edits: map[string]string{"data.y": "theirs"}, want: "1 0 0", left: `data.y is "theirs"`},
	} {
		t.Run(name, func(t *testing.T) {
			f, ctx := prepared(t), t.Context()
			j := f.enter(t, "1")
			j.changes(t, f, "1")
			if c.keep {
				if _, err := j.Keep(ctx, "test"); err != nil {
					t.Fatal(err)
				}
			}
			f.remake(t, c.remade, c.edits)
			if _, err := j.TakeBack(ctx, OfRun("1")); err != nil {
				t.Fatal(err)
			}
			if got := f.all(t); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			left, err := Entries(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			if c.left == "" && len(left) > 0 || c.left != "" && (len(left) != 1 || left[0].Object.Name != c.remade || !strings.Contains(left[0].Left, c.left)) {
				t.Errorf("left %+v, want %q", left, c.left)
			}
			if again, err := j.TakeBack(ctx, nil); err != nil || len(again) > 0 || f.all(t) != c.want {
				t.Errorf("put back twice: %+v, %v, %s", again, err, f.all(t))
			}
			j.leaves(t)
		})
	}
}

// So it is where the same run changes, applies or removes the object once more: what is put
// back is what was there before the run, not what somebody has made anew from the run's
// own values.
func TestMadeAnewBetweenChanges(t *testing.T) {
	remove := func(ctx context.Context, j *Journal, name string) error {
		return j.Remove(ctx, ObjectOf(configMap(name, "")), "test")
	}
	change := func(ctx context.Context, j *Journal, name string) error {
		_, err := j.Change(ctx, ObjectOf(configMap(name, "")), "test", func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, unstructured.SetNestedField(live.Object, "2", "data", "x")
		})
		return err
	}
	for name, c := range map[string]struct {
		remade string
		edits  map[string]string
		then   func(context.Context, *Journal, string) error
		want   string
		left   string
	}{
		"changed, changed":             {remade: "changed", then: change, want: "- 0 0"},
		"changed, removed":             {remade: "changed", then: remove, want: "- 0 0"},
		"changed, changed, edited":     {remade: "changed", edits: map[string]string{"data.x": "theirs"}, then: change, want: "- theirs 0"},
		"made, changed":                {remade: "made", then: change, want: "- 0 0"},
		"made, removed":                {remade: "made", then: remove, want: "- 0 0"},
		"made, changed, edited":        {remade: "made", edits: map[string]string{"data.x": "theirs"}, then: change, want: "theirs 0 0", left: `data.x is "theirs"`},
		"removed, changed":             {remade: "removed", edits: map[string]string{"data.x": "0"}, then: change, want: "- 0 0"},
		"removed, removed":             {remade: "removed", edits: map[string]string{"data.x": "0"}, then: remove, want: "- 0 0"},
		"removed, changed, edited":     {remade: "removed", edits: map[string]string{"data.x": "theirs"}, then: change, want: "- 0 theirs", left: wholeObject},
		"removed, removed, made again": {remade: "removed", edits: map[string]string{"data.x": "theirs"}, then: remove, want: "- 0 theirs", left: wholeObject},
	} {
		t.Run(name, func(t *testing.T) {
			f, ctx := prepared(t), t.Context()
			j := f.enter(t, "1")
			j.changes(t, f, "1")
			f.remake(t, c.remade, c.edits)
			if err := c.then(ctx, j, c.remade); err != nil {
				t.Fatal(err)
			}
			if _, err := j.Restore(ctx, nil); err != nil {
				t.Fatal(err)
			}
			if got := f.all(t); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			left, err := Entries(ctx, f)
			if err != nil || c.left == "" && len(left) > 0 || c.left != "" && (len(left) != 1 || !strings.Contains(left[0].Left, c.left)) {
				t.Errorf("left %+v, want %q, %v", left, c.left, err)
			}
			j.leaves(t)
		})
	}
}

// An object that was changed, then removed, and that somebody has made again from when it
// was changed, is as it was before both.
func TestMadeAnewAsChanged(t *testing.T) {
	for name, again := range map[string]bool{"put back": false, "removed again": true} {
		t.Run(name, func(t *testing.T) {
			f, ctx := prepared(t), t.Context()
			j := f.enter(t, "1")
			j.changes(t, f, "1")
			if err := j.Remove(ctx, ObjectOf(configMap("changed", "")), "test"); err != nil {
				t.Fatal(err)
			}
			f.remake(t, "changed", map[string]string{"data.x": "1"})
			if again {
				if err := j.Remove(ctx, ObjectOf(configMap("changed", "")), "test"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := j.Restore(ctx, nil); err != nil {
				t.Fatal(err)
			}
			if got := f.all(t); got != "- 0 0" {
				t.Error(got)
			}
			if left, err := Entries(ctx, f); err != nil || len(left) > 0 {
				t.Errorf("%+v, %v", left, err)
			}
			j.leaves(t)
		})
	}
}

// What was removed, made in its place and removed again comes back, also where the second
// removal was noted and did not come about.
func TestRemovedInItsPlace(t *testing.T) {
	for name, killed := range map[string]bool{"removed": false, "killed before it": true} {
		t.Run(name, func(t *testing.T) {
			f, ctx := prepared(t), t.Context()
			j := f.enter(t, "1")
			o := ObjectOf(configMap("removed", ""))
			if err := j.Remove(ctx, o, "test"); err != nil {
				t.Fatal(err)
			}
			if _, made, err := j.Apply(ctx, configMap("removed", "1"), "test"); err != nil || !made {
				t.Fatal(made, err)
			}
			broken := errors.New("killed")
			f.PrependReactor("delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return killed, nil, broken
			})
			if err := j.Remove(ctx, o, "test"); (err != nil) != killed {
				t.Fatal(err)
			}
			killed = false
			if _, err := j.Restore(ctx, nil); err != nil || f.data(t, "removed") != "0" {
				t.Errorf("%s, %v", f.data(t, "removed"), err)
			}
			if left, err := Entries(ctx, f); err != nil || len(left) > 0 {
				t.Errorf("%+v, %v", left, err)
			}
			j.leaves(t)
		})
	}
}

// An object that is on its way out when it is to be put back is waited for: somebody may be
// replacing it.
func TestReplacedMeanwhile(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	if _, err := f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP")); err != nil {
		t.Fatal(err)
	}
	ours := f.web(t)
	ending, remade := ours.DeepCopy(), ours.DeepCopy()
	now := metav1.Now()
	ending.SetDeletionTimestamp(&now)
	remade.SetUID("u2")
	if err := f.kube.Tracker().Update(services, ending, "shop"); err != nil {
		t.Fatal(err)
	}
	looks := 0
	f.kube.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if looks++; looks == 3 {
			return false, nil, f.kube.Tracker().Update(services, remade, "shop")
		}
		return false, nil, nil
	})
	if _, err := f.Restore(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if is := f.web(t); is.GetUID() != "u2" || is.Object["spec"].(map[string]any)["type"] != "LoadBalancer" {
		t.Errorf("%v", is)
	}
	if left := f.entries(t); len(left) > 0 {
		t.Errorf("%+v", left[0])
	}
}

// A write that came too late is taken back though a controller has reported the object's
// status since.
func TestSleptAndAControllerReported(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	f.kube.PrependReactor("update", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if dryRun(a) || f.slept > 0 {
			return false, nil, nil
		}
		ours := a.(clienttesting.UpdateActionImpl).Object.DeepCopyObject().(*unstructured.Unstructured)
		ours.SetResourceVersion("10")
		reported := ours.DeepCopy()
		reported.SetResourceVersion("11")
		reported.Object["status"] = map[string]any{"loadBalancer": map[string]any{}}
		f.slept = time.Hour
		return true, ours, f.kube.Tracker().Update(services, reported, "shop")
	})
	_, err := f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP"))
	if !errors.Is(err, ErrLost) || strings.Contains(err.Error(), "could not") {
		t.Errorf("%v", err)
	}
	if is := f.web(t); is.Object["spec"].(map[string]any)["type"] != "LoadBalancer" {
		t.Errorf("%v", is)
	}
}
