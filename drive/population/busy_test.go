package population

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// A request that a busy API server fails is retried until the server rejects it: a
// population that is not deleted would be left to the garbage collector while a new istiod
// starts.
func TestRemoveOutlastsABusyServer(t *testing.T) {
	group := schema.GroupResource{Resource: "namespaces"}
	for name, tt := range map[string]struct {
		fails   string // the verb that fails once
		by      error
		removed bool
	}{
		"the list is one too many":      {"list", apierrors.NewTooManyRequests("busy", 1), true},
		"no time for a handshake":       {"list", errors.New("net/http: TLS handshake timeout"), true},
		"the list is forbidden":         {"list", apierrors.NewForbidden(group, "", errors.New("no")), false},
		"the deletion is one too many":  {"delete", apierrors.NewTooManyRequests("busy", 1), true},
		"the deletion takes too long":   {"delete", apierrors.NewServerTimeout(group, "delete", 1), true},
		"the deletion is forbidden":     {"delete", apierrors.NewForbidden(group, SlicesNamespace, errors.New("no")), false},
		"the caller has no time either": {"delete", context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w, left := busyWorld(tt.fails, tt.by)
			if err := w.Remove(ctx); (err == nil) != tt.removed || !tt.removed && !errors.Is(err, tt.by) {
				t.Errorf("%v", err)
			}
			if names := left(); (len(names) == 0) != tt.removed {
				t.Errorf("left are %v", names)
			}
		})
	}
}

// When the time ends, waiting for an API server that stays busy returns an error that says
// so.
func TestPatientlyEnds(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 1)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := patiently(ctx, func() error {
		calls++
		cancel()
		return busy
	})
	if calls != 1 || !errors.Is(err, context.Canceled) || !errors.Is(err, busy) {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// busyWorld returns a cluster with a population's namespace, whose API server fails the
// first request with a verb. left returns the remaining namespaces.
func busyWorld(verb string, fails error) (w *World, left func() []string) {
	var mu sync.Mutex
	failed, names := false, []string{SlicesNamespace}
	once := func(now string) error {
		if now != verb || failed {
			return nil
		}
		failed = true
		return fails
	}
	metadata := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	metadata.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		list := &metav1.List{}
		if a.GetResource().Resource != "namespaces" {
			return true, list, nil
		}
		if err := once("list"); err != nil {
			return true, nil, err
		}
		for _, name := range names {
			list.Items = append(list.Items, runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels()}}})
		}
		return true, list, nil
	})
	dynamic := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	dynamic.PrependReactor("delete", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if err := once("delete"); err != nil {
			return true, nil, err
		}
		name := a.(clienttesting.DeleteAction).GetName()
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		return true, nil, nil
	})
	left = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(names)
	}
	return &World{dynamic: dynamic, metadata: metadata, kube: fakecluster.New()}, left
}
