package load

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/net/http/httpguts"
)

// Limits of a Spec.
const (
	maxConnections  = 100_000
	maxPayloadBytes = 64 << 20
	maxStreams      = 10_000
	maxThreads      = 256
	maxHeaderBytes  = 64 << 10
	maxIntervals    = 1_000_000
	maxRateRPS      = 1e8
	maxShares       = 100_000
)

// Validate checks the Spec. Its errors are usage errors (exit code 2) that name the
// field.
func (s *Spec) Validate() error {
	if err := s.validate(); err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	return nil
}

func (s *Spec) validate() error {
	if s.Protocol != "" && protocol.Of(s.Protocol).Name == "" {
		return fmt.Errorf("protocol %q: want %s", s.Protocol, protocol.List(protocol.Names(nil)))
	}
	t, err := s.parseTarget()
	if err != nil {
		return err
	}
	if err := s.validateRequest(t); err != nil {
		return err
	}
	for _, f := range []struct {
		name           string
		value, low, up float64
	}{
		{"connections", float64(s.Connections), 1, maxConnections},
		{"threads", float64(s.Threads), 1, maxThreads},
		{"streams_per_connection", float64(s.StreamsPerConnection), 0, maxStreams},
		{"duration_s", s.DurationS, 0.001, 7 * 24 * 3600},
		{"interval_s", s.IntervalS, 0.01, 3600},
		{"timeout_s", s.TimeoutS, 0.001, 600},
		{"drain_s", s.DrainS, 0, 600},
	} {
		if err := between(f.name, f.value, f.low, f.up); err != nil {
			return err
		}
	}
	if s.Threads > s.Connections {
		return fmt.Errorf("threads %d: more than the %d connections they would share", s.Threads, s.Connections)
	}
	if s.StreamsPerConnection > 1 && !t.protocol.Multiplexed {
		return fmt.Errorf("streams_per_connection %d: %s sends one request at a time on a connection", s.StreamsPerConnection, t.protocol.Name)
	}
	if !s.KeepAlive && t.protocol.Streams {
		return fmt.Errorf("keep_alive: %s keeps each stream open; leave it on", t.protocol.Name)
	}
	if err := s.validateMaxConnections(t); err != nil {
		return err
	}
	if s.DurationS/s.IntervalS > maxIntervals {
		return fmt.Errorf("interval_s %v: more than %d intervals in %v s", s.IntervalS, maxIntervals, s.DurationS)
	}
	if err := s.validateSchedule(); err != nil {
		return err
	}
	return s.validateLog(t)
}

func (s *Spec) validateMaxConnections(t target) error {
	switch n := s.MaxConnections; {
	case n == 0:
		return nil
	case t.protocol.Streams:
		return fmt.Errorf("max_connections %d: a message of %s is never sent on another stream than its own", n, t.protocol.Name)
	case t.protocol.Multiplexed:
		return fmt.Errorf("max_connections %d: %s multiplexes requests on each connection; see streams_per_connection", n, t.protocol.Name)
	case t.tls:
		return fmt.Errorf("max_connections %d: only for plain text; with TLS use more connections", n)
	case s.Rate.IsMax():
		return fmt.Errorf("max_connections %d: at rate max all connections are always busy", n)
	case n < s.Connections:
		return fmt.Errorf("max_connections %d: less than the %d connections", n, s.Connections)
	}
	return between("max_connections", float64(s.MaxConnections), 0, maxConnections)
}

// maxRequestID limits the prefix of request ids, in bytes.
const maxRequestID = 128

// validateLog checks the ids, key and log of requests.
func (s *Spec) validateLog(t target) error {
	if s.RequestID != "" {
		if !t.protocol.Headers {
			return fmt.Errorf("request_id: %s has no headers to carry it", t.protocol.Name)
		}
		if len(s.RequestID) > maxRequestID || !httpguts.ValidHeaderFieldName(s.RequestID) {
			return fmt.Errorf("request_id %.40q: must be letters, digits, hyphens and the like, at most %d", s.RequestID, maxRequestID)
		}
	}
	if k := s.HeaderKey; k != nil {
		switch {
		case !t.protocol.Headers:
			return fmt.Errorf("header_key: %s has no headers", t.protocol.Name)
		case !httpguts.ValidHeaderFieldName(k.Name) || ownedByEngine(k.Name) || strings.EqualFold(k.Name, "host"):
			return fmt.Errorf("header_key: %.40q is not a valid name for a custom header", k.Name)
		case k.Values < 1 || k.Values > MaxLoggedRequests:
			return fmt.Errorf("header_key: values %d: must be between 1 and %d", k.Values, MaxLoggedRequests)
		}
	}
	for i, h := range s.Headers {
		if s.RequestID != "" && strings.EqualFold(h.Name, requestIDHeader) || s.HeaderKey != nil && strings.EqualFold(h.Name, s.HeaderKey.Name) {
			return fmt.Errorf("headers[%d]: %s is set for each request by request_id or header_key", i, h.Name)
		}
	}
	if s.RequestID != "" && s.HeaderKey != nil && strings.EqualFold(s.HeaderKey.Name, requestIDHeader) {
		return fmt.Errorf("header_key: %s carries the request's id", s.HeaderKey.Name)
	}
	if !s.RequestLog || s.Rate.IsMax() { // at rate max the log counts the excess
		return nil
	}
	if n := s.expected(); n > MaxLoggedRequests {
		return fmt.Errorf("request_log: about %.0f requests exceed the %d it holds", n, MaxLoggedRequests)
	}
	return nil
}

