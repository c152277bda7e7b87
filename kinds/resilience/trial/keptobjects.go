package trial

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// sharedObjects has digests of the cluster's webhooks and CRDs, by kind and name, except those of
// control planes that come and go.
type sharedObjects map[string][sha256.Size]byte

var sharedResources = []schema.GroupVersionResource{
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// readShared reads the webhooks and CRDs other than those of control planes that steps start: each
// istiod writes into its own webhooks once it serves.
func (t *scenarioTrial) readShared(ctx context.Context) (sharedObjects, error) {
	objects, err := dynamic.NewForConfig(t.config)
	if err != nil {
		return nil, err
	}
	var without []*unstructured.Unstructured
	for _, addition := range t.o.Beside {
		without = append(without, addition.Objects...)
	}
	return readShared(ctx, objects, without)
}

// readShared reads the webhooks and CRDs other than these objects.
func readShared(ctx context.Context, objects dynamic.Interface, without []*unstructured.Unstructured) (sharedObjects, error) {
	out := sharedObjects{}
	for _, resource := range sharedResources {
		all, err := objects.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range all.Items {
			o := &all.Items[i]
			if slices.ContainsFunc(without, func(w *unstructured.Unstructured) bool {
				return w.GetKind() == o.GetKind() && w.GetName() == o.GetName()
			}) {
				continue
			}
			text, err := json.Marshal([]any{o.GetUID(), o.Object["webhooks"], o.Object["spec"]})
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
			out[o.GetKind()+" "+o.GetName()] = sha256.Sum256(text)
		}
	}
	return out, nil
}

// unchanged returns an error that names objects that are gone or have other contents now. New ones
// are ignored.
func (s sharedObjects) unchanged(now sharedObjects) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s)) {
		switch is, ok := now[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is gone since the control plane was removed", name))
		case is != s[name]:
			errs = append(errs, fmt.Errorf("%s has changed since the control plane was started", name))
		}
	}
	return errors.Join(errs...)
}
