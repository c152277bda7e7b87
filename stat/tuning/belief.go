package tuning

import (
	"math"
	"slices"
)

// Belief is the posterior over all cells of a grid, given trials.
type Belief struct {
	problem *Problem
	trials  []Trial
	// measures holds an outlook per measure; nil if no trial has a value.
	measures []*outlook
	// goal is the objective of each cell: the weighted mean of the measures' logarithms.
	// goalCov is the covariance of any two cells.
	goal    []float64
	goalCov matrix
}

// outlook is the posterior of one measure, on its scale.
type outlook struct {
	scale scale
	mean  []float64
	cov   matrix
	noise float64
}

// scale transforms values for the model: to their logarithm, or, for measures that may be
// zero or negative, to their ratio to the usual value of the cell in use.
type scale struct {
	log   bool
	usual float64
}

// least is the smallest share of the usual value that is modelled on a logarithmic scale
// for a signed measure: a net cost of a hundredth is as good as none. Unsigned measures
// have no such limit, because some settings cut pushes to a hundredth.
const least = 0.01

func scaleOf(p *Problem, trials []Trial, measure int) scale {
	var all, base []float64
	for _, t := range trials {
		v := t.Values[measure]
		if math.IsNaN(v) {
			continue
		}
		all = append(all, v)
		if t.Cell == p.Space.Base {
			base = append(base, v)
		}
	}
	if len(all) == 0 {
		return scale{log: true, usual: 1}
	}
	usual := middle(all)
	if len(base) > 0 {
		usual = middle(base)
	}
	if low := slices.Min(all); low > 0 && (!p.Measures[measure].Signed || low > least*math.Abs(usual)) {
		return scale{log: true, usual: usual}
	}
	if usual = math.Abs(usual); usual == 0 {
		if usual = math.Max(slices.Max(all), -slices.Min(all)); usual == 0 {
			usual = 1
		}
	}
	return scale{usual: usual}
}

func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (s scale) of(v float64) float64 {
	if s.log {
		return math.Log(v)
	}
	return v / s.usual
}

func (s scale) back(y float64) float64 {
	if s.log {
		return math.Exp(y)
	}
	return y * s.usual
}

// Believe fits a belief to trials.
func (p *Problem) Believe(trials []Trial) *Belief {
	n := len(p.Space.Cells)
	b := &Belief{problem: p, trials: trials, goal: make([]float64, n), goalCov: newMatrix(n, n)}
	whole := 0.0
	for _, m := range p.Measures {
		whole += m.Weight
	}
	for i := range p.Measures {
		o := p.outlook(trials, i)
		b.measures = append(b.measures, o)
		w := p.Measures[i].Weight / whole
		if o == nil || w == 0 {
			continue
		}
		for c := range n {
			b.goal[c] += w * o.mean[c]
			for k := range n {
				b.goalCov[c][k] += w * w * o.cov[c][k]
			}
		}
	}
	return b
}

// outlook fits the model of a measure. It returns nil if some trials are valid but none
// has a value of the measure.
func (p *Problem) outlook(trials []Trial, measure int) *outlook {
	var cells, blocks []int
	var values []float64
	s := scaleOf(p, trials, measure)
	for _, t := range trials {
		if v := t.Values[measure]; !math.IsNaN(v) {
			cells, blocks, values = append(cells, t.Cell), append(blocks, t.Block), append(values, s.of(v))
		}
	}
	if len(values) == 0 && slices.ContainsFunc(trials, Trial.believed) {
		return nil
	}
	g := fit(&p.Space, cells, blocks, values)
	o := &outlook{scale: s, noise: g.noise()}
	o.mean, o.cov = g.posterior()
	return o
}

// lacking names an objective or a bounded measure without a value in any trial, although
// some trials are valid, or an objective that is zero in all of them and cannot decrease;
// "" if there is none.
func (b *Belief) lacking() (name, why string) {
	for i, m := range b.problem.Measures {
		bounded := slices.ContainsFunc(b.problem.Bounds, func(x Bound) bool { return x.Measure == i })
		switch {
		case b.measures[i] == nil && (m.Weight > 0 || bounded):
			return m.Name, "no trial has " + m.Name + ", which is an objective or a constraint"
		case m.Weight > 0 && blocksOf(b.trials) >= leastBlocks && slices.ContainsFunc(b.trials, Trial.believed) &&
			!slices.ContainsFunc(b.trials, func(t Trial) bool { return t.believed() && t.Values[i] != 0 }):
			return m.Name, m.Name + ", an objective, is 0 in all trials and cannot become less"
		}
	}
	return "", ""
}

// Estimate is a value with its 95% interval.
type Estimate struct{ Value, Low, High float64 }

// mostLog bounds logarithms of ratios: effectively unbounded, but finite.
const mostLog = 30

