package control

import (
	"fmt"
	"net/url"
	"regexp"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Bounds of a behaviour.
const (
	MaxConcurrency = 100_000
	MaxQueue       = 1_000_000
	MaxMemory      = 64 << 30
	MaxCalls       = 256     // in a configuration, each with up to MaxTimes
	MaxTimes       = 1000    // of one call for one request
	MaxRetries     = 100     // of one call
	MaxLogRequests = 1 << 21 // about 100 bytes each
	MaxCallBytes   = 16 << 20
)

// Ways to fail a request.
const (
	FailStatus   = "status"    // answers with an error
	FailReset    = "reset"     // resets the connection (HTTP/2: the stream; gRPC answers UNAVAILABLE)
	FailHang     = "hang"      // never answers, as long as the client waits
	FailSlowBody = "slow-body" // sends the answer's body a little at a time (gRPC: the whole answer late)
	FailCrash    = "crash"     // ends the worker's process
)

// Failure is a share of requests that fail in one way.
type Failure struct {
	// Share is from 0 to 1, of all requests; the shares of a configuration
	// add up to 1 at most.
	Share  float64 `json:"share"`
	How    string  `json:"how"`              // a Fail constant
	Status int     `json:"status,omitempty"` // FailStatus: 400 to 599
	// Early fails a request before its service time and its calls, not after.
	Early bool `json:"early,omitempty"`
	// BytesPerSecond is how fast FailSlowBody sends; default 100.
	BytesPerSecond int64 `json:"bytes_per_s,omitempty"`
}

// Call is a request to another worker, made for each request served.
type Call struct {
	Name     string `json:"name"`               // of what is called, in counters
	URL      string `json:"url"`                // http://host:port/path; gRPC: host:port alone counts
	Protocol string `json:"protocol,omitempty"` // a protocol in which workers call each other; default http1
	// Probability is from 0 to 1 of making the call at all; absent: 1.
	Probability *float64 `json:"probability,omitempty"`
	Times       int      `json:"times,omitempty"` // default 1; one after the other or, with Parallel, at once
	// TimeoutMS bounds one attempt; 0: 30 s.
	TimeoutMS float64 `json:"timeout_ms,omitempty"`
	// Retries are further attempts after one without an answer or with 5xx.
	Retries int   `json:"retries,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"` // of the request's body
	// Optional says that a call without success does not fail the request.
	Optional bool `json:"optional,omitempty"`
}

// Drain is what a worker does when it is told to end (SIGTERM).
type Drain struct {
	// Off ends it at once: what is under way is cut off.
	Off bool `json:"off,omitempty"`
	// DelayMS is how long it goes on serving as before, but not ready, until
	// it closes its listeners and lets what is under way finish.
	DelayMS float64 `json:"delay_ms,omitempty"`
}

// CallCounters count the calls to one other worker.
type CallCounters struct {
	Requests int64 `json:"requests"` // calls, whatever their number of attempts
	Attempts int64 `json:"attempts"`
	OK       int64 `json:"ok"`
	// Failed is by why the last attempt failed: "connect", "timeout", "reset",
	// "cancelled" or the status.
	Failed map[string]int64 `json:"failed,omitempty"`
}

// Request is an entry of a worker's request log.
type Request struct {
	ID       string `json:"id"` // x-request-id
	Protocol string `json:"protocol"`
	StartNS  int64  `json:"start_unix_ns"` // it had been read
	EndNS    int64  `json:"end_unix_ns"`   // its answer was about to be written
	Status   int    `json:"status"`        // 499: the client went away
	Failure  string `json:"failure,omitempty"`
	Attempt  int    `json:"attempt,omitempty"` // x-envoy-attempt-count
}

// Requests is a page of a worker's request log.
type Requests struct {
	Schema    int   `json:"schema"`
	StartedNS int64 `json:"started_unix_ns"` // of the worker: a page of another one does not follow
	From      int64 `json:"from"`            // number of the first entry of the page
	// Lost is how many entries from the asked one on were overwritten before
	// they were read.
	Lost     int64     `json:"lost"`
	Requests []Request `json:"requests"`
	More     bool      `json:"more"` // ask again from From+len(Requests)
}

// Change is a configuration that waits to be put in force, so that many
// workers can change at once or not at all.
type Change struct {
	ID     string `json:"id"` // the caller's choice
	Config Config `json:"config"`
}

// Commit puts a waiting change in force.
type Commit struct {
	// AtNS is when, by the worker's clock, at most a minute ahead; 0 or past: now.
	AtNS int64 `json:"at_unix_ns,omitempty"`
}

// Committed is a change in force.
type Committed struct {
	Config Config `json:"config"`
	AtNS   int64  `json:"at_unix_ns"` // when it was put in force
}

var (
	reName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	reChangeID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
)

// Validate says what is wrong with a change.
func (c Change) Validate() error {
	if !reChangeID.MatchString(c.ID) {
		return errs.Usage("id is %.40q, it must be 1 to 100 letters, digits, dots, dashes", c.ID)
	}
	return c.Config.Validate()
}

func (c Config) validateBehaviour() error {
	within := func(name string, value, high float64) error {
		if !(value >= 0 && value <= high) { // also NaN
			return errs.Usage("%s is %v, it must lie in 0..%v", name, value, high)
		}
		return nil
	}
	for _, err := range []error{
		within("concurrency", float64(c.Concurrency), MaxConcurrency), within("queue", float64(c.Queue), MaxQueue),
		within("burn_us", c.BurnUS, MaxServiceUS), within("memory_bytes", float64(c.MemoryBytes), MaxMemory),
		within("drain.delay_ms", c.Drain.DelayMS, MaxServiceUS/1e3), within("log_requests", float64(c.LogRequests), MaxLogRequests),
	} {
		if err != nil {
			return err
		}
	}
	if c.Queue > 0 && c.Concurrency == 0 {
		return errs.Usage("queue is %d but concurrency bounds nothing, so nobody would wait", c.Queue)
	}
	if c.Drain.Off && c.Drain.DelayMS > 0 {
		return errs.Usage("drain.delay_ms is %v but drain.off ends the worker at once", c.Drain.DelayMS)
	}
	if len(c.Calls) > MaxCalls {
		return errs.Usage("there are %d calls, at most %d are possible", len(c.Calls), MaxCalls)
	}
	for i, call := range c.Calls {
		if err := call.validate(); err != nil {
			return fmt.Errorf("calls[%d]: %w", i, err)
		}
	}
	total := 0.0
	for i, f := range c.Failures {
		if err := f.validate(); err != nil {
			return fmt.Errorf("failures[%d]: %w", i, err)
		}
		total += f.Share
	}
	if total > 1+1e-9 {
		return errs.Usage("the failures' shares add up to %v, which is more than all", total)
	}
	return nil
}

func (f Failure) validate() error {
	switch {
	case !(f.Share >= 0 && f.Share <= 1):
		return errs.Usage("share is %v, it must lie in 0..1", f.Share)
	case f.How == FailStatus && (f.Status < 400 || f.Status > 599):
		return errs.Usage("status is %d, it must lie in 400..599", f.Status)
	case f.How != FailStatus && f.Status != 0:
		return errs.Usage("status is set but the failure is %s", f.How)
	case f.How != FailSlowBody && f.BytesPerSecond != 0:
		return errs.Usage("bytes_per_s is set but the failure is %s", f.How)
	case f.BytesPerSecond < 0:
		return errs.Usage("bytes_per_s is negative")
	}
	switch f.How {
	case FailStatus, FailReset, FailHang, FailSlowBody, FailCrash:
		return nil
	}
	return errs.Usage("how is %.40q, it must be %s, %s, %s, %s or %s", f.How, FailStatus, FailReset, FailHang, FailSlowBody, FailCrash)
}

func (c Call) validate() error {
	if !reName.MatchString(c.Name) {
		return errs.Usage("name is %.80q, it must be lower-case letters, digits, dots and dashes", c.Name)
	}
	target, err := url.Parse(c.URL)
	if err != nil || target.Scheme != "http" || target.Host == "" || target.User != nil || len(c.URL) > 2048 {
		return errs.Usage("url is %.80q, it must be as http://host:port/path", c.URL)
	}
	switch {
	case c.Protocol != "" && !protocol.Of(c.Protocol).Calls:
		return errs.Usage("protocol is %.40q, it must be %s", c.Protocol, protocol.List(protocol.Names(protocol.Calls)))
	case c.Probability != nil && !(*c.Probability >= 0 && *c.Probability <= 1):
		return errs.Usage("probability is %v, it must lie in 0..1", *c.Probability)
	case c.Times < 0 || c.Times > MaxTimes:
		return errs.Usage("times is %d, it must lie in 0..%d", c.Times, MaxTimes)
	case c.Retries < 0 || c.Retries > MaxRetries:
		return errs.Usage("retries is %d, it must lie in 0..%d", c.Retries, MaxRetries)
	case !(c.TimeoutMS >= 0 && c.TimeoutMS <= MaxServiceUS/1e3):
		return errs.Usage("timeout_ms is %v, it must lie in 0..%v", c.TimeoutMS, MaxServiceUS/1e3)
	case c.Bytes < 0 || c.Bytes > MaxCallBytes:
		return errs.Usage("bytes is %d, it must lie in 0..%d", c.Bytes, MaxCallBytes)
	}
	return nil
}
