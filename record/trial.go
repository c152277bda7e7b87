package record

import (
	"maps"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record/rate"
)

// Cell is one combination of levels: factor name to level, both in canonical spelling. It
// has every factor of the study, including those left at their default.
type Cell map[string]string

// Key returns the cell's identity: "factor=level" pairs sorted by factor and
// joined by a comma.
func (c Cell) Key() string {
	pairs := make([]string, 0, len(c))
	for factor, level := range c {
		pairs = append(pairs, factor+"="+level)
	}
	sort.Strings(pairs)
	return strings.Join(pairs, ",")
}

// With returns a copy of c with the levels of other overriding its own.
func (c Cell) With(other Cell) Cell {
	out := make(Cell, len(c)+len(other))
	maps.Copy(out, c)
	maps.Copy(out, other)
	return out
}

// Has reports whether c has every level of other.
func (c Cell) Has(other Cell) bool {
	for factor, level := range other {
		if c[factor] != level {
			return false
		}
	}
	return true
}

// Trial is one cell in one block: a line of trials.jsonl. It is written once, after the
// trial has ended, whether or not it is valid.
type Trial struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"`    // "b002-t05": block and order in the block, both from 0
	Block  int    `json:"block"` // from 0
	Order  int    `json:"order"` // place in the block's random order, from 0
	Cell   Cell   `json:"cell"`
	// Repeat distinguishes the two trials of a doubled baseline cell within a block: 0 for
	// the first and for every other cell, 1 for the second.
	Repeat int `json:"repeat"`
	// Deployment counts the run's sets of pods, from 1. Trials of one deployment share
	// whatever its pods happen to have (processors, memory layout, the spread of their
	// connections). It is 0 if a trial has its own pods.
	Deployment int `json:"deployment,omitempty"`

	Started time.Time `json:"started"` // wall clock of the machine that runs the study
	Ended   time.Time `json:"ended"`
	Warmup  Warmup    `json:"warmup"`
	Window  Window    `json:"window"`
	// Drift is how latency moved within the window; nil if unknown.
	Drift    *Drift   `json:"drift,omitempty"`
	Validity Validity `json:"validity"`

	Load *Load `json:"load,omitempty"`
	// Hands are the generators, if several sent requests.
	Hands []Hand `json:"hands,omitempty"`
	// Way is the path of the cell's requests.
	Way Way `json:"way,omitempty"`
	// IdleNodes is the number of proxies in PartIdleNode.
	IdleNodes int `json:"idle_node_proxies,omitempty"`
	// NodeAgents is the number of pods in PartNodeAgent, one per node. AgentForSidecars
	// means that the trial's pods with sidecars also depend on them: the agents redirect
	// their requests in place of an init container.
	NodeAgents       int  `json:"node_agents,omitempty"`
	AgentForSidecars bool `json:"agent_for_sidecars,omitempty"`
	// Nodes has the nodes of the client's pod and the server's by PartGenerator and
	// PartWorker, of further hands by [OfHand], and of a waypoint or gateway on the path by
	// its part. For a control-plane trial it has those of istiod, the simulators, real
	// sidecars, the real gateway and the pod behind it, by PartControl, PartSimulator,
	// PartServerProxy, PartGateway and PartWorker. For a resilience trial it has those of
	// the control plane, the clients and the services (PartWorker) before its steps, by
	// OfHand if there are several.
	Nodes map[string]NodeAt `json:"nodes,omitempty"`
	// CPU has the CPU time used in the window, by part. Parts are the Part constants; a part
	// that the cell lacks is absent, not zero.
	CPU map[string]CPU `json:"cpu,omitempty"`
	// Sampled describes, for each part in CPU, how its figure was interpolated from samples;
	// nil if counters were read at the window's edges.
	Sampled map[string]Sampled `json:"sampled,omitempty"`
	// Memory has the memory at the end of the window, by part.
	Memory map[string]Memory `json:"memory,omitempty"`
	// Connections has the connections of the pods that the parts live in, by PartGenerator
	// (the client pod), PartWorker (the server pod), PartWaypoint and PartGateway. A
	// sidecar's connections belong to its pod. For proxies on nodes it has those that they
	// carried over the whole trial, including warm-up: Opened on the client's side, Accepted
	// on the server's.
	Connections map[string]Connections `json:"connections,omitempty"`
	// Counters has the increase of each part's own counters over the whole trial, including
	// warm-up, so that they reconcile exactly with what was sent (Envoy's statistics by
	// Envoy's names, the worker's by ours).
	Counters map[string]map[string]float64 `json:"counters,omitempty"`
	Pressure *Pressure                     `json:"pressure,omitempty"`
	// Others is the machine's use in the window apart from the parts; nil if unknown, as
	// with several machines.
	Others *Others `json:"others,omitempty"`
	// Waits is how long each part's threads waited for a CPU.
	Waits map[string]Wait `json:"waits,omitempty"`
	// Threads has the threads of the parts, if the study measures them; those of further
	// hands by [OfHand].
	Threads map[string]Threads `json:"threads,omitempty"`
	// Probed has the increase of the study's probe counters in the window, by the part whose
	// pod was probed, and by figure.
	Probed map[string]map[string]uint64 `json:"probed,omitempty"`
	// Profiles show where proxies spent their CPU time; nil if the study does not measure
	// that.
	Profiles []Profiled `json:"profiles,omitempty"`
	// Control is what a control-plane trial counted. Its changes are the run's events of
	// this trial.
	Control *Control `json:"control,omitempty"`
	// Scenario is what a resilience trial counted; nil in others.
	Scenario *Scenario `json:"scenario,omitempty"`
	// Ingress is what a trial of a gateway counted; nil in others.
	Ingress *Ingress `json:"ingress,omitempty"`
	// EventLines is the number of the trial's lines in events.jsonl. Package store counts
	// them as it writes them.
	EventLines int `json:"event_lines,omitempty"`
	// Hist is the path of the HDR interval log relative to the run directory, with tags
	// "intended" and "send"; "" if the trial did not reach its window.
	Hist string `json:"hist,omitempty"`
}

