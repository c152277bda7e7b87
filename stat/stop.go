package stat

import (
	"fmt"
	"math"
)

// A StopRule decides when a run has measured enough.
//
// Stopping at the first narrow interval favours runs whose scatter happened to be
// small, and their intervals cover less than they claim: 92% instead of 95% in
// simulation (the bias of sequential fixed-width intervals: Chow and Robbins,
// Annals of Mathematical Statistics 1965). So a run first measures a minimum of
// blocks, and the interval must then be narrow at two looks in a row. That
// restores coverage to 93 to 95% (TestSimulationStopping).
type StopRule struct {
	// RelativeWidth is the width of the interval, high minus low, as a share of
	// the value, at which it is narrow enough; 0 for never.
	RelativeWidth float64
	// MinBlocks is the minimum number of blocks.
	MinBlocks int
}

// A Decision is the answer of a stop rule.
type Decision struct {
	Stop bool
	Why  string
	// Widest is the index of the estimate that keeps the run going, or -1.
	Widest int
}

// A Look is the state after a number of completed blocks: the estimates that must
// be narrow, and their noise floors and margins by index, if any.
type Look struct {
	Blocks    int
	Estimates []Estimate
	Floors    []Floor
	Margins   []float64
}

// Settled reports whether an estimate is no effect, however wide its interval.
func (l Look) Settled(i int) bool {
	if i >= len(l.Floors) {
		return false
	}
	call, _ := l.Estimates[i].Call(l.Floors[i], l.Margins[i])
	return call == NoEffect
}

// Decide decides whether to stop, given the current look and the one a block
// earlier. The rule must hold for every estimate. One that is no effect (see
// [Estimate.Call]) is settled too, because its interval has no meaningful relative
// width.
func (s StopRule) Decide(now, before Look) Decision {
	at, ratio := s.widest(now)
	switch {
	case now.Blocks < s.MinBlocks:
		return Decision{false, fmt.Sprintf("%d of at least %d blocks", now.Blocks, s.MinBlocks), at}
	case len(now.Estimates) == 0:
		return Decision{false, "nothing estimated yet", -1}
	case at >= 0 && !Finite(ratio):
		return Decision{false, "an estimate has no interval yet", at}
	case at >= 0:
		return Decision{false, fmt.Sprintf("an interval is still %.0f%% of its value wide, above the target of %.0f%%", ratio*100, s.RelativeWidth*100), at}
	}
	if was, _ := s.widest(before); before.Blocks < s.MinBlocks || len(before.Estimates) != len(now.Estimates) || was >= 0 {
		return Decision{false, "narrow enough, to be confirmed by one more block", -1}
	}
	return Decision{true, fmt.Sprintf("interval narrow enough after %d blocks", now.Blocks), -1}
}

// widest returns the unsettled estimate with the largest relative width, or -1.
func (s StopRule) widest(l Look) (at int, ratio float64) {
	at = -1
	for i, e := range l.Estimates {
		if !e.Defined() {
			return i, math.Inf(1)
		}
		width := e.High - e.Low
		if l.Settled(i) || width <= s.RelativeWidth*math.Abs(e.Value) {
			continue
		}
		if r := width / math.Abs(e.Value); at < 0 || r > ratio {
			at, ratio = i, r
		}
	}
	return at, ratio
}
