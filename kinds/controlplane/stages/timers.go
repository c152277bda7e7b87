package stages

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// untimed is by how much longer turns take than istiod's timers of types say:
// computing the proxy's state, types that turn out to need nothing, and
// whenever the turn's goroutine does not run, are in none of them but in
// pilot_proxy_convergence_time. When in a turn that is, nobody knows; it is
// spread over the types in proportion.
func (m *maker) untimed() float64 {
	turn, ok := m.mean(timeTurn, "")
	queued, okQueue := m.mean(timeQueue, "")
	if !ok || !okQueue {
		return 1
	}
	turns, timed := m.in.Rises[timeTurn+"_count"], 0.0
	for _, key := range slices.Sorted(maps.Keys(m.in.Rises)) { // in one order: the same sum each time
		count := m.in.Rises[key]
		if kind, ok := kindOf(key, timePush+"_count"); ok && count > 0 {
			// More than one a turn were answers to requests.
			mean, _ := m.mean(timePush, kind)
			timed += mean * min(1, count/turns)
		}
	}
	if timed <= 0 || turn <= queued {
		return 1
	}
	return (turn - queued) / timed
}

// queued adds the mean of istiod's timer of the queue, if it ran at all.
func (m *maker) queued() {
	if mean, ok := m.mean(timeQueue, ""); ok {
		m.stages[record.StageQueue].add(mean, timeQueue)
	}
}

// generation adds the mean time of the types up to the change's last marker,
// each as often as it was part of a push.
func (m *maker) generation(e *record.Event) {
	if endpointsAlone(e) {
		if mean, ok := m.mean(timePush, "eds"); ok {
			m.stages[record.StageGenerate].add(mean*m.ofTimed, timePush)
		}
		return
	}
	last := 0
	for _, marker := range e.Markers {
		for i, kind := range pushOrder {
			if marker.Type == kind {
				last = max(last, i)
			}
		}
	}
	turns := m.in.Rises[timeQueue+"_count"]
	if turns == 0 {
		return
	}
	total, any := 0.0, false
	for _, kind := range pushOrder[:last+1] {
		sum, ok := m.in.Rises[series(timePush+"_sum", kind)]
		total, any = total+sum/turns, any || ok
	}
	if any {
		m.stages[record.StageGenerate].add(total*1e9*m.ofTimed, timePush)
	}
}

// endpointsAlone tells whether a change shows in endpoints only.
func endpointsAlone(e *record.Event) bool {
	for _, marker := range e.Markers {
		if marker.Type != "eds" {
			return false
		}
	}
	return len(e.Markers) > 0
}

func series(name, kind string) string {
	if kind == "" {
		return name
	}
	return name + `{type="` + kind + `"}`
}

// kindOf is the type in a series of a name that has one.
func kindOf(key, name string) (string, bool) {
	rest, ok := strings.CutPrefix(key, name+`{type="`)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, `"}`)
}

// mean is the mean of a histogram in the window, nanoseconds; false if it
// counted nothing.
func (m *maker) mean(name, kind string) (float64, bool) {
	count := m.in.Rises[series(name+"_count", kind)]
	if count == 0 {
		return 0, false
	}
	return m.in.Rises[series(name+"_sum", kind)] / count * 1e9, true
}
