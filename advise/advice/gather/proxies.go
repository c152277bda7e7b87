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

// sampledProxies is how many proxies of a running mesh are asked what they hold.
const sampledProxies = 5

// Held are what several proxies hold that rules ask for.
type Held struct {
	DNS       map[string]int // clusters that each resolves itself
	proxies   int
	listeners int     // of single endpoints of headless Services, most of any
	share     float64 // of that proxy's configuration
	most      string
}

func (h *Held) Add(p scope.Proxy) {
	h.proxies++
	if n, share, most := Headless(p); n > h.listeners {
		h.listeners, h.share, h.most = n, share, most
	}
}

func (h *Held) Facts(facts map[*advice.Quantity]float64) (notes []string) {
	sum := 0
	for _, n := range h.DNS {
		sum += n
		facts[advice.DNSClusters] = max(facts[advice.DNSClusters], float64(n))
	}
	if len(h.DNS) > 0 {
		facts[advice.DNSClustersMean] = float64(sum) / float64(len(h.DNS))
	}
	if h.proxies > 0 {
		facts[advice.HeadlessListeners], facts[advice.HeadlessShare] = float64(h.listeners), h.share
	}
	if h.most != "" {
		notes = append(notes, h.most)
	}
	return notes
}

// HeldFacts are what proxies hold, and what of it those have never called that have run
// for a day: younger ones have hardly begun.
func HeldFacts(all []scope.Proxy, dns map[string]int, began map[string]time.Time, now time.Time, facts map[*advice.Quantity]float64) (notes []string) {
	if len(all) == 0 {
		return []string{"no proxy was there to be asked what it holds"}
	}
	var sizes []float64
	var old []scope.Proxy
	for _, p := range all {
		sizes = append(sizes, float64(p.DumpBytes))
		if since := began[p.Name]; !since.IsZero() && now.Sub(since) >= generate.DefaultWatched {
			old = append(old, p)
		}
	}
	facts[advice.ConfigDumpBytes] = stat.Median(sizes)
	held := Held{DNS: dns}
	for _, p := range all {
		held.Add(p)
	}
	notes = held.Facts(facts)
	if len(old) == 0 {
		return append(notes, "no sidecar that was asked has run for a day: what they never called says nothing yet")
	}
	if u := scope.Merge(old, 1).Uncalled; u != nil && u.Clusters > 0 {
		facts[advice.UnusedShare] = float64(u.Never) / float64(u.Clusters)
		facts[advice.UnusedClusters] = float64(u.Never) / float64(len(old))
	}
	return notes
}

// SomeSidecars are a few of all pods with a sidecar, as far apart in their order as can be:
// neighbours are of one workload. Gateways hold other things, whatever Sidecars say.
func SomeSidecars(pods []corev1.Pod) (some []corev1.Pod, all int) {
	pods = slices.DeleteFunc(slices.Clone(pods), isGateway)
	n := min(len(pods), sampledProxies)
	for i := range n {
		some = append(some, pods[(2*i+1)*len(pods)/(2*n)])
	}
	return some, len(pods)
}

// isGateway says whether a pod's proxy is not a sidecar, but of a gateway, a waypoint or a ztunnel.
func isGateway(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == proxyContainer && generate.NotSidecar(c.Args)
	})
}

// proxyContainer is what injection calls a pod's proxy.
const proxyContainer = "istio-proxy"

// ProxyStarted is when a pod's proxy was started last; zero if nobody knows.
func ProxyStarted(pod corev1.Pod) time.Time {
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if c.Name == proxyContainer && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}

func ScopedShare(ctx context.Context, sidecars dynamic.NamespaceableResourceInterface, pods []corev1.Pod) (float64, error) {
	held := 0.0
	lists := map[string]*unstructured.UnstructuredList{}
	for _, pod := range pods {
		if lists[pod.Namespace] == nil {
			list, err := sidecars.Namespace(pod.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			lists[pod.Namespace] = list
		}
		if slices.ContainsFunc(lists[pod.Namespace].Items, func(s unstructured.Unstructured) bool { return holdsFor(s, pod) }) {
			held++
		}
	}
	return held / float64(max(1, len(pods))), nil
}

// holdsFor reports whether a Sidecar of a pod's namespace holds for the pod: it selects
// its labels, or nothing.
func holdsFor(sidecar unstructured.Unstructured, pod corev1.Pod) bool {
	selector, _, _ := unstructured.NestedStringMap(sidecar.Object, "spec", "workloadSelector", "labels")
	return labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels))
}
