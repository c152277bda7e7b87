package tuning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	left := p.Rules.Trials - spent(trials)
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
