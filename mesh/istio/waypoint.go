package istio

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Names of waypoints. See istio.io/docs, "Configure waypoint proxies".
const (
	gatewayAPI       = "gateway.networking.k8s.io/v1"
	gatewayNameLabel = "gateway.networking.k8s.io/gateway-name"
	waypointClass    = "istio-waypoint"
	// waypointName is the name of the Gateway, and thereby of its Deployment and
	// Service.
	waypointName = "waypoint"
	// useWaypoint is the label of a Service whose requests pass a waypoint.
	useWaypoint = "istio.io/use-waypoint"
	hbonePort   = 15008
)

// waypointStats matches the statistics that Verify needs: of the clusters with a
// Service's pods, and of filters that ask a service.
var waypointStats = "(" + strings.Join(append([]string{`cluster\.inbound-vip\|.*\.(upstream_rq_total|upstream_cx_total|upstream_cx_[rt]x_bytes_total)`}, calloutStats...), "|") + ")"

// noGateways explains what to do if the cluster cannot create a waypoint.
const noGateways = "install the Gateway API's standard channel: kubectl apply --server-side -f https://github.com/kubernetes-sigs/gateway-api/releases/latest/download/standard-install.yaml; " +
	"or leave waypoint out: --set sidecars=[none,both,ambient]"

// gateways is the resource of the Gateway API.
var gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}

// waypoints returns the proxies that istiod creates from the Gateway of [Mesh.waypoint].
func (m *Mesh) waypoints() mesh.Proxies {
	return mesh.Proxies{Namespace: m.namespace, Selector: gatewayNameLabel + "=" + waypointName, Containers: []string{proxyContainer}, AdminPort: adminPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.EnvoyAdmin{HTTPClient: client} },
		Stats: "^" + waypointStats + "$",
		Of:    &mesh.Source{Resource: gateways, Name: waypointName},
		Hint: fmt.Sprintf("kubectl -n %s logs -l %s --tail=-1 shows how istiod handled the Gateway, and (ACK ERROR) which configuration the waypoint's Envoy rejected",
			Namespace, m.Revision.selector()),
	}
}

// waypoint returns the objects that give a namespace a waypoint for Services: a Gateway,
// from which istiod creates a Deployment and a Service, and, if the proxies are upstream
// Envoys, an EnvoyFilter that removes what they cannot load.
func (m *Mesh) waypoint(namespace string) []*unstructured.Unstructured {
	labels := map[string]any{"istio.io/waypoint-for": "service"}
	if !m.Revision.isDefault() {
		labels[revisionLabel] = m.Revision.Name
	}
	gateway := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gatewayAPI, "kind": "Gateway",
		"metadata": map[string]any{"name": waypointName, "namespace": namespace, "labels": labels},
		"spec": map[string]any{
			"gatewayClassName": waypointClass,
			"infrastructure": map[string]any{"annotations": map[string]any{
				"proxy.istio.io/config": fmt.Sprintf(`{"proxyStatsMatcher": {"inclusionRegexps": [%q]}}`, waypointStats),
			}},
			"listeners": []any{map[string]any{"name": "mesh", "port": int64(hbonePort), "protocol": "HBONE"}},
		},
	}}
	if m.upstream {
		return []*unstructured.Unstructured{upstreamWaypoint(namespace), gateway}
	}
	return []*unstructured.Unstructured{gateway}
}

