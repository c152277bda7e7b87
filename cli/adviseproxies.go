package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/stat"
)

// sampledProxies is how many proxies of a running mesh are asked what they hold.
const sampledProxies = 5

// recordedProxies returns what a run's proxies held beside what findings say: clusters
// that they resolve by DNS themselves, and listeners of headless Services.
func recordedProxies(ctx context.Context, dir string) func([]*record.Trial) (map[*advice.Quantity]float64, []string) {
	return func(trials []*record.Trial) (map[*advice.Quantity]float64, []string) {
		folder, err := store.Folder(dir, store.DirConfigs)
		if err != nil {
			return nil, nil // the study did not ask for them
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, []string{"not read: " + err.Error()}
		}
		held, notes := proxiesHeld{dns: map[string]int{}}, []string(nil)
		for _, e := range entries {
			of := slices.ContainsFunc(trials, func(t *record.Trial) bool { return strings.HasPrefix(e.Name(), t.ID+"-") })
			kept := slices.ContainsFunc(scopeFiles, func(end string) bool { return strings.HasSuffix(e.Name(), end) })
			if !of || !kept || !e.Type().IsRegular() {
				continue
			}
			path := filepath.Join(folder, e.Name())
			dns := 0
			err := withFile(ctx, nil, path, func(r io.Reader) (err error) {
				dns, err = gather.DNSClusters(r)
				return err
			})
			if err == nil {
				err = withFile(ctx, nil, path, func(r io.Reader) error {
					p, err := scope.Read(r, e.Name(), scope.Options{Keep: gather.KeepListeners})
					if err == nil { // a part of a file would be too few
						held.add(p)
						held.dns[e.Name()] = dns
					}
					return err
				})
			}
			if err != nil {
				notes = append(notes, fmt.Sprintf("not read: %s: %v", e.Name(), err))
			}
		}
		facts := map[*advice.Quantity]float64{}
		return facts, append(notes, held.facts(facts)...)
	}
}

// proxiesHeld are what several proxies hold that rules ask for.
type proxiesHeld struct {
	dns       map[string]int // clusters that each resolves itself
	proxies   int
	listeners int     // of single endpoints of headless Services, most of any
	share     float64 // of that proxy's configuration
	most      string
}

func (h *proxiesHeld) add(p scope.Proxy) {
	h.proxies++
	if n, share, most := gather.Headless(p); n > h.listeners {
		h.listeners, h.share, h.most = n, share, most
	}
}

func (h *proxiesHeld) facts(facts map[*advice.Quantity]float64) (notes []string) {
	sum := 0
	for _, n := range h.dns {
		sum += n
		facts[advice.DNSClusters] = max(facts[advice.DNSClusters], float64(n))
	}
	if len(h.dns) > 0 {
		facts[advice.DNSClustersMean] = float64(sum) / float64(len(h.dns))
	}
	if h.proxies > 0 {
		facts[advice.HeadlessListeners], facts[advice.HeadlessShare] = float64(h.listeners), h.share
	}
	if h.most != "" {
		notes = append(notes, h.most)
	}
	return notes
}

// proxies asks some of the running sidecars what they hold and what they called. What
// cannot be had is a note.
func (f *adviseFlags) proxies(ctx context.Context, env *Env, from *istiods, e *advice.Evidence) error {
	names, began := map[string]int{}, map[string]time.Time{}
	var several sync.Mutex // are read at a time
	var all []scope.Proxy
	var asked []corev1.Pod
	of := scopeFlags{lab: f.lab, kubeconfig: f.kubeconfig, context: f.context, stats: true,
		each: func(name string, r io.Reader) error {
			n, err := gather.DNSClusters(r)
			several.Lock()
			defer several.Unlock()
			names[name] = n
			return err
		},
		choose: func(pods []corev1.Pod) []corev1.Pod {
			some, all := someSidecars(pods)
			if all > len(some) {
				e.Notes = append(e.Notes, fmt.Sprintf("%d of %d sidecars were asked what they hold", len(some), all))
			}
			for _, pod := range some {
				began[pod.Namespace+"/"+pod.Name] = proxyBegan(pod)
			}
			asked = some
			return some
		}}
	notes, err := labProxies(ctx, env, of, scope.Options{Keep: gather.KeepListeners}, keepIn(&all))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		e.Notes = append(e.Notes, "what proxies hold could not be read: "+err.Error())
		return nil
	}
	e.Notes = append(e.Notes, notes...)
	e.Notes = append(e.Notes, heldFacts(all, names, began, time.Now(), e.Facts)...)
	share, err := from.scoped(ctx, asked)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e.Notes = append(e.Notes, "whether Sidecars hold for the proxies that were asked could not be read: "+err.Error())
	case len(asked) > 0:
		e.Facts[advice.ScopedShare] = share
	}
	return nil
}

// scoped is the share of pods for which a Sidecar of their own namespace holds.
func (i *istiods) scoped(ctx context.Context, pods []corev1.Pod) (float64, error) {
	objects, err := dynamic.NewForConfig(i.config)
	if err != nil {
		return 0, err
	}
	return scopedShare(ctx, objects.Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}), pods)
}

func scopedShare(ctx context.Context, sidecars dynamic.NamespaceableResourceInterface, pods []corev1.Pod) (float64, error) {
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

// someSidecars are a few of all pods with a sidecar, as far apart in their order as can be:
// neighbours are of one workload. Gateways hold other things, whatever Sidecars say.
func someSidecars(pods []corev1.Pod) (some []corev1.Pod, all int) {
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

// proxyBegan is when a pod's proxy was started last; zero if nobody knows.
func proxyBegan(pod corev1.Pod) time.Time {
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if c.Name == proxyContainer && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}

// heldFacts are what proxies hold, and what of it those have never called that have run
// for a day: younger ones have hardly begun.
func heldFacts(all []scope.Proxy, dns map[string]int, began map[string]time.Time, now time.Time, facts map[*advice.Quantity]float64) (notes []string) {
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
	held := proxiesHeld{dns: dns}
	for _, p := range all {
		held.add(p)
	}
	notes = held.facts(facts)
	if len(old) == 0 {
		return append(notes, "no sidecar that was asked has run for a day: what they never called says nothing yet")
	}
	if u := scope.Merge(old, 1).Uncalled; u != nil && u.Clusters > 0 {
		facts[advice.UnusedShare] = float64(u.Never) / float64(u.Clusters)
		facts[advice.UnusedClusters] = float64(u.Never) / float64(len(old))
	}
	return notes
}
