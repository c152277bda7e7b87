package generate

import (
	"slices"

	"github.com/meshtrial/meshtrial/scope"
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

// NewAccounts weighs the hosts of an inventory by proxies' configuration.
// Simulated sidecars weigh too. Gateways are left out: they hold other things.
func NewAccounts(proxies []scope.Proxy, inv *Inventory) Accounts {
	a := Accounts{hosts: map[Host]Bytes{}}
	sizes, base := map[Host][]Bytes{}, []Bytes{}
	for _, p := range proxies {
		if p.Node != nil && p.Node.Type != "sidecar" || p.Kind != "" && p.Kind != "sidecar" || p.Incomplete {
			continue
		}
		a.Proxies++
		mine, rest := map[Host]Bytes{}, Bytes{p.DumpBytes, p.WireBytes}
		for _, o := range p.Owners {
			h, found := inv.owned(o.Owner)
			if !found {
				continue
			}
			size := mine[h]
			size.add(Bytes{o.DumpBytes, o.WireBytes})
			mine[h] = size
			rest.add(Bytes{-o.DumpBytes, -o.WireBytes})
		}
		for h, size := range mine {
			sizes[h] = append(sizes[h], size)
		}
		base = append(base, rest)
	}
	for h, of := range sizes {
		a.hosts[h] = median(of)
		a.mean.add(a.hosts[h])
	}
	if n := int64(len(a.hosts)); n > 0 {
		a.mean = Bytes{a.mean.Dump / n, a.mean.Wire / n}
	}
	a.base = median(base)
	return a
}

func median(sizes []Bytes) Bytes {
	if len(sizes) == 0 {
		return Bytes{}
	}
	var dump, wire []int64
	for _, s := range sizes {
		dump, wire = append(dump, s.Dump), append(wire, s.Wire)
	}
	slices.Sort(dump)
	slices.Sort(wire)
	return Bytes{dump[(len(dump)-1)/2], wire[(len(wire)-1)/2]}
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
