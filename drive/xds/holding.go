package xds

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Holding describes the configuration that proxies of one node type in one namespace hold.
// istiod gives them nearly the same, so the one of median size represents all.
type Holding struct {
	Proxy     int    // its index in the fleet
	Name      string // NAME.NAMESPACE
	Type      string
	Namespace string
	Proxies   int   // of this type and namespace
	Bytes     int64 // of bodies
}

// Bytes returns the number of bytes of bodies that each proxy holds.
func (f *Fleet) Bytes() []int64 {
	out := make([]int64, len(f.proxies))
	for i := range f.proxies {
		out[i] = f.proxies[i].holds()
	}
	return out
}

// Holdings lists the kinds of the fleet's proxies.
func (f *Fleet) Holdings() []Holding { return Holdings(f.spec.Proxies, f.Bytes()) }

// Holdings lists the kinds of proxies, given the bytes that each holds, the most frequent
// kind first.
func Holdings(proxies []Proxy, held []int64) []Holding {
	type key struct{ node, namespace string }
	type member struct {
		proxy int
		bytes int64
	}
	kindsOf := map[key][]member{}
	for i := range proxies {
		k := key{proxies[i].nodeType(), proxies[i].Namespace}
		kindsOf[k] = append(kindsOf[k], member{i, held[i]})
	}
	out := make([]Holding, 0, len(kindsOf))
	for k, all := range kindsOf {
		slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(a.bytes, b.bytes) })
		middle := all[len(all)/2]
		out = append(out, Holding{
			Proxy: middle.proxy, Name: proxies[middle.proxy].podName(), Type: k.node, Namespace: k.namespace,
			Proxies: len(all), Bytes: middle.bytes,
		})
	}
	slices.SortFunc(out, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Proxies, a.Proxies), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// podName returns the name of the proxy's pod, as in its node's name.
func (p *Proxy) podName() string { return p.Name + "." + p.Namespace }

// holds returns the number of bytes of bodies that the proxy holds.
func (p *proxy) holds() int64 {
	sum := int64(0)
	for k := range kinds {
		sum += p.tables[k].Load().bytes
	}
	return sum
}

// WriteConfiguration writes what a proxy, by its index, currently holds, in the format of
// package confile. It fills in empty fields of h.
func (f *Fleet) WriteConfiguration(w io.Writer, index int, h confile.Header) error {
	if index < 0 || index >= len(f.proxies) {
		return errs.Usage("xds: proxy %d of %d", index, len(f.proxies))
	}
	p := &f.proxies[index]
	h.Proxy, h.Type = cmp.Or(h.Proxy, p.spec.podName()), cmp.Or(h.Type, p.spec.nodeType())
	var tables [kinds]*table
	for k := range kinds {
		tables[k] = p.tables[k].Load() // tables never change
		for one := range tables[k].all() {
			if one.kept() == nil && one.size > 0 {
				h.Lost++
			}
		}
	}
	out, err := confile.NewWriter(w, h)
	if err != nil {
		return err
	}
	for k := range kinds {
		for one := range tables[k].all() {
			body := one.kept()
			if body == nil && one.size > 0 {
				continue
			}
			if err := out.Write(confile.Resource{TypeURL: kindURLs[k], Name: f.catalogue.name(k, one.name), Version: one.version, Body: body}); err != nil {
				return fmt.Errorf("xds: configuration of %s: %w", h.Proxy, err)
			}
		}
	}
	return nil
}

// kept returns the body if it was kept; do not change it.
func (t *content) kept() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.body
}
