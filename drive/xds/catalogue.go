package xds

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// catalogue knows all content that any proxy of a fleet has, once. What no
// proxy has any longer, and nothing is remembered of, is forgotten.
type catalogue struct {
	delta      bool
	seed       maphash.Seed
	quarantine time.Duration // of numbers of names

	mu       sync.Mutex
	names    [kinds]names
	contents map[contentKey]weak.Pointer[content]
	variants map[uint64]weak.Pointer[content] // the same by a hash of their bytes, of which one content may have several
	swept    int                              // contents after the last sweep
	sweptV   int
	nextID   uint64
	tables   map[tableKey]weak.Pointer[table]
	sweptT   int
	sets     map[uint64]weak.Pointer[nameSet]
	sweptS   int

	messages  *recent[messageKey, *message]
	responses *recent[responseKey, *response]
	steps     *recent[stepKey, *step]
	diffs     *recent[diffKey, *diff]
	unions    *recent[diffKey, *nameSet]
	astray    *recent[strayKey, *response]

	markers atomic.Pointer[[]marker]
	marked  map[markerKey]announced             // of c.mu
	stays   atomic.Pointer[map[stayKey][]int32] // markers of a text that comes back, by where they show
	bodies  *atomic.Int64                       // bytes kept to be searched later
}

// Bounds of what a catalogue keeps.
const (
	// keptBodies bounds the bytes of bodies that are kept for markers
	// announced later. Every distinct body counts once.
	keptBodies = 512 << 20
	// keptRecent is how many results of each kind are kept for other proxies
	// that may need them; more are forgotten, oldest first.
	keptRecent = 1024
)

// kind is a type of resource that a proxy asks istiod for.
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
	workloads // of sidecars that speak HBONE; istiod calls it WDS too
	kinds
)

var kindURLs = [kinds]string{wire.ClusterType, wire.EndpointType, wire.ListenerType, wire.RouteType, wire.NameTableType, wire.ExtensionType,
	wire.AddressType, wire.AuthorizationType, wire.WorkloadType}

// ztunnelKinds are what a ztunnel subscribes to, in this order, and nobody else.
var ztunnelKinds = []kind{wds, wads}

func (k kind) String() string { return wire.ShortName(kindURLs[k]) }

// wildcard kinds are asked for without names.
func (k kind) wildcard() bool { return k == cds || k == lds || k == nds || k >= wds }

// kindOf returns the kind of a type URL; kinds if none.
func kindOf(url []byte) kind {
	for k := range kinds {
		if kindURLs[k] == string(url) {
			return k
		}
	}
	return kinds
}

// kindNamed is kindOf by short name: what goes by wds is a ztunnel's.
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
		delta: delta, seed: maphash.MakeSeed(), quarantine: quarantine, bodies: new(atomic.Int64),
		contents: map[contentKey]weak.Pointer[content]{}, variants: map[uint64]weak.Pointer[content]{}, marked: map[markerKey]announced{},
		tables: map[tableKey]weak.Pointer[table]{}, sets: map[uint64]weak.Pointer[nameSet]{},
		messages:  newRecent[messageKey, *message](keptRecent),
		responses: newRecent[responseKey, *response](keptRecent),
		steps:     newRecent[stepKey, *step](keptRecent),
		diffs:     newRecent[diffKey, *diff](keptRecent),
		unions:    newRecent[diffKey, *nameSet](keptRecent),
		astray:    newRecent[strayKey, *response](keptRecent),
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
		list := c.names[t.kind].list // of names that the table has nothing changes
		c.mu.Unlock()
		for one := range t.all() {
			if !yield(list[one.name], one.version) {
				return
			}
		}
	}
}

// forget drops what was worked out for other proxies, and with it contents and
// tables that no proxy holds any longer. What is needed again is worked out
// again.
func (c *catalogue) forget() {
	c.messages.forget()
	c.responses.forget()
	c.steps.forget()
	c.diffs.forget()
	c.unions.forget()
	c.astray.forget()
}

// sweep drops entries and names of what nobody holds any longer, and the room
// that entries took: a map does not shrink when some are deleted.
func (c *catalogue) sweep() {
	c.freeNames()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contents, c.swept = live(c.contents)
	c.variants, c.sweptV = live(c.variants)
	c.tables, c.sweptT = live(c.tables)
	c.sets, c.sweptS = live(c.sets)
}

func live[K comparable, V any](m map[K]weak.Pointer[V]) (map[K]weak.Pointer[V], int) {
	sweep(m)
	out := make(map[K]weak.Pointer[V], len(m))
	maps.Copy(out, m)
	return out, len(out)
}

// recent remembers about its last size entries: two generations, of which the
// older is forgotten when the younger is full.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	size       int
	young, old map[K]V
}

func newRecent[K comparable, V any](size int) *recent[K, V] {
	return &recent[K, V]{size: size, young: map[K]V{}}
}

func (r *recent[K, V]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = map[K]V{}, nil
}

// get returns the entry of a key, made by create if there is none.
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
	if len(r.young) >= r.size {
		r.old, r.young = r.young, map[K]V{}
	}
	r.young[key] = v
	return v
}
