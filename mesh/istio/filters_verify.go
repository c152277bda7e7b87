package istio

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// filterStats are the statistics by which a sidecar's parts are verified.
var filterStats = slices.Concat(calloutStats, []string{
	`http\.inbound_.*\.lua\.meshtrial_[a-z-]+\.(executions|errors)`,
	`http\.inbound_.*\.rbac\.(allowed|denied)`,
	`http\.inbound_.*\.jwt_authn\.(allowed|denied)`,
	`meshtrial_ratelimit\.http_local_rate_limit\.(ok|rate_limited)`,
	`wasm\.envoy\.wasm\.runtime\.v8\.active`,
	`tracing\.opentelemetry\.spans_sent`,
	`access_logs\.open_telemetry_access_log\.logs_(written|dropped)`,
	rejectedStats,
})

// rejectedStats count the updates of listeners and clusters that the sidecar rejected.
const rejectedStats = `(listener_manager\.lds|cluster_manager\.cds)\.update_rejected`

// verifyFilters checks that the server's sidecar has exactly the parts that the cell
// names, and that those with counters counted the requests.
func verifyFilters(e mesh.Evidence, passed *mesh.Passed) []record.Check {
	const name = "server-filters"
	want, err := dataplane.Parts(e.Cell[dataplane.FactorFilters])
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	have, err := readParts(passed.Config, e.Endpoint.Port)
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	var checks []record.Check
	var known []string
	for _, p := range want {
		switch p.Kind {
		case dataplane.PartEnvoyFilter:
			checks = append(checks, have.extended(p, e.Extensions[p.File]))
			continue
		case dataplane.PartWasmFile:
			checks = append(checks, runsModule(have.extended(p, e.Extensions[wasmExtension(p)]), passed))
			continue
		}
		if p.Kind == dataplane.PartJWTToken {
			p.Kind = dataplane.PartJWT // identical configuration; the counters distinguish them
		}
		known = append(known, p.String())
	}
	var got []string
	for _, p := range have.parts {
		// A user's EnvoyFilter may add anything that a part consists of, and a mesh may
		// have some parts itself, which is irrelevant to studies that request none. The
		// mesh's own tracing is disabled.
		own := len(known) < len(want)
		ambient := !e.FiltersVary || own
		if !ambient || isOurs(p.Kind) || p.Kind == dataplane.PartTracing && !own || slices.Contains(known, p.String()) {
			got = append(got, p.String())
		}
	}
	slices.Sort(known)
	slices.Sort(got)
	detail := fmt.Sprintf("additional parts in the proxy: %s; the cell sets %s", orNone(strings.Join(got, ", ")), orNone(strings.Join(known, ", ")))
	if len(have.refused) > 0 {
		detail += "; the proxy refused configuration: " + strings.Join(have.refused, "; ")
	}
	checks = append(checks, record.Check{Name: name, OK: slices.Equal(got, known) && len(have.refused) == 0, Detail: detail})
	for _, part := range want {
		checks = append(checks, counted(part, want, e, passed)...)
	}
	return checks
}

