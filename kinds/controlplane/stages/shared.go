package stages

import (
	"math"
	"sort"

	"github.com/meshtrial/meshtrial/record"
)

// A change need not wait for its own push. Istiod's registries have it before debouncing is
// notified of it, and the push context is read from the registries after debouncing has ended:
// pilot/pkg/xds/discovery.go (debounce, Push) and pilot/pkg/model/push_context.go (updateContext).
// What arrives in between goes out with the push of others, and its own push, one debounce later,
// brings proxies nothing new. Endpoints are looked up even later, when a proxy's endpoints are
// generated.

// riding finds the push of others that a change went out with: the first whose push context existed
// after the change was sent to the API server, if that was before a proxy had the change.
func (l *pushLog) riding(sent, received int64) (push, bool) {
	i := sort.Search(len(l.queued), func(i int) bool { return l.queued[i].pushing >= sent })
	if i == len(l.queued) || l.queued[i].pushing > received {
		return push{}, false
	}
	return l.queued[i], true
}

// during finds the latest push whose proxies had been queued by an instant.
func (l *pushLog) during(at int64) (push, bool) {
	i := sort.Search(len(l.queued), func(i int) bool { return l.queued[i].pushing > at })
	if i == 0 {
		return push{}, false
	}
	return l.queued[i-1], true
}

// notifiedAt returns when istiod was notified of a change that went out, by an instant, with a push
// of others. The change's own later push shows that time.
func (m *maker) notifiedAt(e *record.Event, l *pushLog, by int64) int64 {
	if own, ok := l.carrying(last(e), math.MaxInt64, endpointsAlone(e)); ok && own.debounced {
		at, _ := m.entered(e, own)
		return min(at, by)
	}
	if e.WatchedNS > 0 {
		return min(e.WatchedNS, by)
	}
	return min(e.CommittedNS, by)
}

// boarded adds watch, debounce and push context of a change that went out with a push of others:
// what remained of them when it arrived.
func (m *maker) boarded(e *record.Event, l *pushLog, p push) {
	at := m.notifiedAt(e, l, p.pushing)
	m.stages[record.StageWatch].add(float64(at-e.CommittedNS), byRide)
	m.stages[record.StageDebounce].add(float64(max(0, p.stable-at)), byRide)
	m.stages[record.StagePushContext].add(float64(p.pushing-max(at, p.stable)), byRide)
}

// joined adds the stages of an endpoint change that arrived during a proxy's turn, which sent its
// endpoints. It returns false if no log line shows that.
func (m *maker) joined(e *record.Event, l *pushLog, node string, received int64) bool {
	p, ok := l.during(last(e))
	if !ok || !endpointsAlone(e) {
		return false
	}
	kind, sent := l.sentTo(e, node, p.pushing, received)
	if kind == "" || sent < last(e) {
		return false
	}
	at := m.notifiedAt(e, l, sent)
	for name, took := range map[string]int64{record.StageWatch: at - e.CommittedNS, record.StageDebounce: 0, record.StagePushContext: 0,
		record.StageQueue: 0, record.StageGenerate: sent - at} {
		m.stages[name].add(float64(took), byRide)
	}
	m.full++
	m.stages[record.StageWire].add(float64(received-sent), byBoth)
	return true
}
