package xdsserver

import (
	"io"
	"slices"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
)

// maxQueue is the maximum number of queued responses to a client that does not
// read.
const maxQueue = 10_000

// stream is one client.
type stream struct {
	server *Server
	grpc   grpc.ServerStream
	delta  bool
	index  int
	conn   *stamped // nil unless it is timed

	// types is guarded by the server's mu.
	types map[string]*typeState

	mu    sync.Mutex
	queue []*message
	over  bool // too many responses were queued
	wake  chan struct{}
}

// typeState is what a client has requested of one type.
type typeState struct {
	subscribed *subscription // nil: all
	// waiting lists the unacknowledged responses, oldest first.
	waiting []*message
	nonce   string // of the latest response
}

// answered removes the response with a nonce, and earlier ones, from the list;
// it returns nil if that was already answered or is unknown.
func (t *typeState) answered(nonce string) *message {
	for i, m := range t.waiting {
		if m.nonce == nonce {
			t.waiting = slices.Delete(t.waiting, 0, i+1)
			return m
		}
	}
	return nil
}

// run serves the client until it leaves. Requests have a separate goroutine,
// which ends when the stream does.
func (st *stream) run() error {
	failed := make(chan error, 1)
	go func() { failed <- st.receive() }()
	for {
		select {
		case <-st.grpc.Context().Done():
			return st.grpc.Context().Err()
		case err := <-failed:
			return err
		case <-st.wake:
		}
		st.mu.Lock()
		batch, over := st.queue, st.over
		st.queue = nil
		st.mu.Unlock()
		if over {
			return status.Errorf(codes.ResourceExhausted, "%d responses were not read", maxQueue)
		}
		for _, m := range batch {
			if m.push != nil {
				m.push.sent[st.index].Store(time.Now().UnixNano())
			}
			if err := st.send(m); err != nil {
				return err
			}
		}
	}
}

func (st *stream) send(m *message) error {
	st.server.responses.Add(1)
	st.server.bytes.Add(int64(len(m.data)))
	return st.grpc.SendMsg(&rawgrpc.Message{Body: m.data})
}

// enqueue queues a response. The caller holds the server's mu, so responses are
// in nonce order.
func (st *stream) enqueue(m *message) {
	if t := st.types[m.typeURL]; t != nil {
		t.nonce, t.waiting = m.nonce, append(t.waiting, m)
		if len(t.waiting) > maxQueue { // the client never acknowledges
			t.waiting = slices.Delete(t.waiting, 0, maxQueue/2)
		}
	}
	st.mu.Lock()
	if len(st.queue) < maxQueue {
		st.queue = append(st.queue, m)
	} else {
		st.over = true
	}
	st.mu.Unlock()
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// request is what both protocols have in common.
type request struct {
	typeURL, nonce   string
	node             string
	failed           bool
	add, remove      []string
	held             []string
	wantsAll         bool // whether it requests all of the type, if it is the first request
	replacesAllNames bool
}

func (st *stream) receive() error {
	for {
		var m rawgrpc.Message
		err := st.grpc.RecvMsg(&m)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := st.read(m.Body)
		if err != nil {
			st.server.bad.Add(1)
			return status.Errorf(codes.InvalidArgument, "request: %v", err)
		}
		st.take(r)
	}
}

func (st *stream) read(b []byte) (request, error) {
	if st.delta {
		var m discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(b, &m); err != nil {
			return request{}, err
		}
		r := request{typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), node: m.GetNode().GetId(), failed: m.GetErrorDetail() != nil,
			add: m.GetResourceNamesSubscribe(), remove: m.GetResourceNamesUnsubscribe()}
		for name := range m.GetInitialResourceVersions() {
			r.held = append(r.held, name)
		}
		// A first request without names is a wildcard, as is one for "*".
		r.wantsAll = len(r.add) == 0 || slices.Contains(r.add, "*")
		return r, nil
	}
	var m discoveryv3.DiscoveryRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		return request{}, err
	}
	return request{typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), node: m.GetNode().GetId(), failed: m.GetErrorDetail() != nil,
		add: m.GetResourceNames(), wantsAll: len(m.GetResourceNames()) == 0, replacesAllNames: true}, nil
}

// take handles a request: an acknowledgement, a subscription, or both.
func (st *stream) take(r request) {
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.node != "" {
		s.nodes[st.index] = r.node
	}
	t := st.types[r.typeURL]
	if t == nil {
		t = &typeState{}
		st.types[r.typeURL] = t
		key := memoKey{typeURL: r.typeURL, delta: st.delta}
		if !r.wantsAll {
			t.subscribed = s.subscriptions.get(slices.Clone(r.add))
			key.asked = t.subscribed
		}
		if len(r.held) > 0 {
			key.held = s.subscriptions.get(r.held)
		}
		st.enqueue(s.answer(key))
		return
	}
	if r.nonce != "" {
		if m := t.answered(r.nonce); m != nil {
			st.count(m, r.failed)
		}
		if r.nonce != t.nonce && r.replacesAllNames {
			return // its names belong to an earlier response
		}
	}
	if t.subscribed == nil { // already subscribed to all
		return
	}
	before := t.subscribed
	if r.replacesAllNames {
		t.subscribed = s.subscriptions.get(slices.Clone(r.add))
	} else {
		t.subscribed = s.subscriptions.change(before, r.add, r.remove)
	}
	if t.subscribed == before {
		return
	}
	// Like istiod, respond only to new names.
	var added []string
	for _, name := range t.subscribed.names {
		if !before.has(name) {
			added = append(added, name)
		}
	}
	if len(added) > 0 {
		st.enqueue(s.answer(memoKey{typeURL: r.typeURL, delta: st.delta, asked: s.subscriptions.get(added)}))
	}
}

// count records a client's answer to a response.
func (st *stream) count(m *message, failed bool) {
	s := st.server
	if failed {
		s.nacks.Add(1)
		if m.push != nil {
			m.push.nacks.Add(1)
		}
		return
	}
	s.acks.Add(1)
	if m.push != nil {
		if st.conn != nil {
			m.push.wrote[st.index].Store(st.conn.at.Load())
		}
		m.push.acked[st.index].Store(time.Now().UnixNano())
		m.push.acks.Add(1)
	}
}
