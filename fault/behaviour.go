package fault

import "time"

// Behaviour is a change of what a worker does; what is nil stays as it was.
type Behaviour struct {
	// ServiceTime is how long a request is held, as the worker's short form
	// says it: none, fixed:1ms, exponential:1ms, lognormal:1ms,0.5.
	ServiceTime *string
	Response    *int64         // bytes of an answer's body
	Concurrency *int           // requests served at once; 0 for no bound
	Queue       *int           // requests that may wait for that
	Burn        *time.Duration // CPU time spent on each request
	Memory      *int64         // bytes held
	Failures    []Failure      // empty and not nil: none any longer
	Ready       *bool          // what the readiness probe is told
}

// Ways for a worker to fail a request.
const (
	FailStatus   = "status"    // answers with an error
	FailReset    = "reset"     // resets the connection
	FailHang     = "hang"      // never answers
	FailSlowBody = "slow-body" // sends the answer's body a little at a time
	FailCrash    = "crash"     // ends its process
)

// Failure is a share of requests that fail in one way.
type Failure struct {
	Share  float64 // 0..1, of those that no earlier failure took
	How    string
	Status int // FailStatus: 400..599
}
