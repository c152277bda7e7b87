package record

// Ingress is what a trial of a gateway under change counted. Its added routes are the run's events of
// the trial.
type Ingress struct {
	Changes int `json:"changes"` // planned
	// ReadyUS is the time from sending the first of the Gateway's objects until its routes were
	// served.
	ReadyUS int64 `json:"ready_us"`
	// Requests describes how requests to added routes were sent.
	Requests Gateway `json:"requests"`
	// Watched counts requests to existing routes in the window by response status; "error" if
	// there was no response. Wrong is the number of those without status 200.
	Watched map[string]int `json:"watched"`
	Wrong   int            `json:"wrong"`
}
