package stages

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// untimed returns the ratio of the length of turns to the sum of istiod's per-type timers.
// Computing the proxy's state, types that turn out to need nothing, and time when the turn's
// goroutine does not run are only part of pilot_proxy_convergence_time. Their position in a turn is
// unknown, so they are spread over the types in proportion.
func (m *maker) untimed() float64 {
	turn, ok := m.mean(timeTurn, "")
	queued, okQueue := m.mean(timeQueue, "")
	if !ok || !okQueue {
		return 1
	}
	turns, timed := m.in.Rises[timeTurn+"_count"], 0.0
	for _, key := range slices.Sorted(maps.Keys(m.in.Rises)) { // fixed order, for a reproducible sum
		count := m.in.Rises[key]
		if kind, ok := kindOf(key, timePush+"_count"); ok && count > 0 {
			// More than one per turn were answers to requests.
			mean, _ := m.mean(timePush, kind)
			timed += mean * min(1, count/turns)
		}
	}
	if timed <= 0 || turn <= queued {
		return 1
	}
	return (turn - queued) / timed
}

// queued adds the mean of istiod's queue timer, if it counted anything.
func (m *maker) queued() {
	if mean, ok := m.mean(timeQueue, ""); ok {
		m.stages[record.StageQueue].add(mean, timeQueue)
	}
}

// generation adds the mean time of the types up to the change's last marker, each as often as it
// was part of a push.
func (m *maker) generation(e *record.Event) {
	if endpointsAlone(e) {
		if mean, ok := m.mean(timePush, "eds"); ok {
			m.stages[record.StageGenerate].add(mean*m.ofTimed, timePush)
		}
		return
	}
	last := 0
	for _, marker := range e.Markers {
		last = max(last, slices.Index(pushOrder, marker.Type))
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

// endpointsAlone reports whether a change only shows in endpoints.
func endpointsAlone(e *record.Event) bool {
	return len(e.Markers) > 0 && !slices.ContainsFunc(e.Markers, func(m record.Marker) bool { return m.Type != "eds" })
}

func series(name, kind string) string {
	if kind == "" {
		return name
	}
	return name + `{type="` + kind + `"}`
}

// kindOf returns the type in the key of a series with this name.
func kindOf(key, name string) (string, bool) {
	rest, ok := strings.CutPrefix(key, name+`{type="`)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, `"}`)
}

// mean returns the mean of a histogram in the window, in nanoseconds, and false if it counted
// nothing.
func (m *maker) mean(name, kind string) (float64, bool) {
	count := m.in.Rises[series(name+"_count", kind)]
	if count == 0 {
		return 0, false
	}
	return m.in.Rises[series(name+"_sum", kind)] / count * 1e9, true
}
