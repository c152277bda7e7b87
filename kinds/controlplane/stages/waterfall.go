package stages

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// logOf finds the replica that a proxy is connected to.
func (m *maker) logOf(node string) *pushLog {
	for _, l := range m.logs {
		if l.nodes[node] {
			return l
		}
	}
	if len(m.logs) == 1 {
		return m.logs[0]
	}
	return nil
}

// debounceApart returns how much longer changes were debounced according to istiod's timer than
// according to its log, over all pushes that waited, in nanoseconds. It returns false if one of
// them is missing or they cover different pushes.
func (m *maker) debounceApart() (float64, bool) {
	timed, ok := m.mean(timeDebounce, "")
	if !ok {
		return 0, false
	}
	logged, n := 0.0, 0
	for _, l := range m.logs {
		for _, p := range l.pushes {
			if p.debounced && l.within(p.pushing) {
				logged, n = logged+float64(p.pushing-p.first), n+1
			}
		}
	}
	if n == 0 || float64(n) != m.in.Rises[timeDebounce+"_count"] {
		return 0, false
	}
	return timed - logged/float64(n), true
}

// waterfall computes means from the sums.
func (m *maker) waterfall() Waterfall {
	w := Waterfall{Pairs: m.pairs, Logged: m.full}
	if m.pairs == 0 {
		return w
	}
	n := float64(m.pairs)
	w.MeanUS = m.total / n / 1e3
	w.ResidualUS = w.MeanUS
	w.Unexplained = &m.unexplained
	for _, name := range record.Stages() {
		s := m.stages[name]
		if len(s.by) == 0 {
			w.Missing = append(w.Missing, name)
			continue
		}
		stage := record.Stage{Name: name, MeanUS: s.sum / n / 1e3, Source: m.words(s.by, true)}
		if len(s.checkedBy) > 0 {
			check := stage.MeanUS + s.apart/n/1e3
			stage.CheckUS, stage.CheckSource = &check, m.words(s.checkedBy, false)
		}
		if name == record.StageGenerate {
			if mean, ok := m.mean(timeSend, ""); ok {
				stage.Source += fmt.Sprintf("; %.1f ms of each type is %s", mean/1e6, timeSend)
			}
		}
		w.ResidualUS -= stage.MeanUS
		w.Stages = append(w.Stages, stage)
	}
	return w
}

// words lists sources, with their number of pairs if there are several, and the number of pairs
// without one.
func (m *maker) words(by map[string]int, whole bool) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[b]-by[a], strings.Compare(a, b)) })
	var out []string
	rest := m.pairs
	for _, name := range names {
		rest -= by[name]
		if by[name] == m.pairs {
			out = append(out, name)
			continue
		}
		out = append(out, fmt.Sprintf("%s (%d of %d)", name, by[name], m.pairs))
	}
	if rest > 0 && whole {
		out = append(out, fmt.Sprintf("not measured (%d of %d)", rest, m.pairs))
	}
	return strings.Join(out, "; ")
}

// sentType is a resource type handed to a proxy's stream.
type sentType struct {
	kind string
	at   int64
}

// sentTo finds the log line of the sending that a proxy read at an instant, among the types that
// show the change: the latest at or after its push and, within clockSlack, at or before the
// reading. kind is "" if there is none.
func (l *pushLog) sentTo(e *record.Event, node string, pushing, received int64) (kind string, at int64) {
	for _, marker := range e.Markers {
		t, ok := l.before(marker.Type, node, received+int64(clockSlack))
		if ok && t >= pushing && (kind == "" || t > at) {
			kind, at = marker.Type, t
		}
	}
	return kind, at
}

// turn lists what was sent in a proxy's turn up to and including a line. Walking back from it, it
// collects each earlier type sent since the push began.
func (l *pushLog) turn(kind, node string, sent, pushing int64) []sentType {
	out := []sentType{{kind, sent}}
	earlier := pushOrder
	if i := slices.Index(pushOrder, kind); i >= 0 {
		earlier = pushOrder[:i]
	}
	at := sent
	for _, k := range slices.Backward(earlier) {
		if t, ok := l.before(k, node, at); ok && t >= pushing {
			at = t
			out = append(out, sentType{k, t})
		}
	}
	slices.Reverse(out)
	return out
}

// ownWay holds the measured and staged times of one change-proxy pair, in nanoseconds.
type ownWay struct {
	took, staged float64 // measured, and the sum of its stages
	place        float64 // see [maker.place]
	logged       bool    // from end to end
}

// sum returns the total of the stages of all pairs so far, in nanoseconds.
func (m *maker) sum() float64 {
	total := 0.0
	for _, name := range record.Stages() { // fixed order, for a reproducible sum
		total += m.stages[name].sum
	}
	return total
}

// single counts the pairs of one change whose own stages do not add up. The mean over all pairs
// hides those: one that is too long offsets another that is too short, and two that are entirely
// wrong vanish among forty.
//
// Queue and generation are means over proxies that take turns. Their order is random, which is no
// error. So each pair is compared with the mean of its change's turns in the log, not with its own
// turn. The difference from the timers' means remains.
func (m *maker) single(own []ownWay) {
	mean, n := 0.0, 0
	for _, w := range own {
		if !math.IsNaN(w.place) {
			mean, n = mean+w.place, n+1
		}
	}
	for _, w := range own {
		rest := w.took - w.staged
		if !math.IsNaN(w.place) {
			rest += mean/float64(n) - w.place
		}
		rest /= 1e3
		u := &m.unexplained
		u.Pairs++
		if math.Abs(rest) > math.Abs(u.LargestUS) {
			u.LargestUS = rest
		}
		if math.Abs(rest) > record.MaxResidualUS(w.took/1e3) {
			u.Beyond++
			if !w.logged {
				u.Unlogged++
			}
		}
	}
}
