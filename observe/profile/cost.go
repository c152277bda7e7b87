package profile

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/stat"
)

// Costs is the distribution of a program's time over cost centres.
type Costs struct {
	Total   int64        `json:"total"`
	Unit    string       `json:"unit"`
	Samples int64        `json:"samples"`
	Blocks  int          `json:"blocks"` // that intervals come from
	Method  string       `json:"method"` // of the intervals, in words
	Centres []CentreCost `json:"centres"`
	// Filters has the filters of the configuration, if one was given, with their
	// observed cost.
	Filters []FilterCost `json:"filters,omitempty"`
}

// CentreCost is a cost centre's cost. Each sample belongs to one centre, so
// weights add up to the total.
type CentreCost struct {
	Group  string `json:"group"`
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
	// Share is the share of all samples, with its 95% interval.
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Kernel is the weight of samples in the kernel on behalf of the centre,
	// including the kernel's own centres.
	Kernel int64 `json:"kernel,omitempty"`
	// Within is the weight of samples with the centre anywhere in their
	// stack.
	Within int64 `json:"within"`
}

// FilterCost joins a configured filter to its cost centre.
type FilterCost struct {
	ConfigFilter
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Within is the share of samples with it anywhere in their stack.
	Within float64 `json:"within"`
	Seen   bool    `json:"seen"`
	// Shared means that other configured filters use the same functions, so the
	// share includes them.
	Shared bool `json:"shared,omitempty"`
}

// maxTimeBlocks is the number of time blocks that a profile is divided into.
const maxTimeBlocks = 10

