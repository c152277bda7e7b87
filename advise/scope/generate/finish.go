package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
)

// finish says what becomes of each Sidecar, and whom it holds for.
func (g *generator) finish(callers []Workload) {
	written := map[string]bool{}
	for _, s := range g.out {
		s.Change = Create
		if old, found := g.result.existing[s.String()]; found {
			s.Change = Change
			if slices.Equal(tidy(slices.Clone(old.Hosts)), tidy(slices.Clone(s.Hosts))) && maps.Equal(old.Selector, s.Selector) && old.whole["egress"] != nil {
				s.Change, s.Hosts = Same, old.Hosts
			}
		}
		s.mesh = s.Namespace == g.inv.Root && !s.selective()
		written[s.String()] = true
		g.result.Sidecars = append(g.result.Sidecars, s)
	}
	for _, e := range g.inv.existing {
		switch {
		case written[e.String()]:
		case e.generated() && g.concerns(e.Namespace):
			e.Change, e.Reason = Delete, "Generated once, of no use any more"
			g.result.Sidecars = append(g.result.Sidecars, e)
		default:
			e.Change, e.Reason = Same, "Not generated; left as it is"
			g.result.Sidecars = append(g.result.Sidecars, e)
		}
	}
	sort.SliceStable(g.result.Sidecars, func(i, j int) bool {
		a, b := &g.result.Sidecars[i], &g.result.Sidecars[j]
		mesh := func(s *Sidecar) int { return b2i(s.mesh) }
		return cmp.Or(cmp.Compare(mesh(b), mesh(a)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(b2i(a.selective()), b2i(b.selective())), cmp.Compare(a.Name, b.Name)) < 0
	})
	after := g.after()
	for _, w := range callers {
		holds := effective(after, g.inv.Root, w.Namespace, g.inv.workloads[w].Labels)
		for i := range g.result.Sidecars {
			if s := &g.result.Sidecars[i]; s.String() == holds.String() && s.Change != Delete {
				s.Workloads = append(s.Workloads, w.String())
			}
		}
	}
}

// after are the Sidecars that are there when all has been applied, in the order
// in which istiod looks at them.
func (g *generator) after() []Sidecar {
	return slices.DeleteFunc(slices.Clone(g.result.Sidecars), func(s Sidecar) bool { return s.Change == Delete })
}

// verify holds the result against what is to be kept, by istiod's rules.
func (g *generator) verify(callers []Workload) error {
	after := g.after()
	for _, w := range callers {
		labels := g.inv.workloads[w].Labels
		s, now := effective(after, g.inv.Root, w.Namespace, labels), effective(g.inv.existing, g.inv.Root, w.Namespace, labels)
		if s.Change == Same && s.String() == now.String() {
			continue // as it is
		}
		for _, h := range g.needed(w).sorted() {
			if !admits(s.Hosts, w.Namespace, h) && (g.isCovered(w) || admits(now.Hosts, w.Namespace, h)) {
				return fmt.Errorf("Sidecar %s would leave out %s, which %s calls: this is a fault of meshtrial; nothing was written", s, h, w)
			}
		}
		if g.isCovered(w) {
			continue
		}
		for _, h := range g.view(w.Namespace).hosts {
			if admits(now.Hosts, w.Namespace, h) && !admits(s.Hosts, w.Namespace, h) {
				return fmt.Errorf("Sidecar %s would leave out %s for %s, which nobody saw: this is a fault of meshtrial; nothing was written", s, h, w)
			}
		}
	}
	return nil
}

// open lists what the observations do not cover, beside workloads that were
// not seen.
func (g *generator) open(callers []Workload) {
	g.openConnections(callers)
	g.openByHand(callers)
	r := g.result
	for _, w := range workloadsOf(g.kept) {
		if p := g.inv.workloads[w]; w.Name != "" && p == nil {
			r.Open = append(r.Open, Open{What: OpenGone, Workload: w, Count: len(g.kept[w]), Why: "it called, and has no pods now",
				Risk: "if it comes back, it has the Sidecar of its namespace", Done: "its hosts are kept in the Sidecar of its namespace, if that has one"})
		}
	}
	for _, w := range callers {
		s := g.obs.seen[w]
		if s == nil || len(s.Outside) == 0 {
			continue
		}
		r.Open = append(r.Open, Open{What: OpenPassthrough, Workload: w, Hosts: slices.Sorted(maps.Keys(s.Outside)), Why: "calls that went through the passthrough or black hole cluster",
			Risk: "none from a Sidecar, which knows nothing of them; with outbound policy REGISTRY_ONLY they fail, before and after", Done: "nothing to keep"})
	}
	without := map[string]int{}
	for w, p := range g.inv.workloads {
		if p.Proxied < p.Number {
			without[w.Namespace] += p.Number - p.Proxied
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(without)) {
		r.Open = append(r.Open, Open{What: OpenProxyless, Workload: Workload{Namespace: namespace}, Count: without[namespace],
			Why: "pods without a sidecar", Risk: "none: no Sidecar holds for them; once injected, they have that of their namespace, and nobody saw what they call", Done: "nothing"})
	}
	for _, w := range workloadsOf(g.inv.finished) {
		if g.inv.workloads[w] == nil {
			r.Open = append(r.Open, Open{What: OpenGone, Workload: w, Why: "a Job that has ended, which no CronJob made", Risk: "if it runs again, it has the Sidecar of its namespace", Done: "nothing"})
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(g.inv.machines)) {
		r.Open = append(r.Open, Open{What: OpenMachines, Workload: Workload{Namespace: namespace}, Count: g.inv.machines[namespace],
			Why: "WorkloadEntries that did not register themselves, which may have proxies or not", Risk: "one with a proxy has the Sidecar of its namespace, which was made without it", Done: "nothing"})
	}
	if g.inv.Capture {
		entries := 0
		for _, s := range g.inv.services {
			entries += b2i(s.Entry)
		}
		if entries > 0 {
			r.Open = append(r.Open, Open{What: OpenDNS, Count: entries, Why: "proxies answer DNS (ISTIO_META_DNS_CAPTURE), and no source sees what is only looked up",
				Risk: "a ServiceEntry's host that only this mesh knows is not found any more by a workload whose Sidecar leaves it out", Done: "only hosts that were called are kept"})
		}
	}
	sort.SliceStable(r.Open, func(i, j int) bool {
		a, b := &r.Open[i], &r.Open[j]
		return cmp.Or(cmp.Compare(a.What, b.What), compareWorkloads(a.Workload, b.Workload)) < 0
	})
}

// openConnections says what was kept because no source could have seen it.
func (g *generator) openConnections(callers []Workload) {
	blind, unseen, alias := 0, set{}, set{}
	for _, w := range callers {
		if !g.isCovered(w) {
			continue
		}
		some := false
		for _, h := range g.view(w.Namespace).hosts {
			s := g.inv.services[h]
			switch {
			case s.External:
				alias.add(h)
			case g.blind(w, s):
				some = true
				unseen.add(h)
			}
		}
		blind += b2i(some)
	}
	list := func(hosts set) (out []string) {
		for _, h := range hosts.sorted() {
			out = append(out, h.String())
		}
		return out
	}
	if len(unseen) > 0 {
		g.result.Open = append(g.result.Open, Open{What: OpenConnections, Hosts: list(unseen), Count: blind,
			Why:  fmt.Sprintf("of %s no source sees connections without requests (TCP), calls to pods of headless Services, which wildcard a host came by, or calls of which proxies forgot the counters (headless Services, ServiceEntries without resolution or by DNS, Services whose pods were all replaced since)", words.Plural(blind, "workload")),
			Risk: "bytes that may be of no use; metrics (" + MetricConnections + " too), access logs, or, of connections, proxies' counters would tell", Done: "kept for these workloads"})
	}
	if len(alias) > 0 {
		g.result.Open = append(g.result.Open, Open{What: OpenAlias, Hosts: list(alias), Why: "calls to a Service of type ExternalName count for what it points to",
			Risk: "some bytes", Done: "kept for every workload that sees them"})
	}
}

// notes say how far the observations reach.
func (g *generator) notes() {
	r, o := g.result, g.obs
	add := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	span := o.span.Last.Sub(o.span.First)
	switch {
	case o.sources == Declared:
		add("Nothing was observed: the scopes are as good as the declared graph.")
	case o.sources&^timeless == 0:
		add("Proxies' counters begin with the proxy and forget endpoints that are gone: a call that comes once a day, or before the last rollout of its server, is not among them. Metrics or access logs of at least a week tell more.")
	case o.span.First.IsZero():
		add("No source says from when it is: what happens less often than they reach back may not have been seen.")
	case span < 7*24*hour:
		add("The sources with times cover %s: what happens once a week, or less often than that, may not have been seen.", spell(span.Round(hour/60)))
	}
	if o.undated {
		add("Nobody knows how far back the metrics of a file reach, and so no workload is narrowed that they alone watch, unless --watched is 0. Say how far its query looked with --metrics-window.")
	}
	if !g.inv.Has("Pod") {
		add("No list of pods was given: workloads that no source names are not known here, and the Sidecars of their namespaces hold for them too. Give one with --inventory.")
	}
	if !g.inv.Has("Sidecar") {
		add("No list of Sidecars was given: those that exist are not known here, and a namespace must not have two without a selector.")
	}
	if !g.inv.Has("VirtualService") {
		add("No list of VirtualServices was given: one that stands in another namespace than its host may be left out, and so may a host from which one leads elsewhere.")
	}
	if !g.inv.Has("HTTPRoute") {
		add("No list of HTTPRoutes was given: a Service from which a route of the Gateway API leads elsewhere may be left out.")
	}
	if !g.inv.Has("Deployment") {
		add("No list of Deployments was given: workloads that have no pods now are not known, and get the Sidecar of their namespace when they run.")
	}
	if ahead := o.span.Last.Sub(g.newest()); ahead > time.Minute {
		add("Some observations are %s ahead of this machine's clock; how old the others are is counted from now.", spell(ahead.Round(time.Minute)))
	}
	add("A workload that is new, or whose next version calls somebody else, has what the Sidecar of its namespace or of the mesh lets in: generate again, or let its host in by hand, before such a rollout.")
	risk := g.risk()
	add("%s%s.", strings.ToUpper(risk[:1]), risk[1:])
}
