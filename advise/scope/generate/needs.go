package generate

import (
	"regexp"
	"strings"
	"time"
)

// keep decides which calls to keep, and for which workloads.
func (g *generator) keep() {
	r := g.result
	for _, e := range g.obs.all() {
		if g.o.Window > 0 && e.Sources&timeless == 0 && !e.Last.IsZero() && e.Last.Before(g.newest().Add(-g.o.Window)) {
			r.Old = append(r.Old, e)
			continue
		}
		to := g.inv.resolve(e.Host, e.Namespace, e.From.Namespace)
		switch {
		case g.inv.known(to[0]):
		case !writable.MatchString(to[0].Name) || !dnsLabel.MatchString(to[0].Namespace) || len(to[0].Name) > 253 || to[0].Name == "*":
			g.list(OpenUnwritable, e.From, e.Host)
			continue
		default:
			g.list(OpenUnknown, e.From, e.Host)
		}
		g.keepHosts(e.From, to)
	}
	// Calls around the mesh to hosts that the mesh knows: a Sidecar that applies today omits them.
	for _, w := range g.obs.workloads() {
		for host := range g.obs.seen[w].outside {
			to := g.inv.resolve(host, "", w.Namespace)
			if s := g.inv.services[to[0]]; host == others || s == nil || s.object.Kind == "ServiceEntry" && strings.HasPrefix(to[0].Name, "*") {
				continue
			}
			g.keepHosts(w, to)
		}
	}
}

// writable matches names that Istio accepts as the host of an egress listener, and names of
// namespaces.
var (
	writable = regexp.MustCompile(`^(?:\*|(?:\*\.?-?)?[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*)$`)
	dnsLabel = regexp.MustCompile(`^(?:\*|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)$`)
)

// list lists a host along with others of that workload.
func (g *generator) list(code OpenCode, w Workload, host string) {
	r := g.result
	for i := range r.Open {
		if o := &r.Open[i]; o.Code == code && o.Workload == w {
			o.Hosts = append(o.Hosts, host)
			return
		}
	}
	r.Open = append(r.Open, Open{Code: code, Workload: w, Hosts: []string{host}})
}

func (g *generator) keepHosts(w Workload, hosts []Host) {
	if g.kept[w] == nil {
		g.kept[w] = set{}
	}
	g.kept[w].add(hosts...)
	g.result.Edges++
}

// needed returns the hosts that a workload keeps: those that it calls, those that unknown workloads
// of its namespace call, those named in the mesh's configuration, those that sources cannot
// observe, and those that routes lead to.
func (g *generator) needed(w Workload) set {
	if known, done := g.needs[w]; done {
		return known
	}
	out := set{}
	g.needs[w] = out
	g.addAll(out, w)
	g.addAll(out, Workload{Namespace: w.Namespace})
	g.addConfigured(out, w.Namespace)
	v := g.view(w.Namespace)
	for _, h := range v.hosts {
		if s := g.inv.services[h]; s.external || g.blind(w, s) {
			out.add(h)
		}
	}
	g.inv.routes(out, w.Namespace)
	g.inv.aliases(out, v.hosts, w.Namespace)
	return out
}

func (g *generator) addAll(to set, w Workload) {
	for h := range g.kept[w] {
		to.add(h)
	}
}

// addConfigured adds the hosts that the mesh's configuration names for a namespace.
func (g *generator) addConfigured(out set, namespace string) {
	for _, n := range g.inv.needs {
		if n.namespace != "" && n.namespace != g.inv.Root && n.namespace != namespace {
			continue
		}
		of, host, found := strings.Cut(n.host, "/")
		if !found {
			of, host = "", n.host
		}
		if to := g.inv.resolve(host, of, namespace); !n.ifKnown || g.inv.known(to[0]) {
			out.add(to...)
		}
	}
}

// Uncovered says why a workload's calls are unknown. The zero value means that they are known.
type Uncovered struct {
	Code  UncoveredCode `json:"code"`
	For   time.Duration `json:"for_ns,omitempty"`   // how long it existed or was watched
	Least time.Duration `json:"least_ns,omitempty"` // how long it should have been
	N     int           `json:"n,omitempty"`
	Of    int           `json:"of,omitempty"`
}

// UncoveredCode identifies a reason.
type UncoveredCode string

// The reasons why a workload's calls are unknown.
const (
	UncoveredUnwatched UncoveredCode = "unwatched"
	UncoveredLabels    UncoveredCode = "no_destination_service"
	UncoveredHosts     UncoveredCode = "unknown_hosts"
	UncoveredCluster   UncoveredCode = "cluster_without_host"
	UncoveredPart      UncoveredCode = "counters_of_some" // N of Of proxies
	UncoveredOthers    UncoveredCode = "only_others_report"
	UncoveredSilent    UncoveredCode = "silent"
	UncoveredYoung     UncoveredCode = "young"
	UncoveredShort     UncoveredCode = "watched_too_briefly"
	UncoveredUndated   UncoveredCode = "undated"
)

