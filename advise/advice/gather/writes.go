package gather

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/advise/advice"
)

// Watched lists the kinds of objects whose changes make istiod push.
var Watched = []schema.GroupVersionResource{
	{Version: "v1", Resource: "services"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"},
	{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"},
	{Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"},
	{Group: "networking.istio.io", Version: "v1", Resource: "gateways"},
	{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"},
	{Group: "networking.istio.io", Version: "v1alpha3", Resource: "envoyfilters"},
}

// Writes counts the writes that changed something that proxies may need, and records who made
// the others. It keeps a hash of each object.
type Writes struct {
	mu    sync.Mutex
	seed  maphash.Seed
	seen  map[string]uint64 // content by UID
	all   int
	idle  map[Writer]int
	began time.Time
	// partial means that some kinds could not be watched, so shares are unknown.
	partial bool
}

// Writer is a field manager that wrote objects of a kind.
type Writer struct{ Resource, Manager string }

// NewWrites starts a count.
func NewWrites(now time.Time) *Writes {
	return &Writes{seed: maphash.MakeSeed(), seen: map[string]uint64{}, idle: map[Writer]int{}, began: now}
}

// Gone forgets a deleted object, which counts as a change.
func (w *Writes) Gone(o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, string(o.GetUID()))
	w.all++
}

// Note records the current state of an object; written means that it was just written.
func (w *Writes) Note(resource string, o *unstructured.Unstructured, written bool) {
	content := w.content(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.seen[string(o.GetUID())]
	w.seen[string(o.GetUID())] = content
	if !written {
		return
	}
	w.all++
	if known && before == content {
		w.idle[Writer{resource, manager(o)}]++
	}
}

// content hashes what istiod may read of an object: everything except its status and its
// metadata, of which only labels and Istio's own annotations count.
func (w *Writes) content(o *unstructured.Unstructured) uint64 {
	rest := maps.Clone(o.Object)
	delete(rest, "status")
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool { return !strings.Contains(name, "istio.io/") })
	if len(annotations) == 0 {
		annotations = nil
	}
	rest["metadata"] = map[string]any{"labels": o.GetLabels(), "annotations": annotations}
	text, err := json.Marshal(rest) // sorts the keys
	if err != nil {
		return 0
	}
	return maphash.Bytes(w.seed, text)
}

// manager returns the last writer of an object according to its managed fields.
func manager(o *unstructured.Unstructured) string {
	fields := o.GetManagedFields()
	if len(fields) == 0 {
		return "an unknown writer"
	}
	last := slices.MaxFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		return written(a).Compare(written(b))
	})
	return last.Manager
}

// written returns when fields were written; zero if unknown.
func written(f metav1.ManagedFieldsEntry) time.Time {
	if f.Time == nil {
		return time.Time{}
	}
	return f.Time.Time
}

// Facts returns the rate and the share of writes that changed nothing, and the rate of the
// others; notes name who made most of the former. If some writes were not observed, there are
// no facts.
func (w *Writes) Facts(now time.Time) (facts map[*advice.Quantity]float64, notes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seconds := now.Sub(w.began).Seconds()
	if seconds <= 0 {
		return nil, nil
	}
	idle := 0
	for _, n := range w.idle {
		idle += n
	}
	facts = map[*advice.Quantity]float64{advice.IdleWrites: float64(idle) / seconds,
		advice.IdleWritesShare: float64(idle) / float64(max(1, w.all)),
		advice.UsefulWrites:    float64(w.all-idle) / seconds}
	if w.partial {
		facts = nil
	}
	writers := slices.SortedFunc(maps.Keys(w.idle), func(a, b Writer) int {
		return cmp.Or(cmp.Compare(w.idle[b], w.idle[a]), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Manager, b.Manager))
	})
	for _, by := range writers[:min(len(writers), mostWriters)] {
		notes = append(notes, fmt.Sprintf("%s wrote %s %d times in %.0f s without changing anything that"+
			" proxies need", by.Manager, by.Resource, w.idle[by], seconds))
	}
	return facts, notes
}

// mostWriters is the maximum number of writers to name.
const mostWriters = 3

// pageOfObjects is the page size for lists of objects.
const pageOfObjects = 500

// Watch records all writes until the context ends. Kinds that may not be watched or do not
// exist give a note. It returns when all watches have ended.
func (w *Writes) Watch(ctx context.Context, objects dynamic.Interface,
	kinds []schema.GroupVersionResource) (notes []string) {
	var all sync.WaitGroup
	failed := make([]string, len(kinds))
	for i, kind := range kinds {
		all.Go(func() {
			if err := w.watch(ctx, objects.Resource(kind), kind.Resource); err != nil && ctx.Err() == nil {
				failed[i] = fmt.Sprintf("writes of %s were not watched: %v", kind.Resource, err)
				w.mu.Lock()
				w.partial = w.partial || !apierrors.IsNotFound(err) // a kind that does not exist is not written
				w.mu.Unlock()
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(failed, func(s string) bool { return s == "" })
}

// watchPause is the pause between two watches.
const watchPause = time.Second

// watch watches a kind until the context ends. The API server ends a watch after about half
// an hour, and when it no longer has the version to continue from. Then all objects are
// listed again, and writes in between are not observed.
func (w *Writes) watch(ctx context.Context, kind dynamic.NamespaceableResourceInterface, resource string) error {
	for {
		if err := w.follow(ctx, kind, resource); err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause):
		}
	}
}

// follow lists a kind, then watches it until the API server ends the watch.
func (w *Writes) follow(ctx context.Context, kind dynamic.NamespaceableResourceInterface, resource string) error {
	o := metav1.ListOptions{Limit: pageOfObjects}
	version := ""
	for {
		page, err := kind.List(ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Items {
			w.Note(resource, &page.Items[i], false)
		}
		version, o.Continue = page.GetResourceVersion(), page.GetContinue()
		if o.Continue == "" {
			break
		}
	}
	events, err := kind.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			switch o, is := e.Object.(*unstructured.Unstructured); {
			case is && e.Type == watch.Deleted:
				w.Gone(o)
			case is && (e.Type == watch.Added || e.Type == watch.Modified):
				w.Note(resource, o, true)
			case e.Type == watch.Error:
				err := apierrors.FromObject(e.Object)
				if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
					return nil
				}
				return fmt.Errorf("the API server ended the watch: %w", err)
			}
		}
	}
}
