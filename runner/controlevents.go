package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/xds"
)

// never stands in the columns of sightings for what did not happen.
const never = -1

// witnesses are all that is known of who had which change.
type witnesses struct {
	proxies int // simulated, then real ones; sightings count them from 0
	// needs tells whether a proxy's configuration must show a change.
	needs func(change int, proxy int32) bool
	// markers are what the simulated proxies saw, by the clock of the role.
	markers []xds.MarkerSightings
	// ahead is how far the role's clock is ahead of this machine's.
	ahead time.Duration
	// applied says when a real Envoy had a change in force, by this machine's
	// clock, nanoseconds since 1970; key change, then proxy.
	applied map[int]map[int32]int64
	// end is when the trial stopped looking.
	end time.Time
}

// toll is the account of a trial's changes: each that was planned was
// committed or failed, each proxy that needed one saw it, missed it, or saw
// only what superseded it.
type toll struct {
	planned, committed, failed         int
	expected, seen, missed, superseded int
	// unacked of those seen were never acknowledged.
	unacked int
	// unneeded are sightings by proxies whose scope should have kept the
	// change from them; they are in no event.
	unneeded int
	// unsearched are contents in which a marker could not be looked for.
	unsearched int
	// stale is how long proxies held endpoints already gone, in seconds, over
	// all endpoints and proxies.
	stale float64
}

func (t toll) balanced() bool {
	return t.planned == t.committed+t.failed && t.expected == t.seen+t.missed+t.superseded
}

func (t toll) String() string {
	return fmt.Sprintf("%d changes planned = %d committed + %d failed; %d needed by a proxy = %d seen + %d missed + %d superseded",
		t.planned, t.committed, t.failed, t.expected, t.seen, t.missed, t.superseded)
}

// sighting is when a proxy had a change, nanoseconds since 1970 by this
// machine's clock.
type sighting struct {
	received, acked, applied int64 // acked and applied -1: never
}

// account fills in who had each change, and counts. Events are in the order
// of their changes, with what the driver noted of them.
func account(events []record.Event, w witnesses) ([]record.Event, toll) {
	t := toll{planned: len(events)}
	seen := w.sightings()
	out := slices.Clone(events)
	// Later changes come first, so that what superseded one is known. For
	// each object: when each proxy first had a later change of it.
	later := map[string]map[int32]int64{}
	for i := len(out) - 1; i >= 0; i-- {
		e := &out[i]
		e.Seen = record.Sightings{Proxy: []int32{}, ReceivedUS: []int64{}, AckedUS: []int64{}}
		e.Missed, e.Expected, e.Superseded = nil, 0, 0
		if e.Error != "" || e.CommittedNS == 0 {
			t.failed++
			continue
		}
		t.committed++
		if len(e.Markers) == 0 {
			continue
		}
		w.settle(e, seen[e.Change], later, &t)
	}
	for _, m := range w.markers {
		t.unsearched += m.Unknown
	}
	return out, t
}

// settle fills in who had one change.
func (w witnesses) settle(e *record.Event, had map[int32]sighting, later map[string]map[int32]int64, t *toll) {
	if later[e.Object] == nil {
		later[e.Object] = map[int32]int64{}
	}
	after := later[e.Object]
	gone := goneEndpoints(e.Markers)
	for p := range int32(w.proxies) {
		s, saw := had[p]
		if !w.needs(e.Change, p) {
			if saw {
				t.unneeded++
			}
			continue
		}
		e.Expected++
		until := w.end.UnixNano()
		at, overtaken := after[p]
		switch {
		case saw:
			until = s.received
			w.add(e, p, s)
			if s.acked < 0 {
				t.unacked++
			}
			after[p] = s.received
		case overtaken:
			until = at
			e.Superseded++
		default:
			e.Missed = append(e.Missed, p)
		}
		t.stale += float64(gone) * max(0, float64(until-e.CommittedNS)/1e9)
	}
	sortSightings(&e.Seen)
	t.expected += e.Expected
	t.seen += len(e.Seen.Proxy)
	t.missed += len(e.Missed)
	t.superseded += e.Superseded
}

// goneEndpoints counts the endpoints that a change takes away.
func goneEndpoints(markers []record.Marker) int {
	n := 0
	for _, m := range markers {
		if m.Gone && m.Type == "eds" {
			n++
		}
	}
	return n
}

// sightings joins the markers of each change: a proxy had it when it had
// shown all of them. Times are by this machine's clock.
func (w witnesses) sightings() map[int]map[int32]sighting {
	out := map[int]map[int32]sighting{}
	for change, s := range xds.ByChange(w.markers, false) {
		out[change] = make(map[int32]sighting, len(s.Proxy))
		for i, p := range s.Proxy {
			acked := s.AckedNS[i]
			if acked >= 0 {
				acked -= int64(w.ahead)
			}
			out[change][p] = sighting{received: s.ReceivedNS[i] - int64(w.ahead), acked: acked, applied: -1}
		}
	}
	for change, proxies := range w.applied {
		if out[change] == nil {
			out[change] = map[int32]sighting{}
		}
		for p, at := range proxies {
			// All that a poll of its admin interface shows of an Envoy is that
			// it has the change by then: it was received and acknowledged
			// before.
			out[change][p] = sighting{received: at, acked: at, applied: at}
		}
	}
	return out
}

// add appends a proxy to those that had a change.
func (w witnesses) add(e *record.Event, proxy int32, s sighting) {
	since := func(ns int64) int64 {
		if ns < 0 {
			return never
		}
		us := (ns - e.CommittedNS) / 1000
		if us == never {
			return 0
		}
		return us
	}
	e.Seen.Proxy = append(e.Seen.Proxy, proxy)
	e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, since(s.received))
	e.Seen.AckedUS = append(e.Seen.AckedUS, since(s.acked))
	if w.applied != nil {
		e.Seen.AppliedUS = append(e.Seen.AppliedUS, since(s.applied))
	}
}

// sortSightings puts those first that had the change first.
func sortSightings(s *record.Sightings) {
	order := make([]int, len(s.Proxy))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(s.ReceivedUS[a] - s.ReceivedUS[b]) })
	s.Proxy, s.ReceivedUS, s.AckedUS = picked(s.Proxy, order), picked(s.ReceivedUS, order), picked(s.AckedUS, order)
	if s.AppliedUS != nil {
		s.AppliedUS = picked(s.AppliedUS, order)
	}
}

func picked[T any](from []T, order []int) []T {
	out := make([]T, len(order))
	for i, at := range order {
		out[i] = from[at]
	}
	return out
}