// NodeAt is a node and its zone, as REGION/ZONE; "" if there is none or it is unknown.
type NodeAt struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Machine describes the node's machine in words; identical nodes have the same
	// description.
	Machine string `json:"machine,omitempty"`
}

// Parts of a trial that have a cost, other than proxies.
const (
	PartGenerator = "generator" // the load role's container
	PartWorker    = "worker"    // the worker role's container
	PartControl   = "control"   // istiod
	PartMachine   = "machine"   // all CPUs of the node that hosts the server pod, idle excluded
	// PartUnattributed is the node's use by neither the study nor the cluster: see [Others].
	PartUnattributed = "unattributed"
)

// Further parts of a control-plane trial. Its real sidecars are PartServerProxy.
const (
	PartSimulator = "simulator" // the simulated sidecars
	PartAPIServer = "apiserver" // kube-apiserver, by its own metrics
	PartRest      = "rest"      // the rest of the machine: what no other counter covers
)

// Others is a machine's use in a window beyond the parts of a trial, in CPU-seconds.
type Others struct {
	// ClusterS was used by the cluster's own processes, the study's idle pods and this
	// program, and UnattributedS by processes outside the study. The latter may be slightly
	// negative because the accounts are read one after another.
	ClusterS      float64 `json:"cluster_s"`
	UnattributedS float64 `json:"unattributed_s"`
	// UnattributedRatio is its share of the time of all CPUs.
	UnattributedRatio float64 `json:"unattributed_ratio"`
	// Who lists the processes outside the study that used a hundredth of a CPU or more, in
	// descending order.
	Who []ProcessUse `json:"who,omitempty"`
}

// ProcessUse is the CPU time of all processes with one name.
type ProcessUse struct {
	Command string  `json:"command"` // up to 15 bytes
	CPUS    float64 `json:"cpu_s"`
}

// Wait is the time during which the threads of a part that serve requests (see [Serving])
// were runnable but had no CPU: the run-queue wait from the kernel's schedstat, over
// Seconds, which begin just before the window and end just after it.
type Wait struct {
	WaitS   float64 `json:"wait_s"`
	Seconds float64 `json:"s"`
}

