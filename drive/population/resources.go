package population

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Resource is the API resource of a kind.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// resources holds the kinds of populations and changes, so that none needs
// discovery.
var resources = map[schema.GroupVersionKind]Resource{}

// gatewayAPI is the group of the Gateway API, which some clusters lack.
const gatewayAPI = "gateway.networking.k8s.io"

func init() {
	add := func(group, version, kind, plural string, namespaced bool) {
		gv := schema.GroupVersion{Group: group, Version: version}
		resources[gv.WithKind(kind)] = Resource{gv.WithResource(plural), namespaced}
	}
	add("", "v1", "Namespace", "namespaces", false)
	add("", "v1", "Node", "nodes", false)
	add("", "v1", "ServiceAccount", "serviceaccounts", true)
	add("", "v1", "Service", "services", true)
	add("", "v1", "Pod", "pods", true)
	add("apps", "v1", "Deployment", "deployments", true)
	add("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true)
	add("networking.istio.io", "v1", "ServiceEntry", "serviceentries", true)
	add("networking.istio.io", "v1", "VirtualService", "virtualservices", true)
	add("networking.istio.io", "v1", "DestinationRule", "destinationrules", true)
	add("networking.istio.io", "v1", "Gateway", "gateways", true)
	add("networking.istio.io", "v1", "Sidecar", "sidecars", true)
	add(gatewayAPI, "v1", "Gateway", "gateways", true)
	add(gatewayAPI, "v1", "HTTPRoute", "httproutes", true)
	add("security.istio.io", "v1", "AuthorizationPolicy", "authorizationpolicies", true)
	add("telemetry.istio.io", "v1", "Telemetry", "telemetries", true)
}

// ResourceOf returns the resource of an object's kind. It knows the kinds of
// populations and changes.
func ResourceOf(object *unstructured.Unstructured) (Resource, error) {
	r, ok := resources[object.GroupVersionKind()]
	if !ok {
		return Resource{}, fmt.Errorf("no resource is known for %s", object.GroupVersionKind())
	}
	return r, nil
}

// Client returns the client of an object's resource and namespace.
func Client(client dynamic.Interface, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	r, err := ResourceOf(object)
	if err != nil {
		return nil, err
	}
	if r.Namespaced {
		return client.Resource(r.GroupVersionResource).Namespace(object.GetNamespace()), nil
	}
	return client.Resource(r.GroupVersionResource), nil
}

// Object describes an object of a known kind.
type Object struct {
	APIVersion, Kind, Namespace, Name string // "networking.istio.io/v1", "Gateway"

	Labels map[string]string
	Spec   map[string]any // nil: none
}

// Unstructured returns the object in the dynamic client's form.
func (o Object) Unstructured() *unstructured.Unstructured {
	metadata := map[string]any{"name": o.Name}
	if o.Namespace != "" {
		metadata["namespace"] = o.Namespace
	}
	if len(o.Labels) > 0 {
		metadata["labels"] = anyMap(o.Labels)
	}
	object := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": metadata}
	if o.Spec != nil {
		object["spec"] = o.Spec
	}
	return &unstructured.Unstructured{Object: object}
}

// Key names an object in messages and maps: Kind/namespace/name.
func Key(o *unstructured.Unstructured) string {
	return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
