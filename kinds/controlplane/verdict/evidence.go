package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Evidence is what a trial saw, beside what its record has.
type Evidence struct {
	Asked Asked `json:"asked"`
	// Changes are what the driver noted of each change, in their order, and
	// DriveError why it could not go on; "" if it could.
	Changes    []record.Event `json:"changes"`
	DriveError string         `json:"drive_error,omitempty"`
	Audience   Audience       `json:"audience"`
	// Misbehaving are the simulated proxies that do so on purpose.
	Misbehaving []int32 `json:"misbehaving,omitempty"`

	// Markers are what the simulated proxies saw, by their clock: those of a
	// change in the order of its event. Envoys are when real ones were seen to
	// have markers in force, by this machine's clock; nil without any.
	Markers []xds.MarkerSightings `json:"markers,omitempty"`
	Envoys  []xds.MarkerSightings `json:"envoys"`
	// EnvoysEvery is the longest time between two looks at an Envoy.
	EnvoysEvery time.Duration `json:"envoys_every_ns,omitempty"`
	// Clock is how far the simulated proxies' clock is ahead of this machine's,
	// compared before the window, and ClockAfter after it; nil if that failed.
	Clock      Clock  `json:"clock"`
	ClockAfter *Clock `json:"clock_after,omitempty"`
	// EndNS is when the trial stopped looking, nanoseconds since 1970: what
	// came later does not count.
	EndNS int64 `json:"end_unix_ns"`

	// Before and After are istiod's replicas at the window's edges.
	Before []Replica `json:"istiod_before"`
	After  []Replica `json:"istiod_after"`
	// ScalersBefore and ScalersAfter are the autoscalers of istiod then.
	ScalersBefore []Autoscaler `json:"autoscalers_before,omitempty"`
	ScalersAfter  []Autoscaler `json:"autoscalers_after,omitempty"`
	// AccountBefore and AccountAfter are those of the simulated proxies, and
	// StreamError what went wrong last with a stream of theirs.
	AccountBefore xds.Account `json:"account_before"`
	AccountAfter  xds.Account `json:"account_after"`
	StreamError   string      `json:"stream_error,omitempty"`
	// Logs is what istiod's replicas wrote of their pushes.
	Logs []observe.IstiodLines `json:"logs,omitempty"`
	// Levers is what istiod said when it was asked whether its levers are in
	// force.
	Levers []record.Check `json:"levers,omitempty"`
	// Installed is what istiod said, before the window, of the levers that the
	// cell leaves as installed.
	Installed record.Cell `json:"installed,omitempty"`
	// Requests are those of istiod that a limit of the cell's has changed, as they
	// are installed.
	Requests record.Cell `json:"installed_requests,omitempty"`
	// TrafficWaitUS is how long the slowest hundredth of the requests that were
	// due waited at least for a free connection.
	TrafficWaitUS float64 `json:"traffic_wait_p99_us,omitempty"`

	// Routes are what became of the requests through a real gateway, by the first
	// simulator's clock, RoutesEvery how far those to a route are apart.
	Routes      []routeprobe.Seen `json:"routes,omitempty"`
	RoutesEvery time.Duration     `json:"routes_every_ns,omitempty"`
	// Attached is what a Gateway's status said of its routes; nil where nobody watched.
	Attached *Attachments `json:"attached,omitempty"`

	// Disruption is what was seen of the one after the window; nil without any.
	Disruption *Disruption `json:"disruption,omitempty"`

	// Repeated says in words why earlier attempts at the trial came to no end.
	Repeated []string `json:"repeated,omitempty"`
	// Unread are counters that could not be read, or that began anew.
	Unread []record.Check `json:"unread,omitempty"`
	// Problems say what could not be seen, and what was odd.
	Problems []note.Note `json:"problems,omitempty"`
}

// Asked is what the cell and the study ask for, as far as rules depend on it.
type Asked struct {
	Clients       string        `json:"clients"` // as the factor has it
	DebounceAfter time.Duration `json:"debounce_after_ns"`
	EDSDebounce   bool          `json:"eds_debounce"`
	// Settle is how long the trial waits for sightings after the last change.
	Settle time.Duration `json:"settle_ns"`
	// ConnectionAge is how old istiod lets connections become, where the cell names
	// it; 0: any age, or as installed.
	ConnectionAge time.Duration `json:"connection_age_ns,omitempty"`
	// ScopeNamespace is the one that a Sidecar of scope namespace is for.
	ScopeNamespace string `json:"scope_namespace"`
}

// good tells whether no proxy misbehaves on purpose.
func (a Asked) good() bool {
	return a.Clients == controlplane.ClientsGood || a.Clients == study.NotApplicable
}

