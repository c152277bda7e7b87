package istio

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// leaseOf is the Lease of an election; nobody has it where holder is "".
func leaseOf(revision, holder string) *unstructured.Unstructured {
	spec := map[string]any{}
	if holder != "" {
		spec["holderIdentity"] = holder
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": statusElection + "-" + revision, "namespace": Namespace}, "spec": spec}}
}

// A fresh istiod is elected once its own pod has the Lease: not while the former's has it,
// nor one that is ending, nor while nobody has; an istiod without such a Lease is not
// waited for.
func TestAwaitElected(t *testing.T) {
	for name, tt := range map[string]struct {
		holders []string // one after the other, each for 10 s; "-" is no Lease
		takes   time.Duration
		fails   string
	}{
		"no elections":     {[]string{"-"}, 0, ""},
		"elected":          {[]string{"istiod-new"}, 0, ""},
		"after the former": {[]string{"istiod-old", "", "istiod-new"}, 20 * time.Second, ""},
		"after one ending": {[]string{"istiod-ending", "istiod-new"}, 10 * time.Second, ""},
		"never":            {[]string{"istiod-old"}, electionLimit, "wait until one of istiod's replicas has won Lease istio-system/istio-gateway-status-leader-canary: nobody has after 50s"},
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
				if tt.holders[0] != "-" {
					if _, err := leases.Namespace(Namespace).Create(t.Context(), leaseOf("canary", tt.holders[0]), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					go func() {
						for _, holder := range tt.holders[1:] {
							select {
							case <-ctx.Done():
								return
							case <-time.After(10 * time.Second):
							}
							if _, err := leases.Namespace(Namespace).Update(ctx, leaseOf("canary", holder), metav1.UpdateOptions{}); err != nil {
								t.Error(err)
							}
						}
					}()
				}
				began := time.Now()
				err := c.AwaitElected(t.Context())
				if took := time.Since(began); took < tt.takes || took > tt.takes+electionEvery {
					t.Errorf("took %v, want %v", took, tt.takes)
				}
				if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
					t.Errorf("%v, want %q", err, tt.fails)
				}
				if ctx, cancel := context.WithCancel(t.Context()); tt.fails != "" {
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
