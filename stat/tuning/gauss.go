package tuning

import "math"

// shape holds the parameters of a Gaussian process over a grid, as logarithms: the
// effect of each lever, of levers together, the distance over which levels on a line
// resemble each other, the variation of blocks and of trials.
type shape []float64

// Indexes of the parameters after those of the levers.
const (
	shapeTogether = iota
	shapeReach
	shapeBlocks
	shapeNoise
	shapeOthers
)

// expected returns the prior of each parameter: the median and the spread of its
// logarithm. A lever usually changes a measure by a half, and some do by a factor of
// ten; trials scatter by a few percent.
func expected(levers int) (median, spread shape) {
	for range levers {
		median, spread = append(median, math.Log(0.4)), append(spread, 1.2)
	}
	return append(median, math.Log(0.12), math.Log(0.8), math.Log(0.02), math.Log(0.05)),
		append(spread, 1.0, 0.5, 0.8, 0.7)
}

func (s shape) at(levers, which int) float64 { return math.Exp(s[levers+which]) }

// constant is the variance of the level of a measure around the mean of its trials.
const constant = 1.0

// process is a measure's model: a Gaussian process with the data that it was fitted to.
type process struct {
	space *Space
	shape shape
	// cells, blocks and values are those of the trials; values are centred.
	cells, blocks []int
	values        []float64
	mean          float64
	// alike holds the similarity of levels, by lever and pair, for one reach. power and
	// joint are the variances of the effects of single levers and of pairs of them.
	alike        []matrix
	reach, joint float64
	power        []float64

	lower   matrix
	weights []float64
}

// fit fits a process to trials, with the likeliest shape.
func fit(space *Space, cells, blocks []int, values []float64) *process {
	p := &process{space: space, cells: cells, blocks: blocks}
	median, spread := expected(len(space.Levers))
	p.shape = median
	if len(values) == 0 {
		return p
	}
	for _, v := range values {
		p.mean += v / float64(len(values))
	}
	for _, v := range values {
		p.values = append(p.values, v-p.mean)
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
	p.likelihood(p.shape, median, spread) // sets the factors of the best shape
	return p
}

// prepare computes the similarities of levels and the variances of a shape.
func (p *process) prepare(s shape) {
	levers := p.space.Levers
	p.power = p.power[:0]
	for k := range levers {
		p.power = append(p.power, math.Exp(2*s[k]))
	}
	p.joint = math.Exp(2 * s[len(levers)+shapeTogether])
	reach := s.at(len(levers), shapeReach)
	if p.alike != nil && p.reach == reach {
		return
	}
	p.reach, p.alike = reach, make([]matrix, len(levers))
	for k, l := range levers {
		n := 1
		for _, c := range p.space.Cells {
			n = max(n, c[k]+1)
		}
		table := newMatrix(n+1, n+1) // the last one is Absent
		for a := range n + 1 {
			for b := range n + 1 {
				table[a][b] = l.alike(absentAs(a, n), absentAs(b, n), reach)
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

// covariance returns the covariance of two cells for the prepared shape.
func (p *process) covariance(a, b int) float64 {
	sum, singles, pairs := constant, 0.0, 0.0
	for k, table := range p.alike {
		i, j := p.space.Cells[a][k], p.space.Cells[b][k]
		last := len(table) - 1
		if i == Absent {
			i = last
		}
		if j == Absent {
			j = last
		}
		alike := table[i][j]
		sum += p.power[k] * alike
		pairs += singles * alike // with every lever before
		singles += alike
	}
	return sum + p.joint*pairs
}

// likelihood returns the joint log likelihood of the trials and a shape, up to a
// constant. It leaves the shape's factors in the process.
func (p *process) likelihood(s, median, spread shape) float64 {
	p.prepare(s)
	n, levers := len(p.cells), len(p.space.Levers)
	blocks, noise := math.Exp(2*s[levers+shapeBlocks]), math.Exp(2*s[levers+shapeNoise])
	k := newMatrix(n, n)
	for i := range n {
		for j := range i + 1 {
			v := p.covariance(p.cells[i], p.cells[j])
			if p.blocks[i] == p.blocks[j] {
				v += blocks
			}
			if i == j {
				v += noise + 1e-9
			}
			k[i][j] = v // factor reads the lower half
		}
	}
	lower, ok := k.factor()
	if !ok {
		return math.Inf(-1)
	}
	p.lower, p.weights = lower, append([]float64(nil), p.values...)
	lower.forward(p.weights)
	lower.backward(p.weights)
	l := -dot(p.values, p.weights)/2 - lower.logDeterminant()/2
	for i := range s {
		z := (s[i] - median[i]) / spread[i]
		l -= z * z / 2
	}
	return l
}

// noise returns the variance of a trial around its cell and block.
func (p *process) noise() float64 {
	return math.Exp(2 * p.shape[len(p.space.Levers)+shapeNoise])
}

// posterior returns the means of all cells and their covariance.
func (p *process) posterior() (mean []float64, cov matrix) {
	p.prepare(p.shape)
	n, cells := len(p.cells), len(p.space.Cells)
	mean, cov = make([]float64, cells), newMatrix(cells, cells)
	halves := newMatrix(cells, n)
	for j := range cells {
		mean[j] = p.mean
		for i, c := range p.cells {
			halves[j][i] = p.covariance(c, j)
		}
		if n > 0 {
			mean[j] += dot(halves[j], p.weights)
			p.lower.forward(halves[j])
		}
	}
	for i := range cells {
		for j := range i + 1 {
			v := p.covariance(i, j) - dot(halves[i], halves[j])
			cov[i][j], cov[j][i] = v, v
		}
	}
	return mean, cov
}
