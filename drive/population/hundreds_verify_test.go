//go:build verify

package population_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestHundreds creates a world of more pods than one node holds, looks for it in the
// cluster, and removes it. The benchmark of simulated sidecars creates thousands.
func TestHundreds(t *testing.T) {
	config := labtest.Start(t).RESTConfig()
	kube, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	ours := metav1.ListOptions{LabelSelector: population.Label + "=" + population.LabelValue}
	// count returns what the cluster has of the world: Services, ready pods, and nodes
	// that hold some of them.
	count := func() (services, pods, nodes int) {
		t.Helper()
		made, err := kube.CoreV1().Services("").List(ctx, ours)
		must.OK(t, err)
		list, err := kube.CoreV1().Pods("").List(ctx, ours)
		must.OK(t, err)
		on := map[string]bool{}
		for i := range list.Items {
			if pod := &list.Items[i]; lab.PodReady(pod) {
				pods++
				on[pod.Spec.NodeName] = true
			}
		}
		return len(made.Items), pods, len(on)
	}
	began := time.Now()
	ids, err := population.Ensure(ctx, config, population.Sizes{Namespaces: 5, Services: 150, EndpointsPerService: 6, Proxies: 900})
	if err != nil || len(ids) != 900 {
		t.Fatalf("%d proxies, %v", len(ids), err)
	}
	t.Logf("150 Services and 900 pods in %.1f s", time.Since(began).Seconds())
	if services, pods, nodes := count(); services != 150 || pods != 900 || nodes < 2 {
		t.Errorf("the cluster has %d Services and %d ready pods, on %d nodes", services, pods, nodes)
	}
	began = time.Now()
	world, err := population.New(config)
	must.OK(t, err)
	must.OK(t, world.Remove(ctx))
	t.Logf("removed in %.1f s", time.Since(began).Seconds())
	if services, pods, nodes := count(); services+pods+nodes != 0 {
		t.Errorf("of the world %d Services and %d ready pods are left, on %d nodes", services, pods, nodes)
	}
}
