package record

// Marker is how a change shows in a proxy's configuration: text that one type of resource
// contains from then on, or no longer. Every change of a study carries text of its own (a
// name, an address, a header's value), so that no two can be confused.
type Marker struct {
	Change int `json:"change"` // index of the change within its trial
	// Type is the short name of the resources that show it: cds, eds, lds,
	// rds, nds, sds, ecds; of ztunnels wds and wads.
	Type string `json:"type"`
	// Resource is the name of the one resource that shows it; "" for any.
	Resource string `json:"resource,omitempty"`
	// Text stands in a resource's body or name.
	Text string `json:"text"`
	// Gone says that the change takes effect when Text disappears: the resource arrives
	// without it, or is removed.
	Gone bool `json:"gone,omitempty"`
	// GoneNS is when an endpoint that the change removes had disappeared from its Service's
	// EndpointSlices, by our own watch, in Unix nanoseconds; known only after the change. 0:
	// the commit counts.
	GoneNS int64 `json:"gone_unix_ns,omitempty"`
}

// OfZtunnels says that only ztunnels show it.
func (m Marker) OfZtunnels() bool { return m.Type == "wds" || m.Type == "wads" }

// Event is a line of events.jsonl: one change, when it was due, when it happened, and when
// each proxy had it; or the begin or end of a step of a timeline. Times are wall clock, in
// Unix nanoseconds, of the machine that runs the study; those of proxies elsewhere are
// corrected by the measured offset of their clocks.
type Event struct {
	Schema int    `json:"schema"`
	Trial  string `json:"trial"`
	Change int    `json:"change"` // from 0, in the order planned
	Kind   string `json:"kind"`   // of the change, as the factor change names it
	Op     string `json:"op"`     // create, update, delete, scale, patch
	Object string `json:"object"` // Kind/namespace/name
	// Markers identify it; none for a change that must not show (no-op).
	Markers []Marker `json:"markers,omitempty"`

	PlannedNS int64 `json:"planned_unix_ns"`
	SentNS    int64 `json:"sent_unix_ns"` // the request to the API server left
	// CommittedNS is when the change is first known to have been committed: the earlier of
	// AnsweredNS and WatchedNS. For endpoints, which controllers derive from the change,
	// WatchedNS.
	CommittedNS int64 `json:"committed_unix_ns"`
	// AnsweredNS is when the API server's answer came; 0 without one, or if another instant
	// counts.
	AnsweredNS int64 `json:"answered_unix_ns,omitempty"`
	// WatchedNS is when our own watch had seen all of the change; 0 if it did not.
	WatchedNS int64 `json:"watched_unix_ns,omitempty"`
	// Error is why the API server rejected it; no proxy sees it then.
	Error string `json:"error,omitempty"`
	// Step names the entry of a timeline that this begins or ends; "" for a change of
	// configuration. CommittedNS is then when the action was carried out, WatchedNS when its
	// effect showed in another way, and Proof describes what showed.
	Step  string `json:"step,omitempty"`
	Proof string `json:"proof,omitempty"`

	// Expected is how many proxies need the change, by their scope.
	Expected int `json:"expected"`
	// Seen says when proxies had it.
	Seen Sightings `json:"seen"`
	// Missed lists proxies that needed the change and never had it.
	Missed []int32 `json:"missed,omitempty"`
	// Superseded counts proxies that received a later change's configuration together with
	// this one's, so that it never showed alone.
	Superseded int `json:"superseded,omitempty"`
	// Served is the outcome of requests through a real gateway for the route that the change
	// creates; nil if none were sent.
	Served *Served `json:"served,omitempty"`
}

// Sightings are columns with an entry for each proxy that had a change: microseconds after
// Event.CommittedNS, possibly slightly below zero, since the answer and our own watch take
// time too.
type Sightings struct {
	Proxy      []int32 `json:"proxy"`
	ReceivedUS Times   `json:"received_us"`
	AckedUS    Times   `json:"acked_us"` // Never: not acknowledged
	// AppliedUS is when a real Envoy had it in force; absent without such
	// proxies, Never for the simulated ones.
	AppliedUS Times `json:"applied_us,omitempty"`
}

