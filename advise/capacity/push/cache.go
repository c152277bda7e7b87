package push

import "math"

// cached is what istiod's cache holds for the proxies of one variant.
//
// As typedXdsCache of pilot/pkg/model has it: an entry is found by all that made
// it, so that a change that brings the type leaves none to be found, and a push
// puts its entries in only if it began after the cache was last cleared, which
// every push context does. A push that merges keeps the beginning of the first.
// So with pushes that overlap nearly all turns make anew what they send.
type cached struct {
	has    [Types]int32 // changes of the type that the entry has; 0: there is none
	making [Types]int32 // turns that make an entry
	of     [Types]int32 // for so many changes
}

// look finds for a turn that begins what is in the cache, and notes what is made
// anew.
func (r *replica) look(e *entity) {
	e.missing, e.makes = [Types]int32{}, 0
	class, c := &r.in.Classes[e.class], &r.cache[e.variant]
	sums := r.counts.sums[e.class]
	for t := range Types {
		state := sums[e.to].each[t]
		if class.CPU[t].Anew == 0 || state == sums[e.had].each[t] || c.has[t] == state {
			continue
		}
		// What others make now is there when this turn comes to a CPU: turns run one
		// after the other on each, and no more of them look in vain than run.
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

// keep puts into the cache what a turn made.
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
