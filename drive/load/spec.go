package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Arrivals.
const (
	// Poisson has exponential gaps, like independent users.
	Poisson = "poisson"
	// Uniform spaces requests evenly, the first at offset zero.
	Uniform = "uniform"
	// Burst sends Connections requests at one instant, then none for
	// Connections/Rate seconds, like closed-loop tools that pace each connection
	// separately and start all together.
	Burst = "burst"
)

// Header is one header line of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HeaderKey is a header whose value is one of Values: request n carries
// "key-" and n mod Values. All generators of a run use the same values.
type HeaderKey struct {
	Name   string `json:"name"`
	Values int    `json:"values"`
}

// Share makes this generator number Index, from 0, of Of generators with otherwise equal
// Specs that each send 1/Of of the rate. With Poisson arrivals each has its own seed; with
// uniform arrivals they take turns; bursts coincide.
type Share struct {
	Index int `json:"index"`
	Of    int `json:"of"`
	// Connections, if not 0, is the total number of connections of all generators, spread
	// evenly. Then they send exactly the requests of one generator with that many: Poisson
	// arrivals of one seed are divided at random, and of each burst a generator sends as many
	// requests as it has connections. See [Spec.Split].
	Connections int `json:"connections,omitempty"`
}

// TLS configures TLS, in addition to the URL's scheme. Certificates and keys are PEM text,
// not paths, so that a Spec is self-contained.
type TLS struct {
	CAPEM              string `json:"ca_pem,omitempty"`   // trusted roots; the system's if empty
	CertPEM            string `json:"cert_pem,omitempty"` // client certificate
	KeyPEM             string `json:"key_pem,omitempty"`
	ServerName         string `json:"server_name,omitempty"` // for SNI and verification; the URL's host if empty
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

// Spec says what a run sends, over which connections, and when. [DefaultSpec] and [ParseSpec]
// set defaults.
type Spec struct {
	// URL is the target, with a scheme of package protocol, and a port unless the
	// scheme has a default.
	URL      string `json:"url"`
	Protocol string `json:"protocol"` // a name of package protocol; from the URL's scheme if empty
	// Method and Headers are for HTTP, Headers also for gRPC metadata.
	Method string `json:"method,omitempty"` // GET, or POST with a payload, if empty
	// ExpectStatus are the HTTP statuses that count as success, such as 200 or 3xx; default
	// 2xx.
	ExpectStatus []string `json:"expect_status,omitempty"`
	Headers      []Header `json:"headers,omitempty"`
	// Body is the request's body; PayloadBytes generates one of that size
	// instead. TCP echo needs one of them.
	Body         []byte `json:"body,omitempty"`
	PayloadBytes int    `json:"payload_bytes,omitempty"`
	TLS          *TLS   `json:"tls,omitempty"`

	Connections int `json:"connections"`
	// StreamsPerConnection limits the requests in flight on a connection of HTTP/2
	// and gRPC; other protocols have one.
	StreamsPerConnection int `json:"streams_per_connection,omitempty"`
	// KeepAlive false makes a new connection for each request; the time to
	// connect is part of its latency. Streams need it.
	KeepAlive bool `json:"keep_alive"`
	// MaxConnections lets a request that finds all connections busy open another, up to this
	// total, like a client with a growing pool (plain HTTP/1.1 and TCP on a schedule only).
	// Additional ones are used while the others are busy, and closed after spareIdle. 0:
	// requests wait for one of Connections.
	MaxConnections int `json:"max_connections,omitempty"`
	// Threads is the number of event loops that share the connections (plain HTTP/1.1 and
	// TCP). Request k belongs to loop k mod Threads.
	Threads int `json:"threads,omitempty"`

	// RequestLog logs each request, at most [MaxLoggedRequests]; see [RequestLog].
	RequestLog bool `json:"request_log,omitempty"`
	// RequestID is the prefix of [RequestID] in the header x-request-id (HTTP, and
	// gRPC metadata). The messages of a stream have their ids only in the log.
	RequestID string `json:"request_id,omitempty"`
	// HeaderKey sends one of several values in a header, for consistent hashing. A stream
	// carries the value of its number.
	HeaderKey *HeaderKey `json:"header_key,omitempty"`

	Rate    rate.Rate      `json:"rate_rps,omitempty"`
	Arrival string         `json:"arrival"`
	Shape   *arrival.Shape `json:"shape,omitempty"` // how the rate changes; constant if nil
	Seed    uint64         `json:"seed"`
	// RepeatS repeats Poisson arrivals of a constant rate after that many seconds,
	// so that all windows of that length have the same ones. 0: never.
	RepeatS float64 `json:"repeat_s,omitempty"`
	// Share makes this generator one of several that share the rate.
	Share *Share `json:"share,omitempty"`
	// StartAtUnixNS is the wall-clock time of the schedule's offset 0, the same for all
	// generators of a run, which connect before it. 0: now. It is an error if the time has
	// passed when the connections are open.
	StartAtUnixNS int64 `json:"start_at_unix_ns,omitempty"`

	DurationS float64 `json:"duration_s"` // of the schedule
	IntervalS float64 `json:"interval_s"` // of the record
	// TimeoutS limits the time from when a request was sent; then it fails, and its
	// connection is closed.
	TimeoutS float64 `json:"timeout_s"`
	// DrainS is how long to wait after the schedule for requests queued or in flight; those
	// left are unfinished.
	DrainS float64 `json:"drain_s"`
}

// DefaultSpec returns a Spec for url with every default filled in: 16
// connections, 1,000 requests per second, Poisson arrivals, 10 s.
func DefaultSpec(url string) Spec {
	return Spec{
		URL: url, Connections: 16, KeepAlive: true, Threads: 1,
		Rate: 1000, Arrival: Poisson, Seed: 1,
		DurationS: 10, IntervalS: 0.25, TimeoutS: 10, DrainS: 2,
	}
}

// ParseSpec reads a Spec from JSON: unknown fields are errors, absent ones
// get their defaults. The Spec is validated.
func ParseSpec(data []byte) (Spec, error) {
	spec := DefaultSpec("")
	spec.Rate = 0 // a shape excludes it
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return Spec{}, errs.Usage("load spec: at byte %d: %v", dec.InputOffset(), err)
	}
	if dec.More() {
		return Spec{}, errs.Usage("load spec: at byte %d: more than one JSON value", dec.InputOffset())
	}
	if spec.Rate == 0 && spec.Shape == nil {
		spec.Rate = DefaultSpec("").Rate
	}
	return spec, spec.Validate()
}

