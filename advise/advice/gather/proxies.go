package gather

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/stat"
)

// Held adds what proxies hold to the facts. A note names the headless Service with the most
// listeners.
func Held(all []scope.Proxy, facts map[*advice.Quantity]float64) (notes []string) {
	var h Holding
	for _, p := range all {
		h.Add(p, time.Time{}, time.Time{})
	}
	return h.facts(facts)
}

// Holding sums up what proxies hold, one at a time; the zero value is ready.
type Holding struct {
	sizes        []float64 // bytes
	dns, mostDNS int
	listeners    int
	share        float64
	most         string
	old          *scope.Sum // of those that have run for long enough
}

// Add adds a proxy that started at a time; zero if unknown.
func (h *Holding) Add(p scope.Proxy, started, now time.Time) {
	h.sizes = append(h.sizes, float64(p.DumpBytes))
	h.dns, h.mostDNS = h.dns+p.DNS, max(h.mostDNS, p.DNS)
	if n, s, of := Headless(p); n > h.listeners {
		h.listeners, h.share, h.most = n, s, of
	}
	if !started.IsZero() && now.Sub(started) >= generate.DefaultWatched {
		if h.old == nil {
			h.old = scope.NewSum(1, 0)
		}
		h.old.Add(p)
	}
}

// facts adds what is known of proxies that were not asked what they called.
func (h *Holding) facts(facts map[*advice.Quantity]float64) (notes []string) {
	if len(h.sizes) == 0 {
		return nil
	}
	facts[advice.DNSClusters] = max(facts[advice.DNSClusters], float64(h.mostDNS))
	facts[advice.DNSClustersMean] = float64(h.dns) / float64(len(h.sizes))
	facts[advice.HeadlessListeners], facts[advice.HeadlessShare] = float64(h.listeners), h.share
	if h.most != "" {
		notes = append(notes, h.most)
	}
	return notes
}

// Facts adds to the facts what the proxies hold, and what of it they have never called.
func (h *Holding) Facts(facts map[*advice.Quantity]float64) (notes []string) {
	if len(h.sizes) == 0 {
		return []string{"there was no proxy to read"}
	}
	facts[advice.ConfigDumpBytes] = stat.Median(h.sizes)
	notes = h.facts(facts)
	if h.old == nil {
		return append(notes, "no sidecar that was read has run for a day: it is too early to say what they never call")
	}
	if u := h.old.Uncalled(); u != nil && u.Clusters > 0 {
		facts[advice.UnusedShare] = float64(u.Never) / float64(u.Clusters)
		facts[advice.UnusedClusters] = float64(u.Never) / float64(h.old.Len())
	}
	return notes
}

// Spread picks some of all pods, evenly spread in their order, as neighbours are of one workload.
func Spread(pods []corev1.Pod, some int) (sample []corev1.Pod) {
	n := min(len(pods), some)
	for i := range n {
		sample = append(sample, pods[(2*i+1)*len(pods)/(2*n)])
	}
	return sample
}

// proxyContainer is the container that injection adds.
const proxyContainer = "istio-proxy"

// ProxyStarted returns when a pod's proxy last started; zero if unknown.
func ProxyStarted(pod corev1.Pod) time.Time {
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if c.Name == proxyContainer && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}

// ScopedShare reports the share of pods to which a Sidecar of their own namespace applies.
func ScopedShare(ctx context.Context, sidecars dynamic.NamespaceableResourceInterface, pods []corev1.Pod) (
	float64, error) {
	scoped := 0.0
	lists := map[string]*unstructured.UnstructuredList{}
	for _, pod := range pods {
		if lists[pod.Namespace] == nil {
			list, err := sidecars.Namespace(pod.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			lists[pod.Namespace] = list
		}
		if slices.ContainsFunc(lists[pod.Namespace].Items, func(s unstructured.Unstructured) bool {
			return appliesTo(s, pod)
		}) {
			scoped++
		}
	}
	return scoped / float64(max(1, len(pods))), nil
}

// appliesTo reports whether a Sidecar of a pod's namespace applies to the pod: its selector
// matches the pod's labels, or it has no selector.
func appliesTo(sidecar unstructured.Unstructured, pod corev1.Pod) bool {
	selector, _, _ := unstructured.NestedStringMap(sidecar.Object, "spec", "workloadSelector", "labels")
	return labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels))
}
