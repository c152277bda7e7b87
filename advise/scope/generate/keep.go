package generate

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strings"
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
		if code := g.madeUp(e, to[0]); code != "" {
			g.odd(e, code)
			continue
		}
		g.keepHosts(e.From, to)
		r.Edges++
		switch {
		case !g.inv.known(to[0]):
			r.Unknown = append(r.Unknown, Kept{e, to, KeptUnknown})
		case e.Sources&Declared != 0:
		case e.Count <= rare:
			r.Rare = append(r.Rare, Kept{e, to, KeptRare})
		case e.Hours != 0 && g.newest().Sub(g.obs.span.First) >= 24*hour && bits.OnesCount32(e.Hours) <= 3:
			r.Rare = append(r.Rare, Kept{e, to, KeptHours})
		}
	}
	// What went around the mesh though the mesh knows it: a Sidecar that holds
	// today leaves it out.
	for _, w := range g.obs.Workloads() {
		if n := g.obs.seen[w].beyond[anywhere] + g.obs.seen[w].beyond[beside]; n > 0 {
			r.Open = append(r.Open, Open{Code: OpenManyMadeUp, Workload: w, Count: int(n)})
		}
		for _, host := range slices.Sorted(maps.Keys(g.obs.seen[w].Outside)) {
			to := g.inv.resolve(host, "", w.Namespace)
			if host == others || !g.inv.known(to[0]) || g.inv.services[to[0]].Entry && strings.HasPrefix(to[0].Name, "*") {
				continue
			}
			g.keepHosts(w, to)
			r.Edges++
			r.Rare = append(r.Rare, Kept{Edge{From: w, Host: host, Count: g.obs.seen[w].Outside[host], Sources: g.obs.seen[w].Sources}, to, KeptOutside})
		}
	}
}

// writable is what Istio takes for the host of an egress listener, and namespaces
// are called.
var (
	writable = regexp.MustCompile(`^(?:\*|(?:\*\.?-?)?[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*)$`)
	dnsLabel = regexp.MustCompile(`^(?:\*|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)$`)
)

// madeUp returns why a host that the mesh does not know is not kept: names may come from what
// clients send.
func (g *generator) madeUp(e Edge, to Host) OpenCode {
	switch {
	case g.inv.known(to):
		return ""
	case !writable.MatchString(to.Name) || !dnsLabel.MatchString(to.Namespace) || len(to.Name) > 253 || to.Name == "*":
		return OpenUnwritable
	case e.loose != firm && g.listed(e.loose):
		return OpenMadeUp
	}
	return ""
}

// listed reports whether enough of the mesh's hosts is known to take others for made up.
// Beside the field that has the cluster, a real one stands only if a client has shifted
// the fields by the name of a server.
func (g *generator) listed(l looseness) bool {
	return g.inv.Has("Service") && (l == beside || g.inv.Has("ServiceEntry"))
}

// odd lists a name that is not kept, with others of that workload.
func (g *generator) odd(e Edge, code OpenCode) {
	r := g.result
	i := slices.IndexFunc(r.Open, func(o Open) bool { return o.Code == code && o.Workload == e.From })
	if i < 0 {
		i = len(r.Open)
		r.Open = append(r.Open, Open{Code: code, Workload: e.From})
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
