package observe

// ControlPort is the observe role's default port, on 127.0.0.1 only:
//
//	POST /v1/snapshots  SnapshotsRequest -> SnapshotsAnswer, after the last instant
//	GET  /v1/clock      Clock
//	GET  /v1/machine    record.Machine
//	GET  /healthz       200
//
// Errors are JSON, {"error": "...", "hint": "..."}.
const ControlPort = 15992

// Limits of one request.
const (
	MaxTargets  = 1000
	MaxInstants = 10000
	MaxWaitS    = 3600
)

// Target is a container on the observed node, or a whole pod if ContainerID is empty.
type Target struct {
	Name        string `json:"name"`                   // the key of its sample in answers
	PodUID      string `json:"pod_uid,omitempty"`      // metadata.uid
	ContainerID string `json:"container_id,omitempty"` // as the API has it, with or without its "containerd://"
	// MayEnd marks a target that may have ended. Its samples then have an Error, whereas
	// any other missing target fails the whole request.
	MayEnd bool `json:"may_end,omitempty"`
	// Pod and Container are the names kubelets use: NAMESPACE/NAME, and "" for the whole
	// pod.
	Pod       string `json:"-"`
	Container string `json:"-"`
}

// SnapshotsRequest requests samples at given instants.
type SnapshotsRequest struct {
	// AtUnixNS has the instants by the node's clock (see Client.Clock), ascending. Past
	// instants are sampled immediately; the sample records the actual time. If empty, one
	// sample is taken when the request arrives.
	AtUnixNS []int64 `json:"at_unix_ns,omitempty"`
	// SteppedNS selects the clock of the instants: the node's clock as it was when it had
	// been stepped by this much since the observer started (see Client.Clock), regardless
	// of later steps. nil selects the clock as it is when the request arrives. All times of
	// the answer use the same clock, so a step of the wall clock moves no edge of a window.
	SteppedNS *int64   `json:"stepped_ns,omitempty"`
	Targets   []Target `json:"targets"`
	// Memory requests memory and sockets at the last instant, after its CPU counters,
	// because reading PSS walks page tables and is expensive.
	Memory bool `json:"memory"`
	// Threads requests the threads of all targets, shortly before the first instant and
	// after the last, so that the cost of reading them falls outside that time. Each
	// reading includes the cgroup's counters of the same moment.
	Threads bool `json:"threads"`
	// Processes requests the node's other processes, at the same times as threads.
	Processes bool `json:"processes,omitempty"`
	// Edge is the edge of a window that a request for one instant is about. With several
	// instants, the first is the beginning and the last the end.
	Edge Edge `json:"edge,omitempty"`
	// Probes names the probes to read of all targets at the first and the last instant,
	// after their CPU counters.
	Probes []string `json:"probes,omitempty"`
}

// SnapshotsAnswer has one snapshot per instant.
type SnapshotsAnswer struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// Edge is an edge of a window. Readings that take long (threads, processes) come before the
// counters at the beginning and after them at the end, so that they span at least the
// window.
type Edge string

const (
	Begin Edge = "" // also if there is no window
	End   Edge = "end"
)

// Snapshot holds the readings of one instant.
type Snapshot struct {
	// AtUnixNS is the requested instant. StartNS is when reading began, and EndNS when the
	// CPU counters of all targets had been read.
	AtUnixNS int64 `json:"at_unix_ns"`
	StartNS  int64 `json:"start_unix_ns"`
	EndNS    int64 `json:"end_unix_ns"`
	// SteppedNS identifies the clock, as in the request. To compare times of snapshots from
	// several requests, subtract their SteppedNS.
	SteppedNS int64             `json:"stepped_ns,omitempty"`
	Machine   MachineSample     `json:"machine"`
	Targets   map[string]Sample `json:"targets"`
	// Processes has the node's processes other than those of the targets, at the first and
	// the last instant, if requested.
	Processes []ProcessSample `json:"processes,omitempty"`
	// ProcessesNS is when Processes was read.
	ProcessesNS int64 `json:"processes_unix_ns,omitempty"`
}

