package xds

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// catalogue holds one copy of all content that the proxies of a fleet hold. It drops
// content that no proxy holds any more.
type catalogue struct {
	delta      bool
	seed       maphash.Seed
	quarantine time.Duration // of name numbers

	mu       sync.Mutex
	names    [kinds]names
	contents interned[contentKey, content]
	variants interned[uint64, content] // contents by hash of their bytes; one content may have several encodings
	nextID   uint64
	tables   interned[tableKey, table]
	sets     interned[uint64, nameSet]

	messages  recent[messageKey, *message]
	responses recent[responseKey, *response]
	steps     recent[stepKey, *step]
	diffs     recent[diffKey, *diff]
	unions    recent[diffKey, *nameSet]
	astray    recent[strayKey, *response]

	markers atomic.Pointer[[]marker]
	marked  map[markerKey]announced             // guarded by mu
	stays   atomic.Pointer[map[stayKey][]int32] // markers of texts that return, by resource
	bodies  *atomic.Int64                       // bytes of bodies kept for later searches
}

// Limits of a catalogue's caches.
const (
	// keptBodies limits the bytes of bodies kept for markers announced later.
	// Every distinct body counts once.
	keptBodies = 512 << 20
	// keptRecent is the number of results of each kind that are kept for other proxies;
	// the oldest are dropped first.
	keptRecent = 1024
	// Values that nobody holds are searched for when there are more than twice as many as were
	// held, plus sweepMore.
	sweepMore = 1024
)

// kind is a type of resource.
type kind uint8

// Kinds, in the order a proxy needs them.
const (
	cds kind = iota
	eds
	lds
	rds
	nds
	ecds
	wds       // of ztunnels: workloads and Services
	wads      // of ztunnels
	workloads // of sidecars that speak HBONE; istiod also calls it WDS
	kinds
)

var kindURLs = [kinds]string{wire.ClusterType, wire.EndpointType, wire.ListenerType, wire.RouteType, wire.NameTableType, wire.ExtensionType,
	wire.AddressType, wire.AuthorizationType, wire.WorkloadType}

// ztunnelKinds are what only ztunnels subscribe to, in this order.
var ztunnelKinds = []kind{wds, wads}

func (k kind) String() string { return wire.ShortName(kindURLs[k]) }

// wildcard kinds are subscribed to without names.
func (k kind) wildcard() bool { return k == cds || k == lds || k == nds || k >= wds }

// kindOf returns the kind of a type URL; kinds if it has none.
func kindOf(url []byte) kind {
	for k := range kinds {
		if kindURLs[k] == string(url) {
			return k
		}
	}
	return kinds
}

// kindNamed is kindOf by short name; wds means the kind of ztunnels.
func kindNamed(short string) kind {
	for k := range kinds {
		if k.String() == short {
			return k
		}
	}
	return kinds
}

func newCatalogue(delta bool) *catalogue {
	c := &catalogue{
		delta: delta, seed: maphash.MakeSeed(), quarantine: quarantine, bodies: new(atomic.Int64), marked: map[markerKey]announced{},
	}
	for k := range c.names {
		c.names[k].ids = map[string]uint32{}
	}
	c.markers.Store(&[]marker{})
	c.stays.Store(&map[stayKey][]int32{})
	return c
}

// initial yields the names and versions of a table's contents.
func (c *catalogue) initial(t *table) func(yield func(name, version string) bool) {
	return func(yield func(name, version string) bool) {
		c.mu.Lock()
		list := c.names[t.kind].list // names in use never change
		c.mu.Unlock()
		for one := range t.all() {
			if !yield(list[one.name], one.version) {
				return
			}
		}
	}
}

// forget drops the cached results, and with them contents and tables that no proxy holds
// any more.
func (c *catalogue) forget() {
	c.messages.forget()
	c.responses.forget()
	c.steps.forget()
	c.diffs.forget()
	c.unions.forget()
	c.astray.forget()
}

// sweep drops entries and names without a holder.
func (c *catalogue) sweep() {
	c.freeNames()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contents.sweep()
	c.variants.sweep()
	c.tables.sweep()
	c.sets.sweep()
}

// interned finds values by key as long as they are referenced elsewhere.
type interned[K comparable, V any] struct {
	all   map[K]weak.Pointer[V]
	swept int // after the last sweep
}

// get returns a value; nil if it is no longer referenced.
func (s *interned[K, V]) get(key K) *V { return s.all[key].Value() }

