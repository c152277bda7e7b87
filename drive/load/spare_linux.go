package load

// spareIdle is how long an additional connection stays open without a
// request, in ns.
const spareIdle = 5_000_000_000

// spare holds the connections beyond the permanent ones. They are opened for requests
// that find all others busy, and closed when no longer needed.
type spare struct {
	base  int     // connections below this number are permanent
	shut  []int32 // without a socket
	idle  list    // open, by when they became free
	count int     // in both
}

// spareFrom makes all connections from number base on additional ones.
func spareFrom(base, all int) spare {
	s := spare{base: base, idle: newList(), count: all - base}
	for id := all - 1; id >= base; id-- {
		s.shut = append(s.shut, int32(id))
	}
	return s
}

// available returns the number of requests that could be sent now.
func (l *loop) available() int {
	if l.streams != nil && !l.max {
		return len(l.conns)
	}
	return l.free.n + l.spare.count
}

// take returns the connection for the next request: the permanent one that has been
// free longest, else the additional one that was used last, so that the others can be
// closed.
func (l *loop) take() *conn {
	if l.streams != nil && !l.max {
		return l.takeTurn()
	}
	if l.free.n > 0 {
		return &l.conns[l.free.pop()]
	}
	s := &l.spare
	s.count--
	if id := s.idle.last; id != none {
		s.idle.remove(l.conns, id)
		return &l.conns[id]
	}
	id := s.shut[len(s.shut)-1]
	s.shut = s.shut[:len(s.shut)-1]
	return &l.conns[id]
}

// release makes the connection available to the next request.
func (l *loop) release(c *conn, now int64) {
	c.freeAt = now
	switch s := &l.spare; {
	case int(c.id) < s.base:
		l.free.push(c.id)
	case c.state == idle:
		s.idle.push(l.conns, c.id)
		s.count++
	default:
		s.shut = append(s.shut, c.id)
		s.count++
	}
}

// leave closes an open connection without a request.
func (l *loop) leave(c *conn, reset bool) {
	l.shut(c, reset)
	if s := &l.spare; int(c.id) >= s.base {
		s.idle.remove(l.conns, c.id)
		s.shut = append(s.shut, c.id)
	}
}

// expire closes additional connections that are no longer needed.
func (l *loop) expire(now int64) {
	for l.spare.idle.first != none {
		c := &l.conns[l.spare.idle.first]
		if now < c.freeAt+spareIdle {
			break
		}
		l.leave(c, false)
	}
}
