package tuning

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// shape are the parameters of a Gaussian process over a grid, as logarithms: what each
// lever does by itself, what levers do together, how far along a line of levels they
// are alike, how much blocks differ and how much trials scatter.
type shape []float64

// The parameters after those of the levers.
const (
	shapeTogether = iota
	shapeReach
	shapeBlocks
	shapeNoise
	shapeOthers
)

// expected is what is thought of each parameter before anything is measured: the
// median and the spread of its logarithm. A lever usually changes a measure by a half,
// and some do by a factor of ten; trials scatter by some percent.
func expected(levers int) (median, spread shape) {
	for range levers {
		median, spread = append(median, math.Log(0.4)), append(spread, 1.2)
	}
	return append(median, math.Log(0.12), math.Log(0.8), math.Log(0.02), math.Log(0.05)),
		append(spread, 1.0, 0.5, 0.8, 0.7)
}

func (s shape) at(levers, which int) float64 { return math.Exp(s[levers+which]) }

// constant is the variance of the level of a measure, around the mean of its trials.
const constant = 1.0

// process is a measure's model: a Gaussian process with what it was fitted to.
type process struct {
	space *Space
	shape shape
	// known is what is expected of each cell beforehand; nil: nothing is.
	known []float64
	// cells, blocks and values are the trials', the values less their mean and less
	// what was expected.
	cells, blocks []int
	values        *mat.VecDense
	mean          float64
	// alike has how alike levels are, by lever and pair, for one reach.
	alike []*mat.SymDense
	reach float64

	chol    mat.Cholesky
	weights *mat.VecDense
}

// fit makes a process of trials: of all shapes the likeliest.
func fit(space *Space, cells, blocks []int, values, known []float64) *process {
	p := &process{space: space, known: known, cells: cells, blocks: blocks}
	median, spread := expected(len(space.Levers))
	p.shape = median
	if len(values) == 0 {
		return p
	}
	p.values = mat.NewVecDense(len(values), nil)
	for i, v := range values {
		p.mean += (v - p.before(cells[i])) / float64(len(values))
	}
	for i, v := range values {
		p.values.SetVec(i, v-p.before(cells[i])-p.mean)
	}
	best := p.likelihood(p.shape, median, spread)
	for _, step := range []float64{1.4, 0.7, 0.35, 0.18} {
		for i := range p.shape {
			for _, way := range []float64{-step, step} {
				other := append(shape(nil), p.shape...)
				other[i] += way
				if l := p.likelihood(other, median, spread); l > best {
					p.shape, best = other, l
				}
			}
		}
	}
	p.likelihood(p.shape, median, spread) // leaves its factors
	return p
}

// before is what is expected of a cell beforehand.
func (p *process) before(cell int) float64 {
	if p.known == nil {
		return 0
	}
	return p.known[cell]
}

// prepare makes the tables of how alike levels are.
func (p *process) prepare(s shape) {
	levers := p.space.Levers
	reach := s.at(len(levers), shapeReach)
	if p.alike != nil && p.reach == reach {
		return
	}
	p.reach, p.alike = reach, make([]*mat.SymDense, len(levers))
	for k, l := range levers {
		n := 1
		for _, c := range p.space.Cells {
			n = max(n, c[k]+1)
		}
		table := mat.NewSymDense(n+1, nil) // the last one is Absent
		for a := range n + 1 {
			for b := range a + 1 {
				table.SetSym(a, b, l.alike(absentAs(a, n), absentAs(b, n), reach))
			}
		}
		p.alike[k] = table
	}
}

func absentAs(level, n int) int {
	if level == n {
		return Absent
	}
	return level
}

// covariance of what two cells have, by a shape whose tables are there.
func (p *process) covariance(s shape, a, b int) float64 {
	levers := len(p.space.Levers)
	sum, product := constant, 1.0
	for k, table := range p.alike {
		i, j := p.space.Cells[a][k], p.space.Cells[b][k]
		last := table.SymmetricDim() - 1
		if i == Absent {
			i = last
		}
		if j == Absent {
			j = last
		}
		alike := table.At(i, j)
		sum += math.Exp(2*s[k]) * alike
		product *= alike
	}
	return sum + math.Exp(2*s[levers+shapeTogether])*product
}

// likelihood is the logarithm of how likely the trials and a shape are together, up to
// a constant. It leaves the shape's factors in the process.
func (p *process) likelihood(s, median, spread shape) float64 {
	p.prepare(s)
	n, levers := len(p.cells), len(p.space.Levers)
	blocks, noise := math.Exp(2*s[levers+shapeBlocks]), math.Exp(2*s[levers+shapeNoise])
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			v := p.covariance(s, p.cells[i], p.cells[j])
			if p.blocks[i] == p.blocks[j] {
				v += blocks
			}
			if i == j {
				v += noise + 1e-9
			}
			k.SetSym(i, j, v)
		}
	}
	if !p.chol.Factorize(k) {
		return math.Inf(-1)
	}
	weights := mat.NewVecDense(n, nil)
	if err := p.chol.SolveVecTo(weights, p.values); err != nil {
		return math.Inf(-1)
	}
	p.weights = weights
	l := -0.5*mat.Dot(p.values, weights) - 0.5*p.chol.LogDet()
	for i := range s {
		z := (s[i] - median[i]) / spread[i]
		l -= z * z / 2
	}
	return l
}

// noise is the variance of a trial around its cell and block.
func (p *process) noise() float64 {
	return math.Exp(2 * p.shape[len(p.space.Levers)+shapeNoise])
}

// posterior is what the process says of all cells: their means, and what any two have
// to do with each other.
func (p *process) posterior() (mean []float64, cov *mat.SymDense) {
	p.prepare(p.shape)
	n, cells := len(p.cells), len(p.space.Cells)
	mean, cov = make([]float64, cells), mat.NewSymDense(cells, nil)
	for i := range cells {
		mean[i] = p.before(i) + p.mean
		for j := range i + 1 {
			cov.SetSym(i, j, p.covariance(p.shape, i, j))
		}
	}
	if n == 0 {
		return mean, cov
	}
	cross := mat.NewDense(n, cells, nil)
	for i, c := range p.cells {
		for j := range cells {
			cross.Set(i, j, p.covariance(p.shape, c, j))
		}
	}
	var lower mat.TriDense
	p.chol.LTo(&lower)
	var half mat.Dense
	if err := half.Solve(&lower, cross); err != nil && !errors.As(err, new(mat.Condition)) {
		panic(err) // what was factorized can be solved, if inexactly
	}
	var known mat.SymDense
	known.SymOuterK(-1, half.T())
	cov.AddSym(cov, &known)
	for j := range cells {
		mean[j] += mat.Dot(cross.ColView(j), p.weights)
	}
	return mean, cov
}
