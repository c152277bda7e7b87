package push

import "sort"

// tally counts the changes so far.
type tally struct {
	all   int32        // needed by a class
	each  [Types]int32 // that push a type
	own   [Types]int32 // that have their own part in it
	asks  [Types]int32 // whose part proxies request
	spoil [Types]int32 // that prevent sending it as a difference
}

// counts records which of the changes pushed so far a class needs, and which types
// they push to it, so that any range of changes can be looked up directly.
type counts struct {
	in *Input
	// by class: a running sum for each change pushed, preceded by zero
	sums [][]tally
}

func newCounts(in *Input) *counts {
	c := &counts{in: in, sums: make([][]tally, len(in.Classes))}
	for i := range in.Classes {
		c.sums[i] = []tally{{}}
	}
	return c
}

// append adds a change after those already pushed.
func (c *counts) append(change *Change) {
	kind := &c.in.Kinds[change.Kind]
	for i := range c.in.Classes {
		sum := c.sums[i][len(c.sums[i])-1]
		if kind.Types != 0 && c.needs(i, change) {
			sum.all++
			for t := range Types {
				if kind.Types.Has(t) {
					sum.each[t]++
					if !kind.Bare.Has(t) {
						sum.own[t]++
					}
				}
				if kind.Asks.Has(t) {
					sum.asks[t]++
				}
				if kind.Spoils.Has(t) {
					sum.spoil[t]++
				}
			}
		}
		c.sums[i] = append(c.sums[i], sum)
	}
}

// merge describes what a push of a type merges.
type merge struct {
	changes int     // that push the type; 0: nothing of it is sent
	own     int     // number of them with their own part
	asked   int     // parts that the proxy requests afterwards
	whole   bool    // all of the type is sent
	sent    bool    // the turn itself sends it
	anew    float64 // share of proxies that miss istiod's cache
}

// pushes returns the number of resulting responses of the type.
func (m merge) pushes() float64 {
	n := 0.0
	if m.sent {
		n++
	}
	if m.asked > 0 {
		n++
	}
	return n
}

// merged returns what a push of a type to a class merges, for a range of changes.
// Endpoints are not sent if none have changed (buildEndpoints in
// pilot/pkg/xds/eds.go), while clusters come with those that every proxy has.
func (c *counts) merged(class int, t Type, from, to int) merge {
	a, b := &c.sums[class][from], &c.sums[class][to]
	m := merge{changes: int(b.each[t] - a.each[t]), own: int(b.own[t] - a.own[t]), asked: int(b.asks[t] - a.asks[t]), whole: b.spoil[t] > a.spoil[t]}
	m.sent = m.changes > 0 && (t != EDS || m.own > 0 || m.whole)
	return m
}

// needs reports whether a class needs a change: classes lie evenly around a
// circle, and each needs the changes that fall into its share of it.
func (c *counts) needs(class int, change *Change) bool {
	share := c.in.Classes[class].Needs
	if share >= 1 {
		return true
	}
	at := change.Where - float64(class)/float64(len(c.in.Classes))
	if at < 0 {
		at++
	}
	return at < share
}

// needed returns how many changes in a range a class needs.
func (c *counts) needed(class, from, to int) int {
	return int(c.sums[class][to].all - c.sums[class][from].all)
}

// nth returns the position of the nth change (from 0) that a class needs, counted
// from a given position; it lies between low and high.
func (c *counts) nth(class, from, low, high, nth int) int {
	sums := c.sums[class]
	want := sums[from].all + int32(nth) + 1
	return low + sort.Search(high-low, func(i int) bool { return sums[low+i+1].all >= want })
}

// ring is a bounded queue.
type ring struct {
	slots []int32
	head  int
	n     int
}

func (q *ring) len() int    { return q.n }
func (q *ring) peek() int32 { return q.slots[q.head] }

func (q *ring) push(who int32) {
	q.slots[(q.head+q.n)%len(q.slots)] = who
	q.n++
}

func (q *ring) pop() {
	if q.head++; q.head == len(q.slots) {
		q.head = 0
	}
	q.n--
}

// event happens at a given time. For the CPUs' jobs the time is on the clock of
// shared time, which advances at the speed of all jobs, so a job that begins at v
// and has a path of s seconds ends at v+s. For alarms it is real time.
type event struct {
	at   float64
	seq  int64   // orders events at the same time by creation
	load float64 // CPUs that a job uses when available
	who  int32
	kind int8
}

// events is a heap, the earliest event on top.
type events []event

func (h events) before(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *events) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.before(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *events) pop() event {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if down+1 < last && s.before(down+1, down) {
			down++
		}
		if !s.before(down, i) {
			return top
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
}
