package generate

import "strings"

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

// loses says whether a host that was let in by name, and that nobody calls, is not any more.
func (s scoped) loses(namespace, name string, called set) bool {
	if namespace == "." {
		namespace = s.namespace
	}
	h := Host{namespace, name}
	_, needed := called[h]
	return !needed && !admits(s.hosts, s.namespace, h)
}
