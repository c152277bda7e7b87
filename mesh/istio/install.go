package istio

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/meshmark/meshmark/components"
	"github.com/meshmark/meshmark/lab"
)

// Install applies Istio's rendered charts and waits until istiod is
// available.
func Install(ctx context.Context, config *rest.Config, manifests components.Manifests) error {
	applier, err := lab.NewApplier(config)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
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
	// Apply repeats what comes too early.
	all := append([]*unstructured.Unstructured{namespace}, crds...)
	if err := applier.ApplyObjects(ctx, append(all, objects...)); err != nil {
		return fmt.Errorf("istio: %w", err)
	}
	deployments, err := client.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return fmt.Errorf("istio: %w", err)
	}
	if len(deployments.Items) == 0 {
		return fmt.Errorf("istio: the manifests have no istiod Deployment in namespace %s", Namespace)
	}
	for _, d := range deployments.Items {
		if err := lab.WaitDeployment(ctx, client, Namespace, d.Name); err != nil {
			return fmt.Errorf("istio: %w", err)
		}
	}
	return nil
}
