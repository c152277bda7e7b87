package labtest

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/must"
)

// goneTime bounds the wait for a namespace to disappear.
const goneTime = 4 * time.Minute

// Namespace removes a namespace that the test creates at the test's end, with
// pods killed immediately, so that the next test on the lab finds nothing of
// it.
func Namespace(t *testing.T, l *local.Lab, name string) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), goneTime)
		defer cancel()
		now := int64(0)
		namespaces := kube.CoreV1().Namespaces()
		for deleted := false; ; time.Sleep(100 * time.Millisecond) {
			var refused error // or unanswered by a busy API server
			if !deleted {
				refused = errors.Join(kube.AppsV1().Deployments(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
					kube.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}),
					namespaces.Delete(ctx, name, metav1.DeleteOptions{}))
				deleted = refused == nil
			}
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return
			}
			if ctx.Err() != nil {
				t.Errorf("namespace %s does not go: %v", name, errors.Join(refused, err))
				return
			}
		}
	})
}
