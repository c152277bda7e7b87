package linkerd

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	err = lab.Install(ctx, config, Namespace, "linkerd.io/control-plane-ns="+Namespace, append([]*unstructured.Unstructured{namespace}, crds...), objects)
	if err != nil {
		return fmt.Errorf("linkerd: %w", err)
	}
	return nil
}
