package xds

import (
	"iter"
	"slices"
	"sync"
	"unique"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// chunkSize is the number of names that a chunk of a table covers.
const chunkSize = 64

type chunk [chunkSize]*content

// table holds the contents of one kind by name. Tables are immutable. Proxies that hold
// the same contents share one table, and tables that differ in a few names share all
// other chunks.
type table struct {
	kind   kind
	chunks []unique.Handle[chunk] // by number of the name; the zero handle is an empty chunk
	count  int
	bytes  int64
	sum    uint64 // of the contents, in any order

	once sync.Once
	refs *nameSet // names that its contents refer to, see content
	exts *nameSet
}

type tableKey struct {
	kind  kind
	sum   uint64
	count int
	bytes int64
}

// at returns the content of a name; nil if there is none.
func (t *table) at(name uint32) *content {
	i := int(name / chunkSize)
	if i >= len(t.chunks) || t.chunks[i] == (unique.Handle[chunk]{}) {
		return nil
	}
	c := t.chunks[i].Value()
	return c[name%chunkSize]
}

// all yields every content.
func (t *table) all() iter.Seq[*content] {
	return func(yield func(*content) bool) {
		for _, h := range t.chunks {
			if h == (unique.Handle[chunk]{}) {
				continue
			}
			c := h.Value()
			for _, one := range c {
				if one != nil && !yield(one) {
					return
				}
			}
		}
	}
}

// mix spreads the number of a content over 64 bits (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// builder builds a table from another.
type builder struct {
	table
	open    int // the chunk being changed; -1 for none
	current chunk
}

func (t *table) edit() *builder {
	return &builder{table: table{kind: t.kind, chunks: slices.Clone(t.chunks), count: t.count, bytes: t.bytes, sum: t.sum}, open: -1}
}

// put sets the content of a name, nil for none, and returns what was there.
func (b *builder) put(name uint32, to *content) *content {
	i := int(name / chunkSize)
	if i != b.open {
		b.close()
		for len(b.chunks) <= i {
			b.chunks = append(b.chunks, unique.Handle[chunk]{})
		}
		if b.open = i; b.chunks[i] != (unique.Handle[chunk]{}) {
			b.current = b.chunks[i].Value()
		} else {
			b.current = chunk{}
		}
	}
	place := &b.current[name%chunkSize]
	from := *place
	if from != nil {
		b.count--
		b.bytes -= int64(from.size)
		b.sum -= mix(from.id)
	}
	if *place = to; to != nil {
		b.count++
		b.bytes += int64(to.size)
		b.sum += mix(to.id)
	}
	return from
}

func (b *builder) close() {
	if b.open < 0 {
		return
	}
	if b.current == (chunk{}) {
		b.chunks[b.open] = unique.Handle[chunk]{}
	} else {
		b.chunks[b.open] = unique.Make(b.current)
	}
	b.open = -1
}

// finish returns the table, or the existing equal one.
func (c *catalogue) finish(b *builder) *table {
	b.close()
	for n := len(b.chunks); n > 0 && b.chunks[n-1] == (unique.Handle[chunk]{}); n-- {
		b.chunks = b.chunks[:n-1]
	}
	key := tableKey{kind: b.kind, sum: b.sum, count: b.count, bytes: b.bytes}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.tables.get(key); known != nil && slices.Equal(known.chunks, b.chunks) {
		return known
	}
	out := &table{kind: b.kind, chunks: slices.Clip(b.chunks), count: b.count, bytes: b.bytes, sum: b.sum}
	c.tables.put(key, out)
	return out
}

// nameSet is a set of names of one kind. Equal sets are the same object.
type nameSet struct {
	kind  kind
	ids   []uint32 // sorted
	names []string // in the order of ids
	sum   uint64
}

var noNames = &nameSet{}

// has reports whether a name is in the set.
func (s *nameSet) has(id uint32) bool {
	_, ok := slices.BinarySearch(s.ids, id)
	return ok
}

// nameSet returns the shared set of these names.
func (c *catalogue) nameSet(k kind, ids []uint32) *nameSet {
	if len(ids) == 0 {
		return noNames
	}
	slices.Sort(ids)
	ids = slices.Clip(slices.Compact(ids))
	sum := mix(uint64(k))
	for _, id := range ids {
		sum = mix(sum ^ uint64(id))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.sets.get(sum); known != nil && known.kind == k && slices.Equal(known.ids, ids) {
		return known
	}
	out := &nameSet{kind: k, ids: ids, sum: sum, names: make([]string, len(ids))}
	for i, id := range ids {
		out.names[i] = c.names[k].list[id]
	}
	c.sets.put(sum, out)
	return out
}

// wants returns the names that the contents of a table refer to: endpoints of clusters,
// or routes and extensions of listeners.
func (c *catalogue) wants(t *table) (refs, exts *nameSet) {
	t.once.Do(func() {
		refs, exts := make([]uint32, 0, t.count), []uint32(nil)
		for one := range t.all() {
			refs = append(refs, one.refs...)
			exts = append(exts, one.exts...)
		}
		t.refs, t.exts = c.nameSet(referred(t.kind), refs), c.nameSet(ecds, exts)
	})
	return t.refs, t.exts
}

// diff is the difference between two sets of names.
type diff struct {
	once     sync.Once
	addedIDs []uint32
	// request is the delta request that changes the subscription from one to the
	// other, the same bytes for all proxies.
	request []byte
	// prune removes unsubscribed names from a table; nil if there are none.
	prune *response
}

type diffKey struct{ from, to *nameSet }

// diff returns how to differs from from, a set of the same kind.
func (c *catalogue) diff(from, to *nameSet) *diff {
	d := c.diffs.get(diffKey{from, to}, func() *diff { return &diff{} })
	d.once.Do(func() {
		var added, removed []string
		for i, id := range to.ids {
			if !from.has(id) {
				added, d.addedIDs = append(added, to.names[i]), append(d.addedIDs, id)
			}
		}
		for i, id := range from.ids {
			if to.has(id) {
				continue
			}
			if d.prune == nil {
				d.prune = &response{kind: from.kind, partial: true}
			}
			removed = append(removed, from.names[i])
			d.prune.removed = append(d.prune.removed, id)
		}
		k := to.kind
		if to == noNames {
			k = from.kind
		}
		r := wire.DeltaRequest{TypeURL: kindURLs[k], Subscribe: added, Unsubscribe: removed}
		d.request = r.Append(nil)
	})
	return d
}

// union returns the names of two sets of a kind.
func (c *catalogue) union(a, b *nameSet) *nameSet {
	if a == b || a == noNames {
		return b
	}
	if b == noNames {
		return a
	}
	return c.unions.get(diffKey{a, b}, func() *nameSet { return c.nameSet(b.kind, slices.Concat(a.ids, b.ids)) })
}

type strayKey struct {
	table *table
	set   *nameSet
}

// strays returns the response that removes the names in a table that are not in a set.
func (c *catalogue) strays(t *table, set *nameSet) *response {
	return c.astray.get(strayKey{t, set}, func() *response {
		r := &response{kind: t.kind, partial: true}
		for one := range t.all() {
			if !set.has(one.name) {
				r.removed = append(r.removed, one.name)
			}
		}
		return r
	})
}
