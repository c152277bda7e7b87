package generate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// caller is a workload of a namespace, and what is to become of it.
type caller struct {
	Workload
	pods     *Pods
	now      Sidecar // that holds for it today
	needs    set
	weight   int64 // of what it needs
	selector map[string]string
	covered  bool
}

// meshDefault makes the Sidecar of the root namespace: what a workload has
// that nobody knows yet, in a namespace without a Sidecar.
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

// on is a Sidecar in the place of the one that exists there, with what else
// that says; otherwise it takes over what the next in line says.
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

// namespace makes the Sidecars of a namespace: its own where the mesh's default
// lets in too little or far too much, and those of workloads that it would cost
// too much, or that must keep what they have.
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

// worth says whether a workload shall have a Sidecar of its own, and the share
// of its saving that would be lost without.
func (g *generator) worth(c *caller, base int64) (bool, float64) {
	saves := g.view(c.Namespace).weight - c.weight
	if saves <= 0 || base <= c.weight {
		return false, 0
	}
	lost := float64(base-c.weight) / float64(saves)
	return lost > g.o.Exception, lost
}

// base is the Sidecar of a namespace, or the mesh's default if that will do.
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

// widened are egress hosts with those that they lack.
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

// callersOf are the workloads of a namespace that are not under a Sidecar of
// the user's own, with what they need, and all of that together with what
// workloads called that are gone.
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

// passingLabels are labels that change with every rollout, or that a Sidecar
// cannot count on.
var passingLabels = []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
	"apps.kubernetes.io/pod-index", "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
	"rollouts-pod-template-hash", "deployment", "batch.kubernetes.io/job-completion-index",
	"security.istio.io/tlsMode", "service.istio.io/canonical-name", "service.istio.io/canonical-revision", "istio.io/rev", "topology.istio.io/network"}

// versionLabels change with a release: a workload that must keep what it has is
// not selected by them.
var versionLabels = []string{"version", "app.kubernetes.io/version", "helm.sh/chart", "chart"}

// lasting is a selector, unless it takes a label that the next release changes.
func (g *generator) lasting(selector map[string]string) map[string]string {
	for _, name := range versionLabels {
		if _, has := selector[name]; has {
			return nil
		}
	}
	return selector
}

// selector finds labels that a workload's pods have and no others' of the
// namespace: one label if that suffices, the usual ones first. nil if nothing
// tells them apart.
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

// alone says whether labels select the pods of one workload and none of
// another's.
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

// unseen is a workload of which nobody knows what it calls. It keeps its scope: in the Sidecar, or
// in one of its own.
func (g *generator) unseen(c *caller, sidecar string) Open {
	why := g.uncovered(c.Workload)
	why.Idle = c.pods.idle
	return Open{Code: OpenUnseen, Workload: c.Workload, Count: c.pods.Proxied, Why: why, Sidecar: sidecar}
}

// egress writes hosts as a Sidecar has them: a namespace as a whole where all
// of it is needed, its own as ".", and nothing twice.
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

// tidy sorts egress hosts, without doubles; "." comes first. Nothing at all is
// said by ~/*.
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
