package site

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// EndpointWatch follows EndpointSlices and pods. It owns its goroutines; Stop
// ends them.
type EndpointWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// watchTime limits how long the API server may take to return the initial
// objects of a watch.
const watchTime = 30 * time.Second

// WatchEndpoints reports the EndpointSlices and pods of a namespace that a
// label selector matches: existing ones before it returns, then each as it is
// created, changed and deleted (deleted, with the last known state), until
// Stop. Each kind has its own goroutine. The context applies only to the start.
func WatchEndpoints(ctx context.Context, client kubernetes.Interface, namespace, selector string,
	onSlice func(slice *discoveryv1.EndpointSlice, deleted bool), onPod func(pod *corev1.Pod, deleted bool)) (*EndpointWatch, error) {
	w := &EndpointWatch{}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	slices := kubernetes.Informer(client, client.DiscoveryV1().EndpointSlices(namespace), selector, &discoveryv1.EndpointSlice{})
	pods := kubernetes.Informer(client, client.CoreV1().Pods(namespace), selector, &corev1.Pod{})
	slicesSynced, err1 := tell(slices, onSlice)
	podsSynced, err2 := tell(pods, onPod)
	if err := errors.Join(err1, err2); err != nil {
		cancel()
		return nil, err
	}
	for _, informer := range []cache.SharedIndexInformer{slices, pods} {
		w.done.Go(func() { informer.RunWithContext(life) })
	}
	limited, end := context.WithTimeout(ctx, watchTime)
	defer end()
	synced := cache.WaitForCacheSync(limited.Done(), slicesSynced, podsSynced)
	switch {
	case ctx.Err() != nil:
		w.Stop()
		return nil, ctx.Err()
	case !synced:
		w.Stop()
		return nil, fmt.Errorf("nothing came within %v", watchTime)
	}
	return w, nil
}

// tell passes an informer's objects of one type to a handler. synced is true
// once the handler has received the initial ones.
func tell[T runtime.Object](informer cache.SharedIndexInformer, handle func(o T, deleted bool)) (synced cache.InformerSynced, err error) {
	hand := func(o any, deleted bool) {
		if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = unknown.Obj
		}
		if object, ok := o.(T); ok {
			handle(object, deleted)
		}
	}
	registered, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { hand(o, false) }, UpdateFunc: func(_, o any) { hand(o, false) }, DeleteFunc: func(o any) { hand(o, true) }})
	if err != nil {
		return nil, err
	}
	return registered.HasSynced, nil
}

// Stop ends the watches. It may be called more than once.
func (w *EndpointWatch) Stop() {
	w.cancel()
	w.done.Wait()
}

// ReadyAddresses returns the addresses to which an EndpointSlice routes
// requests; none if it was deleted.
func ReadyAddresses(slice *discoveryv1.EndpointSlice, deleted bool) map[string]bool {
	out := map[string]bool{}
	for _, e := range slice.Endpoints {
		if !deleted && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			for _, a := range e.Addresses {
				out[a] = true
			}
		}
	}
	return out
}
