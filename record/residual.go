package record

// A waterfall adds up if its stages leave no more than ResidualRatio of the
// measured time unexplained, or LeastResidualUS if that is more. The same
// holds for a single change-proxy pair, and for what two sources of
// one stage may differ by.
const (
	ResidualRatio   = 0.05
	LeastResidualUS = 2000.0 // microseconds
)

// MaxResidualUS is what stages may leave unexplained, either way, of a time
// that took this long; both in microseconds.
func MaxResidualUS(took float64) float64 { return max(ResidualRatio*took, LeastResidualUS) }

// ResidualRule is that rule in words, where of names the time that the share
// is of, as in "5% of the whole or 2 ms"; "" leaves it out.
func ResidualRule(of string) string {
	if of != "" {
		of = " of " + of
	}
	return "5%" + of + " or 2 ms"
}
