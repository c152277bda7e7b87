package trial

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
)

// attachedWatch records each status update of the Gateway that a trial's routes are attached to.
type attachedWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	status any // as last written
	seen   []verdict.Attachment
}

// gateways is the resource of the Gateway API.
var gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}

// watchAttached starts the watch.
func (t *controlTrial) watchAttached(ctx context.Context) (*attachedWatch, error) {
	client, err := dynamic.NewForConfig(t.c.config)
	if err != nil {
		return nil, err
	}
	limited, end := context.WithTimeout(ctx, attachedSync)
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	w := &attachedWatch{cancel: cancel}
	informer := kubernetes.Informer(client, client.Resource(gateways), churn.Label+"="+t.plan.Spec.Trial, &unstructured.Unstructured{})
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: w.note, UpdateFunc: func(_, o any) { w.note(o) }})
	if err != nil {
		cancel()
		return nil, err
	}
	w.done.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(limited.Done(), handler.HasSynced) {
		w.stop()
		return nil, fmt.Errorf("watch the Gateway that routes are attached to: no event within %v", attachedSync)
	}
	return w, nil
}

// awaitStatus starts the watch if routes use the Gateway API, and waits until the status has the
// first route, which the elected istiod writes.
func (t *controlTrial) awaitStatus(ctx context.Context) (err error) {
	if t.levels.Change != controlplane.ChangeHTTPRoute {
		return nil
	}
	if t.attached, err = t.watchAttached(ctx); err != nil {
		return err
	}
	if err := t.attached.await(ctx, firstRoutes, servesIn); err != nil {
		return err
	}
	if now, _ := t.attached.so(); now != firstRoutes {
		namespace, name := t.plan.RealGateway()
		return errs.WithHint(fmt.Errorf("after %v the status of Gateway %s/%s has %d of %d routes: nothing updates it", servesIn, namespace, name, now, firstRoutes),
			"check that PILOT_ENABLE_GATEWAY_API_STATUS is not false: kubectl -n %s get gateways.gateway.networking.k8s.io %s -o yaml", namespace, name)
	}
	return nil
}

// forget drops all sightings except the current state.
func (w *attachedWatch) forget() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = slices.Clone(w.seen[max(0, len(w.seen)-1):])
}

const (
	attachedSync = time.Minute
	attachedLook = 50 * time.Millisecond
)

// stop ends the watch. Its sightings stay available.
func (w *attachedWatch) stop() {
	if w == nil {
		return
	}
	w.cancel()
	w.done.Wait()
}

// note records a status that differs from the last.
func (w *attachedWatch) note(o any) {
	now := time.Now().UnixNano()
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	status := u.Object["status"]
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen != nil && reflect.DeepEqual(status, w.status) {
		return
	}
	w.status = status
	w.seen = append(w.seen, verdict.Attachment{AtNS: now, Routes: attachedRoutes(u)})
}

// attachedRoutes returns the number of attached routes in the status, over all listeners.
func attachedRoutes(gateway *unstructured.Unstructured) int {
	listeners, _, _ := unstructured.NestedSlice(gateway.Object, "status", "listeners")
	sum := 0
	for _, l := range listeners {
		if one, ok := l.(map[string]any); ok {
			n, _, _ := unstructured.NestedInt64(one, "attachedRoutes")
			sum += int(n)
		}
	}
	return sum
}

// so returns the number in the latest status.
func (w *attachedWatch) so() (routes int, seen []verdict.Attachment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) > 0 {
		routes = w.seen[len(w.seen)-1].Routes
	}
	return routes, slices.Clone(w.seen)
}

// await waits until the status has a number of routes, up to the limit.
func (w *attachedWatch) await(ctx context.Context, routes int, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		if now, _ := w.so(); now == routes || time.Now().After(end) {
			return nil
		}
		if err := wake.Pause(ctx, attachedLook); err != nil {
			return err
		}
	}
}

// firstRoutes is the number of the Gateway's routes before the first change.
const firstRoutes = 1

// awaitAttached waits until the status has all routes that the API server accepted, up to the
// limit for settling.
func (t *controlTrial) awaitAttached(ctx context.Context) error {
	if t.attached == nil {
		return nil
	}
	made := 0
	for i := range t.seen.Changes {
		if t.taken(i) {
			made++
		}
	}
	return t.attached.await(ctx, firstRoutes+made, controlplane.Of(t.c.study).Settle)
}

// taken reports whether the API server accepted a change. Waiting for the route of a rejected one
// would be in vain.
func (t *controlTrial) taken(change int) bool { return t.seen.Changes[change].Error == "" }

// detach deletes the routes, after the window and after everything it left has been read, and waits
// until the status shows that. If some routes cannot be deleted it does not wait.
func (t *controlTrial) detach(ctx context.Context) error {
	if t.attached == nil {
		return nil
	}
	defer t.attached.stop()
	all, _ := t.attached.so()
	t.c.say("deleting the routes: the Gateway's status has %d", all)
	first, last, err := t.driver.Withdraw(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	kept := err != nil
	if kept { // the window is over: its measurements stay valid
		t.warn(noteRoutesLeft, strings.ReplaceAll(err.Error(), "\n", "; "))
	} else if err := t.attached.await(ctx, firstRoutes, controlplane.Of(t.c.study).Settle); err != nil {
		return err
	}
	_, seen := t.attached.so()
	t.seen.Attached = &verdict.Attachments{Seen: seen, Before: firstRoutes, WithdrawnNS: first.UnixNano(), WithdrawNS: last.UnixNano(), Kept: kept}
	return nil
}
