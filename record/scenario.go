package record

// Scenario is what a trial of resilience counted. What was written about each
// single request is in requests/TRIAL.jsonl.zst, what happened when in
// events.jsonl.
type Scenario struct {
	// StartNS is the zero of the timeline, by which the clients' schedules go;
	// EndNS is its end. Wall clock, nanoseconds since 1970.
	StartNS int64 `json:"start_unix_ns"`
	EndNS   int64 `json:"end_unix_ns"`
	// ReadyS is how long the trial's pods took from their creation until all
	// were ready, seconds.
	ReadyS float64 `json:"ready_s"`
	// Ledger says who wrote about requests: "" for the clients, both proxies of
	// each call and the workers; see LedgerInbound and the others.
	Ledger string `json:"ledger,omitempty"`
	// EndedBy says why the timeline ended before its end; "" if it did not.
	EndedBy string `json:"ended_by,omitempty"`
	// Pods are all that ever lived in the trial, clients too.
	Pods []ScenarioPod `json:"pods"`
	// Scheduled and the others are the clients' own account, all together:
	// scheduled = completed + failed + unfinished.
	Scheduled  int64            `json:"scheduled"`
	Completed  int64            `json:"completed"`
	Failed     map[string]int64 `json:"failed,omitempty"` // by kind, as package load names them
	Unfinished int64            `json:"unfinished"`
	// Lag is the delay that the clients themselves added.
	Lag Latency `json:"schedule_lag_us"`
	// Samples are looks at the services, about ten a second.
	Samples []ScenarioSample `json:"samples,omitempty"`
	// CPU and memory by part: control_plane, second_control_plane (of other revisions
	// that steps are about), machine, node_proxy (the proxies of nodes that carried the
	// requests, NodeProxies of them at its end), waypoint, node_agent (the trial's
	// NodeAgents together), and for each service "SERVICE.worker" and "SERVICE.proxy"
	// (clients are a service too), sums over pods; Memory is at the trial's end.
	CPU         map[string]CPU   `json:"cpu"`
	Memory      map[string]int64 `json:"memory_bytes"`
	NodeProxies int              `json:"node_proxies,omitempty"`
	// MeanNodeProxies is over how many of them their CPU was counted, the mean of that
	// time, where steps brought pods to nodes; 0: NodeProxies.
	MeanNodeProxies float64 `json:"mean_node_proxies,omitempty"`
	// CountedS is how long CPU was counted, seconds: from right before the timeline, once
	// all nodes have been read, until what its steps did is undone.
	CountedS float64 `json:"counted_s,omitempty"`
	// ClockErrorUS bounds the error of times that pods elsewhere wrote.
	ClockErrorUS float64 `json:"clock_error_us"`
}

// Who writes about requests, where it is not everybody.
const (
	// LedgerInbound: proxies about what they receive for their own pod, and
	// not about what they send.
	LedgerInbound = "inbound"
	// LedgerClients: the clients alone.
	LedgerClients = "clients"
	// LedgerEnds: the clients and the workers. What carries requests between them, on
	// nodes and before Services, knows connections or writes nothing.
	LedgerEnds = "ends"
)

// ScenarioPod is a pod of a service.
type ScenarioPod struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	IP      string `json:"ip"`
	Node    string `json:"node"`
	Sidecar bool   `json:"sidecar"`
	// ReadyNS is when an EndpointSlice first had it as ready, GoneNS when none
	// had it any longer; 0 for never. BackNS is when it was ready again.
	ReadyNS  int64 `json:"ready_unix_ns"`
	GoneNS   int64 `json:"gone_unix_ns,omitempty"`
	BackNS   int64 `json:"back_unix_ns,omitempty"`
	Restarts int32 `json:"restarts,omitempty"`
}

// ScenarioSample is one look.
type ScenarioSample struct {
	AtNS int64 `json:"at_unix_ns"`
	// Ready are endpoints by service, by the EndpointSlices.
	Ready map[string]int `json:"ready,omitempty"`
	// Ejected are endpoints by service that outlier detection has taken out:
	// the most that any proxy of a caller has.
	Ejected map[string]int `json:"ejected,omitempty"`
}
