package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// ParseObjects splits YAML (or JSON) documents into objects. It expands lists and skips
// empty documents. An error gives the document's number, counting from 1.
func ParseObjects(documents []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		text, err := utilyaml.ToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if text = bytes.TrimSpace(text); len(text) == 0 || bytes.Equal(text, []byte("null")) {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if !object.IsList() {
			objects = append(objects, object)
			continue
		}
		err = object.EachListItem(func(item runtime.Object) error {
			one := item.(*unstructured.Unstructured)
			if one.GetKind() == "" {
				return errors.New("an item of the list has no kind")
			}
			objects = append(objects, one)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// Applier applies objects of any kind to a cluster by server-side apply.
// It may be used from several goroutines.
type Applier struct {
	client dynamic.Interface
	kinds  *kinds
}

// NewApplier returns an Applier for the cluster of config.
func NewApplier(config *rest.Config) (*Applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Applier{client: client, kinds: newKinds(typed.Discovery())}, nil
}

// Apply applies every object of the YAML documents: namespaces and CRDs
// first, then the rest, several at a time. An object whose kind, namespace
// or admission webhook does not exist yet is retried until the context ends; any
// other refusal ends the call.
func (a *Applier) Apply(ctx context.Context, documents []byte) error {
	objects, err := ParseObjects(documents)
	if err != nil {
		return err
	}
	return a.ApplyObjects(ctx, objects)
}

// ApplyObjects is [Applier.Apply] for parsed objects.
func (a *Applier) ApplyObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	var first, second []*unstructured.Unstructured
	for _, object := range objects {
		switch object.GetKind() {
		case "Namespace", "CustomResourceDefinition":
			first = append(first, object)
		default:
			second = append(second, object)
		}
	}
	for _, wave := range [][]*unstructured.Unstructured{first, second} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for _, object := range wave {
			group.Go(func() error { return a.applyOne(ctx, object) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (a *Applier) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	body, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(object), err)
	}
	for {
		err := a.patch(ctx, object, body)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("apply %s: %w (last: %v)", describe(object), context.Cause(ctx), err)
		}
		if !temporary(err) {
			return fmt.Errorf("apply %s: %w", describe(object), err)
		}
		_ = wake.Pause(ctx, 100*time.Millisecond)
	}
}

func (a *Applier) patch(ctx context.Context, object *unstructured.Unstructured, body []byte) error {
	resource, err := a.resource(ctx, object)
	if err != nil {
		return err
	}
	force := true
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: journal.FieldManager, Force: &force})
	return err
}

// Delete deletes every object of the YAML documents in reverse order, without waiting for
// the end of each. Missing objects count as deleted.
func (a *Applier) Delete(ctx context.Context, documents []byte) error {
	objects, err := ParseObjects(documents)
	if err != nil {
		return err
	}
	return a.DeleteObjects(ctx, objects)
}

// DeleteObjects is [Applier.Delete] for parsed objects. If an object has a UID, a
// successor of the same name is left alone.
func (a *Applier) DeleteObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	background := metav1.DeletePropagationBackground
	var all []error
	for i := len(objects) - 1; i >= 0; i-- {
		resource, err := a.resource(ctx, objects[i])
		if meta.IsNoMatchError(err) {
			continue
		}
		if err == nil {
			options := metav1.DeleteOptions{PropagationPolicy: &background}
			if uid := objects[i].GetUID(); uid != "" {
				options.Preconditions = &metav1.Preconditions{UID: &uid}
			}
			err = resource.Delete(ctx, objects[i].GetName(), options)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			all = append(all, fmt.Errorf("delete %s: %w", describe(objects[i]), err))
		}
	}
	return errors.Join(all...)
}

