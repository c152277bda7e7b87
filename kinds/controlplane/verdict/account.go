package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// accountant determines which proxies had which change, and when.
type accountant struct {
	Evidence
	// needs reports whether a proxy's configuration must show a change.
	needs func(change int, proxy int32) bool
	// bad holds the proxies that misbehave on purpose.
	bad map[int32]bool
	// past holds the markers of each address in the order of their changes; see [history].
	past map[string][]mark

	// What is known about the changes after the current one: when each proxy first had a later
	// change of an object, or one with a marker, and when an address was back.
	objects map[string]map[int32]int64
	marked  map[markKey]map[int32]int64
	back    map[markKey]int64

	sum changeAccount
}

// changeAccount is the account of a trial's changes: each planned change was committed or failed,
// and each proxy that needed one saw it, missed it, or saw only what superseded it.
type changeAccount struct {
	planned, committed, failed         int
	expected, seen, missed, superseded int
	// unacked counts those that simulated proxies saw but never acknowledged.
	unacked int
	// lacking counts the missed, and silent the unacked, among well-behaved proxies: those worth
	// waiting for.
	lacking, silent int
	// due counts the expected among well-behaved simulated proxies.
	due int
	// unneeded counts sightings by proxies whose scope should have excluded the change; they appear
	// in no event.
	unneeded int
	// unsearched counts contents in which a marker could not be looked for.
	unsearched int
	// unlooked counts changes that some proxy missed, but may have had before it searched for one
	// of their markers.
	unlooked int
	// stale is the time for which proxies held stale endpoints, in seconds, over all endpoints and
	// all proxies except ztunnels, which are notified sooner.
	stale float64
}

// unaccounted describes how the reports of the driver and the simulated proxies differ from the
// plan: a missing or duplicate change, or a marker that was not searched for. It is then unknown
// which proxies had such a change. It returns "" if nothing differs.
func (e Evidence) unaccounted() string {
	var out []string
	reported, looked := map[int]int{}, map[int]int{}
	for _, c := range e.Changes {
		reported[c.Change]++
	}
	for _, m := range e.Markers {
		looked[m.Change]++
	}
	count := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	absent, twice, unlooked := 0, 0, 0
	for change := range e.Audience.Scopes {
		switch n := reported[change]; {
		case n == 0:
			absent++
		case n > 1:
			twice++
		}
	}
	for _, c := range e.Changes {
		if e.Audience.Simulated > 0 && c.Error == "" && c.CommittedNS != 0 && looked[c.Change] != len(c.Markers) {
			unlooked++
		}
	}
	count(absent, "planned changes are not reported")
	count(twice, "changes are reported twice")
	count(unlooked, "changes were not watched for by all of their markers")
	return strings.Join(out, "; ")
}

func (t changeAccount) String() string {
	return fmt.Sprintf("%d changes planned = %d committed + %d failed; %d needed by a proxy = %d seen + %d missed + %d superseded",
		t.planned, t.committed, t.failed, t.expected, t.seen, t.missed, t.superseded)
}

// sighting is when a proxy had a change or a marker, in Unix nanoseconds by this machine's clock,
// or [Never]. Simulated proxies receive and acknowledge; for real Envoys only the time is known
// when a poll of their admin interface showed it in force.
type sighting struct {
	received, acked, applied int64
	// stayed means that the proxy had shown a marker before: it received the change together with
	// its reversal.
	stayed bool
}

// when returns the earliest known time.
func (s sighting) when() int64 {
	if s.received == record.Never {
		return s.applied
	}
	return s.received
}

// account determines which proxies had each change, and when, and counts them. Events are in the
// order of their changes, as the driver recorded them.
func (a *accountant) account() []record.Event {
	a.objects, a.marked, a.back = map[string]map[int32]int64{}, map[markKey]map[int32]int64{}, map[markKey]int64{}
	a.sum = changeAccount{planned: len(a.Changes)}
	out := slices.Clone(a.Changes)
	marks := a.marks()
	a.past = history(marks)
	for i := len(out) - 1; i >= 0; i-- { // backward, so that what superseded a change is known
		e := &out[i]
		e.Seen = record.Sightings{Proxy: []int32{}, ReceivedUS: record.Times{}, AckedUS: record.Times{}}
		e.Missed, e.Expected, e.Superseded = nil, 0, 0
		if e.Error != "" || e.CommittedNS == 0 {
			a.sum.failed++
			continue
		}
		a.sum.committed++
		if len(e.Markers) > 0 {
			a.settle(e, marks[i])
		}
	}
	for _, m := range a.Markers {
		a.sum.unsearched += m.Unknown
	}
	return out
}

