package record

// Scenario is what a resilience trial counted. The per-request log is in
// requests/TRIAL.jsonl.zst, and the steps and changes are in events.jsonl.
type Scenario struct {
	// StartNS is the zero of the timeline, on which the clients' schedules are based;
	// EndNS is its end. Both are wall-clock Unix nanoseconds.
	StartNS int64 `json:"start_unix_ns"`
	EndNS   int64 `json:"end_unix_ns"`
	// ReadyS is the time in seconds from the creation of the trial's pods until all were
	// ready.
	ReadyS float64 `json:"ready_s"`
	// Ledger says which stations logged requests: "" for the clients, both proxies of
	// each call and the workers; see LedgerInbound and the others.
	Ledger string `json:"ledger,omitempty"`
	// EndedBy is why the timeline ended early; "" if it did not.
	EndedBy string `json:"ended_by,omitempty"`
	// Pods lists every pod that lived during the trial, including clients.
	Pods []ScenarioPod `json:"pods"`
	// Scheduled and the following fields are the account of all clients together:
	// scheduled = completed + failed + unfinished.
	Scheduled  int64            `json:"scheduled"`
	Completed  int64            `json:"completed"`
	Failed     map[string]int64 `json:"failed,omitempty"` // by kind, as package load names them
	Unfinished int64            `json:"unfinished"`
	// Lag is the delay that the clients themselves introduced.
	Lag Latency `json:"schedule_lag_us"`
	// Samples has the state of the services, sampled about ten times a second.
	Samples []ScenarioSample `json:"samples,omitempty"`
	// Gateways has the pods of the graph's gateway, by name.
	Gateways []ScenarioGateway `json:"gateways,omitempty"`
	// CPU and Memory are by part: control_plane, second_control_plane (of other revisions that
	// steps involve), machine, node_proxy (the proxies of nodes that carried the requests,
	// NodeProxies of them), waypoint, node_agent (the trial's NodeAgents
	// together), and for each service (including clients) "SERVICE.worker" and
	// "SERVICE.proxy", summed over pods. Memory is taken at the trial's end.
	CPU         map[string]CPU   `json:"cpu"`
	Memory      map[string]int64 `json:"memory_bytes"`
	NodeProxies int              `json:"node_proxies,omitempty"`
	// CountedS is how long CPU was counted, in seconds: from right before the timeline,
	// once all nodes have been read, until the effects of its steps are undone.
	CountedS float64 `json:"counted_s,omitempty"`
	// ClockErrorUS bounds the error of times recorded by pods elsewhere.
	ClockErrorUS float64 `json:"clock_error_us"`
	// Planes has the control planes that steps started beside the installed one.
	Planes []ScenarioPlanes `json:"planes,omitempty"`
}

// ScenarioPlanes is the installed control plane and another that a step started.
type ScenarioPlanes struct {
	Step   string        `json:"step"`
	First  ScenarioPlane `json:"first"` // the installed one
	Second ScenarioPlane `json:"second"`
	// Seconds is how long both ran and their use was counted: from when the second one served
	// until its removal or the timeline's end; 0 if it was not counted.
	Seconds float64 `json:"s,omitempty"`
	Removed bool    `json:"removed,omitempty"` // within the timeline
	// Compared has the differences in what both send the same proxies, if they are of different
	// versions.
	Compared *PlaneConfigs `json:"compared,omitempty"`
}

// ScenarioPlane is a control plane and its use while there were two.
type ScenarioPlane struct {
	Revision    string `json:"revision"`
	Version     string `json:"version"`
	CPU         CPU    `json:"cpu"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"` // at the end of that time
}

// PlaneConfigs compares what two control planes send the same proxies.
type PlaneConfigs struct {
	Proxies     []string           `json:"proxies"` // pods whose configuration was requested from both
	Resources   int                `json:"resources"`
	Differing   int                `json:"differing"` // resources with different contents, or that one of them lacks
	Differences []ConfigDifference `json:"differences,omitempty"`
}

// ConfigDifference is a place in resources of a type at which configurations differ.
type ConfigDifference struct {
	Type      string `json:"type"`
	Path      string `json:"path,omitempty"`   // of the field; "" if one lacks the resource
	First     string `json:"first,omitempty"`  // the value in JSON; "" for none
	Second    string `json:"second,omitempty"` // likewise
	Resources int    `json:"resources"`        // that differ there
	Example   string `json:"example"`          // name of one
}

// Stations that log requests, if not all do.
const (
	// LedgerInbound: proxies log the requests received for their own pod, but not those
	// it sends.
	LedgerInbound = "inbound"
	// LedgerClients: only the clients.
	LedgerClients = "clients"
	// LedgerEnds: the clients and the workers. The proxies between them, on nodes and in
	// front of Services, log connections or nothing.
	LedgerEnds = "ends"
)

// ScenarioPod is a pod of a service.
type ScenarioPod struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	IP      string `json:"ip"`
	Node    string `json:"node"`
	Sidecar bool   `json:"sidecar"`
	// Zone is its node's, as REGION/ZONE; "" if zones do not matter in the cell.
	Zone string `json:"zone,omitempty"`
	// ReadyNS is when an EndpointSlice first listed the pod as ready, and GoneNS when
	// none did any more; 0 for never. BackNS is when it was ready again.
	ReadyNS  int64 `json:"ready_unix_ns"`
	GoneNS   int64 `json:"gone_unix_ns,omitempty"`
	BackNS   int64 `json:"back_unix_ns,omitempty"`
	Restarts int32 `json:"restarts,omitempty"`
}

// ScenarioGateway is what a pod of a gateway counted during the timeline, read once a second while
// the pod was not being stopped. Connections are those of clients; Closed are those that the pod
// closed itself.
type ScenarioGateway struct {
	Pod         string `json:"pod"`
	Connections int64  `json:"connections"`
	Closed      int64  `json:"closed"`
	Requests    int64  `json:"requests"`
	// Dropped, in findings, counts closed connections beyond one for each request if clients open
	// one for each, otherwise all that are closed.
	Dropped int64 `json:"dropped,omitempty"`
}

// ScenarioSample is one sample of the services' state.
type ScenarioSample struct {
	AtNS int64 `json:"at_unix_ns"`
	// Ready counts ready endpoints by service, according to the EndpointSlices.
	Ready map[string]int `json:"ready,omitempty"`
	// Ejected counts endpoints by service that outlier detection has ejected: the maximum
	// over the callers' proxies.
	Ejected map[string]int `json:"ejected,omitempty"`
}