// Warmup describes the time before the window.
type Warmup struct {
	Seconds float64 `json:"seconds"`
	Steady  bool    `json:"steady"` // false: the limit was reached first
	Why     string  `json:"why"`
}

// Window is the measured time: whole intervals of the generator, by intended send time.
type Window struct {
	Start     time.Time `json:"start"`
	Seconds   float64   `json:"seconds"`
	Intervals int       `json:"intervals"`
}

// Drift compares the two halves of a window by the median latencies of their intervals
// (intended time), in microseconds.
type Drift struct {
	FirstUS  float64 `json:"first_us"`
	SecondUS float64 `json:"second_us"`
	ErrorUS  float64 `json:"error_us"` // standard error of their difference
	// Intervals is the number of the window's intervals that have a median.
	Intervals int `json:"intervals"`
}

// Validity says whether a trial is valid.
type Validity struct {
	Valid    bool        `json:"valid"`
	Checks   []Check     `json:"checks"`
	Warnings []note.Note `json:"warnings,omitempty"`
}

// Check is one assertion about a trial: that its mode was really active, that the generator
// kept its schedule, that the account balances.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Load is the account and latency of the requests due in the window, by intended send time.
// Within counts what was answered during it. Scheduled == Completed + sum(Failed) +
// Unfinished.
type Load struct {
	Rate        rate.Rate        `json:"rate_rps"`
	Scheduled   int64            `json:"scheduled"`
	Completed   int64            `json:"completed"`
	Failed      map[string]int64 `json:"failed,omitempty"`
	Unfinished  int64            `json:"unfinished"`
	AchievedRPS float64          `json:"achieved_rps"` // answers within the window per second
	Within      Within           `json:"within"`
	Intended    Latency          `json:"latency_intended_us"`
	Send        Latency          `json:"latency_send_us"`
	Lag         Latency          `json:"schedule_lag_us"`
	CPU         CPU              `json:"cpu"` // the generator's own account (getrusage)
	// Schedule describes how well the generator kept its schedule; nil at rate max and for
	// traces.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Autocorrelation is that of consecutive requests' intended latencies (their
	// logarithms), in the order of intended times; nil if unknown.
	Autocorrelation *float64 `json:"autocorrelation,omitempty"`
	// EffectiveRequests is the number of independent requests that would be as informative
	// about the middle of the latencies as the completed ones; 0 if unknown.
	EffectiveRequests float64 `json:"effective_requests,omitempty"`
	// Reasons has the first few distinct reasons of each kind of failure. They may come from
	// failures before the window.
	Reasons map[string][]string `json:"failure_reasons,omitempty"`
}

// Within counts requests by when they ended: between the window's edges by the clock,
// whenever they were due, including warm-up. Counters that are read at the edges, such as
// CPU, belong to these requests, not to those that were due in the window.
type Within struct {
	Answered int64 `json:"answered"`
	Failed   int64 `json:"failed,omitempty"`
	// BacklogStart and BacklogEnd are the numbers of requests that were due before the
	// window's start and end, but had not ended by then.
	BacklogStart int64 `json:"backlog_start"`
	BacklogEnd   int64 `json:"backlog_end"`
}

// AnsweredWithin returns the number of requests answered between the window's edges, the
// divisor for everything counted between them; 0 without a load.
func (l *Load) AnsweredWithin() int64 {
	if l == nil {
		return 0
	}
	return l.Within.Answered
}

// BacklogGrowth returns how far the backlog grew from the window's start to its end, and how
// far it may grow by chance: four standard deviations of the difference of two Poisson
// counts. Requests in flight are Poisson-distributed if the target sustains the rate.
func (w Within) BacklogGrowth() (grown int64, chance float64) {
	return w.BacklogEnd - w.BacklogStart, 4 * math.Sqrt(float64(w.BacklogStart+w.BacklogEnd+1))
}

