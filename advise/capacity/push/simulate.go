package push

import (
	"math"
	"slices"
)

// Simulate runs a mesh. It fails only for an input that [Input.Check] refuses.
func Simulate(in Input) (*Result, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	out := &Result{Drained: true, Changes: len(in.Changes)}
	for _, group := range replicaGroups(&in) {
		r := newReplica(&in, group.proxies, group.returning)
		r.run()
		out.add(&r.out, float64(group.times))
	}
	return out, nil
}

// group is a number of replicas with the same proxies by class.
type group struct {
	proxies, returning []int
	times              int
}

// replicaGroups spreads proxies over replicas by their shares and puts those
// that come out alike together.
func replicaGroups(in *Input) []group {
	n := in.Settings.Replicas
	shares := in.Settings.Shares
	if shares == nil {
		shares = make([]float64, n)
		for i := range shares {
			shares[i] = 1
		}
	}
	proxies, returning := make([][]int, n), make([][]int, n)
	for _, class := range in.Classes {
		for i, v := range spread(class.Proxies, shares) {
			proxies[i] = append(proxies[i], v)
		}
		for i, v := range spread(class.Returning, shares) {
			returning[i] = append(returning[i], v)
		}
	}
	var out []group
	for i := range n {
		found := slices.IndexFunc(out, func(g group) bool {
			return slices.Equal(g.proxies, proxies[i]) && slices.Equal(g.returning, returning[i])
		})
		if found >= 0 {
			out[found].times++
			continue
		}
		out = append(out, group{proxies[i], returning[i], 1})
	}
	return out
}

// spread divides a number by shares, so that the parts add up to it.
func spread(total int, shares []float64) []int {
	whole := 0.0
	for _, s := range shares {
		whole += math.Max(s, 0)
	}
	out := make([]int, len(shares))
	before, sofar := 0, 0.0
	for i, s := range shares {
		sofar += math.Max(s, 0)
		upto := total
		if i < len(shares)-1 && whole > 0 {
			upto = int(math.Round(float64(total) * sofar / whole))
		}
		out[i], before = upto-before, upto
	}
	return out
}
