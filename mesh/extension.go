package mesh

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Extension is a user's own configuration for a workload's sidecar, as named in a study's
// envoy_filters.
type Extension struct {
	Name string
	// Part is its part of the factor filters.
	Part string
	// Patches has the configPatches of an EnvoyFilter.
	Patches []any
	// Priority is the priority of the EnvoyFilter.
	Priority int64
	// Wasm is the module of a filter that it adds in place of patches; nil: none.
	Wasm []byte
}

// Extended is the outcome of an extension.
type Extended struct {
	// Problem is why it is not in force; "" if it is.
	Problem string
	// Names lists what it adds to the proxy's configuration by name.
	Names []string
	// SHA256 is the digest of its Wasm module in hexadecimal; "" if it has none.
	SHA256 string `json:",omitempty"`
}

// Extender is a mesh whose sidecars accept extensions. They are applied to a running sidecar:
// a rejected one leaves it unchanged, whereas at startup it would keep the sidecar from ever
// becoming ready.
type Extender interface {
	// ExtensionObject returns the object that adds an extension to w's sidecar.
	ExtensionObject(w Workload, x Extension) *unstructured.Unstructured
	// Took compares a sidecar's configuration before an extension with its configuration some
	// time later.
	Took(before, after []byte) (Uptake, error)
	// ExtensionNames returns the names of what an extension adds.
	ExtensionNames(x Extension) []string
}

// Uptake is what a sidecar did with an extension. While it waits for a part of one, the extension is
// neither in force nor absent.
type Uptake struct {
	InForce bool
	Absent  bool   // the configuration is as it was before
	Refusal string // why the sidecar rejected it; "" if it did not
}

// HeaderSetter is a mesh with parts that inspect request headers.
type HeaderSetter interface {
	// RequestHeaders returns the headers of requests in all cells of a study with these levels
	// of the factor filters.
	RequestHeaders(filters []string) (map[string]string, error)
}

// Gated is a mesh with its own gateway for requests from outside.
type Gated interface {
	// DecorateGateway requests a gateway from the injector in a pod that has no container yet.
	// The gateway has w.Proxy's levels. Selectors of the mesh's own ingress gateways do not
	// match it.
	DecorateGateway(w Workload, pod *corev1.PodTemplateSpec) error
}

// Rooted is a mesh whose control plane puts its root certificate into a ConfigMap in every
// namespace, which sidecars mount.
type Rooted interface {
	// RootConfigMap returns the ConfigMap's name.
	RootConfigMap() string
}

// Watcher is a mesh whose control plane may watch only some namespaces.
type Watcher interface {
	// NamespaceLabels returns the labels by which it watches a namespace; none if it watches
	// all.
	NamespaceLabels() map[string]string
}

// NamespaceLabels returns the labels that a namespace needs for a mesh's control plane to
// watch it; none if it watches all.
func NamespaceLabels(m Mesh) map[string]string {
	if w, ok := m.(Watcher); ok {
		return w.NamespaceLabels()
	}
	return nil
}

// Configured is a mesh whose sidecars count the configuration that they receive.
type Configured interface {
	// ReceivedStats returns a regular expression for the counters that increase with each
	// piece of received configuration.
	ReceivedStats() string
}

// Endpointed is a mesh whose sidecars report the endpoints that they know.
type Endpointed interface {
	// EndpointsPath returns the path of that report on the admin port.
	EndpointsPath() string
	// Endpoints parses a sidecar's response and returns the distinct addresses, in order, that
	// it knows of each Service of a namespace, by name.
	Endpoints(answer []byte, namespace string) (map[string][]string, error)
}