// Missing returns the objects that do not exist or will not last: those with the label of
// a run disappear with that run.
func (a *Applier) Missing(ctx context.Context, objects []*unstructured.Unstructured, label string) ([]*unstructured.Unstructured, error) {
	lacks := make([]bool, len(objects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, o := range objects {
		group.Go(func() error {
			resource, err := a.resource(ctx, o)
			var live *unstructured.Unstructured
			if err == nil {
				live, err = resource.Get(ctx, o.GetName(), metav1.GetOptions{})
			}
			if lacks[i] = meta.IsNoMatchError(err) || apierrors.IsNotFound(err); lacks[i] {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", describe(o), err)
			}
			lacks[i] = !stays(live, label)
			return nil
		})
	}
	err := group.Wait()
	var out []*unstructured.Unstructured
	for i, o := range objects {
		if lacks[i] {
			out = append(out, o)
		}
	}
	return out, err
}

// stays reports whether an object is not being deleted and does not carry a run's label.
func stays(live *unstructured.Unstructured, label string) bool {
	_, ofRun := live.GetLabels()[label]
	return !ofRun && live.GetDeletionTimestamp() == nil
}

// Open finds the API endpoint of an object, and sets the namespace if a namespaced object
// lacks one.
func (a *Applier) Open(ctx context.Context, object *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	at, err := a.kinds.find(ctx, object.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describe(object), err)
	}
	if object.GetNamespace() == "" && at.namespaced {
		object.SetNamespace(namespace)
	}
	return a.resource(ctx, object)
}

// resource finds the REST endpoint of an object's kind.
func (a *Applier) resource(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	at, err := a.kinds.find(ctx, object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if !at.namespaced {
		return a.client.Resource(at.resource), nil
	}
	return a.client.Resource(at.resource).Namespace(cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)), nil
}

// temporary reports whether an error goes away on its own while a cluster or a mesh
// starts.
func temporary(err error) bool {
	if meta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsConflict(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		utilnet.IsTimeout(err) && !errors.Is(err, context.DeadlineExceeded) { // the API server is too busy to complete the handshake; the caller's own deadline does not count
		return true
	}
	if apierrors.IsNotFound(err) { // the namespace, or a resource not served yet
		return true
	}
	// A webhook whose server does not answer yet, or an etcd that is busy or starting.
	return apierrors.IsInternalError(err) && (strings.Contains(err.Error(), "failed calling webhook") || strings.Contains(err.Error(), "etcdserver: "))
}

func describe(object *unstructured.Unstructured) string {
	name := object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return object.GetKind() + " " + name
}

// relookAfter is how long a kind that was not found counts as unknown.
const relookAfter = 250 * time.Millisecond

// kinds maps kinds to API endpoints. It asks the server once for each group version,
// and again for missing kinds: a CustomResourceDefinition may add them.
type kinds struct {
	server kubernetes.Discovery

	mu    sync.Mutex
	known map[schema.GroupVersionKind]endpoint
	asked map[schema.GroupVersion]time.Time
}

// endpoint is one API resource.
type endpoint struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

func newKinds(server kubernetes.Discovery) *kinds {
	return &kinds{server: server, known: map[schema.GroupVersionKind]endpoint{}, asked: map[schema.GroupVersion]time.Time{}}
}

// find returns the resource of a kind. If the server does not have it now,
// [meta.IsNoMatchError] recognizes the error.
func (k *kinds) find(ctx context.Context, kind schema.GroupVersionKind) (endpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.known[kind]; ok {
		return e, nil
	}
	missing := &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	version := kind.GroupVersion()
	if time.Since(k.asked[version]) < relookAfter {
		return endpoint{}, missing
	}
	served, err := k.server.ServerResourcesForGroupVersion(ctx, version.String())
	k.asked[version] = time.Now()
	if apierrors.IsNotFound(err) {
		return endpoint{}, missing
	}
	if err != nil {
		return endpoint{}, err
	}
	for _, r := range served.APIResources {
		if !strings.Contains(r.Name, "/") { // not a subresource
			k.known[version.WithKind(r.Kind)] = endpoint{version.WithResource(r.Name), r.Namespaced}
		}
	}
	if e, ok := k.known[kind]; ok {
		return e, nil
	}
	return endpoint{}, missing
}
