package generate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
)

// isCovered says whether it is known what a workload calls: only then is it
// narrowed.
func (g *generator) isCovered(w Workload) bool { return g.uncovered(w) == "" }

// uncovered says why it is not known what a workload calls, "" if it is.
func (g *generator) uncovered(w Workload) string {
	s := g.obs.seen[w]
	if s == nil {
		return "no source watched its proxy"
	}
	if n := s.strange[""]; n > 0 {
		return "its metrics have no label destination_service, and so do not tell whom it calls"
	}
	for _, name := range slices.Sorted(maps.Keys(s.strange)) {
		if !g.inv.added[name] { // by an EnvoyFilter
			return fmt.Sprintf("its access log names clusters that tell no host, such as %.100q, %s (meshConfig.outboundClusterStatName?)", name, words.Plural(int(s.strange[name]), "time"))
		}
	}
	for l, n := range s.beyond {
		if n > 0 && !g.listed(looseness(l)) {
			return fmt.Sprintf("its access log has more than %d hosts that are not known here, where clients may have made them up: the mesh's Services and ServiceEntries would tell (--inventory)", maxOutside)
		}
	}
	if told := g.told(w, s); told != "" {
		return told
	}
	if there, known := g.there(w); known && there < g.o.Watched {
		return fmt.Sprintf("it has been there for %s alone, less than %s, however far its sources (%s) reach back", spell(there.Round(time.Second)), spell(g.o.Watched), s.Sources)
	}
	switch watched, known := g.watched(w); {
	case known && watched < g.o.Watched:
		return fmt.Sprintf("it was watched for %s alone (%s), less than %s", spell(watched.Round(time.Second)), s.Sources, spell(g.o.Watched))
	case !known && g.o.Watched > 0 && s.Sources == Metrics:
		return "nobody knows how far back its metrics reach (--metrics-window says so)"
	}
	return ""
}

// told says why no source tells what a workload calls, "" if one does.
func (g *generator) told(w Workload, s *Seen) string {
	p := g.inv.workloads[w]
	part := p != nil && s.counted > 0 && s.counted < p.Proxied
	if s.Sources&Declared != 0 || (s.caller|s.served)&Counters != 0 && !part {
		return ""
	}
	// Of these a proxy may report what it serves and not what it calls. If some
	// tells of calls, one that served and tells of none calls nobody.
	const either = AccessLog | Metrics | Kiali
	if own := s.caller & either; own != 0 {
		return ""
	}
	serves := s.served & either &^ s.remote
	switch {
	case serves&g.obs.tells(w.Namespace) != 0:
		return ""
	case part:
		return fmt.Sprintf("the counters of %d of its %d proxies were read", s.counted, p.Proxied)
	case s.remote&either != 0:
		return "its own proxy reports nothing of its calls (" + s.remote.String() + "), only those whom it called do"
	case serves != 0:
		return "it served, and no proxy of its namespace reports calls (" + serves.String() + "): who reports only what it serves does not say whom it calls"
	}
	return "its proxy was watched (" + s.Sources.String() + "), and it neither called nor served anybody"
}

// there is for how long there has been a workload, as what makes its pods says: metrics
// and graphs are of a time, and not of when each workload came.
func (g *generator) there(w Workload) (d time.Duration, known bool) {
	born := g.inv.born[w]
	if born.IsZero() || g.o.Now.IsZero() || g.obs.seen[w].Sources&Declared != 0 {
		return 0, false
	}
	return g.o.Now.Sub(born), true
}

// watched is for how long a workload was watched, by the source that did so for
// longest; known is false where no source says.
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

// newest is when the last observation was, by clocks that are not ahead of ours.
func (g *generator) newest() time.Time {
	last := g.obs.span.Last
	if now := g.o.Now; !now.IsZero() && last.After(now) {
		return now
	}
	return last
}

// blind says whether no source of a workload could have seen its calls to a host:
// connections without requests, which a log has only when they have ended; pods of
// headless Services, and the wildcard by which a host came in; and where proxies have
// forgotten the counters of endpoints, whatever only they count.
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

// replaced says whether a Service has no endpoint that has been there for as long as a
// workload has to be watched: counters went with those that were before.
func (g *generator) replaced(s *Service) bool {
	return s.At && g.o.Watched > 0 && (s.Since.IsZero() || !g.o.Now.IsZero() && g.o.Now.Sub(s.Since) < g.o.Watched)
}
