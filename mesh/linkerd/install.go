package linkerd

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/meshmark/meshmark/components"
	"github.com/meshmark/meshmark/lab"
)

// Namespace is where the control plane runs.
const Namespace = components.LinkerdNamespace

// Install applies Linkerd's rendered charts and waits until its control
// plane is available.
func Install(ctx context.Context, config *rest.Config, l *components.Linkerd) error {
	if l == nil {
		return errors.New("linkerd: nothing says where it comes from")
	}
	applier, err := lab.NewApplier(config)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	crds, err := lab.ParseObjects(l.CRDs)
	if err != nil {
		return fmt.Errorf("linkerd: custom resource definitions: %w", err)
	}
	objects, err := lab.ParseObjects(l.ControlPlane)
	if err != nil {
		return fmt.Errorf("linkerd: manifests: %w", err)
	}
	// As Linkerd's own tool makes it: its own pods carry their sidecars from
	// the start, its webhooks leave them alone, and what redirects a pod's
	// traffic needs rights that only a privileged namespace gives.
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name":        Namespace,
		"annotations": map[string]any{"linkerd.io/inject": "disabled"},
		"labels": map[string]any{
			"linkerd.io/is-control-plane": "true", "config.linkerd.io/admission-webhooks": "disabled",
			"linkerd.io/control-plane-ns": Namespace, "pod-security.kubernetes.io/enforce": "privileged"}}}}
	if err := applier.ApplyObjects(ctx, append([]*unstructured.Unstructured{namespace}, crds...)); err != nil {
		return fmt.Errorf("linkerd: %w", err)
	}
	if err := applier.ApplyObjects(ctx, objects); err != nil {
		return fmt.Errorf("linkerd: %w", err)
	}
	deployments, err := client.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "linkerd.io/control-plane-ns=" + Namespace})
	if err != nil {
		return fmt.Errorf("linkerd: %w", err)
	}
	if len(deployments.Items) == 0 {
		return fmt.Errorf("linkerd: the manifests have no Deployment of the control plane in namespace %s", Namespace)
	}
	for _, d := range deployments.Items {
		if err := lab.WaitDeployment(ctx, client, Namespace, d.Name); err != nil {
			return fmt.Errorf("linkerd: %w", err)
		}
	}
	return nil
}