// expected returns an upper bound, with near certainty, of the requests that this
// generator sends.
func (s *Spec) expected() float64 {
	mean := s.shape().Expected(s.DurationS) * s.fraction()
	return mean + 6*math.Sqrt(mean)
}

// between returns an error if a field is outside its range; NaN is outside every range.
func between(field string, v, low, high float64) error {
	if !(v >= low && v <= high) {
		return fmt.Errorf("%s %v: must be between %v and %v", field, v, low, high)
	}
	return nil
}

func (s *Spec) validateSchedule() error {
	switch s.Arrival {
	case Poisson, Uniform, Burst:
	default:
		return fmt.Errorf("arrival %q: must be poisson, uniform or burst", s.Arrival)
	}
	if s.Share != nil && (s.Share.Of < 1 || s.Share.Of > maxShares || s.Share.Index < 0 || s.Share.Index >= s.Share.Of) {
		return fmt.Errorf("share: index %d of %d: must be an index from 0, of at most %d generators", s.Share.Index, s.Share.Of, maxShares)
	}
	if s.dealt() && (s.Share.Connections > s.Share.Of*maxConnections || s.Connections != part(s.Share.Connections, s.Share.Of, s.Share.Index)) {
		return fmt.Errorf("share: connections %d: generator %d of %d does not get %d of these", s.Share.Connections, s.Share.Index, s.Share.Of, s.Connections)
	}
	if s.Share != nil && s.Rate.IsMax() {
		return fmt.Errorf("share: rate max cannot be shared")
	}
	if s.StartAtUnixNS < 0 {
		return fmt.Errorf("start_at_unix_ns %d: must be nanoseconds since 1970", s.StartAtUnixNS)
	}
	if s.RepeatS != 0 {
		switch {
		case s.Arrival != Poisson || s.Rate.IsMax() || s.Shape != nil:
			return fmt.Errorf("repeat_s: only Poisson arrivals at a constant rate can repeat")
		case !(s.RepeatS >= s.IntervalS):
			return fmt.Errorf("repeat_s %v: must be at least an interval, %v s", s.RepeatS, s.IntervalS)
		}
	}
	switch {
	case (s.Rate != 0) == (s.Shape != nil):
		return fmt.Errorf("rate: give exactly one of a rate and a shape (ramp, steps)")
	case s.Shape != nil:
		if err := s.Shape.Validate(); err != nil {
			return fmt.Errorf("shape: %w", err)
		}
	case !s.Rate.IsMax() && !(s.Rate > 0 && s.Rate <= maxRateRPS):
		return fmt.Errorf("rate_rps %v: must be positive and at most %.0f, or \"max\"", float64(s.Rate), maxRateRPS)
	}
	return nil
}

func (s *Spec) validateRequest(t target) error {
	if err := between("payload_bytes", float64(s.PayloadBytes), 0, maxPayloadBytes); err != nil {
		return err
	}
	if len(s.Body) > 0 && s.PayloadBytes > 0 {
		return fmt.Errorf("payload_bytes %d: a body is also given; use one of them", s.PayloadBytes)
	}
	if len(s.Body) > maxPayloadBytes {
		return fmt.Errorf("body: %d bytes is more than %d", len(s.Body), maxPayloadBytes)
	}
	if s.Method != "" {
		if !t.protocol.Methods {
			return fmt.Errorf("method %q: %s has no methods", s.Method, t.protocol.Name)
		}
		if !httpguts.ValidHeaderFieldName(s.Method) || s.Method == "CONNECT" {
			return fmt.Errorf("method %q: not an HTTP method that carries a request", s.Method)
		}
	}
	if len(s.ExpectStatus) > 0 && !t.protocol.Methods {
		return fmt.Errorf("expect_status: %s has no HTTP status", t.protocol.Name)
	}
	if _, err := parseStatuses(s.ExpectStatus); err != nil {
		return fmt.Errorf("expect_status: %w", err)
	}
	if !t.protocol.Headers && len(s.Headers) > 0 {
		return fmt.Errorf("headers: %s has none", t.protocol.Name)
	}
	if t.protocol.Echo && len(s.Body) == 0 && s.PayloadBytes == 0 {
		return fmt.Errorf("payload_bytes: %s echo needs at least one byte to echo", t.protocol.Name)
	}
	size := 0
	for i, h := range s.Headers {
		size += len(h.Name) + len(h.Value) + 4
		if !httpguts.ValidHeaderFieldName(h.Name) {
			return fmt.Errorf("headers[%d]: %q is no header name", i, h.Name)
		}
		if strings.ContainsAny(h.Value, "\r\n\x00") {
			return fmt.Errorf("headers[%d]: the value of %s has a line break or zero byte", i, h.Name)
		}
		if ownedByEngine(h.Name) {
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
		return fmt.Errorf("tls: a client certificate needs its key, and the key its certificate")
	}
	_, err := s.tlsConfig(t) // certificates and key are read before anything is sent
	return err
}

// ownedByEngine reports whether the engine sets a header itself or cannot work with it.
func ownedByEngine(name string) bool {
	switch strings.ToLower(name) {
	case "content-length", "transfer-encoding", "connection", "upgrade", "expect":
		return true
	}
	return strings.HasPrefix(strings.ToLower(name), "sec-websocket-")
}