// Cost sums samples by cost centre. Intervals come from blocks: several profiles
// are blocks of one measurement; a single profile is divided into blocks of time
// if its samples have times. filters may be nil.
//
// A sample in the kernel belongs to one of the kernel's centres, and any other
// sample to the centre of the innermost function with a rule. A filter that
// calls the next one counts only its own part.
func Cost(profiles []*Profile, filters []ConfigFilter) Costs {
	blocks, method := blocksOf(profiles)
	out := Costs{Blocks: len(blocks.totals), Method: method}
	sums := map[centre]*centreSum{}
	for _, p := range profiles {
		out.Total = plus(out.Total, p.Total())
		out.Samples = plus(out.Samples, p.Taken())
		out.Unit = p.Unit
		addCentres(p, blocks, sums)
	}
	for c, sum := range sums {
		cost := CentreCost{Group: c.group, Name: c.name,
			Weight: sum.weight, Kernel: sum.kernel, Within: sum.within}
		cost.Share, cost.Low, cost.High = blocks.share(sum.byBlock, sum.weight, out.Total, out.Samples)
		out.Centres = append(out.Centres, cost)
	}
	slices.SortFunc(out.Centres, func(a, b CentreCost) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	out.Filters = joinFilters(out, filters)
	return out
}

type centreSum struct {
	weight, kernel, within int64
	byBlock                []int64
}

// addCentres adds a profile's samples.
func addCentres(p *Profile, blocks blocks, sums map[centre]*centreSum) {
	byFrame := make([]centre, len(p.frames))
	for id, f := range p.frames {
		byFrame[id] = centreOf(f)
	}
	at := func(c centre) *centreSum {
		sum := sums[c]
		if sum == nil {
			sum = &centreSum{byBlock: make([]int64, len(blocks.totals))}
			sums[c] = sum
		}
		return sum
	}
	type attribution struct {
		self, caller *centreSum
		within       []*centreSum
	}
	byStack := map[StackID]attribution{}
	for s := range p.Samples() {
		a, ok := byStack[s.Stack]
		if !ok {
			self, caller := centre{}, centre{}
			kernel, innermost, unnamed := false, true, ""
			var within []centre
			for id := range p.Inner(s.Stack) {
				f, c := p.frames[id], byFrame[id]
				if innermost {
					kernel, innermost = f.Kernel, false
				}
				if !f.Kernel {
					caller = cmp.Or(caller, c)
				}
				if !f.Kernel && f.Name == "" {
					unnamed = cmp.Or(unnamed, f.Label())
				}
				if f.Kernel == kernel {
					self = cmp.Or(self, c)
				}
				if c != (centre{}) && !slices.Contains(within, c) {
					within = append(within, c)
				}
			}
			switch {
			case self != (centre{}):
			case kernel:
				self = centre{GroupKernel, "other"}
			case unnamed != "":
				self = centre{GroupUnnamed, unnamed}
			default:
				self = centre{GroupOther, "other"}
			}
			if !slices.Contains(within, self) {
				within = append(within, self)
			}
			a.self = at(self)
			if kernel && caller != (centre{}) {
				a.caller = at(caller)
			}
			for _, c := range within {
				a.within = append(a.within, at(c))
			}
			byStack[s.Stack] = a
		}
		a.self.weight = plus(a.self.weight, s.Weight)
		a.self.byBlock[blocks.of(p, s)] += s.Weight
		if a.caller != nil {
			a.caller.kernel = plus(a.caller.kernel, s.Weight)
		}
		for _, sum := range a.within {
			sum.within = plus(sum.within, s.Weight)
		}
	}
}

// joinFilters joins each configured filter to its cost.
func joinFilters(c Costs, filters []ConfigFilter) []FilterCost {
	var out []FilterCost
	same := map[string]int{}
	for _, f := range filters {
		same[f.Group+f.Centre]++
	}
	for _, f := range filters {
		joined := FilterCost{ConfigFilter: f, Shared: same[f.Group+f.Centre] > 1}
		for _, have := range c.Centres {
			if have.Name != f.Centre && (f.Centre != GroupWasm || have.Group != GroupWasm) {
				continue
			}
			joined.Share += have.Share
			joined.Low += have.Low
			joined.High += have.High
			joined.Within = max(joined.Within, float64(have.Within)/float64(max(c.Total, 1)))
			joined.Seen = true
		}
		out = append(out, joined)
	}
	return out
}

// blocks divides a measurement into parts, for intervals.
type blocks struct {
	totals   []int64
	profiles []*Profile // one per block; nil if blocks are of time
	from, to int64
}

// blocksOf divides a measurement into blocks, and returns the method in words.
func blocksOf(profiles []*Profile) (blocks, string) {
	if len(profiles) > 1 {
		b := blocks{profiles: profiles}
		for _, p := range profiles {
			b.totals = append(b.totals, p.Total())
		}
		return b, "Student's t over blocks of the run"
	}
	if len(profiles) == 1 {
		if b, ok := timeBlocks(profiles[0]); ok {
			return b, "Student's t over blocks of time"
		}
	}
	b := blocks{totals: make([]int64, 1)}
	for _, p := range profiles {
		b.totals[0] = plus(b.totals[0], p.Total())
	}
	return b, "from the number of samples alone, as if they were independent"
}

// timeBlocks divides a profile into blocks of equal time with some 20 samples
// each.
func timeBlocks(p *Profile) (blocks, bool) {
	from, to, ok := p.Span()
	n := min(maxTimeBlocks, p.Len()/20)
	if !ok || n < 3 || to-from < int64(n) {
		return blocks{}, false
	}
	b := blocks{totals: make([]int64, n), from: from, to: to}
	for s := range p.Samples() {
		b.totals[b.of(p, s)] += s.Weight
	}
	return b, true
}

// of returns the index of a sample's block.
func (b blocks) of(p *Profile, s Sample) int {
	if b.profiles != nil {
		return slices.Index(b.profiles, p)
	}
	if n := int64(len(b.totals)); n > 1 {
		return int(min(n-1, int64(float64(s.TimeNS-b.from)/float64(b.to-b.from)*float64(n))))
	}
	return 0
}

// shares returns the shares of weights by block in the blocks with samples.
// byBlock may be nil.
func (b blocks) shares(byBlock []int64) []float64 {
	if byBlock == nil {
		byBlock = make([]int64, len(b.totals))
	}
	var out []float64
	for i, total := range b.totals {
		if total > 0 {
			out = append(out, float64(byBlock[i])/float64(total))
		}
	}
	return out
}

// share returns the share of a weight with its 95% interval, clamped to 0..1.
func (b blocks) share(byBlock []int64, weight, total, samples int64) (share, low, high float64) {
	if total <= 0 {
		return 0, 0, 0
	}
	share = float64(weight) / float64(total)
	shares := b.shares(byBlock)
	if len(shares) < 2 {
		low, high = Wilson(share, samples)
		return share, low, high
	}
	e := stat.Mean(shares, stat.Options{})
	half := (e.High - e.Low) / 2
	return share, max(0, share-half), min(1, share+half)
}
