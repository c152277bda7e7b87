package generate

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// Prediction is the saving of the Sidecars, computed from what proxies hold now.
type Prediction struct {
	Proxies int `json:"proxies"`      // sidecars that the scopes govern
	Read    int `json:"proxies_read"` // 0: only numbers of clusters are known, no bytes
	// Now is the load with the existing Sidecars, After with the generated ones, and Exact with a
	// Sidecar for each workload that admits only what it needs.
	Now   Load `json:"now"`
	After Load `json:"after"`
	Exact Load `json:"exact"`
	// OfExact is the share of Exact's saving that After achieves, 0 to 1; 1 if there is nothing to
	// save.
	OfExact float64 `json:"of_exact_ratio"`
}

// Load is what all sidecars hold together.
type Load struct {
	Dump     int64 `json:"dump_bytes"` // as JSON in a config dump
	Clusters int64 `json:"clusters"`   // outbound, without subsets
	// Pushes is the number of proxies that istiod pushes to when a Service's endpoints change,
	// averaged over Services.
	Pushes float64 `json:"proxies_pushed_per_change"`
}

func (g *generator) predict() {
	p := &g.result.Saving
	p.Read, p.OfExact = g.acc.Proxies, 1
	// Many proxies of a namespace have the same scope.
	type scoped struct{ namespace, hosts string }
	now, after, exact := map[scoped]int{}, map[scoped]int{}, map[scoped]int{}
	all := g.after()
	for _, w := range g.callers {
		n := g.inv.workloads[w].proxied
		p.Proxies += n
		then, needs := g.holds(all, w).Hosts, g.needed(w)
		add := func(to map[scoped]int, hosts []string) { to[scoped{w.Namespace, strings.Join(hosts, "\n")}] += n }
		add(now, g.holds(g.inv.existing, w).Hosts)
		add(after, then)
		if g.covered(w) && len(missing(then, w.Namespace, needs)) == 0 { // otherwise a Sidecar of the user's may govern it
			then = tidy(names(needs.sorted()))
		}
		add(exact, then)
	}
	load := func(proxies map[scoped]int) (out Load) {
		for s, n := range proxies {
			n, hosts := int64(n), strings.Split(s.hosts, "\n")
			out.Dump += n * g.acc.base
			for _, h := range g.view(s.namespace).hosts {
				if service := g.inv.services[h]; admits(hosts, s.namespace, h) {
					out.Dump += n * g.acc.weigh(service)
					out.Clusters += n * int64(max(1, service.ports))
					out.Pushes += float64(n)
				}
			}
		}
		out.Pushes /= float64(max(1, len(g.inv.services)))
		return out
	}
	p.Now, p.After, p.Exact = load(now), load(after), load(exact)
	if saves := p.Now.Dump - p.Exact.Dump; saves > 0 {
		p.OfExact = float64(p.Now.Dump-p.After.Dump) / float64(saves)
	}
	if p.Read == 0 { // the weights are numbers of clusters
		p.Now.Dump, p.After.Dump, p.Exact.Dump = 0, 0, 0
	}
}

// Accounts holds the cost of each host to a proxy that holds it, in bytes as JSON in a config dump,
// from the proxies that were read. It is the lower median, since a server's proxy holds its own
// Service twice.
type Accounts struct {
	Proxies int
	hosts   map[Host]int64
	base    int64 // of a proxy that holds no host
	mean    int64 // for a host that no proxy holds
}

// A Scale weighs the hosts of an inventory by proxies' configuration, of which it keeps only sizes.
// Simulated sidecars count too. Gateways do not: they hold other things.
type Scale struct {
	inv     *Inventory
	proxies int
	hosts   map[Host]sizes
	base    sizes
}

// sizes counts proxies by the size that something has in them: most proxies share one.
type sizes map[int64]int

// NewScale returns an empty Scale.
func NewScale(inv *Inventory) *Scale { return &Scale{inv: inv, hosts: map[Host]sizes{}, base: sizes{}} }

// Add weighs what a proxy holds; the inventory must already contain the proxy.
func (s *Scale) Add(p scope.Proxy) {
	if p.Node != nil && p.Node.Type != "sidecar" || p.Kind != "" && p.Kind != "sidecar" || p.Incomplete {
		return
	}
	s.proxies++
	mine, rest := map[Host]int64{}, p.DumpBytes
	for _, o := range p.Owners {
		if h, found := s.inv.owned(o.Owner); found {
			mine[h] += o.DumpBytes
			rest -= o.DumpBytes
		}
	}
	for h, size := range mine {
		if s.hosts[h] == nil {
			s.hosts[h] = sizes{}
		}
		s.hosts[h][size]++
	}
	s.base[rest]++
}

// Accounts returns the result of the weighing.
func (s *Scale) Accounts() Accounts {
	a := Accounts{Proxies: s.proxies, hosts: map[Host]int64{}, base: s.base.median()}
	for h, of := range s.hosts {
		a.hosts[h] = of.median()
		a.mean += a.hosts[h]
	}
	a.mean /= int64(max(1, len(a.hosts)))
	return a
}

// median returns the lower median; 0 if there are no values.
func (s sizes) median() int64 {
	all, before := 0, 0
	for _, n := range s {
		all += n
	}
	for _, v := range slices.Sorted(maps.Keys(s)) {
		if before += s[v]; 2*before >= all {
			return v
		}
	}
	return 0
}

// owned returns the host that an owner's bytes come and go with.
func (inv *Inventory) owned(o scope.Owner) (h Host, found bool) {
	var hosts []string
	switch o.Kind {
	case "Service":
		return Host{o.Namespace, serviceHost(o.Name, o.Namespace, inv.Domain)}, true
	case "ServiceEntry":
		return Host{o.Namespace, o.Name}, true
	case "DestinationRule":
		hosts = []string{inv.rules[o]}
	case "VirtualService":
		if i := slices.IndexFunc(inv.virtual, func(v virtualService) bool { return v.owner == o }); i >= 0 {
			hosts = inv.virtual[i].hosts
		}
	}
	for _, host := range hosts {
		for _, h := range inv.byName[host] {
			return h, true
		}
	}
	return Host{}, false
}

// weigh returns the cost of a host. If no proxy was read, it returns the number of ports, one
// cluster each, as bytes: only the proportions matter then.
func (a Accounts) weigh(s *service) int64 {
	if a.Proxies == 0 || len(a.hosts) == 0 {
		return int64(max(1, s.ports))
	}
	if size, known := a.hosts[s.Host]; known {
		return size
	}
	return a.mean
}