// Schedule compares the times at which the generator acted on due requests with the
// requested arrival process. It excludes waits for a free connection, which the target
// causes.
type Schedule struct {
	Process string `json:"process"` // poisson, uniform or burst
	// Gaps is the number of gaps between requests, or between rounds of bursts.
	Gaps int64 `json:"gaps"`
	// Distance is the distance of the gaps from the process, from 0 to 1. For Poisson
	// arrivals it is the largest difference between the share of gaps up to a length and its
	// exponential law (Kolmogorov and Smirnov). For others it is the mean difference between
	// a gap and the requested one, as a share of the latter.
	Distance float64 `json:"distance"`
	// PValue is the probability of such a large distance by chance; nil if gaps do not
	// depend on chance.
	PValue *float64 `json:"p_value,omitempty"`
	// AchievedRatio is the rate at which the generator acted as a share of the requested
	// rate. AchievedError is its standard error from the randomness of the process.
	AchievedRatio float64 `json:"achieved_ratio"`
	AchievedError float64 `json:"achieved_error"`
}

// CPU is processor time in seconds. For a part in [Trial.Sampled] user and system time are
// not separated: UserS is the total.
type CPU struct {
	UserS   float64 `json:"user_s"`
	SystemS float64 `json:"system_s"`
	// ThrottledS is how long the CPU limit throttled the part.
	ThrottledS float64 `json:"throttled_s,omitempty"`
}

// TotalS returns user plus system time.
func (c CPU) TotalS() float64 { return c.UserS + c.SystemS }

// Plus returns the sum of both.
func (c CPU) Plus(o CPU) CPU {
	return CPU{UserS: c.UserS + o.UserS, SystemS: c.SystemS + o.SystemS, ThrottledS: c.ThrottledS + o.ThrottledS}
}

// Minus returns the difference of both.
func (c CPU) Minus(o CPU) CPU {
	return CPU{UserS: c.UserS - o.UserS, SystemS: c.SystemS - o.SystemS, ThrottledS: c.ThrottledS - o.ThrottledS}
}

// Microseconds converts a duration to the unit of _us fields.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Memory is the memory of a part, in bytes.
type Memory struct {
	PSSBytes    int64 `json:"pss_bytes"`    // proportional set size of its processes; 0 if it could not be read
	CgroupBytes int64 `json:"cgroup_bytes"` // what the kernel charges to its cgroup
	// IdlePSSBytes is the set size before the trial's first request; 0 if not read.
	IdlePSSBytes int64 `json:"idle_pss_bytes,omitempty"`
	// WorkingSetBytes replaces all other fields if a kubelet is the source: what the kernel
	// charges, less reclaimable file pages. It is not a set size.
	WorkingSetBytes int64 `json:"working_set_bytes,omitempty"`
	Processes       int   `json:"processes"`
}

// Plus returns the sum of both.
func (m Memory) Plus(o Memory) Memory {
	return Memory{PSSBytes: m.PSSBytes + o.PSSBytes, CgroupBytes: m.CgroupBytes + o.CgroupBytes, IdlePSSBytes: m.IdlePSSBytes + o.IdlePSSBytes,
		WorkingSetBytes: m.WorkingSetBytes + o.WorkingSetBytes, Processes: m.Processes + o.Processes}
}

// ConnectedParts are the parts of trials whose pods' connections are counted.
var ConnectedParts = []string{PartGenerator, PartWorker, PartWaypoint, PartGateway}

// Connections counts a pod's TCP connections, as its kernel does: those of the role, its
// sidecar and control servers. The counts are increases within the window.
type Connections struct {
	Established   int64 `json:"established"`   // at the end of the window
	Opened        int64 `json:"opened"`        // by the pod
	Accepted      int64 `json:"accepted"`      // by the pod
	Retransmitted int64 `json:"retransmitted"` // segments
}

// Plus returns the sum with the counts of another pod.
func (c Connections) Plus(d Connections) Connections {
	return Connections{c.Established + d.Established, c.Opened + d.Opened, c.Accepted + d.Accepted, c.Retransmitted + d.Retransmitted}
}

// Pressure is the machine's state in the window.
type Pressure struct {
	CPUSomeRatio    float64 `json:"cpu_some_ratio"`    // share of the window in which some task waited for a CPU
	MemorySomeRatio float64 `json:"memory_some_ratio"` // likewise for memory
	IOSomeRatio     float64 `json:"io_some_ratio"`
	StealRatio      float64 `json:"steal_ratio"` // CPU time the hypervisor took, of all CPU time
	BusyRatio       float64 `json:"busy_ratio"`  // CPU time in use, of all CPU time
}
