package generate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// virtualService is the part of a VirtualService, or of a Gateway API route for a Service, that
// matters to scopes.
type virtualService struct {
	namespace, name string
	hosts, to       []string // full names
	exportTo        []string
	mesh            bool       // holds for sidecars, not at gateways alone
	delegates       []Workload // VirtualServices by namespace and name, whose routes are its own
	// gateway says that it is of the Gateway API: its host is let in as a Service's is.
	gateway bool
	entries []Workload // ServiceEntries whose hosts are its own
}

func (inv *Inventory) readVirtual(o object) error {
	var spec struct {
		Hosts    []string `json:"hosts"`
		Gateways []string `json:"gateways"`
		ExportTo []string `json:"exportTo"`
		HTTP     []struct {
			Delegate *struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"delegate"`
		} `json:"http"`
	}
	var tree any
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	if err := field(o.Spec, "spec", &tree); err != nil {
		return err
	}
	v := virtualService{namespace: o.Metadata.Namespace, name: o.Metadata.Name, exportTo: spec.ExportTo, mesh: len(spec.Gateways) == 0 || slices.Contains(spec.Gateways, "mesh")}
	for _, host := range spec.Hosts {
		v.hosts = append(v.hosts, inv.full(host, v.namespace))
	}
	to := map[string]bool{}
	destinations(tree, to)
	for _, host := range slices.Sorted(maps.Keys(to)) {
		v.to = append(v.to, inv.full(host, v.namespace))
	}
	for _, route := range spec.HTTP {
		if d := route.Delegate; d != nil {
			v.delegates = append(v.delegates, Workload{cmp.Or(d.Namespace, v.namespace), d.Name})
		}
	}
	inv.virtual = append(inv.virtual, v)
	return nil
}

// full expands a short name as istiod does, in the namespace of the object that has it.
func (inv *Inventory) full(host, namespace string) string {
	if !strings.ContainsAny(host, ".*") {
		return serviceHost(strings.ToLower(host), namespace, inv.Domain)
	}
	return host
}

// destinations finds the hosts that routes lead and mirror to.
func destinations(tree any, found map[string]bool) {
	switch v := tree.(type) {
	case []any:
		for _, x := range v {
			destinations(x, found)
		}
	case map[string]any:
		for key, x := range v {
			if to, is := x.(map[string]any); is && (key == "destination" || key == "mirror") {
				if host, is := to["host"].(string); is {
					found[host] = true
				}
			}
			destinations(x, found)
		}
	}
}

// readRoute reads a route of the Gateway API. Those that belong to a Service or a
// ServiceEntry hold for sidecars; istiod makes VirtualServices of them, in their own
// namespace (pilot/pkg/config/kube/gateway).
func (inv *Inventory) readRoute(o object) error {
	var spec struct {
		Parents []reference `json:"parentRefs"`
	}
	var tree any
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	if err := field(o.Spec, "spec", &tree); err != nil {
		return err
	}
	v := virtualService{namespace: o.Metadata.Namespace, name: o.Metadata.Name, gateway: true}
	for _, p := range spec.Parents {
		of := cmp.Or(p.Namespace, v.namespace)
		switch {
		case p.Kind == "Service" && p.Group == "":
			v.mesh, v.hosts = true, append(v.hosts, serviceHost(p.Name, of, inv.Domain))
		case p.Kind == "ServiceEntry":
			v.mesh, v.entries = true, append(v.entries, Workload{of, p.Name})
		}
	}
	to := map[string]bool{}
	inv.backends(tree, v.namespace, to)
	v.to = slices.Sorted(maps.Keys(to))
	inv.virtual = append(inv.virtual, v)
	return nil
}

// reference names an object as the Gateway API does.
type reference struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// backends finds the hosts that rules of the Gateway API lead and mirror to.
func (inv *Inventory) backends(tree any, namespace string, found map[string]bool) {
	one := func(x any) {
		to, is := x.(map[string]any)
		name, named := to["name"].(string)
		if !is || !named {
			return
		}
		kind, _ := to["kind"].(string)
		of, _ := to["namespace"].(string)
		switch cmp.Or(kind, "Service") {
		case "Service":
			found[serviceHost(name, cmp.Or(of, namespace), inv.Domain)] = true
		case "Hostname":
			found[name] = true
		}
	}
	switch v := tree.(type) {
	case []any:
		for _, x := range v {
			inv.backends(x, namespace, found)
		}
	case map[string]any:
		for key, x := range v {
			if key == "backendRef" {
				one(x)
			}
			if all, is := x.([]any); is && key == "backendRefs" {
				for _, x := range all {
					one(x)
				}
			}
			inv.backends(x, namespace, found)
		}
	}
}

// link adds the destinations of delegates to the VirtualServices that name them, and the hosts of
// ServiceEntries to their routes.
func (inv *Inventory) link() {
	of := map[Workload]int{}
	for i, v := range inv.virtual {
		if !v.gateway {
			of[Workload{v.namespace, v.name}] = i
		}
	}
	for i := range inv.virtual {
		v := &inv.virtual[i]
		for _, d := range v.delegates { // Istio allows no delegates of delegates
			if j, known := of[d]; known {
				v.to = append(v.to, inv.virtual[j].to...)
			}
		}
		slices.Sort(v.to)
		v.to = slices.Compact(v.to)
		for _, e := range v.entries {
			for _, h := range inv.hosts() {
				if inv.services[h].Object == "ServiceEntry "+e.String() {
					v.hosts = append(v.hosts, h.Name)
				}
			}
		}
		slices.Sort(v.hosts)
		v.hosts = slices.Compact(v.hosts)
	}
}

// overlap reports whether two hosts, which may be wildcards, have names in common
// (pkg/config/host, Name.Matches).
func overlap(a, b string) bool { return strings.EqualFold(a, b) || subset(a, b) || subset(b, a) }

// has returns the hosts of a VirtualService that overlap a set.
func (v virtualService) has(hosts set) (own []Host) {
	for _, mine := range v.hosts {
		for h := range hosts {
			switch {
			case !overlap(mine, h.Name):
			case v.gateway || strings.EqualFold(mine, h.Name) || subset(mine, h.Name):
				own = append(own, Host{v.namespace, mine})
			default: // mine is a wildcard: no more than what is asked for
				own = append(own, Host{v.namespace, h.Name})
			}
		}
	}
	return own
}

// leads reports whether a VirtualService leads to one of the hosts.
func (v virtualService) leads(hosts set) bool {
	for h := range hosts {
		if slices.ContainsFunc(v.to, func(to string) bool { return overlap(to, h.Name) }) {
			return true
		}
	}
	return false
}

// routes adds the VirtualServices that apply to what is called, and their destinations. Counters
// name where a request went; the app may have asked for any host of a VirtualService that leads
// there. Routes are not chained, so two steps find all.
func (g *generator) routes(hosts set, caller string) {
	asked := set{}
	asked.merge(hosts)
	var visible []virtualService
	for _, v := range g.inv.virtual {
		if !v.mesh || !visibleTo(v.exported(g.inv), v.namespace, caller) {
			continue
		}
		visible = append(visible, v)
		if !v.leads(hosts) {
			continue
		}
		for _, host := range v.hosts {
			asked.add(Host{"*", host})
			if to := g.inv.resolve(host, "", caller); g.inv.known(to[0]) {
				asked.add(to...)
				hosts.add(to...)
			}
		}
	}
	for _, v := range visible {
		own := v.has(asked)
		if len(own) == 0 {
			continue
		}
		hosts.add(own...)
		for _, to := range v.to { // istiod lets them in besides, of one namespace
			if all := g.inv.resolve(to, "", caller); g.inv.known(all[0]) {
				hosts.add(all...)
			}
		}
	}
}

func (v virtualService) exported(inv *Inventory) []string {
	if len(v.exportTo) == 0 {
		return inv.routeExports
	}
	return v.exportTo
}
