package record

// Traffic is the outcome of real requests while the endpoints of their Service
// changed: what the generator saw, what the client's sidecar saw, and which of
// the sidecar's attempts went to an address that was gone (phantom). An address
// is gone once a watch of the API server shows that no EndpointSlice of the
// Service lists it as ready any more.
type Traffic struct {
	RateRPS     float64 `json:"rate_rps"`
	Connections int     `json:"connections"`
	// Requests == Completed + sum of Failed + Unfinished, by the generator's
	// count.
	Requests   int64            `json:"requests"`
	Completed  int64            `json:"completed"`
	Failed     map[string]int64 `json:"failed"` // by kind, as the generator names them
	Unfinished int64            `json:"unfinished"`
	Latency    Latency          `json:"latency_intended_us"` // of completed requests, by intended time

	// Gone counts the addresses that disappeared while the requests ran.
	Gone int `json:"addresses_gone"`
	// Attempts counts the attempts of the client's sidecar at endpoints. A
	// retried request has several.
	Attempts int64 `json:"attempts"`
	// Unconnected counts those that failed to get a connection; the sidecar's
	// own counter omits them. GivenUp counts those without an answer when the
	// caller went away; the counter also omits those of them that were still
	// waiting for a connection.
	Unconnected int64 `json:"attempts_unconnected"`
	GivenUp     int64 `json:"attempts_given_up"`
	// Counted is the sidecar's own count of the others, from its cluster's
	// counter.
	Counted int64 `json:"attempts_counted"`
	// ProxyFailed counts requests that the sidecar answered with an error or
	// whose caller went away, by Envoy response flag, or by status if an
	// endpoint itself returned the error.
	ProxyFailed map[string]int64 `json:"proxy_failed"`
	// Residual is the number of requests that failed for the generator beyond
	// those that the sidecar knows of.
	Residual int64 `json:"residual"`

	// PhantomAttempts counts attempts at an address that was gone: PhantomEnded
	// those after its pod's processes had ended too, PhantomFailed those that
	// failed.
	PhantomAttempts int64 `json:"phantom_attempts"`
	PhantomEnded    int64 `json:"phantom_ended"`
	PhantomFailed   int64 `json:"phantom_failed_attempts"`
	// PhantomRequests counts requests with at least one such attempt.
	// PhantomServed were answered by the terminating pod, PhantomHidden failed
	// there and were saved by a retry, PhantomFailures failed for the caller,
	// and PhantomOpen have no known end.
	PhantomRequests int64 `json:"phantom_requests"`
	PhantomServed   int64 `json:"phantom_served"`
	PhantomHidden   int64 `json:"phantom_hidden"`
	PhantomFailures int64 `json:"phantom_failures"`
	PhantomOpen     int64 `json:"phantom_open"`
	// PhantomFlags has the reasons for the failed attempts, in the same terms.
	PhantomFlags map[string]int64 `json:"phantom_flags,omitempty"`
	// HiddenMaxUS is the longest time that a request saved by a retry lost at
	// addresses that were gone.
	HiddenMaxUS float64 `json:"hidden_max_us"`
	// LastPhantomUS is the time from when an address was gone until the last
	// attempt at it, the maximum over addresses: the caller's own staleness.
	LastPhantomUS float64 `json:"last_phantom_us"`
	// Reasons has the first few distinct reasons of each kind in Failed.
	Reasons map[string][]string `json:"failure_reasons,omitempty"`
}

// Lost returns the number of requests that failed or never ended.
func (t *Traffic) Lost() int64 { return t.FailedTotal() + t.Unfinished }

// FailedTotal returns the number of failed requests of every kind.
func (t *Traffic) FailedTotal() int64 {
	sum := int64(0)
	for _, n := range t.Failed {
		sum += n
	}
	return sum
}
