package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// finish decides what becomes of each Sidecar, and lists the workloads that it governs.
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
			e.Change, e.Reason = Delete, ReasonUseless
			g.result.Sidecars = append(g.result.Sidecars, e)
		default:
			e.Change, e.Reason = Same, ReasonTheirs
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

// after returns the Sidecars that exist once everything is applied, in the order in which istiod
// looks at them.
func (g *generator) after() []Sidecar {
	return slices.DeleteFunc(slices.Clone(g.result.Sidecars), func(s Sidecar) bool { return s.Change == Delete })
}

// verify checks by istiod's rules that the result lets in all calls to be kept.
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

// open lists what the observations do not cover, besides unseen workloads.
func (g *generator) open(callers []Workload) {
	g.openConnections(callers)
	g.openByHand(callers)
	r := g.result
	for _, w := range workloadsOf(g.kept) {
		if p := g.inv.workloads[w]; w.Name != "" && p == nil {
			r.Open = append(r.Open, Open{Code: OpenGone, Workload: w, Count: len(g.kept[w])})
		}
	}
	for _, w := range callers {
		if s := g.obs.seen[w]; s != nil && len(s.Outside) > 0 {
			r.Open = append(r.Open, Open{Code: OpenPassthrough, Workload: w, Hosts: slices.Sorted(maps.Keys(s.Outside))})
		}
	}
	without := map[string]int{}
	for w, p := range g.inv.workloads {
		if p.Proxied < p.Number {
			without[w.Namespace] += p.Number - p.Proxied
		}
	}
	for namespace, n := range without {
		r.Open = append(r.Open, Open{Code: OpenProxyless, Workload: Workload{Namespace: namespace}, Count: n})
	}
	for w := range g.inv.finished {
		if g.inv.workloads[w] == nil {
			r.Open = append(r.Open, Open{Code: OpenFinished, Workload: w})
		}
	}
	for namespace, n := range g.inv.machines {
		r.Open = append(r.Open, Open{Code: OpenMachines, Workload: Workload{Namespace: namespace}, Count: n})
	}
	if g.inv.Capture {
		entries := 0
		for _, s := range g.inv.services {
			entries += b2i(s.Entry)
		}
		if entries > 0 {
			r.Open = append(r.Open, Open{Code: OpenDNS, Count: entries})
		}
	}
	sort.SliceStable(r.Open, func(i, j int) bool {
		a, b := &r.Open[i], &r.Open[j]
		return cmp.Or(cmp.Compare(a.Code, b.Code), compareWorkloads(a.Workload, b.Workload)) < 0
	})
}

// openConnections lists what was kept because no source could have seen it.
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
		g.result.Open = append(g.result.Open, Open{Code: OpenConnections, Hosts: list(unseen), Count: blind})
	}
	if len(alias) > 0 {
		g.result.Open = append(g.result.Open, Open{Code: OpenAlias, Hosts: list(alias)})
	}
}

// notes say how far the observations and the inventory reach.
func (g *generator) notes() {
	o := g.obs
	add := func(n Note) { g.result.Notes = append(g.result.Notes, n) }
	span := o.span.Last.Sub(o.span.First)
	switch {
	case o.sources == Declared:
		add(Note{Code: NoteDeclared})
	case o.sources&^timeless == 0:
		add(Note{Code: NoteCounters})
	case o.span.First.IsZero():
		add(Note{Code: NoteUndated})
	case span < 7*24*hour:
		add(Note{Code: NoteBrief, For: span})
	}
	if o.undated {
		add(Note{Code: NoteMetrics})
	}
	for _, kind := range []string{"Pod", "Sidecar", "VirtualService", "HTTPRoute", "Deployment"} {
		if !g.inv.Has(kind) {
			add(Note{Code: NoteNoList, Kind: kind})
		}
	}
	if ahead := o.span.Last.Sub(g.newest()); ahead > time.Minute {
		add(Note{Code: NoteAhead, For: ahead})
	}
}

// openByHand lists hosts that Sidecars written by people let in by name and that now go: nobody was
// seen to call them, but their author may know better.
func (g *generator) openByHand(callers []Workload) {
	after := g.after()
	for _, e := range g.inv.existing {
		if e.selective() || e.generated() {
			continue
		}
		// What those that it holds for call, and what holds for them then.
		called, names := set{}, map[string]bool{}
		then := map[string]scoped{}
		for _, s := range after {
			if s.String() == e.String() {
				then[""] = scoped{e.Namespace, s.Hosts}
			}
		}
		for _, w := range callers {
			labels := g.inv.workloads[w].Labels
			if now := effective(g.inv.existing, g.inv.Root, w.Namespace, labels); now.String() != e.String() {
				continue
			}
			for h := range g.needed(w) {
				called.add(h)
				names[h.Name] = true
			}
			s := effective(after, g.inv.Root, w.Namespace, labels)
			then[w.Namespace+" "+s.String()] = scoped{w.Namespace, s.Hosts}
		}
		var gone []string
		for _, entry := range e.Hosts {
			namespace, name, _ := strings.Cut(entry, "/")
			if strings.Contains(name, "*") || strings.HasPrefix(namespace, "~") || namespace == "*" && names[name] {
				continue
			}
			for _, s := range then {
				if s.loses(namespace, name, called) {
					gone = append(gone, entry)
					break
				}
			}
		}
		if len(gone) > 0 {
			g.result.Open = append(g.result.Open, Open{Code: OpenByHand, Workload: Workload{Namespace: e.Namespace}, Hosts: gone, Count: len(gone), Sidecar: e.String()})
		}
	}
}

// scoped are the egress hosts of proxies of a namespace.
type scoped struct {
	namespace string
	hosts     []string
}

// loses reports whether a host that was let in by name, and that nobody calls, is not any more.
func (s scoped) loses(namespace, name string, called set) bool {
	if namespace == "." {
		namespace = s.namespace
	}
	h := Host{namespace, name}
	_, needed := called[h]
	return !needed && !admits(s.hosts, s.namespace, h)
}
