package population

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// World is a cluster with a population. A cluster has one population, whoever
// created it.
type World struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface // for objects whose metadata suffices
	kube     kubernetes.Interface
	owner    *metav1.OwnerReference // nil: the population has no owner
	labels   map[string]string      // of its namespaces, in addition to the population's
}

// parallel is the number of requests in flight.
const parallel = 32

// New returns the World of a cluster.
func New(config *rest.Config) (*World, error) {
	dyn, kube, err := Clients(config)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &World{dynamic: dyn, metadata: meta, kube: kube}, nil
}

// Clients returns clients of a cluster. The typed one speaks Protocol Buffers.
func Clients(config *rest.Config) (dynamic.Interface, kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	kube, err := kubernetes.NewForConfig(config)
	return dyn, kube, err
}

// Ensure changes whatever population a cluster has into one of these sizes, waits
// until its controllers have created all pods and EndpointSlices, and returns the
// simulated proxies ([Sizes.Identities]). If ctx ends the wait, the error says what
// was missing.
func Ensure(ctx context.Context, config *rest.Config, sizes Sizes) ([]Identity, error) {
	w, err := New(config)
	if err != nil {
		return nil, err
	}
	return w.Ensure(ctx, sizes)
}

// Ensure is the function [Ensure] for a World.
func (w *World) Ensure(ctx context.Context, sizes Sizes) ([]Identity, error) {
	want, err := sizes.Objects(w.labels)
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

// Remove deletes any population in the cluster and waits until it is gone.
func (w *World) Remove(ctx context.Context) error {
	if err := w.bring(ctx, nil); err != nil {
		return fmt.Errorf("remove the population: %w", err)
	}
	if _, err := w.await(ctx, Sizes{}); err != nil {
		return fmt.Errorf("remove the population: %w", err)
	}
	return nil
}

// layers are the kinds in the order of creation, dependencies first. Deletion is in
// reverse order.
var layers = [][]string{{"Namespace", "Node"}, {"ServiceAccount"},
	{"Service", "Deployment", "EndpointSlice", "ServiceEntry", "VirtualService", "DestinationRule", "Gateway", "AuthorizationPolicy"}}

// bring makes the cluster hold exactly the wanted objects, plus its existing nodes,
// whose pods may stay.
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
		wanted[Key(o)] = true
		byKind[o.GetKind()] = append(byKind[o.GetKind()], o)
	}
	leaving := map[string]bool{} // namespaces to be deleted
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
				return nil // deleted with its namespace
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
		// Deleted namespaces took wanted objects with them.
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

