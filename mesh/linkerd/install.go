package linkerd

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/study"
)

// Namespace is where the control plane runs.
const Namespace = components.LinkerdNamespace

// Installation is Linkerd's rendered charts, ready to apply.
func Installation(l *components.Linkerd) (lab.Installation, error) {
	if l == nil {
		return lab.Installation{}, errors.New("linkerd: nothing says where it comes from")
	}
	crds, err := lab.ParseObjects(l.CRDs)
	if err != nil {
		return lab.Installation{}, fmt.Errorf("linkerd: custom resource definitions: %w", err)
	}
	objects, err := lab.ParseObjects(l.ControlPlane)
	if err != nil {
		return lab.Installation{}, fmt.Errorf("linkerd: manifests: %w", err)
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
	return lab.Installation{Mesh: study.MeshLinkerd, Namespace: namespace, Selector: "linkerd.io/control-plane-ns=" + Namespace,
		Stages: [][]*unstructured.Unstructured{crds, objects}}, nil
}
