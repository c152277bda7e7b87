package xdsserver

import (
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
)

// maxRequest is the maximum size of a request, in bytes.
const maxRequest = 16 << 20

// infinite is how long gRPC waits before it checks whether a silent client is
// alive. If gRPC does that at all (by default after two hours), it also sets
// TCP_USER_TIMEOUT to the 20 s that it would wait for the answer: on a machine
// busy with thousands of clients, the kernel then ends connections whose client
// does not read for that long (google.golang.org/grpc, internal/transport,
// NewServerTransport).
const infinite = time.Duration(math.MaxInt64)

// Counts says what a server has done since it started.
type Counts struct {
	Open      int   // streams
	Streams   int64 // total since the start
	Responses int64
	Bytes     int64 // size of the responses
	Acks      int64
	Nacks     int64
	Bad       int64 // invalid requests
}

// Server serves one configuration to all its streams.
type Server struct {
	grpc   *grpc.Server
	stamps atomic.Pointer[stamps] // of the timed listener, if there is one

	mu            sync.Mutex
	configuration Configuration
	version       int64
	nonces        int64
	subscriptions *subscriptions
	memo          map[memoKey]*message // for this version
	streams       []*stream            // by index; nil once closed
	nodes         []string             // of the streams, by index
	open          int

	responses, bytes, acks, nacks, bad atomic.Int64
}

// memoKey determines the response to a subscription, given the version of the
// configuration.
type memoKey struct {
	typeURL string
	delta   bool
	asked   *subscription // nil: all
	// held has the names that the client holds from an earlier stream.
	held   *subscription
	change int // index in a push
}

// message is a marshalled response.
type message struct {
	typeURL string
	nonce   string
	data    []byte
	push    *Push // the push it belongs to, or nil
}

// New returns a server of a configuration.
func New(c Configuration, options ...grpc.ServerOption) *Server {
	c.sort()
	s := &Server{configuration: c, version: 1, subscriptions: newSubscriptions(), memo: map[memoKey]*message{}}
	s.grpc = grpc.NewServer(append([]grpc.ServerOption{grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(s.handle), grpc.MaxRecvMsgSize(maxRequest),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: infinite})}, options...)...)
	return s
}

// Serve accepts clients until [Server.Close].
func (s *Server) Serve(l net.Listener) error { return s.grpc.Serve(l) }

// ServeTimed is Serve for clients with a separate connection for each stream.
// It also records when each write of a response began, for [Delivery.WroteNS].
func (s *Server) ServeTimed(l net.Listener) error {
	timed := &stamps{Listener: l}
	s.stamps.Store(timed)
	return s.grpc.Serve(timed)
}

// Close ends all streams and listeners.
func (s *Server) Close() { s.grpc.Stop() }

// Counts returns what the server has done so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	open, streams := s.open, int64(len(s.streams))
	s.mu.Unlock()
	return Counts{Open: open, Streams: streams, Responses: s.responses.Load(), Bytes: s.bytes.Load(),
		Acks: s.acks.Load(), Nacks: s.nacks.Load(), Bad: s.bad.Load()}
}

func (s *Server) handle(_ any, g grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(g)
	if method != wire.DeltaMethod && method != wire.SotWMethod {
		return status.Errorf(codes.Unimplemented, "only discovery is served, not %s", method)
	}
	st := &stream{server: s, grpc: g, delta: method == wire.DeltaMethod, wake: make(chan struct{}, 1), types: map[string]*typeState{}}
	if timed := s.stamps.Load(); timed != nil {
		if from, ok := peer.FromContext(g.Context()); ok {
			st.conn = timed.of(from.Addr.String())
		}
	}
	s.mu.Lock()
	st.index = len(s.streams)
	s.streams, s.nodes = append(s.streams, st), append(s.nodes, "")
	s.open++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.streams[st.index] = nil
		s.open--
		s.mu.Unlock()
	}()
	return st.run()
}

// answer returns the response to a subscription, and caches it for the next
// stream with the same one. The caller holds mu.
func (s *Server) answer(key memoKey) *message {
	if m, ok := s.memo[key]; ok {
		return m
	}
	resources, removed := s.configuration[key.typeURL], []string(nil)
	if key.asked != nil {
		resources = nil
		for _, name := range key.asked.names {
			if i, ok := s.configuration.find(key.typeURL, name); ok {
				resources = append(resources, s.configuration[key.typeURL][i])
			} else {
				removed = append(removed, name)
			}
		}
	}
	if key.held != nil {
		for _, name := range key.held.names {
			if _, ok := s.configuration.find(key.typeURL, name); !ok && !slices.Contains(removed, name) {
				removed = append(removed, name)
			}
		}
	}
	m := s.marshal(key.typeURL, key.delta, resources, removed, nil)
	s.memo[key] = m
	return m
}

