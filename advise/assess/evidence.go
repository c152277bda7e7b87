package assess

import (
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
)

// Evidence is what was read of a mesh. Nil is unknown; Unknown says why.
type Evidence struct {
	Source  string
	At      time.Time
	WindowS float64
	Istiod  string // its version
	// Settings are the levers of istiod and the mesh that differ from Istio's defaults.
	Settings []Setting
	// Proxies are all of the mesh, with istiod's replicas.
	Proxies []Proxy
	// Autoscalers are all of the cluster.
	Autoscalers []Autoscaler
	Nodes       int // that run pods
	// Enrolled are pods without a sidecar that ztunnels carry requests for.
	Enrolled int
	// Objects are counts of the mesh's objects, by kind.
	Objects map[string]int
	Limits  *advice.Report
	Signals *signals.Reading
	Scope   *scope.Report
	// Sidecars are those that would suit what the workloads call.
	Sidecars *generate.Result
	Calls    []Call
	// Hosts are the Services of the namespaces with sidecars, and what others are called.
	Hosts []Host
	// Filters are EnvoyFilters of sidecars that a lab may run.
	Filters []Filter
	// Unread are kinds of objects that may decide by what is in requests, but were not listed.
	Unread []string
	// TrafficS is the time over which requests were counted, in seconds, on the mean over sidecars.
	TrafficS float64
	// Sizes are mean bytes of requests and answers as proxies count them; nil where none does.
	Sizes *Sizes
	// Protocols are requests per second that left pods, by protocol.
	Protocols map[string]float64
	// Open are connections of TCP that proxies have open; nil where nobody counts them.
	Open *float64
	// Sync is what istiods told of their proxies; nil if nothing.
	Sync *Sync
	// Log is what istiod's log says; nil without one.
	Log *Log
	// AccessLogs is what access logs say; nil without any.
	AccessLogs *Logged
	// Profiles are istiod's.
	Profiles []Profiled
	// Model is of istiod's capacity; nil without one. ModelShipped says that it ships with the program.
	Model        *model.Model
	ModelShipped bool
	// Modes are what runs say of ways to carry the requests of this mesh.
	Modes []Modes
	Runs  int // that Modes were asked of
	// Offline says that the proxies themselves were not asked.
	Offline bool
	Latency []Latency
	Prices  Prices
	Unknown []Unknown
}

// OneIstiod is the version that istiod has by its images; "" where they differ, or are not known.
func (e Evidence) OneIstiod() (tag string) {
	for _, p := range e.Proxies {
		if p.Kind == Istiod && (tag != "" && p.Version != tag || p.Version == "") {
			return ""
		}
		if p.Kind == Istiod {
			tag = p.Version
		}
	}
	return strings.TrimSuffix(strings.TrimSuffix(tag, "-distroless"), "-debug")
}

// Sync says how many proxies have not acknowledged all that istiod sent them.
type Sync struct {
	Proxies int    `json:"proxies"`
	Behind  int    `json:"behind"`
	Example string `json:"example,omitempty"` // one that is behind, as NAME.NAMESPACE
}

// Kind is what a proxy is for.
type Kind string

// Kinds of proxies, and istiod, in the order of tables.
const (
	Sidecar  Kind = "sidecar"
	Ztunnel  Kind = "ztunnel"
	Waypoint Kind = "waypoint"
	Gateway  Kind = "gateway"
	Istiod   Kind = "istiod"
)

// Kinds are all kinds.
var Kinds = []Kind{Sidecar, Ztunnel, Waypoint, Gateway, Istiod}

// Resources are CPU and memory; 0 is none.
type Resources struct {
	Cores float64 `json:"cores"`
	Bytes float64 `json:"bytes"`
}

func (r Resources) plus(o Resources) Resources {
	return Resources{r.Cores + o.Cores, r.Bytes + o.Bytes}
}

// where are the resources of which others are set.
func (r Resources) where(set Resources) Resources {
	if set.Cores == 0 {
		r.Cores = 0
	}
	if set.Bytes == 0 {
		r.Bytes = 0
	}
	return r
}

