package generate

import (
	"cmp"
	"slices"
	"strings"
)

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
