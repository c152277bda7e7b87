package lab

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// relookAfter is how long a kind that was not served counts as unknown.
const relookAfter = 250 * time.Millisecond

// kinds knows where objects of a kind are in the API. It asks the server once
// for each version of a group, and again when a kind was not there: it may
// come with a CustomResourceDefinition.
type kinds struct {
	server kubernetes.Discovery

	mu    sync.Mutex
	known map[schema.GroupVersionKind]endpoint
	asked map[schema.GroupVersion]time.Time
}

// endpoint is a resource of the API.
type endpoint struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

func newKinds(server kubernetes.Discovery) *kinds {
	return &kinds{server: server, known: map[schema.GroupVersionKind]endpoint{}, asked: map[schema.GroupVersion]time.Time{}}
}

// find returns the resource of a kind, or an error that
// [meta.IsNoMatchError] knows if the server has none now.
func (k *kinds) find(ctx context.Context, kind schema.GroupVersionKind) (endpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.known[kind]; ok {
		return e, nil
	}
	missing := &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	version := kind.GroupVersion()
	if time.Since(k.asked[version]) < relookAfter {
		return endpoint{}, missing
	}
	served, err := k.server.ServerResourcesForGroupVersion(ctx, version.String())
	k.asked[version] = time.Now()
	if apierrors.IsNotFound(err) {
		return endpoint{}, missing
	}
	if err != nil {
		return endpoint{}, err
	}
	for _, r := range served.APIResources {
		if !strings.Contains(r.Name, "/") { // not a part of another resource
			k.known[version.WithKind(r.Kind)] = endpoint{version.WithResource(r.Name), r.Namespaced}
		}
	}
	if e, ok := k.known[kind]; ok {
		return e, nil
	}
	return endpoint{}, missing
}
