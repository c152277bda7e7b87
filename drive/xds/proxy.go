package xds

import (
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// proxy is one simulated sidecar, gateway or ztunnel. Except for its tables and atomic
// fields, the lock of its connection guards it. While it has no connection, the gate
// owns it.
type proxy struct {
	fleet *Fleet
	spec  *Proxy
	index int32

	link     *link
	stream   *stream.Stream
	ends     string        // why the proxy itself ends the stream; "" if it does not
	epoch    uint32        // counts streams, so that late timers of earlier streams have no effect
	attempts int           // failed since it was last connected
	rests    time.Duration // of a ztunnel: its latest back-off

	everAsked  bool // has had a stream that was answered
	connected  bool
	synced     bool
	syncedAt   int64 // ns since 1970
	without    int64 // since when it has lacked configuration after the loss of a stream, ns since 1970; 0: it lacks none
	asked      kindSet
	answered   kindSet      // of this stream
	accepted   kindSet      // ever
	took       [kinds]int64 // when it last took a response, ns since 1970
	tables     [kinds]atomic.Pointer[table]
	subscribed [kinds]*nameSet
	nonces     [kinds]string // of the last response; state-of-the-world mode only
	versions   [kinds]string // of the last accepted response

	held      []heldAck     // ACKs of clusters that wait for endpoints
	warming   []uint32      // clusters whose endpoints they wait for
	heldSince time.Time     // the first of them
	timed     bool          // there is a timer for them
	taking    bool          // a response is being handled
	later     []request     // requests that are due some time after the response they answer
	owed      []func(int64) // callbacks of ACKs that were held when their stream ended
	draining  bool          // a drain of routes without a listener is scheduled
}

// kindSet is a set of kinds.
type kindSet uint16

// optional kinds may never be answered: istiod does not respond if it has
// nothing to send, and old versions do not know workloads.
const optional kindSet = 1<<nds | 1<<ecds | 1<<workloads

func (s kindSet) has(k kind) bool { return s&(1<<k) != 0 }
func (s *kindSet) add(k kind)     { *s |= 1 << k }

// open opens a stream. The connection's lock is held.
func (p *proxy) open(conn *stream.Conn) error {
	f := p.fleet
	node, err := f.spec.node(p.spec)
	if err != nil {
		return err
	}
	path := wire.DeltaMethod
	if f.spec.Mode == ModeSotW {
		path = wire.SotWMethod
	}
	s, err := conn.Open(path, f.metadata(p.spec), p)
	if err != nil {
		return err
	}
	p.stream, p.ends, p.epoch = s, "", p.epoch+1
	p.asked, p.answered = 0, 0
	p.nonces = [kinds]string{}
	p.giveUp()
	for _, h := range p.held { // the new stream's first CDS ACK also covers these
		if h.sent != nil {
			p.owed = append(p.owed, h.sent)
		}
	}
	p.held, p.warming, p.timed, p.draining = nil, nil, false, false
	if p.spec.nodeType() == NodeZtunnel {
		for _, k := range ztunnelKinds { // each request carries the node
			p.ask(k, node)
		}
		return nil
	}
	p.ask(cds, node)
	if f.spec.discoversWorkloads(p.spec) {
		p.ask(workloads, nil)
	}
	if !p.everAsked {
		return nil
	}
	// After a reconnect Envoy renews all its subscriptions.
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

// ask sends the first request of a kind on this stream.
func (p *proxy) ask(k kind, node []byte) {
	p.asked.add(k)
	table, version := p.tables[k].Load(), p.versions[k]
	if k == nds { // pilot-agent itself asks for the name table, again on each stream
		table, version = emptyTables[k], ""
	}
	names := p.subscribed[k].names
	var b []byte
	p.fleet.joining.asks()
	if p.fleet.spec.Mode == ModeDelta && node == nil && table.count == 0 && len(names) > 0 {
		p.say(request{message: p.fleet.catalogue.diff(noNames, p.subscribed[k]).request, shared: true})
		return
	}
	if p.fleet.spec.Mode == ModeDelta {
		r := wire.DeltaRequest{Node: node, TypeURL: kindURLs[k], Subscribe: names}
		if table.count > 0 {
			r.Initial = p.fleet.catalogue.initial(table)
		}
		b = r.Append(p.link.scratch[:0])
	} else {
		r := wire.SotWRequest{Version: []byte(version), Node: node, TypeURL: kindURLs[k], Names: names}
		b = r.Append(p.link.scratch[:0])
	}
	p.send(b, nil)
}

// send passes a message to the stream and keeps its buffer for reuse.
func (p *proxy) send(b []byte, sent func(int64)) {
	p.say(request{message: b, sent: sent})
	if cap(b) <= maxScratch {
		p.link.scratch = b[:0]
	}
}

// maxScratch is the largest request buffer, in bytes, that a link keeps: enough
// for an ACK.
const maxScratch = 4 << 10

// Message handles a response.
func (p *proxy) Message(message []byte, at int64) {
	f := p.fleet
	f.lastMessage.Store(at)
	r, head, err := f.catalogue.read(message, at)
	if err != nil {
		f.malformed.Add(1)
		p.end(reasonMalformed, reasonMalformed+": "+err.Error())
		return
	}
	p.taking = true
	p.take(r, &head, len(message), at)
	p.taking = false
	if p.spec.behaviour() == BehaviourSlowReader && p.stream != nil {
		p.stream.Pause()
		p.callAt(time.Now().Add(time.Duration(f.spec.SlowReadMS)*time.Millisecond), func(p *proxy) { p.stream.Resume() })
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
			p.callAt(time.Now().Add(f.stormAfter()), func(p *proxy) { p.end(reasonStorm, reasonStorm) })
		}
	}
	count := &f.wire[r.kind]
	count.responses.Add(1)
	count.bytes.Add(int64(size))
	f.joining.gets(r.kind, at)
	if r.kind == kinds {
		p.reply(kinds, string(head.TypeURL), head, "", nil)
		return
	}
	k := r.kind
	reject := r.fault
	if p.spec.behaviour() == BehaviourRejects && p.accepted.has(k) {
		reject = "meshtrial: this proxy rejects everything after the first response"
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
	if s.changed() {
		f.lastChange.Store(at)
	}
	var n noted
	n.collect(f, p, s, at)
	wanted := p.subscribed[eds]
	next := p.follow(k, s.to, &n, at)
	if p.synced {
		if newest := f.catalogue.began(s, p.took[k], at); newest > p.syncedAt {
			n.newest = newest
		}
	}
	p.took[k] = at
	if f.spec.Mode == ModeSotW {
		p.versions[k] = string(head.Version)
	}
	// Envoy subscribes to what a response refers to before it acknowledges
	// the response.
	for _, request := range next {
		request()
	}
	if k == cds && again {
		p.warm(wanted)
	}
	if k == eds && len(p.held) > 0 {
		p.arrived(r)
	}
	if k == cds && (len(p.held) > 0 || len(p.warming) > 0) {
		p.hold(head, n.sent(f))
	} else {
		p.reply(k, kindURLs[k], head, "", p.settle(k, n.sent(f)))
	}
	p.advance(at)
}

// move applies a response to the table of a kind and returns the step.
func (p *proxy) move(k kind, r *response) *step {
	s := p.fleet.catalogue.step(p.tables[k].Load(), r)
	p.tables[k].Store(s.to)
	return s
}

// prune drops contents that the proxy no longer subscribes to.
func (p *proxy) prune(k kind, r *response, n *noted, at int64) {
	s := p.move(k, r)
	p.fleet.catalogue.began(s, p.took[k], at)
	n.collect(p.fleet, p, s, at)
}

// follow updates the subscriptions that depend on a changed table and drops
// contents no longer subscribed to. It returns the requests to send.
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
			p.prune(k, d.prune, n, at)
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
			p.callAt(time.Now().Add(drainAfter), func(p *proxy) { p.drain(time.Now().UnixNano()) })
		}
	}
	return requests
}

