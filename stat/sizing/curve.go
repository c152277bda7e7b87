package sizing

import (
	"cmp"
	"math"
	"slices"
)

// Knot is the use of one proxy at a number of requests per second.
type Knot struct{ Rate, Use float64 }

// Curve is the use of one proxy by the requests per second that it carries. It is linear
// between measured rates, and extrapolates linearly beyond the outermost ones. It need
// not be a single line: the first requests of a second wake the proxy up and cost more
// than later ones. Rates ascend; a curve of one knot is constant. A nil curve means no
// proxy, and has no use.
type Curve []Knot

// Unmeasured returns the curve of a proxy without measurements.
func Unmeasured() Curve { return Curve{{math.NaN(), math.NaN()}} }

// Level returns the curve of a use that does not depend on load.
func Level(use float64) Curve { return Curve{{0, use}} }

// apart is the minimum ratio of two rates that count as different. If a saturated server
// brought two rates close together, their difference is noise.
const apart = 1.25

// CurveOf makes a curve of what was measured at each rate, in any order. It averages
// rates that hardly differ. If all do, the curve is the line through the lowest and the
// highest, and the scatter between blocks shows its error.
func CurveOf(knots []Knot) Curve {
	knots = slices.SortedFunc(slices.Values(knots), func(a, b Knot) int { return cmp.Compare(a.Rate, b.Rate) })
	var out Curve
	count := 0.0 // number of knots averaged in the last one
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

// At returns the use of the proxy at a rate.
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

// Each returns the marginal use of a request per second at a rate.
func (c Curve) Each(rate float64) float64 {
	if len(c) < 2 {
		return c.At(rate) * 0 // NaN if unknown
	}
	from, to := c.piece(rate)
	return (to.Use - from.Use) / (to.Rate - from.Rate)
}

// piece returns the knots on either side of a rate, or the two closest to it.
func (c Curve) piece(rate float64) (from, to Knot) {
	i := 1
	for i < len(c)-1 && c[i].Rate <= rate {
		i++
	}
	return c[i-1], c[i]
}

// plus returns the weighted sum of the use of two proxies that carry the same rate.
func (c Curve) plus(worth float64, other Curve, otherWorth float64) Curve {
	if c == nil && other == nil {
		return nil
	}
	var rates []float64
	for _, k := range slices.Concat(c, other) {
		rates = append(rates, k.Rate)
	}
	slices.Sort(rates)
	// Rates that differ only by rounding give no meaningful slope.
	rates = slices.CompactFunc(rates, func(a, b float64) bool {
		return math.Abs(a-b) <= 1e-9*max(a, b) || math.IsNaN(a) && math.IsNaN(b)
	})
	out := make(Curve, len(rates))
	for i, rate := range rates {
		out[i] = Knot{rate, worth*c.At(rate) + otherWorth*other.At(rate)}
	}
	return out
}
