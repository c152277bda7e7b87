package mesh

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Extension is configuration of the user's own for a workload's sidecar, as a
// study's envoy_filters name it.
type Extension struct {
	Name string
	// Patches are the configPatches of an EnvoyFilter.
	Patches []any
	// Priority is the EnvoyFilter's.
	Priority int64
}

// Extended is what became of an extension.
type Extended struct {
	// Problem is why it is not in force; "" if it is.
	Problem string
	// Names are what it adds to the proxy's configuration by name.
	Names []string
}

// Extender is a mesh whose sidecars take extensions. They are applied to a
// sidecar that runs: one that it refuses leaves it as it was, where at its
// start it would never become ready.
type Extender interface {
	// ExtensionObject is the object that gives w's sidecar an extension.
	ExtensionObject(w Workload, x Extension) *unstructured.Unstructured
	// Took compares a sidecar's configuration before an extension and some time
	// after: whether the extension is in force, or what the sidecar said
	// against it.
	Took(before, after []byte) (took bool, refusal string, err error)
	// Names are what an extension adds by name.
	ExtensionNames(x Extension) []string
}

// HeaderSetter is a mesh with parts that look at what requests carry.
type HeaderSetter interface {
	// RequestHeaders are those that requests carry in all cells of a study
	// with these levels of the factor filters.
	RequestHeaders(filters []string) (map[string]string, error)
}

// Gated is a mesh with a gateway of its own for requests from outside.
type Gated interface {
	// DecorateGateway asks the injector for a gateway in a pod that has no container
	// yet: w.Proxy's levels are the gateway's. What selects the mesh's own ingress
	// gateways does not select it.
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
	// NamespaceLabels are those by which it watches a namespace; none if it
	// watches all.
	NamespaceLabels() map[string]string
}

// NamespaceLabels are what a namespace needs so that a mesh's control plane watches
// it; none where it watches all.
func NamespaceLabels(m Mesh) map[string]string {
	if w, ok := m.(Watcher); ok {
		return w.NamespaceLabels()
	}
	return nil
}

// Configured is a mesh whose sidecars count what their control plane tells them.
type Configured interface {
	// ReceivedStats is a regular expression of the counters that rise with
	// each piece of configuration that a sidecar receives.
	ReceivedStats() string
}

// Endpointed is a mesh whose sidecars show which endpoints they know.
type Endpointed interface {
	// EndpointsPath is where, on the admin port.
	EndpointsPath() string
	// Endpoints reads from what a sidecar answered there the addresses that it knows of
	// each Service of a namespace, by name, each once and in order.
	Endpoints(answer []byte, namespace string) (map[string][]string, error)
}
