package observe

// Schema is the version of the observe role's documents.
const Schema = 1

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

// Target is a container, or with an empty ContainerID a whole pod, on the
// observed node.
type Target struct {
	Name        string `json:"name"`                   // the key of its sample in answers
	PodUID      string `json:"pod_uid,omitempty"`      // metadata.uid
	ContainerID string `json:"container_id,omitempty"` // as the API has it, with or without its "containerd://"
	// MayEnd says that it may have ended: then its samples have an Error, where another
	// that is not there has the whole request refused.
	MayEnd bool `json:"may_end,omitempty"`
	// Pod and Container are the names by which kubelets know it: NAMESPACE/NAME, and
	// "" for the whole pod.
	Pod       string `json:"-"`
	Container string `json:"-"`
}

// SnapshotsRequest asks for samples at given instants.
type SnapshotsRequest struct {
	// AtUnixNS are the instants by the node's clock (see Client.Clock),
	// rising. One that has passed is sampled at once; the sample says when.
	// None: one, as the request arrives.
	AtUnixNS []int64 `json:"at_unix_ns,omitempty"`
	// SteppedNS says that the instants are by the node's clock as it went when it had been
	// set by so much since the observer began (see Client.Clock), wherever it has been set
	// to since. nil: as it goes when the request arrives. All times of the answer are by
	// that clock, so a step of the wall clock moves no edge of a window.
	SteppedNS *int64   `json:"stepped_ns,omitempty"`
	Targets   []Target `json:"targets"`
	// Memory asks for memory and sockets at the last instant, after its CPU
	// counters: reading PSS walks page tables and is not cheap.
	Memory bool `json:"memory"`
	// Threads asks for the threads of all targets, shortly before the first
	// instant and after the last, so that reading them is not part of what is
	// between; each has the cgroup's counters of its own moment beside it.
	Threads bool `json:"threads"`
	// Processes asks for the node's other processes, at the same times as threads.
	Processes bool `json:"processes,omitempty"`
	// Edge says of a request for one instant which edge of a window it is; of
	// several the first is the beginning, the last the end.
	Edge Edge `json:"edge,omitempty"`
	// Probes names those to read of all targets, at the first and the last
	// instant, after their CPU counters.
	Probes []string `json:"probes,omitempty"`
}

// SnapshotsAnswer has one snapshot for each instant.
type SnapshotsAnswer struct {
	Schema    int        `json:"schema"`
	Snapshots []Snapshot `json:"snapshots"`
}

// Edge is an edge of a window. What takes a while to read (threads, processes)
// is read ahead of the counters at the beginning and behind them at the end, so
// that it spans at least the window.
type Edge string

const (
	Begin Edge = "" // also where no window is
	End   Edge = "end"
)

// Snapshot is what was read at one instant.
type Snapshot struct {
	Schema int `json:"schema"`
	// AtUnixNS is the instant asked for, StartNS when reading began and
	// EndNS when the CPU counters of all targets had been read.
	AtUnixNS int64 `json:"at_unix_ns"`
	StartNS  int64 `json:"start_unix_ns"`
	EndNS    int64 `json:"end_unix_ns"`
	// SteppedNS tells by which clock, as that of the request. Times of snapshots of several
	// requests are comparable less their SteppedNS.
	SteppedNS int64             `json:"stepped_ns,omitempty"`
	Machine   MachineSample     `json:"machine"`
	Targets   map[string]Sample `json:"targets"`
	// Processes are the node's, but for those of the targets, at the first and
	// the last instant of a request for them.
	Processes []ProcessSample `json:"processes,omitempty"`
	// ProcessesNS is when they were read.
	ProcessesNS int64 `json:"processes_unix_ns,omitempty"`
}

