package main

// world is a mesh with one limit, or without any.
type world struct {
	name string
	// planted is the rule that must name the limit; "" if there is none.
	planted string
	// settings are levels of factors, and limit the levels that plant the limit.
	settings map[string]string
	limit    map[string]string
	// control holds fields of the study's section control; it is nil for a study of the data
	// plane, whose other fields are in rest.
	control map[string]string
	rest    string
	// byHand are levels equivalent to the manual action that the advice asks for. They are
	// applied instead of the advised lever.
	byHand map[string]string
}

// small returns the mesh of most worlds, which leaves spare capacity on two cores.
func small(more ...string) map[string]string {
	out := map[string]string{"proxies": "100", "services": "80", "endpoints": "1", "namespaces": "2",
		"change": "virtualservice", "change_rate": "2"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// changes returns the usual changes of a trial.
func changes(more ...string) map[string]string {
	out := map[string]string{"changes": "12", "settle": "25s", "quiet": "500ms", "idle": "1s"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// levels returns pairs of factors and levels as a map.
func levels(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// worlds lists twelve worlds with one limit each, and three without.
var worlds = []world{
	{name: "debounce", planted: "debounce_long", settings: small("change_rate", "1"),
		control: changes("changes", "8"), limit: levels("debounce_after", "4s")},
	{name: "restless", planted: "debounce_restless", settings: small("change", "destinationrule", "change_rate", "14"),
		control: changes("changes", "170", "objects", "20"), limit: levels("debounce_max", "10s")},
	{name: "hasty", planted: "debounce_short", settings: small("change_rate", "12"),
		control: changes("changes", "90", "objects", "20"), limit: levels("debounce_after", "1ms")},
	{name: "cpu", planted: "cpu_limit", settings: small("change_rate", "1"), control: changes("changes", "8"),
		limit: levels("istiod_cpu", "200m")},
	{name: "memory", planted: "memory_limit", settings: small("change_rate", "1", "services", "200"),
		control: changes("changes", "8"), limit: levels("istiod_memory", "200Mi")},
	{name: "throttle", planted: "throttle", settings: small("change_rate", "1", "proxies", "120"),
		control: changes("changes", "8"), limit: levels("push_throttle", "1")},
	// A slow reader pauses three times in a push, for 0.6 s in total, and istiod waits for it if
	// the next push finds more than 64 KiB unread: changes arrive faster than that.
	{name: "slow-readers", planted: "slow_readers",
		settings: small("change_rate", "3", "services", "250", "proxies", "60"),
		control:  changes("changes", "24", "bad_share", "50%"),
		limit:    levels("clients", "slow-reader"), byHand: levels("clients", "good")},
	{name: "reconnects", planted: "reconnects", settings: small("change_rate", "1"),
		control: changes("changes", "8", "bad_share", "50%"),
		limit:   levels("clients", "reconnect-storm"), byHand: levels("clients", "good")},
	{name: "rejects", planted: "rejected", settings: small("change_rate", "1"),
		control: changes("changes", "8", "bad_share", "50%"),
		limit:   levels("clients", "rejects"), byHand: levels("clients", "good")},
	{name: "dns", planted: "dns_clusters", settings: small("change_rate", "1", "proxies", "40", "services", "20"),
		control: changes("changes", "8"),
		limit:   levels("service_entries", "300")},
	{name: "scope", planted: "no_scope", settings: small("change_rate", "0.5", "proxies", "40", "namespaces", "10"),
		control: changes("changes", "5"),
		limit:   levels("services", "900")},
	// If a sidecar takes 0.33 ms of CPU per request, this is 90% of the limit: a period's quota
	// runs out again and again, but requests are still served.
	{name: "sidecar-cpu", planted: "proxy_cpu",
		settings: levels("sidecars", "server", "rate", "135", "connections", "8", "mtls", "permissive"),
		rest:     "warmup: {min: 1s, max: 4s}\nwindow: 4s\nmeasures: [latency, cpu, pressure, threads]\nstop: none\n",
		limit:    levels("cpu_limit", "50m"), byHand: levels("cpu_limit", "2")},
	{name: "healthy-virtualservices", settings: small("change_rate", "1"), control: changes("changes", "8")},
	{name: "healthy-endpoints", settings: small("change", "endpoints-scale", "change_rate", "1", "endpoints", "2"),
		control: changes("changes", "8")},
	{name: "healthy-services", settings: small("change", "service", "change_rate", "1"),
		control: changes("changes", "8")},
}
