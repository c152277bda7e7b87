package tuning

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Choice is a cell for a block to try, and the reason.
type Choice struct {
	Cell int
	Why  string
}

// Decision is the next step of a search.
type Decision struct {
	// Cells lists what the next block tries, each once, the cell in use first. It is empty when the
	// search is over, and Stop says why.
	Cells []Choice
	Stop  string
	// Lacking is an objective or a bounded measure without information in any trial, which ended
	// the search; "" if there is none.
	Lacking string
	// Best is the best cell so far, and Met reports whether it meets the constraints with
	// sufficient probability. Spare is as good and moves the fewest levers among the tried cells. A
	// search that ends here recommends Spare.
	Best, Spare int
	Met         bool
	// Gain is the expected decrease of the log objective from the best to the most promising cell.
	// Doubt is the probability that any cell is better by more than the rules ask.
	Gain, Doubt float64
}

// Next decides the next step of a search, given its trials in order. The same problem and trials
// give the same decision.
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
	left := p.Rules.Trials - len(trials) // valid or not
	gains := b.gains(d.Best)
	d.Gain = slices.Max(gains)
	d.Doubt = b.doubt(d.Best, p.Rules)
	d.Stop = p.over(b, d, left)
	if d.Stop != "" && !(d.Met && left > 1) {
		return d
	}
	var spares, others []Choice
	if d.Met {
		spares, others = b.spares(d.Best), b.others(d.Best)
	}
	if d.Stop != "" && len(spares)+len(others) == 0 {
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
	if d.Stop != "" { // it remains to try what the model cannot foresee, and to find out which levers the best needs
		d.Cells, d.Stop = d.Cells[:min(again, room-1)], ""
		last := append(others, spares...)
		d.Cells = append(d.Cells, last[:min(len(last), room-len(d.Cells))]...)
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

// leastBlocks is the number of blocks needed to estimate the scatter of trials.
const leastBlocks = 2

// over returns the reason why a search ends; "" if it continues.
func (p *Problem) over(b *Belief, d Decision, left int) string {
	looked := blocksOf(b.trials)
	switch {
	case left <= 0:
		return fmt.Sprintf("all %d trials are made", p.Rules.Trials)
	case left == 1 && looked > 0:
		return fmt.Sprintf("%d of %d trials are made, and one more would have nothing to be compared with", p.Rules.Trials-left, p.Rules.Trials)
	case looked < leastBlocks:
		return ""
	case !d.Met: // there is nothing yet to improve on
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

// gains returns each cell's expected improvement on the best, times the probability that it meets
// the constraints. If even the best does not meet them, a cell's gain is that probability.
func (b *Belief) gains(best int) []float64 {
	out := make([]float64, len(b.goal))
	met := b.meetable(best)
	for c := range b.goal {
		if unusable(b.trials, c) {
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

// meetable reports whether the best meets the constraints with sufficient probability, or nothing
// is known yet, so that cells are chosen by their expected improvement.
func (b *Belief) meetable(best int) bool { return len(b.trials) == 0 || b.Allowed(best) >= Certain }

// improvement returns the mean of the positive part of a normal difference.
func improvement(mean, sd float64) float64 {
	if sd < 1e-9 {
		return math.Max(0, mean)
	}
	z := mean / sd
	return mean*below(z) + sd*density(z)
}

// promising returns the cell with the highest gain that is not chosen yet.
func (b *Belief) promising(best int, chosen []Choice) (cell int, gain float64, ok bool) {
	cell = -1
	for c, g := range b.gains(best) {
		if g > gain && !slices.ContainsFunc(chosen, func(x Choice) bool { return x.Cell == c }) {
			cell, gain = c, g
		}
	}
	return cell, gain, cell >= 0
}

// draws is the number of samples of all cells' objectives per doubt.
const draws = 400

// doubt returns the probability that some cell that meets the constraints is better than the best
// by more than the rules' share.
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
		if allowed[c] = b.Allowed(c); unusable(b.trials, c) {
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

// jittered factors a covariance that is singular up to rounding, such as that of nearly identical
// cells.
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

// worth is the share of the objective that changing levers must gain to be recommended: each is a
// change to make, to watch and to remember.
const worth = 0.02

// moved returns the number of levers that differ from the cell in use.
func (s *Space) moved(cell int) int {
	n := 0
	for k, level := range s.Cells[cell] {
		if level != s.Cells[s.Base][k] {
			n++
		}
	}
	return n
}

// between reports whether each lever of a cell is as in the best or as in the cell in use.
func (s *Space) between(cell, best int) bool {
	for k, level := range s.Cells[cell] {
		if level != s.Cells[best][k] && level != s.Cells[s.Base][k] {
			return false
		}
	}
	return true
}

// asGood reports whether a cell's objective exceeds the best's by at most worth, after favour
// standard deviations of their difference in the cell's favour.
func (b *Belief) asGood(cell, best int, favour float64) bool {
	return b.goal[cell]-b.goal[best]-favour*b.apart(cell, best) <= math.Log1p(worth)
}

// spare returns the cell to recommend in place of the best: among tried cells that meet the
// constraints and are as good, the one that moves the fewest levers.
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

// others returns cells to try before a search ends: those that differ from the best in the level of
// one lever whose levels have no order. Only a trial shows what such a level does, while the
// belief counts on the lever doing little if it did little elsewhere.
func (b *Belief) others(best int) []Choice {
	space := &b.problem.Space
	var out []Choice
	for c := range b.goal {
		lever, n := 0, 0
		for k, level := range space.Cells[c] {
			if level != space.Cells[best][k] {
				lever, n = k, n+1
			}
		}
		if n == 1 && space.Levers[lever].Places == nil && !tried(b.trials, c) && !unusable(b.trials, c) && b.Allowed(c) >= 0.5 {
			out = append(out, Choice{c, fmt.Sprintf("the best with another %s, which only a trial can tell about", space.Levers[lever].Name)})
		}
	}
	return out
}

// spares returns cells to try before recommending the best. Each keeps some of the best's levers as
// in use, moves fewer than any tried cell that is as good, and may well be as good and meet the
// constraints. Those that move the fewest come first.
func (b *Belief) spares(best int) []Choice {
	space := &b.problem.Space
	most := space.moved(b.spare(best))
	var out []Choice
	for c := range b.goal {
		if space.moved(c) >= most || !space.between(c, best) || tried(b.trials, c) || unusable(b.trials, c) || b.Allowed(c) < 0.5 || !b.asGood(c, best, 1) {
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