// subscribe sends a change of subscription in a separate request, without an ACK.
func (p *proxy) subscribe(k kind, d *diff) {
	switch {
	case !p.asked.has(k):
		if len(p.subscribed[k].ids) > 0 {
			p.ask(k, nil)
		}
	case p.fleet.spec.Mode == ModeDelta:
		p.say(request{message: d.request, shared: true})
	default:
		// In state-of-the-world mode a request carries the last nonce and all names.
		r := wire.SotWRequest{Version: []byte(p.versions[k]), TypeURL: kindURLs[k], Names: p.subscribed[k].names, Nonce: []byte(p.nonces[k])}
		p.send(r.Append(p.link.scratch[:0]), nil)
	}
}

// reply acknowledges a response, or rejects it if fault is not empty.
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

// advance requests the next kind when a new proxy has the previous ones, and records
// when it has everything.
func (p *proxy) advance(at int64) {
	if !p.asked.has(lds) && p.answered.has(cds) && (p.answered.has(eds) || !p.asked.has(eds)) {
		p.ask(lds, nil)
		if p.wantsNDS() {
			p.ask(nds, nil)
		}
	}
	last := lds // the last of the kinds that every proxy requests
	if p.spec.nodeType() == NodeZtunnel {
		last = wads
	}
	if p.synced || !p.asked.has(last) || p.asked&^(p.answered&p.accepted)&^optional != 0 {
		return
	}
	if p.syncedAt == 0 {
		p.fleet.everSynced.Add(1)
	}
	p.synced, p.syncedAt = true, at
	p.fleet.outage.Load().returns(p.index, p.without, at)
	p.without = 0
	p.fleet.synced.Add(1)
}

// end ends the proxy's stream.
func (p *proxy) end(reason, message string) {
	p.ends = reason
	p.stream.Cancel(message)
}

// Closed handles the end of a stream.
func (p *proxy) Closed(status *stream.Status) {
	p.stream = nil
	p.fleet.lost(p, status)
}
