package ledger

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Options describes the stations that requests pass.
type Options struct {
	// Client is the service name of the load pods in proxy entries.
	Client string
	// ClientProxy means that the load pods have proxies that write logs.
	ClientProxy bool
	// InboundOnly means that proxies log what they receive for their own pod, but not
	// what they send. ClientProxy is then false. The number of attempts of a caller's
	// proxy is known only from what arrived. Linkerd's proxies, which log like this,
	// occasionally omit a line (a few in 10,000 seen); the worker's entry then
	// substitutes for it.
	InboundOnly bool
	// Carried means that proxies between callers and services log no requests. Answering
	// means that one of them may respond in a worker's place or retry: a waypoint.
	Carried, Answering bool
	// Entry is the service that the client calls.
	Entry string
	// Services of the graph by name.
	Services map[string]Station
	// Gone lists addresses that no longer belong to a service.
	Gone []Gone
	// Names limits how many requests of each kind an account lists; 0 means 10,000.
	Names int
	// Most limits the number of entries of a book; 0 means 20 million, which take about
	// two gigabytes with their requests. See [Book.Over].
	Most int
}

// Station is a service on the path of requests.
type Station struct {
	// Sidecar means that its pods have proxies that write logs.
	Sidecar bool
	// Gateway means that its pods are only proxies, which write one line about each request:
	// it shows both that the request arrived and where it was sent.
	Gateway bool
	// CalledBy lists the other services that call it, optionally including the client.
	CalledBy []string
	// Calls lists its calls, sequential or concurrent. They matter if only the called
	// workers log calls: see Options.Carried.
	Calls []Call
}

// Call is a call from a service to another one.
type Call struct {
	To string
	// Least is the minimum number of successful requests of this call before a worker
	// responds successfully itself; 0 if that depends on chance.
	Least int
}

// Book holds the entries of all stations, in about 32 to 40 bytes per entry and 60 per
// request. It is not safe for concurrent use.
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
	over    int64 // entries that did not fit
	bytes   int   // of all distinct texts
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
	for _, g := range options.Gone {
		b.gone[g.Address] = append(b.gone[g.Address], g)
	}
	return b
}

// intern returns the number of a value, assigning one if necessary.
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
		// The caller's text may be a slice of a large string.
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

// AddClient adds an entry of the generator. Each ID may have only one; further ones count
// as duplicates.
func (b *Book) AddClient(e ClientEntry) {
	if b.full() {
		return
	}
	b.sorted = false
	b.clients = append(b.clients, clientRow{e.IntendedNS, e.SentNS, e.DoneNS, b.id(e.ID), small(e.Status), uint16(min(b.text(e.Outcome), math.MaxUint16))})
}

// AddProxy adds a line of a proxy. Its duration is stored with microsecond resolution.
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

// Entries returns the number of entries of each kind.
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

// Without returns a read-only copy of the book that omits all entries about the requests
// for which left returns true.
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

// Each calls visit with the request of every ID, joined and judged, in the order in which
// IDs were first added, until visit returns false. The request and its slices are valid
// only during the call.
func (b *Book) Each(visit func(*Request) bool) {
	b.sort()
	c, p, w := 0, 0, 0
	var r Request
	for id := range uint32(len(b.names)) {
		r = Request{ID: b.names[id], Proxies: r.Proxies[:0], Tries: r.Tries[:0], Workers: r.Workers[:0], legs: r.legs[:0], Lacks: nil}
		for ; c < len(b.clients) && b.clients[c].id == id; c++ {
			if r.Client == nil {
				r.Client = new(b.client(&b.clients[c]))
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
			continue // the book is a subset of another
		}
		b.judge(&r)
		if !visit(&r) {
			return
		}
	}
}
