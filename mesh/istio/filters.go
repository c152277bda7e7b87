package istio

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Our own Wasm filters; make wasm builds them.
var (
	//go:embed wasm/header.wasm
	wasmHeader []byte
	//go:embed wasm/noop.wasm
	wasmNoop []byte
)

// Names that parts of a sidecar add to its configuration.
const (
	// ourFilters is the common name prefix of these filters.
	ourFilters = "meshtrial."
	// ourResources is the name prefix of listeners, clusters and routes.
	ourResources = "meshtrial-"
	sinkCluster  = "meshtrial-sink"
	grpcCluster  = "meshtrial-sink-grpc"
	// inboundListener receives a sidecar's inbound connections.
	inboundListener = "virtualInbound"
	jwtIssuer       = "meshtrial"

	luaType        = envoyTypes + "filters.http.lua.v3.Lua"
	wasmType       = envoyTypes + "filters.http.wasm.v3.Wasm"
	mutationType   = envoyTypes + "filters.http.header_mutation.v3.HeaderMutation"
	rateLimitType  = envoyTypes + "filters.http.local_ratelimit.v3.LocalRateLimit"
	faultType      = envoyTypes + "filters.http.fault.v3.HTTPFault"
	inspectorType  = envoyTypes + "filters.listener.http_inspector.v3.HttpInspector"
	connectionType = envoyTypes + "filters.network.http_connection_manager.v3.HttpConnectionManager"
	otlpLogType    = envoyTypes + "access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig"
	upstreamType   = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// luaHeader is equivalent to wasm/header.ts.
const luaHeader = `function envoy_on_request(handle)
  local headers = handle:headers()
  headers:replace("x-meshtrial-lua", headers:get(":authority"))
end
`

const luaNoop = `function envoy_on_request(handle)
end
`

// luaPlanted computes until the clock of its own thread's CPU time
// (CLOCK_THREAD_CPUTIME_ID, 3 on Linux) has advanced by that many microseconds. This
// clock and the accounting of cgroups are the same count in the kernel, and it stops
// while the thread is preempted, so the filter's cost is as configured even on a busy
// machine. It reads the clock after every 64 rounds. See clock_gettime(2), and
// luajit.org's FFI, which Envoy's Lua includes.
const luaPlanted = `local ffi = require("ffi")
ffi.cdef[[
  typedef struct { long seconds; long nanoseconds; } meshtrial_time;
  int clock_gettime(int clock, meshtrial_time *time);
]]
local time = ffi.new("meshtrial_time")
local function spent()
  ffi.C.clock_gettime(3, time)
  return tonumber(time.seconds) * 1e9 + tonumber(time.nanoseconds)
end
function envoy_on_request(handle)
  local till = spent() + %d000
  local x = 1
  repeat
    for i = 1, 64 do x = (x * 5 + i) %% 65521 end
  until spent() >= till
end
`

// httpFilters are the parts that consist of a filter for requests to the workload,
// with its configuration.
var httpFilters = map[string]func(p dataplane.Part) map[string]any{
	dataplane.PartPlanted: func(p dataplane.Part) map[string]any {
		return luaFilter(dataplane.PartPlanted, fmt.Sprintf(luaPlanted, p.N))
	},
	dataplane.PartLua:         func(dataplane.Part) map[string]any { return luaFilter(dataplane.PartLua, luaHeader) },
	dataplane.PartLuaNoop:     func(dataplane.Part) map[string]any { return luaFilter(dataplane.PartLuaNoop, luaNoop) },
	dataplane.PartWasm:        func(dataplane.Part) map[string]any { return wasmFilter(dataplane.PartWasm, wasmHeader) },
	dataplane.PartWasmNoop:    func(dataplane.Part) map[string]any { return wasmFilter(dataplane.PartWasmNoop, wasmNoop) },
	dataplane.PartPlantedNoop: func(dataplane.Part) map[string]any { return typed(mutationType, "mutations", map[string]any{}) },
	dataplane.PartRateLimit: func(dataplane.Part) map[string]any {
		bucket := map[string]any{"max_tokens": int64(2_000_000_000), "tokens_per_fill": int64(2_000_000_000), "fill_interval": "1s"}
		always := func(key string) map[string]any {
			return map[string]any{"runtime_key": "meshtrial." + key, "default_value": map[string]any{"numerator": int64(100), "denominator": "HUNDRED"}}
		}
		c := typed(rateLimitType, "token_bucket", bucket)
		c["stat_prefix"] = statPrefix(dataplane.PartRateLimit)
		c["filter_enabled"], c["filter_enforced"] = always("enabled"), always("enforced")
		return c
	},
	dataplane.PartFault: func(dataplane.Part) map[string]any {
		return typed(faultType, "abort", map[string]any{"http_status": int64(503),
			"percentage": map[string]any{"numerator": int64(0), "denominator": "HUNDRED"}})
	},
}

func typed(name, field string, value any) map[string]any {
	return map[string]any{"@type": name, field: value}
}

// statPrefix returns a part's prefix in Envoy's statistics.
func statPrefix(kind string) string { return "meshtrial_" + kind }

func luaFilter(kind, script string) map[string]any {
	c := typed(luaType, "default_source_code", map[string]any{"inline_string": script})
	c["stat_prefix"] = statPrefix(kind)
	return c
}

// wasmFilter returns a filter in its own V8, as a WasmPlugin would create; the module
// is small enough for the configuration. See envoy.extensions.wasm.v3.PluginConfig.
func wasmFilter(kind string, module []byte) map[string]any {
	return typed(wasmType, "config", map[string]any{
		"name": ourFilters + kind,
		"vm_config": map[string]any{
			"vm_id": ourFilters + kind, "runtime": "envoy.wasm.runtime.v8",
			"code": map[string]any{"local": map[string]any{"inline_bytes": base64.StdEncoding.EncodeToString(module)}},
		},
	})
}

// insertFilter inserts an HTTP filter before the router of every inbound chain.
func insertFilter(kind string, config map[string]any) map[string]any {
	return beforeRouter("", map[string]any{"name": ourFilters + kind, "typed_config": config})
}

// beforeRouter inserts an HTTP filter before the router of an inbound chain; of all if it has no
// name.
func beforeRouter(chain string, filter map[string]any) map[string]any {
	of := map[string]any{"filter": map[string]any{"name": managerFilter, "subFilter": map[string]any{"name": routerFilter}}}
	if chain != "" {
		of["name"] = chain
	}
	return map[string]any{
		"applyTo": "HTTP_FILTER",
		"match":   map[string]any{"context": "SIDECAR_INBOUND", "listener": map[string]any{"filterChain": of}},
		"patch":   map[string]any{"operation": "INSERT_BEFORE", "value": filter},
	}
}

// patchesOf returns the patches that a part needs in a workload's EnvoyFilter.
func patchesOf(w mesh.Workload, p dataplane.Part) []map[string]any {
	if config := httpFilters[p.Kind]; config != nil {
		return []map[string]any{insertFilter(p.Kind, config(p))}
	}
	if slices.Contains(study.Callouts(), p.Kind) {
		return newCallout(w, p.Kind).patches("")
	}
	add := func(to, context, operation string, one func(i int) map[string]any) []map[string]any {
		out := make([]map[string]any, p.N)
		for i := range out {
			out[i] = map[string]any{"applyTo": to, "match": map[string]any{"context": context},
				"patch": map[string]any{"operation": operation, "value": one(i)}}
		}
		return out
	}
	switch p.Kind {
	case dataplane.PartListeners:
		return add("LISTENER", "SIDECAR_OUTBOUND", "ADD", idleListener)
	case dataplane.PartClusters:
		return add("CLUSTER", "SIDECAR_OUTBOUND", "ADD", idleCluster)
	case dataplane.PartRoutes:
		return add("HTTP_ROUTE", "SIDECAR_INBOUND", "INSERT_FIRST", idleRoute)
	case dataplane.PartTracing:
		return tracing(w)
	case dataplane.PartOTLPLog:
		return otlpLog(w)
	case dataplane.PartInspector:
		return []map[string]any{{"applyTo": "LISTENER_FILTER",
			"match": map[string]any{"context": "SIDECAR_INBOUND", "listener": map[string]any{"name": inboundListener}},
			"patch": map[string]any{"operation": "ADD", "value": map[string]any{
				"name": ourFilters + dataplane.PartInspector, "typed_config": map[string]any{"@type": inspectorType}}}}}
	}
	return nil
}

// idle returns an unused address (RFC 5737, RFC 1112), by number.
func idle(i, port int) map[string]any {
	return map[string]any{"socket_address": map[string]any{
		"address": fmt.Sprintf("240.0.%d.%d", i/256, i%256), "port_value": int64(port)}}
}

// idleListener returns a listener for connections to its address, without a socket.
func idleListener(i int) map[string]any {
	name := fmt.Sprintf("%slistener-%d", ourResources, i)
	return map[string]any{"name": name, "address": idle(i, 80), "bind_to_port": false, "traffic_direction": "OUTBOUND",
		"filter_chains": []any{map[string]any{"filters": []any{map[string]any{
			"name": "envoy.filters.network.tcp_proxy", "typed_config": map[string]any{
				"@type": envoyTypes + "filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": name, "cluster": "BlackHoleCluster"},
		}}}}}
}

func idleCluster(i int) map[string]any {
	name := fmt.Sprintf("%scluster-%d", ourResources, i)
	return map[string]any{"name": name, "type": "STATIC", "connect_timeout": "1s", "load_assignment": map[string]any{
		"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": []any{map[string]any{
			"endpoint": map[string]any{"address": idle(i, 80)}}}}}}}
}

