package fit

import (
	"math"
	"math/rand/v2"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// role is the quantity that a parameter's cost grows with.
type role int

const (
	fixed role = iota
	perChange
	perService
	perProxy
	perPair // a pair of a proxy and a service
	perByte
	overlapping // what only overlapping pushes take in full
	roles
)

var roleOf = func() (out [model.Parameters]role) {
	for p, r := range map[model.Parameter]role{
		model.ChangeCPU: perChange, model.CDSCPUPerChange: perChange, model.CDSBytesPerChange: perChange, model.EDSCPUPerChange: perChange, model.EDSBytesPerChange: perChange,
		model.ContextPerService: perService, model.ConnectPerService: perService, model.MemoryPerService: perService,
		model.IdleCoresPerProxy: perProxy, model.MemoryPerProxy: perProxy,
		model.MemoryPerPair: perPair,
		model.BesidePerByte: perByte, model.ApplyPerByte: perByte, model.MemoryPerRate: perByte,
		model.EDSCPUWhole: overlapping, model.EDSBytesWhole: overlapping, model.RDSCPUAnew: overlapping,
	} {
		out[p] = r
	}
	for t := range push.Types {
		out[model.CPUPerServiceOf(t)], out[model.BytesPerServiceOf(t)] = perService, perService
	}
	return out
}()

// preference selects one of the divisions of a cost that explain the cells equally well: most of
// the cost goes to the first role, and most of the rest to the second. The zero value divides it
// in proportion to the assumed parameters.
type preference struct {
	some          bool
	first, second role
}

// prefers draws a preference. Each role comes first equally often, so the draws span all possible
// divisions, from an entirely fixed cost to one that grows only with the mesh.
func prefers(rng *rand.Rand) preference {
	p := preference{some: true, first: role(rng.IntN(int(roles)))}
	p.second = (p.first + 1 + role(rng.IntN(int(roles)-1))) % roles
	return p
}

// tendency pulls a coefficient towards a value; weight is the weight of the squared distance.
type tendency struct{ to, weight float64 }

// unlikely is the smallest share of a cost that a part is assumed to have.
const unlikely = 0.2

// tendencies returns a tendency for each part. A preference pulls every part towards zero, the
// preferred ones least. Without a preference, one factor scales the assumed values to fit the
// cells, each coefficient is pulled towards its scaled value, and the rest is divided in
// proportion.
func (p preference) tendencies(rows []*row, parts []part) []tendency {
	out := make([]tendency, len(parts))
	if p.some {
		for k, part := range parts {
			switch roleOf[part.of] {
			case p.first:
				out[k].weight = 1e-3
			case p.second:
				out[k].weight = 0.03
			default:
				out[k].weight = 1
			}
		}
		return out
	}
	above, below := 0.0, 0.0
	for _, r := range rows {
		sum := 0.0
		for k, part := range parts {
			sum += model.Definitions[part.of].Assumed * r.x[k]
		}
		above, below = above+r.weight*sum, below+r.weight*sum*sum
	}
	for k, part := range parts {
		if below > 0 {
			out[k].to = model.Definitions[part.of].Assumed * above / below
		}
		share, n := 0.0, 0.0
		for _, r := range rows {
			if r.x[k] > 0 {
				share, n = share+r.weight*out[k].to*r.x[k], n+r.weight
			}
		}
		if out[k].weight = 1; below > 0 {
			out[k].weight = 1 / math.Max(unlikely, share/math.Max(n, 1))
		}
	}
	return out
}
