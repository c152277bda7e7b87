package generate

import (
	"cmp"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Workload is a caller: what a Deployment, a StatefulSet... runs. Without a name it is an unknown
// workload of the namespace.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"workload,omitempty"`
}

// String is "namespace/name", or the namespace.
func (w Workload) String() string {
	if w.Name == "" {
		return w.Namespace
	}
	return w.Namespace + "/" + w.Name
}

// workloadsOf are the keys of a map, in order. Structs are sorted by the
// package sort here: each generic one would be a copy of the algorithm.
func workloadsOf[V any](m map[Workload]V) []Workload {
	out := make([]Workload, 0, len(m))
	for w := range m {
		out = append(out, w)
	}
	sortWorkloads(out)
	return out
}

func sortWorkloads(all []Workload) {
	sort.Slice(all, func(i, j int) bool { return compareWorkloads(all[i], all[j]) < 0 })
}

func compareWorkloads(a, b Workload) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Sources is a set of what observations are from.
type Sources uint8

// The sources.
const (
	Counters  Sources = 1 << iota // of proxies' endpoints, since each proxy started
	AccessLog                     // of proxies
	Metrics                       // istio_requests_total, istio_tcp_connections_opened_total
	Kiali                         // its graph
	Declared                      // a service graph that somebody wrote
)

var sourceNames = []string{"proxies' counters", "access logs", "metrics", "Kiali", "declared"}

// Names are the sources in words.
func (s Sources) Names() []string {
	names := []string{}
	for i, name := range sourceNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (s Sources) String() string { return strings.Join(s.Names(), ", ") }

// MarshalJSON writes the names.
func (s Sources) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

// UnmarshalJSON reads the names.
func (s *Sources) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	*s = 0
	for i, name := range sourceNames {
		if slices.Contains(names, name) {
			*s |= 1 << i
		}
	}
	return nil
}

// timeless are sources that do not say when something was.
const timeless = Counters | Declared

// Span is the time from the first to the last observation; zero if nobody
// knows. Hours has a bit for each hour of the day (UTC) that had one.
type Span struct {
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	Hours uint32    `json:"-"`
}

// At is a moment.
func At(t time.Time) Span {
	if t.IsZero() {
		return Span{}
	}
	return Span{t.UTC(), t.UTC(), 1 << t.UTC().Hour()}
}

// Between is an interval in which something was, nobody knows when.
func Between(from, to time.Time) Span { return Span{First: from.UTC(), Last: to.UTC()} }

func (s *Span) add(o Span) {
	if s.First.IsZero() || !o.First.IsZero() && o.First.Before(s.First) {
		s.First = o.First
	}
	if o.Last.After(s.Last) {
		s.Last = o.Last
	}
	s.Hours |= o.Hours
}

// Edge is a workload that calls a host.
type Edge struct {
	From Workload `json:"from"`
	// Host is as the source names it, without a port. Namespace is that of
	// its Service or ServiceEntry, "" where the source does not say.
	Host      string `json:"host"`
	Namespace string `json:"host_namespace,omitempty"`
	// Count are requests or connections, as far as the source counts them: it
	// may be 0 for what is declared.
	Count   int64   `json:"count"`
	Sources Sources `json:"sources"`
	Span

	loose looseness
}

// looseness is how easily a client may have made up a name in a log.
type looseness int

// In order; the least of those of a name counts.
const (
	firm     looseness = iota // it stands where its format has the cluster
	anywhere                  // in a line whose format nobody knows, or whose field another may hold
	beside                    // beside the field that has the cluster in Istio's text
	loosest
)

// Seen is what is known of a workload besides its calls.
type Seen struct {
	Sources Sources // that watch its proxy
	Served  int64   // requests or connections it served
	Span
	served Sources // that saw it serve
	caller Sources // to which its own proxy told of a call
	remote Sources // that know of its calls by those whom it called
	// counted are pods whose counters were read, 0 where nobody counts them.
	counted int
	// strange counts calls to clusters whose host nobody can tell, by their names.
	strange map[string]int64
	// Outside are hosts that the mesh does not know, with the calls there:
	// they went through the passthrough or the black hole cluster.
	Outside map[string]int64
	// names are how many hosts were kept that the mesh does not know and a client
	// may have made up, and beyond how often others were read over.
	names, beyond [loosest]int64
}

// Bounds of observations. More than that is an error, never left out.
const (
	maxEdges     = 500_000
	maxWorkloads = 100_000
	// maxOutside are different hosts outside of the mesh that are kept of one
	// workload; the others are counted as one. Names there come from requests.
	// As many are kept that clients may have made up.
	maxOutside = 50
)

// others is the name of hosts outside beyond maxOutside.
const others = "(others)"

type edgeKey struct {
	from            Workload
	namespace, host string
}

// Observations record who calls whom.
type Observations struct {
	edges   map[edgeKey]*Edge
	seen    map[Workload]*Seen
	span    Span
	sources Sources
	// tcp are sources that see connections without requests, and whole those that
	// were asked for all callers there are. callers are those, by namespace, to
	// which the own proxy of one told of a call.
	tcp, whole Sources
	callers    map[string]Sources
	// undated says that there are metrics of which nobody knows how far back they reach.
	undated bool
	notes   []Note
}