func idleRoute(i int) map[string]any {
	name := fmt.Sprintf("%sroute-%d", ourResources, i)
	return map[string]any{"name": name, "match": map[string]any{"path": "/" + name}, "direct_response": map[string]any{"status": int64(404)}}
}

// tracing makes every request create a span and sends it to the sink. See
// envoy.config.trace.v3.OpenTelemetryConfig.
func tracing(w mesh.Workload) []map[string]any {
	return []map[string]any{
		addCluster(dnsCluster(sinkCluster, hostIn(w.Namespace, mesh.SinkName), protocol.Of(protocol.HTTP1).Plain.Port)),
		mergeManager("tracing", map[string]any{
			"random_sampling": map[string]any{"value": int64(100)},
			"provider": map[string]any{"name": "envoy.tracers.opentelemetry", "typed_config": map[string]any{
				"@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig", "service_name": w.Name,
				"http_service": map[string]any{"http_uri": map[string]any{"uri": "http://" + hostIn(w.Namespace, mesh.SinkName) + "/v1/traces", "cluster": sinkCluster, "timeout": "1s"}},
			}},
		}),
	}
}

// otlpLogBody is an access log entry sent to the sink.
const otlpLogBody = "[%START_TIME%] %REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL% %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% " +
	"%DURATION% %REQ(X-REQUEST-ID)% %REQ(:AUTHORITY)% %UPSTREAM_HOST% %UPSTREAM_CLUSTER% %DOWNSTREAM_REMOTE_ADDRESS%"