// target is a parsed URL.
type target struct {
	protocol protocol.Protocol
	tls      bool
	host     string // for DNS and SNI
	port     string
	hostPort string // as in the URL, for the Host header
	path     string // path and query
}

// parseTarget parses the URL and determines the protocol.
func (s *Spec) parseTarget() (target, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return target{}, fmt.Errorf("url: %v", err)
	}
	speaks, endpoint, ok := protocol.OfScheme(u.Scheme)
	if !ok || u.Host == "" {
		schemes := protocol.Schemes()
		return target{}, fmt.Errorf("url %q: must be %s://HOST[:PORT]/PATH, or %s instead", s.URL, schemes[0], protocol.List(schemes[1:]))
	}
	if u.User != nil {
		return target{}, fmt.Errorf("url %q: user and password in a URL are not sent; use an Authorization header", u.Redacted())
	}
	t := target{protocol: speaks, tls: endpoint.TLS, host: u.Hostname(), port: u.Port(), hostPort: u.Host, path: u.RequestURI()}
	if t.port == "" && endpoint.DefaultPort != 0 {
		t.port = strconv.Itoa(endpoint.DefaultPort)
	}
	if t.port == "" {
		return target{}, fmt.Errorf("url %q: %s needs a port", s.URL, u.Scheme)
	}
	if n, err := strconv.Atoi(t.port); err != nil || n < 1 || n > 65535 {
		return target{}, fmt.Errorf("url %q: port %s is not between 1 and 65535", s.URL, t.port)
	}
	if asked := protocol.Of(s.Protocol); s.Protocol != "" && asked.Name != speaks.Name {
		// http and https carry either version of HTTP, and gRPC over it.
		if !speaks.Methods || !asked.Web {
			return target{}, fmt.Errorf("protocol %q does not match url %q", s.Protocol, s.URL)
		}
		t.protocol = asked
	}
	if t.tls && t.protocol.TLS == (protocol.Endpoint{}) {
		return target{}, fmt.Errorf("url %q: %s is sent in plain text only", s.URL, t.protocol.Name)
	}
	if t.path == "/" || t.path == "" {
		t.path = cmp.Or(t.protocol.DefaultPath, t.path)
	}
	return t, nil
}