// NewObservations returns an empty set.
func NewObservations() *Observations {
	return &Observations{edges: map[edgeKey]*Edge{}, seen: map[Workload]*Seen{}, callers: map[string]Sources{}}
}

// Call adds calls that the caller's own proxy reports, or that are declared.
func (o *Observations) Call(e Edge) error { return o.call(e, true) }

// Heard adds calls that only the called side reports.
func (o *Observations) Heard(e Edge) error { return o.call(e, false) }

func (o *Observations) call(e Edge, own bool) error {
	e.Host = strings.TrimSuffix(e.Host, ".")
	key := edgeKey{e.From, e.Namespace, e.Host}
	known := o.edges[key]
	if known == nil {
		if len(o.edges) == maxEdges {
			return errs.WithHint(errs.Usage("more than %d different pairs of workload and host", maxEdges), "split the mesh: generate for some of its namespaces at a time")
		}
		known = &Edge{From: e.From, Namespace: e.Namespace, Host: e.Host, loose: e.loose}
		o.edges[key] = known
	}
	known.loose = min(known.loose, e.loose)
	known.Count += e.Count
	known.Sources |= e.Sources
	known.add(e.Span)
	s, err := o.watch(e.From, e.Sources, e.Span)
	switch {
	case err != nil || e.loose == beside: // that a workload calls, others must tell
	case own:
		s.caller |= e.Sources
		o.callers[e.From.Namespace] |= e.Sources
	default:
		s.remote |= e.Sources
	}
	return err
}

// room reports whether an unknown host that a client may have made up is kept: the first
// maxOutside of a workload are, of each looseness. Others are counted, which bounds the memory.
func (o *Observations) room(w Workload, host string, l looseness, at Span) (bool, error) {
	s, err := o.watch(w, AccessLog, at)
	if err != nil {
		return false, err
	}
	if o.edges[edgeKey{w, "", strings.TrimSuffix(host, ".")}] != nil {
		return true, nil
	}
	if s.names[l] == maxOutside {
		s.beyond[l]++
		return false, nil
	}
	s.names[l]++
	return true, nil
}

// Strange adds a call to a cluster without a host in its name.
func (o *Observations) Strange(w Workload, cluster string, source Sources, at Span) error {
	s, err := o.watch(w, source, at)
	if err != nil {
		return err
	}
	if s.strange == nil {
		s.strange = map[string]int64{}
	}
	if _, known := s.strange[cluster]; !known && len(s.strange) >= maxOutside {
		cluster = others
	}
	s.strange[cluster]++
	return nil
}

// Empty reports whether no source saw anything.
func (o *Observations) Empty() bool { return o.sources == 0 }

// Whole marks a source that was asked for the callers of all namespaces.
func (o *Observations) Whole(source Sources) { o.whole |= source }

// tells returns the sources that would report calls from a namespace.
func (o *Observations) tells(namespace string) Sources {
	out := o.callers[namespace]
	for _, some := range o.callers {
		out |= some & o.whole
	}
	return out
}

// sees reports whether a workload's sources see connections without requests.
func (o *Observations) sees(s *Seen) bool {
	return s != nil && (s.Sources&(Counters|Declared) != 0 || s.Sources&o.tcp != 0)
}

// watch records that a source watches a workload's proxy.
func (o *Observations) watch(w Workload, source Sources, at Span) (*Seen, error) {
	o.sources |= source
	if source&timeless != source {
		o.span.add(at)
	}
	s := o.seen[w]
	if s == nil {
		if len(o.seen) == maxWorkloads {
			return nil, errs.Usage("more than %d workloads", maxWorkloads)
		}
		s = &Seen{}
		o.seen[w] = s
	}
	s.Sources |= source
	s.add(at)
	return s, nil
}

// Served adds requests that a workload served.
func (o *Observations) Served(w Workload, n int64, source Sources, at Span) error {
	s, err := o.watch(w, source, at)
	if err == nil {
		s.Served += n
		s.served |= source
	}
	return err
}

// Left adds calls to hosts outside the mesh.
func (o *Observations) Left(w Workload, host string, n int64, source Sources, at Span) error {
	s, err := o.watch(w, source, at)
	if err != nil || n == 0 {
		return err
	}
	o.callers[w.Namespace] |= source
	if s.Outside == nil {
		s.Outside = map[string]int64{}
	}
	if _, known := s.Outside[host]; !known && (host == "" || len(host) > 253 || len(s.Outside) >= maxOutside) {
		host = others
	}
	s.Outside[host] += n
	return nil
}

// Edges returns all calls, sorted.
func (o *Observations) Edges() []Edge {
	out := make([]Edge, 0, len(o.edges))
	for _, e := range o.edges {
		out = append(out, *e)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(compareWorkloads(a.From, b.From), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Host, b.Host)) < 0
	})
	return out
}

// Workloads returns all workloads that were seen, sorted.
func (o *Observations) Workloads() []Workload {
	return workloadsOf(o.seen)
}
