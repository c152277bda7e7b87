package istio

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshmark/meshmark/mesh"
)

var _ mesh.AttemptLogger = (*Mesh)(nil)

// LogContainer is the sidecar.
func (*Mesh) LogContainer() string { return proxyContainer }

// AttemptLog is an EnvoyFilter for w's sidecar alone: the router's upstream log
// has a line an attempt, and the connection manager's access log one for each
// request that failed. Istio's Telemetry can ask for neither.
// See envoy.extensions.filters.http.router.v3.Router, upstream_log.
func (*Mesh) AttemptLog(w mesh.Workload, port int) *unstructured.Unstructured {
	const (
		manager = "envoy.filters.network.http_connection_manager"
		router  = "envoy.filters.http.router"
		types   = "type.googleapis.com/envoy.extensions."
	)
	log := func(format string, filter map[string]any) []any {
		entry := map[string]any{"name": "envoy.access_loggers.file", "typed_config": map[string]any{
			"@type": types + "access_loggers.file.v3.FileAccessLog", "path": "/dev/stdout",
			"log_format": map[string]any{"text_format_source": map[string]any{"inline_string": format}},
		}}
		if filter != nil {
			entry["filter"] = filter
		}
		return []any{entry}
	}
	patch := func(to string, filter, config map[string]any) map[string]any {
		return map[string]any{
			"applyTo": to,
			"match": map[string]any{"context": "SIDECAR_OUTBOUND",
				"listener": map[string]any{"portNumber": int64(port), "filterChain": map[string]any{"filter": filter}}},
			"patch": map[string]any{"operation": "MERGE", "value": map[string]any{"typed_config": config}},
		}
	}
	failed := map[string]any{"or_filter": map[string]any{"filters": []any{
		map[string]any{"response_flag_filter": map[string]any{}}, // any flag
		map[string]any{"status_code_filter": map[string]any{"comparison": map[string]any{
			"op": "GE", "value": map[string]any{"default_value": int64(400), "runtime_key": "meshmark.failed"}}}},
	}}}
	o := object("networking.istio.io/v1alpha3", "EnvoyFilter", w, map[string]any{"configPatches": []any{
		patch("HTTP_FILTER", map[string]any{"name": manager, "subFilter": map[string]any{"name": router}}, map[string]any{
			"@type": types + "filters.http.router.v3.Router", "upstream_log": log(mesh.AttemptFormat, nil)}),
		patch("NETWORK_FILTER", map[string]any{"name": manager}, map[string]any{
			"@type": types + "filters.network.http_connection_manager.v3.HttpConnectionManager", "access_log": log(mesh.RequestFormat, failed)}),
	}})
	spec := o.Object["spec"].(map[string]any) // object made it
	delete(spec, "selector")
	spec["workloadSelector"] = map[string]any{"labels": map[string]any{mesh.AppLabel: w.Name}}
	return o
}
