package population

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is where the API server has a kind of object.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// resources are the kinds that populations and changes are made of. They are
// known, so nothing has to be discovered.
var resources = map[schema.GroupVersionKind]Resource{}

// gatewayAPI is the group of the Gateway API, which not every cluster has.
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

// ResourceOf says where the API server has an object's kind. It knows the
// kinds that populations and changes are made of.
func ResourceOf(object *unstructured.Unstructured) (Resource, error) {
	r, ok := resources[object.GroupVersionKind()]
	if !ok {
		return Resource{}, fmt.Errorf("no resource is known for %s", object.GroupVersionKind())
	}
	return r, nil
}

// NewObject makes an object of a known kind ("v1", "networking.istio.io/v1")
// with its labels and, if spec is not nil, its spec.
func NewObject(apiVersion, kind, namespace, name string, labels map[string]string, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if len(labels) > 0 {
		metadata["labels"] = anyMap(labels)
	}
	object := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	if spec != nil {
		object["spec"] = spec
	}
	return &unstructured.Unstructured{Object: object}
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