func (s *Server) marshal(typeURL string, delta bool, resources []Resource, removed []string, push *Push) *message {
	s.nonces++
	m := &message{typeURL: typeURL, nonce: strconv.FormatInt(s.nonces, 10), push: push}
	version := strconv.FormatInt(s.version, 10)
	if delta {
		m.data = deltaMessage(typeURL, version, m.nonce, resources, removed)
	} else {
		m.data = sotwMessage(typeURL, version, m.nonce, resources)
	}
	return m
}

// Push is a change of the configuration on its way to all streams.
type Push struct {
	Streams  int   // number of receiving streams
	Messages int   // responses, over all streams
	Bytes    int64 // size of the responses
	BeganNS  int64

	nodes []string       // by stream index; "" for streams that do not receive it
	sent  []atomic.Int64 // when passed to gRPC, in Unix ns, by stream index
	wrote []atomic.Int64 // when the kernel got it, if timed
	acked []atomic.Int64
	acks  atomic.Int64
	nacks atomic.Int64
}

// Delivery is one stream's part in a push. Times are in nanoseconds since 1970;
// 0 means not yet. With several responses they are those of the last.
type Delivery struct {
	Node   string // the node's ID
	SentNS int64  // when passed to gRPC
	// WroteNS is when the write to the connection began, for servers by
	// ServeTimed; it is known once the response was acknowledged.
	WroteNS int64
	AckedNS int64 // when the acknowledgement was read
}

// Deliveries returns the state of a push for each receiving stream.
func (p *Push) Deliveries() []Delivery {
	var out []Delivery
	for i, node := range p.nodes {
		if node != "" {
			out = append(out, Delivery{Node: node, SentNS: p.sent[i].Load(), WroteNS: p.wrote[i].Load(), AckedNS: p.acked[i].Load()})
		}
	}
	return out
}

// Acks and Nacks return how many of the responses were accepted and rejected so
// far.
func (p *Push) Acks() int64  { return p.acks.Load() }
func (p *Push) Nacks() int64 { return p.nacks.Load() }

// Change is a change of resources of one type.
type Change struct {
	Type    string // URL
	Changed []Resource
	Removed []string // names
}

// Push makes changes and sends them to all streams that have requested what
// changed, in the given order. It returns immediately. In state of the world,
// clusters and listeners are sent whole; otherwise only what changed is sent.
// Later subscriptions to a resource see all changes.
func (s *Server) Push(changes ...Change) *Push {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.configuration = s.configuration.apply(c.Type, c.Changed, c.Removed)
	}
	s.version++
	clear(s.memo)
	p := &Push{BeganNS: time.Now().UnixNano(), nodes: make([]string, len(s.streams)),
		sent: make([]atomic.Int64, len(s.streams)), wrote: make([]atomic.Int64, len(s.streams)), acked: make([]atomic.Int64, len(s.streams))}
	cache := map[memoKey]*message{}
	for i, st := range s.streams {
		if st == nil {
			continue
		}
		for n, c := range changes {
			t := st.types[c.Type]
			if t == nil {
				continue
			}
			key := memoKey{typeURL: c.Type, delta: st.delta, asked: t.subscribed, change: n}
			m, ok := cache[key]
			if !ok {
				m = s.changeMessage(key, c.Changed, c.Removed, p)
				cache[key] = m
			}
			if m == nil {
				continue
			}
			if p.nodes[i] == "" {
				p.nodes[i] = s.nodes[i]
				p.Streams++
			}
			p.Messages++
			p.Bytes += int64(len(m.data))
			st.enqueue(m)
		}
	}
	return p
}

// changeMessage marshals a push for streams with the same subscription; nil if
// it does not concern them.
func (s *Server) changeMessage(key memoKey, changed []Resource, removed []string, p *Push) *message {
	if !key.delta && key.asked == nil {
		return s.marshal(key.typeURL, false, s.configuration[key.typeURL], nil, p)
	}
	if key.asked != nil {
		var some []Resource
		for _, r := range changed {
			if key.asked.has(r.Name) {
				some = append(some, r)
			}
		}
		var gone []string
		for _, name := range removed {
			if key.asked.has(name) {
				gone = append(gone, name)
			}
		}
		if len(some) == 0 && len(gone) == 0 {
			return nil
		}
		changed, removed = some, gone
	}
	return s.marshal(key.typeURL, key.delta, changed, removed, p)
}
