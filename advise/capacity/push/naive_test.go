package push

import (
	"math"
	"slices"
)

// naive simulates one replica in the straightforward way: every proxy individually,
// every job with its remaining work, everything examined in every step. It has one
// class and no returning proxies, and shares only the inputs and the arithmetic of
// costs with the simulation.
type naive struct {
	in      *Input
	now     float64
	waiting []int // being debounced
	oldest  float64
	newest  float64
	timer   float64
	making  []int
	context float64 // remaining work; below 0: none is being made

	pushed  []int  // in push order
	had     []int  // by proxy
	pending []bool // in the queue
	again   []bool // pushed to during its turn
	queue   []int
	left    map[int]float64 // of turns, by proxy: remaining path
	to      map[int]int
	begun   []float64         // when the first push that a proxy waits for began
	next    []float64         // the same for pushes that came during its turn
	made    map[[2]int]int    // by namespace and type: number of changes that the cached entry covers
	maker   map[[2]int][2]int // who makes it, and for how many changes
	misses  map[int][Types]bool
	cleared float64
	bytes   float64

	chores []float64 // remaining paths of the changes' own costs

	latencies []float64
	turns     int
	cpu       float64
	longest   int
}

func runNaive(in *Input) *naive {
	n := in.Classes[0].Proxies
	s := &naive{in: in, timer: math.Inf(1), context: -1, had: make([]int, n), pending: make([]bool, n), again: make([]bool, n),
		left: map[int]float64{}, to: map[int]int{}, begun: make([]float64, n), next: make([]float64, n), made: map[[2]int]int{}, maker: map[[2]int][2]int{}, misses: map[int][Types]bool{}}
	arrived := 0
	for {
		rate := s.rate()
		next := s.timer
		if arrived < len(in.Changes) {
			next = math.Min(next, in.Changes[arrived].At+in.Costs.Watch)
		}
		next = math.Max(next, s.now)
		for _, work := range s.works() {
			next = math.Min(next, s.now+work/rate)
		}
		if math.IsInf(next, 1) {
			return s
		}
		s.advance((next - s.now) * rate)
		s.now = next
		for arrived < len(in.Changes) && in.Changes[arrived].At+in.Costs.Watch <= s.now+1e-12 {
			s.change(arrived)
			arrived++
		}
		s.settle()
	}
}

func (s *naive) works() []float64 {
	var out []float64
	if s.context >= 0 {
		out = append(out, s.context)
	}
	for _, w := range s.left {
		out = append(out, w)
	}
	return append(out, s.chores...)
}

func (s *naive) rate() float64 {
	load := float64(len(s.left))*s.in.Costs.Parallel + float64(len(s.chores))
	if s.context >= 0 {
		load++
	}
	if cores := s.in.Settings.Cores - s.in.Costs.Idle; load > cores {
		return cores / load
	}
	return 1
}

func (s *naive) advance(work float64) {
	if s.context >= 0 {
		s.context = math.Max(0, s.context-work)
	}
	for p := range s.left {
		s.left[p] = math.Max(0, s.left[p]-work)
	}
	for i := range s.chores {
		s.chores[i] = math.Max(0, s.chores[i]-work)
	}
}

func (s *naive) change(c int) {
	if s.in.Costs.Change > 0 {
		s.chores = append(s.chores, s.in.Costs.Change)
		s.cpu += s.in.Costs.Change
	}
	if len(s.waiting) == 0 {
		s.oldest, s.timer = s.now, s.now+s.in.Settings.DebounceAfter
	}
	s.newest = s.now
	s.waiting = append(s.waiting, c)
}

// settle does everything that is due.
func (s *naive) settle() {
	const tiny = 1e-10
	s.chores = slices.DeleteFunc(s.chores, func(left float64) bool { return left <= tiny })
	due := s.timer <= s.now+1e-12
	if due {
		s.timer = math.Inf(1)
	}
	if s.context >= 0 && s.context <= tiny {
		s.context = -1
		s.pushed = append(s.pushed, s.making...)
		s.making, due, s.cleared = nil, true, s.now
		for p := range s.had {
			switch {
			case s.pending[p]:
			case s.hasTurn(p):
				if !s.again[p] {
					s.next[p] = s.now
				}
				s.again[p] = true
			default:
				s.pending[p], s.begun[p] = true, s.now
				s.queue = append(s.queue, p)
			}
		}
		s.longest = max(s.longest, len(s.queue))
	}
	if due && s.context < 0 && len(s.waiting) > 0 {
		if s.now-s.newest >= s.in.Settings.DebounceAfter-1e-9 || s.now-s.oldest >= s.in.Settings.DebounceMax-1e-9 {
			s.making, s.waiting, s.context, s.timer = s.waiting, nil, 0, math.Inf(1)
			for _, c := range s.making {
				s.context = math.Max(s.context, s.in.Kinds[s.in.Changes[c].Kind].Context)
			}
			s.cpu += s.context
		} else {
			s.timer = s.newest + s.in.Settings.DebounceAfter
		}
	}
	for p := range s.had {
		if w, ok := s.left[p]; ok && w <= tiny {
			s.end(p)
		}
	}
	slots := s.in.Settings.Throttle
	if slots == 0 {
		slots = DefaultThrottle(s.in.Settings.Cores)
	}
	for len(s.queue) > 0 && len(s.left) < slots {
		p := s.queue[0]
		s.queue, s.pending[p], s.to[p] = s.queue[1:], false, len(s.pushed)
		s.lookUp(p)
		cpu, _ := s.costs(p)
		s.cpu += cpu
		s.left[p] = cpu / s.in.Costs.Parallel
	}
}

