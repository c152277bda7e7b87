package record

// FaultTrials is the number of trials with a nonzero count, among the trials
// that have a count.
type FaultTrials struct {
	With int `json:"with"`
	Of   int `json:"of"`
}