func (s *interned[K, V]) put(key K, v *V) {
	if len(s.all) >= 2*s.swept+sweepMore {
		s.sweep()
	}
	if s.all == nil {
		s.all = map[K]weak.Pointer[V]{}
	}
	s.all[key] = weak.Make(v)
}

// sweep drops entries without a value. It copies the map, because deletion does not shrink it.
func (s *interned[K, V]) sweep() {
	held := map[K]weak.Pointer[V]{}
	for key, p := range s.all {
		if p.Value() != nil {
			held[key] = p
		}
	}
	s.all, s.swept = held, len(held)
}

// recent keeps about the last keptRecent entries in two generations. When the younger is full,
// the older is dropped.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V
}

func (r *recent[K, V]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = nil, nil
}

// get returns the entry of a key, creating it if missing.
func (r *recent[K, V]) get(key K, create func() V) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v
	}
	v, ok := r.old[key]
	if !ok {
		v = create()
	}
	if r.young == nil || len(r.young) >= keptRecent {
		r.old, r.young = r.young, map[K]V{}
	}
	r.young[key] = v
	return v
}

// names numbers the names of one kind. The numbers of unused names are reused,
// so that the memory of a fleet that runs for weeks while Services come and go
// does not grow.
type names struct {
	ids  map[string]uint32
	list []string
	lost []int64    // when a proxy first lost the name since it last appeared, ns since 1970; 0: never
	free []freeName // the one that has been free longest comes first
	kept int        // names after the last sweep
}

// freeName is a number that may be reused some time after it became free.
type freeName struct {
	id uint32
	at time.Time
}

const (
	// Unused names of a kind are searched for when it has more than twice the names that
	// were in use, plus sweepNames.
	sweepNames = 4096
	// quarantine is how long the number of an unused name is not reused: for some
	// milliseconds, a response that was read but not yet applied may list it among its
	// removals.
	quarantine = time.Minute
)

// nameID returns the number of a name. c.mu is held.
func (c *catalogue) nameID(k kind, name []byte) uint32 {
	n := &c.names[k]
	if id, ok := n.ids[string(name)]; ok {
		return id
	}
	text := string(name)
	id := uint32(len(n.list))
	if len(n.free) > 0 && time.Since(n.free[0].at) >= c.quarantine {
		id = n.free[0].id
		n.free = n.free[1:]
		n.list[id], n.lost[id] = text, 0 // unseen by readers: no table or set has this number
	} else {
		n.list, n.lost = append(n.list, text), append(n.lost, 0)
	}
	n.ids[text] = id
	return id
}

// name is the inverse of nameID for a number in use.
func (c *catalogue) name(k kind, id uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[k].list[id]
}

// crowded reports whether to search for unused names. c.mu is held.
func (c *catalogue) crowded() bool {
	for k := range c.names {
		if n := &c.names[k]; len(n.ids) > 2*n.kept+sweepNames {
			return true
		}
	}
	return false
}

// freeNames frees the numbers of names that are in no content and no set. It
// also drops the cached results, because cached messages that remove such a name
// refer to its number.
func (c *catalogue) freeNames() {
	freed := false
	c.mu.Lock()
	var used [kinds][]uint64 // one bit per number
	for k := range used {
		used[k] = make([]uint64, len(c.names[k].list)/64+1)
	}
	mark := func(k kind, ids ...uint32) {
		for _, id := range ids {
			used[k][id/64] |= 1 << (id % 64)
		}
	}
	for _, p := range c.contents.all {
		one := p.Value()
		if one == nil {
			continue
		}
		mark(one.kind, one.name)
		mark(referred(one.kind), one.refs...)
		mark(ecds, one.exts...)
	}
	for _, p := range c.sets.all {
		if set := p.Value(); set != nil {
			mark(set.kind, set.ids...)
		}
	}
	now := time.Now()
	for k := range c.names {
		n := &c.names[k]
		for text, id := range n.ids {
			if used[k][id/64]&(1<<(id%64)) == 0 {
				delete(n.ids, text)
				n.free = append(n.free, freeName{id, now})
				freed = true
			}
		}
		n.kept = len(n.ids)
	}
	c.mu.Unlock()
	if freed {
		c.forget()
	}
}

// referred is the kind of the resources that contents of a kind refer to.
func referred(k kind) kind {
	if k == lds {
		return rds
	}
	return eds
}