func (s *naive) hasTurn(p int) bool { _, ok := s.left[p]; return ok }

// brought returns how many of the first upto changes pushed bring a type.
func (s *naive) brought(t Type, upto int) int {
	n := 0
	for _, c := range s.pushed[:upto] {
		if s.in.Kinds[s.in.Changes[c].Kind].Types.Has(t) {
			n++
		}
	}
	return n
}

// lookUp finds what of a proxy's turn is not cached. One proxy of a namespace
// generates it at a time, unless nobody may cache it.
func (s *naive) lookUp(p int) {
	var misses [Types]bool
	class := s.in.Classes[0]
	for t := range Types {
		key := [2]int{p % class.Variants, int(t)}
		state := s.brought(t, s.to[p])
		if class.CPU[t].Anew == 0 || state == s.brought(t, s.had[p]) || s.made[key] == state {
			continue
		}
		if who, ok := s.maker[key]; s.begun[p] >= s.cleared {
			if ok && who[1] == state {
				continue
			}
			s.maker[key] = [2]int{p, state}
		}
		misses[t] = true
	}
	s.misses[p] = misses
}

// store caches what a proxy's turn generated, unless something was pushed in the
// meantime.
func (s *naive) store(p int) {
	for t := range Types {
		key := [2]int{p % s.in.Classes[0].Variants, int(t)}
		if who, ok := s.maker[key]; ok && who[0] == p {
			delete(s.maker, key)
			if s.begun[p] >= s.cleared {
				s.made[key] = who[1]
			}
		}
	}
}

// costs returns the CPU time and bytes of a proxy's turn.
func (s *naive) costs(p int) (cpu, bytes float64) {
	var merged, own, asked [Types]int
	var whole [Types]bool
	for _, c := range s.pushed[s.had[p]:s.to[p]] {
		kind := s.in.Kinds[s.in.Changes[c].Kind]
		for t := range Types {
			if kind.Types.Has(t) {
				merged[t]++
				if !kind.Bare.Has(t) {
					own[t]++
				}
			}
			if kind.Asks.Has(t) {
				asked[t]++
			}
			whole[t] = whole[t] || kind.Spoils.Has(t)
		}
	}
	needed := false
	class := s.in.Classes[0]
	for t, n := range merged {
		if n == 0 {
			continue
		}
		needed = true
		parts := []float64{} // number of changes in each response; -1 means everything
		switch {
		case whole[t]:
			parts = append(parts, -1)
		case own[t] > 0 || Type(t) != EDS:
			parts = append(parts, float64(own[t]))
		}
		if asked[t] > 0 {
			parts = append(parts, float64(asked[t]))
		}
		for _, n := range parts {
			cpu, bytes = cpu+class.CPU[t].Base, bytes+class.Bytes[t].Base
			if n < 0 {
				cpu, bytes = cpu+class.CPU[t].Whole, bytes+class.Bytes[t].Whole
			} else {
				cpu, bytes = cpu+class.CPU[t].Each*n, bytes+class.Bytes[t].Each*n
			}
		}
		if s.misses[p][t] {
			cpu += class.CPU[t].Anew
		}
	}
	if !needed {
		cpu = s.in.Costs.Skip
	}
	return cpu, bytes
}

func (s *naive) end(p int) {
	_, bytes := s.costs(p)
	s.store(p)
	class := s.in.Classes[0]
	needed := false
	for _, c := range s.pushed[s.had[p]:s.to[p]] {
		if s.in.Kinds[s.in.Changes[c].Kind].Types != 0 {
			needed = true
			s.latencies = append(s.latencies, s.now+class.Apply+class.ApplyByte*bytes-s.in.Changes[c].At)
		}
	}
	if needed {
		s.turns++
		s.bytes += bytes
	}
	s.had[p] = s.to[p]
	delete(s.left, p)
	if s.again[p] {
		s.again[p], s.pending[p], s.begun[p] = false, true, s.next[p]
		s.queue = append(s.queue, p)
	}
}
