package study

import (
	"math/bits"
	"time"

	"github.com/meshtrial/meshtrial/stat/tuning"
)

// SwitchTime is the overhead of a trial besides warm-up and window: commands to the pods, snapshots
// and the durable write.
const SwitchTime = 300 * time.Millisecond

// Estimate is the duration of a plan, excluding deployment.
type Estimate struct {
	Trials int           // per block
	Trial  time.Duration // shortest, with the minimum warm-up
	Block  time.Duration // one block of such trials
	Min    time.Duration // the minimum number of blocks
	Max    time.Duration // the maximum number of blocks with the longest warm-up, or the limit
	// Fewest is the duration of the study's minimum number of blocks (for a tuning: two, plus the
	// comparison) if its limit allows less time, else 0. Fits is the number of those blocks that
	// the limit allows.
	Fewest time.Duration
	Fits   int
}

// Estimate returns the duration of the plan.
func (p *Plan) Estimate() Estimate {
	if len(p.Study.Search) > 0 {
		return p.estimateSearch()
	}
	if p.Study.Tune != nil {
		return p.estimateTune()
	}
	s := p.Study
	e := Estimate{Trials: p.BlockSize()}
	var longest time.Duration
	for i := range p.Cells {
		short, long := p.cellTime(i)
		if e.Trial == 0 || short < e.Trial {
			e.Trial = short
		}
		e.Block += p.turns(i) * short
		longest += p.turns(i) * long
	}
	e.Min = time.Duration(s.Blocks.Min) * e.Block
	e.Max = time.Duration(s.Blocks.Max) * longest
	if limit := s.Blocks.Limit; limit > 0 && e.Min > limit {
		if fits := max(1, int(limit/e.Block)); fits < s.Blocks.Min { // the first block always runs
			e.Fewest, e.Fits = e.Min, fits
		}
	}
	return e.limit(s.Blocks.Limit, longest)
}

// turns returns the number of times that a block measures a cell.
func (p *Plan) turns(cell int) time.Duration {
	if p.doubled[cell] {
		return 2
	}
	return 1
}

// cellTime returns the minimum and maximum duration of a trial of a cell.
func (p *Plan) cellTime(cell int) (shortest, longest time.Duration) {
	return p.Study.Kind.spec().Trial(p.Study, p.Cells[cell])
}

// Steps returns the maximum number of trials that a climb makes in a block: one at each given
// level, plus those that halve the widest interval between two of them.
func (p *Plan) Steps(c Climb) (given, halvings int) {
	gap, widest := 0, 0
	for _, i := range c.Cells {
		if i < p.given {
			given, gap = given+1, 0
			continue
		}
		gap++
		widest = max(widest, gap)
	}
	return given, bits.Len(uint(widest))
}

// estimateSearch returns the duration of a search that climbs through all its levels and then
// halves the widest interval; other searches take less. Later blocks measure at least the two sides
// of the boundary found first.
func (p *Plan) estimateSearch() Estimate {
	s := p.Study
	var e Estimate
	var first, again, longest, slowest time.Duration
	searched := map[int]bool{}
	add := func(cell int, times time.Duration, later bool) {
		short, long := p.cellTime(cell)
		turns := p.turns(cell) * times
		if e.Trial == 0 || short < e.Trial {
			e.Trial = short
		}
		e.Trials += int(turns)
		first, longest, slowest = first+turns*short, longest+turns*long, max(slowest, long)
		if later {
			again += turns * short
		}
	}
	for _, c := range p.Climbs() {
		for _, i := range c.Cells {
			if i < p.given && !searched[i] {
				add(i, 1, false)
			}
			searched[i] = true
		}
		top := c.Cells[len(c.Cells)-1]
		_, halvings := p.Steps(c)
		add(top, time.Duration(halvings), false)
		short, _ := p.cellTime(top)
		again += 2 * short
	}
	for i := range p.given {
		if !searched[i] {
			add(i, 1, true)
		}
	}
	e.Block = first
	e.Min = first + time.Duration(s.Blocks.Min-1)*again
	e.Max = time.Duration(s.Blocks.Max) * longest
	if limit := s.Blocks.Limit; limit > 0 && e.Min > limit {
		if e.Fewest = e.Min; limit >= first { // a search also stops within a block at its limit
			e.Fits = 1 + int((limit-first)/again)
		}
	}
	return e.limit(s.Blocks.Limit, slowest)
}

// estimateTune returns the durations of a tuning that needs all of its trials and of one that ends
// after two blocks. The cells that it tries are not known in advance.
func (p *Plan) estimateTune() Estimate {
	var e Estimate
	var sum, longest time.Duration
	for i := range p.Cells {
		short, long := p.cellTime(i)
		if e.Trial == 0 || short < e.Trial {
			e.Trial = short
		}
		sum, longest = sum+short, max(longest, long)
	}
	mean := sum / time.Duration(len(p.Cells))
	rules := tuning.Rules{Trials: p.TuneTrials()}
	e.Trials = min(rules.Trials, rules.PerBlock())
	e.Block = time.Duration(e.Trials) * mean
	confirm := time.Duration(confirmTrials * p.Study.Tune.Confirm)
	e.Min = time.Duration(min(rules.Trials, 2*e.Trials))*mean + confirm*mean
	e.Max = time.Duration(rules.Trials)*longest + confirm*longest
	if limit := p.Study.Blocks.Limit; limit > 0 && e.Min > limit {
		e.Fewest = e.Min
	}
	return e.limit(p.Study.Blocks.Limit, longest)
}

// confirmTrials is the number of trials in a block that compares the recommended setting with the
// current one, which it tries twice.
const confirmTrials = 3

// limit caps an estimate at the limit, but never below what runs in any case.
func (e Estimate) limit(limit, least time.Duration) Estimate {
	if limited := max(limit, least); limit > 0 && limited < e.Max {
		e.Max = limited
	}
	if e.Min > e.Max {
		e.Min = e.Max
	}
	return e
}
