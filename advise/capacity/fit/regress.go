package fit

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/stat"
)

// part is one explanation of a measurement: a parameter, and how many units of its cost each
// trial has.
type part struct {
	of model.Parameter
	x  []float64
}

// unsure is the smallest relative difference between cells that counts as evidence of how a cost
// divides, however little the trials of a cell scatter.
const unsure = 0.01

// regress finds non-negative coefficients that explain y as a sum of parts, by least squares of
// relative errors over the means of the cells: scatter within a cell is no evidence of how a cost
// divides.
//
// If several divisions explain the cells equally well, the preference chooses among them. It
// weighs as much as the squared standard error of a cell's mean, so it changes no cell by more
// than noise. A coefficient is NaN if no trial has any of its part. shares[k] is the largest
// share that part k has of any cell's mean.
func regress(cells []string, y []float64, parts []part, p preference) (coefficients, shares []float64) {
	rows, scatter := meansOf(cells, y, parts)
	coefficients, shares = make([]float64, len(parts)), make([]float64, len(parts))
	scale := make([]float64, len(parts))
	for _, row := range rows {
		for k, v := range row.x {
			scale[k] += row.weight * v * v
		}
	}
	var kept []int
	for k := range parts {
		if scale[k] = math.Sqrt(scale[k]); scale[k] > 0 {
			kept = append(kept, k)
		} else {
			coefficients[k] = math.NaN()
		}
	}
	if len(kept) == 0 {
		return coefficients, shares
	}
	gram, target := make([][]float64, len(kept)), make([]float64, len(kept))
	for i, a := range kept {
		gram[i] = make([]float64, len(kept))
		for _, row := range rows {
			target[i] += row.weight * row.x[a] / scale[a]
			for j, b := range kept {
				gram[i][j] += row.weight * row.x[a] / scale[a] * row.x[b] / scale[b]
			}
		}
	}
	tendencies := p.tendencies(rows, parts)
	for i, k := range kept {
		weight := math.Max(unsure*unsure, scatter*scatter) * tendencies[k].weight
		gram[i][i] += weight
		target[i] += weight * tendencies[k].to * scale[k]
	}
	for i, v := range nonNegative(gram, target) {
		k := kept[i]
		coefficients[k] = v / scale[k]
		for _, row := range rows {
			shares[k] = math.Max(shares[k], coefficients[k]*row.x[k])
		}
	}
	return coefficients, shares
}

// row is the average measurement of the trials of one cell.
type row struct {
	trials []int
	x      []float64 // for each part, divided by y
	weight float64   // number of trials
}

// meansOf averages trials by cell. It leaves out trials without a measurement. scatter is the
// relative standard error of a cell's mean, 0 if each cell has one trial.
func meansOf(cells []string, y []float64, parts []part) (out []*row, scatter float64) {
	of := map[string]*row{}
	for i, v := range y {
		ok := v > 0 && stat.Finite(v)
		for _, p := range parts {
			ok = ok && stat.Finite(p.x[i])
		}
		if !ok {
			continue
		}
		r := of[cells[i]]
		if r == nil {
			r = &row{x: make([]float64, len(parts))}
			of[cells[i]] = r
			out = append(out, r)
		}
		r.trials = append(r.trials, i)
	}
	for _, r := range out {
		r.weight = float64(len(r.trials))
		sum := 0.0
		for _, i := range r.trials {
			sum += y[i]
			for k, p := range parts {
				r.x[k] += p.x[i]
			}
		}
		for k := range r.x {
			r.x[k] /= sum
		}
	}
	scatter = math.Inf(1)
	for _, p := range parts {
		if s := scatterOf(out, y, p.x); s > 0 {
			scatter = math.Min(scatter, s)
		}
	}
	if math.IsInf(scatter, 1) {
		scatter = 0
	}
	return out, scatter
}

// scatterOf returns the relative standard error of a cell's mean, of y per unit of x: trials of a
// cell differ in their amount of work, which is not noise. It is 0 if unknown.
func scatterOf(rows []*row, y, x []float64) float64 {
	squares, freedom, n, cells := 0.0, 0.0, 0.0, 0.0
	for _, r := range rows {
		sum, square := 0.0, 0.0
		if slices.ContainsFunc(r.trials, func(i int) bool { return !(x[i] > 0) }) {
			continue
		}
		for _, i := range r.trials {
			sum, square = sum+y[i]/x[i], square+(y[i]/x[i])*(y[i]/x[i])
		}
		mean := sum / r.weight
		squares += math.Max(0, square/mean/mean-r.weight)
		freedom, n, cells = freedom+r.weight-1, n+r.weight, cells+1
	}
	if freedom == 0 {
		return 0
	}
	return math.Sqrt(squares / freedom * cells / n)
}

// nonNegative minimizes b'Gb/2 - t'b over b >= 0 for a positive definite G, by the active-set
// method of Lawson and Hanson (Solving Least Squares Problems, chapter 23).
func nonNegative(g [][]float64, t []float64) []float64 {
	n := len(t)
	b, free := make([]float64, n), make([]bool, n)
	for range 10 * (n + 1) { // each iteration reduces it; n mostly suffice
		best, most := -1, 1e-12
		for k := range n {
			gradient := t[k]
			for j := range n {
				gradient -= g[k][j] * b[j]
			}
			if !free[k] && gradient > most {
				best, most = k, gradient
			}
		}
		if best < 0 {
			break
		}
		free[best] = true
		for {
			next := solve(g, t, free)
			step, at := 1.0, -1
			for k := range n {
				if free[k] && next[k] <= 0 {
					if s := b[k] / (b[k] - next[k]); s < step || at < 0 {
						step, at = math.Min(step, s), k
					}
				}
			}
			for k := range n {
				if free[k] {
					b[k] += step * (next[k] - b[k])
				}
			}
			if at < 0 {
				break
			}
			b[at], free[at] = 0, false
		}
	}
	return b
}

// solve finds the free coefficients of a positive definite system, with the others zero, by
// Cholesky decomposition.
func solve(g [][]float64, t []float64, free []bool) []float64 {
	var at []int
	for k, f := range free {
		if f {
			at = append(at, k)
		}
	}
	n := len(at)
	l, z, out := make([][]float64, n), make([]float64, n), make([]float64, len(t))
	for i := range n {
		l[i] = make([]float64, i+1)
		for j := range i + 1 {
			sum := g[at[i]][at[j]]
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(math.Max(sum, 1e-300))
			} else {
				l[i][j] = sum / l[j][j]
			}
		}
		z[i] = t[at[i]]
		for k := range i {
			z[i] -= l[i][k] * z[k]
		}
		z[i] /= l[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		v := z[i]
		for k := i + 1; k < n; k++ {
			v -= l[k][i] * out[at[k]]
		}
		out[at[i]] = v / l[i][i]
	}
	return out
}

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
