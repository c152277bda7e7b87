package stages

import (
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/observe"
)

// pushLog holds one istiod's log lines about its pushes, by istiod's clock unless stated otherwise.
type pushLog struct {
	observe.IstiodLines
	pushes []push // sorted by their last changes
	queued []push // the same, as logged
	sent   map[sending][]int64
	nodes  map[string]bool
}

// push is one push from istiod to all proxies, by istiod's clock.
type push struct {
	first, lastChange int64 // when the merged changes arrived
	stable            int64 // end of debouncing
	pushing           int64 // when proxies were queued
	debounced         bool  // the first three are known
}

// sending is a resource type sent to a proxy.
type sending struct{ kind, node string }

func newPushLog(lines observe.IstiodLines) *pushLog {
	l := &pushLog{IstiodLines: lines, sent: map[sending][]int64{}, nodes: map[string]bool{}}
	var open *observe.LogEvent // a LogDebounced whose LogPushing has not come yet
	for i, e := range lines.Pushes {
		if e.Kind == observe.LogDebounced {
			open = &lines.Pushes[i]
			continue
		}
		p := push{first: e.At, lastChange: e.At, stable: e.At, pushing: e.At}
		if open != nil {
			p = push{first: open.At - int64(open.Delay), lastChange: open.At - int64(open.Quiet), stable: open.At, pushing: e.At, debounced: true}
			open = nil
		}
		l.queued = append(l.queued, p)
		// Usually at the end: a push of endpoints that are not debounced may overtake one that is.
		at := sort.Search(len(l.pushes), func(i int) bool { return l.pushes[i].lastChange > p.lastChange })
		l.pushes = slices.Insert(l.pushes, at, p)
	}
	for _, s := range lines.Sent {
		key := sending{s.Type, s.Node}
		l.nodes[s.Node] = true
		l.sent[key] = append(l.sent[key], s.At...)
	}
	for _, at := range l.sent {
		slices.Sort(at)
	}
	return l
}

// knows reports whether this istiod sent anything to a node.
func (l *pushLog) knows(node string) bool {
	return l.nodes[node]
}

// before finds the latest line of a type and node at or before an instant, by the events' clock.
func (l *pushLog) before(kind, node string, at int64) (int64, bool) {
	times := l.sent[sending{kind, node}]
	at += l.AheadNS
	i := sort.Search(len(times), func(i int) bool { return times[i] > at })
	if i == 0 {
		return 0, false
	}
	return times[i-1] - l.AheadNS, true
}

// carrying finds the push that a change went out with: the first that merged something at or after
// the time when the change was sent to the API server, and that began before a proxy had the
// change. All times are by the events' clock. endpoints means that the change only concerns
// endpoints, which need not wait if istiod does not debounce them.
func (l *pushLog) carrying(sent, received int64, endpoints bool) (push, bool) {
	i := sort.Search(len(l.pushes), func(i int) bool { return l.pushes[i].lastChange-l.AheadNS >= sent })
	for ; i < len(l.pushes); i++ {
		p := l.pushes[i].moved(-l.AheadNS)
		if p.lastChange > received {
			break
		}
		if (p.debounced || endpoints) && p.pushing <= received {
			return p, true
		}
	}
	return push{}, false
}
