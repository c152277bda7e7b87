package site

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// EndpointWatch follows EndpointSlices and pods. It owns its goroutines; stop
// ends them.
type EndpointWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// watchTime is how long the API server may take for what is there when a watch
// begins.
const watchTime = 30 * time.Second

// WatchEndpoints tells of the EndpointSlices and pods of a namespace that a
// label selector chooses: of those that are there before it returns, then of
// each as it comes, changes and goes (deleted, with the last state known),
// until stop. Each kind has a goroutine of its own. The context bounds the
// beginning alone.
func WatchEndpoints(ctx context.Context, kube kubernetes.Interface, namespace, selector string,
	onSlice func(slice *discoveryv1.EndpointSlice, deleted bool), onPod func(pod *corev1.Pod, deleted bool)) (*EndpointWatch, error) {
	w := &EndpointWatch{}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	slices, err1 := tell(factory.Discovery().V1().EndpointSlices().Informer(), onSlice)
	pods, err2 := tell(factory.Core().V1().Pods().Informer(), onPod)
	if err := errors.Join(err1, err2); err != nil {
		cancel()
		return nil, err
	}
	factory.Start(life.Done())
	w.done.Go(func() { <-life.Done(); factory.Shutdown() })
	limited, end := context.WithTimeout(ctx, watchTime)
	defer end()
	synced := cache.WaitForCacheSync(limited.Done(), slices, pods)
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

// tell hands an informer's objects of one type to a handler. synced is true
// once it has been handed those that were there at the beginning.
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

// Stop ends the watches; it may be called again.
func (w *EndpointWatch) Stop() {
	w.cancel()
	w.done.Wait()
}

// ReadyAddresses are those that an EndpointSlice leads requests to: none of one
// that is gone.
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
