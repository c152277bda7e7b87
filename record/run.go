package record

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Kinds of study, as in headers and findings.
const (
	KindDataPlane    = "data-plane"    // requests through sidecars
	KindControlPlane = "control-plane" // configuration on its way to sidecars
	KindResilience   = "resilience"    // requests while things break
	KindIngress      = "ingress"       // gateways whose routes change
)

// Header describes a run as a whole: machine.json. It is written before the first
// trial.
type Header struct {
	Schema  int       `json:"schema"`
	Kind    string    `json:"kind"` // of its study: KindDataPlane or another
	RunID   string    `json:"run_id"`
	Study   string    `json:"study"`
	Started time.Time `json:"started"`
	Seed    uint64    `json:"seed"` // of the order of trials and of arrivals
	Lab     string    `json:"lab"`  // local or cluster
	// Cluster identifies a user's cluster by the UID of its namespace kube-system. It
	// is "" if unknown, and for a local lab, which changes with each start.
	Cluster string  `json:"cluster,omitempty"`
	Machine Machine `json:"machine"`
	// Revision is Istio's revision; "" without Istio or if unknown.
	Revision string `json:"revision,omitempty"`
	// Components lists the measured binaries and what they lack.
	Components []Component `json:"components"`
	Meshtrial  string      `json:"meshtrial"` // version of this program
	// MeshtrialDigest is the digest of the program's file. Builds of a modified tree
	// share a version.
	MeshtrialDigest string `json:"meshtrial_digest,omitempty"`
	// Rules are the validity rules that the trials were judged by.
	Rules Rules `json:"rules"`
	// Observed is the source of CPU and memory values: ObservedCgroup or
	// ObservedKubelet.
	Observed string `json:"observed,omitempty"`
}

// Sources of CPU and memory values.
const (
	ObservedCgroup  = "cgroup"  // counters of cgroups, by a pod on each node
	ObservedKubelet = "kubelet" // samples of the kubelets, through the API server
)

// Rules are the validity rules that trials were judged by.
type Rules struct {
	Version int `json:"version"`
	// Limits has the effective bounds of checks, by name.
	Limits map[string]float64 `json:"limits"`
}

// Machine describes the machine the run took place on.
type Machine struct {
	CPUModel     string   `json:"cpu_model"`
	CPUs         int      `json:"cpus"`
	MemoryBytes  int64    `json:"memory_bytes"`
	Kernel       string   `json:"kernel"`
	OS           string   `json:"os"`
	Virtual      string   `json:"virtual,omitempty"`      // hypervisor, "" if none detected
	ClockSource  string   `json:"clock_source,omitempty"` // tsc, kvm-clock...
	Governor     string   `json:"governor,omitempty"`     // frequency scaling
	CgroupMode   string   `json:"cgroup_mode,omitempty"`  // v1, v2, hybrid
	Nodes        int      `json:"nodes,omitempty"`
	Kubernetes   string   `json:"kubernetes,omitempty"` // server version
	Remarks      []string `json:"remarks,omitempty"`    // warnings from doctor
	NodeArch     string   `json:"node_arch,omitempty"`
	ContainerRun string   `json:"container_runtime,omitempty"` // as containerd 1.7.0
}

// Words describes the machine as trials do. Identical machines have the same
// description.
func (m Machine) Words() string {
	return fmt.Sprintf("%s, %s, %d CPUs, Linux %s", m.CPUModel, m.NodeArch, m.CPUs, m.Kernel)
}

// Component is a measured binary.
type Component struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Digest  string   `json:"digest,omitempty"`
	Source  string   `json:"source,omitempty"`
	Lacks   []string `json:"lacks,omitempty"` // e.g. "Istio telemetry filter"
}

// SourceOfMode is the source of a component that is not a binary but an enabled mode of
// one, such as a mode of istiod. It is listed with the binary; if it is absent, the
// mode is off.
const SourceOfMode = "how it is set"

// SourceOfCluster is the source of a component that is not a binary but a property of
// the cluster, whose version says whether it is on or off. If a header lacks it, that
// is unknown.
const SourceOfCluster = "what the cluster has"

// GatewayAPI is the component that says whether a cluster has the Gateway API.
const GatewayAPI = "the Gateway API"

// Run is a run directory in memory, the input of analysis.
type Run struct {
	Header Header
	// StudyYAML is the resolved study, with every default filled in.
	StudyYAML []byte
	Trials    []Trial
	// Events has the changes and steps of all trials, in the order they were made.
	Events []Event
	// Hist has the window's latency histograms by trial ID, in nanoseconds.
	Hist map[string]TrialHist
	// Requests opens the per-request log of a resilience trial, in the format of
	// package ledger's books. The error is fs.ErrNotExist if there is none. Requests is
	// nil for runs that kept no such logs.
	Requests func(trial string) (io.ReadCloser, error)
	// Evidence reads the evidence that a trial was judged from, as JSON. The error is
	// fs.ErrNotExist if there is none. Evidence is nil for runs that kept none.
	Evidence func(trial string) ([]byte, error)
	// Profile opens a profile of a trial by the file name recorded in the trial.
	// Profile is nil for runs that kept none.
	Profile func(file string) (io.ReadCloser, error)
}

// TrialHist has a trial's window histograms, in nanoseconds.
type TrialHist struct {
	Intended *hdrhistogram.Histogram
	Send     *hdrhistogram.Histogram
}
