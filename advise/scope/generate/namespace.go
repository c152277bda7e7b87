package generate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// caller is a workload of a namespace whose scope is being decided.
type caller struct {
	Workload
	now      Sidecar // that governs it today
	needs    set
	weight   int64 // of what it needs
	selector map[string]string
	covered  bool
}

// meshDefault makes the Sidecar of the root namespace. It governs unknown workloads in namespaces
// without a Sidecar, and the root namespace's own workloads.
func (g *generator) meshDefault() {
	root := g.inv.Root
	if len(g.o.Only) > 0 { // it would apply to other namespaces too
		g.mesh = effective(g.inv.existing, root, root, nil)
		return
	}
	needs := set{}
	g.addConfigured(needs, root)
	hosts := append(slices.Clone(g.o.Always), "./*", root+"/*")
	hosts = append(hosts, names(missing(hosts, "", needs))...)
	g.mesh = g.on(root, "", nil, tidy(hosts))
	g.mesh.Reason = ReasonMesh
	for _, w := range g.callers {
		if w.Namespace != root || g.selector(w) != nil {
			continue
		}
		if !g.covered(w) {
			g.mesh.Hosts, g.mesh.Reason = []string{"*/*"}, ReasonUnseenSome
			break
		}
		g.mesh.Hosts = tidy(g.widened(g.mesh.Hosts, root, g.needed(w)))
	}
	g.out = append(g.out, g.mesh)
}

// on returns a Sidecar that replaces the existing one and inherits the rest of its spec; without an
// existing one, it inherits from the next that governs the pods.
func (g *generator) on(namespace, workload string, selector map[string]string, hosts []string) Sidecar {
	s := Sidecar{Namespace: namespace, Selector: selector, Hosts: hosts, Name: cmp.Or(workload, "default"),
		labels: map[string]string{Label: labelValue}}
	taken := map[string]bool{}
	wide := slices.DeleteFunc(slices.Clone(g.inv.existing), Sidecar.selective)
	s.rest = effective(wide, g.inv.Root, namespace, nil).rest
	for _, e := range g.inv.existing { // oldest first
		replaces := !e.selective() && selector == nil || e.generated() && e.selective() && maps.Equal(e.Selector, selector)
		switch {
		case e.Namespace != namespace:
		case replaces:
			s.Name, s.labels, s.annotations, s.rest, s.created = e.Name, e.labels, e.annotations, e.rest, e.created
			return s
		default:
			taken[e.Name] = true
		}
	}
	for _, other := range g.out {
		taken[other.Name] = taken[other.Name] || other.Namespace == namespace
	}
	for taken[s.Name] || selector != nil && s.Name == "default" {
		s.Name = "scope-" + s.Name
	}
	return s
}

// namespace makes the Sidecars of a namespace: one for the namespace if the mesh's default admits
// too little or far too much, and those of workloads that would lose too much or must keep their
// scope.
func (g *generator) namespace(namespace string, workloads []Workload) {
	union, all := g.callersOf(namespace, workloads)
	base := g.mesh
	if namespace != g.inv.Root {
		own := slices.IndexFunc(g.inv.existing, func(e Sidecar) bool { return e.Namespace == namespace && !e.selective() && e.fixed })
		if own >= 0 {
			for _, c := range all {
				g.left(c, g.inv.existing[own])
			}
			return
		}
		base = g.base(namespace, union, all)
	}
	weight := g.weight(base.Hosts, namespace)
	for _, c := range all {
		lost := g.lost(c, weight)
		switch {
		case !c.covered:
			p := g.inv.workloads[c.Workload]
			open := Open{Code: OpenUnseen, Workload: c.Workload, Count: p.proxied, Why: g.uncovered(c.Workload), Idle: p.idle}
			if c.selector == nil {
				open.Sidecar = base.String()
			} else if !slices.Equal(c.now.Hosts, base.Hosts) {
				s := g.on(namespace, c.Name, c.selector, c.now.Hosts)
				s.Reason = ReasonUnseen
				g.out = append(g.out, s)
			}
			g.result.Open = append(g.result.Open, open)
		case c.selector != nil && (lost > exception || len(missing(base.Hosts, namespace, c.needs)) > 0):
			s := g.on(namespace, c.Name, c.selector, g.egress(c.needs, namespace))
			s.Reason, s.Lost = ReasonException, lost
			g.out = append(g.out, s)
		}
	}
}

// lost returns the share of a workload's saving that a Sidecar of a given weight would lose.
func (g *generator) lost(c caller, weight int64) float64 {
	saves := g.view(c.Namespace).weight - c.weight
	if saves <= 0 || weight <= c.weight {
		return 0
	}
	return float64(weight-c.weight) / float64(saves)
}

// base returns the Sidecar of a namespace, or the mesh's default if that suffices.
func (g *generator) base(namespace string, union set, all []caller) Sidecar {
	// wide must stay for unobserved workloads that no selector distinguishes.
	var wide []string
	covered := false
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
	// A manually written one stays: without it, the mesh's would not apply.
	stays := slices.ContainsFunc(g.inv.existing, func(e Sidecar) bool {
		return e.Namespace == namespace && !e.selective() && !e.generated()
	})
	weight := g.weight(g.mesh.Hosts, namespace)
	switch {
	case wide != nil:
		s.Hosts, s.Reason = g.widened(wide, namespace, union), ReasonUnseenSome
		if !stays && slices.Equal(s.Hosts, g.mesh.Hosts) {
			return g.mesh
		}
	case stays || len(missing(g.mesh.Hosts, namespace, union)) > 0:
		s.Reason = ReasonNeeded
	case slices.ContainsFunc(all, func(c caller) bool { return c.covered && g.lost(c, weight) > exception }):
		s.Reason = ReasonNarrower // the default suffices, but is far too much
	default:
		return g.mesh
	}
	g.out = append(g.out, s)
	return s
}

