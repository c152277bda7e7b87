package generate

import (
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// Bytes is a size as JSON in a config dump and on the wire, which a dump does
// not tell.
type Bytes struct {
	Dump int64 `json:"dump_bytes"`
	Wire int64 `json:"wire_bytes,omitempty"`
}

func (b *Bytes) add(o Bytes) {
	b.Dump += o.Dump
	b.Wire += o.Wire
}

// Accounts are what each host costs a proxy that holds it, as the proxies that
// were read have it: the lower median, since a server's proxy holds its own
// Service twice.
type Accounts struct {
	Proxies int
	hosts   map[Host]Bytes
	base    Bytes // of a proxy that holds no host
	mean    Bytes // of a host that no proxy holds
}

// A Scale weighs the hosts of an inventory by proxies' configuration, of which it keeps
// the sizes alone. Simulated sidecars weigh too. Gateways are left out: they hold other
// things.
type Scale struct {
	inv     *Inventory
	proxies int
	hosts   map[Host]*sizes
	base    sizes
}

// NewScale has weighed nothing yet.
func NewScale(inv *Inventory) *Scale { return &Scale{inv: inv, hosts: map[Host]*sizes{}} }

// Add weighs what a proxy holds; the inventory must know of it.
func (s *Scale) Add(p scope.Proxy) {
	if p.Node != nil && p.Node.Type != "sidecar" || p.Kind != "" && p.Kind != "sidecar" || p.Incomplete {
		return
	}
	s.proxies++
	mine, rest := map[Host]Bytes{}, Bytes{p.DumpBytes, p.WireBytes}
	for _, o := range p.Owners {
		h, found := s.inv.owned(o.Owner)
		if !found {
			continue
		}
		size := mine[h]
		size.add(Bytes{o.DumpBytes, o.WireBytes})
		mine[h] = size
		rest.add(Bytes{-o.DumpBytes, -o.WireBytes})
	}
	for h, size := range mine {
		if s.hosts[h] == nil {
			s.hosts[h] = &sizes{}
		}
		s.hosts[h].add(size)
	}
	s.base.add(rest)
}

// Accounts are what was weighed.
func (s *Scale) Accounts() Accounts {
	a := Accounts{Proxies: s.proxies, hosts: map[Host]Bytes{}, base: s.base.median()}
	for h, of := range s.hosts {
		a.hosts[h] = of.median()
		a.mean.add(a.hosts[h])
	}
	if n := int64(len(a.hosts)); n > 0 {
		a.mean = Bytes{a.mean.Dump / n, a.mean.Wire / n}
	}
	return a
}

// sizes are how many proxies hold as much of something: most as much as others.
type sizes struct {
	dump, wire map[int64]int
}

func (s *sizes) add(b Bytes) {
	if s.dump == nil {
		s.dump, s.wire = map[int64]int{}, map[int64]int{}
	}
	s.dump[b.Dump]++
	s.wire[b.Wire]++
}

func (s *sizes) median() Bytes { return Bytes{lowerMedian(s.dump), lowerMedian(s.wire)} }

// lowerMedian is that of values, each as often as counted; 0 of none.
func lowerMedian(counted map[int64]int) int64 {
	all := 0
	for _, n := range counted {
		all += n
	}
	before := 0
	for _, v := range slices.Sorted(maps.Keys(counted)) {
		if before += counted[v]; 2*before >= all {
			return v
		}
	}
	return 0
}

// owned is the host that an owner's bytes come and go with.
func (inv *Inventory) owned(o scope.Owner) (Host, bool) {
	switch o.Kind {
	case "Service":
		return Host{o.Namespace, serviceHost(o.Name, o.Namespace, inv.Domain)}, true
	case "ServiceEntry":
		return Host{o.Namespace, o.Name}, true
	case "DestinationRule":
		if host, known := inv.rules[o]; known {
			for _, h := range inv.byName[host] {
				return h, true
			}
		}
	case "VirtualService":
		for _, v := range inv.virtual {
			if v.namespace != o.Namespace || v.name != o.Name {
				continue
			}
			for _, host := range v.hosts {
				for _, h := range inv.byName[host] {
					return h, true
				}
			}
		}
	}
	return Host{}, false
}

// weigh is what a host costs. Where no proxy was read, it is its ports, one
// cluster each, as bytes: only the proportions count then.
func (a Accounts) weigh(s *Service) Bytes {
	if a.Proxies == 0 || len(a.hosts) == 0 {
		return Bytes{Dump: int64(max(1, s.Ports))}
	}
	if size, known := a.hosts[s.Host]; known {
		return size
	}
	return a.mean
}
