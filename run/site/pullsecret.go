package site

import (
	"context"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pullSecret is the name of the Secret by which pods of the roles pull their
// image, in each namespace that has such pods.
const pullSecret = "meshtrial-pull"

// GivePullSecret copies the Secret that the user named (lab.Images.PullSecret)
// into a namespace whose pods are to pull the roles' image by it; without one
// it does nothing. A Secret serves its own namespace alone.
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
		return errs.WithHint(errs.Usage("Secret %s/%s is of the type %s, which no image can be pulled by", from, name, secret.Type),
			"`kubectl create secret docker-registry` makes one of the type %s", corev1.SecretTypeDockerConfigJson)
	}
	secrets := s.Kube.CoreV1().Secrets(namespace)
	mine := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: pullSecret, Namespace: namespace, Labels: Labels(s.Run, pullSecret)},
		Type:       secret.Type, Data: secret.Data,
	}
	_, err = secrets.Create(ctx, mine, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of an earlier trial, or run: populations' namespaces have fixed names
		_, err = secrets.Update(ctx, mine, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create Secret %s/%s: %w", namespace, pullSecret, err)
	}
	return nil
}

// SeeEvents adds to an error what else says why pods do not come, unless it says
// what to do already.
func (s *Site) SeeEvents(err error) error {
	if errs.Hint(err) != "" {
		return err
	}
	return errs.WithHint(err, "kubectl -n %s get events --sort-by=.lastTimestamp", s.Namespace)
}
