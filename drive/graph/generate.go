package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Spec sets the size of a generated graph.
type Spec struct {
	Services int    `json:"services"`
	Depth    int    `json:"depth"`   // services on a request's longest path, the entry included
	FanOut   int    `json:"fan_out"` // maximum calls of a service
	Seed     uint64 `json:"seed"`
	// Like is the template of every service, except for its name and calls.
	Like Service `json:"like"`
}

// maxMeanVisits limits the calls beyond those that reach every service: requests
// per service, on average, for each one at the entry.
const maxMeanVisits = 2

// Generate makes a graph of layers. The entry, s-0, is alone in the first. Every
// other service is called by at least one of the layer above, and calls only into
// layers below, so that the entry reaches all. The same Spec gives the same graph.
func Generate(spec Spec) (Graph, error) {
	sizes, err := spec.check()
	if err != nil {
		return Graph{}, err
	}
	r := rand.New(rand.NewPCG(spec.Seed, 0x67726170))
	// Grow layers one service at a time. At least one layer has room, because not
	// all can be full.
	for left := spec.Services - spec.Depth; left > 0; left-- {
		var room []int
		for k := 1; k < spec.Depth; k++ {
			if sizes[k] < spec.FanOut*sizes[k-1] {
				room = append(room, k)
			}
		}
		sizes[room[r.IntN(len(room))]]++
	}
	g := Graph{Services: make([]Service, spec.Services)}
	for i := range g.Services {
		s := spec.Like
		s.Name, s.Calls = fmt.Sprintf("s-%d", i), nil
		g.Services[i] = s
	}
	call := func(from, to int) {
		s := &g.Services[from]
		s.Calls = append(s.Calls, Call{To: g.Services[to].Name, Probability: 1, Times: 1})
	}
	first := 0 // of the layer above
	for k := 1; k < spec.Depth; k++ {
		above := first
		first += sizes[k-1]
		// Each caller has FanOut slots; a random one for each service.
		slots := r.Perm(sizes[k-1] * spec.FanOut)
		for i := range sizes[k] {
			call(above+slots[i]/spec.FanOut, first+i)
		}
	}
	g.cross(spec, sizes, r, call)
	return g.WithDefaults(), nil
}

func (spec Spec) check() (sizes []int, err error) {
	switch {
	case spec.Services < 1 || spec.Services > MaxServices:
		return nil, errs.Usage("generate: %d services are out of range, 1 to %d is possible", spec.Services, MaxServices)
	case spec.Depth < 1 || spec.Depth > spec.Services:
		return nil, errs.WithHint(errs.Usage("generate: a depth of %d is out of range, 1 to %d is possible", spec.Depth, spec.Services), "depth counts the services on the longest path, including the entry")
	case spec.FanOut < 1 || spec.FanOut > MaxCalls:
		return nil, errs.Usage("generate: a fan-out of %d is out of range, 1 to %d is possible", spec.FanOut, MaxCalls)
	}
	most, layer := 1, 1
	for range spec.Depth - 1 {
		layer = min(layer*spec.FanOut, MaxServices)
		most = min(most+layer, MaxServices)
	}
	if spec.Services > most {
		return nil, errs.WithHint(errs.Usage("generate: depth %d and fan-out %d reach %d services at most, not %d", spec.Depth, spec.FanOut, most, spec.Services), "raise depth or fan-out")
	}
	return slices.Repeat([]int{1}, spec.Depth), nil
}

// cross adds calls beyond the tree, so that services have several callers, as long
// as they do not multiply requests too much.
func (g Graph) cross(spec Spec, sizes []int, r *rand.Rand, call func(from, to int)) {
	visits := make([]int, len(g.Services)) // for one request at the entry
	index := g.index()
	visits[0] = 1
	total := 0
	for i, s := range g.Services { // callers come before callees
		total += visits[i]
		for _, c := range s.Calls {
			visits[index[c.To]] += visits[i]
		}
	}
	below := make([]int, len(g.Services)) // requests that one to the service causes, including itself
	recount := func() {
		for i := len(g.Services) - 1; i >= 0; i-- {
			below[i] = 1
			for _, c := range g.Services[i].Calls {
				below[i] += below[index[c.To]]
			}
		}
	}
	next := 0 // first service of the layers below
	for k, i := 0, 0; k < spec.Depth-1; k++ {
		next += sizes[k]
		for ; i < next; i++ {
			for len(g.Services[i].Calls) < spec.FanOut && r.IntN(2) == 0 {
				to := next + r.IntN(len(g.Services)-next)
				recount()
				more := visits[i] * below[to]
				if total+more > maxMeanVisits*len(g.Services) || slices.ContainsFunc(g.Services[i].Calls, func(c Call) bool { return c.To == g.Services[to].Name }) {
					break
				}
				total += more
				call(i, to)
				g.spread(index, visits, to, visits[i])
			}
		}
	}
}

// spread adds visits to a service and to everything it calls.
func (g Graph) spread(index map[string]int, visits []int, to, more int) {
	added := make([]int, len(g.Services))
	added[to] = more
	for i := to; i < len(g.Services); i++ {
		if added[i] == 0 {
			continue
		}
		visits[i] += added[i]
		for _, c := range g.Services[i].Calls {
			added[index[c.To]] += added[i]
		}
	}
}
