package generate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// caller is a workload of a namespace whose scope is decided.
type caller struct {
	Workload
	pods     *Pods
	now      Sidecar // that holds for it today
	needs    set
	weight   int64 // of what it needs
	selector map[string]string
	covered  bool
}

// meshDefault makes the Sidecar of the root namespace. It governs workloads that are not known yet
// in namespaces without a Sidecar.
func (g *generator) meshDefault(callers []Workload) {
	if len(g.o.Only) > 0 { // it would hold for others too
		g.mesh = effective(g.inv.existing, g.inv.Root, g.inv.Root, nil)
		return
	}
	needs := set{}
	for _, n := range g.inv.needs {
		if n.namespace == "" || n.namespace == g.inv.Root {
			if to := g.needHosts(n, g.inv.Root); !n.ifKnown || g.inv.known(to[0]) {
				needs.add(to...)
			}
		}
	}
	hosts := append(slices.Clone(g.o.Always), "./*", g.inv.Root+"/*")
	for _, h := range needs.sorted() {
		if !admits(hosts, "", h) {
			hosts = append(hosts, h.String())
		}
	}
	g.mesh = g.on(g.inv.Root, "", nil, tidy(hosts))
	g.mesh.Reason = ReasonMesh
	// The Sidecar of the root namespace is also that of its own workloads.
	for _, w := range callers {
		if w.Namespace != g.inv.Root || g.selector(w) != nil && (g.isCovered(w) || g.lasting(g.selector(w)) != nil) {
			continue
		}
		if !g.isCovered(w) {
			g.mesh.Hosts = []string{"*/*"}
			g.result.Notes = append(g.result.Notes, Note{Code: NoteEverything, Workload: w})
			break
		}
		g.mesh.Hosts = tidy(g.widened(g.mesh.Hosts, g.inv.Root, g.needed(w)))
	}
	g.out = append(g.out, g.mesh)
}

// on returns a Sidecar that replaces the existing one and takes over the rest of its spec;
// without one, the rest of the next that governs the pods.
func (g *generator) on(namespace, workload string, selector map[string]string, hosts []string) Sidecar {
	s := Sidecar{Namespace: namespace, Selector: selector, Hosts: hosts, Name: "default", Labels: map[string]string{Label: labelValue}}
	names := map[string]bool{}
	above := effective(slices.DeleteFunc(slices.Clone(g.inv.existing), func(e Sidecar) bool { return e.selective() }), g.inv.Root, namespace, nil)
	s.rest = above.rest
	for _, e := range g.inv.existing {
		switch {
		case e.Namespace != namespace:
		case !e.selective() && selector == nil:
			s.Name, s.Labels, s.Annotations, s.created = e.Name, e.Labels, e.Annotations, e.created
			return s
		case e.generated() && e.selective() && maps.Equal(e.Selector, selector):
			s.Name, s.Labels, s.Annotations, s.rest, s.created = e.Name, e.Labels, e.Annotations, e.rest, e.created
			return s
		default:
			names[e.Name] = true
		}
	}
	for _, other := range g.out {
		if other.Namespace == namespace {
			names[other.Name] = true
		}
	}
	if selector != nil {
		s.Name = workload
	}
	for names[s.Name] || selector != nil && s.Name == "default" {
		s.Name = "scope-" + s.Name
	}
	return s
}

// namespace makes the Sidecars of a namespace: its own if the mesh's default lets in too little or
// far too much, and those of workloads that would lose too much or must keep their scope.
func (g *generator) namespace(namespace string, workloads []Workload) {
	union, all := g.callersOf(namespace, workloads)
	base := g.mesh
	if own := slices.IndexFunc(g.inv.existing, func(e Sidecar) bool {
		return e.Namespace == namespace && !e.selective() && namespace != g.inv.Root
	}); own >= 0 && g.inv.existing[own].fixed {
		g.left(all, g.inv.existing[own])
		return
	}
	if namespace != g.inv.Root {
		base = g.base(namespace, union, all)
	}
	weight := g.weight(base.Hosts, namespace)
	for i := range all {
		c := &all[i]
		switch {
		case c.selector == nil:
			if !c.covered {
				g.result.Open = append(g.result.Open, g.unseen(c, base.String()))
			}
			continue
		case !c.covered:
			g.result.Open = append(g.result.Open, g.unseen(c, ""))
			if slices.Equal(c.now.Hosts, base.Hosts) {
				continue
			}
			s := g.on(namespace, c.Name, c.selector, c.now.Hosts)
			s.Reason = ReasonUnseen
			g.out = append(g.out, s)
		default:
			own, lost := g.worth(c, weight)
			missing := slices.ContainsFunc(c.needs.sorted(), func(h Host) bool { return !admits(base.Hosts, namespace, h) })
			if !own && !missing {
				continue
			}
			s := g.on(namespace, c.Name, c.selector, g.egress(c.needs, namespace))
			s.Reason, s.Lost = ReasonException, lost
			g.out = append(g.out, s)
		}
	}
}

