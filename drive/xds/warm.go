package xds

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// heldAck is an acknowledgement that has to wait.
type heldAck struct {
	head wire.Head
	sent func(int64)
}

// maxHeld bounds the acknowledgements that wait.
const maxHeld = 16

// warmLimit bounds how long an acknowledgement waits. Istiod gives clusters an
// initial_fetch_timeout of 0, with which Envoy would wait for ever; nothing can
// be learned from a proxy that does, and istiod answers long before.
const warmLimit = time.Minute

func (f *Fleet) warmLimit() time.Duration {
	return time.Duration(cmp.Or(f.warmAfter.Load(), int64(warmLimit)))
}

// warm works out whose endpoints new clusters wait for, after a response of
// clusters changed what the proxy subscribes to. A cluster that is gone waits
// for nothing.
func (p *proxy) warm(from *nameSet) {
	to := p.subscribed[eds]
	if from == to {
		return
	}
	p.warming = slices.DeleteFunc(p.warming, func(id uint32) bool { return !to.has(id) })
	have := p.tables[eds].Load()
	for _, id := range p.fleet.catalogue.diff(from, to).addedIDs {
		if have.at(id) == nil {
			p.warming = append(p.warming, id)
		}
	}
}

// arrived takes a response of endpoints: clusters that it names are warm. That
// goes for those without endpoints too, and for those of which it says that
// there are none: Envoy's EdsClusterImpl is then done with its initialisation
// (validateUpdateSize in source/extensions/clusters/eds/eds.cc).
func (p *proxy) arrived(r *response) {
	p.warming = slices.DeleteFunc(p.warming, func(id uint32) bool {
		if _, removed := slices.BinarySearch(r.removed, id); removed {
			return true
		}
		_, found := slices.BinarySearchFunc(r.contents, id, func(one *content, id uint32) int { return cmp.Compare(one.name, id) })
		return found
	})
	if len(p.warming) == 0 {
		p.release()
	}
}

// hold keeps back the acknowledgement of clusters until the endpoints of the
// new ones among them are there. Envoy does so once it runs, since it pauses
// CDS while clusters warm (ClusterManagerImpl in
// source/common/upstream/cluster_manager_impl.cc); of the first response of a
// stream it does not.
func (p *proxy) hold(head *wire.Head, sent func(int64)) {
	if len(p.held) == 0 {
		p.heldSince = time.Now()
		if !p.timed {
			p.timed = true
			p.fleet.gate.later(p.heldSince.Add(p.fleet.warmLimit()), action{what: warmProxy, proxy: p, link: p.link, epoch: p.epoch})
		}
	}
	p.held = append(p.held, heldAck{sent: sent, head: wire.Head{Nonce: bytes.Clone(head.Nonce), Version: bytes.Clone(head.Version)}})
	if len(p.warming) == 0 || len(p.held) > maxHeld {
		p.release()
	}
}

// overdue gives up waiting when the limit has passed since the first
// acknowledgement was held.
func (p *proxy) overdue() {
	p.timed = false
	if len(p.held) == 0 {
		return
	}
	limit := p.fleet.warmLimit()
	if time.Since(p.heldSince) >= limit {
		p.release()
		return
	}
	p.timed = true // these came later than those the timer was for
	p.fleet.gate.later(p.heldSince.Add(limit), action{what: warmProxy, proxy: p, link: p.link, epoch: p.epoch})
}

// release sends the acknowledgements that were held, in their order.
func (p *proxy) release() {
	held := p.held
	p.held, p.warming = nil, nil
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
		p.prune(rds, d.prune, &n, at)
	}
	p.subscribe(rds, d)
	if sent := n.sent(p.fleet); sent != nil {
		sent(at)
	}
}