// Of are those of some proxies.
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
	Committed   int `json:"committed"`          // taken by the API server
	// Installed are the values of levers that the cell leaves as installed, as levels where
	// they are such; absent if the cell names all.
	Installed Cell `json:"installed,omitempty"`
	// InstalledRequests are, by factor, the installed values of those requests in Installed
	// that a limit named by the cell has changed: Installed has what was in force.
	InstalledRequests Cell `json:"installed_requests,omitempty"`

	// Istiod is how far istiod's own metrics rose, by series as Prometheus writes it
	// (`pilot_xds_pushes{type="cds"}`), summed over replicas.
	Istiod map[string]float64 `json:"istiod"`
	// IstiodGauges has values at the end of the window.
	IstiodGauges map[string]float64 `json:"istiod_gauges,omitempty"`
	// ConnectedBefore is how many proxies were connected to istiod when the window began, by
	// its own count; nil if it did not report that. IstiodGauges has the number at the end.
	ConnectedBefore *int `json:"connected_before,omitempty"`
	// Missing lists metrics that this istiod does not have.
	Missing []string `json:"missing_metrics,omitempty"`
	// Uncounted lists counters of errors that it does not report: istiod reports one only
	// after the first error of its kind, so zero cannot be told from a version without it.
	Uncounted []string `json:"uncounted_metrics,omitempty"`
	// Stages are the mean times of a change's way to a proxy, in order.
	Stages []Stage `json:"stages,omitempty"`
	// MissingStages names those that were not measured.
	MissingStages []string `json:"missing_stages,omitempty"`
	// Unexplained counts the pairs whose own stages do not add up, which the stages' means may
	// hide; nil if that was not checked.
	Unexplained *Unexplained `json:"unexplained,omitempty"`
	// Wire is what the simulated proxies received in the window, by type.
	Wire map[string]Wire `json:"wire"`
	// Config has the bytes of configuration that one proxy holds, by type:
	// the median over proxies at the end of the window.
	Config map[string]int64 `json:"config_bytes,omitempty"`
	// ZtunnelWire is the simulated ztunnels' part of Wire, and ZtunnelConfig what one of them
	// holds, which Config leaves out; nil without any.
	ZtunnelWire   map[string]Wire  `json:"ztunnel_wire,omitempty"`
	ZtunnelConfig map[string]int64 `json:"ztunnel_config_bytes,omitempty"`
	// ScopeConfig is the same of the proxies in the namespace that a Sidecar of
	// scope namespace or workload applies to; nil if none is there.
	ScopeConfig map[string]int64 `json:"scope_config_bytes,omitempty"`
	// Join is how one more proxy in that namespace connected after the
	// window; nil if none did.
	Join *Join `json:"join,omitempty"`
	// Holdings are what single proxies held at the end of the trial, and who brought it: a
	// real one's in every trial that has one, simulated ones' once per cell.
	Holdings []Holding `json:"holdings,omitempty"`

	// Idle is istiod's CPU in IdleSeconds just before the first change, with
	// all proxies connected.
	Idle        CPU     `json:"idle_cpu"`
	IdleSeconds float64 `json:"idle_s"`
	// APIServer is kube-apiserver's CPU in the window, APIServerSeconds long, from its own
	// metrics; nil if they may not be read. APIServerIdle is the same for APIServerIdleSeconds
	// before it, without changes; nil if not measured. Neither includes the cost of reading
	// the metrics.
	APIServer            *CPU    `json:"apiserver_cpu,omitempty"`
	APIServerSeconds     float64 `json:"apiserver_s,omitempty"`
	APIServerIdle        *CPU    `json:"apiserver_idle_cpu,omitempty"`
	APIServerIdleSeconds float64 `json:"apiserver_idle_s,omitempty"`
	// Simulator is the CPU of the simulated sidecars in the window.
	Simulator CPU `json:"simulator_cpu"`
	// SimulatorLag is how late the simulator read what had arrived, at each quantile; of
	// several simulators the latest.
	SimulatorLag Quantiles `json:"simulator_lag_us"`
	// Simulators are the pods of the simulated proxies, if they had several.
	Simulators []Simulator `json:"simulators,omitempty"`
	// Sidecars is what real sidecars used; nil unless a study measures it.
	Sidecars *Sidecars `json:"sidecars,omitempty"`
	// StaleProxySeconds is the time for which proxies held endpoints already gone, summed over
	// endpoints and all proxies except ztunnels.
	StaleProxySeconds float64 `json:"stale_proxy_s"`
	// Traffic is the outcome of real requests; nil if none were sent.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Gateway is how the requests through a real gateway were sent; nil without any.
	Gateway *Gateway `json:"gateway,omitempty"`
	// Attached is what the status of a Gateway said about its routes; nil if it was not
	// watched.
	Attached *Attached `json:"attached,omitempty"`
	// Disruption is what happened after the window; nil without one.
	Disruption *Disruption `json:"disruption,omitempty"`
	// Reconnects of simulated sidecars in the window, by why.
	Reconnects map[string]int64 `json:"reconnects,omitempty"`
	// Life names istiod's containers, and SidecarLife those of the real sidecars, in
	// a soak: windows that differ in it are of different lives.
	Life        string `json:"life,omitempty"`
	SidecarLife string `json:"sidecar_life,omitempty"`
	// What istiod's own heap says, at the end of the window.
	HeapBytes int64 `json:"heap_bytes,omitempty"`
	// LiveBytes is what the last garbage collection left in use, by the size at which Go will
	// collect next; 0 if istiod does not report it.
	LiveBytes  int64 `json:"live_bytes,omitempty"`
	AllocBytes int64 `json:"alloc_bytes,omitempty"` // allocated in the window
	Goroutines int64 `json:"goroutines,omitempty"`
	// Profiles are istiod's, taken after the window while the changes were made once more; in
	// one trial of each cell.
	Profiles []Profile `json:"profiles,omitempty"`
}

