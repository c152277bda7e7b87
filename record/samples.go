package record

// Sample is what a cell's valid trials measured with one deployment, or in one block if each
// trial has its own pods. Trials of one deployment are not independent. A baseline has two
// samples in each, one per turn.
type Sample struct {
	Cell     Cell // the factors that vary
	Requests int64
	Values   []SampleValue
}

// SampleValue is a sample's value of a finding. It is infinite if the timed event failed or
// never happened.
type SampleValue struct {
	Name, Unit string
	Value      float64
}

// LeftOut is an invalid trial with the checks that it failed.
type LeftOut struct {
	Trial  string
	Cell   Cell // the factors that vary
	Checks []string
}
