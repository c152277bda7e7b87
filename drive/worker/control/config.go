package control

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Schema is the version of the documents.
const Schema = 1

// Default ports of a worker, in addition to those of its protocols, and limits.
const (
	ControlPort  = 15990 // on 127.0.0.1 only
	HealthPort   = 8079  // readiness; separate so that probes do not touch the measured ports
	EchoBody     = -1    // ResponseBytes: answer with the request's body
	MaxResponse  = 64 << 20
	MaxServiceUS = 60e6
	MaxSamples   = 1 << 20
	MaxMessage   = 1 << 20 // of TCPMessageBytes
	MaxSigma     = 5
)

// OTLPLogs is the service by which a worker accepts and counts access logs
// (opentelemetry-proto, collector/logs/v1).
const OTLPLogs = "opentelemetry.proto.collector.logs.v1.LogsService"

// Distributions of service time.
const (
	None        = "none"
	Fixed       = "fixed"
	Exponential = "exponential"
	Lognormal   = "lognormal"
	Recorded    = "recorded"
)

// Config is a worker's behaviour.
type Config struct {
	Schema int `json:"schema,omitempty"`
	// Version counts changes. A POST has the version that it replaces, and is
	// rejected (409) if another change came first.
	Version int64 `json:"version"`
	// ResponseBytes is the size of response bodies; EchoBody (-1) returns the
	// request's body. TCP always echoes.
	ResponseBytes int64 `json:"response_bytes"`
	// TCPMessageBytes is the size of a TCP request; 0: whatever a read returns.
	TCPMessageBytes int64       `json:"tcp_message_bytes"`
	ServiceTime     ServiceTime `json:"service_time"`

	// Concurrency limits the requests served at once over all protocols, from
	// the start of their service time to the last call; 0: no limit. Up to
	// Queue more wait in order; others are rejected with 503.
	Concurrency int `json:"concurrency,omitempty"`
	Queue       int `json:"queue,omitempty"`
	// BurnUS is the CPU time of each request in microseconds, part of its
	// service time.
	BurnUS float64 `json:"burn_us,omitempty"`
	// MemoryBytes is allocated and written to while the configuration is in
	// force.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Calls are made to other workers before the answer, in sequence or, with
	// Parallel, all at once.
	Calls    []Call `json:"calls,omitempty"`
	Parallel bool   `json:"parallel,omitempty"`
	// Failures are the shares of requests that fail.
	Failures []Failure `json:"failures,omitempty"`
	// NotReady turns /readyz to 503.
	NotReady bool  `json:"not_ready,omitempty"`
	Drain    Drain `json:"drain,omitzero"`
}

// ServiceTime is how long the worker holds each request before it answers.
type ServiceTime struct {
	Distribution string `json:"distribution"` // None (default), Fixed, Exponential, Lognormal, Recorded
	// MeanUS is the mean in microseconds (Fixed: the value).
	MeanUS float64 `json:"mean_us,omitempty"`
	// Sigma is the standard deviation of the logarithm (Lognormal); the mean is
	// still MeanUS.
	Sigma float64 `json:"sigma,omitempty"`
	// SamplesUS are recorded times in microseconds, drawn at random with
	// replacement (Recorded).
	SamplesUS []float64 `json:"samples_us,omitempty"`
	// MaxUS truncates longer draws; 0: 60 s.
	MaxUS float64 `json:"max_us,omitempty"`
	// Seed makes the sequence of draws repeatable.
	Seed uint64 `json:"seed,omitempty"`
}

// Bounds of a behaviour.
const (
	MaxConcurrency = 100_000
	MaxQueue       = 1_000_000
	MaxMemory      = 64 << 30
	MaxCalls       = 256  // in a configuration, each with up to MaxTimes
	MaxTimes       = 1000 // of one call for one request
	MaxRetries     = 100  // of one call
	MaxCallBytes   = 16 << 20
)

// Ways to fail a request.
const (
	FailStatus   = "status"    // answers with an error
	FailReset    = "reset"     // resets the connection (HTTP/2: the stream; gRPC answers UNAVAILABLE)
	FailHang     = "hang"      // never answers
	FailSlowBody = "slow-body" // sends the response body slowly (gRPC: the complete answer late)
	FailCrash    = "crash"     // ends the worker's process
)

// Failure is a share of requests that fail in one way.
type Failure struct {
	// Share is the share of all requests, 0 to 1. The shares of a configuration
	// add up to at most 1.
	Share  float64 `json:"share"`
	How    string  `json:"how"`              // a Fail constant
	Status int     `json:"status,omitempty"` // FailStatus: 400 to 599
	// Early fails a request before its service time and calls instead of after.
	Early bool `json:"early,omitempty"`
	// BytesPerSecond is how fast FailSlowBody sends; default 100.
	BytesPerSecond int64 `json:"bytes_per_s,omitempty"`
}

// Call is a request to another worker, made for each request served.
type Call struct {
	Name     string `json:"name"`               // in counters
	URL      string `json:"url"`                // http://host:port/path; gRPC: host:port alone counts
	Protocol string `json:"protocol,omitempty"` // a protocol in which workers call each other; default http1
	// Probability is the probability of making the call, 0 to 1; absent: 1.
	Probability *float64 `json:"probability,omitempty"`
	Times       int      `json:"times,omitempty"` // default 1; in sequence or, with Parallel, at once
	// TimeoutMS limits one attempt; 0: 30 s.
	TimeoutMS float64 `json:"timeout_ms,omitempty"`
	// Retries are further attempts after a failure without an answer or a 5xx.
	Retries int   `json:"retries,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"` // of the request's body
	// Optional means that a failed call does not fail the request.
	Optional bool `json:"optional,omitempty"`
}