// had records that a proxy had a change.
func (a *accountant) had(e *record.Event, marks []mark, p int32, at int64) {
	put(a.objects, e.Object, p, at)
	for _, m := range marks {
		put(a.marked, m.markKey, p, at)
	}
}

func put[K comparable](to map[K]map[int32]int64, key K, p int32, at int64) {
	if to[key] == nil {
		to[key] = map[int32]int64{}
	}
	to[key][p] = at
}

// overtook returns when a proxy had a later change that replaces one it has not shown: a change of
// the same object, or changes that undid it.
func (a *accountant) overtook(e *record.Event, lacking []mark, p int32) (at int64, ok bool) {
	if at, ok = a.objects[e.Object][p]; ok {
		return at, true
	}
	for _, m := range lacking {
		undone, ok := a.marked[m.opposite()][p]
		if !ok {
			return 0, false
		}
		at = max(at, undone)
	}
	return at, true
}

// settle determines which proxies had one change, and when.
func (a *accountant) settle(e *record.Event, marks []mark) {
	t := &a.sum
	of := map[bool][]mark{}
	for _, m := range marks {
		of[m.ofZtunnels()] = append(of[m.ofZtunnels()], m)
	}
	for p := range int32(len(a.Audience.Proxies)) {
		ztunnel := a.Audience.Ztunnel(p)
		marks := of[ztunnel]
		s, lacking := joined(marks, a.past, p)
		saw := len(lacking) == 0 && len(marks) > 0
		if !a.needs(e.Change, p) {
			if saw {
				t.unneeded++
			}
			continue
		}
		e.Expected++
		simulated, patient := int(p) < a.Audience.Simulated, !a.bad[p]
		if simulated && patient {
			t.due++
		}
		at, overtaken := a.overtook(e, lacking, p)
		switch {
		case saw:
			at = s.when()
			a.add(e, p, s)
			if simulated && s.acked == record.Never {
				t.unacked++
				if patient {
					t.silent++
				}
			}
		case overtaken:
			e.Superseded++
		default:
			at = math.MaxInt64
			e.Missed = append(e.Missed, p)
			if patient {
				t.lacking++
			}
		}
		if !ztunnel {
			t.stale += a.stale(marks, p, at).Seconds()
		}
		if saw {
			a.had(e, marks, p, at)
		}
	}
	for _, m := range marks {
		if m.ofEndpoints() && !m.gone {
			a.back[m.markKey] = e.CommittedNS
		}
	}
	if len(e.Missed) > 0 && slices.ContainsFunc(marks, func(m mark) bool { return m.searched > e.CommittedNS }) {
		t.unlooked++
	}
	sortSightings(&e.Seen)
	t.expected += e.Expected
	t.seen += len(e.Seen.Proxy)
	t.missed += len(e.Missed)
	t.superseded += e.Superseded
}

// add appends a proxy to those that had a change.
func (a *accountant) add(e *record.Event, proxy int32, s sighting) {
	since := func(ns int64) int64 {
		if ns == record.Never {
			return record.Never
		}
		return (ns - e.CommittedNS) / 1000
	}
	e.Seen.Proxy = append(e.Seen.Proxy, proxy)
	e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, since(s.received))
	e.Seen.AckedUS = append(e.Seen.AckedUS, since(s.acked))
	if a.Envoys != nil {
		e.Seen.AppliedUS = append(e.Seen.AppliedUS, since(s.applied))
	}
}

// sortSightings sorts sightings by time.
func sortSightings(s *record.Sightings) {
	order := make([]int, len(s.Proxy))
	for i := range order {
		order[i] = i
	}
	had := func(i int) int64 {
		if s.AppliedUS != nil && s.AppliedUS[i] != record.Never {
			return s.AppliedUS[i]
		}
		return s.ReceivedUS[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(had(a), had(b)) })
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

// accountant returns an accountant of the evidence.
func (e Evidence) accountant() *accountant {
	a := &accountant{Evidence: e, needs: e.Audience.Needs, bad: map[int32]bool{}}
	for _, p := range e.Misbehaving {
		a.bad[p] = true
	}
	return a
}

// Outstanding returns the number of expected sightings that have not come, and the number of
// missing acknowledgements among those that have, for well-behaved proxies.
func (e Evidence) Outstanding() (sightings, acknowledgements, expected int) {
	a := e.accountant()
	a.account()
	return a.sum.lacking, a.sum.silent, a.sum.expected
}
