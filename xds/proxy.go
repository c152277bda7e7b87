package xds

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/meshmark/meshmark/xds/stream"
	"github.com/meshmark/meshmark/xds/wire"
)

// proxy is one simulated sidecar or gateway. Except for its tables and what
// is atomic it belongs to whoever holds the lock of its connection, or to the
// gate while it has none.
type proxy struct {
	fleet *Fleet
	spec  *Proxy
	index int32

	link     *link
	stream   *stream.Stream
	epoch    uint32 // counts streams, so that a late timer finds nothing to do
	attempts int    // failed since it was last connected

	everAsked  bool // has had a stream that was answered
	connected  bool
	synced     bool
	syncedAt   int64 // ns since 1970
	asked      kindSet
	answered   kindSet // of this stream
	accepted   kindSet // ever
	tables     [kinds]atomic.Pointer[table]
	subscribed [kinds]*nameSet
	nonces     [kinds]string // state of the world only: of the last response
	versions   [kinds]string // of the last that was accepted

	held     []heldAck     // ACKs of clusters that wait for endpoints
	lack     int           // endpoints that were missing before those
	owed     []func(int64) // of ACKs that were held when their stream ended
	draining bool          // routes without a listener are about to be let go
}

// heldAck is an acknowledgement that has to wait.
type heldAck struct {
	head wire.Head
	sent func(int64)
}

// maxHeld bounds the acknowledgements that wait.
const maxHeld = 16

// kindSet is a set of kinds.
type kindSet uint8

// optional kinds may stay without an answer: istiod is silent where it has
// nothing.
const optional kindSet = 1<<nds | 1<<ecds

func (s kindSet) has(k kind) bool { return s&(1<<k) != 0 }
func (s *kindSet) add(k kind)     { *s |= 1 << k }

// open begins a stream. The connection's lock is held.
func (p *proxy) open(conn *stream.Conn) error {
	f := p.fleet
	node, err := f.spec.node(p.spec)
	if err != nil {
		return err
	}
	path := "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	if f.spec.Mode == ModeSotW {
		path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	}
	s, err := conn.Open(path, f.metadata(p.spec), p)
	if err != nil {
		return err
	}
	p.stream, p.epoch = s, p.epoch+1
	p.asked, p.answered = 0, 0
	p.nonces = [kinds]string{}
	for _, h := range p.held { // the new stream's first ACK of clusters is for these too
		if h.sent != nil {
			p.owed = append(p.owed, h.sent)
		}
	}
	p.held, p.draining = nil, false
	p.ask(cds, node)
	if !p.everAsked {
		return nil
	}
	// After a reconnect Envoy knows what it wants and asks for all of it.
	for _, k := range []kind{eds, lds, nds, rds, ecds} {
		if k == nds && !p.wantsNDS() || !k.wildcard() && len(p.subscribed[k].ids) == 0 {
			continue
		}
		p.ask(k, nil)
	}
	return nil
}

func (p *proxy) wantsNDS() bool {
	return p.fleet.spec.DNSCapture && p.spec.nodeType() == NodeSidecar
}

// ask sends the first request for a kind on this stream.
func (p *proxy) ask(k kind, node []byte) {
	p.asked.add(k)
	table := p.tables[k].Load()
	names := p.subscribed[k].names
	var b []byte
	if p.fleet.spec.Mode == ModeDelta {
		r := wire.DeltaRequest{Node: node, TypeURL: kindURLs[k], Subscribe: names}
		if table.count > 0 {
			r.Initial = p.fleet.catalogue.initial(table)
		}
		b = r.Append(p.link.scratch[:0])
	} else {
		r := wire.SotWRequest{Version: []byte(p.versions[k]), Node: node, TypeURL: kindURLs[k], Names: names}
		b = r.Append(p.link.scratch[:0])
	}
	p.send(b, nil)
}

// send hands a message to the stream and keeps its buffer for the next.
func (p *proxy) send(b []byte, sent func(int64)) {
	p.stream.Send(b, sent)
	if cap(b) <= maxScratch {
		p.link.scratch = b[:0]
	}
}

// maxScratch bounds the buffer for requests that a link keeps, bytes: enough
// for an ACK.
const maxScratch = 4 << 10

// Message takes a response.
func (p *proxy) Message(message []byte, at int64) {
	f := p.fleet
	f.lastMessage.Store(at)
	head, err := wire.Peek(message)
	if err == nil {
		var r *response
		if r, err = f.catalogue.response(message, &head, at); err == nil {
			p.take(r, &head, len(message), at)
		}
	}
	if err != nil {
		f.malformed.Add(1)
		p.stream.Cancel(reasonMalformed + ": " + err.Error())
		return
	}
	if p.spec.behaviour() == BehaviourSlowReader && p.stream != nil {
		p.stream.Pause()
		f.gate.later(time.Now().Add(f.spec.slowRead()), action{what: resumeProxy, proxy: p, epoch: p.epoch})
	}
}

