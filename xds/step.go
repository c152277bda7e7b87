package xds

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/meshmark/meshmark/xds/wire"
)

// message is one distinct message of istiod, whatever its nonce.
type message struct {
	once     sync.Once
	response *response
	err      error // it cannot be understood
}

type messageKey struct {
	sum  uint64
	size int
}

// response is what a message says, whatever the order of its resources:
// istiod often iterates over maps.
type response struct {
	kind     kind       // kinds: a type nobody here asks for
	contents []*content // by number of their names
	removed  []uint32   // in order
	partial  bool       // what it does not name stays as it is
	fault    string     // why a proxy would reject it; "" if it would not
}

// responseKey tells responses apart: sum is over contents and removals.
type responseKey struct {
	kind              kind
	sum               uint64
	contents, removed int
}

// response returns what a message says. Only the first proxy that gets it
// pays for reading it. The hash leaves out the nonce, which differs for each
// proxy.
func (c *catalogue) response(bytes []byte, head *wire.Head, at int64) (*response, error) {
	before, after := bytes, []byte(nil)
	if head.NonceAt >= 0 {
		before, after = bytes[:head.NonceAt], bytes[head.NonceAt+len(head.Nonce):]
	}
	sum := mix(maphash.Bytes(c.seed, before)) + maphash.Bytes(c.seed, after)
	m := c.messages.get(messageKey{sum: sum, size: len(bytes)}, func() *message { return &message{} })
	m.once.Do(func() { m.response, m.err = c.understand(bytes, at) })
	return m.response, m.err
}

func (c *catalogue) understand(bytes []byte, at int64) (*response, error) {
	parse := wire.ParseSotW
	if c.delta {
		parse = wire.ParseDelta
	}
	parsed, err := parse(bytes)
	if err != nil {
		return nil, err
	}
	r := &response{kind: kindOf(parsed.TypeURL)}
	if r.kind == kinds {
		return r, nil
	}
	// Without deltas, clusters and listeners come whole; of the others istiod
	// may send those that changed.
	r.partial = c.delta || (r.kind != cds && r.kind != lds)
	c.mu.Lock()
	r.contents = make([]*content, 0, len(parsed.Resources))
	for i := range parsed.Resources {
		one := c.intern(r.kind, &parsed.Resources[i], at)
		if one.fault != nil && r.fault == "" {
			r.fault = fmt.Sprintf("%s %s: %v", r.kind, parsed.Resources[i].Name, one.fault)
		}
		r.contents = append(r.contents, one)
	}
	for _, name := range parsed.Removed {
		if id, ok := c.names[r.kind].ids[string(name)]; ok {
			r.removed = append(r.removed, id)
		}
	}
	crowded := c.crowded()
	c.mu.Unlock()
	if crowded {
		c.freeNames()
	}
	key := responseKey{kind: r.kind, contents: len(r.contents), removed: len(r.removed)}
	for _, one := range r.contents {
		key.sum += mix(one.id)
	}
	for _, id := range r.removed {
		key.sum += mix(uint64(id) | 1<<63)
	}
	return c.responses.get(key, func() *response {
		slices.SortFunc(r.contents, func(a, b *content) int { return cmp.Compare(a.name, b.name) })
		slices.Sort(r.removed)
		return r
	}), nil
}

// step is what a response does to a proxy that holds a table.
type step struct {
	once sync.Once
	to   *table

	resources      int64
	identical      int64 // contents that the proxy had
	identicalBytes int64
	removed        int64
	newest         int64 // when any proxy first got the newest of the changed contents, ns since 1970; 0: none changed

	mu      sync.Mutex
	markers int // how many were announced when sights was worked out; -1: never
	sights  *sights
	changes []change
}

// changed says whether a proxy holds anything else after the step.
func (s *step) changed() bool { return s.newest != 0 || s.removed > 0 }

// change is one name that a step changes.
type change struct{ from, to *content }

type stepKey struct {
	from     *table
	response *response
}

var emptyTables = func() (out [kinds]*table) {
	for k := range kinds {
		out[k] = &table{kind: k}
	}
	return out
}()

// step returns what a response makes of a table, worked out once for all
// proxies that take this step.
func (c *catalogue) step(from *table, r *response) *step {
	s := c.steps.get(stepKey{from, r}, func() *step { return &step{markers: -1} })
	s.once.Do(func() { c.work(s, from, r) })
	return s
}

func (c *catalogue) work(s *step, from *table, r *response) {
	base := from
	if !r.partial {
		base = emptyTables[r.kind]
	}
	b := base.edit()
	for _, to := range r.contents {
		s.resources++
		old := from.at(to.name)
		b.put(to.name, to)
		if old != nil && old.sum == to.sum && old.size == to.size {
			s.identical++
			s.identicalBytes += int64(to.size)
		} else {
			s.newest = max(s.newest, to.first)
		}
		s.changes = append(s.changes, change{from: old, to: to})
	}
	for _, name := range r.removed {
		if old := b.put(name, nil); old != nil {
			s.removed++
			s.changes = append(s.changes, change{from: old})
		}
	}
	s.to = c.finish(b)
	if !r.partial {
		for old := range from.all() {
			if s.to.at(old.name) == nil {
				s.removed++
				s.changes = append(s.changes, change{from: old})
			}
		}
	}
}
