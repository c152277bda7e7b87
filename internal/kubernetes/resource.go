package kubernetes

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// resource is the client of one resource, in one namespace or, if that is "",
// in all. T and L are pointers to its object and its list. (client-go's similar
// package gentype also imports its fakes, and with them all of OpenAPI.)
type resource[T, L runtime.Object] struct {
	name       string
	namespace  string
	rest       rest.Interface
	parameters runtime.ParameterCodec
	newObject  func() T
	newList    func() L
}

// on sets the resource of a request.
func (r *resource[T, L]) on(request *rest.Request) *rest.Request {
	return request.UseProtobufAsDefault().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name)
}

func (r *resource[T, L]) object(ctx context.Context, request *rest.Request) (T, error) {
	object := r.newObject()
	return object, request.Do(ctx).Into(object)
}

func (r *resource[T, L]) Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error) {
	return r.object(ctx, r.on(r.rest.Post()).VersionedParams(&opts, r.parameters).Body(object))
}

func (r *resource[T, L]) Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error) {
	name := any(object).(metav1.Object).GetName()
	return r.object(ctx, r.on(r.rest.Put()).Name(name).VersionedParams(&opts, r.parameters).Body(object))
}

func (r *resource[T, L]) Patch(ctx context.Context, name string, how types.PatchType, patch []byte, opts metav1.PatchOptions, subresources ...string) (T, error) {
	return r.object(ctx, r.on(r.rest.Patch(how)).Name(name).SubResource(subresources...).VersionedParams(&opts, r.parameters).Body(patch))
}

func (r *resource[T, L]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return r.on(r.rest.Delete()).Name(name).Body(&opts).Do(ctx).Error()
}

func (r *resource[T, L]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, of metav1.ListOptions) error {
	return r.on(r.rest.Delete()).VersionedParams(&of, r.parameters).Timeout(timeout(of)).Body(&opts).Do(ctx).Error()
}

func (r *resource[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return r.object(ctx, r.on(r.rest.Get()).Name(name).VersionedParams(&opts, r.parameters))
}

func (r *resource[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	list := r.newList()
	return list, r.on(r.rest.Get()).VersionedParams(&opts, r.parameters).Timeout(timeout(opts)).Do(ctx).Into(list)
}

func (r *resource[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return r.on(r.rest.Get()).VersionedParams(&opts, r.parameters).Timeout(timeout(opts)).Watch(ctx)
}

// timeout returns how long the server may take; 0 means no limit.
func timeout(opts metav1.ListOptions) time.Duration {
	if opts.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*opts.TimeoutSeconds) * time.Second
}