func (p *proxy) take(r *response, head *wire.Head, size int, at int64) {
	f := p.fleet
	if !p.connected {
		p.connected, p.everAsked, p.attempts = true, true, 0
		f.connected.Add(1)
		f.gate.admitted()
		f.mu.Lock()
		delete(f.waiting, p.index)
		f.mu.Unlock()
		if p.spec.behaviour() == BehaviourReconnectStorm {
			f.gate.later(time.Now().Add(f.stormAfter()), action{what: dropProxy, proxy: p, epoch: p.epoch})
		}
	}
	count := &f.wire[r.kind]
	count.responses.Add(1)
	count.bytes.Add(int64(size))
	if r.kind == kinds {
		p.reply(kinds, string(head.TypeURL), head, "", nil)
		return
	}
	k := r.kind
	reject := r.fault
	if p.spec.behaviour() == BehaviourRejects && p.accepted.has(k) {
		reject = "meshmark: this proxy rejects everything after the first response"
	}
	count.resources.Add(int64(len(r.contents)))
	again := p.answered.has(k)
	p.answered.add(k)
	if reject != "" {
		p.reply(k, kindURLs[k], head, reject, nil)
		p.advance(at)
		return
	}
	p.accepted.add(k)
	s := p.move(k, r)
	if !k.wildcard() {
		p.forget(k)
	}
	count.identical.Add(s.identical)
	count.identicalBytes.Add(s.identicalBytes)
	count.removed.Add(s.removed)
	if s.newest != 0 || s.removed > 0 {
		f.lastChange.Store(at)
	}
	var n noted
	n.collect(f, p, s, at)
	lack := p.lacking()
	next := p.follow(k, s.to, &n, at)
	if p.synced && s.newest > p.syncedAt {
		n.newest = s.newest
	}
	if f.spec.Mode == ModeSotW {
		p.versions[k] = string(head.Version)
	}
	// Envoy subscribes to what a response refers to before it acknowledges
	// the response.
	for _, request := range next {
		request()
	}
	switch {
	case k == cds && again && (len(p.held) > 0 || p.lacking() > lack):
		p.hold(head, n.sent(f), lack)
	case k == eds && len(p.held) > 0 && p.lacking() <= p.lack:
		p.release()
		fallthrough
	default:
		p.reply(k, kindURLs[k], head, "", p.settle(k, n.sent(f)))
	}
	p.advance(at)
}

// settle adds to what is to be done when clusters are acknowledged what an
// earlier stream owes.
func (p *proxy) settle(k kind, sent func(int64)) func(int64) {
	if k != cds || len(p.owed) == 0 {
		return sent
	}
	owed := p.owed
	p.owed = nil
	return func(at int64) {
		for _, o := range owed {
			o(at)
		}
		if sent != nil {
			sent(at)
		}
	}
}

// lacking is how many of the endpoints a proxy asked for it has not got.
func (p *proxy) lacking() int { return len(p.subscribed[eds].ids) - p.tables[eds].Load().count }

// hold keeps back the acknowledgement of clusters until the endpoints of the
// new ones among them are there. Envoy does so once it runs, since it pauses
// CDS while clusters warm (ClusterManagerImpl in
// source/common/upstream/cluster_manager_impl.cc); of the first response of a
// stream it does not.
func (p *proxy) hold(head *wire.Head, sent func(int64), lack int) {
	if len(p.held) == 0 {
		p.lack = lack
	}
	p.held = append(p.held, heldAck{sent: sent, head: wire.Head{TypeURL: head.TypeURL, Nonce: bytes.Clone(head.Nonce), Version: bytes.Clone(head.Version)}})
	if len(p.held) > maxHeld {
		p.release()
	}
}

// release sends the acknowledgements that were held, in their order.
func (p *proxy) release() {
	held := p.held
	p.held = nil
	for i := range held {
		p.reply(cds, kindURLs[cds], &held[i].head, "", held[i].sent)
	}
}

// forget drops what came of names that the proxy does not subscribe to: a
// push and the end of a subscription may cross, and Envoy ignores it.
func (p *proxy) forget(k kind) {
	if t := p.tables[k].Load(); t.count > len(p.subscribed[k].ids) {
		p.move(k, p.fleet.catalogue.strays(t, p.subscribed[k]))
	}
}

