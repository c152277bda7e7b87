package sizing

import (
	"cmp"
	"math"
	"slices"
)

// Knot is what one proxy takes while it carries some requests per second.
type Knot struct{ Rate, Use float64 }

// Curve is what one proxy takes by the requests per second that it carries: straight
// from one measured rate to the next, and beyond the outermost rates as between the
// two next to them. It need not be one line: the first requests of a second wake a
// proxy up and cost more than later ones. Rates rise; a curve of one knot is level. A
// nil curve is that of no proxy, and takes nothing.
type Curve []Knot

// Unmeasured is the curve of a proxy of which nothing was measured.
func Unmeasured() Curve { return Curve{{math.NaN(), math.NaN()}} }

// Level is the curve of what takes as much whatever it carries.
func Level(use float64) Curve { return Curve{{0, use}} }

// apart is how much farther than the rate before one must lie to be another one: of
// two that a full server brought close together, the difference is noise.
const apart = 1.25

// CurveOf makes a curve of what was measured at each rate, in any order. Rates that
// hardly differ count as one, the mean of them. Where all are such, the curve is the line
// through the lowest and the highest, and how much it errs the blocks say.
func CurveOf(knots []Knot) Curve {
	knots = slices.SortedFunc(slices.Values(knots), func(a, b Knot) int { return cmp.Compare(a.Rate, b.Rate) })
	var out Curve
	count := 0.0 // knots that the last one is the mean of
	for _, k := range knots {
		last := len(out) - 1
		if last < 0 || k.Rate > apart*out[last].Rate {
			out, count = append(out, k), 1
			continue
		}
		count++
		out[last].Rate += (k.Rate - out[last].Rate) / count
		out[last].Use += (k.Use - out[last].Use) / count
	}
	if most := len(knots) - 1; len(out) == 1 && knots[0].Rate < knots[most].Rate {
		return Curve{knots[0], knots[most]}
	}
	return out
}

// At is what the proxy takes at a rate.
func (c Curve) At(rate float64) float64 {
	switch len(c) {
	case 0:
		return 0
	case 1:
		return c[0].Use
	}
	from, to := c.piece(rate)
	return from.Use + (to.Use-from.Use)*(rate-from.Rate)/(to.Rate-from.Rate)
}

// Each is what a request per second takes that is one more at a rate.
func (c Curve) Each(rate float64) float64 {
	if len(c) < 2 {
		return c.At(rate) * 0 // NaN of what is not known
	}
	from, to := c.piece(rate)
	return (to.Use - from.Use) / (to.Rate - from.Rate)
}

// piece is between which knots, or next to which, a rate lies.
func (c Curve) piece(rate float64) (from, to Knot) {
	i := 1
	for i < len(c)-1 && c[i].Rate <= rate {
		i++
	}
	return c[i-1], c[i]
}

// plus is what two proxies take together that carry the same, each of which is worth so
// much.
func (c Curve) plus(worth float64, other Curve, otherWorth float64) Curve {
	if c == nil && other == nil {
		return nil
	}
	var rates []float64
	for _, k := range slices.Concat(c, other) {
		rates = append(rates, k.Rate)
	}
	slices.Sort(rates)
	// Of two that differ by how they were rounded, the use at both tells no slope.
	rates = slices.CompactFunc(rates, func(a, b float64) bool {
		return math.Abs(a-b) <= 1e-9*max(a, b) || math.IsNaN(a) && math.IsNaN(b)
	})
	out := make(Curve, len(rates))
	for i, rate := range rates {
		out[i] = Knot{rate, worth*c.At(rate) + otherWorth*other.At(rate)}
	}
	return out
}
