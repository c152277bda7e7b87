package node

// ControlPort is the fault role's default port, on 127.0.0.1 only. Callers
// send the server's token (Authorization: Bearer TOKEN):
//
//	POST   /v1/processes    Container -> its processes, by PID
//	POST   /v1/prepare      Container, of which only the pod matters
//	POST   /v1/look         processes -> the same in their current state
//	POST   /v1/signal       SignalRequest -> Fault
//	POST   /v1/network      NetworkRequest -> Fault
//	GET    /v1/faults       the faults in force, the oldest first
//	GET    /v1/faults/{id}  Fault
//	POST   /v1/faults/{id}  ExtendRequest -> Fault
//	DELETE /v1/faults/{id}  Fault, as it was at its end
//	GET    /v1/offers       an Offer for each ability
//	GET    /v1/clock
//	GET    /healthz         200
//
// Errors are JSON, {"error": "...", "hint": "..."}.
const ControlPort = 15994

// Limits of requests.
const (
	MaxPeers    = 1000
	MaxFaults   = 1000            // in force at once
	MaxLeaseMS  = 10 * 60 * 1000  // of one lease, which can be extended
	MaxDelayNS  = 10_000_000_000  // of a packet
	MaxRateBits = 100_000_000_000 // a second
	MinRateBits = 8_000           // a second: a packet of 1,500 bytes takes 1.5 s
)

// Kinds of processes.
const (
	KindEnvoy  = "envoy"   // a sidecar's or gateway's proxy, of any mesh
	KindAgent  = "agent"   // starts the proxy and fetches its certificates
	KindWorker = "worker"  // a role of this program
	KindIstiod = "istiod"  // the control plane of any mesh
	KindNode   = "ztunnel" // a proxy that the pods of a node share
	KindInit   = "init"    // the container's first process, if it is none of these
	KindOther  = "other"
)

// Signals.
const (
	SignalKill = "kill" // SIGKILL
	SignalStop = "stop" // SIGSTOP, and SIGCONT at the fault's end
	// SignalOOM is the SIGKILL of the kernel's OOM killer: the container's memory limit
	// is lowered until it comes.
	SignalOOM = "oom"
)

// Directions of packets, seen from the pod.
const (
	In   = "in"  // from the peers to the pod
	Out  = "out" // from the pod to the peers
	Both = "both"
)

// Container is a container on the node, as in the Kubernetes API.
type Container struct {
	PodUID string `json:"pod_uid"` // metadata.uid
	// ID is the API's status.containerStatuses[].containerID, with or without
	// its "containerd://". To list processes, "" means all containers of the pod.
	ID string `json:"container_id"`
}

// Process is a process of a container.
type Process struct {
	PID        int    `json:"pid"`         // on the node
	StartTicks uint64 `json:"start_ticks"` // since boot; PID and StartTicks identify a process
	Comm       string `json:"comm"`
	Kind       string `json:"kind"`
	// State is the letter of /proc/PID/stat (R running, S sleeping, T stopped, Z
	// zombie...), or Gone.
	State string `json:"state"`
}

// Gone is the state of a process that no longer exists.
const Gone = "gone"

// SignalRequest sends a signal to the processes of a kind in a container.
type SignalRequest struct {
	Container
	Kind    string `json:"kind"`
	Signal  string `json:"signal"`
	LeaseMS int64  `json:"lease_ms,omitempty"` // SignalStop: until they continue; see ExtendRequest
}

// NetworkRequest disturbs packets between a pod and peers. Exactly one of Cut, Lose, and
// DelayNS with or without RateBits is set.
type NetworkRequest struct {
	PodUID    string   `json:"pod_uid"`
	Peers     []string `json:"peers"` // IP addresses
	Direction string   `json:"direction"`
	Cut       bool     `json:"cut,omitempty"`
	Lose      float64  `json:"lose,omitempty"`      // share of packets, above 0 and below 1
	DelayNS   int64    `json:"delay_ns,omitempty"`  // of each packet
	RateBits  int64    `json:"rate_bits,omitempty"` // a second, of IP packets with their headers
	LeaseMS   int64    `json:"lease_ms"`
}

// ExtendRequest sets the rest of a fault's lease.
type ExtendRequest struct {
	LeaseMS int64 `json:"lease_ms"`
}

// Fault is a fault in force, or a record of what was done.
type Fault struct {
	ID     string `json:"id,omitempty"` // "" if it does not stay in force: SignalKill, SignalOOM
	PodUID string `json:"pod_uid"`
	What   string `json:"what"` // for people
	// BeganNS is when it took effect and ExpiresNS when it expires, by the node's clock.
	// They are informative: leases use the monotonic clock.
	BeganNS   int64     `json:"began_unix_ns"`
	ExpiresNS int64     `json:"expires_unix_ns,omitempty"`
	Processes []Process `json:"processes,omitempty"` // before the signal
	Packets   *Packets  `json:"packets,omitempty"`
	Memory    *Memory   `json:"memory,omitempty"` // SignalOOM
}

// Memory describes how a container ran out of memory.
type Memory struct {
	UsedBytes  int64 `json:"used_bytes"`  // before
	LimitBytes int64 `json:"limit_bytes"` // the last limit, which was too low
	// Kills counts its OOM kills, by the container's cgroup.
	Kills int64 `json:"kills"`
}

// Packets counts the packets of a network fault.
type Packets struct {
	Matched int64 `json:"matched"` // between the pod and its peers
	Dropped int64 `json:"dropped"`
	Delayed int64 `json:"delayed"`
}

// Offer reports whether a node has an ability.
type Offer struct {
	What string `json:"what"` // a Need constant of package fault
	OK   bool   `json:"ok"`
	// Detail says what was tried and observed, or why it is not possible.
	Detail string `json:"detail"`
}
