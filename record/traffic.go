package record

// Traffic is what real requests met while the endpoints of their Service
// changed: what the generator saw, what the client's sidecar saw, and which of
// its attempts went to an address that was gone (phantom). An address is gone
// from when a watch of the API server shows that no EndpointSlice of the
// Service has it as ready any more.
type Traffic struct {
	RateRPS     float64 `json:"rate_rps"`
	Connections int     `json:"connections"`
	// Requests == Completed + sum of Failed + Unfinished, by the generator.
	Requests   int64            `json:"requests"`
	Completed  int64            `json:"completed"`
	Failed     map[string]int64 `json:"failed"` // by kind, as the generator names them
	Unfinished int64            `json:"unfinished"`
	Latency    Latency          `json:"latency_intended_us"` // of the completed, by intended time

	// Gone counts the addresses that went while the requests ran.
	Gone int `json:"addresses_gone"`
	// Attempts are those that the client's sidecar made at endpoints; a
	// request has several where it was retried.
	Attempts int64 `json:"attempts"`
	// Unconnected of them failed to get a connection: they are not in the
	// sidecar's own counter. GivenUp had no answer when the caller went away:
	// those that waited for a connection then are not in it either.
	Unconnected int64 `json:"attempts_unconnected"`
	GivenUp     int64 `json:"attempts_given_up"`
	// Counted are the others by the sidecar's own counter of its cluster.
	Counted int64 `json:"attempts_counted"`
	// ProxyFailed are requests that the sidecar answered with an error, or
	// whose caller went away, by Envoy's response flags, or the status of an
	// error that an endpoint itself answered.
	ProxyFailed map[string]int64 `json:"proxy_failed"`
	// Residual is how many requests failed for the generator beyond those
	// that the sidecar knows of.
	Residual int64 `json:"residual"`

	// PhantomAttempts went to an address that was gone; PhantomEnded of them
	// when its pod's processes had ended too, PhantomFailed of them failed.
	PhantomAttempts int64 `json:"phantom_attempts"`
	PhantomEnded    int64 `json:"phantom_ended"`
	PhantomFailed   int64 `json:"phantom_failed_attempts"`
	// PhantomRequests had at least one such attempt. Of them PhantomServed
	// were answered by the pod on its way out, PhantomHidden failed there and
	// were saved by a retry, PhantomFailures the caller saw fail, and
	// PhantomOpen have no end that is known.
	PhantomRequests int64 `json:"phantom_requests"`
	PhantomServed   int64 `json:"phantom_served"`
	PhantomHidden   int64 `json:"phantom_hidden"`
	PhantomFailures int64 `json:"phantom_failures"`
	PhantomOpen     int64 `json:"phantom_open"`
	// PhantomFlags has why the attempts failed, by the same.
	PhantomFlags map[string]int64 `json:"phantom_flags,omitempty"`
	// HiddenMaxUS is the longest that a request saved by a retry lost at
	// addresses that were gone.
	HiddenMaxUS float64 `json:"hidden_max_us"`
	// LastPhantomUS is how long after an address had gone the last attempt
	// went to it: the caller's own staleness, the longest over addresses.
	LastPhantomUS float64 `json:"last_phantom_us"`
	// Reasons are the first few different ones of each kind in Failed.
	Reasons map[string][]string `json:"failure_reasons,omitempty"`
}

// Lost is the number of requests that failed or never ended.
func (t *Traffic) Lost() int64 { return t.FailedTotal() + t.Unfinished }

// FailedTotal is the number of failed requests of every kind.
func (t *Traffic) FailedTotal() int64 {
	sum := int64(0)
	for _, n := range t.Failed {
		sum += n
	}
	return sum
}
