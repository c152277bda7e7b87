package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// census tracks a trial's pods and the endpoints of its services throughout the trial, as the API
// server reports them. It owns the goroutines of its watches; stop ends them.
type census struct {
	watch *site.EndpointWatch

	mu      sync.Mutex
	pods    map[string]*resident       // by UID, including deleted ones
	slices  map[string]map[string]bool // ready addresses by EndpointSlice
	of      map[string]string          // service by EndpointSlice
	since   map[string]int64           // by address of a pod that is yet to be reported: when it became an endpoint
	waiters []chan struct{}
	found   func(*corev1.Pod) // called with every changed pod
}

// resident is an existing or former pod.
type resident struct {
	record.ScenarioPod
	uid        string
	containers map[string]string // name to latest ID
	ready      bool              // by its own condition, and not being deleted
	leaving    bool              // being deleted
	left       bool              // object deleted
	created    time.Time
	volatile   *corev1.Pod
}

// newCensus starts to watch a namespace. It calls found with every pod that has the trial's mark,
// and again whenever the pod changes, from one goroutine.
func newCensus(ctx context.Context, kube kubernetes.Interface, namespace, trial string, found func(*corev1.Pod)) (*census, error) {
	c := &census{pods: map[string]*resident{}, slices: map[string]map[string]bool{}, of: map[string]string{}, since: map[string]int64{}, found: found}
	var err error
	if c.watch, err = site.WatchEndpoints(ctx, kube, namespace, trialMark+"="+trial, c.onSlice, c.onPod); err != nil {
		return nil, fmt.Errorf("watch the trial's pods: %w", err)
	}
	return c, nil
}

// stop ends the watches. It may be called more than once.
func (c *census) stop() { c.watch.Stop() }

// changed wakes waiting goroutines. The caller holds the lock.
func (c *census) changed() {
	for _, w := range c.waiters {
		close(w)
	}
	c.waiters = nil
}

// await waits until a condition holds. It evaluates the condition after each change, with the lock
// held.
func (c *census) await(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		if holds() {
			c.mu.Unlock()
			return nil
		}
		w := make(chan struct{})
		c.waiters = append(c.waiters, w)
		c.mu.Unlock()
		select {
		case <-w:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *census) onSlice(slice *discoveryv1.EndpointSlice, deleted bool) {
	c.update(slice.Labels[discoveryv1.LabelServiceName], slice.Name, site.ReadyAddresses(slice, deleted), time.Now().UnixNano())
}

// update records the ready addresses of an EndpointSlice.
func (c *census) update(service, slice string, ready map[string]bool, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.endpoints(service)
	c.slices[slice], c.of[slice] = ready, service
	after := c.endpoints(service)
	for address := range after {
		if before[address] {
			continue
		}
		if r := c.byAddress(service, address); r != nil {
			r.came(at)
		} else {
			c.since[address] = at
		}
	}
	for address := range before {
		if after[address] {
			continue
		}
		delete(c.since, address)
		if r := c.byAddress(service, address); r != nil {
			r.GoneNS = at
		}
	}
	c.changed()
}

// came records that the pod became an endpoint, for the first time or again.
func (r *resident) came(at int64) {
	if r.ReadyNS == 0 {
		r.ReadyNS = at
	} else {
		r.BackNS = at
	}
}

// endpoints returns the ready addresses of a service. The caller holds the lock.
func (c *census) endpoints(service string) map[string]bool {
	out := map[string]bool{}
	for slice, addresses := range c.slices {
		if c.of[slice] == service {
			for a := range addresses {
				out[a] = true
			}
		}
	}
	return out
}

// byAddress returns the latest pod of a service with an address.
func (c *census) byAddress(service, address string) *resident {
	var out *resident
	for _, r := range c.pods {
		if r.Service == service && r.IP == address && !r.left && (out == nil || r.created.After(out.created)) {
			out = r
		}
	}
	return out
}

func (c *census) onPod(pod *corev1.Pod, deleted bool) {
	if pod.Labels[mesh.AppLabel] == "" { // a waypoint's pod, which istiod labels with its Gateway
		return
	}
	c.mu.Lock()
	now := time.Now().UnixNano()
	r := c.pods[string(pod.UID)]
	if r == nil {
		r = &resident{uid: string(pod.UID), created: pod.CreationTimestamp.Time}
		r.Name, r.Service = pod.Name, pod.Labels[mesh.AppLabel]
		c.pods[r.uid] = r
	}
	r.Node, r.containers, r.volatile = pod.Spec.NodeName, site.PodOf(pod).Containers, pod
	if pod.Status.PodIP != "" && r.IP == "" {
		r.IP = pod.Status.PodIP
		if at := c.since[r.IP]; at != 0 {
			r.came(at)
			delete(c.since, r.IP)
		}
	}
	r.Restarts = 0
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		r.Restarts += s.RestartCount
	}
	r.ready, r.leaving, r.left = !deleted && lab.PodReady(pod), pod.DeletionTimestamp != nil || deleted, deleted
	if r.Service == roleClients && r.ready && r.ReadyNS == 0 { // no Service selects it
		r.ReadyNS = now
	}
	c.changed()
	c.mu.Unlock()
	if c.found != nil && !deleted {
		c.found(pod)
	}
}

// living lists the living pods of a service that are not terminating, by name.
func (c *census) living(service string) []*resident {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*resident
	for _, r := range c.pods {
		if r.Service == service && !r.leaving {
			one := *r
			out = append(out, &one)
		}
	}
	slices.SortFunc(out, func(a, b *resident) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// pending returns the living pods that are not terminating, for waiting on them.
func (c *census) pending() podwait.Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	var seen podwait.Seen
	for _, r := range c.pods {
		if !r.leaving && r.volatile != nil {
			seen.Pods = append(seen.Pods, *r.volatile)
		}
	}
	return seen
}

// lacking describes the pods that are not ready yet; "" if all are. The caller holds the census's
// lock.
func (t *scenarioTrial) lacking() string {
	s := t.scene
	state := ""
	for _, one := range s.scenario.Graph.Services {
		if n := len(t.census.endpoints(one.Name)); n != one.Replicas {
			state = fmt.Sprintf("%d of %d pods of %s are ready", n, one.Replicas, one.Name)
		}
	}
	if n := t.census.readyOf(roleClients); n != s.scenario.Clients {
		state = fmt.Sprintf("%d of %d clients are ready", n, s.scenario.Clients)
	}
	return state
}

// pending returns the trial's pods, for waiting on them.
func (t *scenarioTrial) pending() podwait.Seen {
	seen := t.census.pending()
	seen.Missing = t.scene.scenario.Graph.Pods() + t.scene.scenario.Clients - len(seen.Pods)
	t.census.mu.Lock()
	defer t.census.mu.Unlock()
	seen.State = t.lacking()
	return seen
}

// readyCount returns the number of endpoints of each service.
func (c *census) readyCount(services []string) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for _, s := range services {
		out[s] = len(c.endpoints(s))
	}
	return out
}

// account returns all pods, existing and former ones.
func (c *census) account() []record.ScenarioPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pods []record.ScenarioPod
	for _, r := range c.pods {
		pods = append(pods, r.ScenarioPod)
	}
	slices.SortFunc(pods, func(a, b record.ScenarioPod) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// readyOf counts the ready pods of a service. The caller holds the lock.
func (c *census) readyOf(service string) int {
	n := 0
	for _, r := range c.pods {
		if r.Service == service && r.ready && !r.leaving {
			n++
		}
	}
	return n
}
