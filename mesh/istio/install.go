package istio

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshmark/meshmark/components"
	"github.com/meshmark/meshmark/lab"
)

// Install applies Istio's rendered charts and waits until istiod is
// available.
func Install(ctx context.Context, config *rest.Config, manifests components.Manifests) error {
	crds, err := lab.ParseObjects(manifests.CRDs)
	if err != nil {
		return fmt.Errorf("istio: custom resource definitions: %w", err)
	}
	objects, err := lab.ParseObjects(manifests.Istio)
	if err != nil {
		return fmt.Errorf("istio: manifests: %w", err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}}
	// istiod waits for the CRDs it watches, so all can be applied together;
	// what comes too early is applied again.
	err = lab.Install(ctx, config, Namespace, "app=istiod", slices.Concat([]*unstructured.Unstructured{namespace}, crds, objects))
	if err != nil {
		return fmt.Errorf("istio: %w", err)
	}
	return nil
}