// upstreamWaypoint makes a waypoint's listeners loadable by an upstream Envoy. istiod
// 1.31 unconditionally adds two of Istio's own filters, which discover peers for
// telemetry, and makes a third filter, one of Envoy's, store three values as objects of
// a kind that Istio's Envoy has: istio.hashable_string, which is Envoy's own
// envoy.hashable_string under another name. It also adds two listeners for other
// networks, which store another kind of Istio's, even if the mesh has one network. See
// pilot/pkg/networking/core, listener_waypoint.go, pilot/pkg/xds/filters, and
// ShouldCreateDoubleHBONEResources in pilot/pkg/model.
func upstreamWaypoint(namespace string) *unstructured.Unstructured {
	patch := func(to string, listener, patch map[string]any) any {
		return map[string]any{"applyTo": to, "patch": patch, "match": map[string]any{
			"context": "SIDECAR_INBOUND", "listener": listener}} // the context of a waypoint's listeners
	}
	filter := func(name string) map[string]any {
		return map[string]any{"filterChain": map[string]any{"filter": map[string]any{"name": managerFilter, "subFilter": map[string]any{"name": name}}}}
	}
	remove := map[string]any{"operation": "REMOVE"}
	var kept []any
	for _, v := range [][3]string{
		{"envoy.filters.listener.original_dst.local_ip", "", "%REQ(:AUTHORITY)%"},
		{"io.istio.connect_authority", hashableString, "%REQ(:AUTHORITY)%"},
		{"envoy.filters.listener.original_dst.remote_ip", "", "%DOWNSTREAM_REMOTE_ADDRESS%"},
		{"io.istio.peer_principal", hashableString, "%DOWNSTREAM_PEER_URI_SAN%"},
		{"io.istio.local_principal", hashableString, "%DOWNSTREAM_LOCAL_URI_SAN%"},
	} {
		value := map[string]any{"object_key": v[0], "shared_with_upstream": "ONCE",
			"format_string": map[string]any{"text_format_source": map[string]any{"inline_string": v[2]}}}
		if v[1] != "" {
			value["factory_key"] = v[1]
		}
		kept = append(kept, value)
	}
	return named("networking.istio.io/v1alpha3", "EnvoyFilter", namespace, waypointName, map[string]any{
		"targetRefs": []any{map[string]any{
			"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": waypointName}},
		"configPatches": []any{
			patch("LISTENER", map[string]any{"name": "inner_connect_originate"}, remove),
			patch("LISTENER", map[string]any{"name": "outer_connect_originate"}, remove),
			patch("HTTP_FILTER", filter("waypoint_downstream_peer_metadata"), remove),
			patch("HTTP_FILTER", filter("waypoint_upstream_peer_metadata"), remove),
			patch("HTTP_FILTER", filter("connect_authority"), map[string]any{"operation": "REPLACE",
				"value": map[string]any{"name": "connect_authority", "typed_config": map[string]any{
					"@type": envoyTypes + "filters.http.set_filter_state.v3.Config", "on_request_headers": kept}}}),
		},
	})
}

const hashableString = "envoy.hashable_string"

// waypointChecks verifies that the waypoint forwarded each request to the server's
// Service.
func waypointChecks(e mesh.Evidence) []record.Check {
	p := e.Read(record.PartWaypoint)
	if !e.Way.Has(record.PartWaypoint) || p == nil {
		return nil
	}
	of := "http"
	if e.Endpoint.Opaque {
		of = "tcp"
	}
	prefix := fmt.Sprintf("cluster.inbound-vip|%d|%s|%s.%s.svc.", e.Endpoint.Port, of, e.Endpoint.Service, e.Endpoint.Namespace)
	if e.Endpoint.Host != "" {
		prefix = fmt.Sprintf("cluster.inbound-vip|%d|%s|%s", e.Endpoint.Port, of, e.Endpoint.Host)
	}
	return append(passed("waypoint-requests", e, p.Rise, prefix, "the waypoint"), waypointFilters(e, p)...)
}

// toWaypoint returns the labels of the client's ztunnel's series for connections to a
// Service through its waypoint.
func toWaypoint(to mesh.Endpoint) map[string]string {
	return map[string]string{"reporter": asSource, "destination_workload": waypointName, "destination_workload_namespace": to.Namespace,
		"destination_service_name": to.Service}
}

// fromWaypoint checks what the waypoint sent to the server's ztunnel. The waypoint uses
// its own connections, which it keeps between trials, and its own request headers.
func fromWaypoint(e mesh.Evidence, p *mesh.Passed, to map[string]string) []record.Check {
	bytes := func() float64 {
		return mesh.SumSeries(p.Rise, sentTotal, to) + mesh.SumSeries(p.Rise, receivedTotal, to)
	}
	all := bytes()
	to["connection_security_policy"] = "mutual_tls"
	return []record.Check{
		mesh.Expect("server-hbone", bytes(), all, 0, "bytes through ztunnel on the server's side that came over HBONE, with mutual TLS"),
		weighed(record.SideServer, e, all),
	}
}

// isUpstream reports whether an Istio's proxies are upstream Envoys, as in the images
// that are built here.
func (f AsFound) isUpstream() bool {
	return slices.ContainsFunc(f.Components(), func(c record.Component) bool { return c.Name == "istiod" && c.Version == components.IstioVersion })
}

// refuseWaypoint is the part of Refuse for requests that pass a waypoint.
func (f AsFound) refuseWaypoint() error {
	if slices.Contains(f.gatewayAPI, "Gateway") {
		return nil
	}
	return errs.WithHint(errs.Usage("istio: no waypoint can be created: the cluster lacks the Gateway API's Gateway (%s)", gatewayAPI), noGateways)
}
