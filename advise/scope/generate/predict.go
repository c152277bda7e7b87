package generate

import (
	"maps"
	"slices"
	"strings"
)

// Prediction is what the Sidecars save, worked out from what proxies hold now.
type Prediction struct {
	Proxies int `json:"proxies"`      // sidecars that scopes hold for
	Read    int `json:"proxies_read"` // 0: only numbers of clusters are known, no bytes
	// Services are the hosts of the mesh.
	Services int `json:"services"`
	// Now is with the Sidecars that exist, After with the generated ones,
	// Exact with a Sidecar for each workload that lets in what it needs alone.
	Now   Load `json:"now"`
	After Load `json:"after"`
	Exact Load `json:"exact"`
	// OfExact is the share of what Exact saves that After saves, 0 to 1; 1
	// where there is nothing to save.
	OfExact    float64           `json:"of_exact_ratio"`
	Namespaces []NamespaceSaving `json:"namespaces"`
	// Resources are memory and CPU, by [Prediction.Costs].
	Resources []Cost `json:"resources"`
}

// Load is what all sidecars hold together.
type Load struct {
	Bytes
	Clusters int64 `json:"clusters"` // outbound, without subsets
	// Pushes are the proxies that istiod pushes to when a Service's endpoints
	// change, in the mean over Services.
	Pushes float64 `json:"proxies_pushed_per_change"`
}

// NamespaceSaving is the part of one namespace's sidecars.
type NamespaceSaving struct {
	Namespace string `json:"namespace"`
	Proxies   int    `json:"proxies"`
	Now       Bytes  `json:"now"`
	After     Bytes  `json:"after"`
}

// scopes are how many proxies of a namespace have the same scope.
type scopes map[string]map[string]int // namespace, hosts

func (s scopes) add(namespace string, hosts []string, proxies int) {
	if s[namespace] == nil {
		s[namespace] = map[string]int{}
	}
	s[namespace][strings.Join(hosts, "\n")] += proxies
}

func (g *generator) predict(callers []Workload) {
	p := &g.result.Saving
	p.Read, p.Services, p.Resources = g.acc.Proxies, len(g.inv.services), []Cost{}
	now, after, exact := scopes{}, scopes{}, scopes{}
	then := g.after()
	for _, w := range callers {
		pods := g.inv.workloads[w]
		p.Proxies += pods.Proxied
		held, holds := effective(g.inv.existing, g.inv.Root, w.Namespace, pods.Labels), effective(then, g.inv.Root, w.Namespace, pods.Labels)
		now.add(w.Namespace, held.Hosts, pods.Proxied)
		after.add(w.Namespace, holds.Hosts, pods.Proxied)
		needs := g.needed(w).sorted()
		if !g.isCovered(w) || slices.ContainsFunc(needs, func(h Host) bool { return !admits(holds.Hosts, w.Namespace, h) }) { // or a Sidecar of the user's own
			exact.add(w.Namespace, holds.Hosts, pods.Proxied)
			continue
		}
		var hosts []string
		for _, h := range needs {
			hosts = append(hosts, h.String())
		}
		exact.add(w.Namespace, tidy(hosts), pods.Proxied)
	}
	byNow, byAfter := map[string]Bytes{}, map[string]Bytes{}
	p.Now, p.After, p.Exact = g.load(now, byNow), g.load(after, byAfter), g.load(exact, nil)
	p.OfExact = 1
	if saves := p.Now.weight(g.acc) - p.Exact.weight(g.acc); saves > 0 {
		p.OfExact = float64(p.Now.weight(g.acc)-p.After.weight(g.acc)) / float64(saves)
	}
	p.Namespaces = []NamespaceSaving{}
	for _, namespace := range slices.Sorted(maps.Keys(now)) {
		proxies := 0
		for _, n := range now[namespace] {
			proxies += n
		}
		p.Namespaces = append(p.Namespaces, NamespaceSaving{namespace, proxies, byNow[namespace], byAfter[namespace]})
	}
}

// weight is what loads are compared by.
func (l Load) weight(a Accounts) int64 {
	if a.Proxies > 0 {
		return l.Dump
	}
	return l.Clusters
}

// load adds up what proxies hold.
func (g *generator) load(s scopes, by map[string]Bytes) Load {
	var out Load
	holders := int64(0)
	for _, namespace := range slices.Sorted(maps.Keys(s)) {
		v, sum := g.view(namespace), Bytes{}
		for _, joined := range slices.Sorted(maps.Keys(s[namespace])) {
			hosts, n := strings.Split(joined, "\n"), int64(s[namespace][joined])
			one := g.acc.base
			for _, h := range v.hosts {
				if !admits(hosts, namespace, h) {
					continue
				}
				service := g.inv.services[h]
				one.add(g.acc.weigh(service))
				out.Clusters += n * int64(max(1, service.Ports))
				holders += n
			}
			sum.add(Bytes{one.Dump * n, one.Wire * n})
		}
		if g.acc.Proxies == 0 {
			sum = Bytes{}
		}
		out.add(sum)
		if by != nil {
			by[namespace] = sum
		}
	}
	if n := len(g.inv.services); n > 0 {
		out.Pushes = float64(holders) / float64(n)
	}
	return out
}
