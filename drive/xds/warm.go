package xds

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// heldAck is an acknowledgement that waits for clusters to warm.
type heldAck struct {
	head wire.Head
	sent func(int64)
}

// maxHeld limits the held acknowledgements of a proxy.
const maxHeld = 16

// warmLimit limits how long an acknowledgement is held. Istiod gives clusters an
// initial_fetch_timeout of 0, with which Envoy waits forever. A proxy that waits
// forever yields no measurement, and istiod normally answers long before the
// limit.
const warmLimit = time.Minute

func (f *Fleet) warmLimit() time.Duration {
	return time.Duration(cmp.Or(f.warmAfter.Load(), int64(warmLimit)))
}

// warm updates the list of clusters that wait for endpoints, after a CDS
// response changed the EDS subscription of the proxy.
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

// arrived handles an EDS response: the clusters that it names are warm, including
// those without endpoints and those that it removes, because Envoy's
// EdsClusterImpl then finishes its initialisation (validateUpdateSize in
// source/extensions/clusters/eds/eds.cc).
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

// hold delays the acknowledgement of a CDS response until the new clusters in it
// have their endpoints. Envoy does the same after its start, because it pauses
// CDS while clusters warm (ClusterManagerImpl in
// source/common/upstream/cluster_manager_impl.cc), but not for the first
// response of a stream.
func (p *proxy) hold(head *wire.Head, sent func(int64)) {
	if len(p.held) == 0 {
		p.heldSince = time.Now()
		if !p.timed {
			p.timed = true
			p.callAt(p.heldSince.Add(p.fleet.warmLimit()), (*proxy).overdue)
		}
	}
	p.held = append(p.held, heldAck{sent: sent, head: wire.Head{Nonce: bytes.Clone(head.Nonce), Version: bytes.Clone(head.Version)}})
	if len(p.warming) == 0 || len(p.held) > maxHeld {
		p.release()
	}
}

// overdue releases the held acknowledgements when the limit has passed since the
// first of them was held.
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
	p.timed = true // the timer was for earlier ones, released since
	p.callAt(p.heldSince.Add(limit), (*proxy).overdue)
}

// release sends the held acknowledgements in order.
func (p *proxy) release() {
	held := p.held
	p.held, p.warming = nil, nil
	for i := range held {
		p.reply(cds, kindURLs[cds], &held[i].head, "", held[i].sent)
	}
}

// forget drops contents that the proxy does not subscribe to. They arrive when a
// push crosses the end of a subscription, and Envoy ignores them.
func (p *proxy) forget(k kind) {
	if t := p.tables[k].Load(); t.count > len(p.subscribed[k].ids) {
		p.move(k, p.fleet.catalogue.strays(t, p.subscribed[k]))
	}
}

// settle returns sent extended by the callbacks left over from an earlier stream,
// which run when a CDS response is acknowledged.
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

// drainAfter is how long a removed listener keeps running, and with it its
// subscription to routes: Envoy's --drain-time-s as pilot-agent sets it.
const drainAfter = 45 * time.Second

// drain unsubscribes from routes that no listener refers to any more.
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