// Sample is a target's counters. A target whose cgroup went away has Error
// and nothing else.
type Sample struct {
	AtUnixNS int64         `json:"at_unix_ns"`
	Error    string        `json:"error,omitempty"`
	CPU      CPUSample     `json:"cpu"`
	Memory   *MemorySample `json:"memory,omitempty"`
	Net      *NetSample    `json:"net,omitempty"`
	// Threads, at the first and the last instant of a request for them.
	Threads *ThreadsSample `json:"threads,omitempty"`
	// Probed are the counters of probes by figure, likewise. One that cannot be
	// read has no figure here.
	Probed map[string]uint64 `json:"probed,omitempty"`
}

// CPUSample is a cgroup's CPU counters.
type CPUSample struct {
	// TotalNS is exact: the scheduler's own sum of run times (cgroup v1
	// cpuacct.usage; v2 usage_usec, to the microsecond).
	TotalNS uint64 `json:"total_ns"`
	// UserNS and SystemNS are the kernel's own estimates of the two shares,
	// mostly sampled at its timer ticks. They need not add up to TotalNS:
	// Since splits the total in their proportion.
	UserNS      uint64 `json:"user_ns"`
	SystemNS    uint64 `json:"system_ns"`
	ThrottledNS uint64 `json:"throttled_ns,omitempty"` // time a CPU limit held its threads back
	Throttled   uint64 `json:"throttled_periods,omitempty"`
	Periods     uint64 `json:"periods,omitempty"`
	// Inode tells cgroups of the same path apart.
	Inode uint64 `json:"inode,omitempty"`
}

// MemorySample is a cgroup's memory.
type MemorySample struct {
	CgroupBytes int64 `json:"cgroup_bytes"`
	PSSBytes    int64 `json:"pss_bytes"` // 0 if it could not be read; see Missing
	RSSBytes    int64 `json:"rss_bytes"`
	Processes   int   `json:"processes"`
	// PSSByCommand is the same of the processes of each command.
	PSSByCommand map[string]int64 `json:"pss_by_command,omitempty"`
	// Missing says what could not be read and why.
	Missing string `json:"missing,omitempty"`
}

// NetSample is the TCP state of the network namespace a target lives in,
// which it shares with the other containers of its pod.
type NetSample struct {
	Established uint64 `json:"established"`   // now
	ActiveOpens uint64 `json:"active_opens"`  // connections it opened
	PassiveOpen uint64 `json:"passive_opens"` // connections it accepted
	Retransmits uint64 `json:"retransmits"`   // segments
}

// MachineSample is the whole node's counters.
type MachineSample struct {
	AtUnixNS int64 `json:"at_unix_ns"`
	// SteppedNS is the snapshot's.
	SteppedNS int64 `json:"stepped_ns,omitempty"`
	CPUs      int   `json:"cpus"`
	// BootID is the same on nodes that share a machine, as those of a local lab do:
	// each counts the whole machine. "" if it is not known.
	BootID string `json:"boot_id,omitempty"`
	// TotalNS is the run time of all tasks, as exact as that of a cgroup: cgroup
	// v1's root. 0 where the kernel has no such sum; then ticks are all there is.
	TotalNS uint64 `json:"total_ns,omitempty"`
	// CPU time since boot in nanoseconds, counted in ticks (usually 10 ms).
	UserNS    uint64 `json:"user_ns"` // with nice
	SystemNS  uint64 `json:"system_ns"`
	IRQNS     uint64 `json:"irq_ns"`
	SoftIRQNS uint64 `json:"softirq_ns"`
	StealNS   uint64 `json:"steal_ns"`
	IdleNS    uint64 `json:"idle_ns"` // with iowait
	// Time in which some task waited, from /proc/pressure; absent where the
	// kernel has no PSI.
	Pressure        bool    `json:"pressure"`
	CPUSomeNS       uint64  `json:"cpu_some_ns"`
	MemorySomeNS    uint64  `json:"memory_some_ns"`
	IOSomeNS        uint64  `json:"io_some_ns"`
	ContextSwitches uint64  `json:"context_switches"`
	SelfS           float64 `json:"self_cpu_s"` // the observer's own CPU time
}
