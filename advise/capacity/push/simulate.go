package push

import (
	"math"
	"slices"
)

// Simulate simulates a mesh.
func Simulate(in Input) *Result {
	out := &Result{Drained: true, Changes: len(in.Changes)}
	for _, group := range replicaGroups(&in) {
		r := newReplica(&in, group.proxies, group.returning)
		r.run()
		out.add(&r.out, float64(group.times))
	}
	return out
}

// group is a number of replicas with the same proxies in each class.
type group struct {
	proxies, returning []int
	times              int
}

// replicaGroups distributes proxies evenly over replicas and groups identical replicas.
func replicaGroups(in *Input) []group {
	n := in.Settings.Replicas
	proxies, returning := make([][]int, n), make([][]int, n)
	for _, class := range in.Classes {
		for i := range n {
			proxies[i] = append(proxies[i], part(class.Proxies, i, n))
			returning[i] = append(returning[i], part(class.Returning, i, n))
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

// part returns the ith of n parts that add up to total.
func part(total, i, n int) int {
	upto := func(i int) int { return int(math.Round(float64(total) * float64(i) / float64(n))) }
	return upto(i+1) - upto(i)
}
