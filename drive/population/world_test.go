package population

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/testing/must"
)

// leaves is when the objects being deleted are gone.
const leaves = 3 * time.Second

// leavingWorld returns a cluster that has all wanted objects, of which the given kinds
// disappear after some time; ending are those that the API server reports as being deleted.
// made returns what was created and when.
func leavingWorld(want []*unstructured.Unstructured, ending, going []string) (w *World, made func() map[string]time.Duration) {
	began, out := time.Now(), map[string]time.Duration{}
	metadata := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	metadata.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		for _, o := range want {
			r, err := ResourceOf(o)
			if err != nil {
				return true, nil, err
			}
			if r.GroupVersionResource != a.GetResource() || slices.Contains(going, o.GetKind()) && time.Since(began) >= leaves {
				continue
			}
			item := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Annotations: o.GetAnnotations()}}
			if slices.Contains(ending, o.GetKind()) {
				item.DeletionTimestamp = &metav1.Time{Time: began}
			}
			list.Items = append(list.Items, runtime.RawExtension{Object: item})
		}
		return true, list, nil
	})
	dynamic := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	dynamic.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		object := a.(clienttesting.CreateAction).GetObject()
		out[Key(object.(*unstructured.Unstructured))] = time.Since(began) // one at a time
		return true, object, nil
	})
	return &World{dynamic: dynamic, metadata: metadata, kube: fakecluster.New()}, func() map[string]time.Duration { return out }
}

// A wanted object that is being deleted is created again once it is gone, and with a
// namespace all of its contents, even if nothing else must be deleted: what is created in it
// earlier is deleted with it.
func TestBringAwaitsWhatIsOnItsWayOut(t *testing.T) {
	want, err := Sizes{Namespaces: 1, Services: 1}.Objects(nil)
	must.OK(t, err)
	namespace, account, service := "Namespace//"+Namespace(0), "ServiceAccount/"+Namespace(0)+"/"+ServiceAccount, "Service/"+Namespace(0)+"/svc-0"
	for name, c := range map[string]struct {
		ending, going []string // kinds
		patience      time.Duration
		made          []string
		fails         error
	}{
		"nothing":                       {nil, nil, time.Hour, nil, nil},
		"a namespace":                   {[]string{"Namespace"}, []string{"Namespace", "ServiceAccount", "Service"}, time.Hour, []string{namespace, account, service}, nil},
		"an object":                     {[]string{"Service"}, []string{"Service"}, time.Hour, []string{service}, nil},
		"for longer than anybody waits": {[]string{"Namespace"}, []string{"Namespace"}, time.Second, nil, context.DeadlineExceeded},
		"for longer, and never goes":    {[]string{"Namespace"}, nil, time.Minute, nil, context.DeadlineExceeded},
		"a namespace and part of it":    {[]string{"Namespace", "Service"}, []string{"Namespace", "ServiceAccount", "Service"}, time.Hour, []string{namespace, account, service}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				w, made := leavingWorld(want, c.ending, c.going)
				if err := w.bring(ctx, want); !errors.Is(err, c.fails) {
					t.Errorf("%v, want %v", err, c.fails)
				}
				got := made()
				for _, object := range c.made {
					if at, there := got[object]; !there || at < leaves {
						t.Errorf("%s is made after %v: %v", object, at, there)
					}
				}
				if len(got) != len(c.made) {
					t.Errorf("made are %v, want %q", got, c.made)
				}
			})
		})
	}
}
