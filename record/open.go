package record

// Unknown ends of an interval.
const (
	OpenHigh = "high" // the limit is at or above the lower end
	OpenLow  = "low"  // the limit is below the upper end
	OpenBoth = "both"
)

// OpenAbove reports whether no upper bound of the limit is known.
func (f Finding) OpenAbove() bool { return f.Open == OpenHigh || f.Open == OpenBoth }

// Reach describes the range of a limit with an unknown end, given both ends in
// words; "" if both ends are known.
func (f Finding) Reach(low, high string) string {
	switch f.Open {
	case OpenHigh:
		return low + " or more"
	case OpenLow:
		return "below " + high
	case OpenBoth:
		return "not known"
	}
	return ""
}