// fill creates wanted objects that are missing and updates those that differ.
func (w *World) fill(ctx context.Context, want []*unstructured.Unstructured, byKind map[string][]*unstructured.Unstructured, have map[string]*unstructured.Unstructured) error {
	// Nodes come after the namespaces, one of which owns them.
	for _, layer := range append([][]string{{"Namespace"}, {"Node"}}, layers[1:]...) {
		var objects []*unstructured.Unstructured
		for _, kind := range layer {
			objects = append(objects, byKind[kind]...)
		}
		belongs := w.ownership(want, have)
		if layer[0] == "Node" && len(objects) > 0 && belongs != nil && belongs.anchor.UID == belongs.owner.UID {
			// The namespace was just created.
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
			old := have[Key(o)]
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

// each calls f with every object, many concurrently, until one call fails.
func each(ctx context.Context, objects []*unstructured.Unstructured, f func(context.Context, *unstructured.Unstructured) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, o := range objects {
		group.Go(func() error { return f(ctx, o) })
	}
	return group.Wait()
}

// list returns all objects of the population in the cluster, without specs. A kind
// that the cluster does not know, because it has no mesh, has no objects.
func (w *World) list(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	out := map[string]*unstructured.Unstructured{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for gvk, r := range resources {
		if gvk.Group == gatewayAPI || !slices.ContainsFunc(layers, func(l []string) bool { return slices.Contains(l, gvk.Kind) }) {
			continue // a kind that only changes use
		}
		group.Go(func() error {
			selector := Label + "=" + LabelValue
			if gvk.Kind == "EndpointSlice" { // not those of the controllers
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
				o := Object{gvk.GroupVersion().String(), gvk.Kind, item.Namespace, item.Name, item.Labels, nil}.Unstructured()
				o.SetAnnotations(item.Annotations)
				o.SetDeletionTimestamp(item.DeletionTimestamp)
				o.SetUID(item.UID)
				o.SetOwnerReferences(item.OwnerReferences)
				out[Key(o)] = o
			}
			return nil
		})
	}
	return out, group.Wait()
}

func (w *World) create(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := Client(w.dynamic, o)
	if err != nil {
		return err
	}
	err = patiently(ctx, func() error {
		_, err := client.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
	if err == nil || apierrors.IsAlreadyExists(err) && o.GetKind() == "Namespace" { // a namespace may be shared
		return nil
	}
	wrapped := fmt.Errorf("create %s: %w", Key(o), err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return errs.WithHint(wrapped, "it is not meshtrial's: delete it, or choose another cluster")
	case apierrors.IsNotFound(err) && o.GetNamespace() == "":
		return errs.WithHint(wrapped, "check that the mesh is installed")
	}
	return wrapped
}

// update replaces an object's spec. In Kubernetes' own kinds, fields that the server
// or the user added stay (cluster IPs).
func (w *World) update(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := Client(w.dynamic, o)
	if err != nil {
		return err
	}
	next, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("update %s: %w", Key(o), err)
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
	next.SetResourceVersion("") // nothing else writes it: the last write wins
	if _, err := client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update %s: %w", Key(o), err)
	}
	return nil
}

func (w *World) delete(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := Client(w.dynamic, o)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return patiently(ctx, func() error {
		err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", Key(o), err)
		}
		return nil
	})
}

// noPods waits until no simulated pod exists.
func (w *World) noPods(ctx context.Context) error {
	return poll(ctx, "pods", func() (int, error) {
		pods, err := w.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + LabelValue, ResourceVersion: "0"})
		if err != nil {
			return 0, fmt.Errorf("list pods: %w", err)
		}
		return len(pods.Items), nil
	})
}

// gone waits until only wanted objects are left and none of them is being deleted: a
// namespace being deleted would also delete new objects in it.
func (w *World) gone(ctx context.Context, wanted map[string]bool) error {
	return poll(ctx, "objects", func() (int, error) {
		have, err := w.list(ctx)
		left := 0
		for k, o := range have {
			if o.GetDeletionTimestamp() != nil || !wanted[k] {
				left++
			}
		}
		return left, err
	})
}

// heal repairs what interrupted changes may have left: Deployments of another size
// and unready pods.
func (w *World) heal(ctx context.Context, want []*unstructured.Unstructured) error {
	ours := metav1.ListOptions{LabelSelector: Label + "=" + LabelValue, ResourceVersion: "0"}
	deployments, err := w.kube.AppsV1().Deployments("").List(ctx, ours)
	if err != nil {
		return fmt.Errorf("list deployments: %w", err)
	}
	replicas := make(map[string]int32, len(deployments.Items))
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Spec.Replicas != nil {
			replicas["Deployment/"+d.Namespace+"/"+d.Name] = *d.Spec.Replicas
		}
	}
	err = each(ctx, want, func(ctx context.Context, o *unstructured.Unstructured) error {
		now, there := replicas[Key(o)]
		if wanted, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); !there || int64(now) == wanted {
			return nil
		}
		return w.update(ctx, o)
	})
	if err != nil {
		return err
	}
	pods, err := w.kube.CoreV1().Pods("").List(ctx, ours)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || running(pod) {
			continue
		}
		if err := w.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s/%s, which is not ready: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}
