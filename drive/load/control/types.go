package control

import "github.com/meshtrial/meshtrial/drive/load"

// Started is the response of /v1/start. The run is in progress.
type Started struct {
	Run         string `json:"run"`           // its name in later calls
	StartUnixNS int64  `json:"start_unix_ns"` // wall clock of the role at offset 0
	// SteppedNS is the total step of that clock from the start of the role's process
	// until then.
	SteppedNS int64 `json:"stepped_ns,omitempty"`
}

// Status is the state of a run.
type Status struct {
	Run         string `json:"run"`
	StartUnixNS int64  `json:"start_unix_ns"`
	Done        bool   `json:"done"`
	Error       string `json:"error,omitempty"` // why it ended without a result
	// Intervals are the finished intervals from the requested index on.
	Intervals []load.Summary `json:"intervals"`
}

// Rate is a request for a new rate from a time on.
type Rate struct {
	RPS float64 `json:"rate_rps"` // of all generators together if they share it
	// AtUnixNS is the time by the wall clock of the role; 0: immediately.
	AtUnixNS int64 `json:"at_unix_ns,omitempty"`
}

// StopAfter is a request to end the schedule at the end of an interval.
type StopAfter struct {
	Interval int `json:"interval"`
}