// worth reports whether a workload gets a Sidecar of its own, and the share of its saving that
// would be lost without.
func (g *generator) worth(c *caller, base int64) (bool, float64) {
	saves := g.view(c.Namespace).weight - c.weight
	if saves <= 0 || base <= c.weight {
		return false, 0
	}
	lost := float64(base-c.weight) / float64(saves)
	return lost > g.o.Exception, lost
}

// base returns the Sidecar of a namespace, or the mesh's default if that suffices.
func (g *generator) base(namespace string, union set, all []caller) Sidecar {
	wide, covered := []string(nil), false
	for _, c := range all {
		covered = covered || c.covered
		switch {
		case c.covered || c.selector != nil:
		case wide == nil || slices.Equal(wide, c.now.Hosts):
			wide = c.now.Hosts
		default:
			wide = []string{"*/*"}
		}
	}
	if !covered && wide == nil && len(all) > 0 {
		wide = all[0].now.Hosts
	}
	s := g.on(namespace, "", nil, g.egress(union, namespace))
	// One that a person wrote stays: without it, the mesh's would not hold.
	stays := slices.ContainsFunc(g.inv.existing, func(e Sidecar) bool {
		return e.Namespace == namespace && !e.selective() && !e.generated()
	})
	switch {
	case wide != nil:
		s.Hosts = g.widened(wide, namespace, union)
		s.Reason = ReasonUnseenSome
		if !covered {
			s.Reason = ReasonUnseenAll
		}
		if !stays && slices.Equal(s.Hosts, g.mesh.Hosts) {
			return g.mesh
		}
	case stays || slices.ContainsFunc(union.sorted(), func(h Host) bool { return !admits(g.mesh.Hosts, namespace, h) }):
		s.Reason = ReasonNeeded
	default:
		// The default suffices; is it far too much for those who have no
		// Sidecar of their own?
		weight := g.weight(g.mesh.Hosts, namespace)
		if !slices.ContainsFunc(all, func(c caller) bool {
			own, _ := g.worth(&c, weight)
			return own && c.covered
		}) {
			return g.mesh
		}
		s.Reason = ReasonNarrower
	}
	g.out = append(g.out, s)
	return s
}

// widened adds the hosts that egress hosts lack.
func (g *generator) widened(hosts []string, namespace string, by set) []string {
	out := slices.Clone(hosts)
	for _, h := range by.sorted() {
		if admits(out, namespace, h) {
			continue
		}
		if out = append(out, h.String()); !admits(out, namespace, h) {
			return []string{"*/*"} // they exclude it by name
		}
	}
	return out
}

// callersOf returns the workloads of a namespace that no Sidecar of the user selects, and all that
// they and workloads that are gone need.
func (g *generator) callersOf(namespace string, workloads []Workload) (set, []caller) {
	union := set{}
	union.merge(g.kept[Workload{Namespace: namespace}])
	for w, hosts := range g.kept {
		if w.Namespace == namespace && g.inv.workloads[w] == nil {
			union.merge(hosts)
		}
	}
	g.routes(union, namespace)
	g.aliases(union, namespace)
	var all []caller
	for _, w := range workloads {
		c := caller{Workload: w, pods: g.inv.workloads[w], needs: g.needed(w), selector: g.selector(w)}
		c.now = effective(g.inv.existing, g.inv.Root, namespace, c.pods.Labels)
		if c.now.selective() && !c.now.generated() {
			g.left([]caller{c}, c.now)
			continue
		}
		if c.covered = g.isCovered(w); !c.covered {
			c.selector = g.lasting(c.selector)
		}
		for h := range c.needs {
			if s := g.inv.services[h]; s != nil {
				c.weight += g.acc.weigh(s).Dump
			}
		}
		for _, h := range g.view(namespace).hosts { // also by what all have
			if _, there := c.needs[h]; !there && admits(g.o.Always, namespace, h) {
				c.weight += g.acc.weigh(g.inv.services[h]).Dump
			}
		}
		if c.covered {
			union.merge(c.needs)
		}
		all = append(all, c)
	}
	return union, all
}

