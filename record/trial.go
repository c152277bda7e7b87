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

// Cell is one combination of levels: factor name to level, both in their
// canonical spelling. Every factor of the study is present, also those that
// the study leaves at their default.
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

// With returns a copy of c with the levels of other put over it.
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

// Trial is one cell in one block: a line of trials.jsonl. It is written
// once, when the trial has ended, whether it is valid or not.
type Trial struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"`    // "b002-t05": block and order in the block, both from 0
	Block  int    `json:"block"` // from 0
	Order  int    `json:"order"` // place in the block's random order, from 0
	Cell   Cell   `json:"cell"`
	// Repeat tells the two trials of a doubled baseline cell apart within a
	// block: 0 for the first and for every other cell, 1 for the second.
	Repeat int `json:"repeat"`
	// Deployment counts the sets of pods that the run has had, from 1: trials of
	// one deployment share whatever its pods happen to have (processors, memory
	// layout, the spread of their connections). 0 where a trial has pods of its
	// own.
	Deployment int `json:"deployment,omitempty"`

	Started time.Time `json:"started"` // wall clock of the machine that runs the study
	Ended   time.Time `json:"ended"`
	Warmup  Warmup    `json:"warmup"`
	Window  Window    `json:"window"`
	// Drift is how latency moved within the window; nil where it is not known.
	Drift    *Drift   `json:"drift,omitempty"`
	Validity Validity `json:"validity"`

	Load *Load `json:"load,omitempty"`
	// Hands are the generators, if several sent the requests.
	Hands []Hand `json:"hands,omitempty"`
	// Way is what the cell's requests passed.
	Way Way `json:"way,omitempty"`
	// IdleNodes is how many proxies PartIdleNode is.
	IdleNodes int `json:"idle_node_proxies,omitempty"`
	// NodeAgents is how many pods PartNodeAgent is, one a node. AgentForSidecars says that
	// the trial's pods with sidecars depend on them too: they redirect their requests, in
	// place of an init container.
	NodeAgents       int  `json:"node_agents,omitempty"`
	AgentForSidecars bool `json:"agent_for_sidecars,omitempty"`
	// Nodes are those of the client's pod and the server's, by PartGenerator and
	// PartWorker, of further hands by [OfHand], and of a waypoint or gateway on the way by
	// its part; of a trial of the control plane those of istiod, of the simulators, of real
	// sidecars, of the real gateway and of the pod behind it, by PartControl, PartSimulator,
	// PartServerProxy, PartGateway and PartWorker, of one of resilience those of the control
	// plane, the clients and the services, PartWorker, before its steps, where these are
	// several by OfHand.
	Nodes map[string]NodeAt `json:"nodes,omitempty"`
	// CPU holds CPU time used in the window by part. Parts are the Part
	// constants; a part a cell lacks is absent, not zero.
	CPU map[string]CPU `json:"cpu,omitempty"`
	// Sampled says of each part in CPU how its figure lies between the samples
	// that it is made of; nil where counters were read at the window's edges.
	Sampled map[string]Sampled `json:"sampled,omitempty"`
	// Memory by part, at the end of the window.
	Memory map[string]Memory `json:"memory,omitempty"`
	// Connections of the pods that the parts live in, by PartGenerator (the
	// client pod), PartWorker (the server pod), PartWaypoint and PartGateway: a sidecar's
	// connections are its pod's. Of proxies on nodes those that they carried, over the
	// whole trial, warm-up included: Opened as the client's side, Accepted as the
	// server's.
	Connections map[string]Connections `json:"connections,omitempty"`
	// Counters holds, by part, how far the part's own counters rose over the
	// whole trial, warm-up included, so that they reconcile exactly with what
	// was sent (Envoy's statistics by Envoy's names, the worker's by ours).
	Counters map[string]map[string]float64 `json:"counters,omitempty"`
	Pressure *Pressure                     `json:"pressure,omitempty"`
	// Others is what the machine did in the window beside the parts; nil where
	// that is not known, as on several machines.
	Others *Others `json:"others,omitempty"`
	// Waits is how long the parts' threads waited for a CPU, by part.
	Waits map[string]Wait `json:"waits,omitempty"`
	// Threads of the parts, where the study asks for them; of further hands by
	// [OfHand].
	Threads map[string]Threads `json:"threads,omitempty"`
	// Probed are how far the counters of the study's probes rose in the window,
	// by part, of whose pod they are, and figure.
	Probed map[string]map[string]uint64 `json:"probed,omitempty"`
	// Profiles say where proxies spent their CPU time; nil if the study does
	// not ask.
	Profiles []Profiled `json:"profiles,omitempty"`
	// Control is what a control-plane trial counted; its changes are the
	// run's events of this trial.
	Control *Control `json:"control,omitempty"`
	// Scenario is what a trial of resilience counted; nil in others.
	Scenario *Scenario `json:"scenario,omitempty"`
	// EventLines is how many lines of events.jsonl are the trial's. Package
	// store counts them when it writes them.
	EventLines int `json:"event_lines,omitempty"`
	// Hist is the path of the HDR interval log relative to the run
	// directory; tags "intended" and "send"; "" if the trial got no window.
	Hist string `json:"hist,omitempty"`
}