// Clock is how far a clock is ahead of another, and the bound of the error in
// that.
type Clock struct {
	Ahead time.Duration `json:"ahead_ns"`
	Bound time.Duration `json:"bound_ns"`
}

// Known is how far the clock is ahead as far as can be told: within the bound
// it is the same clock.
func (c Clock) Known() time.Duration {
	if c.Ahead.Abs() <= c.Bound {
		return 0
	}
	return c.Ahead
}

// Audience is who may need changes.
type Audience struct {
	// Proxies are the simulated ones first, then the real ones; sightings
	// count them from 0.
	Proxies   []Proxy `json:"proxies"`
	Simulated int     `json:"simulated"`
	// Unwatched is how many more of the study's own are connected at the most:
	// those of its traffic, and its real gateway.
	Unwatched int `json:"unwatched,omitempty"`
	// Scopes are those of the changes.
	Scopes []churn.Scope `json:"scopes"`
	// What the levers let proxies see: the mesh's default for exports, and the
	// Sidecar resource with its egress hosts, which applies to all sidecars, to
	// those of some namespaces, or to those of one workload there.
	ExportTo     string   `json:"export_to,omitempty"`
	SidecarScope string   `json:"sidecar_scope,omitempty"`
	EgressHosts  []string `json:"egress_hosts"`
	Namespaces   []string `json:"namespaces"`
	Workload     string   `json:"workload,omitempty"`
}

// Proxy is one that may need a change.
type Proxy struct {
	Type      string `json:"type"` // as population names it
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Workload  string `json:"workload,omitempty"`
}

// Ztunnel says whether a proxy is one: it shows other markers than the rest.
func (a Audience) Ztunnel(proxy int32) bool { return a.Proxies[proxy].Type == population.Ztunnel }

// Real is how many of the proxies are real.
func (a Audience) Real() int { return len(a.Proxies) - a.Simulated }

// Needs tells whether a proxy's configuration must show a change.
func (a Audience) Needs(change int, proxy int32) bool {
	p := a.Proxies[proxy]
	return churn.Change{Scope: a.Scopes[change]}.Needs(population.Identity{Type: p.Type, Name: p.Name, Namespace: p.Namespace, Workload: p.Workload}, a.visibility())
}

func (a Audience) visibility() churn.Visibility {
	v := churn.Visibility{ExportTo: a.ExportTo}
	switch a.SidecarScope {
	case controlplane.SidecarScopeMesh:
		v.EgressHosts = func(population.Identity) []string { return a.EgressHosts }
	case controlplane.SidecarScopeNamespace, controlplane.SidecarScopeWorkload:
		v.EgressHosts = func(p population.Identity) []string {
			if slices.Contains(a.Namespaces, p.Namespace) && (a.SidecarScope == controlplane.SidecarScopeNamespace || p.Workload == a.Workload) {
				return a.EgressHosts
			}
			return nil
		}
	}
	return v
}

// Replica is a container of istiod's; one that was restarted is another.
type Replica struct {
	Pod      string `json:"pod"`
	Restarts int32  `json:"restarts"`
}

func (r Replica) String() string { return fmt.Sprintf("%s (restart %d)", r.Pod, r.Restarts) }

// Autoscaler may change the number of istiod's replicas.
type Autoscaler struct {
	Name     string `json:"name"`
	Min      int32  `json:"min"`
	Max      int32  `json:"max"`
	Replicas int32  `json:"replicas"`
	ScaledNS int64  `json:"scaled_unix_ns,omitempty"` // when it last did; 0: never
}

// autoscaled says which autoscalers have changed the number of istiod's replicas
// between two moments, also if it is what it was again; "" if none did.
func autoscaled(before, after []Autoscaler) string {
	var parts []string
	for _, now := range after {
		i := slices.IndexFunc(before, func(a Autoscaler) bool { return a.Name == now.Name })
		if i < 0 || before[i].ScaledNS == now.ScaledNS { // how many it wants may be told late
			continue
		}
		parts = append(parts, fmt.Sprintf("autoscaler %s (%d to %d) scaled it from %d to %d, which the lever istiod_replicas prevents", now.Name, now.Min, now.Max, before[i].Replicas, now.Replicas))
	}
	return strings.Join(parts, ", ")
}

// Lived tells whether all replicas of istiod lived on from before to after.
func Lived(before, after []Replica) bool { return cameAndWent(before, after) == "" }

// cameAndWent says which of istiod's containers ended or came between two
// moments; "" if none did.
func cameAndWent(before, after []Replica) string {
	var parts []string
	for _, r := range before {
		if !slices.Contains(after, r) {
			parts = append(parts, r.String()+" ended")
		}
	}
	for _, r := range after {
		if !slices.Contains(before, r) {
			parts = append(parts, r.String()+" came")
		}
	}
	return strings.Join(parts, ", ")
}
