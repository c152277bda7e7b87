package istio

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Servers outside the mesh. One at an unknown address has no object: sidecars forward its
// connections by their cluster PassthroughCluster, ztunnel unchanged. Others have a
// ServiceEntry of the workload's name. See istio.io/docs, "Accessing External Services".
//
// Requests through an egress gateway take the documented route ("Egress Gateways"): clients'
// sidecars send those for the server's host to the gateway, over mutual TLS with the host as
// SNI, and the gateway sends them on. The gateway's ports are the sidecars' own, which no
// worker and no ingress uses.

// ztunnelUnknown is the value of labels of ztunnel's series of which it knows nothing.
const ztunnelUnknown = "unknown"

// refuseUnknown is the part of Refuse for sidecars' requests to unknown addresses.
func (f AsFound) refuseUnknown(asked mesh.Asked) error {
	if !asked.Unknown || f.config.OutboundTrafficPolicy.Mode != "REGISTRY_ONLY" {
		return nil
	}
	return errs.WithHint(errs.Usage("istio: the mesh's sidecars reject requests to addresses that it does not know (outboundTrafficPolicy.mode: REGISTRY_ONLY)"),
		"leave %s: %s out, or set the mode to ALLOW_ANY", study.FactorDestination, study.DestinationOutside)
}

// leaves reports whether requests to a workload leave the mesh through the gateway.
func leaves(w mesh.Workload) bool {
	return w.Outside != nil && w.Outside.Destination == study.DestinationEgress
}

// entries returns the ServiceEntries of servers outside the mesh.
func entries(workloads []mesh.Workload) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, w := range workloads {
		if w.Outside == nil || w.Outside.Destination == study.DestinationOutside {
			continue
		}
		resolution, address := "DNS", w.Outside.Name
		if w.Outside.Destination == study.DestinationStatic {
			resolution, address = "STATIC", w.Outside.Address
		}
		var ports []any
		for _, p := range protocol.Endpoints() {
			ports = append(ports, map[string]any{"number": int64(p.Port), "name": p.PortName, "protocol": strings.ToUpper(p.Kind())})
		}
		entry := named(networkingV1, "ServiceEntry", w.Namespace, w.Name, map[string]any{
			"hosts": []any{w.Outside.Host}, "addresses": []any{w.Outside.Virtual}, "location": "MESH_EXTERNAL", "exportTo": []any{"."},
			"resolution": resolution, "ports": ports, "endpoints": []any{map[string]any{"address": address}}})
		if w.Carrier == study.SidecarsWaypoint {
			entry.SetLabels(map[string]string{useWaypoint: waypointName})
		}
		out = append(out, entry)
	}
	return out
}

// egressService returns the Service by which sidecars reach the egress gateway.
func egressService(namespace string) *unstructured.Unstructured {
	var ports []any
	for _, p := range protocol.Endpoints() {
		own := int64(mesh.OwnPort(p.Port))
		ports = append(ports, map[string]any{"name": p.PortName, "port": own, "targetPort": own, "protocol": "TCP"})
	}
	return named("v1", "Service", namespace, gatewayName, map[string]any{"selector": map[string]any{mesh.AppLabel: gatewayName}, "ports": ports})
}

