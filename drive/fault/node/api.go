package node

import "github.com/meshtrial/meshtrial/drive/fault"

// Schema is the version of the fault role's documents.
const Schema = 1

// ControlPort is the fault role's default port, on 127.0.0.1 only. Callers
// send the server's token (Authorization: Bearer TOKEN):
//
//	POST   /v1/processes    Container -> ProcessesAnswer
//	POST   /v1/prepare      PrepareRequest -> the same
//	POST   /v1/look         LookRequest -> ProcessesAnswer
//	POST   /v1/signal       SignalRequest -> Fault
//	POST   /v1/network      NetworkRequest -> Fault
//	POST   /v1/extend       ExtendRequest -> FaultsAnswer
//	GET    /v1/faults       FaultsAnswer
//	GET    /v1/faults/{id}  Fault
//	DELETE /v1/faults/{id}  Fault, as it was at its end
//	GET    /v1/offers       OffersAnswer
//	GET    /v1/clock
//	GET    /healthz         200
//
// Errors are JSON, {"error": "...", "hint": "..."}.
const ControlPort = 15994

// Limits of requests.
const (
	MaxPeers    = 1000
	MaxFaults   = 1000            // that stand at once
	MaxLeaseMS  = 10 * 60 * 1000  // of one lease; it can be extended
	MaxDelayNS  = 10_000_000_000  // of a packet
	MaxRateBits = 100_000_000_000 // a second
	MinRateBits = 8_000           // a second: a packet of 1,500 bytes takes 1.5 s
)

// Kinds of processes.
const (
	KindEnvoy  = "envoy"   // a sidecar's or gateway's proxy, whichever its mesh has
	KindAgent  = "agent"   // what starts the proxy and fetches its certificates
	KindWorker = "worker"  // a role of this program
	KindIstiod = "istiod"  // the mesh's control plane, whichever it is
	KindNode   = "ztunnel" // a proxy that the pods of a node share
	KindInit   = "init"    // the container's first process, where it is none of these
	KindOther  = "other"
)

// Signals.
const (
	SignalKill = "kill" // SIGKILL
	SignalStop = "stop" // SIGSTOP, and SIGCONT at the fault's end
	// SignalOOM is the kernel's SIGKILL for want of memory: the limit of the container
	// falls until it comes.
	SignalOOM = "oom"
)

// Directions of packets, as the pod in whose network namespace the rule
// stands sees them.
const (
	In   = "in"   // from the peers to the pod
	Out  = "out"  // from the pod to the peers
	Both = "both" // each disturbed in the same way
)

// Container is a container on the node, by what the API tells of it.
type Container struct {
	PodUID string `json:"pod_uid"` // metadata.uid
	// ID is the API's status.containerStatuses[].containerID, with or without
	// its "containerd://".
	ID string `json:"container_id"`
}

// Process is a process of a container.
type Process struct {
	PID        int    `json:"pid"`         // on the node
	StartTicks uint64 `json:"start_ticks"` // since boot; with PID it names a process for good
	Comm       string `json:"comm"`
	Kind       string `json:"kind"`
	// State is the letter of /proc/PID/stat (R running, S sleeping, T
	// stopped, Z ended and not yet waited for...), or Gone.
	State string `json:"state"`
}

// Gone is the state of a process that does not exist any longer.
const Gone = "gone"

// ProcessesAnswer lists processes by PID.
type ProcessesAnswer struct {
	Schema    int       `json:"schema"`
	Processes []Process `json:"processes"`
}

// PrepareRequest has the node look for a pod ahead of a fault, which then
// begins some milliseconds sooner.
type PrepareRequest struct {
	PodUID string `json:"pod_uid"`
}

// LookRequest asks for the state of processes found before.
type LookRequest struct {
	Processes []Process `json:"processes"`
}

// SignalRequest sends a signal to the processes of a kind in a container.
type SignalRequest struct {
	Container
	Kind    string `json:"kind"`
	Signal  string `json:"signal"`
	LeaseMS int64  `json:"lease_ms,omitempty"` // SignalStop: how long until they go on; see ExtendRequest
}

// NetworkRequest disturbs packets between a pod and peers. Exactly one of
// Cut, Lose, and the two of DelayNS and RateBits together is given.
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

// ExtendRequest has faults end so long from now, instead of when they would.
type ExtendRequest struct {
	IDs     []string `json:"ids"`
	LeaseMS int64    `json:"lease_ms"`
}

// Fault is what was done, or stands.
type Fault struct {
	Schema int    `json:"schema"`
	ID     string `json:"id,omitempty"` // "" for what does not stand: SignalKill, SignalOOM
	PodUID string `json:"pod_uid"`
	What   string `json:"what"` // in words
	// BeganNS is when it took effect and ExpiresNS when it ends by itself, by
	// the node's clock. They are told, and decide nothing: a lease goes by the
	// monotonic clock, which nobody sets.
	BeganNS   int64     `json:"began_unix_ns"`
	ExpiresNS int64     `json:"expires_unix_ns,omitempty"`
	Processes []Process `json:"processes,omitempty"` // as found before the signal
	Packets   *Packets  `json:"packets,omitempty"`
	Memory    *Memory   `json:"memory,omitempty"` // SignalOOM
}

// Memory is how a container came to want memory.
type Memory struct {
	UsedBytes  int64 `json:"used_bytes"`  // before
	LimitBytes int64 `json:"limit_bytes"` // the last, that was too low
	// Kills is how many of its processes the kernel killed for that, by the count of
	// the container's cgroup.
	Kills int64 `json:"kills"`
}

// Packets count what a network fault saw, and did.
type Packets struct {
	Matched int64 `json:"matched"` // between the pod and its peers
	Dropped int64 `json:"dropped"`
	Delayed int64 `json:"delayed"`
	// LateNS is by how much the latest of the delayed packets left too late.
	LateNS int64 `json:"late_max_ns,omitempty"`
}

// FaultsAnswer lists the faults that stand, the oldest first.
type FaultsAnswer struct {
	Schema int     `json:"schema"`
	Faults []Fault `json:"faults"`
}

// Things that a node may offer.
const (
	OfferProcess = fault.NeedProcess // kill and pause, and find again what was paused
	OfferMemory  = fault.NeedMemory  // bound a cgroup's memory, and read whom the kernel killed
	OfferCut     = fault.NeedCut
	OfferLose    = fault.NeedLose
	OfferDelay   = fault.NeedDelay
	OfferRate    = fault.NeedRate
)

// Offer says whether a node can do something.
type Offer struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	// Detail says what was tried and seen, or why it cannot be done.
	Detail string `json:"detail"`
}

// OffersAnswer has an offer for each of the things above.
type OffersAnswer struct {
	Schema int     `json:"schema"`
	Offers []Offer `json:"offers"`
}