// Sample has a target's counters. If the target's cgroup disappeared, only Error is set.
type Sample struct {
	AtUnixNS int64         `json:"at_unix_ns"`
	Error    string        `json:"error,omitempty"`
	CPU      CPUSample     `json:"cpu"`
	Memory   *MemorySample `json:"memory,omitempty"`
	Net      *NetSample    `json:"net,omitempty"`
	// Threads is set at the first and the last instant, if requested.
	Threads *ThreadsSample `json:"threads,omitempty"`
	// Probed has the counters of probes by figure, likewise. Probes that cannot be read are
	// omitted.
	Probed map[string]uint64 `json:"probed,omitempty"`
}

// CPUSample has a cgroup's CPU counters.
type CPUSample struct {
	// TotalNS is exact: the scheduler's own sum of run times (cgroup v1 cpuacct.usage; v2
	// usage_usec, with microsecond resolution).
	TotalNS uint64 `json:"total_ns"`
	// UserNS and SystemNS are the kernel's own estimates of the two shares, mostly sampled
	// at its timer ticks. They need not add up to TotalNS; Since splits the total in their
	// proportion.
	UserNS      uint64 `json:"user_ns"`
	SystemNS    uint64 `json:"system_ns"`
	ThrottledNS uint64 `json:"throttled_ns,omitempty"` // time for which a CPU limit throttled its threads
	Throttled   uint64 `json:"throttled_periods,omitempty"`
	Periods     uint64 `json:"periods,omitempty"`
	// Inode distinguishes cgroups with the same path.
	Inode uint64 `json:"inode,omitempty"`
}

// MemorySample has a cgroup's memory.
type MemorySample struct {
	CgroupBytes int64 `json:"cgroup_bytes"`
	PSSBytes    int64 `json:"pss_bytes"` // 0 if it could not be read; see Missing
	RSSBytes    int64 `json:"rss_bytes"`
	Processes   int   `json:"processes"`
	// PSSByCommand is the same by process command.
	PSSByCommand map[string]int64 `json:"pss_by_command,omitempty"`
	// Missing says what could not be read, and why.
	Missing string `json:"missing,omitempty"`
}

// NetSample is the TCP state of the target's network namespace, which the containers of a
// pod share.
type NetSample struct {
	Established uint64 `json:"established"`   // now
	ActiveOpens uint64 `json:"active_opens"`  // connections it opened
	PassiveOpen uint64 `json:"passive_opens"` // connections it accepted
	Retransmits uint64 `json:"retransmits"`   // segments
}

// MachineSample has the counters of the whole node.
type MachineSample struct {
	AtUnixNS int64 `json:"at_unix_ns"`
	// SteppedNS is that of the snapshot.
	SteppedNS int64 `json:"stepped_ns,omitempty"`
	CPUs      int   `json:"cpus"`
	// BootID is the same on nodes that share a machine, such as those of a local lab, where
	// each node counts the whole machine. "" if unknown.
	BootID string `json:"boot_id,omitempty"`
	// TotalNS is the run time of all tasks, as exact as that of a cgroup, from the root of
	// cgroup v1. It is 0 if the kernel has no such sum, so that only ticks remain.
	TotalNS uint64 `json:"total_ns,omitempty"`
	// CPU times since boot in nanoseconds, counted in ticks (usually 10 ms).
	UserNS    uint64 `json:"user_ns"` // with nice
	SystemNS  uint64 `json:"system_ns"`
	IRQNS     uint64 `json:"irq_ns"`
	SoftIRQNS uint64 `json:"softirq_ns"`
	StealNS   uint64 `json:"steal_ns"`
	IdleNS    uint64 `json:"idle_ns"` // with iowait
	// Times during which some task waited, from /proc/pressure; absent if the kernel has no
	// PSI.
	Pressure        bool    `json:"pressure"`
	CPUSomeNS       uint64  `json:"cpu_some_ns"`
	MemorySomeNS    uint64  `json:"memory_some_ns"`
	IOSomeNS        uint64  `json:"io_some_ns"`
	ContextSwitches uint64  `json:"context_switches"`
	SelfS           float64 `json:"self_cpu_s"` // the observer's own CPU time
}
