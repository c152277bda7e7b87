package verdict

import (
	"cmp"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
)

// markKey is a statement of a marker about a resource: that it shows a text, or no longer shows it.
type markKey struct {
	kind, resource, text string
	gone                 bool
}

// opposite returns the statement that reverses it.
func (k markKey) opposite() markKey {
	k.gone = !k.gone
	return k
}

// ofZtunnels reports whether only ztunnels show it. ofEndpoints reports whether it is about an
// endpoint, which a proxy may keep after it is gone.
func (k markKey) ofZtunnels() bool  { return record.Marker{Type: k.kind}.OfZtunnels() }
func (k markKey) ofEndpoints() bool { return k.kind == "eds" || k.kind == "wds" }

// mark is a marker of a change, with the proxies that showed it.
type mark struct {
	markKey
	change int // index of the event
	// When the change was committed, when a removed address was gone, and the time from which
	// messages to proxies were searched for the marker (0: from the start). Unix nanoseconds.
	committed, goneNS, searched int64
	sights                      map[int32]sighting
}

// marks returns the markers of each change, with the proxies' sightings until the trial stopped
// observing.
func (a *accountant) marks() [][]mark {
	out := make([][]mark, len(a.Changes))
	place := make(map[int]int, len(a.Changes))
	for i, e := range a.Changes {
		place[e.Change] = i
		for _, m := range e.Markers {
			out[i] = append(out[i], mark{markKey: markKey{m.Type, m.Resource, m.Text, m.Gone}, change: i, committed: e.CommittedNS, goneNS: cmp.Or(m.GoneNS, e.CommittedNS), sights: map[int32]sighting{}})
		}
	}
	a.collect(out, place, a.Markers, int64(a.Clock.Known()), func(at, acked int64) sighting { return sighting{received: at, acked: acked, applied: record.Never} })
	a.collect(out, place, a.Envoys, 0, func(at, _ int64) sighting { return sighting{received: record.Never, acked: record.Never, applied: at} })
	return out
}

// collect assigns sightings to their markers, which are in the order of each change's markers. It
// corrects clock offsets and ignores sightings after the end.
func (a *accountant) collect(marks [][]mark, place map[int]int, from []xds.MarkerSightings, ahead int64, as func(at, acked int64) sighting) {
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
			m.searched = s.SearchedFromNS - ahead
		}
		// For proxies that received a change together with its reversal, messages sent after its
		// commit count.
		all := s.After(m.committed + ahead)
		showed := map[int32]int64{}
		for n, p := range s.Proxy {
			showed[p] = s.ReceivedNS[n]
		}
		for n, p := range all.Proxy {
			at, acked := all.ReceivedNS[n]-ahead, record.Never
			if at > a.EndNS {
				continue
			}
			if all.AckedNS[n] != record.Never && all.AckedNS[n]-ahead <= a.EndNS {
				acked = all.AckedNS[n] - ahead
			}
			one := as(at, acked)
			one.stayed = showed[p] != all.ReceivedNS[n]
			m.sights[p] = one
		}
	}
}

// joined returns when a proxy had a change: when it had shown the last of its markers. A proxy that
// never had something need not show its removal, for example if one push carries two changes. The
// second result lists the markers that it lacks and is empty if it had the change.
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

// history returns the markers of endpoints by address, in the order of their changes.
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

// held reports whether a proxy had what a marker says is gone, before it went. An address without
// an earlier change existed from the start.
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

// stale returns the time for which a proxy held endpoints that a change had removed, summed over
// them, each from its removal until the proxy dropped it. A proxy that never dropped an endpoint
// held it until it had a later change that replaced this one (at; math.MaxInt64 for none), until
// the endpoint was back, or until the trial stopped observing.
func (a *accountant) stale(marks []mark, p int32, at int64) time.Duration {
	sum := int64(0)
	for _, m := range marks {
		if !m.gone || !m.ofEndpoints() {
			continue
		}
		until := a.EndNS
		if back := a.back[m.opposite()]; back != 0 {
			until = min(until, back)
		}
		switch s, dropped := m.sights[p]; {
		case dropped && s.stayed, !dropped && !held(a.past, m, p):
			continue // the proxy never had it
		case dropped:
			until = min(until, s.when())
		default:
			until = min(until, at)
		}
		sum += max(0, until-m.goneNS)
	}
	return time.Duration(sum)
}
