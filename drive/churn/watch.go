package churn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/record"
)

// watcher watches what istiod watches: the objects that changes write and, for changes
// through the controllers, pods and EndpointSlices.
type watcher struct {
	cancel context.CancelFunc
	done   sync.WaitGroup // the informers

	mu sync.Mutex
	// seen holds the observed writes of each change, by index and object.
	seen map[int]map[string][]int64
	// pods and slices are those of the population's Services.
	pods    map[string]map[string]*corev1.Pod // by Service, name
	slices  map[string]map[string][]string    // ready addresses by Service, name of the slice
	waiters map[string][]*waiter
}

// waiter waits for endpoints of a Service.
type waiter struct {
	// done receives the ready addresses after every change.
	done func(ready map[string]bool, at int64) bool
	// finished is closed, and over set, when done returns true.
	finished chan struct{}
	over     bool
	// pods gets the Service's pods with an address as they change.
	pods chan *corev1.Pod
}

// maxWaiting limits the pods in a waiter's channel.
const maxWaiting = 4096

// watchAll starts the watches that the plan needs and waits until they are synced.
func (d *Driver) watchAll(ctx context.Context) (*watcher, error) {
	begin := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watcher{cancel: cancel, seen: map[int]map[string][]int64{}, pods: map[string]map[string]*corev1.Pod{}, slices: map[string]map[string][]string{}, waiters: map[string][]*waiter{}}
	var synced []cache.InformerSynced
	follow := func(informer cache.SharedIndexInformer, handle cache.ResourceEventHandler) error {
		handler, err := informer.AddEventHandler(handle)
		if err != nil {
			w.stop()
			return err
		}
		synced = append(synced, handler.HasSynced)
		w.done.Go(func() { informer.RunWithContext(ctx) })
		return nil
	}
	watched := map[schema.GroupVersionResource]bool{}
	pods := false
	for i := range d.plan.Changes {
		c := &d.plan.Changes[i]
		pods = pods || c.pods != nil
		if c.own() {
			r, err := population.ResourceOf(c.writes[0].object)
			if err != nil {
				cancel()
				return nil, err
			}
			if watched[r.GroupVersionResource] {
				continue
			}
			watched[r.GroupVersionResource] = true
			own := kubernetes.Informer(d.dynamic, d.dynamic.Resource(r.GroupVersionResource), Label+"="+d.plan.Spec.Trial, &unstructured.Unstructured{})
			if err := follow(own, handlers(w.object)); err != nil {
				return nil, err
			}
		}
	}
	if pods {
		selector := d.plan.Spec.watched()
		for informer, handle := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
			kubernetes.Informer(d.kube, d.kube.CoreV1().Pods(""), selector, &corev1.Pod{}):                               handlers(w.pod),
			kubernetes.Informer(d.kube, d.kube.DiscoveryV1().EndpointSlices(""), selector, &discoveryv1.EndpointSlice{}): handlers(w.slice),
		} {
			if err := follow(informer, handle); err != nil {
				return nil, err
			}
		}
	}
	limit, end := context.WithTimeout(begin, requestTimeout)
	defer end()
	if !cache.WaitForCacheSync(limit.Done(), synced...) {
		w.stop()
		return nil, fmt.Errorf("watch changed objects: no event within %s", requestTimeout)
	}
	return w, nil
}

// stop ends the watches.
func (w *watcher) stop() {
	w.cancel()
	w.done.Wait()
}

// handlers calls f with objects as they change, and with those that are gone.
func handlers[T any](f func(o T, gone bool)) cache.ResourceEventHandler {
	call := func(o any, gone bool) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if o, ok := o.(T); ok {
			f(o, gone)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { call(o, false) }, UpdateFunc: func(_, o any) { call(o, false) }, DeleteFunc: func(o any) { call(o, true) }}
}

// object records when the watch showed a change of an object.
func (w *watcher) object(u *unstructured.Unstructured, gone bool) {
	now := time.Now().UnixNano()
	if gone {
		return
	}
	index, err := strconv.Atoi(u.GetAnnotations()[changeAnnotation])
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[index] == nil {
		w.seen[index] = map[string][]int64{}
	}
	w.seen[index][population.Key(u)] = append(w.seen[index][population.Key(u)], now)
}

// watchLag limits how far the driver's own watch may be behind the answers.
const watchLag = 2 * time.Second

