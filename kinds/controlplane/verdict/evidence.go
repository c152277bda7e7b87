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

// Evidence is what a trial observed, in addition to its record.
type Evidence struct {
	Asked Asked `json:"asked"`
	// Changes holds the driver's records of each change, in order, and DriveError the reason why it
	// could not continue; "" if it could.
	Changes    []record.Event `json:"changes"`
	DriveError string         `json:"drive_error,omitempty"`
	Audience   Audience       `json:"audience"`
	// Misbehaving lists the simulated proxies that misbehave on purpose.
	Misbehaving []int32 `json:"misbehaving,omitempty"`

	// Markers holds the sightings of the simulated proxies, by their clock. Those of a change are
	// in the order of its event's markers. Envoys holds the times when real ones were seen with
	// markers in force, by this machine's clock; nil without any.
	Markers []xds.MarkerSightings `json:"markers,omitempty"`
	Envoys  []xds.MarkerSightings `json:"envoys"`
	// EnvoysEvery is the longest time between two polls of an Envoy.
	EnvoysEvery time.Duration `json:"envoys_every_ns,omitempty"`
	// Clock is the lead of the simulated proxies' clock over this machine's, compared before the
	// window. ClockAfter is the same after the window; nil if the comparison failed.
	Clock      Clock  `json:"clock"`
	ClockAfter *Clock `json:"clock_after,omitempty"`
	// EndNS is when the trial stopped observing, in Unix nanoseconds: later sightings do not count.
	EndNS int64 `json:"end_unix_ns"`

	// Before and After are istiod's replicas at the start and end of the window.
	Before []Replica `json:"istiod_before"`
	After  []Replica `json:"istiod_after"`
	// ScalersBefore and ScalersAfter are istiod's autoscalers at these times.
	ScalersBefore []Autoscaler `json:"autoscalers_before,omitempty"`
	ScalersAfter  []Autoscaler `json:"autoscalers_after,omitempty"`
	// AccountBefore and AccountAfter are the accounts of the simulated proxies, and StreamError is
	// the last error of one of their streams.
	AccountBefore xds.Account `json:"account_before"`
	AccountAfter  xds.Account `json:"account_after"`
	StreamError   string      `json:"stream_error,omitempty"`
	// Logs holds the lines of istiod's replicas about their pushes.
	Logs []observe.IstiodLines `json:"logs,omitempty"`
	// Levers holds istiod's report of whether its levers are in force.
	Levers []record.Check `json:"levers,omitempty"`
	// Installed is istiod's report, before the window, of the levers that the cell leaves as
	// installed.
	Installed record.Cell `json:"installed,omitempty"`
	// Requests holds the installed values of istiod's resource requests that a limit of the cell
	// has changed.
	Requests record.Cell `json:"installed_requests,omitempty"`
	// TrafficWaitUS is the shortest wait for a free connection among the slowest hundredth of
	// the due requests.
	TrafficWaitUS float64 `json:"traffic_wait_p99_us,omitempty"`

	// Routes holds the outcomes of the requests through a real gateway, by the first simulator's
	// clock, and RoutesEvery the interval of requests to a route.
	Routes      []routeprobe.Seen `json:"routes,omitempty"`
	RoutesEvery time.Duration     `json:"routes_every_ns,omitempty"`
	// Attached is the reported status of a Gateway's routes; nil if it was not watched.
	Attached *Attachments `json:"attached,omitempty"`

	// Disruption is what was observed of the disruption after the window; nil without one.
	Disruption *Disruption `json:"disruption,omitempty"`

	// Repeated says in words why earlier attempts at the trial failed.
	Repeated []string `json:"repeated,omitempty"`
	// Unread lists counters that could not be read, or that restarted.
	Unread []record.Check `json:"unread,omitempty"`
	// Problems notes what could not be observed, and oddities.
	Problems []note.Note `json:"problems,omitempty"`
}

