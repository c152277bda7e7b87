package population

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// World is a cluster with a population in it. There is one population in a
// cluster; who made it does not matter.
type World struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface // for what need not be read whole
	kube     kubernetes.Interface
	owner    *metav1.OwnerReference // nil: nobody owns the population
	labels   map[string]string      // of its namespaces, beside its own
}

// parallel is how many writes are under way at a time.
const parallel = 32

// New returns the World of a cluster.
func New(config *rest.Config) (*World, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1 // the server decides how fast
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &World{dynamic: dyn, metadata: meta, kube: kube}, nil
}

// Ensure brings the cluster to these sizes from whatever population is in
// it, waits until its controllers have made all pods and EndpointSlices of
// it, and returns the simulated sidecars, then gateways and ztunnels. The context
// ends the wait; the error then says what was missing.
func Ensure(ctx context.Context, config *rest.Config, sizes Sizes) ([]Identity, error) {
	w, err := New(config)
	if err != nil {
		return nil, err
	}
	return w.Ensure(ctx, sizes)
}

// Ensure is the function of that name.
func (w *World) Ensure(ctx context.Context, sizes Sizes) ([]Identity, error) {
	want, err := sizes.objects(w.labels)
	if err != nil {
		return nil, err
	}
	if err := w.bring(ctx, want); err != nil {
		return nil, fmt.Errorf("population: %w", err)
	}
	ids, err := w.await(ctx, sizes)
	if err != nil {
		return nil, fmt.Errorf("population: %w", err)
	}
	return ids, nil
}

// Remove deletes whatever population is in the cluster and waits until all
// of it is gone.
func (w *World) Remove(ctx context.Context) error {
	if err := w.bring(ctx, nil); err != nil {
		return fmt.Errorf("remove the population: %w", err)
	}
	if _, err := w.await(ctx, Sizes{}); err != nil {
		return fmt.Errorf("remove the population: %w", err)
	}
	return nil
}

// layers are the kinds in the order in which they are made: what others need
// first. They are deleted in the opposite order.
var layers = [][]string{{"Namespace", "Node"}, {"ServiceAccount"},
	{"Service", "Deployment", "EndpointSlice", "ServiceEntry", "VirtualService", "DestinationRule", "Gateway", "AuthorizationPolicy"}}

func key(o *unstructured.Unstructured) string {
	return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
}

// bring makes the cluster hold exactly the wanted objects, and nodes that it
// had before: pods of theirs may stay.
func (w *World) bring(ctx context.Context, want []*unstructured.Unstructured) error {
	have, err := w.listed(ctx)
	if err != nil {
		return err
	}
	first := len(have) == 0
	if have, err = w.adopt(ctx, w.ownership(want, have), have); err != nil {
		return err
	}
	wanted := map[string]bool{}
	byKind := map[string][]*unstructured.Unstructured{}
	for _, o := range want {
		wanted[key(o)] = true
		byKind[o.GetKind()] = append(byKind[o.GetKind()], o)
	}
	leaving := map[string]bool{} // namespaces
	var surplus []*unstructured.Unstructured
	ending := false
	for k, o := range have {
		ending = ending || o.GetDeletionTimestamp() != nil
		if wanted[k] || o.GetKind() == "Node" && len(byKind["Node"]) > 0 {
			wanted[k] = true
			continue
		}
		if o.GetKind() == "Namespace" {
			leaving[o.GetName()] = true
		}
		surplus = append(surplus, o)
	}
	for i, layer := range slices.Backward(layers) {
		if i == 0 && len(byKind["Node"]) == 0 { // pods leave before their nodes
			if err := w.noPods(ctx); err != nil {
				return err
			}
		}
		err := each(ctx, surplus, func(ctx context.Context, o *unstructured.Unstructured) error {
			if !slices.Contains(layer, o.GetKind()) || leaving[o.GetNamespace()] && o.GetKind() != "Deployment" {
				return nil // the latter go with their namespace
			}
			return w.delete(ctx, o)
		})
		if err != nil {
			return err
		}
	}
	if ending || len(surplus) > 0 {
		if err := w.gone(ctx, wanted); err != nil {
			return err
		}
		// What is wanted went, too, where its namespace did.
		if have, err = w.listed(ctx); err != nil {
			return err
		}
	}
	if err := w.fill(ctx, want, byKind, have); err != nil {
		return err
	}
	if first || len(want) == 0 {
		return nil
	}
	return w.heal(ctx, want)
}

