package mesh

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Extension is a user's own configuration for a workload's sidecar, as a study's envoy_filters
// name it.
type Extension struct {
	Name string
	// Patches are the configPatches of an EnvoyFilter.
	Patches []any
	// Priority is the EnvoyFilter's.
	Priority int64
}

// Extended is the outcome of an extension.
type Extended struct {
	// Problem is why it is not in force; "" if it is.
	Problem string
	// Names are what it adds to the proxy's configuration, by name.
	Names []string
}

// Extender is a mesh whose sidecars take extensions. They are applied to a running sidecar:
// one that it rejects leaves it unchanged, whereas at its start it would never become ready.
type Extender interface {
	// ExtensionObject is the object that gives w's sidecar an extension.
	ExtensionObject(w Workload, x Extension) *unstructured.Unstructured
	// Took compares a sidecar's configuration before an extension and some time after: it
	// returns whether the extension is in force, or why the sidecar rejected it.
	Took(before, after []byte) (took bool, refusal string, err error)
	// Names are what an extension adds, by name.
	ExtensionNames(x Extension) []string
}

// HeaderSetter is a mesh with parts that look at requests' headers.
type HeaderSetter interface {
	// RequestHeaders are the headers of requests in all cells of a study with these levels of
	// the factor filters.
	RequestHeaders(filters []string) (map[string]string, error)
}

// Gated is a mesh with a gateway of its own for requests from outside.
type Gated interface {
	// DecorateGateway asks the injector for a gateway in a pod that has no container yet:
	// w.Proxy's levels are the gateway's. Selectors of the mesh's own ingress gateways do not
	// match it.
	DecorateGateway(w Workload, pod *corev1.PodTemplateSpec) error
}

// Rooted is a mesh whose control plane puts its root certificate into every
// namespace, in a ConfigMap that sidecars mount.
type Rooted interface {
	// RootConfigMap is the ConfigMap's name.
	RootConfigMap() string
}

// Watcher is a mesh whose control plane may watch some namespaces only.
type Watcher interface {
	// NamespaceLabels are the labels by which it watches a namespace; none if it watches all.
	NamespaceLabels() map[string]string
}

// NamespaceLabels are the labels that a namespace needs for a mesh's control plane to watch
// it; none if it watches all.
func NamespaceLabels(m Mesh) map[string]string {
	if w, ok := m.(Watcher); ok {
		return w.NamespaceLabels()
	}
	return nil
}

// Configured is a mesh whose sidecars count the configuration that they receive.
type Configured interface {
	// ReceivedStats is a regular expression of the counters that rise with each piece of
	// received configuration.
	ReceivedStats() string
}

// Endpointed is a mesh whose sidecars report the endpoints that they know.
type Endpointed interface {
	// EndpointsPath is the path of that report on the admin port.
	EndpointsPath() string
	// Endpoints reads from a sidecar's answer the addresses that it knows of each Service of a
	// namespace, by name, each once and in order.
	Endpoints(answer []byte, namespace string) (map[string][]string, error)
}
