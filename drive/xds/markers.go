package xds

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// marker is a record.Marker prepared for searching.
type marker struct {
	record.Marker
	kind kind
	text []byte
	ip   []byte // text as an address, for endpoints and workloads; nil if it is not one
	// returns reports that the same text was marked before with the opposite sense,
	// such as an endpoint that goes and comes back. A proxy that gets both changes in
	// one response shows neither.
	returns bool
	// since is the earliest time (Unix nanoseconds) at which content received before
	// the announcement may count for this marker.
	since int64
}

// markerKey identifies the text of markers.
type markerKey struct {
	kind           kind
	resource, text string
}

// announced holds when a text was last marked as appearing and as disappearing.
type announced struct{ there, gone int64 }

// stayKey identifies a resource by kind and name.
type stayKey struct {
	kind     kind
	resource string
}

// announce adds markers at a time and returns the index of the first.
func (c *catalogue) announce(list []record.Marker, now int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.markers.Load()
	all := make([]marker, len(old), len(old)+len(list))
	copy(all, old)
	var stays map[stayKey][]int32
	for _, m := range list {
		m.Text = strings.Clone(m.Text)
		one := marker{Marker: m, kind: kindNamed(m.Type), text: []byte(m.Text)}
		one.ip = addressOf(one.kind, m.Text)
		key := markerKey{one.kind, m.Resource, m.Text}
		last := c.marked[key]
		same, other := &last.there, &last.gone
		if m.Gone {
			same, other = other, same
		}
		one.returns, one.since = *other != 0, *other
		if *same != 0 {
			one.since = now // what came before belongs to the earlier marker
		}
		*same = now
		c.marked[key] = last
		if one.returns && m.Resource != "" {
			if stays == nil {
				stays = maps.Clone(*c.stays.Load())
			}
			key := stayKey{one.kind, m.Resource}
			stays[key] = append(slices.Clone(stays[key]), int32(len(all)))
		}
		all = append(all, one)
	}
	c.markers.Store(&all)
	if stays != nil {
		c.stays.Store(&stays)
	}
	return len(old)
}

// sights holds the markers that a step reveals, by index.
type sights struct {
	// seen: the change takes effect in a proxy that takes the step.
	seen []int32
	// stay: the marked state held before the step and still holds. If the
	// change had been made by then, the proxy got it merged with the change
	// that reverts it.
	stay []int32
	// unknown: a content has been freed and cannot be searched.
	unknown []int32
}

func (s *sights) none() bool { return len(s.seen) == 0 && len(s.stay) == 0 && len(s.unknown) == 0 }

// sights returns the markers announced so far that a step reveals.
func (c *catalogue) sights(s *step) *sights {
	markers := *c.markers.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.markers < len(markers) {
		s.sights = &noSights
		if len(markers) > 0 {
			s.sights = c.look(s, markers)
		}
		s.markers = len(markers)
	}
	return s.sights
}

var noSights sights

func (c *catalogue) look(s *step, markers []marker) *sights {
	seen, stay, unknown := map[int32]bool{}, map[int32]bool{}, map[int32]bool{}
	stays := *c.stays.Load()
	for ch := range s.changes {
		same := ch.from != nil && ch.to != nil && ch.from.sum == ch.to.sum && ch.from.size == ch.to.size
		var before, after, lost, lostAfter []int32
		if ch.from != nil {
			before, lost = c.shownOf(ch.from, len(markers))
		}
		if ch.to != nil {
			after, lostAfter = c.shownOf(ch.to, len(markers))
		}
		if !same {
			for _, m := range lost {
				if markers[m].Gone {
					unknown[m] = true
				}
			}
			for _, m := range lostAfter {
				if !markers[m].Gone && !slices.Contains(before, m) {
					unknown[m] = true
				}
			}
		}
		for _, m := range after {
			switch {
			case markers[m].Gone:
			case slices.Contains(before, m):
				if markers[m].returns {
					stay[m] = true
				}
			case markers[m].returns && slices.Contains(lost, m):
				unknown[m] = true
			default: // a text with one change only: no proxy had it before
				seen[m] = true
			}
		}
		for _, m := range before {
			if markers[m].Gone && !seen[m] && !slices.Contains(after, m) && !c.anywhere(s.to, m) {
				seen[m] = true
			}
		}
		if len(stays) == 0 || ch.from == nil || ch.to == nil {
			continue
		}
		for _, m := range stays[stayKey{ch.to.kind, c.name(ch.to.kind, ch.to.name)}] {
			if int(m) < len(markers) && markers[m].Gone && !slices.Contains(before, m) && !slices.Contains(after, m) &&
				!slices.Contains(lost, m) && !slices.Contains(lostAfter, m) {
				stay[m] = true
			}
		}
	}
	for m := range seen {
		delete(stay, m)
		delete(unknown, m)
	}
	return &sights{seen: slices.Sorted(maps.Keys(seen)), stay: slices.Sorted(maps.Keys(stay)), unknown: slices.Sorted(maps.Keys(unknown))}
}

// shownOf is shown limited to the first n markers; more may have been announced since.
func (c *catalogue) shownOf(t *content, n int) (holds, unknown []int32) {
	holds, unknown = c.shown(t)
	cut := func(list []int32) []int32 { // they are in order
		i, _ := slices.BinarySearch(list, int32(n))
		return list[:i]
	}
	return cut(holds), cut(unknown)
}

// anywhere reports whether any content of a table shows a marker.
func (c *catalogue) anywhere(t *table, m int32) bool {
	for one := range t.all() {
		if holds, _ := c.shown(one); slices.Contains(holds, m) {
			return true
		}
	}
	return false
}