// otlpLog makes every request create an access log entry and sends it to the sink,
// like Istio's provider envoyOtelAls. See
// envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig.
func otlpLog(w mesh.Workload) []map[string]any {
	cluster := dnsCluster(grpcCluster, hostIn(w.Namespace, mesh.SinkName), protocol.Of(protocol.GRPC).Plain.Port)
	speakHTTP2(cluster)
	return []map[string]any{
		addCluster(cluster),
		mergeManager("access_log", []any{map[string]any{"name": ourFilters + dataplane.PartOTLPLog, "typed_config": map[string]any{
			"@type": otlpLogType, "body": map[string]any{"string_value": otlpLogBody},
			"common_config": map[string]any{"log_name": "meshtrial", "transport_api_version": "V3",
				"grpc_service": map[string]any{"envoy_grpc": map[string]any{"cluster_name": grpcCluster}}},
		}}}),
	}
}

// dnsCluster returns a cluster for a port of a Service.
func dnsCluster(name, host string, port int) map[string]any {
	return map[string]any{
		"name": name, "type": "STRICT_DNS", "dns_lookup_family": "V4_ONLY", "connect_timeout": "1s", "load_assignment": map[string]any{
			"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{
				"address": map[string]any{"socket_address": map[string]any{"address": host, "port_value": int64(port)}}}}}}}},
	}
}

