package generate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// virtualService is the part of a VirtualService, or of a Gateway API route for a Service, that matters to
// scopes.
type virtualService struct {
	owner     scope.Owner
	hosts, to []string // full names
	exportTo  []string
	mesh      bool          // holds for sidecars, not at gateways alone
	http      bool          // decides by what is in requests
	delegates []scope.Owner // VirtualServices whose routes are its own
	entries   []scope.Owner // ServiceEntries whose hosts are its own
	// gateway says that it is of the Gateway API: its host is let in as a Service's is.
	gateway bool
}

// walk calls f with each member of each object in an object's spec, which has been decoded before.
func (o object) walk(f func(key string, value any)) {
	var spec any
	_ = json.Unmarshal(o.Spec, &spec)
	walk(spec, f)
}

func walk(tree any, f func(key string, value any)) {
	switch v := tree.(type) {
	case []any:
		for _, x := range v {
			walk(x, f)
		}
	case map[string]any:
		for key, x := range v {
			f(key, x)
			walk(x, f)
		}
	}
}

type virtualSpec struct {
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

func (inv *Inventory) readVirtual(o object, spec virtualSpec) {
	v := virtualService{owner: o.owner(), exportTo: spec.ExportTo, http: len(spec.HTTP) > 0,
		mesh: len(spec.Gateways) == 0 || slices.Contains(spec.Gateways, "mesh")}
	for _, host := range spec.Hosts {
		v.hosts = append(v.hosts, inv.full(host, o.Metadata.Namespace))
	}
	o.walk(func(key string, value any) { // destinations of routes and mirrors
		to, _ := value.(map[string]any)
		if host, is := to["host"].(string); is && (key == "destination" || key == "mirror") {
			v.to = append(v.to, inv.full(host, o.Metadata.Namespace))
		}
	})
	for _, route := range spec.HTTP {
		if d := route.Delegate; d != nil {
			v.delegates = append(v.delegates, scope.Owner{Kind: o.Kind, Namespace: cmp.Or(d.Namespace, o.Metadata.Namespace), Name: d.Name})
		}
	}
	inv.virtual = append(inv.virtual, v)
}

type routeSpec struct {
	Parents []struct {
		Group     string `json:"group"`
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"parentRefs"`
}

// readRoute reads a route of the Gateway API. Routes that belong to a Service or a ServiceEntry
// apply to sidecars; istiod turns them into VirtualServices in their own namespace
// (pilot/pkg/config/kube/gateway).
func (inv *Inventory) readRoute(o object, spec routeSpec) {
	v := virtualService{owner: o.owner(), gateway: true, http: o.Kind == "HTTPRoute" || o.Kind == "GRPCRoute"}
	for _, p := range spec.Parents {
		of := cmp.Or(p.Namespace, o.Metadata.Namespace)
		switch {
		case p.Kind == "Service" && p.Group == "":
			v.mesh, v.hosts = true, append(v.hosts, serviceHost(p.Name, of, inv.Domain))
		case p.Kind == "ServiceEntry":
			v.mesh, v.entries = true, append(v.entries, scope.Owner{Kind: p.Kind, Namespace: of, Name: p.Name})
		}
	}
	o.walk(func(key string, value any) { // destinations of rules and mirrors
		all, _ := value.([]any)
		switch key {
		case "backendRef":
			all = []any{value}
		case "backendRefs":
		default:
			return
		}
		for _, x := range all {
			to, _ := x.(map[string]any)
			name, _ := to["name"].(string)
			kind, _ := to["kind"].(string)
			of, _ := to["namespace"].(string)
			switch {
			case name == "":
			case cmp.Or(kind, "Service") == "Service":
				v.to = append(v.to, serviceHost(name, cmp.Or(of, o.Metadata.Namespace), inv.Domain))
			case kind == "Hostname":
				v.to = append(v.to, name)
			}
		}
	})
	inv.virtual = append(inv.virtual, v)
}

// link adds the destinations of delegates to the VirtualServices that name them, and the hosts of
// ServiceEntries to their routes.
func (inv *Inventory) link() {
	of := map[scope.Owner]int{}
	for i, v := range inv.virtual {
		of[v.owner] = i
	}
	for i := range inv.virtual {
		v := &inv.virtual[i]
		for _, d := range v.delegates { // Istio allows no delegates of delegates
			if j, known := of[d]; known {
				v.to = append(v.to, inv.virtual[j].to...)
			}
		}
		for h, s := range inv.services {
			if slices.Contains(v.entries, s.object) {
				v.hosts = append(v.hosts, h.Name)
			}
		}
		for _, list := range []*[]string{&v.to, &v.hosts} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
	}
}

// overlap reports whether two hosts, which may be wildcards, have names in common (pkg/config/host,
// Name.Matches).
func overlap(a, b string) bool { return strings.EqualFold(a, b) || subset(a, b) || subset(b, a) }

// subset reports whether all names of a host are within another, which may be a wildcard
// (pkg/config/host, Name.SubsetOf).
func subset(host, of string) bool {
	if host == of || of == "*" {
		return true
	}
	suffix, wild := strings.CutPrefix(of, "*")
	return wild && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

// has returns the hosts of a VirtualService that overlap a set.
func (v virtualService) has(hosts set) (own []Host) {
	for _, mine := range v.hosts {
		for h := range hosts {
			switch {
			case !overlap(mine, h.Name):
			case v.gateway || strings.EqualFold(mine, h.Name) || subset(mine, h.Name):
				own = append(own, Host{v.owner.Namespace, mine})
			default: // a wildcard: keep only what is requested
				own = append(own, Host{v.owner.Namespace, h.Name})
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

// routes adds the VirtualServices that apply to called hosts, and their destinations. Counters name
// where a request went; the app may have requested any host of a VirtualService that leads there.
// Routes are not chained, so two steps find all.
func (inv *Inventory) routes(hosts set, caller string) {
	asked := maps.Clone(hosts)
	addKnown := func(to set, host string) {
		if all := inv.resolve(host, "", caller); inv.known(all[0]) {
			to.add(all...)
		}
	}
	var visible []virtualService
	for _, v := range inv.virtual {
		if !v.mesh || !visibleTo(v.exportTo, inv.routeExports, v.owner.Namespace, caller) {
			continue
		}
		visible = append(visible, v)
		if !v.leads(hosts) {
			continue
		}
		for _, host := range v.hosts {
			asked.add(Host{"*", host})
			addKnown(asked, host)
			addKnown(hosts, host)
		}
	}
	for _, v := range visible {
		own := v.has(asked)
		hosts.add(own...)
		for _, to := range v.to { // istiod admits them in addition, from one namespace
			if len(own) > 0 {
				addKnown(hosts, to)
			}
		}
	}
}

// aliases adds the visible Services of type ExternalName that stand for hosts in the set. istiod
// looks for them in the namespace of the target (matchingAliasService), whatever their own.
func (inv *Inventory) aliases(hosts set, visible []Host, caller string) {
	for _, h := range visible {
		to := inv.services[h].alias
		for range 10 { // one may stand for another, or for itself
			if to == "" {
				break
			}
			next := ""
			for _, target := range inv.resolve(to, "", caller) {
				if s := inv.services[target]; s != nil && s.external {
					next = s.alias
				} else if _, in := hosts[target]; in {
					hosts.add(Host{target.Namespace, h.Name})
				}
			}
			to = next
		}
	}
}