// NodeAt is a node and its zone, as REGION/ZONE; "" for none and where it is not
// known.
type NodeAt struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Machine is what it is, in words: nodes that are alike have the same.
	Machine string `json:"machine,omitempty"`
}

// Parts of a trial that cost something, beside proxies.
const (
	PartGenerator = "generator" // the load role's container
	PartWorker    = "worker"    // the worker role's container
	PartControl   = "control"   // istiod
	PartMachine   = "machine"   // all CPUs of the node that hosts the server pod, idle excluded
	// PartUnattributed is what that node used and neither the study nor the
	// cluster did: see [Others].
	PartUnattributed = "unattributed"
)

// Further parts of a control-plane trial; its real sidecars are
// PartServerProxy.
const (
	PartSimulator = "simulator" // the simulated sidecars
	PartAPIServer = "apiserver" // kube-apiserver, by its own metrics
	PartRest      = "rest"      // of the machine: whatever nobody else's counter has
)

// Others is what a machine used in a window beyond the parts of a trial, in
// CPU-seconds.
type Others struct {
	// ClusterS was used by the cluster's own processes, the study's idle pods and
	// this program; UnattributedS by nobody of the study. The latter may lie a
	// little below zero, since the accounts are read one after another.
	ClusterS      float64 `json:"cluster_s"`
	UnattributedS float64 `json:"unattributed_s"`
	// UnattributedRatio is its share of the time of all CPUs.
	UnattributedRatio float64 `json:"unattributed_ratio"`
	// Who are the processes outside the study that used a hundredth of a CPU or
	// more, most first.
	Who []ProcessUse `json:"who,omitempty"`
}

// ProcessUse is the CPU time of all processes of a name.
type ProcessUse struct {
	Command string  `json:"command"` // up to 15 bytes
	CPUS    float64 `json:"cpu_s"`
}

// Wait is the time that the threads of a part that serve requests (see
// [Serving]) were ready to run and had no CPU: the run-queue wait of the kernel's
// schedstat, over Seconds that begin just before the window and end just after
// it.
type Wait struct {
	WaitS   float64 `json:"wait_s"`
	Seconds float64 `json:"s"`
}

// Warmup says how the time before the window went.
type Warmup struct {
	Seconds float64 `json:"seconds"`
	Steady  bool    `json:"steady"` // false: the limit came first
	Why     string  `json:"why"`
}

// Window is the measured time: whole intervals of the generator, by intended
// send time.
type Window struct {
	Start     time.Time `json:"start"`
	Seconds   float64   `json:"seconds"`
	Intervals int       `json:"intervals"`
}

// Drift compares the two halves of a window by their intervals' median latencies
// (intended time), in microseconds.
type Drift struct {
	FirstUS  float64 `json:"first_us"`
	SecondUS float64 `json:"second_us"`
	ErrorUS  float64 `json:"error_us"` // standard error of their difference
	// Intervals is how many of the window's intervals there are medians of.
	Intervals int `json:"intervals"`
}

// Validity says whether a trial may be believed.
type Validity struct {
	Valid    bool        `json:"valid"`
	Checks   []Check     `json:"checks"`
	Warnings []note.Note `json:"warnings,omitempty"`
}

// Check is one assertion about a trial: that its mode was really active, that
// the generator kept its schedule, that the account balances.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Load is the account and latency of the requests due in the window, by intended send
// time, and in Within what was answered while it lasted.
// Scheduled == Completed + sum(Failed) + Unfinished.
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
	// Schedule says how the generator kept its schedule; nil at rate max and
	// of traces.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Autocorrelation is that of neighbours' intended latencies (of their
	// logarithms) in the order of intended times; nil where it is not known.
	Autocorrelation *float64 `json:"autocorrelation,omitempty"`
	// EffectiveRequests is how many independent requests tell as much of the
	// middle of the latencies as the completed ones; 0 where it is not known.
	EffectiveRequests float64 `json:"effective_requests,omitempty"`
	// Reasons are the first few different ones of each kind of failure; they may be
	// of failures before the window.
	Reasons map[string][]string `json:"failure_reasons,omitempty"`
}

// Within counts requests by when they ended: between the window's edges by the clock,
// whenever they were due, warm-up included. Counters that are read at the edges, such as
// CPU, belong to these requests, and not to those that were due in the window.
type Within struct {
	Answered int64 `json:"answered"`
	Failed   int64 `json:"failed,omitempty"`
	// BacklogStart and BacklogEnd are how many requests were due before the window's start
	// and end, and had not ended by then.
	BacklogStart int64 `json:"backlog_start"`
	BacklogEnd   int64 `json:"backlog_end"`
}