// speakHTTP2 makes a cluster speak HTTP/2, as gRPC needs.
func speakHTTP2(cluster map[string]any) {
	cluster["typed_extension_protocol_options"] = map[string]any{upstreamType: map[string]any{
		"@type": "type.googleapis.com/" + upstreamType, "explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}}}}
}

func addCluster(cluster map[string]any) map[string]any {
	return map[string]any{"applyTo": "CLUSTER", "match": map[string]any{"context": "SIDECAR_OUTBOUND"},
		"patch": map[string]any{"operation": "ADD", "value": cluster}}
}

// mergeManager sets a field of the HTTP connection manager in every inbound chain, or
// appends to it if it is a list.
func mergeManager(field string, value any) map[string]any {
	return map[string]any{"applyTo": "NETWORK_FILTER",
		"match": map[string]any{"context": "SIDECAR_INBOUND", "listener": map[string]any{"filterChain": map[string]any{
			"filter": map[string]any{"name": managerFilter}}}},
		"patch": map[string]any{"operation": "MERGE", "value": map[string]any{"typed_config": typed(connectionType, field, value)}}}
}

// maxPatches limits the patches per EnvoyFilter because object sizes are limited.
const maxPatches = 500

// parts returns the objects that enable the parts of a workload's sidecar, except the
// user's EnvoyFilters.
func (m *Mesh) parts(w mesh.Workload) ([]*unstructured.Unstructured, error) {
	list, err := dataplane.Parts(w.Proxy.Set(dataplane.FactorFilters))
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	var out []*unstructured.Unstructured
	var patches []map[string]any
	if c, ok := askedBy(w); ok {
		patches = c.patches("")
	}
	for _, p := range list {
		patches = append(patches, patchesOf(w, p)...)
		policies, err := m.policies(w, p)
		if err != nil {
			return nil, err
		}
		out = append(out, policies...)
	}
	for i, some := range slices.Collect(slices.Chunk(patches, maxPatches)) {
		o := envoyFilter(w, some...)
		o.SetName(fmt.Sprintf("%s-%d", w.Name, i))
		out = append(out, o)
	}
	return out, nil
}

// decorateParts adds what parts need to a pod's proxy configuration.
func (m *Mesh) decorateParts(w mesh.Workload, config *proxyConfig) error {
	parts, err := dataplane.Parts(w.Proxy.Set(dataplane.FactorFilters))
	if err != nil {
		return fmt.Errorf("workload %s: %w", w.Name, err)
	}
	if _, err := m.parts(w); err != nil {
		return err
	}
	_, asks := askedBy(w)
	if (len(parts) > 0 || asks) && !withStats(w.Proxy.Level(study.FactorTelemetry)) {
		config.StatsMatcher.InclusionRegexps = slices.Concat(config.StatsMatcher.InclusionRegexps, filterStats)
	}
	for _, p := range parts {
		name, value := "", ""
		switch p.Kind {
		case dataplane.PartECDSA:
			name, value = "ECC_SIGNATURE_ALGORITHM", "ECDSA"
		case dataplane.PartDNSProxy:
			name, value = "ISTIO_META_DNS_CAPTURE", "true"
		default:
			continue
		}
		if config.Metadata == nil {
			config.Metadata = map[string]string{}
		}
		config.Metadata[name] = value
	}
	return nil
}

// policies returns the part's own objects of Istio's security API.
func (m *Mesh) policies(w mesh.Workload, p dataplane.Part) ([]*unstructured.Unstructured, error) {
	switch p.Kind {
	case dataplane.PartAuthzAllow, dataplane.PartAuthzDeny:
		return authorization(w, p), nil
	case dataplane.PartJWT, dataplane.PartJWTToken:
		token, err := m.token()
		if err != nil {
			return nil, err
		}
		return []*unstructured.Unstructured{object("security.istio.io/v1", "RequestAuthentication", w, map[string]any{
			"jwtRules": []any{map[string]any{"issuer": jwtIssuer, "jwks": token.jwks, "forwardOriginalToken": true}},
		})}, nil
	}
	return nil, nil
}

// maxRules is below the maximum number of rules per policy in its definition (512).
const maxRules = 500

// authorization returns N rules on paths, in as few policies as possible. Envoy
// evaluates rules by name, policy[NAME]-rule[I], sorted as text. For allow policies,
// the last rule in that order matches all requests; for deny policies, none does. See
// envoy.config.rbac.v3.RBAC, policies.
func authorization(w mesh.Workload, p dataplane.Part) []*unstructured.Unstructured {
	action := "ALLOW"
	if p.Kind == dataplane.PartAuthzDeny {
		action = "DENY"
	}
	var out []*unstructured.Unstructured
	for from := 0; from < p.N; from += maxRules {
		n := min(maxRules, p.N-from)
		rules := make([]any, n)
		for i := range rules {
			path := fmt.Sprintf("/meshtrial-unused/%d", from+i)
			if action == "ALLOW" && from+n == p.N && i == lastRule(n) {
				path = "/*"
			}
			rules[i] = map[string]any{"to": []any{map[string]any{"operation": map[string]any{"paths": []any{path}}}}}
		}
		o := object("security.istio.io/v1", "AuthorizationPolicy", w, map[string]any{"action": action, "rules": rules})
		o.SetName(fmt.Sprintf("%s-%s-%d", w.Name, p.Kind, len(out))) // a single digit: text order equals numeric order
		out = append(out, o)
	}
	return out
}

// lastRule returns the number below n whose "rule[N]" sorts last as text: a bracket
// sorts after digits.
func lastRule(n int) int {
	return min(n-1, 9)
}
