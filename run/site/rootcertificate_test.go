package site

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/none"
)

func TestAwaitRoot(t *testing.T) {
	root := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: (&istio.Mesh{}).RootConfigMap()}}
	}
	const late = 9 * time.Second
	t.Run("it comes late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kube, begin := fakecluster.New(root("istio-system")), time.Now()
			time.AfterFunc(late, func() { kube.Tracker().Add(root("new")) })
			if err := awaitRoot(t.Context(), kube, &istio.Mesh{}, "new"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < late || took > late+rootLook {
				t.Errorf("waited %v for what came after %v", took, late)
			}
		})
	})
	t.Run("it never comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kube, begin := fakecluster.New(root("istio-system")), time.Now()
			if err := awaitRoot(t.Context(), kube, &istio.Mesh{}, "new"); err != nil || time.Since(begin) < rootTime {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := awaitRoot(ctx, kube, &istio.Mesh{}, "new"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after the context's end: %v", err)
			}
		})
	})
	t.Run("nothing to wait for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			if err := awaitRoot(t.Context(), fakecluster.New(), &istio.Mesh{}, "new"); err != nil {
				t.Errorf("no namespace has one: %v", err)
			}
			if err := awaitRoot(t.Context(), fakecluster.New(root("istio-system")), none.Mesh{}, "new"); err != nil {
				t.Errorf("another mesh: %v", err)
			}
			shy := fakecluster.New(root("istio-system"))
			shy.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("not yours"))
			})
			if err := awaitRoot(t.Context(), shy, &istio.Mesh{}, "new"); err != nil {
				t.Errorf("nobody may look: %v", err)
			}
			if took := time.Since(begin); took > 0 {
				t.Errorf("waited %v", took)
			}
		})
	})
}
