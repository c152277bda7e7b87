package generate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Workload is a caller: the pods of a Deployment, a StatefulSet... Without a name it is an unknown
// workload of the namespace.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"workload,omitempty"`
}

// String returns "namespace/name", or the namespace.
func (w Workload) String() string {
	if w.Name == "" {
		return w.Namespace
	}
	return w.Namespace + "/" + w.Name
}

func compareWorkloads(a, b Workload) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Sources is a set of sources of observations.
type Sources uint8

// The sources.
const (
	Counters  Sources = 1 << iota // of proxies' endpoints, since each proxy started
	AccessLog                     // of proxies
	Metrics                       // istio_requests_total, istio_tcp_connections_opened_total
	Kiali                         // its graph
)

// Sources by their capabilities.
const (
	timeless = Counters                    // it has no times
	either   = AccessLog | Metrics | Kiali // a proxy may report what it serves but not what it calls
)

// Names returns the sources in words.
func (s Sources) Names() []string {
	names := []string{}
	for i, name := range []string{"proxies' counters", "access logs", "metrics", "Kiali"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Span is the time from the first to the last observation; zero if unknown.
type Span struct {
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// At returns the span of an observation at a moment, or at an unknown time within an interval.
func At(from, to time.Time) Span { return Span{from.UTC(), to.UTC()} }

func (s *Span) add(o Span) {
	if s.First.IsZero() || !o.First.IsZero() && o.First.Before(s.First) {
		s.First = o.First
	}
	if o.Last.After(s.Last) {
		s.Last = o.Last
	}
}

// Edge is a call from a workload to a host.
type Edge struct {
	From Workload `json:"from"`
	// Host is the host as the source names it, without a port. Namespace is that of its Service or
	// ServiceEntry, or "" if the source does not say.
	Host      string  `json:"host"`
	Namespace string  `json:"host_namespace,omitempty"`
	Count     int64   `json:"count"` // requests or connections, if the source counts them
	Sources   Sources `json:"-"`
	Span
}

// seen is what is known about a workload besides its calls.
type seen struct {
	sources Sources // that watch its proxy
	served  Sources // that saw it serve
	caller  Sources // to which its own proxy reported a call
	remote  Sources // that know of its calls from the called side
	counted int     // pods whose counters were read
	unnamed bool    // a source does not say what it called
	odd     bool    // its log names hosts that the mesh does not know
	strange string  // a cluster in its log that names no host, as spelled by outboundClusterStatName
	outside map[string]bool
	Span
}

// Limits on observations: exceeding one is an error of [Generate].
const (
	maxEdges     = 500_000
	maxWorkloads = 100_000
	// maxOutside is the number of distinct hosts outside the mesh to keep for one workload: their
	// names come from requests.
	maxOutside = 50
)

// others stands for outside hosts that are not named.
const others = "(others)"

type edgeKey struct {
	from            Workload
	namespace, host string
}

// Observations records who calls whom.
type Observations struct {
	edges   map[edgeKey]Edge
	seen    map[Workload]*seen
	span    Span
	sources Sources
	// tcp holds the sources that observe connections without requests, and whole those that were
	// queried for all callers. callers holds, by namespace, those to which a workload's own proxy
	// reported a call.
	tcp, whole Sources
	callers    map[string]Sources
	err        error
}

// NewObservations returns an empty set.
func NewObservations() *Observations {
	return &Observations{edges: map[edgeKey]Edge{}, seen: map[Workload]*seen{}, callers: map[string]Sources{}}
}

func (o *Observations) tooMany(n int, what string) {
	o.err = errs.WithHint(errs.Usage("more than %d different %s", n, what), "generate for some of the namespaces at a time")
}

// watch records that a source watches a workload's proxy.
func (o *Observations) watch(w Workload, source Sources, at Span) *seen {
	o.sources |= source
	if source&timeless == 0 {
		o.span.add(at)
	}
	s := o.seen[w]
	if s == nil {
		s = &seen{outside: map[string]bool{}}
		if len(o.seen) == maxWorkloads {
			o.tooMany(maxWorkloads, "workloads")
			return s
		}
		o.seen[w] = s
	}
	s.sources |= source
	s.add(at)
	return s
}

// Call adds calls that the caller's own proxy reports, or that are declared.
func (o *Observations) Call(e Edge) {
	if s := o.call(e); s != nil {
		s.caller |= e.Sources
		o.callers[e.From.Namespace] |= e.Sources
	}
}

// call adds calls regardless of who reports them.
func (o *Observations) call(e Edge) *seen {
	e.Host = strings.TrimSuffix(e.Host, ".")
	key := edgeKey{e.From, e.Namespace, e.Host}
	known, found := o.edges[key]
	if !found && len(o.edges) == maxEdges {
		o.tooMany(maxEdges, "pairs of workload and host")
		return nil
	}
	known.add(e.Span)
	o.edges[key] = Edge{e.From, e.Host, e.Namespace, known.Count + e.Count, known.Sources | e.Sources, known.Span}
	return o.watch(e.From, e.Sources, e.Span)
}

// Served records that a workload served requests.
func (o *Observations) Served(w Workload, source Sources, at Span) {
	o.watch(w, source, at).served |= source
}

// left adds a call to a host outside the mesh.
func (o *Observations) left(w Workload, host string, source Sources, at Span) {
	s := o.watch(w, source, at)
	if !s.outside[host] && (host == "" || len(host) > 253 || len(s.outside) >= maxOutside) {
		host = others
	}
	s.outside[host] = true
}

// Empty reports whether no source observed anything.
func (o *Observations) Empty() bool { return o.sources == 0 }

// Whole marks a source that was queried for the callers of all namespaces.
func (o *Observations) Whole(source Sources) { o.whole |= source }

// tells returns the sources that would report calls from a namespace.
func (o *Observations) tells(namespace string) Sources {
	out := o.callers[namespace]
	for _, some := range o.callers {
		out |= some & o.whole
	}
	return out
}

// all returns all calls, sorted.
func (o *Observations) all() []Edge {
	return slices.SortedFunc(maps.Values(o.edges), func(a, b Edge) int {
		return cmp.Or(compareWorkloads(a.From, b.From), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Host, b.Host))
	})
}

// workloads returns all observed workloads, sorted.
func (o *Observations) workloads() []Workload {
	return slices.SortedFunc(maps.Keys(o.seen), compareWorkloads)
}

// passthrough lists the clusters for destinations that the mesh does not know.
var passthrough = map[string]bool{"PassthroughCluster": true, "BlackHoleCluster": true}

// AddCounters adds the information in a sidecar's counters ([scope.ReadCounts]): which of its
// outbound clusters were called, whether it served, and whether it called hosts that the mesh does
// not know. The counters start with the proxy, have no times, and cover only endpoints that still
// exist.
func (o *Observations) AddCounters(w Workload, calls map[string]int64) {
	o.tcp |= Counters
	o.watch(w, Counters, Span{}).counted++
	for name, n := range calls {
		direction, _, _, host, ok := scope.SplitCluster(name)
		switch {
		case n == 0:
		case passthrough[name]:
			o.left(w, others, Counters, Span{})
		case ok && direction == "outbound":
			o.Call(Edge{From: w, Host: host, Count: n, Sources: Counters})
		case ok:
			o.Served(w, Counters, Span{})
		}
	}
}

// The proxy metrics that say who calls whom
// (https://istio.io/latest/docs/reference/config/metrics/).
const (
	MetricRequests    = "istio_requests_total"
	MetricConnections = "istio_tcp_connections_opened_total"
)

// AddMetric adds a series of one of these metrics: its labels and the number of requests or
// connections within a span, which is empty if it is unknown how far back the query looked. Series
// without a source workload come from callers without a proxy, which Sidecars do not concern.
func (o *Observations) AddMetric(metric string, labels map[string]string, count float64, at Span) {
	if metric == MetricConnections {
		o.tcp |= Metrics
	}
	if !(count > 0) { // NaN too
		return
	}
	label := func(name string) string {
		if labels[name] == "unknown" { // as Istio's labels express a missing value
			return ""
		}
		return labels[name]
	}
	// Each proxy on its way counts a request once.
	to := Workload{label("destination_workload_namespace"), label("destination_workload")}
	own := labels["reporter"] == "source"
	if labels["reporter"] == "destination" && to.Name != "" && to.Namespace != "" {
		o.Served(to, Metrics, at)
	}
	from := Workload{label("source_workload_namespace"), label("source_workload")}
	_, named := labels["destination_service"]
	host := stripPort(label("destination_service"))
	switch {
	case from.Namespace == "":
	case !named: // the label was removed, to reduce the number of series
		if own {
			o.watch(from, Metrics, at).unnamed = true
		}
	case passthrough[labels["destination_service_name"]] || host == "":
		o.left(from, cmp.Or(host, others), Metrics, at)
		o.callers[from.Namespace] |= Metrics
	default:
		e := Edge{From: from, Host: host, Namespace: label("destination_service_namespace"), Sources: Metrics, Span: at}
		if own {
			e.Count = int64(min(max(count, 1), 1<<53))
			o.Call(e)
		} else if s := o.call(e); s != nil { // the caller's own proxy counts it
			s.remote |= Metrics
		}
	}
}

// stripPort removes the port from a host or an authority.
func stripPort(host string) string {
	if inner, ipv6 := strings.CutPrefix(host, "["); ipv6 {
		host, _, _ = strings.Cut(inner, "]")
	} else if before, _, found := strings.Cut(host, ":"); found && strings.Count(host, ":") == 1 {
		return before
	}
	return host
}
