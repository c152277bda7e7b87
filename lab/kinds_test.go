package lab

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// served is an API server that reports what it serves.
type served struct {
	resources map[string][]metav1.APIResource
	err       error
	asked     int
}

func (s *served) ServerVersion(context.Context) (*version.Info, error) { return nil, nil }

func (s *served) ServerResourcesForGroupVersion(_ context.Context, version string) (*metav1.APIResourceList, error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	if s.resources[version] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{APIResources: s.resources[version]}, nil
}

func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{resources: map[string][]metav1.APIResource{"v1": {
			{Name: "namespaces", Kind: "Namespace"}, {Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "pods/eviction", Kind: "Eviction", Namespaced: true}}}}
		k := newKinds(s)
		find := func(kind schema.GroupVersionKind, resource string, namespaced bool, asked int) {
			t.Helper()
			e, err := k.find(t.Context(), kind)
			if resource == "" {
				if !meta.IsNoMatchError(err) {
					t.Errorf("%s is at %+v, %v", kind, e, err)
				}
			} else if err != nil || e.resource != kind.GroupVersion().WithResource(resource) || e.namespaced != namespaced {
				t.Errorf("%s is at %+v, %v", kind, e, err)
			}
			if s.asked != asked {
				t.Errorf("%s: asked %d times, want %d", kind, s.asked, asked)
			}
		}
		core, custom := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "x.io", Version: "v2"}
		find(core.WithKind("Pod"), "pods", true, 1)
		find(core.WithKind("Namespace"), "namespaces", false, 1)
		find(core.WithKind("Eviction"), "", false, 1)
		find(custom.WithKind("Thing"), "", false, 2)
		find(custom.WithKind("Thing"), "", false, 2) // asked a moment ago
		s.resources["x.io/v2"] = []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}}
		time.Sleep(relookAfter)
		find(custom.WithKind("Thing"), "things", true, 3)
		s.err = errors.New("no connection")
		time.Sleep(relookAfter)
		if _, err := k.find(t.Context(), core.WithKind("Other")); !errors.Is(err, s.err) {
			t.Errorf("unreachable: %v", err)
		}
		find(core.WithKind("Pod"), "pods", true, 4)
	})
}
