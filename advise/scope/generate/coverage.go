package generate

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// isCovered reports whether it is known what a workload calls: only then is it narrowed.
func (g *generator) isCovered(w Workload) bool { return g.uncovered(w).Code == "" }

// Uncovered is why it is not known what a workload calls. The zero value means that it is.
type Uncovered struct {
	Code    UncoveredCode `json:"code"`
	Sources Sources       `json:"sources,omitzero"`
	For     time.Duration `json:"for_ns,omitempty"`   // it was there or watched
	Least   time.Duration `json:"least_ns,omitempty"` // it had to be
	Name    string        `json:"name,omitempty"`     // of a cluster
	N       int           `json:"n,omitempty"`
	Of      int           `json:"of,omitempty"`
	Idle    bool          `json:"idle,omitempty"` // the workload has no pods now
}

// UncoveredCode names a reason.
type UncoveredCode string

// The reasons why it is not known what a workload calls.
const (
	UncoveredUnwatched UncoveredCode = "unwatched"
	UncoveredLabels    UncoveredCode = "no_destination_service"
	UncoveredCluster   UncoveredCode = "cluster_without_host" // Name, N times
	UncoveredMadeUp    UncoveredCode = "unknown_hosts"        // more than N
	UncoveredPart      UncoveredCode = "counters_of_some"     // N of Of proxies
	UncoveredRemote    UncoveredCode = "only_callees_report"
	UncoveredServes    UncoveredCode = "only_servers_report"
	UncoveredSilent    UncoveredCode = "silent"
	UncoveredYoung     UncoveredCode = "young"
	UncoveredShort     UncoveredCode = "watched_too_briefly"
	UncoveredUndated   UncoveredCode = "metrics_undated"
)

func (g *generator) uncovered(w Workload) Uncovered {
	s := g.obs.seen[w]
	if s == nil {
		return Uncovered{Code: UncoveredUnwatched}
	}
	if s.strange[""] > 0 {
		return Uncovered{Code: UncoveredLabels}
	}
	for _, name := range slices.Sorted(maps.Keys(s.strange)) {
		if !g.inv.added[name] { // by an EnvoyFilter
			return Uncovered{Code: UncoveredCluster, Name: name, N: int(s.strange[name])}
		}
	}
	for l, n := range s.beyond {
		if n > 0 && !g.listed(looseness(l)) {
			return Uncovered{Code: UncoveredMadeUp, N: maxOutside}
		}
	}
	if u := g.unreported(w, s); u.Code != "" {
		return u
	}
	if there, known := g.there(w); known && there < g.o.Watched {
		return Uncovered{Code: UncoveredYoung, For: there, Least: g.o.Watched, Sources: s.Sources}
	}
	switch watched, known := g.watched(w); {
	case known && watched < g.o.Watched:
		return Uncovered{Code: UncoveredShort, For: watched, Least: g.o.Watched, Sources: s.Sources}
	case !known && g.o.Watched > 0 && s.Sources == Metrics:
		return Uncovered{Code: UncoveredUndated}
	}
	return Uncovered{}
}

// unreported returns why no source reports a workload's calls.
func (g *generator) unreported(w Workload, s *Seen) Uncovered {
	p := g.inv.workloads[w]
	part := p != nil && s.counted > 0 && s.counted < p.Proxied
	if s.Sources&Declared != 0 || (s.caller|s.served)&Counters != 0 && !part {
		return Uncovered{}
	}
	// With these sources a proxy may report what it serves and not what it calls. If one of them
	// reports calls from the namespace, a workload that only served calls nobody.
	const either = AccessLog | Metrics | Kiali
	serves := s.served & either &^ s.remote
	switch {
	case s.caller&either != 0, serves&g.obs.tells(w.Namespace) != 0:
		return Uncovered{}
	case part:
		return Uncovered{Code: UncoveredPart, N: s.counted, Of: p.Proxied}
	case s.remote&either != 0:
		return Uncovered{Code: UncoveredRemote, Sources: s.remote}
	case serves != 0:
		return Uncovered{Code: UncoveredServes, Sources: serves}
	}
	return Uncovered{Code: UncoveredSilent, Sources: s.Sources}
}

// there returns how long a workload has existed, by what makes its pods: metrics and graphs do
// not say when a workload came.
func (g *generator) there(w Workload) (d time.Duration, known bool) {
	born := g.inv.born[w]
	if born.IsZero() || g.o.Now.IsZero() || g.obs.seen[w].Sources&Declared != 0 {
		return 0, false
	}
	return g.o.Now.Sub(born), true
}

// watched returns how long the longest source watched a workload; known is false if none says.
func (g *generator) watched(w Workload) (d time.Duration, known bool) {
	s, p := g.obs.seen[w], g.inv.workloads[w]
	if s.Sources&Declared != 0 {
		return 0, false // by somebody who knows
	}
	if !s.First.IsZero() {
		d, known = s.Last.Sub(s.First), true
	}
	switch {
	case s.Sources&Counters == 0:
		return d, known
	case !known && s.Sources&^(timeless|Metrics) != 0: // for some time
		return 0, false
	}
	if p == nil || p.Since.IsZero() || g.o.Now.IsZero() {
		return 0, false
	}
	return max(d, g.o.Now.Sub(p.Since)), true
}

// newest returns the time of the last observation, at most now.
func (g *generator) newest() time.Time {
	last := g.obs.span.Last
	if now := g.o.Now; !now.IsZero() && last.After(now) {
		return now
	}
	return last
}

// blind reports whether no source of a workload could have seen its calls to a host: connections
// without requests, pods of headless Services, hosts that came in by a wildcard, and endpoints
// whose counters are gone.
func (g *generator) blind(w Workload, s *Service) bool {
	seen := g.obs.seen[w]
	if !g.obs.sees(seen) && (s.TCP || s.Headless || strings.HasPrefix(s.Name, "*")) {
		return true
	}
	if !s.Direct && !g.replaced(s) || seen == nil || seen.Sources&Declared != 0 {
		return false
	}
	if s.TCP {
		return seen.Sources&g.obs.tcp&^Counters == 0
	}
	return seen.Sources&^Counters == 0
}

// replaced reports whether all endpoints of a Service are younger than a workload must be watched:
// the counters of earlier ones are gone.
func (g *generator) replaced(s *Service) bool {
	return s.At && g.o.Watched > 0 && (s.Since.IsZero() || !g.o.Now.IsZero() && g.o.Now.Sub(s.Since) < g.o.Watched)
}
