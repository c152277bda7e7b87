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

	"github.com/meshtrial/meshtrial/testing/must"
)

// remake deletes an object and recreates it as kubectl replace --force and backup tools do:
// from its previous state, with edits. The new one has another UID.
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
	must.OK(t, err)
}

// An object that someone deleted and recreated is judged by its fields, even if the run
// changes it once more. What the run wrote is reverted or removed. What someone else made
// of it is left, and recorded for a decision.
func TestMadeAnewBySomebodyElse(t *testing.T) {
	remove := func(ctx context.Context, j *Journal, name string) error {
		return j.Remove(ctx, ObjectOf(configMap(name, "")), "test")
	}
	change := func(ctx context.Context, j *Journal, name string) error {
		_, err := j.Change(ctx, ObjectOf(configMap(name, "")), "test", func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, unstructured.SetNestedField(live.Object, "2", "data", "x")
		})
		return err
	}
	keep := func(ctx context.Context, j *Journal, _ string) error { _, err := j.Keep(ctx, "test"); return err }
	nothing := func(context.Context, *Journal, string) error { return nil }
	type edits map[string]string
	backup, theirs, more, original := edits{"metadata.labels.restored-by": "a backup"}, edits{"data.x": "theirs"}, edits{"data.y": "theirs"}, edits{"data.x": "0"}
	for name, c := range map[string]struct {
		first  func(context.Context, *Journal, string) error // what the run does before that
		remade string
		edits  edits
		then   func(context.Context, *Journal, string) error // and afterwards
		want   string                                        // made, changed or removed
		left   string                                        // part left alone of the recreated object; "": nothing is recorded
	}{
		"changed, as it was live":      {nothing, "changed", nil, nothing, "- 0 0", ""},
		"changed, from a backup":       {nothing, "changed", backup, nothing, "- 0 0", ""},
		"changed, from before the run": {nothing, "changed", original, nothing, "- 0 0", ""},
		"changed, with more in it":     {nothing, "changed", more, nothing, "- 0 0", ""},
		"changed, otherwise":           {nothing, "changed", theirs, nothing, "- theirs 0", `data.x is "theirs"; it was "0", this program wrote "1"`},
		"made, as it was live":         {nothing, "made", nil, nothing, "- 0 0", ""},
		"made, from a backup":          {nothing, "made", backup, nothing, "- 0 0", ""},
		"made, otherwise":              {nothing, "made", theirs, nothing, "theirs 0 0", `data.x is "theirs"`},
		"made, with more in it":        {nothing, "made", more, nothing, "1 0 0", `data.y is "theirs"`},
		"removed, as it was":           {nothing, "removed", original, nothing, "- 0 0", ""},
		"removed, otherwise":           {nothing, "removed", theirs, nothing, "- 0 theirs", wholeObject},
		"kept, changed":                {keep, "changed", nil, nothing, "- 0 0", ""},
		"kept, made":                   {keep, "made", nil, nothing, "- 0 0", ""},
		"kept, made, otherwise":        {keep, "made", more, nothing, "1 0 0", `data.y is "theirs"`},
		"changed, changed":             {nothing, "changed", nil, change, "- 0 0", ""},
		"changed, removed":             {nothing, "changed", nil, remove, "- 0 0", ""},
		"changed, changed, edited":     {nothing, "changed", theirs, change, "- theirs 0", ""},
		"made, changed":                {nothing, "made", nil, change, "- 0 0", ""},
		"made, removed":                {nothing, "made", nil, remove, "- 0 0", ""},
		"made, changed, edited":        {nothing, "made", theirs, change, "theirs 0 0", `data.x is "theirs"`},
		"removed, changed":             {nothing, "removed", original, change, "- 0 0", ""},
		"removed, removed":             {nothing, "removed", original, remove, "- 0 0", ""},
		"removed, changed, edited":     {nothing, "removed", theirs, change, "- 0 theirs", wholeObject},
		"removed, removed, made again": {nothing, "removed", theirs, remove, "- 0 theirs", wholeObject},
		// From when it was changed.
		"changed and removed":          {remove, "changed", edits{"data.x": "1"}, nothing, "- 0 0", ""},
		"changed and removed, removed": {remove, "changed", edits{"data.x": "1"}, remove, "- 0 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, ctx := prepared(t), t.Context()
			j := f.enter(t, "1")
			j.changes(t, f, "1")
			must.OK(t, c.first(ctx, j, c.remade))
			f.remake(t, c.remade, c.edits)
			must.OK(t, c.then(ctx, j, c.remade))
			must.OK(t, must.Err(j.TakeBack(ctx, OfRun("1"))))
			if got := f.all(t); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			left, err := Entries(ctx, f)
			if err != nil || c.left == "" && len(left) > 0 || c.left != "" && (len(left) != 1 || left[0].Object.Name != c.remade || !strings.Contains(left[0].Left, c.left)) {
				t.Errorf("left %+v, want %q, %v", left, c.left, err)
			}
			if again, err := j.TakeBack(ctx, nil); err != nil || len(again) > 0 || f.all(t) != c.want {
				t.Errorf("reverted twice: %+v, %v, %s", again, err, f.all(t))
			}
			j.leaves(t)
		})
	}
}

// An object that was removed, replaced, and whose replacement was removed again comes back,
// even if the second removal was recorded but did not happen.
func TestRemovedInItsPlace(t *testing.T) {
	for name, killed := range map[string]bool{"removed": false, "killed before it": true} {
		t.Run(name, func(t *testing.T) {
			f, ctx := prepared(t), t.Context()
			j := f.enter(t, "1")
			o := ObjectOf(configMap("removed", ""))
			must.OK(t, j.Remove(ctx, o, "test"))
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

// An object that is being deleted when it is to be restored is waited for: someone may be
// replacing it.
func TestReplacedMeanwhile(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	must.OK(t, must.Err(f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP"))))
	ours := f.web(t)
	ending, remade := ours.DeepCopy(), ours.DeepCopy()
	now := metav1.Now()
	ending.SetDeletionTimestamp(&now)
	remade.SetUID("u2")
	must.OK(t, f.kube.Tracker().Update(services, ending, "shop"))
	looks := 0
	f.kube.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if looks++; looks == 3 {
			return false, nil, f.kube.Tracker().Update(services, remade, "shop")
		}
		return false, nil, nil
	})
	must.OK(t, must.Err(f.Restore(t.Context(), nil)))
	if is := f.web(t); is.GetUID() != "u2" || is.Object["spec"].(map[string]any)["type"] != "LoadBalancer" {
		t.Errorf("%v", is)
	}
	if left := f.entries(t); len(left) > 0 {
		t.Errorf("%+v", left[0])
	}
}

// A write that came too late is reverted even if a controller has reported the object's
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