// fill creates what the cluster does not have of the wanted objects, and
// changes what is not as it should be.
func (w *World) fill(ctx context.Context, want []*unstructured.Unstructured, byKind map[string][]*unstructured.Unstructured, have map[string]*unstructured.Unstructured) error {
	// Nodes come after the namespaces: one of those owns them.
	for _, layer := range append([][]string{{"Namespace"}, {"Node"}}, layers[1:]...) {
		var objects []*unstructured.Unstructured
		for _, kind := range layer {
			objects = append(objects, byKind[kind]...)
		}
		belongs := w.ownership(want, have)
		if layer[0] == "Node" && len(objects) > 0 && belongs != nil && belongs.anchor.UID == belongs.owner.UID {
			// The namespace has just been made.
			var err error
			if have, err = w.listed(ctx); err != nil {
				return err
			}
			belongs = w.ownership(want, have)
			if have, err = w.adopt(ctx, belongs, have); err != nil {
				return err
			}
		}
		err := each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
			old := have[key(o)]
			switch {
			case old == nil || old.GetDeletionTimestamp() != nil:
				if belongs != nil {
					o.SetOwnerReferences(belongs.of(o))
				}
				return w.create(ctx, o)
			case old.GetAnnotations()[specAnnotation] != o.GetAnnotations()[specAnnotation]:
				return w.update(ctx, o)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f with every object, many at a time, until one fails.
func each(ctx context.Context, objects []*unstructured.Unstructured, f func(context.Context, *unstructured.Unstructured) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, o := range objects {
		group.Go(func() error { return f(ctx, o) })
	}
	return group.Wait()
}

func (w *World) client(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	r, err := ResourceOf(o)
	if err != nil {
		return nil, err
	}
	if r.Namespaced {
		return w.dynamic.Resource(r.GroupVersionResource).Namespace(o.GetNamespace()), nil
	}
	return w.dynamic.Resource(r.GroupVersionResource), nil
}

// list returns all objects of the population that is in the cluster, without
// their specs. A kind that the cluster does not have (no mesh is installed)
// has no objects.
func (w *World) list(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	out := map[string]*unstructured.Unstructured{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for gvk, r := range resources {
		if gvk.Group == gatewayAPI || !slices.ContainsFunc(layers, func(l []string) bool { return slices.Contains(l, gvk.Kind) }) {
			continue // changes alone are made of it
		}
		group.Go(func() error {
			selector := Label + "=" + LabelValue
			if gvk.Kind == "EndpointSlice" { // a controller's are no objects of ours
				selector += "," + discoveryv1.LabelManagedBy + "=" + sliceManager
			}
			list, err := w.metadata.Resource(r.GroupVersionResource).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("list %s: %w", r.Resource, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range list.Items {
				item := &list.Items[i]
				o := NewObject(gvk.GroupVersion().String(), gvk.Kind, item.Namespace, item.Name, item.Labels, nil)
				o.SetAnnotations(item.Annotations)
				o.SetDeletionTimestamp(item.DeletionTimestamp)
				o.SetUID(item.UID)
				o.SetOwnerReferences(item.OwnerReferences)
				out[key(o)] = o
			}
			return nil
		})
	}
	return out, group.Wait()
}

func (w *World) create(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := w.client(o)
	if err != nil {
		return err
	}
	for {
		_, err = client.Create(ctx, o, metav1.CreateOptions{})
		switch {
		case err == nil:
			return nil
		case apierrors.IsAlreadyExists(err):
			// Made by somebody else: a namespace may be shared, nothing else.
			if o.GetKind() == "Namespace" {
				return nil
			}
			return errs.WithHint(fmt.Errorf("create %s: %w", key(o), err), "delete it, or choose another cluster: it is not meshtrial's")
		case apierrors.IsNotFound(err) && o.GetNamespace() == "":
			return errs.WithHint(fmt.Errorf("create %s: %w", key(o), err), "is the mesh installed?")
		case passing(err):
			if err := wake.Pause(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("create %s: %w", key(o), err)
			}
		default:
			return fmt.Errorf("create %s: %w", key(o), err)
		}
	}
}

// update replaces an object's spec. Of Kubernetes' own kinds what the server
// or the user added stays (cluster IPs, other fields).
func (w *World) update(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := w.client(o)
	if err != nil {
		return err
	}
	next, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("update %s: %w", key(o), err)
	}
	next.SetAnnotations(merge(next.GetAnnotations(), o.GetAnnotations()))
	next.SetLabels(merge(next.GetLabels(), o.GetLabels()))
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if old, _, _ := unstructured.NestedMap(next.Object, "spec"); old != nil && !strings.Contains(o.GetAPIVersion(), "istio.io/") {
		maps.Copy(old, spec)
		spec = old
	}
	if spec != nil {
		next.Object["spec"] = spec
	}
	next.SetResourceVersion("") // ours alone: the last one wins
	if _, err := client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update %s: %w", key(o), err)
	}
	return nil
}

func (w *World) delete(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := w.client(o)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return patiently(ctx, func() error {
		err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", key(o), err)
		}
		return nil
	})
}

// noPods waits until no simulated pod is left.
func (w *World) noPods(ctx context.Context) error {
	for {
		began := time.Now()
		pods, err := w.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + LabelValue, ResourceVersion: "0"})
		if err != nil && !passing(err) {
			return fmt.Errorf("list pods: %w", err)
		}
		if err == nil && len(pods.Items) == 0 {
			return nil
		}
		if err := wake.Pause(ctx, sinceLook(began)); err != nil {
			return fmt.Errorf("wait until %d pods are gone: %w", len(pods.Items), err)
		}
	}
}

// gone waits until nothing but the wanted is left, and nothing of that is on
// its way out: a namespace that goes would take along what is made in it.
func (w *World) gone(ctx context.Context, wanted map[string]bool) error {
	for {
		began := time.Now()
		have, err := w.list(ctx)
		if err != nil && !passing(err) {
			return err
		}
		left := 0
		for k, o := range have {
			if o.GetDeletionTimestamp() != nil || !wanted[k] {
				left++
			}
		}
		if err == nil && left == 0 {
			return nil
		}
		if err := wake.Pause(ctx, sinceLook(began)); err != nil {
			return fmt.Errorf("wait until %d objects are deleted: %w", left, err)
		}
	}
}
