package stages

import (
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/observe"
)

// pushLog is what one istiod's log tells of its pushes, by istiod's clock
// where nothing else is said.
type pushLog struct {
	observe.IstiodLines
	pushes []push // in the order of their last changes
	queued []push // the same, as they were logged
	sent   map[sending][]int64
	nodes  map[string]bool
}

// push is one push of istiod's to all proxies, by istiod's clock.
type push struct {
	first, lastChange int64 // when the merged changes came
	stable            int64 // when debouncing ended
	pushing           int64 // when proxies were queued
	debounced         bool  // the first three are known
}

// sending is a type of resources that proxies are sent.
type sending struct{ kind, node string }

func newPushLog(lines observe.IstiodLines) *pushLog {
	l := &pushLog{IstiodLines: lines, sent: map[sending][]int64{}, nodes: map[string]bool{}}
	var open *observe.LogEvent // a LogDebounced whose LogPushing has not come
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
		// Mostly at the end: a push of endpoints that need not wait may
		// overtake one that does.
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

// knows tells whether anything was sent to a node here.
func (l *pushLog) knows(node string) bool {
	return l.nodes[node]
}

// before finds the latest line of a type and node that is not after an
// instant, by the events' clock.
func (l *pushLog) before(kind, node string, at int64) (int64, bool) {
	times := l.sent[sending{kind, node}]
	at += l.AheadNS
	i := sort.Search(len(times), func(i int) bool { return times[i] > at })
	if i == 0 {
		return 0, false
	}
	return times[i-1] - l.AheadNS, true
}

// carrying finds the push that a change went out with: the first that merged
// something at or after the change was sent to the API server, and that began
// before a proxy had it. All by the events' clock. endpoints says that the
// change is one of endpoints alone, which need not wait when istiod does not
// debounce them.
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
