package lab

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// Installation holds the objects of a mesh's control plane, ready to apply.
type Installation struct {
	Mesh string
	// Namespace is the namespace of the control plane.
	Namespace *unstructured.Unstructured
	// Selector is the label selector of its Deployments in that namespace.
	Selector string
	// DaemonSets names the DaemonSets of that namespace that belong to the
	// installation.
	DaemonSets []string
	// Stages are applied one after the other.
	Stages [][]*unstructured.Unstructured
}

// Apply applies the objects, over existing ones if necessary, and waits until the
// control plane is available.
func (i Installation) Apply(ctx context.Context, config *rest.Config) error {
	applier, err := NewApplier(config)
	if err == nil {
		err = i.apply(ctx, config, applier)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", i.Mesh, err)
	}
	return nil
}

func (i Installation) apply(ctx context.Context, config *rest.Config, applier *Applier) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := applier.ApplyObjects(ctx, []*unstructured.Unstructured{i.Namespace}); err != nil {
		return err
	}
	for _, objects := range i.Stages {
		if err := applier.ApplyObjects(ctx, objects); err != nil {
			return err
		}
	}
	namespace := i.Namespace.GetName()
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: i.Selector})
	if err != nil {
		return err
	}
	if len(deployments.Items) == 0 {
		return fmt.Errorf("the manifests lack the control plane's Deployment (%s) in namespace %s", i.Selector, namespace)
	}
	for _, d := range deployments.Items {
		if err := WaitDeployment(ctx, client, namespace, d.Name); err != nil {
			return err
		}
	}
	for _, name := range i.DaemonSets {
		if err := WaitDaemonSet(ctx, client, namespace, name); err != nil {
			return err
		}
	}
	return nil
}
