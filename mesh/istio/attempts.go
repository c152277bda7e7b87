package istio

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/mesh"
)

var _ mesh.AttemptLogger = (*Mesh)(nil)

// Names of Envoy's filters and types.
const (
	managerFilter = "envoy.filters.network.http_connection_manager"
	routerFilter  = "envoy.filters.http.router"
	envoyTypes    = "type.googleapis.com/envoy.extensions."
)

// LogContainer returns the sidecar.
func (*Mesh) LogContainer() string { return proxyContainer }

// AttemptLog returns an EnvoyFilter for only w's sidecar: the router's upstream
// log has a line per attempt, and the connection manager's access log one per
// failed request. Istio's Telemetry supports neither.
func (*Mesh) AttemptLog(w mesh.Workload, port int) *unstructured.Unstructured {
	failed := map[string]any{"or_filter": map[string]any{"filters": []any{
		map[string]any{"response_flag_filter": map[string]any{}}, // any flag
		map[string]any{"status_code_filter": map[string]any{"comparison": map[string]any{
			"op": "GE", "value": map[string]any{"default_value": int64(400), "runtime_key": "meshtrial.failed"}}}},
	}}}
	text := func(format string) map[string]any {
		return map[string]any{"text_format_source": map[string]any{"inline_string": format}}
	}
	return envoyFilter(w,
		upstreamLog(port, text(mesh.AttemptFormat)),
		outboundPatch("NETWORK_FILTER", port, map[string]any{"name": managerFilter}, map[string]any{
			"@type":      envoyTypes + "filters.network.http_connection_manager.v3.HttpConnectionManager",
			"access_log": fileLog(text(mesh.RequestFormat), failed)}),
	)
}

// upstreamLog makes the router write a line per attempt, for listeners of a
// port, or for all with port 0. See
// envoy.extensions.filters.http.router.v3.Router, upstream_log.
func upstreamLog(port int, format map[string]any) map[string]any {
	return outboundPatch("HTTP_FILTER", port, map[string]any{"name": managerFilter, "subFilter": map[string]any{"name": routerFilter}}, map[string]any{
		"@type": envoyTypes + "filters.http.router.v3.Router", "upstream_log": fileLog(format, nil)})
}

// fileLog returns an access log to standard output in a log_format.
func fileLog(format, filter map[string]any) []any {
	entry := map[string]any{"name": "envoy.access_loggers.file", "typed_config": map[string]any{
		"@type": envoyTypes + "access_loggers.file.v3.FileAccessLog", "path": "/dev/stdout", "log_format": format,
	}}
	if filter != nil {
		entry["filter"] = filter
	}
	return []any{entry}
}

// outboundPatch merges config into a filter of a sidecar's outbound listeners:
// those of a port, or all with port 0.
func outboundPatch(to string, port int, filter, config map[string]any) map[string]any {
	listener := map[string]any{"filterChain": map[string]any{"filter": filter}}
	if port != 0 {
		listener["portNumber"] = int64(port)
	}
	return map[string]any{
		"applyTo": to,
		"match":   map[string]any{"context": "SIDECAR_OUTBOUND", "listener": listener},
		"patch":   map[string]any{"operation": "MERGE", "value": map[string]any{"typed_config": config}},
	}
}

// envoyFilter returns an EnvoyFilter for only w's sidecars.
func envoyFilter(w mesh.Workload, patches ...map[string]any) *unstructured.Unstructured {
	list := make([]any, len(patches))
	for i, p := range patches {
		list[i] = p
	}
	return named("networking.istio.io/v1alpha3", "EnvoyFilter", w.Namespace, w.Name, map[string]any{
		"workloadSelector": podsOf(w), "configPatches": list})
}

// podsOf returns a selector of a workload's pods, for kinds that call it workloadSelector.
func podsOf(w mesh.Workload) map[string]any {
	return map[string]any{"labels": map[string]any{mesh.AppLabel: w.Name}}
}
