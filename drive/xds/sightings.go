package xds

import (
	"iter"
	"slices"
	"sync"

	"github.com/meshtrial/meshtrial/record"
)

// sighting records which proxies saw one marker.
type sighting struct {
	Columns
	seen    []uint64 // a bit for each proxy
	stay    Columns  // proxies that received it again while it held
	unknown int
	from    int64 // received content was searched from this time on, Unix nanoseconds
}

// sightings holds the sightings of a fleet's markers, by marker index, and the
// steps that proxies took recently.
type sightings struct {
	mu      sync.Mutex
	proxies int
	list    []sighting
	memory  memory
}

// noted holds what a response revealed to a proxy until its ACK is sent.
type noted struct {
	entries []noteEntry
	taken   []*taken
	newest  int64 // when the newest change began, see catalogue.began; 0: not measured
}

type noteEntry struct {
	marker int32
	at     int32 // index in the sighting's columns
	stay   bool  // index is in the stay columns
}

// maxStays limits the stay entries of a marker, per proxy on average.
const maxStays = 16

// collect records that a proxy takes a step, and the markers that the step reveals.
func (n *noted) collect(f *Fleet, p *proxy, s *step, at int64) {
	// The step is remembered before the markers are read, so that a marker
	// announced in between is found either here or by lookBack.
	if p.syncedAt != 0 && s.changed() {
		n.taken = append(n.taken, f.sightings.remember(s, p.index, at))
	}
	shows := f.catalogue.sights(s)
	if shows.none() {
		return
	}
	f.sightings.mu.Lock()
	defer f.sightings.mu.Unlock()
	for _, m := range shows.unknown {
		f.sightings.grow(m).unknown++
	}
	for _, m := range shows.seen {
		if i := f.sightings.see(m, p.index, at, record.Never); i >= 0 {
			n.entries = append(n.entries, noteEntry{marker: m, at: i})
		}
	}
	for _, m := range shows.stay {
		one := f.sightings.grow(m)
		if one.has(p.index) || len(one.stay.Proxy) >= maxStays*f.sightings.proxies {
			continue
		}
		n.entries = append(n.entries, noteEntry{marker: m, at: one.stay.add(p.index, at, record.Never), stay: true})
	}
}

// has reports whether a proxy has seen the marker.
func (s *sighting) has(proxy int32) bool {
	return s.seen != nil && s.seen[proxy/64]&(1<<(proxy%64)) != 0
}

// see records that a proxy saw a marker and returns the index of the entry, or
// -1 if the proxy had seen it already, on an earlier stream. s.mu is held.
func (s *sightings) see(m, proxy int32, received, acked int64) int32 {
	one := s.grow(m)
	if one.has(proxy) {
		return -1
	}
	if one.seen == nil {
		one.seen = make([]uint64, (s.proxies+63)/64)
	}
	one.seen[proxy/64] |= 1 << (proxy % 64)
	return one.add(proxy, received, acked)
}

// grow returns the sighting of a marker. s.mu is held.
func (s *sightings) grow(m int32) *sighting {
	for len(s.list) <= int(m) {
		s.list = append(s.list, sighting{})
	}
	return &s.list[m]
}

// ack records when an entry was acknowledged. s.mu is held.
func (s *sightings) ack(e noteEntry, at int64) {
	one := &s.list[e.marker]
	if e.stay {
		one.stay.AckedNS[e.at] = at
	} else {
		one.AckedNS[e.at] = at
	}
}

// sent returns the function to call when the ACK has been sent, or nil if
// there is nothing to record.
func (n *noted) sent(f *Fleet) func(at int64) {
	if len(n.entries) == 0 && len(n.taken) == 0 && n.newest == 0 {
		return nil
	}
	entries, took, newest := n.entries, n.taken, n.newest
	return func(at int64) {
		if newest != 0 {
			f.convergence.add(at - newest)
		}
		if len(entries) == 0 && len(took) == 0 {
			return
		}
		f.sightings.mu.Lock()
		defer f.sightings.mu.Unlock()
		for _, e := range entries {
			f.sightings.ack(e, at)
		}
		for _, t := range took {
			f.sightings.memory.ack(&f.sightings, t, at)
		}
	}
}

// Sightings returns the sightings of the markers from index from on, one entry per
// announced marker.
func (f *Fleet) Sightings(from int) []MarkerSightings {
	_, each := f.SightingsFrom(from)
	return slices.Collect(each)
}

// SightingsFrom returns the number of markers from index from on and a sequence
// of their sightings up to now, copied one marker at a time.
func (f *Fleet) SightingsFrom(from int) (count int, each iter.Seq[MarkerSightings]) {
	markers := *f.catalogue.markers.Load()
	from = min(max(from, 0), len(markers))
	until := make([]struct{ seen, stay int }, len(markers)-from)
	f.sightings.mu.Lock()
	for i := range until {
		if from+i < len(f.sightings.list) {
			s := &f.sightings.list[from+i]
			until[i].seen, until[i].stay = len(s.Proxy), len(s.stay.Proxy)
		}
	}
	f.sightings.mu.Unlock()
	return len(until), func(yield func(MarkerSightings) bool) {
		for i, u := range until {
			m := &markers[from+i]
			one := MarkerSightings{Change: m.Change, Marker: from + i, Type: m.Type, Gone: m.Gone, Columns: new(Columns).first(0)}
			f.sightings.fill(&one, u.seen, u.stay)
			if !yield(one) {
				return
			}
		}
	}
}

// fill copies the first seen sightings and the first stay stays of a marker.
func (s *sightings) fill(out *MarkerSightings, seen, stay int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out.Marker >= len(s.list) {
		return
	}
	one := &s.list[out.Marker]
	out.Columns, out.Unknown, out.SearchedFromNS = one.first(seen), one.unknown, one.from
	if stay > 0 {
		stays := one.stay.first(stay)
		out.Stays = &stays
	}
}
