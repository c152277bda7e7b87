package record

// Marker identifies a change in a proxy's configuration: text that resources of one type
// contain, or no longer contain, once the change has arrived. Every change of a study has its
// own text (a name, an address, a header value), so no two can be confused.
type Marker struct {
	Change int `json:"change"` // index of the change within its trial
	// Type is the short name of the type of resource that shows the change: cds, eds, lds,
	// rds, nds, sds or ecds; wds or wads for ztunnels.
	Type string `json:"type"`
	// Resource is the name of the only resource that shows the change; "" if any may.
	Resource string `json:"resource,omitempty"`
	// Text occurs in a resource's body or name.
	Text string `json:"text"`
	// Gone means that the change takes effect when Text disappears: the resource arrives
	// without it, or is removed.
	Gone bool `json:"gone,omitempty"`
	// GoneNS is when our own watch saw that an endpoint removed by the change had disappeared
	// from its Service's EndpointSlices, in Unix nanoseconds. It is known only after the
	// change; if it is 0, the commit counts instead.
	GoneNS int64 `json:"gone_unix_ns,omitempty"`
}

// OfZtunnels reports whether only ztunnels show the marker.
func (m Marker) OfZtunnels() bool { return m.Type == "wds" || m.Type == "wads" }

// Event is a line of events.jsonl: either one change, with when it was due, when it happened
// and when each proxy received it, or the start or end of a step of a timeline. Times are
// wall-clock Unix nanoseconds of the machine that runs the study. Times from proxies elsewhere
// are corrected by the measured offset of their clocks.
type Event struct {
	Schema int    `json:"schema"`
	Trial  string `json:"trial"`
	Change int    `json:"change"` // from 0, in the order planned
	Kind   string `json:"kind"`   // of the change, as in the factor change
	Op     string `json:"op"`     // create, update, delete, scale, patch
	Object string `json:"object"` // Kind/namespace/name
	// Markers identify the change; a change that must not show (no-op) has none.
	Markers []Marker `json:"markers,omitempty"`

	PlannedNS int64 `json:"planned_unix_ns"`
	SentNS    int64 `json:"sent_unix_ns"` // when the request to the API server was sent
	// CommittedNS is when the change is first known to have been committed: the earlier of
	// AnsweredNS and WatchedNS. For endpoints, which controllers derive from the change, it is
	// WatchedNS.
	CommittedNS int64 `json:"committed_unix_ns"`
	// AnsweredNS is when the API server's response arrived; 0 if there was none, or if another
	// instant counts.
	AnsweredNS int64 `json:"answered_unix_ns,omitempty"`
	// WatchedNS is when our own watch had seen the entire change; 0 if it did not.
	WatchedNS int64 `json:"watched_unix_ns,omitempty"`
	// Error is why the API server rejected the change. No proxy sees a rejected change.
	Error string `json:"error,omitempty"`
	// Step names the entry of a timeline that this event starts or ends; "" for a change of
	// configuration. For a step, CommittedNS is when the action was carried out, WatchedNS is
	// when its effect was observed independently, and Proof describes that observation.
	Step  string `json:"step,omitempty"`
	Proof string `json:"proof,omitempty"`

	// Expected is the number of proxies whose scope includes the change.
	Expected int `json:"expected"`
	// Seen records when proxies received the change.
	Seen Sightings `json:"seen"`
	// Missed lists proxies that needed the change and never received it.
	Missed []int32 `json:"missed,omitempty"`
	// Superseded counts proxies that received a later change's configuration together with
	// this one's, so that this change never showed alone.
	Superseded int `json:"superseded,omitempty"`
	// Served is the outcome of requests through a real gateway for the route that the change
	// creates; nil if none were sent.
	Served *Served `json:"served,omitempty"`
}

// Sightings holds columns with one entry per proxy that received a change, in microseconds
// after Event.CommittedNS. Values may be slightly below zero because the response and our own
// watch take time too.
type Sightings struct {
	Proxy      []int32 `json:"proxy"`
	ReceivedUS Times   `json:"received_us"`
	AckedUS    Times   `json:"acked_us"` // Never: not acknowledged
	// AppliedUS is when the configuration was in force in a real Envoy. It is absent without
	// real proxies, and Never for simulated ones.
	AppliedUS Times `json:"applied_us,omitempty"`
}

// Of returns the sightings of the proxies that satisfy proxy.
func (s Sightings) Of(proxy func(int32) bool) Sightings {
	out := Sightings{Proxy: []int32{}, ReceivedUS: Times{}, AckedUS: Times{}}
	for i, p := range s.Proxy {
		if !proxy(p) {
			continue
		}
		out.Proxy, out.ReceivedUS, out.AckedUS = append(out.Proxy, p), append(out.ReceivedUS, s.ReceivedUS[i]), append(out.AckedUS, s.AckedUS[i])
		if s.AppliedUS != nil {
			out.AppliedUS = append(out.AppliedUS, s.AppliedUS[i])
		}
	}
	return out
}

