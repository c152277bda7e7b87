package xdsserver

import (
	"context"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
)

// infinite is how long gRPC waits before it checks whether a silent client is
// alive. If gRPC does that at all (by default after two hours), it also sets
// TCP_USER_TIMEOUT to the 20 s that it would wait for the answer: on a busy
// machine, the kernel then ends connections whose client does not read for that
// long (google.golang.org/grpc, internal/transport, NewServerTransport).
const infinite = time.Duration(math.MaxInt64)

// Counts says what a server has done since it started.
type Counts struct{ Streams, Responses, Acks, Nacks int }

// Server serves one configuration to all its streams.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	grpc   *grpc.Server
	stamps stamps

	mu            sync.Mutex
	configuration Configuration
	version       int
	counts        Counts
	names         map[string][]string // the sets of subscribed names, each once
	streams       map[*stream]bool    // that are open
}

// New returns a server of a configuration.
func New(c Configuration, options ...grpc.ServerOption) *Server {
	c.sort()
	s := &Server{configuration: c, version: 1, names: map[string][]string{}, streams: map[*stream]bool{}}
	s.grpc = grpc.NewServer(append(options, grpc.KeepaliveParams(keepalive.ServerParameters{Time: infinite}))...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s.grpc, s)
	return s
}

// Serve accepts clients until [Server.Close].
func (s *Server) Serve(l net.Listener) error { return s.grpc.Serve(&stamping{l, &s.stamps}) }

// Close ends all streams and listeners.
func (s *Server) Close() { s.grpc.Stop() }

// Counts returns what the server has done so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// stream is one client. The server's mu guards it.
type stream struct {
	server *Server
	delta  bool
	node   string   // ID
	conn   *stamped // nil if unknown
	types  map[string]*typeState
	queue  []*message
	wake   chan struct{}
}

// typeState is what a client has requested of one type.
type typeState struct {
	names   []string   // sorted; nil: all
	nonce   string     // of the latest response
	waiting []*message // unacknowledged responses, oldest first
}

// message is a response.
type message struct {
	typeURL        string
	nonce, version string
	resources      []Resource
	removed        []string
	push           *Push // the push it belongs to, or nil
}

// request is what both protocols have in common.
type request struct {
	typeURL, nonce, node string
	failed               bool
	add, remove, held    []string
	all                  bool // it requests all of the type, if it is the first request
	whole                bool // add has all names
}

// DeltaAggregatedResources implements the protocol of changes.
func (s *Server) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(g.Context(), true, func() (request, error) {
		m, err := g.Recv()
		add := m.GetResourceNamesSubscribe()
		return request{typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), node: m.GetNode().GetId(),
			failed: m.GetErrorDetail() != nil, add: add, remove: m.GetResourceNamesUnsubscribe(),
			held: slices.Collect(maps.Keys(m.GetInitialResourceVersions())),
			all:  len(add) == 0 || slices.Contains(add, "*")}, err
	}, func(m *message) error {
		out := &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: m.typeURL, Nonce: m.nonce, SystemVersionInfo: m.version, RemovedResources: m.removed}
		for _, r := range m.resources {
			resource := &discoveryv3.Resource{Name: r.Name, Version: m.version, Resource: r.Any}
			out.Resources = append(out.Resources, resource)
		}
		return g.Send(out)
	})
}

// StreamAggregatedResources implements the protocol of the state of the world.
func (s *Server) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(g.Context(), false, func() (request, error) {
		m, err := g.Recv()
		return request{typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), node: m.GetNode().GetId(),
			failed: m.GetErrorDetail() != nil, add: m.GetResourceNames(),
			all: len(m.GetResourceNames()) == 0, whole: true}, err
	}, func(m *message) error {
		out := &discoveryv3.DiscoveryResponse{TypeUrl: m.typeURL, Nonce: m.nonce, VersionInfo: m.version}
		for _, r := range m.resources {
			out.Resources = append(out.Resources, r.Any)
		}
		return g.Send(out)
	})
}

// serve serves a client until it leaves. Requests have a separate goroutine,
// which ends when the stream does.
func (s *Server) serve(ctx context.Context, delta bool, receive func() (request, error), send func(*message) error) error {
	st := &stream{server: s, delta: delta, types: map[string]*typeState{}, wake: make(chan struct{}, 1)}
	if from, ok := peer.FromContext(ctx); ok {
		st.conn = s.stamps.of(from.Addr.String())
	}
	s.mu.Lock()
	s.streams[st] = true
	s.counts.Streams++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, st)
		s.mu.Unlock()
	}()
	ended := make(chan error, 1)
	go func() {
		for {
			r, err := receive()
			if err != nil {
				ended <- err
				return
			}
			st.take(r)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case <-st.wake:
		}
		s.mu.Lock()
		batch := st.queue
		st.queue = nil
		s.mu.Unlock()
		for _, m := range batch {
			if err := send(m); err != nil {
				return err
			}
		}
	}
}