// IsZtunnel reports whether a proxy, as sightings number them, is a simulated ztunnel:
// sidecars come first, then gateways, ztunnels, and real ones.
func (c *Control) IsZtunnel(proxy int32) bool {
	first := c.Proxies + c.Gateways
	return int(proxy) >= first && int(proxy) < first+c.Ztunnels
}

// Profile is where one replica of istiod spent what, while changes were made.
type Profile struct {
	Replica int    `json:"replica"`
	Kind    string `json:"kind"` // cpu, mutex, block, heap
	Unit    string `json:"unit"` // of all that follows: nanoseconds, or bytes
	Total   int64  `json:"total"`
	// Seconds is how long it was taken.
	Seconds float64 `json:"s"`
	// File is the profile's name under profiles/; "" where it is empty.
	File string `json:"file,omitempty"`
	// Flat and Cumulative have the top functions by self cost, and
	// with all that they call.
	Flat       []ProfileCost `json:"flat"`
	Cumulative []ProfileCost `json:"cumulative"`
}

// ProfileCost is one function's share of a profile, in its unit.
type ProfileCost struct {
	Function   string `json:"function"`
	Flat       int64  `json:"flat"`       // in the function itself
	Cumulative int64  `json:"cumulative"` // with all that it calls
}

// Stage is a part of the way from a change to a proxy's acknowledgement.
type Stage struct {
	Name   string  `json:"name"` // watch, debounce, push_context, queue, generate, wire, ack
	MeanUS float64 `json:"mean_us"`
	// Source says what it was read from.
	Source string `json:"source"`
	// CheckUS is the value of a second source, CheckSource its name; absent if there is none.
	CheckUS     *float64 `json:"check_us,omitempty"`
	CheckSource string   `json:"check_source,omitempty"`
}

// Unexplained is by how much single change-proxy pairs differ from the sum of their own
// stages.
type Unexplained struct {
	Pairs int `json:"pairs"` // looked at: those that were acknowledged
	// Beyond counts those that differ by more than [MaxResidualUS] of their own time, either
	// way; Unlogged those of them whose way istiod's log does not cover from end to end.
	Beyond   int `json:"beyond"`
	Unlogged int `json:"beyond_unlogged"`
	// LargestUS is the largest such difference, microseconds; below zero where the stages
	// exceed the time that passed.
	LargestUS float64 `json:"largest_us"`
}

// Names of stages, in their order.
const (
	StageWatch       = "watch"        // commit until istiod has been told
	StageDebounce    = "debounce"     // until istiod begins the push
	StagePushContext = "push_context" // computing what all proxies share
	StageQueue       = "queue"        // until a proxy's turn
	StageGenerate    = "generate"     // its resources
	StageWire        = "wire"         // until the proxy has read them
	StageAck         = "ack"          // until it has said so
)

// Stages returns the names of all stages in their order.
func Stages() []string {
	return []string{StageWatch, StageDebounce, StagePushContext, StageQueue, StageGenerate, StageWire, StageAck}
}

// Wire is what came over the wire of one type of resource.
type Wire struct {
	Responses int64 `json:"responses"`
	Bytes     int64 `json:"bytes"` // of the messages, as on the wire before encryption
	Resources int64 `json:"resources"`
	// Identical counts resources with the content that the proxy already had.
	Identical      int64 `json:"identical"`
	IdenticalBytes int64 `json:"identical_bytes"`
	Removed        int64 `json:"removed"`
	Acks           int64 `json:"acks"`
	Nacks          int64 `json:"nacks"`
}

// Plus is the sum of two accounts.
func (w Wire) Plus(other Wire) Wire {
	return Wire{
		Responses: w.Responses + other.Responses, Bytes: w.Bytes + other.Bytes, Resources: w.Resources + other.Resources,
		Identical: w.Identical + other.Identical, IdenticalBytes: w.IdenticalBytes + other.IdenticalBytes,
		Removed: w.Removed + other.Removed, Acks: w.Acks + other.Acks, Nacks: w.Nacks + other.Nacks,
	}
}
