package istio

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/components"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/study"
)

// Installation is Istio's rendered charts, ready to apply.
func Installation(manifests components.Manifests) (lab.Installation, error) {
	crds, err := lab.ParseObjects(manifests.CRDs)
	if err != nil {
		return lab.Installation{}, fmt.Errorf("istio: custom resource definitions: %w", err)
	}
	objects, err := lab.ParseObjects(manifests.Istio)
	if err != nil {
		return lab.Installation{}, fmt.Errorf("istio: manifests: %w", err)
	}
	ambient, err := lab.ParseObjects(manifests.Ambient)
	if err != nil {
		return lab.Installation{}, fmt.Errorf("istio: manifests of an ambient mesh: %w", err)
	}
	var onNodes []string
	for _, o := range ambient {
		if o.GetKind() == "DaemonSet" {
			onNodes = append(onNodes, o.GetName())
		}
	}
	return lab.Installation{
		Mesh:      study.MeshIstio,
		Namespace: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}},
		Selector:  "app=istiod", DaemonSets: onNodes,
		// istiod waits for the CRDs it watches, so all can be applied together;
		// what comes too early is applied again.
		Stages: [][]*unstructured.Unstructured{slices.Concat(crds, objects, ambient)},
	}, nil
}

// Sweep deletes what istiod itself left in every namespace: the ConfigMaps of
// its certificate authority. It is for a cluster from which Istio was removed.
func Sweep(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	left, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "istio.io/config=true"})
	if err != nil {
		return fmt.Errorf("istio: look for what istiod left: %w", err)
	}
	for _, m := range left.Items {
		if m.Name != rootCAConfigMap && m.Name != revokedConfigMap {
			continue
		}
		err := client.CoreV1().ConfigMaps(m.Namespace).Delete(ctx, m.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("istio: delete what istiod left: %w", err)
		}
	}
	return nil
}