// counted checks a part by its counters.
func counted(p dataplane.Part, all []dataplane.Part, e mesh.Evidence, seen *mesh.Passed) []record.Check {
	low, high := float64(e.Requests), float64(e.Requests+e.Unknown)
	expect := func(got float64, times float64, what string) record.Check {
		return mesh.Expect("server-"+p.Kind, got, (low+high)/2*times, (high-low)/2*times, what)
	}
	stat := func(prefix, suffix string) float64 { return sum(seen.Rise, prefix, suffix) }
	switch p.Kind {
	case dataplane.PartLua, dataplane.PartLuaNoop, dataplane.PartPlanted:
		own := ".lua." + statPrefix(p.Kind)
		checks := []record.Check{expect(stat("http.inbound_", own+".executions"), 1, "runs of the script")}
		if failed := stat("http.inbound_", own+".errors"); failed > 0 {
			checks = append(checks, record.Check{Name: "server-" + p.Kind, Detail: fmt.Sprintf("%.0f runs of the script failed", failed)})
		}
		if p.Kind == dataplane.PartLua {
			checks = append(checks, expect(e.Worker["lua_header"], 1, "requests that reached the worker with the script's header"))
		}
		return checks
	case dataplane.PartWasm:
		return []record.Check{expect(e.Worker["wasm_header"], 1, "requests that reached the worker with the filter's header")}
	case dataplane.PartWasmNoop:
		active := seen.Total[wasmVMs]
		return []record.Check{{Name: "server-" + p.Kind, OK: active > 0, Detail: fmt.Sprintf("%.0f Wasm VMs run in the proxy", active)}}
	case dataplane.PartAuthzAllow, dataplane.PartAuthzDeny:
		filters := 0
		for _, other := range all {
			if other.Kind == dataplane.PartAuthzAllow || other.Kind == dataplane.PartAuthzDeny {
				filters++
			}
		}
		return []record.Check{expect(stat("http.inbound_", ".rbac.allowed"), float64(filters), "requests that policies allowed")}
	case dataplane.PartJWT, dataplane.PartJWTToken:
		// Requests that need no token do not count as allowed.
		return []record.Check{expect(stat("http.inbound_", ".jwt_authn.allowed"), 1, "requests that the JWT filter passed")}
	case dataplane.PartRateLimit:
		return []record.Check{expect(stat(statPrefix(p.Kind)+".", ".ok"), 1, "requests within the rate limit")}
	case dataplane.PartAuthzGRPC, dataplane.PartAuthzHTTP, dataplane.PartGlobalLimit:
		return []record.Check{answeredCheck("server-", p.Kind, e, seen)}
	case dataplane.PartOTLPLog:
		// A thread sends its entries once a second, or when its buffer is full. Those of
		// the last second, and thus all of a short trial, may be counted after it.
		const own = "access_logs.open_telemetry_access_log."
		sent, dropped := stat(own, "logs_written"), stat(own, "logs_dropped")
		ever := sum(seen.Total, own, "logs_written")
		held := min(entriesHeld*max(1, seen.Total["server.concurrency"]), 2*low/e.SentS)
		short := e.SentS < 2 && low <= held
		check := record.Check{Name: "server-" + p.Kind, OK: dropped == 0 && ever > 0 && (short || sent > 0 && sent >= low/2-held),
			Detail: fmt.Sprintf("%.0f access log entries sent for %d requests, %.0f since the proxy started, %.0f dropped", sent, e.Requests, ever, dropped)}
		if ever == 0 && short {
			check.Detail += "; the proxy may buffer so few for a second: use a window of at least 2 s"
		}
		return []record.Check{check}
	case dataplane.PartTracing:
		// Spans are sent in batches, not per request.
		sent := seen.Rise["tracing.opentelemetry.spans_sent"]
		return []record.Check{{Name: "server-" + p.Kind, OK: sent > 0 && sent >= low/2-spansHeld, Detail: fmt.Sprintf("%.0f spans sent for %d requests", sent, e.Requests)}}
	}
	return nil
}

// spansHeld is the maximum number of spans that a proxy buffers over all its threads.
const spansHeld = 100

// entriesHeld is the maximum number of access log entries that a proxy thread buffers: its
// buffer has 16 KiB, and [otlpLogBody] takes at least 160 bytes.
const entriesHeld = 100

// wasmVMs counts the VMs of a proxy with a module that V8 accepted.
const wasmVMs = "wasm.envoy.wasm.runtime.v8.active"

// runsModule amends the check of a user's Wasm module: a proxy's configuration also has modules
// that V8 rejected.
func runsModule(check record.Check, by *mesh.Passed) record.Check {
	if check.OK && by.Total[wasmVMs] == 0 {
		check.OK, check.Detail = false, "the proxy did not load the module: no Wasm VM runs in it, and its log says why (\"failed to load\")"
	}
	return check
}

// wasmExtension returns the name of a part's extension.
func wasmExtension(p dataplane.Part) string { return p.Kind + "." + p.File }

// extended checks that a user's EnvoyFilter is in force: nothing that it adds by name is
// missing. problem is why it could not be applied.
func (f partsIn) extended(p dataplane.Part, added mesh.Extended) record.Check {
	check := record.Check{Name: "server-" + p.String(), Detail: added.Problem}
	if added.Problem != "" {
		return check
	}
	var missing []string
	for _, name := range added.Names {
		if !f.names[name] {
			missing = append(missing, name)
		}
	}
	check.OK = len(missing) == 0 && len(f.refused) == 0
	ours := ourFilters + p.String()
	switch {
	case added.SHA256 != "" && f.modules[ours] != added.SHA256:
		check.OK = false
		check.Detail = fmt.Sprintf("the proxy's module has the SHA-256 digest %s, the study's %s", orNone(f.modules[ours]), added.SHA256)
	case added.SHA256 != "" && check.OK:
		check.Detail = "the proxy runs the module with the SHA-256 digest " + added.SHA256
	case len(missing) > 0:
		check.Detail = "the proxy's configuration lacks what the EnvoyFilter adds: " + strings.Join(missing, ", ")
	case len(f.refused) > 0:
		check.Detail = "the proxy refused configuration: " + strings.Join(f.refused, "; ")
	default:
		check.Detail = "the proxy's configuration has what the EnvoyFilter adds or changes"
	}
	return check
}