// Drain describes how a worker shuts down (SIGTERM).
type Drain struct {
	// Off cuts off requests in flight.
	Off bool `json:"off,omitempty"`
	// DelayMS is how long it continues to serve, without being ready, before it
	// closes its listeners and lets requests in flight finish.
	DelayMS float64 `json:"delay_ms,omitempty"`
}

var reName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// within returns an error unless low <= value <= high; NaN is an error too.
func within[N int | int64 | float64](name string, value, low, high N) error {
	if value >= low && value <= high {
		return nil
	}
	return errs.Usage("%s is %v, it must lie in %v..%v", name, value, low, high)
}

// Validate checks the configuration.
func (c Config) Validate() error {
	if err := c.ServiceTime.Validate(); err != nil {
		return fmt.Errorf("service_time: %w", err)
	}
	err := cmp.Or(
		within("response_bytes", c.ResponseBytes, EchoBody, MaxResponse),
		within("tcp_message_bytes", c.TCPMessageBytes, 0, MaxMessage),
		within("concurrency", c.Concurrency, 0, MaxConcurrency),
		within("queue", c.Queue, 0, MaxQueue),
		within("burn_us", c.BurnUS, 0, MaxServiceUS),
		within("memory_bytes", c.MemoryBytes, 0, MaxMemory),
		within("drain.delay_ms", c.Drain.DelayMS, 0, MaxServiceUS/1e3),
		within("the number of calls", len(c.Calls), 0, MaxCalls),
	)
	switch {
	case err != nil:
		return err
	case c.Queue > 0 && c.Concurrency == 0:
		return errs.Usage("queue is %d but concurrency is unlimited, so no request would wait", c.Queue)
	case c.Drain.Off && c.Drain.DelayMS > 0:
		return errs.Usage("drain.delay_ms is %v but drain.off ends the worker at once", c.Drain.DelayMS)
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
		return errs.Usage("the failures' shares add up to %v, which is more than 1", total)
	}
	return nil
}

// Validate checks the service time.
func (s ServiceTime) Validate() error {
	const least = 1e-3 // microseconds
	err := within("max_us", s.MaxUS, 0, MaxServiceUS)
	switch s.Distribution {
	case "", None:
		if s.MeanUS != 0 {
			return errs.Usage("mean_us is %v but the distribution is none", s.MeanUS)
		}
	case Fixed, Exponential, Lognormal:
		err = cmp.Or(err, within("mean_us", s.MeanUS, least, MaxServiceUS))
	case Recorded:
		if len(s.SamplesUS) == 0 || len(s.SamplesUS) > MaxSamples {
			return errs.Usage("samples_us has %d values, it must have 1 to %d", len(s.SamplesUS), MaxSamples)
		}
		for i, us := range s.SamplesUS {
			err = cmp.Or(err, within(fmt.Sprintf("samples_us[%d]", i), us, 0, MaxServiceUS))
		}
	default:
		return errs.Usage("distribution is %q, it must be %s, %s, %s, %s or %s",
			s.Distribution, None, Fixed, Exponential, Lognormal, Recorded)
	}
	switch {
	case s.Distribution != Recorded && len(s.SamplesUS) > 0:
		return errs.Usage("samples_us is set but the distribution is %s", s.Distribution)
	case s.Distribution == Lognormal:
		err = cmp.Or(err, within("sigma", s.Sigma, least, MaxSigma))
	case s.Sigma != 0:
		return errs.Usage("sigma is set but the distribution is %s", s.Distribution)
	}
	return err
}

func (f Failure) validate() error {
	switch f.How {
	case FailStatus:
		if f.Status < 400 || f.Status > 599 {
			return errs.Usage("status is %d, it must lie in 400..599", f.Status)
		}
	case FailReset, FailHang, FailSlowBody, FailCrash:
		if f.Status != 0 {
			return errs.Usage("status is set but the failure is %s", f.How)
		}
	default:
		return errs.Usage("how is %.40q, it must be %s, %s, %s, %s or %s", f.How, FailStatus, FailReset, FailHang, FailSlowBody, FailCrash)
	}
	if f.How != FailSlowBody && f.BytesPerSecond != 0 {
		return errs.Usage("bytes_per_s is set but the failure is %s", f.How)
	}
	return cmp.Or(within("share", f.Share, 0, 1), within("bytes_per_s", f.BytesPerSecond, 0, MaxResponse))
}

func (c Call) validate() error {
	if !reName.MatchString(c.Name) {
		return errs.Usage("name is %.80q, it must be lower-case letters, digits, dots and dashes", c.Name)
	}
	target, err := url.Parse(c.URL)
	if err != nil || target.Scheme != "http" || target.Host == "" || target.User != nil || len(c.URL) > 2048 {
		return errs.Usage("url is %.80q, it must be http://host:port/path", c.URL)
	}
	if c.Protocol != "" && !protocol.Of(c.Protocol).Calls {
		return errs.Usage("protocol is %.40q, it must be %s", c.Protocol, protocol.List(protocol.Names(protocol.Calls)))
	}
	probability := 1.0
	if c.Probability != nil {
		probability = *c.Probability
	}
	return cmp.Or(
		within("probability", probability, 0, 1),
		within("times", c.Times, 0, MaxTimes),
		within("retries", c.Retries, 0, MaxRetries),
		within("timeout_ms", c.TimeoutMS, 0, MaxServiceUS/1e3),
		within("bytes", c.Bytes, 0, MaxCallBytes),
	)
}