// AnsweredWithin is how many requests were answered between the window's edges, by which
// whatever was counted between them is divided; 0 without a load.
func (l *Load) AnsweredWithin() int64 {
	if l == nil {
		return 0
	}
	return l.Within.Answered
}

// BacklogGrowth is by how many requests the backlog grew from the window's start to its
// end, and by how many it may by chance: four standard deviations of the difference of two
// Poisson counts, which requests in flight are where the target carries the rate.
func (w Within) BacklogGrowth() (grown int64, chance float64) {
	return w.BacklogEnd - w.BacklogStart, 4 * math.Sqrt(float64(w.BacklogStart+w.BacklogEnd+1))
}

// Schedule compares the times at which the generator acted on due requests with
// the arrival process it was asked for. Waits for a free connection are the
// target's doing, and not in it.
type Schedule struct {
	Process string `json:"process"` // poisson, uniform or burst
	// Gaps is how many gaps between requests there were, of bursts between
	// rounds.
	Gaps int64 `json:"gaps"`
	// Distance is how far they are from the process, from 0 to 1: of Poisson
	// arrivals the largest difference between the share of gaps up to a length
	// and its exponential law (Kolmogorov and Smirnov), of others the mean
	// difference between a gap and the one asked for, as a share of that.
	Distance float64 `json:"distance"`
	// PValue is how probable so large a distance is by chance; nil where gaps do
	// not depend on chance.
	PValue *float64 `json:"p_value,omitempty"`
	// AchievedRatio is the rate of acting as a share of the rate asked for, and
	// AchievedError its standard error by the process' own chance.
	AchievedRatio float64 `json:"achieved_ratio"`
	AchievedError float64 `json:"achieved_error"`
}

// CPU is processor time in seconds. Of a part in [Trial.Sampled] user and system
// time are not told apart: UserS is all of it.
type CPU struct {
	UserS   float64 `json:"user_s"`
	SystemS float64 `json:"system_s"`
	// ThrottledS is the time the CPU limit held the part back.
	ThrottledS float64 `json:"throttled_s,omitempty"`
}

// TotalS is user plus system time.
func (c CPU) TotalS() float64 { return c.UserS + c.SystemS }

// Plus is the sum of both.
func (c CPU) Plus(o CPU) CPU {
	return CPU{UserS: c.UserS + o.UserS, SystemS: c.SystemS + o.SystemS, ThrottledS: c.ThrottledS + o.ThrottledS}
}

// Microseconds is a time as fields in _us have it.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Memory of a part, in bytes.
type Memory struct {
	PSSBytes    int64 `json:"pss_bytes"`    // proportional set size of its processes; 0 if it could not be read
	CgroupBytes int64 `json:"cgroup_bytes"` // what the kernel charges to its cgroup
	// IdlePSSBytes is the set size before the trial's first request; 0 where
	// nobody read it.
	IdlePSSBytes int64 `json:"idle_pss_bytes,omitempty"`
	// WorkingSetBytes is what a kubelet knows in place of all others: what the
	// kernel charges without the files that it could drop. It is no set size.
	WorkingSetBytes int64 `json:"working_set_bytes,omitempty"`
	Processes       int   `json:"processes"`
}

// ConnectedParts are the parts of trials whose pods' connections are counted.
var ConnectedParts = []string{PartGenerator, PartWorker, PartWaypoint, PartGateway}

// Connections are a pod's TCP connections, as its kernel counts them: those
// of the role, of its sidecar and of control servers alike. The counts are
// how far the counters rose within the window.
type Connections struct {
	Established   int64 `json:"established"`   // at the end of the window
	Opened        int64 `json:"opened"`        // by the pod
	Accepted      int64 `json:"accepted"`      // by the pod
	Retransmitted int64 `json:"retransmitted"` // segments
}

// Plus adds those of another pod.
func (c Connections) Plus(d Connections) Connections {
	return Connections{c.Established + d.Established, c.Opened + d.Opened, c.Accepted + d.Accepted, c.Retransmitted + d.Retransmitted}
}

// Pressure is the machine's state in the window.
type Pressure struct {
	CPUSomeRatio    float64 `json:"cpu_some_ratio"`    // share of the window in which some task waited for a CPU
	MemorySomeRatio float64 `json:"memory_some_ratio"` // likewise memory
	IOSomeRatio     float64 `json:"io_some_ratio"`
	StealRatio      float64 `json:"steal_ratio"` // CPU time the hypervisor took, of all CPU time
	BusyRatio       float64 `json:"busy_ratio"`  // CPU time in use, of all CPU time
}
