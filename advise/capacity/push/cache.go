package push

import "math"

// cached is the content of istiod's cache for the proxies of one variant.
//
// It follows typedXdsCache of pilot/pkg/model. An entry's key covers everything it
// was made from, so a change of the type invalidates all entries. A push adds its
// entries only if it began after the cache was last cleared, which every push
// context does. A merged push keeps the beginning of its first. With overlapping
// pushes, nearly all turns therefore regenerate what they send.
type cached struct {
	has    [Types]int32 // number of changes of the type in the entry; 0: no entry
	making [Types]int32 // turns that are making an entry
	of     [Types]int32 // number of changes in that entry
}

// look determines what a starting turn finds in the cache, and records what it
// regenerates.
func (r *replica) look(e *entity) {
	e.missing, e.makes = [Types]int32{}, 0
	class, c := &r.in.Classes[e.class], &r.cache[e.variant]
	sums := r.counts.sums[e.class]
	for t := range Types {
		state := sums[e.to].each[t]
		if class.CPU[t].Anew == 0 || state == sums[e.had].each[t] || c.has[t] == state {
			continue
		}
		// What other turns are making is ready when this turn gets a CPU: turns run
		// one after the other on each CPU, and no more of them miss the cache than
		// run concurrently.
		most := max(1, int32(math.Ceil(r.in.Settings.Cores/float64(max(1, class.Variants)))))
		missing := e.weight
		if e.start >= r.cleared {
			if c.of[t] != state {
				c.of[t], c.making[t] = state, 0
			}
			if c.making[t] >= most {
				continue
			}
			missing = min(missing, most-c.making[t])
			c.making[t] += missing
			e.makes |= 1 << t
		}
		e.missing[t] = missing
	}
}

// keep adds the results of a turn to the cache.
func (r *replica) keep(e *entity) {
	if e.makes == 0 {
		return
	}
	c := &r.cache[e.variant]
	for t := range Types {
		if !e.makes.Has(t) {
			continue
		}
		state := r.counts.sums[e.class][e.to].each[t]
		if c.of[t] == state {
			c.making[t] -= e.missing[t]
		}
		if e.start >= r.cleared {
			c.has[t] = state
		}
	}
	e.makes = 0
}
