package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// removeNamespace removes the journal's namespace if a run created it; a namespace that was
// prepared with rights for guests stays. held is called last and returns why the namespace
// may not be removed.
func removeNamespace(ctx context.Context, kube dynamic.Interface, held func() error) (removed bool, err error) {
	found, err := kube.Resource(namespaces).Get(ctx, Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && found.GetLabels()[Label] == "":
		return false, nil
	case err == nil && held() != nil:
		return false, nil // it belongs to the next run
	case err == nil:
		uid := found.GetUID() // a namespace of the same name with another UID belongs to someone else
		err = kube.Resource(namespaces).Delete(ctx, Namespace, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove namespace %s: %w", Namespace, err)
	}
	return true, nil
}

// partOf is the label of prepared objects.
const partOf = "app.kubernetes.io/part-of"

// endLimit bounds the wait for a removed namespace to end.
const endLimit = 2 * time.Minute

// ensureNamespace creates the journal's namespace, after waiting for a terminating one to
// end.
func ensureNamespace(ctx context.Context, kube dynamic.Interface, say func(format string, args ...any)) error {
	api := kube.Resource(namespaces)
	told := false
	for began := time.Now(); ; {
		found, err := api.Get(ctx, Namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = api.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace",
				"metadata": map[string]any{"name": Namespace, "labels": map[string]any{Label: "namespace"}}}}, metav1.CreateOptions{FieldManager: FieldManager})
			if err == nil {
				return nil
			}
			if !apierrors.IsAlreadyExists(err) {
				return errs.WithHint(fmt.Errorf("create namespace %s for the journal of this run's changes: %w", Namespace, heard(err)), "meshtrial cluster check")
			}
		case err != nil:
			return fmt.Errorf("namespace %s: %w", Namespace, heard(err))
		case found.GetDeletionTimestamp() == nil && found.GetLabels()[Label] == "" && found.GetLabels()[partOf] != "meshtrial":
			return errs.WithHint(fmt.Errorf("namespace %s is not meshtrial's: it has neither label %s nor %s=meshtrial", Namespace, Label, partOf), "delete it, or label it if it is meshtrial's")
		case found.GetDeletionTimestamp() == nil:
			return nil
		}
		switch waited := time.Since(began); {
		case waited > endLimit:
			return errs.WithHint(fmt.Errorf("namespace %s, which an earlier run deleted, does not terminate", Namespace), "kubectl get namespace %s -o yaml shows what blocks it", Namespace)
		case waited > endLimit/20 && !told:
			told = true
			say("waiting for namespace %s to terminate", Namespace)
		}
		if err := wake.Pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait for namespace %s to terminate: %w", Namespace, err)
		}
	}
}