// egress returns the objects that lead clients' requests for a server to the gateway, and
// from there to the server.
func egress(w mesh.Workload) []*unstructured.Unstructured {
	host := w.Outside.Host
	var servers, http, tcp, tls []any
	for _, p := range protocol.Endpoints() {
		own := int64(mesh.OwnPort(p.Port))
		spoken := "TLS"
		if httpRoutes(p) {
			spoken = "HTTPS"
		}
		servers = append(servers, map[string]any{"hosts": []any{host}, "tls": map[string]any{"mode": "ISTIO_MUTUAL"},
			"port": map[string]any{"number": own, "name": fmt.Sprintf("%s-%d", strings.ToLower(spoken), own), "protocol": spoken}})

		fromMesh := map[string]any{"gateways": []any{"mesh"}, "port": int64(p.Port)}
		fromGateway := map[string]any{"gateways": []any{w.Namespace + "/" + w.Name}, "port": own}
		toGateway := routeTo(hostIn(w.Namespace, gatewayName), own, w.Name)
		toServer := routeTo(host, int64(p.Port), "")
		switch {
		case httpRoutes(p):
			http = append(http, rule(fromMesh, toGateway), rule(fromGateway, toServer))
		case p.TLS: // sidecars route it by SNI; at the gateway it is in a TLS connection of theirs
			fromMesh["sniHosts"] = []any{host}
			tls, tcp = append(tls, rule(fromMesh, toGateway)), append(tcp, rule(fromGateway, toServer))
		default:
			tcp = append(tcp, rule(fromMesh, toGateway), rule(fromGateway, toServer))
		}
	}
	gateways := []any{"mesh", w.Namespace + "/" + w.Name}
	if w.Outside.Bypass {
		gateways = gateways[1:]
		http, tcp, tls = ofGateway(http), ofGateway(tcp), nil
	}
	routes := map[string]any{"hosts": []any{host}, "gateways": gateways, "exportTo": []any{"."}, "http": http, "tcp": tcp}
	if tls != nil {
		routes["tls"] = tls
	}
	return []*unstructured.Unstructured{
		named(networkingV1, "Gateway", w.Namespace, w.Name, map[string]any{"selector": map[string]any{mesh.AppLabel: gatewayName}, "servers": servers}),
		named(networkingV1, "DestinationRule", w.Namespace, w.Name, map[string]any{"host": hostIn(w.Namespace, gatewayName), "exportTo": []any{"."},
			"subsets": []any{map[string]any{"name": w.Name, "trafficPolicy": map[string]any{"tls": map[string]any{"mode": "ISTIO_MUTUAL", "sni": host}}}}}),
		named(networkingV1, "VirtualService", w.Namespace, w.Name, routes),
	}
}

// httpRoutes reports whether proxies see the requests on a port.
func httpRoutes(p protocol.Endpoint) bool { return slices.Contains(gatewayPorts(), p) }

func rule(match, route map[string]any) any {
	return map[string]any{"match": []any{match}, "route": []any{route}}
}

func routeTo(host string, port int64, subset string) map[string]any {
	to := map[string]any{"host": host, "port": map[string]any{"number": port}}
	if subset != "" {
		to["subset"] = subset
	}
	return map[string]any{"destination": to}
}

// ofGateway returns those of rules that the gateway applies.
func ofGateway(rules []any) []any {
	var out []any
	for _, r := range rules {
		match := r.(map[string]any)["match"].([]any)[0].(map[string]any)
		if match["gateways"].([]any)[0] != "mesh" {
			out = append(out, r)
		}
	}
	return out
}

// toEntry returns the prefix of an Envoy's statistics for a server with a ServiceEntry.
func toEntry(to mesh.Endpoint) string {
	return fmt.Sprintf("cluster.outbound|%d||%s", to.Port, to.Host)
}

// passthrough is the prefix of a sidecar's statistics for unknown addresses.
const passthrough = "cluster.PassthroughCluster"

// fromClient returns the prefix of the statistics of the client's sidecar for a trial's
// requests.
func fromClient(e mesh.Evidence) string {
	to := e.Endpoint
	switch e.Cell[study.FactorDestination] {
	case study.DestinationOutside:
		return passthrough
	case study.DestinationStatic, study.DestinationDNS:
		return toEntry(to)
	case study.DestinationEgress:
		return fmt.Sprintf("cluster.outbound|%d|%s|%s", mesh.OwnPort(to.Port), to.Service, hostIn(to.Namespace, gatewayName))
	}
	return fmt.Sprintf("cluster.outbound|%d||%s.%s.svc.", to.Port, to.Service, to.Namespace)
}

// opaque reports whether proxies see only a trial's connections.
func opaque(e mesh.Evidence) bool {
	return e.Endpoint.Opaque || e.Endpoint.Unknown
}

// egressChecks verifies that no request of a trial went past the egress gateway.
func egressChecks(e mesh.Evidence) []record.Check {
	p := e.Read(record.PartClientProxy)
	if !study.Leaving(e.Cell) || p == nil {
		return nil
	}
	// A connection counts as a request of its own where Envoy sees no requests. It may be older
	// than the trial where it does.
	direct := sum(p.Rise, toEntry(e.Endpoint), ".upstream_rq_total") + sum(p.Rise, passthrough, ".upstream_cx_total")
	return []record.Check{mesh.Expect("egress-bypass", direct, 0, 0, "requests, or connections, of the client's proxy to the server, past the egress gateway")}
}