// follow waits until the watch has shown every committed change to the plan's own
// objects, or watchLag is over.
func (w *watcher) follow(ctx context.Context, plan *Plan, events []record.Event) {
	shown := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, c := range plan.Changes {
			if c.own() && events[i].SentNS != 0 && events[i].Error == "" && w.seen[i] == nil {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(watchLag); !shown() && time.Now().Before(end); {
		if until(ctx, time.Now().Add(10*time.Millisecond)) != nil {
			return
		}
	}
}

// own reports whether a change writes the plan's own objects.
func (c *Change) own() bool { return len(c.writes) > 0 && c.writes[0].object.GetLabels()[Label] != "" }

// fill sets when the watch showed the changes. If the watch showed a change's last write
// before the answer arrived, the change was committed by then: on a busy machine answers
// are late. So was a change whose answer was lost, but not one that the API server
// rejected.
func (w *watcher) fill(plan *Plan, events []record.Event, refused []bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		e := &events[i]
		s := w.seen[e.Change]
		if s == nil || e.WatchedNS != 0 {
			continue
		}
		at := last(&plan.Changes[i], s)
		switch e.WatchedNS = at; {
		case at == 0 || refused[e.Change]:
		case e.CommittedNS != 0:
			e.AnsweredNS, e.CommittedNS = e.CommittedNS, min(e.CommittedNS, at)
		default:
			e.CommittedNS, e.Error = at, ""
		}
	}
}

// last returns when the last write of a change was seen, in nanoseconds since 1970; 0 if
// it was not seen. A change writes its objects in order, so the earlier writes are done.
func last(c *Change, seen map[string][]int64) int64 {
	if len(c.writes) == 0 {
		return 0
	}
	key, writes := population.Key(c.writes[len(c.writes)-1].object), 0
	for _, one := range c.writes {
		if population.Key(one.object) == key {
			writes++
		}
	}
	if times := seen[key]; len(times) >= writes {
		return times[writes-1]
	}
	return 0
}

// isRefusal reports whether the API server rejected a write. After internal errors (a
// timeout, a storage that did not answer), as after a lost answer, the write may have
// been committed.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
}

// serviceOf returns the key of a pod's Service.
func serviceOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Labels[population.AppLabel] }

func keyOf(s population.Service) string { return s.Namespace + "/" + s.Name }

// pod records a pod, and passes it to the waiters of its Service.
func (w *watcher) pod(pod *corev1.Pod, gone bool) {
	key := serviceOf(pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone {
		delete(w.pods[key], pod.Name)
		return
	}
	if w.pods[key] == nil {
		w.pods[key] = map[string]*corev1.Pod{}
	}
	w.pods[key][pod.Name] = pod
	if pod.Status.PodIP == "" {
		return
	}
	for _, waiter := range w.waiters[key] {
		select {
		case waiter.pods <- pod:
		default: // the change will time out
		}
	}
}

// slice records which addresses of an EndpointSlice are ready, and tells the waiters of its Service.
func (w *watcher) slice(slice *discoveryv1.EndpointSlice, gone bool) {
	now := time.Now().UnixNano()
	var ready []string
	for _, e := range slice.Endpoints {
		if !gone && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			ready = append(ready, e.Addresses...)
		}
	}
	key := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slices[key] == nil {
		w.slices[key] = map[string][]string{}
	}
	w.slices[key][slice.Name] = ready
	all := w.readyLocked(key)
	for _, waiter := range w.waiters[key] { // finished ones still wait for pods
		if !waiter.over && waiter.done(all, now) {
			waiter.over = true
			close(waiter.finished)
		}
	}
}

func (w *watcher) readyLocked(key string) map[string]bool {
	all := map[string]bool{}
	for _, addresses := range w.slices[key] {
		for _, a := range addresses {
			all[a] = true
		}
	}
	return all
}

// wait registers a waiter for the endpoints of a Service.
func (w *watcher) wait(s population.Service, done func(ready map[string]bool, at int64) bool) *waiter {
	waiter := &waiter{done: done, finished: make(chan struct{}), pods: make(chan *corev1.Pod, maxWaiting)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiters[keyOf(s)] = append(w.waiters[keyOf(s)], waiter)
	return waiter
}

// forget removes a waiter.
func (w *watcher) forget(s population.Service, gone *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiters[keyOf(s)] = slices.DeleteFunc(slices.Clone(w.waiters[keyOf(s)]), func(x *waiter) bool { return x == gone })
}

// ready returns the Service's ready addresses.
func (w *watcher) ready(s population.Service) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readyLocked(keyOf(s))
}
