package tuning

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Choice is a cell that a block is to try, and why.
type Choice struct {
	Cell int
	Why  string
}

// Decision is what a search does next.
type Decision struct {
	// Cells are what the next block tries, each once, the cell in use first; none
	// when the search is over, and Stop says why.
	Cells []Choice
	Stop  string
	// Lacking is an objective or a bounded measure of which trials say nothing, which
	// ended the search; "" if there is none.
	Lacking string
	// Best is the best cell so far, and Met says that it meets the constraints as far as
	// is known. Spare is as good, and moves the fewest levers of those that were tried: it
	// is what a search recommends that ends here.
	Best, Spare int
	Met         bool
	// Gain is by how much the logarithm of the objective of the most promising cell is
	// expected to lie below that of the best, and Doubt the probability that any cell is better by more
	// than the rules ask.
	Gain, Doubt float64
}

// Next decides what a search does after some trials, in the order in which they were
// made. It is the same for the same problem and trials.
func (p *Problem) Next(trials []Trial) Decision {
	b := p.Believe(trials)
	d := Decision{}
	if lacking, why := b.lacking(); lacking != "" {
		return Decision{Best: p.Space.Base, Spare: p.Space.Base, Lacking: lacking, Stop: why}
	}
	d.Best, d.Met = b.Best()
	if d.Spare = d.Best; d.Met {
		d.Spare = b.spare(d.Best)
	}
	left := p.Rules.Trials - len(trials) // believed or not
	gains := b.gains(d.Best)
	d.Gain = slices.Max(gains)
	d.Doubt = b.doubt(d.Best, p.Rules)
	d.Stop = p.over(b, d, left)
	if d.Stop != "" && !(d.Met && left > 1) {
		return d
	}
	var spares []Choice
	if d.Met {
		spares = b.spares(d.Best)
	}
	if d.Stop != "" && len(spares) == 0 {
		return d
	}
	room := min(left, p.Rules.PerBlock())
	d.Cells = append(d.Cells, Choice{p.Space.Base, "as installed, to compare with"})
	b.learn(p.Space.Base)
	if d.Best != p.Space.Base && len(d.Cells) < room {
		d.Cells = append(d.Cells, Choice{d.Best, "the best so far, once more"})
		b.learn(d.Best)
	}
	again := len(d.Cells)
	if d.Stop != "" { // what is left to find out is which of its levers the best needs
		d.Cells, d.Stop = d.Cells[:min(again, room-1)], ""
		d.Cells = append(d.Cells, spares[:min(len(spares), room-len(d.Cells))]...)
		return d
	}
	if len(spares) > 0 && again < room {
		d.Cells = append(d.Cells, spares[0])
		b.learn(spares[0].Cell)
	}
	for len(d.Cells) < room {
		cell, gain, ok := b.promising(d.Best, d.Cells)
		if !ok {
			break
		}
		why := fmt.Sprintf("%.2g%% less is expected of it on average", -100*math.Expm1(-gain))
		if !b.meetable(d.Best) {
			why = fmt.Sprintf("it meets the constraints with a probability of %.2g%%", 100*gain)
		}
		d.Cells = append(d.Cells, Choice{cell, why})
		b.learn(cell)
	}
	if len(d.Cells) == again && again < room && blocksOf(trials) >= leastBlocks {
		d.Cells, d.Stop = nil, "no other setting is left that is expected to be better"
	}
	return d
}

// leastBlocks is how many blocks it takes to know how much trials scatter.
const leastBlocks = 2

// over says why a search ends; "" if it goes on.
func (p *Problem) over(b *Belief, d Decision, left int) string {
	looked := blocksOf(b.trials)
	switch {
	case left <= 0:
		return fmt.Sprintf("all %d trials are made", p.Rules.Trials)
	case left == 1 && looked > 0:
		return fmt.Sprintf("%d of %d trials are made, and one more would have nothing to be compared with", p.Rules.Trials-left, p.Rules.Trials)
	case looked < leastBlocks:
		return ""
	case !d.Met: // there is nothing yet to be better than
		return ""
	case d.Doubt < p.Rules.Doubt:
		return fmt.Sprintf("something better by more than %.3g%% is there with a probability of %.2g%%, less than %.3g%%", 100*p.Rules.Better, 100*d.Doubt, 100*p.Rules.Doubt)
	case d.Gain < p.Rules.Gain:
		return fmt.Sprintf("no setting is expected to improve on the best by more than %.2g%%, less than %.3g%%", 100*d.Gain, 100*p.Rules.Gain)
	}
	return ""
}

func blocksOf(trials []Trial) int {
	seen := map[int]bool{}
	for _, t := range trials {
		seen[t.Block] = true
	}
	return len(seen)
}

// gains are by how much each cell is expected to improve on the best, times the
// probability that it meets the constraints. Where even the best does not meet them, a
// cell's gain is that probability.
func (b *Belief) gains(best int) []float64 {
	out := make([]float64, len(b.goal))
	met := b.meetable(best)
	for c := range b.goal {
		if hopeless(b.trials, c) {
			continue
		}
		allowed := b.Allowed(c)
		if !met {
			if out[c] = allowed; tried(b.trials, c) {
				out[c] = 0
			}
			continue
		}
		out[c] = allowed * improvement(b.goal[best]-b.goal[c], b.apart(c, best))
	}
	return out
}

