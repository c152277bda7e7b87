package stages

import "github.com/meshtrial/meshtrial/observe"

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