// Control is what a control-plane trial counted in its window.
type Control struct {
	Proxies     int `json:"proxies"`            // simulated sidecars connected
	Gateways    int `json:"gateways"`           // simulated gateways connected
	Ztunnels    int `json:"ztunnels,omitempty"` // simulated ztunnels connected
	RealProxies int `json:"real_proxies"`       // Envoys connected
	Changes     int `json:"changes"`            // planned
	Committed   int `json:"committed"`          // accepted by the API server
	// Installed has the values of the levers that the cell leaves as installed, as levels
	// where they match one; absent if the cell names every lever.
	Installed Cell `json:"installed,omitempty"`
	// InstalledRequests has, by factor, the installed values of the requests in Installed that
	// a limit named by the cell has changed. Installed has the values in force.
	InstalledRequests Cell `json:"installed_requests,omitempty"`

	// Istiod is the increase of istiod's own metrics, by series in Prometheus notation
	// (`pilot_xds_pushes{type="cds"}`), summed over replicas.
	Istiod map[string]float64 `json:"istiod"`
	// IstiodGauges has the values of gauges at the end of the window.
	IstiodGauges map[string]float64 `json:"istiod_gauges,omitempty"`
	// ConnectedBefore is the number of proxies connected at the start of the window, as istiod
	// counts them; nil if istiod did not report it. IstiodGauges has the number at the end.
	ConnectedBefore *int `json:"connected_before,omitempty"`
	// Missing lists metrics that this version of istiod does not have.
	Missing []string `json:"missing_metrics,omitempty"`
	// Stages has the mean durations of the stages between a change and a proxy, in order.
	Stages []Stage `json:"stages,omitempty"`
	// MissingStages names the stages that were not measured.
	MissingStages []string `json:"missing_stages,omitempty"`
	// Unexplained counts the pairs whose individual stages do not add up, which the means of
	// the stages can hide; nil if this was not checked.
	Unexplained *Unexplained `json:"unexplained,omitempty"`
	// Wire is what the simulated proxies received in the window, by type.
	Wire map[string]Wire `json:"wire"`
	// Config is the size of the configuration that one proxy holds, by type: the median over
	// proxies at the end of the window.
	Config map[string]int64 `json:"config_bytes,omitempty"`
	// ZtunnelWire is the simulated ztunnels' share of Wire. ZtunnelConfig is what one of them
	// holds, which Config leaves out. Both are nil without ztunnels.
	ZtunnelWire   map[string]Wire  `json:"ztunnel_wire,omitempty"`
	ZtunnelConfig map[string]int64 `json:"ztunnel_config_bytes,omitempty"`
	// ScopeConfig is like Config for the proxies in the namespace to which a Sidecar of scope
	// namespace or workload applies; nil if there are none.
	ScopeConfig map[string]int64 `json:"scope_config_bytes,omitempty"`
	// Join describes how one more proxy in that namespace connected after the window; nil if
	// none did.
	Join *Join `json:"join,omitempty"`
	// Holdings has the configuration that individual proxies held at the end of the trial, and
	// its owners: a real proxy's in every trial that has one, simulated proxies' once per
	// cell.
	Holdings []Holding `json:"holdings,omitempty"`

	// Idle is istiod's CPU during IdleSeconds just before the first change, with all proxies
	// connected.
	Idle        CPU     `json:"idle_cpu"`
	IdleSeconds float64 `json:"idle_s"`
	// APIServer is kube-apiserver's CPU in the window, which lasts APIServerSeconds, from its
	// own metrics; nil if access to them is denied. APIServerIdle is the same for the
	// APIServerIdleSeconds before it, without changes; nil if not measured. Neither includes
	// the cost of reading the metrics.
	APIServer            *CPU    `json:"apiserver_cpu,omitempty"`
	APIServerSeconds     float64 `json:"apiserver_s,omitempty"`
	APIServerIdle        *CPU    `json:"apiserver_idle_cpu,omitempty"`
	APIServerIdleSeconds float64 `json:"apiserver_idle_s,omitempty"`
	// Simulator is the CPU of the simulated sidecars in the window.
	Simulator CPU `json:"simulator_cpu"`
	// SimulatorLag is the delay with which the simulator read arrived data, at each quantile.
	// With several simulators it is the maximum.
	SimulatorLag Quantiles `json:"simulator_lag_us"`
	// Simulators has the pods of the simulated proxies, if there are several.
	Simulators []Simulator `json:"simulators,omitempty"`
	// Sidecars is the resource use of real sidecars; nil unless the study measures it.
	Sidecars *Sidecars `json:"sidecars,omitempty"`
	// StaleProxySeconds is the time during which proxies held endpoints that were already
	// gone, summed over endpoints and over all proxies except ztunnels.
	StaleProxySeconds float64 `json:"stale_proxy_s"`
	// Traffic is the outcome of real requests; nil if none were sent.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Gateway describes how requests through a real gateway were sent; nil if none were.
	Gateway *Gateway `json:"gateway,omitempty"`
	// Attached describes what the status of a Gateway reported about its routes; nil if it was
	// not watched.
	Attached *Attached `json:"attached,omitempty"`
	// Disruption is what happened after the window; nil without one.
	Disruption *Disruption `json:"disruption,omitempty"`
	// Reconnects counts the reconnects of simulated sidecars in the window, by reason.
	Reconnects map[string]int64 `json:"reconnects,omitempty"`
	// Life identifies istiod's containers in a soak, and SidecarLife those of the real
	// sidecars. Windows with different values belong to different lives.
	Life        string `json:"life,omitempty"`
	SidecarLife string `json:"sidecar_life,omitempty"`
	// HeapBytes is istiod's heap by its own metrics, at the end of the window.
	HeapBytes int64 `json:"heap_bytes,omitempty"`
	// LiveBytes is the heap in use after the last garbage collection, derived from the size at
	// which Go starts the next one; 0 if istiod does not report it.
	LiveBytes  int64 `json:"live_bytes,omitempty"`
	AllocBytes int64 `json:"alloc_bytes,omitempty"` // allocated in the window
	Goroutines int64 `json:"goroutines,omitempty"`
	// Profiles are profiles of istiod, taken after the window while the changes were repeated,
	// in one trial of each cell.
	Profiles []Profile `json:"profiles,omitempty"`
}

