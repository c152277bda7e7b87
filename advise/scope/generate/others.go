package generate

import (
	"maps"
	"slices"
	"strings"
)

// Other is another way to send proxies less, beside Sidecars.
type Other struct {
	Kind      string   `json:"kind"` // exportTo or discoverySelectors
	Namespace string   `json:"namespace,omitempty"`
	Value     string   `json:"value"`
	Hosts     []string `json:"hosts,omitempty"`
	Services  int      `json:"services,omitempty"` // of the namespaces that discoverySelectors leave out
	Unseen    int      `json:"unseen"`             // workloads and gateways that were not seen, and may call them
}

// maxExports are the namespaces up to which exportTo is worth writing.
const maxExports = 3

// others finds Services that few namespaces call, for exportTo, and namespaces
// that the mesh has no use for, for discoverySelectors. Both hold for gateways
// too, which Sidecars do not.
func (g *generator) others(callers []Workload) {
	unseen := 0
	for _, w := range callers {
		unseen += b2i(!g.isCovered(w))
	}
	for w, p := range g.inv.workloads {
		if s := g.obs.seen[w]; p.Gateway && (s == nil || len(g.kept[w]) == 0) {
			unseen++
		}
	}
	consumers := g.consumers()
	g.exports(consumers, unseen)
	g.discovery(consumers, unseen)
}

// consumers are the namespaces that call each host, with those of gateways
// where a gateway's route leads to it.
func (g *generator) consumers() map[Host]map[string]bool {
	out := map[Host]map[string]bool{}
	add := func(h Host, namespace string) {
		if out[h] == nil {
			out[h] = map[string]bool{}
		}
		out[h][namespace] = true
	}
	for w := range g.kept {
		needs := g.kept[w]
		if p := g.inv.workloads[w]; p != nil && !p.Gateway {
			needs = g.needed(w)
		}
		for h := range needs {
			add(h, w.Namespace)
		}
	}
	for _, v := range g.inv.virtual {
		for _, to := range v.to {
			for w, p := range g.inv.workloads {
				if p.Gateway {
					add(g.inv.resolve(to, "", v.namespace)[0], w.Namespace)
				}
			}
		}
	}
	return out
}

func (g *generator) exports(consumers map[Host]map[string]bool, unseen int) {
	groups := map[string][]string{} // by namespace and value
	for _, h := range g.inv.hosts() {
		s := g.inv.services[h]
		if len(s.ExportTo) > 0 || len(consumers[h]) > maxExports || len(consumers[h]) == 0 || g.meshNeeds(h) {
			continue
		}
		to := consumers[h]
		names := slices.Sorted(maps.Keys(to))
		if !to[h.Namespace] {
			names = append(names, h.Namespace)
		}
		for i, name := range names {
			if name == h.Namespace {
				names[i] = "."
			}
		}
		slices.Sort(names)
		key := h.Namespace + "\x00" + strings.Join(names, ",")
		groups[key] = append(groups[key], s.Object)
	}
	for _, joined := range slices.Sorted(maps.Keys(groups)) {
		namespace, value, _ := strings.Cut(joined, "\x00")
		g.result.Others = append(g.result.Others, Other{Kind: "exportTo", Namespace: namespace, Value: value, Hosts: slices.Compact(groups[joined]), Unseen: unseen})
	}
}

// meshNeeds reports whether the mesh's configuration names a host.
func (g *generator) meshNeeds(h Host) bool {
	return admits(g.o.Always, "", h) || slices.ContainsFunc(g.inv.needs, func(n need) bool { return slices.Contains(g.needHosts(n, n.namespace), h) })
}

func (g *generator) discovery(consumers map[Host]map[string]bool, unseen int) {
	if !g.inv.Has("Namespace") || !g.inv.Has("Pod") || g.inv.selectors {
		return
	}
	used := map[string]bool{g.inv.Root: true, "*": true}
	for w, p := range g.inv.workloads {
		used[w.Namespace] = used[w.Namespace] || p.Proxied > 0
	}
	number := map[string]int{}
	for h := range g.inv.services {
		number[h.Namespace]++
		used[h.Namespace] = used[h.Namespace] || len(consumers[h]) > 0 || g.meshNeeds(h)
	}
	for _, v := range g.inv.virtual {
		used[v.namespace] = true
	}
	var idle []string
	services := 0
	for _, namespace := range slices.Sorted(maps.Keys(g.inv.namespaces)) {
		if !used[namespace] {
			idle = append(idle, namespace)
			services += number[namespace]
		}
	}
	if services == 0 {
		return
	}
	g.result.Others = append(g.result.Others, Other{Kind: "discoverySelectors", Value: strings.Join(idle, ", "), Services: services, Unseen: unseen})
}