// move makes the step that a response asks for.
func (p *proxy) move(k kind, r *response) *step {
	s := p.fleet.catalogue.step(p.tables[k].Load(), r)
	p.tables[k].Store(s.to)
	return s
}

// follow works out what a changed table makes a proxy subscribe to, and drops
// what it subscribes to no longer. It returns the requests to send.
func (p *proxy) follow(k kind, t *table, n *noted, at int64) (requests []func()) {
	if k != cds && k != lds {
		return nil
	}
	refs, exts := p.fleet.catalogue.wants(t)
	change := func(k kind, to *nameSet) {
		from := p.subscribed[k]
		if from == to {
			return
		}
		d := p.fleet.catalogue.diff(from, to)
		p.subscribed[k] = to
		if d.prune != nil {
			n.collect(p.fleet, p, p.move(k, d.prune), at)
		}
		requests = append(requests, func() { p.subscribe(k, d) })
	}
	if k == cds {
		change(eds, refs)
	} else {
		change(rds, p.fleet.catalogue.union(p.subscribed[rds], refs))
		change(ecds, exts)
		if p.subscribed[rds] != refs && !p.draining {
			p.draining = true
			p.fleet.gate.later(time.Now().Add(drainAfter), action{what: drainProxy, proxy: p, epoch: p.epoch})
		}
	}
	return requests
}

// drainAfter is how long a listener that was removed goes on, and with it its
// subscription to routes: Envoy's --drain-time-s as pilot-agent gives it.
const drainAfter = 45 * time.Second

// drain lets go of routes that no listener has any more.
func (p *proxy) drain(at int64) {
	p.draining = false
	from := p.subscribed[rds]
	to, _ := p.fleet.catalogue.wants(p.tables[lds].Load())
	if from == to {
		return
	}
	d := p.fleet.catalogue.diff(from, to)
	p.subscribed[rds] = to
	var n noted
	if d.prune != nil {
		n.collect(p.fleet, p, p.move(rds, d.prune), at)
	}
	p.subscribe(rds, d)
	if sent := n.sent(p.fleet); sent != nil {
		sent(at)
	}
}

// subscribe sends a change of subscription, apart from any ACK.
func (p *proxy) subscribe(k kind, d *diff) {
	switch {
	case !p.asked.has(k):
		if len(p.subscribed[k].ids) > 0 {
			p.ask(k, nil)
		}
	case p.fleet.spec.Mode == ModeDelta:
		p.stream.Send(d.request, nil) // shared: no buffer to keep
	default:
		// Without deltas a request says the last nonce and all names.
		r := wire.SotWRequest{Version: []byte(p.versions[k]), TypeURL: kindURLs[k], Names: p.subscribed[k].names, Nonce: []byte(p.nonces[k])}
		p.send(r.Append(p.link.scratch[:0]), nil)
	}
}

// reply acknowledges a response, or rejects it where fault says why.
func (p *proxy) reply(k kind, url string, head *wire.Head, fault string, sent func(int64)) {
	f := p.fleet
	var b []byte
	if f.spec.Mode == ModeDelta {
		r := wire.DeltaRequest{TypeURL: url, Nonce: head.Nonce, Error: fault}
		b = r.Append(p.link.scratch[:0])
	} else {
		r := wire.SotWRequest{TypeURL: url, Nonce: head.Nonce, Error: fault, Version: head.Version}
		if k < kinds {
			p.nonces[k] = string(head.Nonce)
			r.Version, r.Names = []byte(p.versions[k]), p.subscribed[k].names
		}
		b = r.Append(p.link.scratch[:0])
	}
	if p.spec.behaviour() == BehaviourNeverAcks {
		return
	}
	p.send(b, sent)
	if fault != "" {
		f.wire[k].nacks.Add(1)
	} else {
		f.wire[k].acks.Add(1)
	}
}

// advance asks for the next kind when a new proxy has what comes before, and
// notes when it has everything.
func (p *proxy) advance(at int64) {
	if !p.asked.has(lds) && p.answered.has(cds) && (p.answered.has(eds) || !p.asked.has(eds)) {
		p.ask(lds, nil)
		if p.wantsNDS() {
			p.ask(nds, nil)
		}
	}
	if p.synced || !p.asked.has(lds) || p.asked&^p.answered&^optional != 0 {
		return
	}
	p.synced, p.syncedAt = true, at
	p.fleet.synced.Add(1)
}

// Closed takes the end of a stream.
func (p *proxy) Closed(status *stream.Status) {
	p.stream = nil
	p.fleet.lost(p, status)
}
