package load

// fifo is a ring of connection numbers with room for all of them.
type fifo struct {
	ring []int32
	head int
	n    int
}

func newFIFO(size int) fifo {
	n := 1
	for n < size {
		n *= 2
	}
	return fifo{ring: make([]int32, n)}
}

func (f *fifo) push(id int32) {
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = id
	f.n++
}

func (f *fifo) pop() int32 {
	id := f.ring[f.head]
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	return id
}

// none is the absence of a connection in a list.
const none = -1

// list links connections in the order in which their requests were sent: the first times out
// first.
type list struct{ first, last int32 }

func newList() list { return list{none, none} }

func (l *list) push(conns []conn, id int32) {
	c := &conns[id]
	c.prev, c.next = l.last, none
	if l.last == none {
		l.first = id
	} else {
		conns[l.last].next = id
	}
	l.last = id
}

func (l *list) remove(conns []conn, id int32) {
	c := &conns[id]
	if c.prev == none {
		l.first = c.next
	} else {
		conns[c.prev].next = c.next
	}
	if c.next == none {
		l.last = c.prev
	} else {
		conns[c.next].prev = c.prev
	}
}