// widened adds the hosts that egress hosts do not admit.
func (g *generator) widened(hosts []string, namespace string, by set) []string {
	out := append(slices.Clone(hosts), names(missing(hosts, namespace, by))...)
	if len(missing(out, namespace, by)) > 0 {
		return []string{"*/*"} // they exclude it by name
	}
	return out
}

// callersOf returns the workloads of a namespace that no Sidecar of the user selects, and
// everything that they and deleted workloads need.
func (g *generator) callersOf(namespace string, workloads []Workload) (union set, all []caller) {
	union = set{}
	for w := range g.kept {
		if w.Namespace == namespace && (w.Name == "" || g.inv.workloads[w] == nil) {
			g.addAll(union, w)
		}
	}
	g.inv.routes(union, namespace)
	g.inv.aliases(union, g.view(namespace).hosts, namespace)
	for _, w := range workloads {
		c := caller{Workload: w, needs: g.needed(w), now: g.holds(g.inv.existing, w), covered: g.covered(w), selector: g.selector(w)}
		if c.now.selective() && !c.now.generated() {
			g.left(c, c.now)
			continue
		}
		for _, h := range g.view(namespace).hosts { // including what all have
			if _, needs := c.needs[h]; needs || admits(g.o.Always, namespace, h) {
				c.weight += g.acc.weigh(g.inv.services[h])
			}
		}
		if c.covered {
			maps.Copy(union, c.needs)
		}
		all = append(all, c)
	}
	return union, all
}

// left lists a workload whose Sidecar stays unchanged, with the calls that it omits.
func (g *generator) left(c caller, s Sidecar) {
	g.result.Open = append(g.result.Open, Open{Code: OpenOwn, Workload: c.Workload, Hosts: names(missing(s.Hosts, c.Namespace, c.needs)),
		Sidecar: s.String(), Fixed: s.fixed})
}

// Labels of pods by how far a selector can rely on them. Passing labels change with every rollout
// or are unreliable. Version labels change with a release, and do not select workloads that must
// keep their scope. Usual labels are tried first.
var (
	passingLabels = []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
		"apps.kubernetes.io/pod-index", "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
		"rollouts-pod-template-hash", "deployment", "batch.kubernetes.io/job-completion-index", "security.istio.io/tlsMode",
		"service.istio.io/canonical-name", "service.istio.io/canonical-revision", "istio.io/rev", "topology.istio.io/network"}
	versionLabels = []string{"version", "app.kubernetes.io/version", "helm.sh/chart", "chart"}
	usualLabels   = []string{"app", "app.kubernetes.io/name", "k8s-app", "app.kubernetes.io/instance"}
)

// selector finds labels that only this workload's pods have in the namespace: a single label if
// that suffices; nil if no sufficiently stable labels distinguish them.
func (g *generator) selector(w Workload) map[string]string {
	labels := maps.Clone(g.inv.workloads[w].labels)
	unreliable := passingLabels
	if !g.covered(w) {
		unreliable = append(slices.Clone(passingLabels), versionLabels...)
	}
	for _, name := range unreliable {
		delete(labels, name)
	}
	rank := func(name string) int {
		if i := slices.Index(usualLabels, name); i >= 0 {
			return i
		}
		return len(usualLabels) + b2i(slices.Contains(versionLabels, name))
	}
	names := slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
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

// alone reports whether labels select no other workload's pods.
func (g *generator) alone(w Workload, labels map[string]string) bool {
	return !slices.ContainsFunc(g.inv.within[w.Namespace], func(other Workload) bool {
		for key, value := range labels {
			if !g.inv.workloads[other].any[[2]string{key, value}] {
				return false
			}
		}
		return other != w
	})
}

// egress formats hosts as egress hosts: NAMESPACE/* if all of a namespace is needed, the own
// namespace as ".".
func (g *generator) egress(hosts set, namespace string) []string {
	number := map[string]int{}
	for h := range hosts {
		number[h.Namespace] += b2i(g.inv.known(h))
	}
	out := slices.Clone(g.o.Always)
	for _, h := range missing(g.o.Always, namespace, hosts) {
		in, name := h.Namespace, h.Name
		if n := number[in]; n > 1 && n == g.view(namespace).number[in] {
			name = "*"
		}
		if in == namespace {
			in = "."
		}
		out = append(out, in+"/"+name)
	}
	return tidy(out)
}

// tidy sorts egress hosts and removes duplicates; "." comes first. An empty list becomes ~/*.
func tidy(hosts []string) []string {
	if len(hosts) == 0 {
		return []string{"~/*"}
	}
	slices.SortFunc(hosts, func(a, b string) int {
		return cmp.Or(cmp.Compare(b2i(!strings.HasPrefix(a, "./")), b2i(!strings.HasPrefix(b, "./"))), cmp.Compare(a, b))
	})
	return slices.Compact(hosts)
}