// reach95 is the half-width of a 95% interval in standard deviations.
const reach95 = 1.959964

// Of estimates a measure in a cell; false if nothing is known.
func (b *Belief) Of(measure, cell int) (Estimate, bool) {
	o := b.measures[measure]
	if o == nil {
		return Estimate{}, false
	}
	mean, sd := o.mean[cell], math.Sqrt(math.Max(0, o.cov[cell][cell]))
	return Estimate{o.scale.back(mean), o.scale.back(mean - reach95*sd), o.scale.back(mean + reach95*sd)}, true
}

// Goal estimates the objective of a cell relative to the cell in use: -0.4 for 40% less.
func (b *Belief) Goal(cell int) Estimate {
	base := b.problem.Space.Base
	mean, sd := b.goal[cell]-b.goal[base], b.apart(cell, base)
	share := func(y float64) float64 { return math.Expm1(math.Min(y, mostLog)) }
	return Estimate{share(mean), share(mean - reach95*sd), share(mean + reach95*sd)}
}

// apart returns the standard deviation of the difference of two cells' objectives.
func (b *Belief) apart(i, j int) float64 {
	return math.Sqrt(math.Max(0, b.goalCov[i][i]+b.goalCov[j][j]-2*b.goalCov[i][j]))
}

// Noise returns the scatter of a measure between trials of one cell, as a share; NaN if
// nothing was measured.
func (b *Belief) Noise(measure int) float64 {
	if o := b.measures[measure]; o != nil {
		return math.Sqrt(o.noise)
	}
	return math.NaN()
}

// Allowed returns the probability that a cell meets all constraints. The cell in use meets
// relative constraints by definition.
func (b *Belief) Allowed(cell int) float64 {
	product := 1.0
	for _, bound := range b.problem.Bounds {
		product *= b.meets(bound, cell)
	}
	return product
}

func (b *Belief) meets(bound Bound, cell int) float64 {
	o := b.measures[bound.Measure]
	if o == nil {
		return 0.5
	}
	base := b.problem.Space.Base
	var mean, variance float64
	switch {
	case !bound.Relative:
		limit := bound.Limit
		if o.scale.log {
			if limit <= 0 {
				return 0
			}
			limit = math.Log(limit)
		} else {
			limit /= o.scale.usual
		}
		mean, variance = o.mean[cell]-limit, o.cov[cell][cell]
	case o.scale.log:
		if bound.Limit <= -1 {
			return 0
		}
		mean = o.mean[cell] - o.mean[base] - math.Log1p(bound.Limit)
		variance = o.cov[cell][cell] + o.cov[base][base] - 2*o.cov[cell][base]
	default:
		more := 1 + bound.Limit
		mean = o.mean[cell] - more*o.mean[base]
		variance = o.cov[cell][cell] + more*more*o.cov[base][base] - 2*more*o.cov[cell][base]
	}
	if cell == base && bound.Relative {
		if bound.Limit >= 0 {
			return 1
		}
		return 0
	}
	sd := math.Sqrt(math.Max(variance, 1e-12))
	return below(-mean / sd)
}

// Certain is the minimum probability of meeting all constraints for a cell to be
// recommended.
const Certain = 0.75

// Best returns the cell to recommend: among tried cells that meet the constraints with
// sufficient probability, the one with the lowest objective. If none does, it returns the
// closest and false.
func (b *Belief) Best() (cell int, ok bool) {
	cell, nearest := -1, -1
	for c := range b.goal {
		if !tried(b.trials, c) {
			continue
		}
		if nearest < 0 || b.Allowed(c) > b.Allowed(nearest) {
			nearest = c
		}
		if b.Allowed(c) >= Certain && (cell < 0 || b.goal[c] < b.goal[cell]) {
			cell = c
		}
	}
	switch {
	case cell >= 0:
		return cell, true
	case nearest >= 0:
		return nearest, false
	}
	return b.problem.Space.Base, false
}

// learn assumes that a trial of the cell yields the expected values: the means stay, and
// the uncertainty shrinks.
func (b *Belief) learn(cell int) {
	update := func(cov matrix, noise float64) {
		column := append([]float64(nil), cov[cell]...)
		v := cov[cell][cell] + noise
		if v <= 0 {
			return
		}
		for i := range cov {
			for j := range cov {
				cov[i][j] -= column[i] * column[j] / v
			}
		}
	}
	noise, whole := 0.0, 0.0
	for _, m := range b.problem.Measures {
		whole += m.Weight
	}
	for i, o := range b.measures {
		if o == nil {
			continue
		}
		update(o.cov, o.noise)
		w := b.problem.Measures[i].Weight / whole
		noise += w * w * o.noise
	}
	update(b.goalCov, noise)
}
