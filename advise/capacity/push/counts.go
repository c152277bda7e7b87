package push

import "sort"

// tally is how many changes there were so far.
type tally struct {
	all   int32        // that a class needs
	each  [Types]int32 // that bring a type
	own   [Types]int32 // that have a part of their own in it
	asks  [Types]int32 // whose part proxies ask for
	spoil [Types]int32 // that keep it from being sent by difference
}

// counts says which of the changes pushed so far a class needs, and which
// types they bring it, so that any stretch of them is looked up at once.
type counts struct {
	in *Input
	// by class: a sum for each change pushed and one before them all.
	sums [][]tally
}

func newCounts(in *Input) *counts {
	c := &counts{in: in, sums: make([][]tally, len(in.Classes))}
	for i := range in.Classes {
		c.sums[i] = []tally{{}}
	}
	return c
}

// append adds a change behind those pushed before.
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

// merge is what a push of a type merges.
type merge struct {
	changes int     // that bring the type; 0: nothing of it is sent
	own     int     // of them, with a part of their own
	asked   int     // parts that the proxy asks for afterwards
	whole   bool    // all of the type is sent
	sent    bool    // the turn itself sends it
	anew    float64 // share of the proxies for which it is not in istiod's cache
}

// pushes is how many responses of the type come of it.
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

// merged is what a push of a type merges to a class, of the changes from one place
// to another. Endpoints of which there are none to send are not sent at all
// (buildEndpoints in pilot/pkg/xds/eds.go), while clusters come with those that
// every proxy has.
func (c *counts) merged(class int, t Type, from, to int) merge {
	a, b := &c.sums[class][from], &c.sums[class][to]
	m := merge{changes: int(b.each[t] - a.each[t]), own: int(b.own[t] - a.own[t]), asked: int(b.asks[t] - a.asks[t]), whole: b.spoil[t] > a.spoil[t]}
	m.sent = m.changes > 0 && (t != EDS || m.own > 0 || m.whole)
	return m
}

// needs tells whether a class needs a change: classes lie evenly around a
// circle, and each needs what falls into its share of it.
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

// needed is how many of the changes from one place to another a class needs.
func (c *counts) needed(class, from, to int) int {
	return int(c.sums[class][to].all - c.sums[class][from].all)
}

// nth is the place of the nth change, from 0, of those that a class needs
// from one place on; it lies between low and high.
func (c *counts) nth(class, from, low, high, nth int) int {
	sums := c.sums[class]
	want := sums[from].all + int32(nth) + 1
	return low + sort.Search(high-low, func(i int) bool { return sums[low+i+1].all >= want })
}

// ring is a queue of bounded length.
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

// event is what happens at a time: to the CPUs' jobs, on the clock of shared
// time, on which all advance alike, so that a job that begins when it says v and
// has a path of s seconds ends when it says v+s; to alarms, on the real one.
type event struct {
	at   float64
	seq  int64   // of events at the same time, the one that was made first comes first
	load float64 // CPUs that a job takes when it has them
	who  int32
	kind int8
}

// events is a heap, the first on top.
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
