package stat

import (
	"math"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Warm is the share of a series at its start in which caches fill and a process allocates
// its working memory. It says nothing about later growth.
const Warm = 1.0 / 3

// A Growth describes how a series rises after its start is left out.
type Growth struct {
	// Slope is the slope from From on.
	Slope Estimate
	From  float64
	// Early and Late are the slopes of the two halves from From on.
	Early, Late Estimate
	// Length is the length of the whole series, including what is left out.
	Length float64
}

// GrowthOf leaves out the first [Warm] of a series, by time, and estimates the slope of
// the rest (see [Slope]) and of each of its halves.
func GrowthOf(points []SeriesPoint, o Options) Growth {
	if len(points) == 0 {
		none := Slope(nil, o)
		return Growth{Slope: none, Early: none, Late: none}
	}
	first, last := points[0].X, points[len(points)-1].X
	g := Growth{Length: last - first, From: first + Warm*(last-first)}
	middle := (g.From + last) / 2
	var kept, early, late []SeriesPoint
	for _, p := range points {
		switch {
		case p.X < g.From:
			continue
		case p.X < middle:
			early = append(early, p)
		default:
			late = append(late, p)
		}
		kept = append(kept, p)
	}
	g.Slope, g.Early, g.Late = Slope(kept, o), Slope(early, o), Slope(late, o)
	return g
}

// Call compares a growth with the rise per unit of X that does not matter (0 or more).
// There are three answers. It does not grow by more than the margin if the whole interval
// lies below it: that is a claim, and needs evidence like any other. It grows if the
// whole interval lies above zero, the interval of the later half does too, and the later
// half does not rise less than the earlier one (see [Steadily]): a series that fills up
// and then stays does not grow, and one that is still settling may do either. Everything
// else is inconclusive.
func (g Growth) Call(margin float64) (Call, *note.Kind) {
	switch {
	case !g.Slope.Defined():
		return Inconclusive, TooShort
	case g.Slope.High <= margin:
		return NoEffect, WithinMargin
	case g.Slope.Low <= 0:
		return Inconclusive, TooShort
	case g.slows():
		return Inconclusive, Settling
	case !(g.Late.Low > 0):
		return Inconclusive, TooShort
	}
	return Real, nil
}

// Steadily is the minimum slope of the later half relative to the earlier one for a
// series that grows rather than fills up. For a cache whose time constant is a third of
// the whole length the ratio is 0.37; for two thirds it is 0.61.
const Steadily = 0.75

// slows reports whether the later half rises less than the earlier one.
func (g Growth) slows() bool {
	return g.Early.Defined() && g.Late.Defined() && (Apart(g.Early, g.Late).High < 0 || g.Late.Value < Steadily*g.Early.Value)
}

// Needs returns how long a series would have to be, at the same spread, for an answer.
// The interval of a slope shrinks as the length to the power of 3/2, because there are
// more values and they lie further apart. If the slope decreases, it returns twice the
// length. It is infinite if there is no interval.
func (g Growth) Needs(margin float64) float64 {
	call, why := g.Call(margin)
	switch {
	case call != Inconclusive:
		return g.Length
	case why == Settling:
		return 2 * g.Length
	case !g.Slope.Defined():
		return math.Inf(1)
	}
	longer := func(half, room float64) float64 { return math.Pow(math.Max(1, half/room), 2.0/3) }
	calm := math.Inf(1)
	if room := margin - g.Slope.Value; room > 0 {
		calm = longer(g.Slope.High-g.Slope.Value, room)
	}
	grows := math.Inf(1)
	if v := math.Min(g.Slope.Value, g.Late.Value); v > 0 && g.Late.Defined() {
		grows = math.Max(longer(g.Slope.Value-g.Slope.Low, v), longer(g.Late.Value-g.Late.Low, v))
	}
	return g.Length * math.Max(1.1, math.Min(calm, grows))
}
