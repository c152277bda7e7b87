package generate

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// L7Kinds are the kinds of objects that decide by what is in requests, or balance them one by one. In an ambient
// mesh they take a waypoint: ztunnels pass connections on (istio.io, "Migrate policies").
var L7Kinds = []string{"VirtualService", "HTTPRoute", "GRPCRoute", "DestinationRule", "AuthorizationPolicy", "RequestAuthentication", "WasmPlugin", "EnvoyFilter"}

// policy is an object that decides by what is in the requests to some pods.
type policy struct {
	owner    scope.Owner
	selector map[string]string // of pods; nil for all of its namespace
	services []string          // in place of pods
}

// attachment is the part of a spec that says which pods an object is for.
type attachment struct {
	Selector struct {
		Labels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Target  *target  `json:"targetRef"`
	Targets []target `json:"targetRefs"`
}

type target struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// attach keeps a policy. One that is for gateways alone concerns no requests between pods.
func (inv *Inventory) attach(o object, a attachment) {
	if a.Target != nil {
		a.Targets = append(a.Targets, *a.Target)
	}
	p := policy{owner: o.owner(), selector: a.Selector.Labels}
	for _, t := range a.Targets {
		if t.Kind == "Service" {
			p.services = append(p.services, t.Name)
		}
	}
	if len(a.Targets) == 0 || len(p.services) > 0 {
		inv.policies = append(inv.policies, p)
	}
}

type policySpec struct {
	attachment
	Action string `json:"action"`
	Rules  []struct {
		From []struct {
			Source map[string]any `json:"source"`
		} `json:"from"`
		To []struct {
			Operation map[string]any `json:"operation"`
		} `json:"to"`
		When []struct {
			Key string `json:"key"`
		} `json:"when"`
	} `json:"rules"`
}

// readPolicy reads an AuthorizationPolicy: ztunnels enforce those that decide by connections alone.
func (inv *Inventory) readPolicy(o object, spec policySpec) {
	l7 := spec.Action == "CUSTOM" || spec.Action == "AUDIT"
	has := func(in map[string]any, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return in[name] != nil || in["not"+strings.ToUpper(name[:1])+name[1:]] != nil })
	}
	for _, rule := range spec.Rules {
		for _, from := range rule.From {
			l7 = l7 || has(from.Source, "requestPrincipals", "remoteIpBlocks")
		}
		for _, to := range rule.To {
			l7 = l7 || has(to.Operation, "hosts", "methods", "paths")
		}
		for _, when := range rule.When {
			l7 = l7 || strings.HasPrefix(when.Key, "request.")
		}
	}
	if l7 {
		inv.attach(o, spec.attachment)
	}
}

// readExtension reads a WasmPlugin or a TrafficExtension.
func (inv *Inventory) readExtension(o object, spec attachment) {
	inv.attach(o, spec)
	inv.readClusterNames(o)
}

// Filter is an EnvoyFilter that works on what enters sidecars, and on nothing else of its mesh.
type Filter struct {
	Owner    scope.Owner
	Priority int64
	Patches  json.RawMessage
}

const (
	maxFilter   = 64 << 10 // bytes of one that is kept
	mostFilters = 100
)

// elsewhere matches a filter that asks for a service, which another mesh does not have.
var elsewhere = regexp.MustCompile(`outbound\||"(cluster|cluster_name|clusterName)"\s*:`)

// readFilter reads an EnvoyFilter, which waypoints do not take.
func (inv *Inventory) readFilter(o object) error {
	var spec struct {
		Selector struct {
			Labels map[string]string `json:"labels"`
		} `json:"workloadSelector"`
		Priority int64           `json:"priority"`
		Patches  json.RawMessage `json:"configPatches"`
	}
	var patches []struct {
		Match struct {
			Context string `json:"context"`
		} `json:"match"`
	}
	if err := cmp.Or(field(o.Spec, "spec", &spec), field(spec.Patches, "spec.configPatches", &patches)); err != nil {
		return err
	}
	sidecars, inbound := false, false
	for _, p := range patches {
		sidecars = sidecars || p.Match.Context != "GATEWAY"
		inbound = inbound || p.Match.Context == "" || p.Match.Context == "ANY" || p.Match.Context == "SIDECAR_INBOUND"
	}
	if sidecars {
		inv.policies = append(inv.policies, policy{owner: o.owner(), selector: spec.Selector.Labels})
	}
	known := slices.ContainsFunc(inv.filters, func(f Filter) bool { return f.Owner == o.owner() })
	if inbound && !known && len(inv.filters) < mostFilters && len(spec.Patches) <= maxFilter && !elsewhere.Match(spec.Patches) {
		inv.filters = append(inv.filters, Filter{o.owner(), spec.Priority, spec.Patches})
	}
	inv.readClusterNames(o)
	return nil
}

// Filters returns the EnvoyFilters that another mesh could run, by name.
func (inv *Inventory) Filters() []Filter {
	return slices.SortedFunc(slices.Values(inv.filters), func(a, b Filter) int {
		return cmp.Or(cmp.Compare(a.Owner.Namespace, b.Owner.Namespace), cmp.Compare(a.Owner.Name, b.Owner.Name))
	})
}

// balancing is a DestinationRule's traffic policy, of which sidecars and waypoints alone know.
type balancing struct {
	Outliers any `json:"outlierDetection"`
	Balancer any `json:"loadBalancer"`
	Retries  any `json:"retryBudget"`
	Pool     struct {
		HTTP any `json:"http"`
	} `json:"connectionPool"`
}

func (b balancing) set() bool {
	return b.Outliers != nil || b.Balancer != nil || b.Retries != nil || b.Pool.HTTP != nil
}

// rulePolicy is where a DestinationRule has traffic policies.
type rulePolicy struct {
	balancing
	Ports []balancing `json:"portLevelSettings"`
}

func (p rulePolicy) set() bool {
	return p.balancing.set() || slices.ContainsFunc(p.Ports, balancing.set)
}

// L7 returns what decides by what is in the requests to a host, or balances them one by one: routes, rules, and
// policies of the pods behind it.
func (inv *Inventory) L7(host string) (out []scope.Owner) {
	host = strings.ToLower(host)
	add := func(o scope.Owner) {
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	for _, v := range inv.virtual {
		if v.mesh && v.http && slices.Contains(v.hosts, host) {
			add(v.owner)
		}
	}
	for _, o := range inv.balanced[host] {
		add(o)
	}
	for _, h := range inv.byName[host] {
		s := inv.services[h]
		for _, p := range inv.policies {
			if inv.holds(p, s) {
				add(p.owner)
			}
		}
	}
	return out
}

// holds reports whether a policy concerns pods of a service.
func (inv *Inventory) holds(p policy, s *service) bool {
	name, _, _ := strings.Cut(s.Name, ".")
	switch {
	case p.owner.Namespace != s.Namespace && p.owner.Namespace != inv.Root || s.external:
		return false
	case len(p.services) > 0:
		return p.owner.Namespace == s.Namespace && slices.Contains(p.services, name)
	case len(p.selector) == 0:
		return s.object.Kind == "Service"
	}
	return slices.ContainsFunc(inv.within[s.Namespace], func(w Workload) bool {
		labels := inv.workloads[w].labels
		return len(s.selector) > 0 && contains(labels, s.selector) && contains(labels, p.selector)
	})
}

// Hosts returns the names of the Services of a namespace.
func (inv *Inventory) Hosts(namespace string) (out []string) {
	for h, s := range inv.services {
		if h.Namespace == namespace && s.object.Kind == "Service" {
			out = append(out, h.Name)
		}
	}
	slices.Sort(out)
	return out
}
