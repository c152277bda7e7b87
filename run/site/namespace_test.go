package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/testing/must"
)

// imagesLab is a lab that provides only its images.
type imagesLab struct {
	lab.Lab
	images lab.Images
}

func (l imagesLab) Images() lab.Images       { return l.images }
func (l imagesLab) RESTConfig() *rest.Config { return &rest.Config{} }

func secretOf(kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "registry"}, Type: kind, Data: map[string][]byte{".dockerconfigjson": []byte(`{"auths": {}}`)}}
}

// Each namespace of a run gets a copy of the Secret, and every role's pods
// reference it. Without a Secret there is no request to the cluster.
func TestPullSecret(t *testing.T) {
	site, err := New(imagesLab{images: lab.Images{PullSecret: "team/registry"}}, nil, "x1")
	must.OK(t, err)
	site.Kube = fakecluster.New(secretOf(corev1.SecretTypeDockerConfigJson))
	for _, namespace := range []string{site.Namespace, "other", "other"} { // the second time it exists
		must.OK(t, site.GivePullSecret(t.Context(), namespace))
	}
	for _, namespace := range []string{site.Namespace, "other"} {
		mine, err := site.Kube.CoreV1().Secrets(namespace).Get(t.Context(), pullSecret, metav1.GetOptions{})
		if err != nil || string(mine.Data[".dockerconfigjson"]) != `{"auths": {}}` || mine.Type != corev1.SecretTypeDockerConfigJson || mine.Labels[RunLabel] != "x1" {
			t.Errorf("in namespace %s: %+v, %v", namespace, mine, err)
		}
	}
	images := site.lab.Images()
	for name, pod := range map[string]corev1.PodSpec{
		RoleLoad:    RolePod(RoleLoad, "x1", corev1.Container{}, images).Spec,
		RoleObserve: ObserveSet("ns", images, "x1").Spec.Template.Spec,
		roleProfile: ProfileSet("ns", images, "x1", "").Spec.Template.Spec,
	} {
		if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != pullSecret {
			t.Errorf("pods of %s are pulled by %v", name, pod.ImagePullSecrets)
		}
	}

	site.lab = imagesLab{}
	if err := site.GivePullSecret(t.Context(), "third"); err != nil {
		t.Error(err)
	}
	if _, err := site.Kube.CoreV1().Secrets("third").Get(t.Context(), pullSecret, metav1.GetOptions{}); err == nil {
		t.Error("a Secret was made that nobody named")
	}
	if s := RolePod(RoleLoad, "x1", corev1.Container{}, lab.Images{}).Spec.ImagePullSecrets; len(s) > 0 {
		t.Errorf("pods without a Secret name %v", s)
	}
}

func TestPullSecretThatIsNone(t *testing.T) {
	site, err := New(imagesLab{images: lab.Images{PullSecret: "team/registry"}}, nil, "x1")
	must.OK(t, err)
	site.Kube = fakecluster.New()
	if err := site.GivePullSecret(t.Context(), "ns"); err == nil || !strings.Contains(errs.Hint(err), "kubectl -n team create secret docker-registry registry") {
		t.Errorf("not there: %v (hint %q)", err, errs.Hint(err))
	}
	site.Kube = fakecluster.New(secretOf(corev1.SecretTypeOpaque))
	if err := site.GivePullSecret(t.Context(), "ns"); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "team/registry has type Opaque") {
		t.Errorf("of another type: %v", err)
	}
}

// A hint that says more than "look at the events" is kept.
func TestSeeEvents(t *testing.T) {
	s := &Site{Namespace: "ns"}
	if got := errs.Hint(s.SeeEvents(errors.New("x"))); got != "kubectl -n ns get events --sort-by=.lastTimestamp" {
		t.Errorf("hint %q", got)
	}
	if got := errs.Hint(s.SeeEvents(errs.WithHint(errors.New("x"), "push it"))); got != "push it" {
		t.Errorf("hint %q in place of the error's own", got)
	}
	if got := errs.Hint(s.SeeEvents(fmt.Errorf("wait: %w", context.Canceled))); got != "" {
		t.Errorf("hint %q to look into the namespace that an interrupted run has deleted", got)
	}
}

func TestAwaitRoot(t *testing.T) {
	root := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: (&istio.Mesh{}).RootConfigMap()}}
	}
	const late = 9 * time.Second
	t.Run("it comes late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kube, begin := fakecluster.New(root("istio-system")), time.Now()
			time.AfterFunc(late, func() { kube.Tracker().Add(root("new")) })
			must.OK(t, awaitRoot(t.Context(), kube, &istio.Mesh{}, "new"))
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
