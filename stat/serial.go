package stat

import "math"

// Serial sums up pairs of successive values of a series, in a fixed amount of
// memory; those of several stretches add up. The zero value is empty.
type Serial struct {
	N      int64   // pairs
	X, Y   float64 // sums of the earlier and of the later values
	XX, YY float64 // of their squares
	XY     float64 // of their products
}

// Add notes two successive values.
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

// Correlation is the autocorrelation at lag 1: Pearson's of the pairs, from -1
// to 1; NaN of fewer than three pairs, or where the values are all alike.
func (s *Serial) Correlation() float64 {
	if s.N < 3 {
		return math.NaN()
	}
	n := float64(s.N)
	vx, vy := s.XX-s.X*s.X/n, s.YY-s.Y*s.Y/n
	// What is left of sums whose digits cancelled is no variance.
	if least := 1e-12 * (s.XX + s.YY); !(vx > least && vy > least) {
		return math.NaN()
	}
	return math.Max(-1, math.Min(1, (s.XY-s.X*s.Y/n)/math.Sqrt(vx*vy)))
}

// EffectiveSize is how many independent values tell as much of the mean as n
// successive ones of a first-order autoregressive series, whose neighbours
// correlate by rho: n(1-rho)/(1+rho). It is at least 1, and n where rho is
// negative or not known: values that avoid each other tell more, but that is no
// reason to be surer.
func EffectiveSize(n int64, rho float64) float64 {
	if !(rho > 0) || n == 0 {
		return float64(n)
	}
	return math.Max(1, float64(n)*(1-rho)/(1+rho))
}
