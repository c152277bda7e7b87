package stat

import "math"

// Serial accumulates pairs of successive values of a series in constant memory.
// Those of several stretches can be merged. The zero value is empty.
type Serial struct {
	N      int64   // pairs
	X, Y   float64 // sums of the earlier and the later values
	XX, YY float64 // of their squares
	XY     float64 // of their products
}

// Add adds two successive values.
func (s *Serial) Add(x, y float64) {
	s.N++
	s.X, s.Y = s.X+x, s.Y+y
	s.XX, s.YY, s.XY = s.XX+x*x, s.YY+y*y, s.XY+x*y
}

// Merge adds the pairs of another stretch.
func (s *Serial) Merge(o *Serial) {
	s.N += o.N
	s.X, s.Y = s.X+o.X, s.Y+o.Y
	s.XX, s.YY, s.XY = s.XX+o.XX, s.YY+o.YY, s.XY+o.XY
}

// Correlation returns the autocorrelation at lag 1: Pearson's of the pairs,
// from -1 to 1; NaN with fewer than three pairs, or if all values are equal.
func (s *Serial) Correlation() float64 {
	if s.N < 3 {
		return math.NaN()
	}
	n := float64(s.N)
	vx, vy := s.XX-s.X*s.X/n, s.YY-s.Y*s.Y/n
	// Cancellation of the sums' digits leaves no meaningful variance.
	if least := 1e-12 * (s.XX + s.YY); !(vx > least && vy > least) {
		return math.NaN()
	}
	return math.Max(-1, math.Min(1, (s.XY-s.X*s.Y/n)/math.Sqrt(vx*vy)))
}

// EffectiveSize returns the number of independent values that carry as much
// information about the mean as n successive ones of a first-order
// autoregressive series with correlation rho: n(1-rho)/(1+rho). It is at least
// 1, and n if rho is negative or unknown: negative correlation carries more
// information, but the interval stays conservative.
func EffectiveSize(n int64, rho float64) float64 {
	if !(rho > 0) || n == 0 {
		return float64(n)
	}
	return math.Max(1, float64(n)*(1-rho)/(1+rho))
}
