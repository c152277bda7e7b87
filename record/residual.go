package record

// A waterfall adds up if its stages leave at most ResidualRatio of the measured
// time unexplained, or LeastResidualUS if that is more. The same limit applies
// to a single change-proxy pair and to the difference between two sources of
// one stage.
const (
	ResidualRatio   = 0.05
	LeastResidualUS = 2000.0 // microseconds
)

// MaxResidualUS returns how much of a measured time stages may leave
// unexplained, in either direction. Both are in microseconds.
func MaxResidualUS(took float64) float64 { return max(ResidualRatio*took, LeastResidualUS) }

// ResidualRule returns this rule in words. of names the time that the share
// refers to, as in "5% of the whole or 2 ms"; "" leaves it out.
func ResidualRule(of string) string {
	if of != "" {
		of = " of " + of
	}
	return "5%" + of + " or 2 ms"
}
