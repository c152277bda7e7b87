package verdict

import (
	"math"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
)

// markKey is what a marker says about a resource: that it shows a text, or no longer shows it.
type markKey struct {
	kind, resource, text string
	gone                 bool
}

// opposite is what undoes it.
func (k markKey) opposite() markKey {
	k.gone = !k.gone
	return k
}

// ofZtunnels says that only ztunnels show it, and ofEndpoints that it is about an endpoint,
// which a proxy may keep after it is gone.
func (k markKey) ofZtunnels() bool  { return record.Marker{Type: k.kind}.OfZtunnels() }
func (k markKey) ofEndpoints() bool { return k.kind == "eds" || k.kind == "wds" }

// mark is a marker of a change, and who showed it.
type mark struct {
	markKey
	change int // place in the events
	// When the change was committed and, of an address that goes, when it was
	// gone; and from when on what proxies got was searched for it, 0: from the
	// beginning. Nanoseconds since 1970.
	committed, goneNS, searched int64
	sights                      map[int32]sighting
}

// marks are the markers of each event, with what proxies showed of them until the trial
// stopped looking.
func (w observations) marks(events []record.Event) [][]mark {
	out := make([][]mark, len(events))
	place := make(map[int]int, len(events))
	for i := range events {
		e := &events[i]
		place[e.Change] = i
		for _, m := range e.Markers {
			gone := m.GoneNS
			if gone == 0 {
				gone = e.CommittedNS
			}
			out[i] = append(out[i], mark{markKey: markKey{m.Type, m.Resource, m.Text, m.Gone}, change: i, committed: e.CommittedNS, goneNS: gone, sights: map[int32]sighting{}})
		}
	}
	w.collect(out, place, w.markers, w.ahead, func(at, acked int64) sighting { return sighting{received: at, acked: acked, applied: record.Never} })
	w.collect(out, place, w.envoys, 0, func(at, _ int64) sighting { return sighting{received: record.Never, acked: record.Never, applied: at} })
	return out
}

// collect assigns sightings to their markers: of each change in the order of its markers. It
// corrects clock offsets, and ignores sightings after the end.
func (w observations) collect(marks [][]mark, place map[int]int, from []xds.MarkerSightings, ahead time.Duration, as func(at, acked int64) sighting) {
	end := int64(math.MaxInt64)
	if !w.end.IsZero() {
		end = w.end.UnixNano()
	}
	next := map[int]int{}
	for _, s := range from {
		i, known := place[s.Change]
		k := next[s.Change]
		next[s.Change]++
		if !known || k >= len(marks[i]) {
			continue
		}
		m := &marks[i][k]
		if s.SearchedFromNS != 0 {
			m.searched = s.SearchedFromNS - int64(ahead)
		}
		// Of proxies that were sent a change in one with what it takes back,
		// what they were sent after its commit counts.
		all := s.After(m.committed + int64(ahead))
		showed := map[int32]int64{}
		for n, p := range s.Proxy {
			showed[p] = s.ReceivedNS[n]
		}
		for n, p := range all.Proxy {
			at, acked := all.ReceivedNS[n]-int64(ahead), record.Never
			if at > end {
				continue
			}
			if all.AckedNS[n] != record.Never && all.AckedNS[n]-int64(ahead) <= end {
				acked = all.AckedNS[n] - int64(ahead)
			}
			one := as(at, acked)
			one.stayed = showed[p] != all.ReceivedNS[n]
			m.sights[p] = one
		}
	}
}

// joined is when a proxy had a change: when it had shown the last of its markers. A proxy that
// never had something need not show its removal, for example if one push brings two changes.
// The second result, what it lacks, is empty if it had the change.
func joined(marks []mark, past map[string][]mark, p int32) (s sighting, lacking []mark) {
	s = sighting{received: record.Never, acked: record.Never, applied: record.Never}
	seen := 0
	for _, m := range marks {
		one, ok := m.sights[p]
		if !ok {
			if !m.gone || held(past, m, p) {
				lacking = append(lacking, m)
			}
			continue
		}
		if seen++; seen == 1 || one.acked == record.Never {
			s.acked = one.acked
		} else if s.acked != record.Never {
			s.acked = max(s.acked, one.acked)
		}
		s.received, s.applied = max(s.received, one.received), max(s.applied, one.applied)
	}
	if seen == 0 {
		lacking = marks
	}
	return s, lacking
}

// history has the markers of endpoints by address, in the order of their changes.
func history(marks [][]mark) map[string][]mark {
	out := map[string][]mark{}
	for _, of := range marks {
		for _, m := range of {
			if m.ofEndpoints() {
				out[m.address()] = append(out[m.address()], m)
			}
		}
	}
	return out
}

func (k markKey) address() string { return k.resource + "\x00" + k.text }

// held reports whether a proxy had what a marker says is gone, before it went. An address
// without an earlier change was there from the beginning.
func held(past map[string][]mark, m mark, p int32) bool {
	has := true
	for i, one := range past[m.address()] {
		if one.change >= m.change {
			break
		}
		if i == 0 {
			has = one.gone
		}
		if _, ok := one.sights[p]; ok {
			has = !one.gone
		}
	}
	return has
}

// stale is how long a proxy held endpoints that a change had taken away,
// summed over them: each from when it was gone until the proxy dropped it. One
// that never did so held it until it had a later change that made up for this
// one (at; math.MaxInt64 for none), until the endpoint was back, or until the
// trial stopped looking.
func (w observations) stale(e *record.Event, marks []mark, past map[string][]mark, later future, p int32, at int64) time.Duration {
	sum := int64(0)
	for _, m := range marks {
		if !m.gone || !m.ofEndpoints() {
			continue
		}
		until := w.end.UnixNano()
		if back := later.back[m.opposite()]; back != 0 {
			until = min(until, back)
		}
		switch s, dropped := m.sights[p]; {
		case dropped && s.stayed, !dropped && !held(past, m, p):
			continue // it never had it
		case dropped:
			until = min(until, s.when())
		default:
			until = min(until, at)
		}
		sum += max(0, until-m.goneNS)
	}
	return time.Duration(sum)
}
