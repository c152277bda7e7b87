package profile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Top lists the functions with the highest self cost.
func (p *Profile) Top(n int) []record.ProfileCost {
	return p.top(n, func(c record.ProfileCost) int64 { return c.Flat })
}

// TopCumulative lists the functions with the highest cost including callees.
func (p *Profile) TopCumulative(n int) []record.ProfileCost {
	return p.top(n, func(c record.ProfileCost) int64 { return c.Cumulative })
}

func (p *Profile) top(n int, by func(record.ProfileCost) int64) []record.ProfileCost {
	costs := map[string]record.ProfileCost{}
	for stack, weight := range p.stackWeights() {
		counted := map[string]bool{}
		for id := range p.Inner(stack) {
			c := costs[p.frames[id].Label()]
			c.Function = p.frames[id].Label()
			if len(counted) == 0 {
				c.Flat += weight
			}
			if !counted[c.Function] { // count recursive functions once
				c.Cumulative += weight
				counted[c.Function] = true
			}
			costs[c.Function] = c
		}
	}
	out := slices.AppendSeq(make([]record.ProfileCost, 0, len(costs)), maps.Values(costs))
	slices.SortFunc(out, func(a, b record.ProfileCost) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a.Function, b.Function))
	})
	return out[:min(n, len(out))]
}

// stackWeights returns the weights of stacks.
func (p *Profile) stackWeights() map[StackID]int64 {
	out := map[StackID]int64{}
	for s := range p.Samples() {
		out[s.Stack] += s.Weight
	}
	return out
}

// ThreadCost is the cost of the threads of one name.
type ThreadCost struct {
	Name    string  `json:"name"`
	Threads int     `json:"threads"` // of that name
	Weight  int64   `json:"weight"`
	Kernel  int64   `json:"kernel"` // the part in the kernel
	Share   float64 `json:"share"`
}

// ByThread sums the cost of threads by name, most expensive first.
func (p *Profile) ByThread() []ThreadCost {
	costs := map[string]ThreadCost{}
	total := int64(0)
	seen := map[ThreadID]bool{}
	for s := range p.Samples() {
		c := costs[p.threads[s.Thread].Name]
		c.Name = p.threads[s.Thread].Name
		if !seen[s.Thread] {
			seen[s.Thread] = true
			c.Threads++
		}
		c.Weight += s.Weight
		total += s.Weight
		if s.Stack != 0 && p.frames[p.paths[s.Stack].frame].Kernel {
			c.Kernel += s.Weight
		}
		costs[c.Name] = c
	}
	out := make([]ThreadCost, 0, len(costs))
	for _, c := range costs {
		c.Share = float64(c.Weight) / float64(max(total, 1))
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b ThreadCost) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	return out
}
