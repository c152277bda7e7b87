package app

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/kubelet"
)

// kubeletTimeout bounds one answer of a kubelet.
const kubeletTimeout = 30 * time.Second

// usages are what kubelets know of containers: their first sample of CPU and their last.
type usages struct {
	api         rest.Interface
	wanted      map[string][]kubelet.Container // by node
	first, last map[kubelet.Container]kubelet.Stats
	failed      map[string]error // by node, the last answer

	mu     sync.Mutex
	marked map[string]time.Time                // by pod, when its requests were first counted
	since  map[kubelet.Container]kubelet.Stats // the first samples after that
}

func newUsages(r *meshRead) *usages {
	u := &usages{api: r.from.kube.CoreV1().RESTClient(), wanted: map[string][]kubelet.Container{}, first: map[kubelet.Container]kubelet.Stats{},
		last: map[kubelet.Container]kubelet.Stats{}, failed: map[string]error{}, marked: map[string]time.Time{}, since: map[kubelet.Container]kubelet.Stats{}}
	for i, p := range r.proxies {
		u.wanted[p.Node] = append(u.wanted[p.Node], r.containers[i])
	}
	return u
}

// watch asks the kubelets again and again until ctx ends.
func (u *usages) watch(ctx context.Context) {
	for {
		u.look(ctx)
		if wake.Pause(ctx, kubeletEvery) != nil {
			return
		}
	}
}

// look asks the kubelet of each node with proxies, some at a time.
func (u *usages) look(ctx context.Context) {
	nodes := slices.Collect(maps.Keys(u.wanted))
	for group := range slices.Chunk(nodes, proxiesAtATime) {
		var wait sync.WaitGroup
		for _, node := range group {
			wait.Go(func() {
				asked, cancel := context.WithTimeout(ctx, kubeletTimeout)
				defer cancel()
				page, err := kubelet.Read(asked, u.api, node)
				u.mu.Lock()
				defer u.mu.Unlock()
				if ctx.Err() != nil {
					return
				}
				u.failed[node] = err
				for _, c := range u.wanted[node] {
					if now, ok := page.Containers[c]; ok {
						u.add(c, now)
					}
				}
			})
		}
		wait.Wait()
	}
}

// mark says when the requests of a pod's proxy were first counted.
func (u *usages) mark(pod string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.marked[pod] = at
}

func (u *usages) add(c kubelet.Container, now kubelet.Stats) {
	had, seen := u.last[c]
	switch {
	case !seen:
		u.first[c] = now
	case now.CPU.UsedNS < had.CPU.UsedNS || now.CPU.Since.After(had.CPU.At):
		u.first[c] = now // it restarted
		delete(u.since, c)
	case !now.CPU.At.After(had.CPU.At) && now.MemoryAt.Equal(had.MemoryAt):
		return
	}
	u.last[c] = now
	if at, marked := u.marked[c.Pod]; marked && !now.CPU.At.Before(at) {
		if _, known := u.since[c]; !known {
			u.since[c] = now
		}
	}
}

// tell gives the proxies what they used, each over its own samples since it last restarted.
func (u *usages) tell(r *meshRead) {
	for i, c := range r.containers {
		first, last := u.first[c], u.last[c]
		seconds := last.CPU.At.Sub(first.CPU.At).Seconds()
		if seconds <= 0 || last.Memory == 0 {
			continue
		}
		cores, bytes := float64(last.CPU.UsedNS-first.CPU.UsedNS)/1e9/seconds, float64(last.Memory)
		r.proxies[i].Cores, r.proxies[i].Bytes = &cores, &bytes
		if _, counted := u.marked[c.Pod]; counted {
			while := math.NaN()
			if since, known := u.since[c]; known && last.CPU.At.After(since.CPU.At) {
				while = float64(last.CPU.UsedNS-since.CPU.UsedNS) / 1e9 / last.CPU.At.Sub(since.CPU.At).Seconds()
			}
			r.proxies[i].CoresCounted = &while
		}
	}
}

// silent says which kubelets did not answer, if nobody else measured their proxies.
func (u *usages) silent(r *meshRead) {
	silent := map[string]bool{}
	for i := range r.containers {
		if p := r.proxies[i]; p.Cores == nil && u.failed[p.Node] != nil {
			silent[p.Node] = true
		}
	}
	if nodes := slices.Sorted(maps.Keys(silent)); len(nodes) > 0 {
		r.unknown(assess.NoUsage.Of(len(nodes), nodes[0], u.failed[nodes[0]]))
	}
}