// Proxy is a proxy, or a replica of istiod.
type Proxy struct {
	Kind      Kind
	Namespace string
	Pod       string
	Workload  string
	Node      string
	Version   string // the tag of its image
	Revision  string // of istiod, or of the istiod that injected or configures it; "" if unknown
	Requests  Resources
	Limits    Resources
	Restarts  int
	Threads   int // workers of Envoy; 0: its default
	// Analyses says whether an istiod analyses the mesh's configuration (PILOT_ENABLE_ANALYSIS); nil if unknown.
	Analyses *bool
	// Cores and Bytes are what it used, over its own samples; nil where nobody measured it.
	Cores, Bytes *float64
	// CoresCounted is its CPU, in cores, over the time for which its requests were counted, if Cores is over
	// another one; NaN where it was not sampled twice in it.
	CoresCounted *float64
	// Called and Served are requests per second that left and entered its pod by it, Connections those
	// of TCP opened both ways; nil where its counters were not read twice.
	Called, Served, Connections *float64
	// Open is how many connections it has open to hosts that it sends requests to; nil if unknown.
	Open *float64
	// UsageBy and RequestsBy say who measured what it used, and counted its requests.
	UsageBy, RequestsBy Source
}

// Source is who measured something.
type Source string

// Sources of figures of proxies.
const (
	ByItself     Source = "" // by the kubelet of its node, and by its own counters
	ByLogs       Source = "access_logs"
	ByPrometheus Source = "prometheus"
)

// Sizes are mean bytes of bodies.
type Sizes struct {
	Request  float64 `json:"request_bytes"`
	Response float64 `json:"response_bytes"`
}

// Filter is an EnvoyFilter of sidecars.
type Filter struct {
	Of      string // NAMESPACE/NAME
	Name    string // in studies
	Patches string // priority and configPatches, as JSON
}

// Autoscaler sets the replicas of a Deployment.
type Autoscaler struct {
	Namespace string
	Of        string
	Bounds
}

// Call is a workload that calls a host.
type Call struct {
	From generate.Workload `json:"from"`
	Host string            `json:"host"`
	// PerS are requests per second, or connections where TCP says so.
	PerS float64 `json:"per_s"`
	TCP  bool    `json:"tcp,omitempty"`
	// Routed says that something decides by what is in its requests, or balances them: see [Host.Needs].
	Routed bool `json:"routed,omitempty"`
}

// Host is what workloads may call.
type Host struct {
	Name      string `json:"host"`
	Namespace string `json:"namespace,omitempty"` // of its pods; "" for what has none in the mesh
	// Needs are the objects that decide by what is in its requests, or balance them one by one, as KIND
	// NAMESPACE/NAME: in an ambient mesh these take a waypoint.
	Needs []string `json:"needs,omitempty"`
}

// Profiled is what istiod spends CPU or memory on, by a profile.
type Profiled struct {
	Name string `json:"file"`
	Kind string `json:"kind"` // profile.KindCPU or profile.KindHeap
	profile.Costs
	TooFew bool `json:"too_few,omitempty"` // samples to tell shares
}

// Modes are ways of carrying this mesh's requests, side by side.
type Modes struct {
	Run   string `json:"run"`
	Study string `json:"study"`
	// Shipped says that the run ships with the program.
	Shipped bool               `json:"shipped,omitempty"`
	Machine string             `json:"machine"`
	Parts   []record.Component `json:"measured"`
	Sizing  record.Sizing      `json:"sizing"`
	// Namespaces are sized as if each moved alone.
	Namespaces []NamespaceSizing `json:"namespaces,omitempty"`
}

// NamespaceSizing is what a run says of the ways to carry a namespace's requests.
type NamespaceSizing struct {
	Namespace string        `json:"namespace"`
	Sizing    record.Sizing `json:"sizing"`
}

// Setting is a lever's level as found, by the lever's name, and Istio's default.
type Setting struct {
	Name    string `json:"name"`
	Level   string `json:"level"`
	Default string `json:"default,omitempty"`
}

// Prices are monthly prices of a core and of a GB of memory.
type Prices struct {
	Core     float64 `json:"core_month"`
	GB       float64 `json:"gb_month"`
	Currency string  `json:"currency"`
}

// Stated reports whether there are any.
func (p Prices) Stated() bool { return p.Core > 0 || p.GB > 0 }

// month is what resources cost.
func (p Prices) month(r Resources) float64 { return r.Cores*p.Core + r.Bytes/1e9*p.GB }
