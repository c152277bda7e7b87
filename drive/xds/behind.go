package xds

import (
	"cmp"
	"maps"
	"slices"
)

// Behind compares the workloads that sidecars hold with those of a ztunnel: istiod gives a
// workload the same name and version for both.
type Behind struct {
	Proxies   int `json:"proxies"`   // that subscribe to all workloads
	Behind    int `json:"behind"`    // of these, those that differ from a ztunnel
	Most      int `json:"most"`      // the most workloads that one lacks, has in another version, or has though they are gone
	Workloads int `json:"workloads"` // that a ztunnel holds
}

// behind compares with what most ztunnels hold. It is nil unless there are both, and
// where ztunnels hold only what they need.
func (f *Fleet) behind() *Behind {
	if f.spec.OnDemand {
		return nil
	}
	ztunnels, others := map[*table]int{}, map[*table]int{} // tables are few: one for all that hold the same
	for i := range f.proxies {
		p := &f.proxies[i]
		switch {
		case p.spec.behaviour() != BehaviourGood:
		case p.spec.nodeType() == NodeZtunnel:
			ztunnels[p.tables[wds].Load()]++
		case f.spec.discoversWorkloads(p.spec):
			others[p.tables[workloads].Load()]++
		}
	}
	if len(ztunnels) == 0 || len(others) == 0 {
		return nil
	}
	usual := slices.MaxFunc(slices.Collect(maps.Keys(ztunnels)), func(a, b *table) int {
		return cmp.Or(cmp.Compare(ztunnels[a], ztunnels[b]), cmp.Compare(a.sum, b.sum))
	})
	held := f.catalogue.workloadsIn(usual)
	out := &Behind{Workloads: len(held)}
	for t, n := range others {
		out.Proxies += n
		if differing := differ(held, f.catalogue.workloadsIn(t)); differing > 0 {
			out.Behind += n
			out.Most = max(out.Most, differing)
		}
	}
	return out
}

// workloadsIn returns the versions of the workloads in a table of either kind, by name.
func (c *catalogue) workloadsIn(t *table) map[string]string {
	c.mu.Lock()
	list := c.names[t.kind].list // names in use never change
	c.mu.Unlock()
	out := map[string]string{}
	for one := range t.all() {
		if t.kind == workloads || one.workload {
			out[list[one.name]] = one.version
		}
	}
	return out
}

// differ counts the names that only one has, or that have different versions.
func differ(a, b map[string]string) int {
	n := 0
	for name, version := range a {
		if other, ok := b[name]; !ok || other != version {
			n++
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			n++
		}
	}
	return n
}

// plus adds those of another fleet; either may be nil.
func (b *Behind) plus(other *Behind) *Behind {
	if b == nil || other == nil {
		return cmp.Or(b, other)
	}
	return &Behind{Proxies: b.Proxies + other.Proxies, Behind: b.Behind + other.Behind, Most: max(b.Most, other.Most), Workloads: max(b.Workloads, other.Workloads)}
}