// IsZtunnel reports whether a proxy, numbered as in sightings, is a simulated ztunnel.
// Simulated sidecars come first, then simulated gateways, simulated ztunnels and real proxies.
func (c *Control) IsZtunnel(proxy int32) bool {
	first := c.Proxies + c.Gateways
	return int(proxy) >= first && int(proxy) < first+c.Ztunnels
}

// Profile is a profile of one replica of istiod, taken while changes were made.
type Profile struct {
	Replica int    `json:"replica"`
	Kind    string `json:"kind"` // cpu, mutex, block, heap
	Unit    string `json:"unit"` // of all following values: nanoseconds or bytes
	Total   int64  `json:"total"`
	// Seconds is the duration of the profile.
	Seconds float64 `json:"s"`
	// File is the profile's name under profiles/; "" if the profile is empty.
	File string `json:"file,omitempty"`
	// Flat has the top functions by their own cost, Cumulative those by cost including
	// callees.
	Flat       []ProfileCost `json:"flat"`
	Cumulative []ProfileCost `json:"cumulative"`
}

// ProfileCost is one function's share of a profile, in its unit.
type ProfileCost struct {
	Function   string `json:"function"`
	Flat       int64  `json:"flat"`       // in the function itself
	Cumulative int64  `json:"cumulative"` // including all callees
}

// Stage is one stage between a change and a proxy's acknowledgement.
type Stage struct {
	Name   string  `json:"name"` // watch, debounce, push_context, queue, generate, wire, ack
	MeanUS float64 `json:"mean_us"`
	// Source is the data source of the stage.
	Source string `json:"source"`
	// CheckUS is the value of a second source, CheckSource its name; absent if there is none.
	CheckUS     *float64 `json:"check_us,omitempty"`
	CheckSource string   `json:"check_source,omitempty"`
}

// Unexplained is the difference between the times of individual change-proxy pairs and the
// sums of their own stages.
type Unexplained struct {
	Pairs int `json:"pairs"` // examined: those that were acknowledged
	// Beyond counts the pairs whose difference exceeds [MaxResidualUS] of their own time, in
	// either direction. Unlogged counts those among them that istiod's log does not cover from
	// end to end.
	Beyond   int `json:"beyond"`
	Unlogged int `json:"beyond_unlogged"`
	// LargestUS is the largest such difference, in microseconds; negative if the stages exceed
	// the elapsed time.
	LargestUS float64 `json:"largest_us"`
}

// Names of stages, in order.
const (
	StageWatch       = "watch"        // from commit until istiod receives the event
	StageDebounce    = "debounce"     // until istiod begins the push
	StagePushContext = "push_context" // computing what all proxies share
	StageQueue       = "queue"        // until a proxy's turn
	StageGenerate    = "generate"     // generating its resources
	StageWire        = "wire"         // until the proxy has read its resources
	StageAck         = "ack"          // until the proxy has acknowledged them
)

// Stages returns the names of all stages in their order.
func Stages() []string {
	return []string{StageWatch, StageDebounce, StagePushContext, StageQueue, StageGenerate, StageWire, StageAck}
}

// Wire is the traffic received for one type of resource.
type Wire struct {
	Responses int64 `json:"responses"`
	Bytes     int64 `json:"bytes"` // of messages, before encryption
	Resources int64 `json:"resources"`
	// Identical counts resources whose content the proxy already had.
	Identical      int64 `json:"identical"`
	IdenticalBytes int64 `json:"identical_bytes"`
	Removed        int64 `json:"removed"`
	Acks           int64 `json:"acks"`
	Nacks          int64 `json:"nacks"`
}

// Plus returns the sum of w and other.
func (w Wire) Plus(other Wire) Wire {
	return Wire{
		Responses: w.Responses + other.Responses, Bytes: w.Bytes + other.Bytes, Resources: w.Resources + other.Resources,
		Identical: w.Identical + other.Identical, IdenticalBytes: w.IdenticalBytes + other.IdenticalBytes,
		Removed: w.Removed + other.Removed, Acks: w.Acks + other.Acks, Nacks: w.Nacks + other.Nacks,
	}
}
