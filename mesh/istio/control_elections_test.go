package istio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/testing/must"
)

// leaseOf returns the Lease of an election; it is not held if holder is "".
func leaseOf(revision, holder string) *unstructured.Unstructured {
	spec := map[string]any{}
	if holder != "" {
		spec["holderIdentity"] = holder
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": statusElection + "-" + revision, "namespace": Namespace}, "spec": spec}}
}

// A new istiod is elected once its own pod holds the Lease: not while the previous or a
// terminating one holds it, nor while it is not held. A missing Lease is awaited once, for as
// long as an istiod may take to create it. A failed read is repeated, unless it is forbidden.
func TestAwaitElected(t *testing.T) {
	for name, tt := range map[string]struct {
		holders []string // consecutive holders, each for a while; "-" means no Lease
		each    time.Duration
		failing int // number of initial reads that fail, with
		with    error
		takes   time.Duration
		fails   string
	}{
		"no elections":     {holders: []string{"-"}, takes: electionBegins},
		"elected":          {holders: []string{"istiod-new"}},
		"made late":        {holders: []string{"-", "istiod-new"}, each: 10 * time.Second, takes: 10 * time.Second},
		"after the former": {holders: []string{"istiod-old", "", "istiod-new"}, each: 10 * time.Second, takes: 20 * time.Second},
		"after one ending": {holders: []string{"istiod-ending", "istiod-new"}, each: 10 * time.Second, takes: 10 * time.Second},
		"after errors":     {holders: []string{"istiod-new"}, failing: 4, with: apierrors.NewInternalError(errors.New("no leader")), takes: 4 * electionEvery},
		"never": {holders: []string{"istiod-old"}, takes: electionLimit,
			fails: "wait until a replica of istiod holds Lease istio-system/istio-gateway-status-leader-canary: no replica has after 50s"},
		"errors to the end": {holders: []string{"istiod-new"}, failing: 1000, with: apierrors.NewInternalError(errors.New("no leader")), takes: electionLimit, fails: "no leader"},
		"forbidden":         {holders: []string{"istiod-new"}, failing: 1000, with: apierrors.NewForbidden(leaseResource.GroupResource(), "a", nil), fails: "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				labels, now := map[string]string{"app": "istiod"}, metav1.Now()
				pod := func(name string) *corev1.Pod {
					return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: labels}}
				}
				ending := pod("istiod-ending")
				ending.DeletionTimestamp, ending.Finalizers = &now, []string{"a.test/b"}
				kube := fakecluster.New(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod-canary"},
					Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}, pod("istiod-new"), ending)
				client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{leaseResource: "LeaseList"})
				leases := client.Resource(leaseResource)
				c := &ControlPlane{kube: kube, leases: leases, name: "istiod-canary", revision: "canary"}
				looks := 0
				client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					looks++
					return looks <= tt.failing, nil, tt.with
				})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				hold := func(before, holder string) {
					var err error
					switch {
					case holder == "-":
					case before == "-":
						_, err = leases.Namespace(Namespace).Create(ctx, leaseOf("canary", holder), metav1.CreateOptions{})
					default:
						_, err = leases.Namespace(Namespace).Update(ctx, leaseOf("canary", holder), metav1.UpdateOptions{})
					}
					if err != nil {
						t.Error(err)
					}
				}
				hold("-", tt.holders[0])
				go func() {
					for i, holder := range tt.holders[1:] {
						select {
						case <-ctx.Done():
							return
						case <-time.After(tt.each):
						}
						hold(tt.holders[i], holder)
					}
				}()
				began := time.Now()
				err := c.AwaitElected(t.Context())
				if took := time.Since(began); took < tt.takes || took > tt.takes+electionEvery {
					t.Errorf("took %v, want %v", took, tt.takes)
				}
				tells(t, name, err, tt.fails, "")
				began = time.Now()
				if tt.fails == "" && (c.AwaitElected(t.Context()) != nil || time.Since(began) != 0) {
					t.Errorf("the second time it took %v", time.Since(began))
				}
				if ctx, cancel := context.WithCancel(t.Context()); tt.takes == electionLimit {
					cancel()
					if err := c.AwaitElected(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("given up: %v", err)
					}
				} else {
					cancel()
				}
			})
		})
	}
}

// If one template of istiod's pods holds no elections, another one, such as that of the next
// trial, still may.
func TestAwaitElectedAfterAnotherTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}}}
		kube := fakecluster.New(d)
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{leaseResource: "LeaseList"})
		c := &ControlPlane{kube: kube, leases: client.Resource(leaseResource), name: "istiod", revision: defaultRevision}
		for i, want := range []bool{true, false, true, false, false} { // whether it waits
			d.Spec.Template.Annotations = map[string]string{"levers": []string{"a", "a", "b", "b", "a"}[i]}
			must.OK(t, must.Err(kube.AppsV1().Deployments(Namespace).Update(t.Context(), d, metav1.UpdateOptions{})))
			began := time.Now()
			if err := c.AwaitElected(t.Context()); err != nil || (time.Since(began) >= electionBegins) != want {
				t.Errorf("trial %d: %v after %v", i, err, time.Since(began))
			}
		}
	})
}
