package journal

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// reservedAnnotation marks a namespace kept by [Reserve], which [Unreserve] may release. A
// namespace prepared by an administrator does not have it.
const reservedAnnotation = "meshtrial.dev/reserved"

// Reserve creates the journal's namespace and keeps it after the last entry is gone: it
// holds rights for a later run.
func Reserve(ctx context.Context, kube dynamic.Interface) error {
	if err := ensureNamespace(ctx, kube, func(string, ...any) {}); err != nil {
		return err
	}
	found, err := kube.Resource(namespaces).Get(ctx, Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	if found.GetLabels()[Label] == "" {
		return nil // prepared by an administrator, or already reserved
	}
	return mark(ctx, kube, found.GetUID(), map[string]any{Label: nil, partOf: "meshtrial"}, "true")
}

// Unreserve reverts [Reserve], so the next run removes the namespace once it is empty. It
// reports whether there was a reservation.
func Unreserve(ctx context.Context, kube dynamic.Interface) (bool, error) {
	found, err := kube.Resource(namespaces).Get(ctx, Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("namespace %s: %w", Namespace, err)
	case found.GetAnnotations()[reservedAnnotation] == "":
		return false, nil
	}
	return true, mark(ctx, kube, found.GetUID(), map[string]any{Label: "namespace", partOf: nil}, nil)
}

// mark changes the labels and the reservation of the journal's namespace with this UID.
func mark(ctx context.Context, kube dynamic.Interface, uid types.UID, labels map[string]any, reserved any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": uid, "labels": labels, "annotations": map[string]any{reservedAnnotation: reserved}}})
	if err != nil {
		return err
	}
	_, err = kube.Resource(namespaces).Patch(ctx, Namespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return fmt.Errorf("label namespace %s: %w", Namespace, err)
	}
	return nil
}
