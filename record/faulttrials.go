package record

// FaultTrials is in how many trials that have a count it is not zero.
type FaultTrials struct {
	With int `json:"with"`
	Of   int `json:"of"`
}
