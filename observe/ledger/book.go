package ledger

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Options say which stations requests pass.
type Options struct {
	// Client is the service name of the load pods in proxies' entries.
	Client string
	// ClientProxy says that the load pods have proxies that write logs.
	ClientProxy bool
	// InboundOnly says that proxies write a line about what they receive for
	// their own pod, and none about what they send. ClientProxy is false then.
	// How often a caller's proxy tried is known by what arrived alone. Linkerd's
	// proxies, which write like this, leave a line out now and then (a few in
	// 10,000 seen); what a worker wrote about stands for it.
	InboundOnly bool
	// Carried says that between callers and services stand proxies that write nothing of
	// requests, and Answering that one of these may answer in a worker's place, or ask it
	// again: a waypoint.
	Carried, Answering bool
	// Entry is the service that the client calls.
	Entry string
	// Services of the graph by name.
	Services map[string]Station
	// Gone are addresses that no longer belong to a service.
	Gone []Gone
	// Names bounds how many requests an account names of each kind;
	// 10,000 if 0.
	Names int
	// Most bounds how many entries a book keeps; 20 million if 0, which take
	// about two gigabytes with their requests. See [Book.Over].
	Most int
}

// Station is a service as requests pass it.
type Station struct {
	// Sidecar says that its pods have proxies that write logs.
	Sidecar bool
	// CalledBy are the other services that call it; the client need not be
	// among them.
	CalledBy []string
	// Calls are what it calls, one after the other or all at once. They count where
	// the called workers alone write of calls: see Options.Carried.
	Calls []Call
}

// Call is a call that a service makes of another one.
type Call struct {
	To string
	// Least is how many requests of it a worker must have had answered well before it
	// gives a good answer itself; 0 where that depends on chance.
	Least int
}

// Book holds what all stations wrote, in about 32 to 40 bytes an entry and
// 60 a request. It is not safe for use from several goroutines.
type Book struct {
	options Options
	gone    map[string][]Gone

	ids     map[string]uint32
	names   []string
	texts   map[string]uint32
	textOf  []string
	origins map[origin]uint32
	origin  []origin
	manners map[manner]uint32
	manner  []manner

	clients []clientRow
	proxies []proxyRow
	workers []workerRow
	sorted  bool
	over    int64 // entries that had no room
	bytes   int   // of all different texts
}

type origin struct {
	service, pod, to string
	side             Side
	one              bool
}

type manner struct{ flags, details, transport, closed string }

type clientRow struct {
	intended, sent, done int64
	id                   uint32
	status               uint16
	outcome              uint16
}

type proxyRow struct {
	start                            int64
	id, origin, manner, host, micros uint32
	status, attempts, attempt        uint16
	grpc                             int16
}

type workerRow struct {
	start, end int64
	id, origin uint32
	ended      uint32
	status     uint16
}

// New returns an empty book.
func New(options Options) *Book {
	if options.Names <= 0 {
		options.Names = 10_000
	}
	if options.Most <= 0 {
		options.Most = 20_000_000
	}
	b := &Book{
		options: options, gone: map[string][]Gone{},
		ids: map[string]uint32{}, texts: map[string]uint32{},
		origins: map[origin]uint32{}, manners: map[manner]uint32{},
	}
	b.SetGone(options.Gone)
	return b
}

// intern returns the number of a value, giving it one if it has none.
func intern[K comparable](numbers map[K]uint32, values *[]K, value K) uint32 {
	n, ok := numbers[value]
	if !ok {
		n = uint32(len(*values))
		numbers[value] = n
		*values = append(*values, value)
	}
	return n
}

func (b *Book) id(id string) uint32 {
	n, ok := b.ids[id]
	if !ok {
		// The caller's text may be a piece of a large one.
		b.bytes += len(id)
		return intern(b.ids, &b.names, strings.Clone(id))
	}
	return n
}

func (b *Book) text(s string) uint32 {
	n, ok := b.texts[s]
	if !ok {
		b.bytes += len(s)
		return intern(b.texts, &b.textOf, s)
	}
	return n
}

// AddClient adds an entry of the generator. An id may have one only; a second
// is counted as a duplicate.
func (b *Book) AddClient(e ClientEntry) {
	if b.full() {
		return
	}
	b.sorted = false
	b.clients = append(b.clients, clientRow{e.IntendedNS, e.SentNS, e.DoneNS, b.id(e.ID), small(e.Status), uint16(min(b.text(e.Outcome), math.MaxUint16))})
}

