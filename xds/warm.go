package xds

import (
	"bytes"
	"time"

	"github.com/meshmark/meshmark/xds/wire"
)

// heldAck is an acknowledgement that has to wait.
type heldAck struct {
	head wire.Head
	sent func(int64)
}

// maxHeld bounds the acknowledgements that wait.
const maxHeld = 16

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
