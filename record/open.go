package record

// Ends of an interval that are not known.
const (
	OpenHigh = "high" // the limit is the lower end or more
	OpenLow  = "low"  // the limit lies below the upper end
	OpenBoth = "both"
)

// OpenAbove says that nothing is known of how high a limit lies.
func (f Finding) OpenAbove() bool { return f.Open == OpenHigh || f.Open == OpenBoth }

// Reach says from where to where a limit lies of which an end is not known, given
// both in words; "" if both are known.
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