// meetable says that the best meets the constraints as far as is known, or that nothing
// is known yet, so that cells are chosen by what they may improve.
func (b *Belief) meetable(best int) bool { return len(b.trials) == 0 || b.Allowed(best) >= Certain }

// improvement is the mean of what a difference is above zero, for a normal one.
func improvement(mean, sd float64) float64 {
	if sd < 1e-9 {
		return math.Max(0, mean)
	}
	z := mean / sd
	return mean*below(z) + sd*density(z)
}

// promising is the cell with the highest gain that is not chosen yet.
func (b *Belief) promising(best int, chosen []Choice) (cell int, gain float64, ok bool) {
	cell = -1
	for c, g := range b.gains(best) {
		if g > gain && !slices.ContainsFunc(chosen, func(x Choice) bool { return x.Cell == c }) {
			cell, gain = c, g
		}
	}
	return cell, gain, cell >= 0
}

// draws is how often the objectives of all cells are drawn for a doubt.
const draws = 400

// doubt is the probability that some cell that meets the constraints is better than the
// best by more than the rules' share.
func (b *Belief) doubt(best int, r Rules) float64 {
	n := len(b.goal)
	lower, ok := jittered(b.goalCov)
	if !ok {
		return 1
	}
	rng := rand.New(rand.NewPCG(r.Seed, uint64(len(b.trials))))
	normal, drawn := make([]float64, n), make([]float64, n)
	allowed := make([]float64, n)
	for c := range n {
		if allowed[c] = b.Allowed(c); hopeless(b.trials, c) {
			allowed[c] = 0
		}
	}
	ahead, times := math.Log1p(-r.Better), 0
	for range draws {
		for i := range n {
			normal[i] = rng.NormFloat64()
		}
		for i := range n {
			drawn[i] = dot(lower[i][:i+1], normal)
		}
		bar := b.goal[best] + drawn[best] + ahead
		for c := range n {
			if b.goal[c]+drawn[c] < bar && rng.Float64() < allowed[c] {
				times++
				break
			}
		}
	}
	return float64(times) / draws
}

// jittered is the factor of a covariance that is singular but for rounding, as that of
// cells that are as good as the same.
func jittered(cov matrix) (lower matrix, ok bool) {
	for jitter := 1e-8; jitter < 1e-2 && !ok; jitter *= 10 {
		m := cov.clone()
		for i := range m {
			m[i][i] += jitter
		}
		lower, ok = m.factor()
	}
	return lower, ok
}

// worth is the share of the objective that setting levers otherwise must bring to be
// recommended: each is a change to make, to watch and to remember.
const worth = 0.02

// moved is how many levers a cell has otherwise than the one in use.
func (s *Space) moved(cell int) int {
	n := 0
	for k, level := range s.Cells[cell] {
		if level != s.Cells[s.Base][k] {
			n++
		}
	}
	return n
}

// between says that a cell has each lever as one of the best has it, or as the one in use.
func (s *Space) between(cell, best int) bool {
	for k, level := range s.Cells[cell] {
		if level != s.Cells[best][k] && level != s.Cells[s.Base][k] {
			return false
		}
	}
	return true
}

// asGood says that a cell's objective is not above the best's by what is worth a lever, with
// so many standard deviations of what is known in its favour.
func (b *Belief) asGood(cell, best int, favour float64) bool {
	return b.goal[cell]-b.goal[best]-favour*b.apart(cell, best) <= math.Log1p(worth)
}

// spare is the cell to be recommended in place of the best: of those that were tried,
// meet the constraints and are as good, the one that moves the fewest levers.
func (b *Belief) spare(best int) int {
	space, out := &b.problem.Space, best
	for c := range b.goal {
		if !tried(b.trials, c) || b.Allowed(c) < Certain || !b.asGood(c, best, 0) {
			continue
		}
		if n, least := space.moved(c), space.moved(out); n < least || n == least && b.goal[c] < b.goal[out] {
			out = c
		}
	}
	return out
}

// spares are cells to try before the best is recommended: each leaves levers of it as in
// use, fewer moved ones than in any that was tried and is as good, and may well
// be as good and meet the constraints. Those with the fewest come first.
func (b *Belief) spares(best int) []Choice {
	space := &b.problem.Space
	most := space.moved(b.spare(best))
	var out []Choice
	for c := range b.goal {
		if space.moved(c) >= most || !space.between(c, best) || tried(b.trials, c) || hopeless(b.trials, c) || b.Allowed(c) < 0.5 || !b.asGood(c, best, 1) {
			continue
		}
		var left []string
		for k, level := range space.Cells[c] {
			if level != space.Cells[best][k] {
				left = append(left, space.Levers[k].Name)
			}
		}
		out = append(out, Choice{c, fmt.Sprintf("the best, but for %s as in use, may be as good", strings.Join(left, " and "))})
	}
	slices.SortStableFunc(out, func(x, y Choice) int {
		return cmp.Or(cmp.Compare(space.moved(x.Cell), space.moved(y.Cell)), cmp.Compare(b.goal[x.Cell], b.goal[y.Cell]))
	})
	return out
}
