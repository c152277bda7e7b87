package generate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
)

// keep decides which calls are kept, and for whom.
func (g *generator) keep() {
	r := g.result
	for _, e := range g.obs.Edges() {
		if g.o.Window > 0 && e.Sources&timeless == 0 && !e.Last.IsZero() && e.Last.Before(g.newest().Add(-g.o.Window)) {
			r.Old = append(r.Old, e)
			continue
		}
		to := g.inv.resolve(e.Host, e.Namespace, e.From.Namespace)
		if why := g.madeUp(e, to[0]); why != "" {
			g.odd(e, why)
			continue
		}
		g.keepHosts(e.From, to)
		r.Edges++
		switch {
		case !g.inv.known(to[0]):
			r.Unknown = append(r.Unknown, Kept{e, to, "no Service or ServiceEntry has this host now"})
		case e.Sources&Declared != 0:
		case e.Count <= g.o.Rare:
			why := fmt.Sprintf("%d calls in all", e.Count)
			switch e.Count {
			case 0:
				why = "only those whom it called know of it"
			case 1:
				why = "a single call"
			}
			r.Rare = append(r.Rare, Kept{e, to, why})
		case e.Hours != 0 && g.newest().Sub(g.obs.span.First) >= 24*hour && hoursIn(e.Hours) <= 3:
			r.Rare = append(r.Rare, Kept{e, to, "only at some hours of the day: " + hours(e.Hours)})
		}
	}
	// What went around the mesh though the mesh knows it: a Sidecar that holds
	// today leaves it out.
	for _, w := range g.obs.Workloads() {
		if n := g.obs.seen[w].beyond[anywhere] + g.obs.seen[w].beyond[beside]; n > 0 {
			r.Open = append(r.Open, Open{What: OpenOdd, Workload: w, Count: int(n), Risk: "none, if no proxy has such a host", Done: "not kept",
				Why: fmt.Sprintf("beyond %d names that the mesh does not know, and that clients may have written into lines of a log, others were read over, %s", maxOutside, words.Plural(int(n), "time"))})
		}
		for _, host := range slices.Sorted(maps.Keys(g.obs.seen[w].Outside)) {
			to := g.inv.resolve(host, "", w.Namespace)
			if host == others || !g.inv.known(to[0]) || g.inv.services[to[0]].Entry && strings.HasPrefix(to[0].Name, "*") {
				continue
			}
			g.keepHosts(w, to)
			r.Edges++
			r.Rare = append(r.Rare, Kept{Edge{From: w, Host: host, Count: g.obs.seen[w].Outside[host], Sources: g.obs.seen[w].Sources}, to,
				"called through the passthrough or black hole cluster: the scope of today leaves it out"})
		}
	}
}

// writable is what Istio takes for the host of an egress listener, and namespaces
// are called.
var (
	writable = regexp.MustCompile(`^(?:\*|(?:\*\.?-?)?[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*)$`)
	dnsLabel = regexp.MustCompile(`^(?:\*|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)$`)
)

// madeUp says why a host that the mesh does not know is not taken for one, "" if it
// is: names may come from what clients send.
func (g *generator) madeUp(e Edge, to Host) string {
	switch {
	case g.inv.known(to):
		return ""
	case !writable.MatchString(to.Name) || !dnsLabel.MatchString(to.Namespace) || len(to.Name) > 253 || to.Name == "*":
		return "no Service or ServiceEntry has it, and no Sidecar could name it"
	case e.loose != firm && g.listed(e.loose):
		return "no Service or ServiceEntry that is known has it, and it was named in a line of a log where a client may have written it"
	}
	return ""
}

// listed says whether enough of the mesh's hosts is known to take others for made up.
// Beside the field that has the cluster, a real one stands only if a client has shifted
// the fields by the name of a server.
func (g *generator) listed(l looseness) bool {
	return g.inv.Has("Service") && (l == beside || g.inv.Has("ServiceEntry"))
}

// odd lists a name that is not taken for a host, with others of that workload.
func (g *generator) odd(e Edge, why string) {
	r := g.result
	i := slices.IndexFunc(r.Open, func(o Open) bool { return o.What == OpenOdd && o.Workload == e.From && o.Why == why })
	if i < 0 {
		i = len(r.Open)
		r.Open = append(r.Open, Open{What: OpenOdd, Workload: e.From, Why: why, Risk: "none, if no proxy has such a host", Done: "not kept"})
	}
	o := &r.Open[i]
	if o.Count++; len(o.Hosts) < maxOutside {
		o.Hosts = append(o.Hosts, fmt.Sprintf("%.253q", e.Host))
	}
}

func (g *generator) keepHosts(w Workload, hosts []Host) {
	if g.kept[w] == nil {
		g.kept[w] = set{}
	}
	g.kept[w].add(hosts...)
}

func hoursIn(bits uint32) (n int) {
	for ; bits != 0; bits &= bits - 1 {
		n++
	}
	return n
}

func hours(bits uint32) string {
	var out []string
	for h := range 24 {
		if bits&(1<<h) != 0 {
			out = append(out, fmt.Sprintf("%02d:00-%02d:00 UTC", h, (h+1)%24))
		}
	}
	return strings.Join(out, ", ")
}
