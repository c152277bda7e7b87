package record

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Kinds of study, as headers and findings name them.
const (
	KindDataPlane    = "data-plane"    // requests through sidecars
	KindControlPlane = "control-plane" // configuration on its way to sidecars
	KindResilience   = "resilience"    // requests while things break
)

// Header describes a run as a whole: machine.json. It is written before the
// first trial.
type Header struct {
	Schema  int       `json:"schema"`
	Kind    string    `json:"kind"` // of its study: KindDataPlane or another
	RunID   string    `json:"run_id"`
	Study   string    `json:"study"`
	Started time.Time `json:"started"`
	Seed    uint64    `json:"seed"` // of the order of trials and of arrivals
	Lab     string    `json:"lab"`  // local or cluster
	// Cluster tells a user's cluster from any other, as the UID of its namespace
	// kube-system does; "" for a local lab, which is another at each start, and
	// where it is not known.
	Cluster string  `json:"cluster,omitempty"`
	Machine Machine `json:"machine"`
	// Revision is that of Istio; "" without Istio, and where it is not known.
	Revision string `json:"revision,omitempty"`
	// Components are the measured binaries and what they lack.
	Components []Component `json:"components"`
	Meshtrial  string      `json:"meshtrial"` // version of this program
	// MeshtrialDigest is that of the program's file: builds of a tree with
	// changes share a version.
	MeshtrialDigest string `json:"meshtrial_digest,omitempty"`
	// Rules are those by which its trials were judged.
	Rules Rules `json:"rules"`
	// Observed is where CPU and memory were read: ObservedCgroup or ObservedKubelet.
	Observed string `json:"observed,omitempty"`
}

// Sources of CPU and memory.
const (
	ObservedCgroup  = "cgroup"  // counters of cgroups, by a pod on each node
	ObservedKubelet = "kubelet" // samples of the kubelets, through the API server
)

// Rules say by what trials were judged.
type Rules struct {
	Version int `json:"version"`
	// Limits are the bounds of checks by name, with the values in force.
	Limits map[string]float64 `json:"limits"`
}

// Machine is where the run took place.
type Machine struct {
	CPUModel     string   `json:"cpu_model"`
	CPUs         int      `json:"cpus"`
	MemoryBytes  int64    `json:"memory_bytes"`
	Kernel       string   `json:"kernel"`
	OS           string   `json:"os"`
	Virtual      string   `json:"virtual,omitempty"`      // hypervisor, "" for none seen
	ClockSource  string   `json:"clock_source,omitempty"` // tsc, kvm-clock...
	Governor     string   `json:"governor,omitempty"`     // frequency scaling
	CgroupMode   string   `json:"cgroup_mode,omitempty"`  // v1, v2, hybrid
	Nodes        int      `json:"nodes,omitempty"`
	Kubernetes   string   `json:"kubernetes,omitempty"` // server version
	Remarks      []string `json:"remarks,omitempty"`    // what doctor warned of
	NodeArch     string   `json:"node_arch,omitempty"`
	ContainerRun string   `json:"container_runtime,omitempty"` // as containerd 1.7.0
}

// Words are what trials call a machine: those that are alike have the same.
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

// SourceOfMode is the source of a component that is no binary but a way in which one
// runs, such as a mode of istiod's that is on. It is told with the binary: where it is
// absent it is off.
const SourceOfMode = "how it is set"

// SourceOfCluster is the source of a component that is no binary but something that the
// cluster has, by its version on or off. Where a header lacks it, that is
// not known.
const SourceOfCluster = "what the cluster has"

// GatewayAPI is the component that says whether a cluster has the Gateway API.
const GatewayAPI = "the Gateway API"

// Run is a run directory in memory, as analysis takes it.
type Run struct {
	Header Header
	// StudyYAML is the resolved study: every default filled in.
	StudyYAML []byte
	Trials    []Trial
	// Events are the changes and steps of all trials, in the order they were made.
	Events []Event
	// Hist gives the window's latency histograms by trial ID. Histograms
	// hold nanoseconds.
	Hist map[string]TrialHist
	// Requests opens what was written about each request of a trial of
	// resilience, as package ledger writes a book; the error is fs.ErrNotExist
	// if there is nothing. Nil for runs of which nobody kept any.
	Requests func(trial string) (io.ReadCloser, error)
	// Evidence reads what a trial saw, from which it was judged, as JSON; the
	// error is fs.ErrNotExist if there is nothing. Nil for runs of which nobody
	// kept any.
	Evidence func(trial string) ([]byte, error)
	// Profile opens a file of a trial's profiles by the name that the trial
	// has for it. Nil for runs of which nobody kept any.
	Profile func(file string) (io.ReadCloser, error)
}

// TrialHist are a trial's window histograms, in nanoseconds.
type TrialHist struct {
	Intended *hdrhistogram.Histogram
	Send     *hdrhistogram.Histogram
}
