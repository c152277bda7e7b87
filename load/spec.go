package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/load/arrival"
)

// Protocols.
const (
	HTTP1 = "http1" // HTTP/1.1, one request at a time on a connection
	HTTP2 = "http2" // HTTP/2, with prior knowledge or by ALPN, multiplexed
	GRPC  = "grpc"  // gRPC unary with raw bytes as the message
	TCP   = "tcp"   // TCP echo: payload out, as many bytes back
)

// Arrivals.
const (
	// Poisson spreads requests with exponential gaps, as independent users do.
	Poisson = "poisson"
	// Uniform spaces requests evenly, the first at offset zero.
	Uniform = "uniform"
	// Burst sends Connections requests at one instant, then nothing for
	// Connections/Rate seconds: what closed-loop tools that pace each
	// connection by itself do, since their connections start together.
	Burst = "burst"
	// Recorded replays a trace.
	Recorded = "trace"
)

// Rate is in requests a second, or [Max]. Its zero value means not given.
type Rate float64

// Max asks for as many requests as the connections can carry: each sends its
// next request when its response has come. In JSON it is the string "max".
const Max Rate = -1

// MarshalJSON implements [json.Marshaler].
func (r Rate) MarshalJSON() ([]byte, error) {
	if r == Max {
		return []byte(`"max"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Rate) UnmarshalJSON(data []byte) error {
	if string(data) == `"max"` {
		*r = Max
		return nil
	}
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf(`rate: want a number of requests a second or "max", got %.40s`, data)
	}
	*r = Rate(f)
	return nil
}

// ParseRate reads a rate as the command line and studies spell it.
func ParseRate(s string) (Rate, error) {
	if s == "max" {
		return Max, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return 0, errs.Usage(`rate %q: want a positive number of requests a second or "max"`, s)
	}
	return Rate(f), nil
}

// String returns the rate as [ParseRate] reads it.
func (r Rate) String() string {
	if r == Max {
		return "max"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// Header is one header line of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TLS says how to speak TLS, in addition to what the URL's scheme says.
// Certificates and keys are PEM text, not paths, so that a Spec can travel.
type TLS struct {
	CAPEM              string `json:"ca_pem,omitempty"`   // trusted roots; the system's if empty
	CertPEM            string `json:"cert_pem,omitempty"` // client certificate
	KeyPEM             string `json:"key_pem,omitempty"`
	ServerName         string `json:"server_name,omitempty"` // for SNI and verification; the URL's host if empty
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

// Spec says what a run sends, over what, and when. [DefaultSpec] and
// [ParseSpec] fill in defaults; [Spec.Validate] checks it.
type Spec struct {
	// URL is the target: http, https, grpc, grpcs, tcp or tls scheme, with a
	// port (80 and 443 are the defaults of http and https).
	URL      string `json:"url"`
	Protocol string `json:"protocol"` // HTTP1, HTTP2, GRPC or TCP; from the URL's scheme if empty
	// Method and Headers are for HTTP, Headers also for gRPC metadata.
	Method  string   `json:"method,omitempty"` // GET, or POST with a payload, if empty
	Headers []Header `json:"headers,omitempty"`
	// Body is sent as it is; PayloadBytes asks for a generated body of that
	// size instead. TCP echo needs one of them.
	Body         []byte `json:"body,omitempty"`
	PayloadBytes int    `json:"payload_bytes,omitempty"`
	TLS          *TLS   `json:"tls,omitempty"`

	Connections int `json:"connections"`
	// StreamsPerConnection bounds the requests outstanding on a connection
	// for HTTP/2 and gRPC; the others have one.
	StreamsPerConnection int `json:"streams_per_connection,omitempty"`
	// KeepAlive false makes a new connection for each request; the time to
	// connect is part of its latency.
	KeepAlive bool `json:"keep_alive"`
	// Threads is how many event loops share the connections (plain HTTP/1.1
	// and TCP). Request k belongs to loop k mod Threads.
	Threads int `json:"threads,omitempty"`

	Rate    Rate           `json:"rate_rps,omitempty"`
	Arrival string         `json:"arrival"`
	Shape   *arrival.Shape `json:"shape,omitempty"` // how the rate changes; constant if nil
	Trace   *arrival.Trace `json:"trace,omitempty"` // for Recorded
	Seed    uint64         `json:"seed"`

	DurationS float64 `json:"duration_s"` // of the schedule
	IntervalS float64 `json:"interval_s"` // of the record
	// TimeoutS is how long a request may take from when it was sent; then it
	// failed, and its connection is given up.
	TimeoutS float64 `json:"timeout_s"`
	// DrainS is how long to wait, once the schedule has ended, for requests
	// still queued or in flight; what remains then is unfinished.
	DrainS float64 `json:"drain_s"`
}

// Limits of a Spec.
const (
	maxConnections  = 100_000
	maxPayloadBytes = 64 << 20
	maxStreams      = 10_000
	maxThreads      = 256
	maxHeaderBytes  = 64 << 10
	maxIntervals    = 1_000_000
	maxRateRPS      = 1e8
)

// DefaultSpec returns a Spec for url with every default filled in: 16
// connections, 1,000 requests a second, Poisson arrivals, 10 s.
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
	spec.Rate = 0 // a shape or a trace excludes it
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return Spec{}, errs.Usage("load spec: at byte %d: %v", dec.InputOffset(), err)
	}
	if dec.More() {
		return Spec{}, errs.Usage("load spec: at byte %d: more than one JSON value", dec.InputOffset())
	}
	if spec.Rate == 0 && spec.Shape == nil && spec.Trace == nil {
		spec.Rate = DefaultSpec("").Rate
	}
	if spec.Trace != nil && spec.Arrival == Poisson {
		spec.Arrival = Recorded
	}
	return spec, spec.Validate()
}

// target is a Spec's URL, taken apart.
type target struct {
	protocol string
	tls      bool
	host     string // for DNS and SNI
	port     string
	hostPort string // as the URL has it, for the Host header
	path     string // path and query
}

var schemes = map[string]struct {
	protocol string
	tls      bool
	port     string
}{
	"http":  {HTTP1, false, "80"},
	"https": {HTTP1, true, "443"},
	"grpc":  {GRPC, false, ""},
	"grpcs": {GRPC, true, ""},
	"tcp":   {TCP, false, ""},
	"tls":   {TCP, true, ""},
}

// parseTarget takes the URL apart and settles the protocol.
func (s *Spec) parseTarget() (target, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return target{}, fmt.Errorf("url: %v", err)
	}
	scheme, ok := schemes[u.Scheme]
	if !ok || u.Host == "" {
		return target{}, fmt.Errorf("url %q: want http://HOST[:PORT]/PATH, or https, grpc, grpcs, tcp or tls in its place", s.URL)
	}
	if u.User != nil {
		return target{}, fmt.Errorf("url %q: user and password in a URL are not sent; give an Authorization header", u.Redacted())
	}
	t := target{protocol: scheme.protocol, tls: scheme.tls, host: u.Hostname(), port: u.Port(), hostPort: u.Host, path: u.RequestURI()}
	if t.port == "" {
		t.port = scheme.port
	}
	if t.port == "" {
		return target{}, fmt.Errorf("url %q: %s needs a port", s.URL, u.Scheme)
	}
	if n, err := strconv.Atoi(t.port); err != nil || n < 1 || n > 65535 {
		return target{}, fmt.Errorf("url %q: port %s is not between 1 and 65535", s.URL, t.port)
	}
	if s.Protocol != "" && s.Protocol != t.protocol {
		// http and https carry either version of HTTP, and gRPC over it.
		if t.protocol != HTTP1 || (s.Protocol != HTTP2 && s.Protocol != GRPC) {
			return target{}, fmt.Errorf("protocol %q does not go with url %q", s.Protocol, s.URL)
		}
		t.protocol = s.Protocol
	}
	if t.protocol == GRPC && (t.path == "/" || t.path == "") {
		t.path = "/" + GRPCService + "/" + GRPCMethod
	}
	return t, nil
}

// GRPCService and GRPCMethod name the unary method that is called unless the
// URL names another. Its messages are raw bytes, not protobuf: the payload
// is what follows the five bytes of gRPC framing.
const (
	GRPCService = "meshmark.v1.Echo"
	GRPCMethod  = "Unary"
)

// Validate says what is wrong with the Spec, as a usage error (exit code 2)
// that names the field.
func (s *Spec) Validate() error {
	if err := s.validate(); err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	return nil
}

func (s *Spec) validate() error {
	switch s.Protocol {
	case "", HTTP1, HTTP2, GRPC, TCP:
	default:
		return fmt.Errorf("protocol %q: want http1, http2, grpc or tcp", s.Protocol)
	}
	t, err := s.parseTarget()
	if err != nil {
		return err
	}
	if err := s.validateRequest(t); err != nil {
		return err
	}
	if err := between("connections", float64(s.Connections), 1, maxConnections); err != nil {
		return err
	}
	if err := between("threads", float64(s.Threads), 1, maxThreads); err != nil {
		return err
	}
	if s.Threads > s.Connections {
		return fmt.Errorf("threads %d: more than the %d connections they would share", s.Threads, s.Connections)
	}
	if err := between("streams_per_connection", float64(s.StreamsPerConnection), 0, maxStreams); err != nil {
		return err
	}
	multiplexed := t.protocol == HTTP2 || t.protocol == GRPC
	if s.StreamsPerConnection > 1 && !multiplexed {
		return fmt.Errorf("streams_per_connection %d: %s carries one request at a time on a connection", s.StreamsPerConnection, t.protocol)
	}
	if err := between("duration_s", s.DurationS, 0.001, 7*24*3600); err != nil {
		return err
	}
	if err := between("interval_s", s.IntervalS, 0.01, 3600); err != nil {
		return err
	}
	if s.DurationS/s.IntervalS > maxIntervals {
		return fmt.Errorf("interval_s %v: more than %d intervals in %v s", s.IntervalS, maxIntervals, s.DurationS)
	}
	if err := between("timeout_s", s.TimeoutS, 0.001, 600); err != nil {
		return err
	}
	if err := between("drain_s", s.DrainS, 0, 600); err != nil {
		return err
	}
	return s.validateSchedule()
}

// between reports a field outside its range; NaN is outside every range.
func between(field string, v, low, high float64) error {
	if !(v >= low && v <= high) {
		return fmt.Errorf("%s %v: want a value between %v and %v", field, v, low, high)
	}
	return nil
}

func (s *Spec) validateSchedule() error {
	switch s.Arrival {
	case Poisson, Uniform, Burst, Recorded:
	default:
		return fmt.Errorf("arrival %q: want poisson, uniform, burst or trace", s.Arrival)
	}
	if (s.Arrival == Recorded) != (s.Trace != nil) {
		return fmt.Errorf("arrival %q: arrival trace and a recorded trace need each other", s.Arrival)
	}
	sources := 0
	for _, given := range []bool{s.Rate != 0, s.Shape != nil, s.Trace != nil} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return fmt.Errorf("rate: give exactly one of a rate, a shape (ramp, steps) and a trace")
	}
	switch {
	case s.Trace != nil:
		if err := s.Trace.Validate(); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
		if t, err := s.parseTarget(); err == nil && s.Trace.PayloadBytes != nil && (len(s.Body) > 0 || t.protocol == TCP && s.PayloadBytes > 0) {
			return fmt.Errorf("trace: it gives payload sizes itself; leave body and payload_bytes out")
		}
	case s.Shape != nil:
		if err := s.Shape.Validate(); err != nil {
			return fmt.Errorf("shape: %w", err)
		}
	case s.Rate != Max && !(s.Rate > 0 && s.Rate <= maxRateRPS):
		return fmt.Errorf("rate_rps %v: want a positive number of at most %.0f, or \"max\"", float64(s.Rate), maxRateRPS)
	}
	return nil
}

func (s *Spec) validateRequest(t target) error {
	if err := between("payload_bytes", float64(s.PayloadBytes), 0, maxPayloadBytes); err != nil {
		return err
	}
	if len(s.Body) > 0 && s.PayloadBytes > 0 {
		return fmt.Errorf("payload_bytes %d: a body is given too; choose one", s.PayloadBytes)
	}
	if len(s.Body) > maxPayloadBytes {
		return fmt.Errorf("body: %d bytes is more than %d", len(s.Body), maxPayloadBytes)
	}
	http := t.protocol == HTTP1 || t.protocol == HTTP2
	if s.Method != "" {
		if !http {
			return fmt.Errorf("method %q: %s has no methods", s.Method, t.protocol)
		}
		if !isToken(s.Method) || s.Method == "CONNECT" {
			return fmt.Errorf("method %q: not an HTTP method that carries a request", s.Method)
		}
	}
	if t.protocol == TCP {
		if len(s.Headers) > 0 {
			return fmt.Errorf("headers: tcp has none")
		}
		if len(s.Body) == 0 && s.PayloadBytes == 0 && (s.Trace == nil || s.Trace.PayloadBytes == nil) {
			return fmt.Errorf("payload_bytes: tcp echo needs at least one byte to echo")
		}
	}
	size := 0
	for i, h := range s.Headers {
		size += len(h.Name) + len(h.Value) + 4
		if !isToken(h.Name) {
			return fmt.Errorf("headers[%d]: %q is no header name", i, h.Name)
		}
		if strings.ContainsAny(h.Value, "\r\n\x00") {
			return fmt.Errorf("headers[%d]: the value of %s has a line break or zero byte", i, h.Name)
		}
		switch strings.ToLower(h.Name) {
		case "content-length", "transfer-encoding", "connection", "upgrade", "expect":
			return fmt.Errorf("headers[%d]: %s is set by the engine", i, h.Name)
		}
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("headers: %d bytes is more than %d", size, maxHeaderBytes)
	}
	if s.TLS != nil && !t.tls {
		return fmt.Errorf("tls: options are given, but url %q is plain text", s.URL)
	}
	if s.TLS != nil && (s.TLS.CertPEM == "") != (s.TLS.KeyPEM == "") {
		return fmt.Errorf("tls: a client certificate and its key need each other")
	}
	return nil
}

// isToken says whether s is a token of RFC 9110, 5.6.2.
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}
