package record

// Hand is one of several generators that sent a trial's requests together. What it
// counted is of the window.
type Hand struct {
	Pod         string `json:"pod"`
	Node        string `json:"node"`
	Connections int    `json:"connections"`
	Scheduled   int64  `json:"scheduled"`
	Completed   int64  `json:"completed"`
	CPU         CPU    `json:"cpu"` // its own account (getrusage)
	// Before is how its clock stood beside the first generator's before the start,
	// which was corrected by it; After how it did once the window was over. Both are
	// 0 for generators on the node of the first: they have one clock.
	Before Clock `json:"clock_before"`
	After  Clock `json:"clock_after"`
}

// Clock is how far a clock is ahead of another, and how wrong that may be either
// way, in microseconds.
type Clock struct {
	AheadUS float64 `json:"ahead_us"`
	ErrorUS float64 `json:"error_us"`
}
