package control

import "github.com/meshtrial/meshtrial/drive/load"

// Started answers /v1/start: the run is under way.
type Started struct {
	Run         string `json:"run"`           // its name in later calls
	StartUnixNS int64  `json:"start_unix_ns"` // wall clock of the role at offset 0
	// SteppedNS is how far that clock had been set by then since the role's process began.
	SteppedNS int64 `json:"stepped_ns,omitempty"`
}

// Status says how a run stands.
type Status struct {
	Run         string `json:"run"`
	StartUnixNS int64  `json:"start_unix_ns"`
	Done        bool   `json:"done"`
	Error       string `json:"error,omitempty"` // why it ended without a result
	// Intervals are those finished, from the index asked for on.
	Intervals []load.Summary `json:"intervals"`
}

// Rate asks for another rate from an instant on.
type Rate struct {
	RPS float64 `json:"rate_rps"` // of all generators together if they share it
	// AtUnixNS is the instant, by the wall clock of the role; 0: at once.
	AtUnixNS int64 `json:"at_unix_ns,omitempty"`
}

// StopAfter asks to end the schedule at the end of an interval.
type StopAfter struct {
	Interval int `json:"interval"`
}
