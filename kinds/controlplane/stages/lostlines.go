package stages

import (
	"sort"

	"github.com/meshtrial/meshtrial/observe"
)

// within reports whether a push, by istiod's clock, lies between the readings of its metrics.
// Without readings every push does.
func (l *pushLog) within(p push) bool {
	return l.ToNS == 0 || p.pushing-l.AheadNS >= l.FromNS && p.pushing-l.AheadNS <= l.ToNS
}

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
	for _, lines := range logs {
		l := newPushLog(lines)
		for _, p := range l.pushes {
			if l.within(p) {
				counted[""]--
			}
		}
		for key, times := range l.sent {
			if _, ok := counted[key.kind]; ok {
				counted[key.kind] -= l.between(times)
			}
		}
	}
	of = int(rises[timeContext+"_count"])
	for _, kind := range loggedTypes {
		of += int(rises[series(timePush+"_count", kind)])
	}
	for _, n := range counted {
		lost += max(0, n)
	}
	return lost, of
}

// between counts instants between the readings of the metrics.
func (l *pushLog) between(times []int64) int {
	if l.ToNS == 0 {
		return len(times)
	}
	from := sort.Search(len(times), func(i int) bool { return times[i] >= l.FromNS+l.AheadNS })
	to := sort.Search(len(times), func(i int) bool { return times[i] > l.ToNS+l.AheadNS })
	return to - from
}
