package xds

import "sync"

// sighting has who saw one marker.
type sighting struct {
	proxy    []int32
	received []int64
	acked    []int64
	seen     []uint64 // a bit for each proxy
	unknown  int
}

// sightings of a fleet's markers, by their index.
type sightings struct {
	mu   sync.Mutex
	list []sighting
}

// noted is what a response showed to a proxy, waiting for its ACK.
type noted struct {
	entries []noteEntry
	newest  int64 // see step; 0: not to be measured
}

type noteEntry struct {
	marker int32
	at     int32 // index in the sighting's columns
}

// collect notes the markers that a step shows.
func (n *noted) collect(f *Fleet, p *proxy, s *step, at int64) {
	seen, unknown := f.catalogue.sights(s)
	if len(seen) == 0 && len(unknown) == 0 {
		return
	}
	f.sightings.mu.Lock()
	defer f.sightings.mu.Unlock()
	for _, m := range unknown {
		f.sightings.grow(m).unknown++
	}
	for _, m := range seen {
		one := f.sightings.grow(m)
		word, bit := p.index/64, uint64(1)<<(p.index%64)
		if one.seen == nil {
			one.seen = make([]uint64, (len(f.proxies)+63)/64)
		}
		if one.seen[word]&bit != 0 {
			continue // it had it before it lost its stream
		}
		one.seen[word] |= bit
		n.entries = append(n.entries, noteEntry{marker: m, at: int32(len(one.proxy))})
		one.proxy = append(one.proxy, p.index)
		one.received = append(one.received, at)
		one.acked = append(one.acked, -1)
	}
}

// grow returns the sighting of a marker. s.mu is held.
func (s *sightings) grow(m int32) *sighting {
	for len(s.list) <= int(m) {
		s.list = append(s.list, sighting{})
	}
	return &s.list[m]
}

// sent returns what is to be called when the ACK has been handed over; nil if
// nobody wants to know.
func (n *noted) sent(f *Fleet) func(at int64) {
	if len(n.entries) == 0 && n.newest == 0 {
		return nil
	}
	entries, newest := n.entries, n.newest
	return func(at int64) {
		if newest != 0 {
			f.convergence.add(at - newest)
		}
		if len(entries) == 0 {
			return
		}
		f.sightings.mu.Lock()
		defer f.sightings.mu.Unlock()
		for _, e := range entries {
			f.sightings.list[e.marker].acked[e.at] = at
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
		one := MarkerSightings{Change: m.Change, Marker: i, Type: m.Type, Gone: m.Gone, Proxy: []int32{}, ReceivedNS: []int64{}, AckedNS: []int64{}}
		if i < len(f.sightings.list) {
			s := &f.sightings.list[i]
			one.Proxy = append(one.Proxy, s.proxy...)
			one.ReceivedNS = append(one.ReceivedNS, s.received...)
			one.AckedNS = append(one.AckedNS, s.acked...)
			one.Unknown = s.unknown
		}
		out = append(out, one)
	}
	return out
}
