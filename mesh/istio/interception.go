package istio

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Without redirection, documented as interceptionMode NONE, a Sidecar resource
// specifies the ports that the proxy listens on: see istio.io/docs, Reference,
// Configuration, Sidecar (captureMode), and Resource annotations.

// interceptionMode is the annotation that disables redirection.
const interceptionMode = "sidecar.istio.io/interceptionMode"

// listens returns the Sidecar of a workload without redirection: a server's
// sidecar has a port for each of the worker's, a client's has one on the
// loopback for each port of the Services in its namespace.
func listens(w mesh.Workload) *unstructured.Unstructured {
	spec := map[string]any{"egress": []any{map[string]any{"hosts": []any{"./*"}}}}
	if !w.Client {
		var ingress []any
		for _, p := range protocol.All() {
			if !p.Headers {
				continue // no sidecar can determine the Service of such a connection
			}
			kind, port := p.Plain.Kind(), p.Plain.Port
			ingress = append(ingress, map[string]any{
				"port":            map[string]any{"number": int64(mesh.OwnPort(port)), "protocol": strings.ToUpper(kind), "name": fmt.Sprintf("%s-%d", kind, port)},
				"bind":            "0.0.0.0",
				"captureMode":     "NONE",
				"defaultEndpoint": fmt.Sprintf("127.0.0.1:%d", port),
			})
		}
		// Listeners for Services would use ports that the worker occupies.
		spec = map[string]any{"ingress": ingress, "egress": []any{map[string]any{"hosts": []any{"~/*"}}}}
	}
	spec["workloadSelector"] = podsOf(w)
	return named(networkingV1, "Sidecar", w.Namespace, w.Name, spec)
}

// inboundPort returns the port under which a server's sidecar knows the
// endpoint.
func inboundPort(e mesh.Evidence) int {
	if e.Cell[dataplane.FactorInterception] == dataplane.InterceptionNone {
		return mesh.OwnPort(e.Endpoint.Port)
	}
	return e.Endpoint.Port
}

// Names in Envoy's statistics of the listeners that receive redirected
// connections.
const (
	redirectedIn  = "15006"
	redirectedOut = "15001"
)

// intercepted verifies how connections reached a sidecar, from its listeners.
// The target of the packet filter's redirection exists only with redirection;
// without, the sidecar's own listening ports exist and are bound.
func intercepted(side string, e mesh.Evidence, listeners []string) record.Check {
	none := e.Cell[dataplane.FactorInterception] == dataplane.InterceptionNone
	redirected, own := redirectedOut, fmt.Sprintf("127.0.0.1_%d", e.Endpoint.Port)
	if side == "server" {
		redirected, own = redirectedIn, fmt.Sprintf("0.0.0.0_%d", inboundPort(e))
	}
	hasRedirected, hasOwn := false, false
	for _, l := range listeners {
		hasRedirected = hasRedirected || strings.HasSuffix(l, "_"+redirected) || l == "virtualInbound" && side == "server" || l == "virtualOutbound" && side == "client"
		hasOwn = hasOwn || l == own
	}
	ok := hasRedirected && !none || !hasRedirected && hasOwn && none
	return record.Check{Name: side + "-interception", OK: ok,
		Detail: fmt.Sprintf("the proxy's listeners are %s; the cell sets interception %s",
			strings.Join(slices.Sorted(slices.Values(listeners)), ", "), e.Cell[dataplane.FactorInterception])}
}

// ownInbound returns the name of a server's listener for a port that it opens
// itself.
func ownInbound(port int) string { return fmt.Sprintf("0.0.0.0_%d", port) }
