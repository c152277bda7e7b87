package record

// Sample is what a cell's valid trials measured with one deployment, or in one block where
// trials have pods of their own: trials of one deployment are not independent of each
// other. A baseline has two in each, one for each of its turns.
type Sample struct {
	Cell     Cell // the factors that vary
	Requests int64
	Values   []SampleValue
}

// SampleValue is a sample's value of a finding. It is infinite where what is timed failed or
// never came.
type SampleValue struct {
	Name, Unit string
	Value      float64
}

// LeftOut is a trial that is not valid, and the checks that it failed.
type LeftOut struct {
	Trial  string
	Cell   Cell // the factors that vary
	Checks []string
}
