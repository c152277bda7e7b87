package stages

import (
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/observe"
)

// pushLog holds one istiod's log lines about its pushes, by the events' clock.
type pushLog struct {
	observe.IstiodLines
	pushes []push // sorted by their last changes
	queued []push // the same, as logged
	sent   map[sending][]int64
	nodes  map[string]bool
}

// push is one push from istiod to all proxies.
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
		at := e.At - lines.AheadNS
		p := push{first: at, lastChange: at, stable: at, pushing: at}
		if open != nil {
			p.stable, p.debounced = open.At-lines.AheadNS, true
			p.first, p.lastChange = p.stable-int64(open.Delay), p.stable-int64(open.Quiet)
			open = nil
		}
		l.queued = append(l.queued, p)
		// Usually at the end: a push of endpoints that are not debounced may overtake one that is.
		place := sort.Search(len(l.pushes), func(i int) bool { return l.pushes[i].lastChange > p.lastChange })
		l.pushes = slices.Insert(l.pushes, place, p)
	}
	for _, s := range lines.Sent {
		key := sending{s.Type, s.Node}
		l.nodes[s.Node] = true
		for _, at := range s.At {
			l.sent[key] = append(l.sent[key], at-lines.AheadNS)
		}
	}
	for _, at := range l.sent {
		slices.Sort(at)
	}
	return l
}

// before finds the latest line of a type and node at or before an instant.
func (l *pushLog) before(kind, node string, at int64) (int64, bool) {
	times := l.sent[sending{kind, node}]
	i := sort.Search(len(times), func(i int) bool { return times[i] > at })
	if i == 0 {
		return 0, false
	}
	return times[i-1], true
}

// carrying finds the push that a change went out with: the first that merged something at or after
// the time when the change was sent to the API server, and that began before a proxy had the
// change. endpoints means that the change only concerns endpoints, which need not wait if istiod
// does not debounce them.
func (l *pushLog) carrying(sent, received int64, endpoints bool) (push, bool) {
	i := sort.Search(len(l.pushes), func(i int) bool { return l.pushes[i].lastChange >= sent })
	for _, p := range l.pushes[i:] {
		if p.lastChange > received {
			break
		}
		if (p.debounced || endpoints) && p.pushing <= received {
			return p, true
		}
	}
	return push{}, false
}

// within reports whether an instant lies between the readings of istiod's metrics. Without readings
// every one does.
func (l *pushLog) within(at int64) bool { return l.ToNS == 0 || at >= l.FromNS && at <= l.ToNS }

// loggedTypes are the types whose every sending istiod logs. It does not log endpoints that are
// sent alone.
var loggedTypes = []string{"cds", "lds", "rds"}

// LostLines compares logs with what istiod's metrics counted between the same two readings. It
// returns the number of pushes and their sendings that no log has, and the total. A kubelet keeps
// the last 10 MB of a container's log available (containerLogMaxSize); earlier lines are lost.
func LostLines(logs []observe.IstiodLines, rises map[string]float64) (lost, of int) {
	counted := map[string]int{"": int(rises[timeContext+"_count"])}
	for _, kind := range loggedTypes {
		counted[kind] = int(rises[series(timePush+"_count", kind)])
	}
	for _, n := range counted {
		of += n
	}
	for _, lines := range logs {
		l := newPushLog(lines)
		for _, p := range l.pushes {
			if l.within(p.pushing) {
				counted[""]--
			}
		}
		for key, times := range l.sent {
			for _, at := range times {
				if _, ok := counted[key.kind]; ok && l.within(at) {
					counted[key.kind]--
				}
			}
		}
	}
	for _, n := range counted {
		lost += max(0, n)
	}
	return lost, of
}