// left lists workloads whose Sidecar stays as it is, with the calls that it leaves out.
func (g *generator) left(all []caller, s Sidecar) {
	for _, c := range all {
		var missing []string
		for _, h := range c.needs.sorted() {
			if !admits(s.Hosts, c.Namespace, h) {
				missing = append(missing, h.String())
			}
		}
		g.result.Open = append(g.result.Open, Open{Code: OpenOwn, Workload: c.Workload, Hosts: missing, Sidecar: s.String(), Fixed: s.fixed})
	}
}

// passingLabels change with every rollout, or are not reliable.
var passingLabels = []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
	"apps.kubernetes.io/pod-index", "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
	"rollouts-pod-template-hash", "deployment", "batch.kubernetes.io/job-completion-index",
	"security.istio.io/tlsMode", "service.istio.io/canonical-name", "service.istio.io/canonical-revision", "istio.io/rev", "topology.istio.io/network"}

// versionLabels change with a release. A workload that must keep its scope is not selected by them.
var versionLabels = []string{"version", "app.kubernetes.io/version", "helm.sh/chart", "chart"}

// lasting returns a selector, unless the next release changes one of its labels.
func (g *generator) lasting(selector map[string]string) map[string]string {
	for _, name := range versionLabels {
		if _, has := selector[name]; has {
			return nil
		}
	}
	return selector
}

// selector finds labels that only this workload's pods have in the namespace: one label if that
// suffices, common ones first; nil if nothing tells them apart.
func (g *generator) selector(w Workload) map[string]string {
	labels := maps.Clone(g.inv.workloads[w].Labels)
	for _, name := range passingLabels {
		delete(labels, name)
	}
	if len(labels) == 0 {
		return nil
	}
	usual := []string{"app", "app.kubernetes.io/name", "k8s-app", "app.kubernetes.io/instance"}
	names := slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
		rank := func(name string) int {
			if i := slices.Index(usual, name); i >= 0 {
				return i
			}
			return len(usual) + b2i(slices.Contains(versionLabels, name))
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		if one := map[string]string{name: labels[name]}; g.alone(w, one) {
			return one
		}
	}
	several := map[string]string{}
	for _, name := range names {
		several[name] = labels[name]
		if g.alone(w, several) {
			return several
		}
	}
	return nil
}

// alone reports whether labels select the pods of no other workload.
func (g *generator) alone(w Workload, labels map[string]string) bool {
	for _, other := range g.inv.within[w.Namespace] {
		hit := other != w
		for key, value := range labels {
			hit = hit && g.inv.workloads[other].any[[2]string{key, value}]
		}
		if hit {
			return false
		}
	}
	return true
}

// unseen describes a workload whose calls are unknown. It keeps its scope in the Sidecar, or, if
// that is "", in one of its own.
func (g *generator) unseen(c *caller, sidecar string) Open {
	why := g.uncovered(c.Workload)
	why.Idle = c.pods.idle
	return Open{Code: OpenUnseen, Workload: c.Workload, Count: c.pods.Proxied, Why: why, Sidecar: sidecar}
}

// egress writes hosts as egress hosts: NAMESPACE/* if all of a namespace is needed, the own
// namespace as ".".
func (g *generator) egress(hosts set, namespace string) []string {
	v := g.view(namespace)
	number := map[string]int{}
	for h := range hosts {
		if g.inv.known(h) {
			number[h.Namespace]++
		}
	}
	out := slices.Clone(g.o.Always)
	for _, h := range hosts.sorted() {
		in := h.Namespace
		if in == namespace {
			in = "."
		}
		entry := in + "/" + h.Name
		if number[h.Namespace] > 1 && number[h.Namespace] == v.number[h.Namespace] {
			entry = in + "/*"
		}
		if !admits(g.o.Always, namespace, h) {
			out = append(out, entry)
		}
	}
	return tidy(out)
}

// tidy sorts egress hosts and removes duplicates; "." comes first. No host at all is ~/*.
func tidy(hosts []string) []string {
	if len(hosts) == 0 {
		return []string{"~/*"}
	}
	slices.SortFunc(hosts, func(a, b string) int {
		return cmp.Or(-cmp.Compare(b2i(strings.HasPrefix(a, "./")), b2i(strings.HasPrefix(b, "./"))), cmp.Compare(a, b))
	})
	return slices.Compact(hosts)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