// take handles a request: an acknowledgement, a subscription, or both.
func (st *stream) take(r request) {
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.node != "" {
		st.node = r.node
	}
	t, again := st.types[r.typeURL]
	if !again {
		t = &typeState{}
		st.types[r.typeURL] = t
		m := &message{typeURL: r.typeURL, resources: s.configuration[r.typeURL]}
		if !r.all {
			t.names = s.set(r.add)
			m.resources, m.removed = s.find(r.typeURL, t.names)
		}
		_, gone := s.find(r.typeURL, r.held) // the client holds them from an earlier stream
		m.removed = append(m.removed, gone...)
		st.enqueue(t, m)
		return
	}
	if i := slices.IndexFunc(t.waiting, func(m *message) bool { return m.nonce == r.nonce }); i >= 0 {
		st.answered(t.waiting[i], r.failed)
		t.waiting = slices.Delete(t.waiting, 0, i+1)
	}
	if t.names == nil || r.whole && r.nonce != "" && r.nonce != t.nonce { // it belongs to an earlier response
		return
	}
	before := t.names
	if r.whole {
		t.names = s.set(r.add)
	} else if len(r.add)+len(r.remove) > 0 {
		t.names = s.set(slices.DeleteFunc(slices.Concat(before, r.add), func(name string) bool {
			return slices.Contains(r.remove, name)
		}))
	}
	// Like istiod, respond only to new names.
	added := slices.DeleteFunc(slices.Clone(t.names), func(name string) bool { return has(before, name) })
	if len(added) > 0 {
		m := &message{typeURL: r.typeURL}
		m.resources, m.removed = s.find(r.typeURL, added)
		st.enqueue(t, m)
	}
}

func has(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}

// set returns names sorted, each once. Streams with the same names share them.
func (s *Server) set(names []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	key := strings.Join(sorted, "\x00")
	if s.names[key] == nil {
		s.names[key] = append([]string{}, sorted...)
	}
	return s.names[key]
}

// find returns the resources of these names, and the names that there are not.
func (s *Server) find(typeURL string, names []string) (found []Resource, missing []string) {
	for _, name := range names {
		if i, ok := s.configuration.find(typeURL, name); ok {
			found = append(found, s.configuration[typeURL][i])
		} else {
			missing = append(missing, name)
		}
	}
	return found, missing
}

func (st *stream) enqueue(t *typeState, m *message) {
	st.server.counts.Responses++
	m.nonce, m.version = strconv.Itoa(st.server.counts.Responses), strconv.Itoa(st.server.version)
	t.nonce, t.waiting, st.queue = m.nonce, append(t.waiting, m), append(st.queue, m)
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// answered records a client's answer to a response.
func (st *stream) answered(m *message, failed bool) {
	if failed {
		st.server.counts.Nacks++
		return
	}
	st.server.counts.Acks++
	if m.push != nil && st.conn != nil {
		m.push.wrote[st.node] = st.conn.at.Load()
	}
}

// Push is a change of the configuration on its way to all streams.
type Push struct {
	Streams int // number of receiving streams
	server  *Server
	wrote   map[string]int64
}

// Wrote returns when the write of the push to each client's connection began, by the
// node's ID, in nanoseconds since 1970, for those that have acknowledged it. Each
// stream must have a connection of its own.
func (p *Push) Wrote() map[string]int64 {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return maps.Clone(p.wrote)
}

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
	p := &Push{server: s, wrote: map[string]int64{}}
	for st := range s.streams {
		told := false
		for _, c := range changes {
			t := st.types[c.Type]
			if t == nil {
				continue
			}
			m := &message{typeURL: c.Type, resources: c.Changed, removed: c.Removed, push: p}
			switch {
			case t.names != nil:
				m.resources, m.removed = slices.Clone(c.Changed), slices.Clone(c.Removed)
				m.resources = slices.DeleteFunc(m.resources, func(r Resource) bool { return !has(t.names, r.Name) })
				m.removed = slices.DeleteFunc(m.removed, func(name string) bool { return !has(t.names, name) })
				if len(m.resources)+len(m.removed) == 0 {
					continue
				}
			case !st.delta:
				m.resources = s.configuration[c.Type]
			}
			st.enqueue(t, m)
			told = true
		}
		if told {
			p.Streams++
		}
	}
	return p
}
