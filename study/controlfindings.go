package study

import "github.com/meshtrial/meshtrial/record"

// controlFinding is a finding of control-plane studies.
type controlFinding struct{ name, unit, doc string }

// XDSTypes are the types of resources that findings tell apart, by their
// short names and in the order istiod pushes them.
func XDSTypes() []string { return []string{"cds", "eds", "lds", "rds", "sds", "nds", "ecds"} }

// controlFindings are the findings of control-plane studies, in the order
// reports use. Those compared with a baseline have a second one whose name
// ends in _overhead.
var controlFindings = func() []controlFinding {
	var out []controlFinding
	add := func(name, unit, doc string) { out = append(out, controlFinding{name, unit, doc}) }
	compared := func(name, unit, doc string) {
		add(name, unit, doc)
		add(name+"_overhead", unit, "Its difference to the baseline.")
	}
	for _, p := range []string{"p50", "p90", "p99", "p999", "max"} {
		compared("convergence_"+p, UnitMicroseconds, "From commit to a proxy's acknowledgement, over all changes and proxies.")
	}
	for _, edge := range []struct{ name, doc string }{
		{"first", "Until the first proxy has acknowledged a change"},
		{"median", "Until half of the proxies have"},
		{"last", "Until all that ever will have"},
	} {
		compared("convergence_"+edge.name, UnitMicroseconds, edge.doc+": median over changes.")
		add("convergence_"+edge.name+"_p90", UnitMicroseconds, "The same at the 90th percentile over changes; it takes 10 of them.")
		add("convergence_"+edge.name+"_p99", UnitMicroseconds, "At the 99th percentile; it takes 100 changes.")
		add("convergence_"+edge.name+"_p999", UnitMicroseconds, "At the 99.9th percentile; it takes 1,000 changes.")
		add("convergence_"+edge.name+"_max", UnitMicroseconds, "Of the change that took longest.")
	}
	for _, p := range []string{"p50", "p90", "p99", "max"} {
		add("received_"+p, UnitMicroseconds, "From commit until a proxy has read the change.")
	}
	for _, p := range []string{"p50", "p90", "p99", "p999", "max"} {
		add("applied_"+p, UnitMicroseconds, "From commit until a real Envoy has the change in force, as polls of its admin interface show it.")
	}
	compared("reported_convergence_p99", UnitMicroseconds, "What istiod's own pilot_proxy_convergence_time says, as histogram_quantile reads it.")
	add("hidden_convergence_p99", UnitMicroseconds, "What istiod's own figure leaves out: convergence_p99 less reported_convergence_p99.")
	for _, s := range record.Stages() {
		add("stage_"+s, UnitMicroseconds, "Mean of this part of the way.")
	}
	add("stage_residual", UnitMicroseconds, "Mean from commit to acknowledgement, less the sum of the stages: by how much istiod's timers and its log disagree, and what nobody measures.")
	add("stage_residual_share", UnitRatio, "Share of the pairs of a change and a proxy that their own stages miss by more than "+record.ResidualRule("their time")+": errors either way, which cancel in stage_residual.")
	compared("pushes", UnitPushes, "istiod's pilot_xds_pushes in the window, all types.")
	for _, t := range XDSTypes() {
		add("pushes_"+t, UnitPushes, "The same of one type.")
	}
	compared("pushes_per_change", UnitPushesPerChange, "pushes for each change committed.")
	compared("push_bytes_per_change", UnitBytesPerChange, "What proxies received for each change committed.")
	add("identical_share", UnitRatio, "Share of those bytes in resources that the proxy had just so already.")
	compared("config_bytes", UnitBytes, "Configuration that a proxy holds: the median over proxies.")
	for _, t := range XDSTypes() {
		add("config_bytes_"+t, UnitBytes, "The same of one type.")
	}
	add("scope_config_bytes", UnitBytes, "Configuration that a proxy of scope_namespace holds: the median over those.")
	for _, t := range XDSTypes() {
		add("scope_config_bytes_"+t, UnitBytes, "The same of one type.")
	}
	add("join_time", UnitMicroseconds, "From the first request of a new proxy in scope_namespace to the last response of its first configuration.")
	add("join_bytes", UnitBytes, "What that proxy received.")
	for _, t := range XDSTypes() {
		add("join_bytes_"+t, UnitBytes, "The same of one type.")
		add("join_resources_"+t, UnitResources, "Resources in those responses.")
	}
	add("join_cache_hit_share", UnitRatio, "Share of istiod's reads of its cache meanwhile that found the resource there; needs PILOT_XDS_CACHE_STATS.")
	add("xds_cache_hit_share", UnitRatio, "The same in the window.")
	add("config_dump_bytes", UnitBytes, "Config dump of a real sidecar in scope_namespace, JSON, without endpoints; needs real_pods.")
	compared("istiod_cpu_per_change", UnitPerChange, "istiod's CPU time in the window, less what it uses idle (median of the cell's trials), for each change committed.")
	compared("istiod_cpu_idle", UnitCores, "istiod's CPU before the first change, with all proxies connected.")
	compared("istiod_memory", UnitBytes, "istiod's memory at the end of the window.")
	add("istiod_heap", UnitBytes, "Memory in use on istiod's heap at the end of the window.")
	add("istiod_goroutines", UnitGoroutines, "istiod's goroutines at the end of the window.")
	compared("alloc_bytes_per_change", UnitBytesPerChange, "What istiod allocated for each change committed.")
	add("alloc_bytes_per_second", UnitBytesPerSecond, "What istiod allocated a second in the window.")
	compared("apiserver_cpu_per_change", UnitPerChange, "kube-apiserver's CPU time in the window, less what it uses idle (median of the cell's trials), for each change committed.")
	add("apiserver_cpu_idle", UnitCores, "kube-apiserver's CPU before the first change.")
	add("simulator_cpu_share", UnitRatio, "CPU time of the simulated proxies over istiod's.")
	compared("stale_proxy_seconds_per_change", UnitSecondsPerChange, "Time that proxies held endpoints already gone, for each change committed.")
	compared("phantom_requests", UnitRequests, "Real requests of which an attempt went to an endpoint already gone, a trial.")
	add("phantom_share", UnitRatio, "Their share of all requests.")
	compared("phantom_failures", UnitRequests, "Those of them that failed for the caller, a trial.")
	add("phantom_failure_share", UnitRatio, "Their share of all requests.")
	add("phantom_hidden", UnitRequests, "Those that failed at an endpoint already gone and were saved by the sidecar's retry, a trial.")
	compared("phantom_last", UnitMicroseconds, "How long after an endpoint was gone the last attempt went to it: the longest of a trial.")
	compared("traffic_failures", UnitRequests, "Real requests that failed for the caller for whatever reason, or had no end, a trial.")
	add("traffic_latency_p99", UnitMicroseconds, "99th percentile of the real requests' latency, by intended time.")
	add("traffic_residual", UnitRequests, "Failures that the generator saw, less those that the caller's sidecar knows of, a trial.")
	add("missed", UnitMissed, "Pairs of a change and a proxy that needed it and never had it, a trial.")
	add("unacked", UnitMissed, "Pairs of a change and a proxy that was sent it and never acknowledged it, a trial.")
	add("failed_changes", UnitChanges, "Changes that the API server did not take, a trial.")
	return out
}()
