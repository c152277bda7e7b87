package study

import "github.com/meshtrial/meshtrial/record"

// UnitMilliCPU is a thousandth of a CPU.
const UnitMilliCPU = "mCPU"

// UnitAttempts counts attempts for each request.
const UnitAttempts = "attempts/request"

// Parts of studies of resilience that findings tell apart by their place in
// the graph, beside all clients' and all services' proxies.
const (
	PartEntryProxy = "entry_proxy" // of the service that the clients call, if it calls others: each request passes it twice
	PartLastProxy  = "last_proxy"  // of the services that call no others
)

// FindingProxyRequest is the CPU time that a proxy spends on a request.
const FindingProxyRequest = "cpu_proxy_per_request"

// scenarioFindings are the findings of studies of resilience over a whole
// trial, in the order reports use; what single windows show stands in a
// report's tables and in assertions. Those compared with a baseline have a
// second one whose name ends in _overhead.
var scenarioFindings = func() []controlFinding {
	var out []controlFinding
	add := func(name, unit, doc string) { out = append(out, controlFinding{name, unit, doc}) }
	compared := func(name, unit, doc string) {
		add(name, unit, doc)
		add(name+"_overhead", unit, "Its difference to the baseline.")
	}
	compared("error_share", UnitRatio, "Requests that failed, of all that were scheduled.")
	for _, p := range []string{"p50", "p90", "p99", "p999"} {
		compared("latency_"+p, UnitMicroseconds, "Latency of answered requests, by intended time.")
	}
	compared("failed_requests", UnitRequests, "Requests that failed.")
	compared("attempt_ratio", UnitAttempts, "Attempts of the clients' proxies for each request.")
	compared("hidden_failures", UnitRequests, "Attempts that failed and were made again.")
	compared("phantom_attempts", UnitRequests, "Attempts at an endpoint that was already gone.")
	compared("longest_failing_run", UnitMicroseconds, "Longest time in which no request succeeded while some were due.")
	add("time_to_detect", UnitMicroseconds, "From a step's begin to the first request that failed: the longest over steps.")
	add("time_to_recover", UnitMicroseconds, "From a step's begin to the last request that failed before the next step: the longest over steps.")
	add("time_to_eject", UnitMicroseconds, "From a step's begin until a proxy took the endpoint out: the longest over steps.")
	add("unreconciled_requests", UnitRequests, "Requests of which client, proxies and workers do not tell the same story.")
	compared("cpu_control_plane", UnitMilliCPU, "CPU of the control plane, in thousandths of a CPU.")
	for _, part := range []string{record.PartClientProxy, record.PartServerProxy, PartEntryProxy, PartLastProxy, record.PartMachine} {
		compared("cpu_"+part, UnitMilliCPU, "CPU of this part, in thousandths of a CPU; of proxies the mean of one.")
	}
	add(FindingProxyRequest, UnitPerRequest, "CPU time that a proxy spends on a request which passes it, the mean over all proxies.")
	compared("memory_control_plane", UnitBytes, "Memory of the control plane.")
	for _, part := range []string{record.PartClientProxy, record.PartServerProxy, PartEntryProxy, PartLastProxy} {
		compared("memory_"+part, UnitBytes, "Proportional set size of a proxy, the mean of one.")
	}
	add(FindingMoneyCores, UnitCores, "Cores that the proxies of the section money's mesh use.")
	for _, name := range []string{FindingMoneyCPU, FindingMoneyMemory, FindingMoneyMonth} {
		add(name, unitMoney, "What those cost a month, or their memory, or both.")
	}
	return out
}()
