package gather

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/scope"
)

// A few of many pods are of all namespaces.
func TestSpread(t *testing.T) {
	var pods []corev1.Pod
	for _, namespace := range []string{"b", "c", "d", "e", "f"} {
		for i := range 7 {
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}})
		}
	}
	var of []string
	for _, pod := range Spread(pods, 5) {
		of = append(of, pod.Namespace)
	}
	if !slices.Equal(of, []string{"b", "c", "d", "e", "f"}) {
		t.Error(of)
	}
	if some := Spread(pods[:2], 5); len(some) != 2 {
		t.Errorf("%d of 2", len(some))
	}
}

// Clusters count as never called only in proxies that have run for a day.
func TestHolding(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	proxy := func(name string, dump int64, called, dns int) scope.Proxy {
		p := scope.Proxy{Name: name, DumpBytes: dump, DNS: dns}
		for i := range 10 {
			n := int64(0)
			if i < called {
				n = 5
			}
			p.Clusters = append(p.Clusters, scope.Cluster{Name: fmt.Sprintf("outbound|80||s%d.x.svc.cluster.local", i), Calls: &n})
		}
		return p
	}
	all := []scope.Proxy{proxy("a/young", 100, 0, 3), proxy("b/old", 300, 4, 60), proxy("c/unknown", 200, 0, 0)}
	began := map[string]time.Time{"a/young": now.Add(-time.Minute), "b/old": now.Add(-25 * time.Hour)}
	held := func(all []scope.Proxy, facts map[*advice.Quantity]float64) []string {
		var h Holding
		for _, p := range all {
			h.Add(p, began[p.Name], now)
		}
		return h.Facts(facts)
	}
	facts := map[*advice.Quantity]float64{}
	notes := held(all, facts)
	if len(notes) != 0 || facts[advice.ConfigDumpBytes] != 200 || facts[advice.DNSClusters] != 60 || facts[advice.DNSClustersMean] != 21 || facts[advice.UnusedShare] != 0.6 || facts[advice.UnusedClusters] != 6 {
		t.Errorf("%q %v", notes, facts)
	}
	facts = map[*advice.Quantity]float64{}
	notes = held(all[:1], facts)
	if _, told := facts[advice.UnusedShare]; told || len(notes) != 1 || facts[advice.ConfigDumpBytes] != 100 {
		t.Errorf("%q %v", notes, facts)
	}
}

// A Sidecar of a pod's namespace applies to it if it selects the pod's labels or has no selector.
func TestScopedShare(t *testing.T) {
	sidecar := func(namespace string, selector map[string]any) runtime.Object {
		spec := map[string]any{}
		if selector != nil {
			spec["workloadSelector"] = map[string]any{"labels": selector}
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": map[string]any{"namespace": namespace, "name": "default"}, "spec": spec}}
	}
	resource := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "SidecarList"},
		sidecar("whole", nil), sidecar("part", map[string]any{"app": "a"}))
	pod := func(namespace, app string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": app}}}
	}
	for want, pods := range map[float64][]corev1.Pod{
		0:    {pod("none", "a"), pod("part", "b")},
		0.5:  {pod("none", "a"), pod("part", "a")},
		0.75: {pod("whole", "a"), pod("whole", "b"), pod("part", "a"), pod("part", "b")},
		1:    {pod("whole", "b")},
	} {
		if got, err := ScopedShare(t.Context(), client.Resource(resource), pods); err != nil || got != want {
			t.Errorf("%g, not %g, %v", got, want, err)
		}
	}
}
