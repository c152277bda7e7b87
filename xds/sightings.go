package xds

import (
	"slices"
	"sync"

	"github.com/meshtrial/meshtrial/record"
)

// sighting has who saw one marker.
type sighting struct {
	columns
	seen    []uint64 // a bit for each proxy
	stay    columns  // who was sent it again while it showed
	unknown int
	from    int64 // from when on what proxies got was searched, ns since 1970
}

// columns have an entry for each sighting.
type columns struct {
	proxy           []int32
	received, acked []int64
}

// add appends an entry and returns its index.
func (c *columns) add(proxy int32, received, acked int64) int32 {
	c.proxy = append(c.proxy, proxy)
	c.received = append(c.received, received)
	c.acked = append(c.acked, acked)
	return int32(len(c.proxy) - 1)
}

// sightings of a fleet's markers, by their index, and what proxies took of
// late.
type sightings struct {
	mu      sync.Mutex
	proxies int
	list    []sighting
	memory  memory
}

// noted is what a response showed to a proxy, waiting for its ACK.
type noted struct {
	entries []noteEntry
	taken   []*taken
	newest  int64 // see step; 0: not to be measured
}

type noteEntry struct {
	marker int32
	at     int32 // index in the sighting's columns
	stay   bool  // in those of stay
}

// maxStays bounds how many entries of a marker say that a proxy was sent it
// again, for each proxy.
const maxStays = 16

// collect notes that a proxy takes a step, and the markers that it shows.
func (n *noted) collect(f *Fleet, p *proxy, s *step, at int64) {
	// It is remembered before the markers are read: one that is announced
	// meanwhile is found now or when it looks back.
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
		if one.has(p.index) || len(one.stay.proxy) >= maxStays*f.sightings.proxies {
			continue
		}
		n.entries = append(n.entries, noteEntry{marker: m, at: one.stay.add(p.index, at, record.Never), stay: true})
	}
}

// has says whether a proxy has seen it.
func (s *sighting) has(proxy int32) bool {
	return s.seen != nil && s.seen[proxy/64]&(1<<(proxy%64)) != 0
}

// see notes a proxy that saw a marker and returns the index of the entry; -1
// if it had it before it lost its stream. s.mu is held.
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

// ack notes when an entry was acknowledged. s.mu is held.
func (s *sightings) ack(e noteEntry, at int64) {
	one := &s.list[e.marker]
	if e.stay {
		one.stay.acked[e.at] = at
	} else {
		one.acked[e.at] = at
	}
}

// sent returns what is to be called when the ACK has been handed over; nil if
// nobody wants to know.
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

// Sightings returns who saw the markers from index from on, an entry for each
// marker announced.
func (f *Fleet) Sightings(from int) []MarkerSightings {
	markers := *f.catalogue.markers.Load()
	f.sightings.mu.Lock()
	defer f.sightings.mu.Unlock()
	out := []MarkerSightings{}
	for i := max(from, 0); i < len(markers); i++ {
		m := &markers[i]
		one := MarkerSightings{Change: m.Change, Marker: i, Type: m.Type, Gone: m.Gone, Proxy: []int32{}, ReceivedNS: []int64{}, AckedNS: record.Times{}}
		if i < len(f.sightings.list) {
			s := &f.sightings.list[i]
			one.Proxy = append(one.Proxy, s.proxy...)
			one.ReceivedNS = append(one.ReceivedNS, s.received...)
			one.AckedNS = append(one.AckedNS, s.acked...)
			one.Unknown, one.SearchedFromNS = s.unknown, s.from
			if len(s.stay.proxy) > 0 {
				one.Stays = &Stays{Proxy: slices.Clone(s.stay.proxy), ReceivedNS: slices.Clone(s.stay.received), AckedNS: slices.Clone(s.stay.acked)}
			}
		}
		out = append(out, one)
	}
	return out
}
