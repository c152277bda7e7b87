package site

import (
	"context"
	"fmt"
	"github.com/meshtrial/meshtrial/internal/wake"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
)

const (
	// rootTime bounds the wait for a control plane that has just been started
	// again: Istio's writes to namespaces when it leads, and the lease of the
	// one before lasts 30 s where that was killed.
	rootTime = time.Minute
	rootLook = 100 * time.Millisecond
)

// awaitRoot waits until the control plane has put its root certificate into a
// namespace that has just been made. The kubelet asks for a ConfigMap that a
// pod lacks at intervals that double up to two minutes, so that pods made too
// early start long after it has come. Where the control plane gives no
// namespace one (or nobody may look) nothing is waited for, and one that does
// not come is no error here: the pods' events tell of it.
func awaitRoot(ctx context.Context, kube kubernetes.Interface, m mesh.Mesh, namespace string) error {
	rooted, ok := m.(mesh.Rooted)
	if !ok {
		return nil
	}
	name := rooted.RootConfigMap()
	all, err := kube.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1})
	// Where the control plane watches some namespaces only, ours may be the first.
	if apierrors.IsForbidden(err) || err == nil && len(all.Items) == 0 && len(mesh.NamespaceLabels(m)) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the mesh's root certificates: %w", err)
	}
	for begin := time.Now(); time.Since(begin) < rootTime; {
		_, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil || apierrors.IsForbidden(err) {
			return nil
		}
		if err := wake.Pause(ctx, rootLook); err != nil {
			return fmt.Errorf("wait for the mesh's root certificate in namespace %s: %w", namespace, err)
		}
	}
	return nil
}