// AddProxy adds a line of a proxy. Its duration is kept to the microsecond.
func (b *Book) AddProxy(e ProxyEntry) {
	if b.full() {
		return
	}
	b.sorted = false
	before := len(b.origin) + len(b.manner)
	b.proxies = append(b.proxies, proxyRow{
		start: e.StartNS, id: b.id(e.ID),
		origin: intern(b.origins, &b.origin, origin{e.Service, e.Pod, e.To, e.Side, e.One}),
		manner: intern(b.manners, &b.manner, manner{e.Flags, e.Details, e.Transport, e.Closed}),
		host:   b.text(e.Host), micros: uint32(max(0, min(e.DurationNS/1000, math.MaxUint32))),
		status: small(e.Status), attempts: small(e.Attempts), attempt: small(e.Attempt),
		grpc: int16(max(-1, min(e.GRPC, math.MaxInt16))),
	})
	if len(b.origin)+len(b.manner) > before {
		b.bytes += len(e.Service) + len(e.Pod) + len(e.To) + len(e.Flags) + len(e.Details) + len(e.Transport) + len(e.Closed)
	}
}

// AddWorker adds an entry of a worker.
func (b *Book) AddWorker(e WorkerEntry) {
	if b.full() {
		return
	}
	b.sorted = false
	b.workers = append(b.workers, workerRow{
		e.StartNS, e.EndNS, b.id(e.ID),
		intern(b.origins, &b.origin, origin{service: e.Service, pod: e.Pod}), b.text(e.Ended), small(e.Status),
	})
}

func small(n int) uint16 { return uint16(max(0, min(n, math.MaxUint16))) }

// Entries returns how many entries of each kind the book has.
func (b *Book) Entries() (clients, proxies, workers int) {
	return len(b.clients), len(b.proxies), len(b.workers)
}

func (b *Book) sort() {
	if b.sorted {
		return
	}
	slices.SortStableFunc(b.clients, func(x, y clientRow) int { return cmp.Compare(x.id, y.id) })
	slices.SortStableFunc(b.proxies, func(x, y proxyRow) int {
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.start, y.start))
	})
	slices.SortStableFunc(b.workers, func(x, y workerRow) int {
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.start, y.start))
	})
	b.sorted = true
}

func (b *Book) client(r *clientRow) ClientEntry {
	return ClientEntry{b.names[r.id], r.intended, r.sent, r.done, b.textOf[r.outcome], int(r.status)}
}

func (b *Book) proxy(r *proxyRow) ProxyEntry {
	o, m := b.origin[r.origin], b.manner[r.manner]
	return ProxyEntry{
		One: o.one, ID: b.names[r.id], Side: o.side, Service: o.service, Pod: o.pod, To: o.to,
		StartNS: r.start, DurationNS: int64(r.micros) * 1000, Status: int(r.status), GRPC: int(r.grpc),
		Flags: m.flags, Details: m.details, Transport: m.transport, Closed: m.closed,
		Host: b.textOf[r.host], Attempts: int(r.attempts), Attempt: int(r.attempt),
	}
}

func (b *Book) worker(r *workerRow) WorkerEntry {
	o := b.origin[r.origin]
	return WorkerEntry{b.names[r.id], o.service, o.pod, r.start, r.end, int(r.status), b.textOf[r.ended]}
}

// Without is a copy of the book, for reading only, without all that was
// written about the requests of some clients' entries.
func (b *Book) Without(left func(*ClientEntry) bool) *Book {
	out := *b
	gone := make([]bool, len(b.names))
	for i := range b.clients {
		if e := b.client(&b.clients[i]); left(&e) {
			gone[b.clients[i].id] = true
		}
	}
	out.clients = slices.DeleteFunc(slices.Clone(b.clients), func(r clientRow) bool { return gone[r.id] })
	out.proxies = slices.DeleteFunc(slices.Clone(b.proxies), func(r proxyRow) bool { return gone[r.id] })
	out.workers = slices.DeleteFunc(slices.Clone(b.workers), func(r workerRow) bool { return gone[r.id] })
	return &out
}

// Each calls visit with every id's request, joined and judged, in the order in
// which ids were first added, until visit returns false. The request and its
// slices are valid during the call only.
func (b *Book) Each(visit func(*Request) bool) {
	b.sort()
	c, p, w := 0, 0, 0
	var r Request
	for id := range uint32(len(b.names)) {
		r = Request{ID: b.names[id], Proxies: r.Proxies[:0], Tries: r.Tries[:0], Workers: r.Workers[:0], legs: r.legs[:0], Lacks: nil}
		for ; c < len(b.clients) && b.clients[c].id == id; c++ {
			if r.Client == nil {
				entry := b.client(&b.clients[c])
				r.Client = &entry
			} else {
				r.Duplicates++
			}
		}
		for ; p < len(b.proxies) && b.proxies[p].id == id; p++ {
			if e := b.proxy(&b.proxies[p]); e.One {
				r.Tries = append(r.Tries, e)
			} else {
				r.Proxies = append(r.Proxies, e)
			}
		}
		for ; w < len(b.workers) && b.workers[w].id == id; w++ {
			r.Workers = append(r.Workers, b.worker(&b.workers[w]))
		}
		if r.Client == nil && len(r.Proxies)+len(r.Tries)+len(r.Workers) == 0 {
			continue // the book is a part of another
		}
		b.judge(&r)
		if !visit(&r) {
			return
		}
	}
}
