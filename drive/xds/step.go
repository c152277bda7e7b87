package xds

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// message is one distinct message of istiod, regardless of its nonce and the
// order of its resources.
type message struct {
	once     sync.Once
	response *response
	err      error // why it cannot be parsed
}

type messageKey struct {
	kind                     kind
	sum                      uint64
	size, resources, removed int
}

// response is the content of a message, regardless of the order of its
// resources: istiod often iterates over maps.
type response struct {
	kind     kind       // kinds: a type that proxies do not subscribe to
	contents []*content // ordered by name id
	removed  []uint32   // in order
	partial  bool       // names that it leaves out stay as they are
	fault    string     // why a proxy would reject it; "" if it would not
}

// responseKey identifies a response; sum covers contents and removals.
type responseKey struct {
	kind              kind
	sum               uint64
	contents, removed int
}

// sums are buffers for the hashes of a message's resources.
var sums = sync.Pool{New: func() any { return new([]uint64) }}

// read returns the response in a message, and the header of the message.
func (c *catalogue) read(message []byte, at int64) (r *response, head wire.Head, err error) {
	buffer := sums.Get().(*[]uint64)
	defer sums.Put(buffer)
	o, err := wire.Skim(message, c.delta, func(b []byte) uint64 { return maphash.Bytes(c.seed, b) }, (*buffer)[:0])
	if *buffer = o.Sums; err == nil {
		r, err = c.response(message, &o, at)
	}
	return r, o.Head, err
}

// response returns the response in a message with the given outline. It is
// parsed once, for the first proxy that gets it.
func (c *catalogue) response(bytes []byte, o *wire.Outline, at int64) (*response, error) {
	key := messageKey{kind: kindOf(o.TypeURL), sum: o.Sum, size: o.Size, resources: o.Resources, removed: o.Removed}
	m := c.messages.get(key, func() *message { return &message{} })
	m.once.Do(func() { m.response, m.err = c.understand(bytes, o, at) })
	return m.response, m.err
}

func (c *catalogue) understand(bytes []byte, o *wire.Outline, at int64) (*response, error) {
	r := &response{kind: kindOf(o.TypeURL)}
	if r.kind == kinds { // nobody subscribed to it, but it must be well-formed
		_, err := wire.Walk(bytes, c.delta, func(raw []byte) error {
			_, err := wire.ParseResource(raw, string(o.TypeURL), c.delta)
			return err
		}, func([]byte) error { return nil })
		return r, err
	}
	// In state-of-the-world mode, CDS and LDS responses are complete; for the
	// other types istiod may send only what changed.
	r.partial = c.delta || (r.kind != cds && r.kind != lds)
	r.contents = make([]*content, 0, o.Resources)
	c.mu.Lock()
	_, err := wire.Walk(bytes, c.delta, func(raw []byte) error {
		one, err := c.intern(r.kind, raw, o.Sums[len(r.contents)], at)
		if err != nil {
			return err
		}
		if one.fault != nil && r.fault == "" {
			r.fault = fmt.Sprintf("%s %s: %v", r.kind, c.names[r.kind].list[one.name], one.fault)
		}
		r.contents = append(r.contents, one)
		return nil
	}, func(name []byte) error {
		if id, ok := c.names[r.kind].ids[string(name)]; ok {
			r.removed = append(r.removed, id)
		}
		return nil
	})
	crowded := c.crowded()
	c.mu.Unlock()
	if crowded {
		c.freeNames()
	}
	if err != nil {
		return nil, err
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

// step is the effect of a response on a proxy that holds a table.
type step struct {
	once     sync.Once
	from, to *table
	response *response

	identical      int64 // contents that the proxy already had
	identicalBytes int64
	removed        int64
	moves          []change // names that get another content, or none

	mu      sync.Mutex
	markers int // number of markers when sights was computed; -1: never computed
	sights  *sights
}

// changed reports whether the step changes what a proxy holds.
func (s *step) changed() bool { return len(s.moves) > 0 }

// began returns when the newest of the changes that a proxy takes with a step began: when
// any proxy first got the content after its name had another. 0: no content is new. at is
// now; before is when the proxy last took a response of the kind.
func (c *catalogue) began(s *step, before, at int64) (newest int64) {
	for _, m := range s.moves {
		if m.to == nil {
			c.lose(m.from, before, at)
			continue
		}
		newest = max(newest, m.to.began(c.replaced(m), before, at))
	}
	return newest
}

// began returns when the change that brings this content to a proxy now began. The same
// content can come back, as with an endpoint that flaps. A proxy that held a later content
// (replaced since) sees a new change; a proxy that is late sees the change that others saw
// before it.
func (t *content) began(replaced, before, at int64) int64 {
	if start := t.start.Load(); replaced > start && before >= replaced {
		t.start.CompareAndSwap(start, at) // or another proxy just did
	}
	return t.start.Load()
}

// replaced returns the time since which a name has had what a change replaces: another
// content, or none.
func (c *catalogue) replaced(m change) int64 {
	if m.from != nil {
		return m.from.start.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[m.to.kind].lost[m.to.name]
}

// lose records that a proxy has lost a name, like began for a content.
func (c *catalogue) lose(from *content, before, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if start, lost := from.start.Load(), &c.names[from.kind].lost[from.name]; start > *lost && before >= start {
		*lost = at
	}
}

// change is one name that a step changes.
type change struct{ from, to *content }

// changes yields the names that a step changes. It is called rarely and takes
// time proportional to the response.
func (s *step) changes(yield func(change) bool) {
	for _, to := range s.response.contents {
		if !yield(change{from: s.from.at(to.name), to: to}) {
			return
		}
	}
	if s.response.partial {
		for _, name := range s.response.removed {
			if old := s.from.at(name); old != nil && s.to.at(name) == nil && !yield(change{from: old}) {
				return
			}
		}
		return
	}
	for old := range s.from.all() {
		if s.to.at(old.name) == nil && !yield(change{from: old}) {
			return
		}
	}
}

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

// step returns the effect of a response on a table, computed once for all
// proxies that take this step.
func (c *catalogue) step(from *table, r *response) *step {
	s := c.steps.get(stepKey{from, r}, func() *step { return &step{markers: -1} })
	s.once.Do(func() { c.work(s, from, r) })
	return s
}

func (c *catalogue) work(s *step, from *table, r *response) {
	s.from, s.response = from, r
	base := from
	if !r.partial {
		base = emptyTables[r.kind]
	}
	b := base.edit()
	for _, to := range r.contents {
		old := from.at(to.name)
		b.put(to.name, to)
		if old != nil && old.sum == to.sum && old.size == to.size {
			s.identical++
			s.identicalBytes += int64(to.size)
		} else {
			s.moves = append(s.moves, change{old, to})
		}
	}
	for _, name := range r.removed {
		if old := b.put(name, nil); old != nil {
			s.removed++
			s.moves = append(s.moves, change{from: old})
		}
	}
	s.to = c.finish(b)
	if !r.partial {
		for old := range from.all() {
			if s.to.at(old.name) == nil {
				s.removed++
				s.moves = append(s.moves, change{from: old})
			}
		}
	}
}
