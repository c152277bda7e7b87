package xds

import (
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// memory holds the steps that proxies took recently, with the times at which
// they received and acknowledged them. If a marker is announced after a proxy
// received the marked content, it is found here, with the original times. The
// memory keeps the contents of those steps alive so that they can be searched.
type memory struct {
	chunks []*memoryChunk // the oldest first
	// from is the time since which the memory is complete, Unix nanoseconds.
	from int64
	// late are sightings found by lookBack in steps not acknowledged yet.
	late map[*taken][]noteEntry
}

// taken is one step taken by one proxy.
type taken struct {
	step     *step
	proxy    int32
	received int64
	acked    int64 // 0: not yet
}

// memoryChunk is the unit in which memory is freed.
type memoryChunk struct {
	entries []taken // never grows beyond its capacity, because there are pointers into it
	newest  int64
}

// Limits of the memory. Markers are late by milliseconds, or by a few seconds
// on an overloaded machine.
const (
	rememberFor     = 10 * time.Second
	rememberChunk   = 256 // entries of 32 bytes
	rememberEach    = 256 // entries per proxy, on average
	rememberAtLeast = 16  // chunks
)

// remember records that a proxy takes a step.
func (s *sightings) remember(st *step, proxy int32, at int64) *taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.memory
	n := len(m.chunks)
	if n == 0 || len(m.chunks[n-1].entries) == rememberChunk {
		if n >= max(rememberAtLeast, s.proxies*rememberEach/rememberChunk) {
			m.drop(1)
		}
		m.chunks = append(m.chunks, &memoryChunk{entries: make([]taken, 0, rememberChunk)})
		n = len(m.chunks)
	}
	c := m.chunks[n-1]
	c.entries = append(c.entries, taken{step: st, proxy: proxy, received: at})
	c.newest = max(c.newest, at)
	return &c.entries[len(c.entries)-1]
}

// drop removes the first n chunks.
func (m *memory) drop(n int) {
	for _, c := range m.chunks[:n] {
		m.from = max(m.from, c.newest+1)
	}
	clear(m.chunks[:n])
	m.chunks = m.chunks[n:]
}

// expire drops chunks older than rememberFor and reports whether any are left.
func (s *sightings) expire(now time.Time) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.memory
	n := 0
	for n < len(m.chunks) && m.chunks[n].newest < now.Add(-rememberFor).UnixNano() {
		n++
	}
	m.drop(n)
	if len(m.chunks) == 0 {
		m.chunks = nil
	}
	return len(m.chunks) > 0
}

// ack records when a step was acknowledged. s.mu is held.
func (m *memory) ack(s *sightings, t *taken, at int64) {
	t.acked = at
	for _, e := range m.late[t] {
		s.ack(e, at)
	}
	delete(m.late, t)
}

// lookBack searches the memory for the markers with indices in [first, end),
// which were just announced.
func (f *Fleet) lookBack(first, end int, now int64) {
	markers := (*f.catalogue.markers.Load())[:end]
	s := &f.sightings
	s.mu.Lock()
	from := s.memory.from
	chunks := make([][]taken, len(s.memory.chunks))
	for i, c := range s.memory.chunks {
		chunks[i] = c.entries // only acked changes in them
	}
	s.mu.Unlock()
	back, fresh := from, false
	for i := first; i < end; i++ {
		fresh = fresh || markers[i].since < now
	}
	for _, entries := range chunks {
		if !fresh {
			break
		}
		var last *step
		var found *sights
		for i := range entries {
			e := &entries[i]
			if e.step != last {
				last, found = e.step, f.catalogue.sights(e.step)
			}
			for _, m := range found.unknown {
				if int(m) >= first && int(m) < end {
					back = max(back, e.received+1)
				}
			}
			for _, m := range found.seen {
				if int(m) >= first && int(m) < end && e.received >= markers[m].since {
					s.found(m, e)
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := first; i < end; i++ {
		s.grow(int32(i)).from = max(back, markers[i].since)
	}
}

// found records a sighting found in the memory.
func (s *sightings) found(m int32, t *taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked := t.acked
	if acked == 0 {
		acked = record.Never
	}
	i := s.see(m, t.proxy, t.received, acked)
	if i < 0 || acked > 0 {
		return
	}
	if s.memory.late == nil {
		s.memory.late = map[*taken][]noteEntry{}
	}
	s.memory.late[t] = append(s.memory.late[t], noteEntry{marker: m, at: i})
}
