package journal

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/testing/must"
)

// A reserved namespace outlives the holder that leaves the cluster, and is removed
// with the first holder after the reservation is reverted. A namespace that an
// administrator prepared is left as it is.
func TestReserve(t *testing.T) {
	namespace := func(labels map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": Namespace, "uid": "u", "labels": labels}}}
	}
	for name, c := range map[string]struct {
		there []runtime.Object
		stays bool // after Unreserve
	}{
		"nobody has made it":   {nil, false},
		"a run has made it":    {[]runtime.Object{namespace(map[string]any{Label: "namespace"})}, false},
		"somebody prepared it": {[]runtime.Object{namespace(map[string]any{partOf: "meshtrial"})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeJournal(c.there...)
			for range 2 {
				must.OK(t, Reserve(t.Context(), f.kube))
			}
			leave := func() (there bool) {
				t.Helper()
				must.OK(t, f.Leave(t.Context()))
				_, err := f.kube.Resource(namespaces).Get(t.Context(), Namespace, metav1.GetOptions{})
				return err == nil
			}
			if !leave() {
				t.Fatal("a reserved namespace went with the last note")
			}
			if err := ensureNamespace(t.Context(), f.kube, t.Logf); err != nil {
				t.Errorf("the next run does not take it: %v", err)
			}
			done, err := Unreserve(t.Context(), f.kube)
			if err != nil || done == c.stays {
				t.Errorf("taken back: %t, %v", done, err)
			}
			if there := leave(); there != c.stays {
				t.Errorf("it is there: %t, want %t", there, c.stays)
			}
			if done, err := Unreserve(t.Context(), f.kube); err != nil || done {
				t.Errorf("taken back twice: %t, %v", done, err)
			}
		})
	}
}
