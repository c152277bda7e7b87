package push

import "sort"

// counts says which of the changes pushed so far a class needs, and which
// types they bring it, so that any stretch of them is looked up at once.
type counts struct {
	in *Input
	// by class: a sum for each change pushed and one before them all.
	all  [][]int32
	each [][][Types]int32
}

func newCounts(in *Input) *counts {
	c := &counts{in: in, all: make([][]int32, len(in.Classes)), each: make([][][Types]int32, len(in.Classes))}
	for i := range in.Classes {
		c.all[i] = []int32{0}
		c.each[i] = [][Types]int32{{}}
	}
	return c
}

// append adds a change behind those pushed before.
func (c *counts) append(change *Change) {
	types := c.in.Kinds[change.Kind].Types
	for i := range c.in.Classes {
		all, each := c.all[i][len(c.all[i])-1], c.each[i][len(c.each[i])-1]
		if types != 0 && c.needs(i, change) {
			all++
			for t := range Types {
				if types.Has(t) {
					each[t]++
				}
			}
		}
		c.all[i], c.each[i] = append(c.all[i], all), append(c.each[i], each)
	}
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
	return int(c.all[class][to] - c.all[class][from])
}

// of is how many of them bring a type.
func (c *counts) of(class int, t Type, from, to int) int {
	return int(c.each[class][to][t] - c.each[class][from][t])
}

// nth is the place of the nth change, from 0, of those that a class needs
// from one place on; it lies between low and high.
func (c *counts) nth(class, from, low, high, nth int) int {
	all := c.all[class]
	want := all[from] + int32(nth) + 1
	return low + sort.Search(high-low, func(i int) bool { return all[low+i+1] >= want })
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