// covered reports whether a workload's calls are known: only then is it narrowed.
func (g *generator) covered(w Workload) bool { return g.uncovered(w).Code == "" }

func (g *generator) uncovered(w Workload) Uncovered {
	s := g.obs.seen[w]
	switch {
	case s == nil:
		return Uncovered{Code: UncoveredUnwatched}
	case s.unnamed:
		return Uncovered{Code: UncoveredLabels}
	case s.strange != "":
		return Uncovered{Code: UncoveredCluster}
	case s.odd && !(g.inv.Has("Service") && g.inv.Has("ServiceEntry")):
		return Uncovered{Code: UncoveredHosts}
	}
	if u := g.unreported(w, s); u.Code != "" {
		return u
	}
	// Metrics do not say when a workload appeared, but the object that makes its pods does.
	if born := g.inv.born[w]; !born.IsZero() && !g.o.Now.IsZero() && g.o.Now.Sub(born) < g.o.Watched {
		return Uncovered{Code: UncoveredYoung, For: g.o.Now.Sub(born), Least: g.o.Watched}
	}
	switch watched, known := g.watched(w, s); {
	case known && watched < g.o.Watched:
		return Uncovered{Code: UncoveredShort, For: watched, Least: g.o.Watched}
	case !known && g.o.Watched > 0 && s.sources&Counters == 0:
		return Uncovered{Code: UncoveredUndated}
	}
	return Uncovered{}
}

// unreported returns why no source reports a workload's calls.
func (g *generator) unreported(w Workload, s *seen) Uncovered {
	p := g.inv.workloads[w]
	part := p != nil && s.counted > 0 && s.counted < p.proxied
	if (s.caller|s.served)&Counters != 0 && !part {
		return Uncovered{}
	}
	// If a source reports calls from the namespace, a workload that only served makes no calls.
	serves := s.served & either &^ s.remote
	switch {
	case s.caller&either != 0, serves&g.obs.tells(w.Namespace) != 0:
		return Uncovered{}
	case part:
		return Uncovered{Code: UncoveredPart, N: s.counted, Of: p.proxied}
	case s.remote&either != 0 || serves != 0:
		return Uncovered{Code: UncoveredOthers}
	}
	return Uncovered{Code: UncoveredSilent}
}

// watched returns the longest time for which a source watched a workload; known is false if no
// source says.
func (g *generator) watched(w Workload, s *seen) (d time.Duration, known bool) {
	if !s.First.IsZero() {
		d, known = s.Last.Sub(s.First), true
	}
	if p := g.inv.workloads[w]; s.sources&Counters != 0 && p != nil && !p.since.IsZero() && !g.o.Now.IsZero() {
		d, known = max(d, g.o.Now.Sub(p.since)), true
	}
	return d, known
}

// newest returns the time of the last observation, at most now.
func (g *generator) newest() time.Time {
	last := g.obs.span.Last
	if now := g.o.Now; !now.IsZero() && last.After(now) {
		return now
	}
	return last
}

// blind reports whether no source of a workload could have seen its calls to a host: connections without
// requests, pods of headless Services, hosts that came in by a wildcard, and endpoints whose counters are
// gone.
func (g *generator) blind(w Workload, s *service) bool {
	seen := g.obs.seen[w]
	sees := seen != nil && seen.sources&(Counters|g.obs.tcp) != 0
	if !sees && (len(s.tcp) > 0 || s.headless || strings.HasPrefix(s.Name, "*")) {
		return true
	}
	if !s.direct && !g.replaced(s) || seen == nil {
		return false
	}
	if len(s.tcp) > 0 {
		return seen.sources&g.obs.tcp&^Counters == 0
	}
	return seen.sources&^Counters == 0
}

// replaced reports whether all endpoints of a Service are younger than the time for which a
// workload must be watched, so the counters of earlier ones are gone. It returns false if their age
// is unknown.
func (g *generator) replaced(s *service) bool {
	if len(s.selector) == 0 || !g.inv.Has("Pod") || g.o.Watched == 0 {
		return false
	}
	var oldest time.Time
	for _, e := range g.inv.endpoints[s.Namespace] {
		if !contains(e.labels, s.selector) {
			continue
		}
		if e.since.IsZero() {
			return false
		}
		if oldest.IsZero() || e.since.Before(oldest) {
			oldest = e.since
		}
	}
	return oldest.IsZero() || !g.o.Now.IsZero() && g.o.Now.Sub(oldest) < g.o.Watched
}
