package stat

import (
	"math"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Warm is the part of a series at its begin in which caches fill and a process takes
// the memory that it will keep: it tells nothing of how things go on.
const Warm = 1.0 / 3

// A Growth is how a series rises once its beginning is left out.
type Growth struct {
	// Slope is that of what is kept, from From on.
	Slope Estimate
	From  float64
	// Early and Late are those of the halves of what is kept.
	Early, Late Estimate
	// Length is from the first value to the last one, those left out included.
	Length float64
}

// GrowthOf leaves out the first [Warm] of a series, by time, and estimates the slope
// of the rest (see [Slope]) and of both its halves.
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

// Call weighs a growth against the rise per unit of X that does not matter (0 or more).
// There are three answers. It does not grow by more than the margin if the whole
// interval lies below it: that is a claim, and needs evidence as any other. It grows if
// the whole interval lies above zero, that of the later half by itself does too, and
// that half does not rise less than the one before it (see [Steadily]): what fills up and
// then stays is no growth, and what has not come to rest yet may be either. Everything
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

// Steadily is how fast the later half of what is kept rises at least, as a share of the
// earlier one, where something grows and does not fill up. A cache that has a third of
// the whole length for its time constant rises by 0.37 of it there, and one that has
// two thirds by 0.61.
const Steadily = 0.75

// slows says that the later half rises less than the earlier one.
func (g Growth) slows() bool {
	return g.Early.Defined() && g.Late.Defined() && (mover(g.Early, g.Late).High < 0 || g.Late.Value < Steadily*g.Early.Value)
}

// Needs is how long a series would have to be, at the same spread, for an answer.
// Both ends of an interval of a slope come nearer as the length to the power of 3/2:
// there are more values, and they lie further apart. What rises ever less is asked for
// twice the length. It is infinite where no interval is known.
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