// Asked is what the cell and the study request, where rules depend on it.
type Asked struct {
	Clients       string        `json:"clients"` // level of the factor
	DebounceAfter time.Duration `json:"debounce_after_ns"`
	EDSDebounce   bool          `json:"eds_debounce"`
	// Settle is the time that the trial waits for sightings after the last change.
	Settle time.Duration `json:"settle_ns"`
	// ConnectionAge is istiod's maximum connection age, if the cell names it; 0: no limit, or as
	// installed.
	ConnectionAge time.Duration `json:"connection_age_ns,omitempty"`
	// ScopeNamespace is the namespace of a Sidecar of scope namespace.
	ScopeNamespace string `json:"scope_namespace"`
}

// good reports whether no proxy misbehaves on purpose.
func (a Asked) good() bool {
	return a.Clients == controlplane.ClientsGood || a.Clients == study.NotApplicable
}

// Clock is the lead of one clock over another, with the bound of the measurement error.
type Clock struct {
	Ahead time.Duration `json:"ahead_ns"`
	Bound time.Duration `json:"bound_ns"`
}

// Known returns the certain part of the offset: within the error bound it counts as none.
func (c Clock) Known() time.Duration {
	if c.Ahead.Abs() <= c.Bound {
		return 0
	}
	return c.Ahead
}

// Audience holds the proxies that may need changes.
type Audience struct {
	// Proxies lists the simulated proxies first, then the real ones; sightings count them from 0.
	Proxies   []Proxy `json:"proxies"`
	Simulated int     `json:"simulated"`
	// Unwatched is the maximum number of additional proxies of the study that may be connected:
	// those of its traffic, and its real gateway.
	Unwatched int `json:"unwatched,omitempty"`
	// Scopes are the scopes of the changes.
	Scopes []churn.Scope `json:"scopes"`
	// What the levers let proxies see: the mesh's default for exports, and the Sidecar resource
	// with its egress hosts, which applies to all sidecars, to those of some namespaces, or to
	// those of one workload there.
	ExportTo     string   `json:"export_to,omitempty"`
	SidecarScope string   `json:"sidecar_scope,omitempty"`
	EgressHosts  []string `json:"egress_hosts"`
	Namespaces   []string `json:"namespaces"`
	Workload     string   `json:"workload,omitempty"`
}

// Proxy is a proxy that may need a change.
type Proxy struct {
	Type      string `json:"type"` // as population names it
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Workload  string `json:"workload,omitempty"`
}

// Ztunnel reports whether a proxy is a ztunnel, which shows different markers.
func (a Audience) Ztunnel(proxy int32) bool { return a.Proxies[proxy].Type == population.Ztunnel }

// Real returns the number of real proxies.
func (a Audience) Real() int { return len(a.Proxies) - a.Simulated }

// Needs reports whether a proxy's configuration must show a change.
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

// Replica is a container of istiod. A restarted one is a different Replica.
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
	ScaledNS int64  `json:"scaled_unix_ns,omitempty"` // last scaling; 0: never
}

// autoscaled names autoscalers that changed the number of istiod's replicas between two times, even
// if it is the same again; "" if none did.
func autoscaled(before, after []Autoscaler) string {
	var parts []string
	for _, now := range after {
		i := slices.IndexFunc(before, func(a Autoscaler) bool { return a.Name == now.Name })
		if i < 0 || before[i].ScaledNS == now.ScaledNS { // the desired number may be reported late
			continue
		}
		parts = append(parts, fmt.Sprintf("autoscaler %s (%d to %d) scaled it from %d to %d, which the lever istiod_replicas prevents", now.Name, now.Min, now.Max, before[i].Replicas, now.Replicas))
	}
	return strings.Join(parts, ", ")
}

// Lived reports whether all of istiod's replicas lived from before to after.
func Lived(before, after []Replica) bool { return cameAndWent(before, after) == "" }

// cameAndWent names istiod's containers that ended or started between two times; "" if none did.
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
