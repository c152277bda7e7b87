package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
)

// pullSecret is the name of the Secret for pulling the roles' image, in each
// namespace with pods of roles.
const pullSecret = "meshtrial-pull"

// GivePullSecret copies the Secret that the user named (lab.Images.PullSecret)
// into a namespace whose pods pull the roles' image with it, because a Secret is
// usable only in its own namespace. It does nothing if there is none.
func (s *Site) GivePullSecret(ctx context.Context, namespace string) error {
	from, name, named := strings.Cut(s.lab.Images().PullSecret, "/")
	if !named {
		return nil
	}
	secret, err := s.Kube.CoreV1().Secrets(from).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return errs.WithHint(fmt.Errorf("read the Secret of --pull-secret: %w", err),
			"kubectl -n %s create secret docker-registry %s --docker-server=REGISTRY --docker-username=NAME --docker-password=TOKEN", from, name)
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson && secret.Type != corev1.SecretTypeDockercfg {
		return errs.WithHint(errs.Usage("Secret %s/%s has type %s, with which no image can be pulled", from, name, secret.Type),
			"`kubectl create secret docker-registry` creates one of type %s", corev1.SecretTypeDockerConfigJson)
	}
	secrets := s.Kube.CoreV1().Secrets(namespace)
	mine := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: pullSecret, Namespace: namespace, Labels: Labels(s.Run, pullSecret)},
		Type:       secret.Type, Data: secret.Data,
	}
	_, err = secrets.Create(ctx, mine, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // from an earlier trial or run: populations' namespaces have fixed names
		_, err = secrets.Update(ctx, mine, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create Secret %s/%s: %w", namespace, pullSecret, err)
	}
	return nil
}

// SeeEvents adds a hint to look at the events, unless the error has a hint or the run was
// interrupted.
func (s *Site) SeeEvents(err error) error {
	if errs.Hint(err) != "" || errors.Is(err, context.Canceled) {
		return err
	}
	return errs.WithHint(err, "kubectl -n %s get events --sort-by=.lastTimestamp", s.Namespace)
}

const (
	// rootTime limits the wait for a control plane that has just been restarted:
	// Istio writes to namespaces once it is elected, and the lease of a killed
	// predecessor lasts 30 s.
	rootTime = time.Minute
	rootLook = 100 * time.Millisecond
)

// awaitRoot waits until the control plane has put its root certificate into a new
// namespace. The kubelet looks for a missing ConfigMap at intervals that double up
// to two minutes, so pods created too early would start long after it has arrived.
// It does not wait if the control plane provides none, or if reading is forbidden.
// A missing certificate is not an error here: the pods' events report it.
func awaitRoot(ctx context.Context, kube kubernetes.Interface, m mesh.Mesh, namespace string) error {
	rooted, ok := m.(mesh.Rooted)
	if !ok {
		return nil
	}
	name := rooted.RootConfigMap()
	all, err := kube.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1})
	// If the control plane watches only some namespaces, ours may be the first.
	if apierrors.IsForbidden(err) || err == nil && len(all.Items) == 0 && len(mesh.NamespaceLabels(m)) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the mesh's root certificates: %w", err)
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
