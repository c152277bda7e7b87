package load

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestSpecErrors(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"url":                          func(s *Spec) { s.URL = "localhost:80" },
		"needs a port":                 func(s *Spec) { s.URL = "tcp://localhost"; s.PayloadBytes = 1 },
		"port 99999":                   func(s *Spec) { s.URL = "http://localhost:99999/" },
		"user and password":            func(s *Spec) { s.URL = "http://a:b@localhost/" },
		"protocol \"http3\"":           func(s *Spec) { s.Protocol = "http3" },
		"does not match":               func(s *Spec) { s.Protocol = protocol.TCP },
		"connections 0":                func(s *Spec) { s.Connections = 0 },
		"threads 17":                   func(s *Spec) { s.Threads = 17 },
		"one request at a time":        func(s *Spec) { s.StreamsPerConnection = 2 },
		"duration_s 0":                 func(s *Spec) { s.DurationS = 0 },
		"interval_s 0.001":             func(s *Spec) { s.IntervalS = 0.001 },
		"more than 1000000 inte":       func(s *Spec) { s.IntervalS, s.DurationS = 0.01, 6e5 },
		"timeout_s -1":                 func(s *Spec) { s.TimeoutS = -1 },
		"drain_s":                      func(s *Spec) { s.DrainS = 1e9 },
		"arrival \"often\"":            func(s *Spec) { s.Arrival = "often" },
		"rate_rps -3":                  func(s *Spec) { s.Rate = -3 },
		"exactly one":                  func(s *Spec) { s.Shape = &arrival.Shape{Kind: arrival.Ramp, ToRPS: 1, OverS: 1} },
		"shape: kind":                  func(s *Spec) { s.Rate = 0; s.Shape = &arrival.Shape{Kind: "x"} },
		"use one of them":              func(s *Spec) { s.Body, s.PayloadBytes = []byte("x"), 1 },
		"payload_bytes -1":             func(s *Spec) { s.PayloadBytes = -1 },
		"at least one byte":            func(s *Spec) { s.URL = "tcp://localhost:1" },
		"method \"G T\"":               func(s *Spec) { s.Method = "G T" },
		"headers[0]: \"a b\"":          func(s *Spec) { s.Headers = []Header{{"a b", "c"}} },
		"headers[0]: the value":        func(s *Spec) { s.Headers = []Header{{"a", "c\r\nd: e"}} },
		"set by the engine":            func(s *Spec) { s.Headers = []Header{{"Content-Length", "1"}} },
		"plain text":                   func(s *Spec) { s.TLS = &TLS{InsecureSkipVerify: true} },
		"ca_pem holds no cert":         func(s *Spec) { s.URL = "https://h/"; s.TLS = &TLS{CAPEM: "root:x:0:0"} },
		"client certificate":           func(s *Spec) { s.URL = "https://h/"; s.TLS = &TLS{CertPEM: "x", KeyPEM: "y"} },
		"max_connections 3":            func(s *Spec) { s.MaxConnections = 3 },
		"are always busy":              func(s *Spec) { s.MaxConnections, s.Rate = 99, rate.Max },
		"see streams":                  func(s *Spec) { s.MaxConnections, s.Protocol = 99, protocol.HTTP2 },
		"only for plain text":          func(s *Spec) { s.MaxConnections, s.URL = 99, "https://h/" },
		"request_id \"a b\"":           func(s *Spec) { s.RequestID = "a b" },
		"headers to carry it":          func(s *Spec) { s.URL, s.PayloadBytes, s.RequestID = "tcp://h:1", 1, "a" },
		"headers[0]: X-Request":        func(s *Spec) { s.RequestID, s.Headers = "a", []Header{{"X-Request-Id", "b"}} },
		"header_key: tcp":              func(s *Spec) { s.URL, s.PayloadBytes, s.HeaderKey = "tcp://h:1", 1, &HeaderKey{"a", 1} },
		"\"Host\" is not a valid name": func(s *Spec) { s.HeaderKey = &HeaderKey{"Host", 1} },
		"values 0":                     func(s *Spec) { s.HeaderKey = &HeaderKey{"a", 0} },
		"carries the request":          func(s *Spec) { s.RequestID, s.HeaderKey = "a", &HeaderKey{"X-Request-ID", 1} },
		"request_log: about":           func(s *Spec) { s.RequestLog, s.Rate, s.DurationS = true, 10_000, 500 },
		"share: index 3 of 3":          func(s *Spec) { s.Share = &Share{Index: 3, Of: 3} },
		"cannot be shared":             func(s *Spec) { s.Share, s.Rate = &Share{Of: 3}, rate.Max },
		"start_at_unix_ns -1":          func(s *Spec) { s.StartAtUnixNS = -1 },
		"needs its key":                func(s *Spec) { s.URL = "https://h/"; s.TLS = &TLS{CertPEM: "x"} },
	} {
		s := DefaultSpec("http://localhost/")
		change(&s)
		err := s.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if errs.Code(err) != errs.CodeUsage {
			t.Errorf("%v: exit code %d", err, errs.Code(err))
		}
	}
}

func TestParseSpec(t *testing.T) {
	got, err := ParseSpec([]byte(`{"url": "http://h:80/", "rate_rps": "max", "keep_alive": false}`))
	must.OK(t, err)
	want := DefaultSpec("http://h:80/")
	want.Rate, want.KeepAlive = rate.Max, false
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for text, want := range map[string]string{
		`{"url": "http://h/", "rat": 1}`:           `unknown field "rat"`,
		`{"url": "http://h/", "rate_rps": "fast"}`: `want a number of requests per second or "max"`,
		`{"url": "http://h/"} {}`:                  "more than one",
		`{"url": "http://h/", "rate_rps": -2}`:     "rate_rps -2",
		`{"url": 3}`:                               "at byte",
		``:                                         "at byte 0",
	} {
		if _, err := ParseSpec([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// FuzzParseSpec checks that every accepted Spec survives a round trip and can
// plan a schedule.
func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{
		`{"url": "http://h:80/", "rate_rps": "max"}`,
		`{"url": "http://h/", "rate_rps": 5, "arrival": "uniform", "share": {"index": 1, "of": 2}, "request_log": true, "request_id": "mm", "header_key": {"name": "a", "values": 3}, "max_connections": 40, "start_at_unix_ns": 1}`,
		`{"url": "grpc://h:80", "shape": {"kind": "ramp", "from_rps": 1, "to_rps": 9, "over_s": 2}}`,
		`{"url": "tcp://h:80", "payload_bytes": 3}`,
		`{"url": "https://h/", "shape": {"kind": "steps", "steps": [{"rate_rps": 1, "duration_s": 2}]}, "headers": [{"name": "a", "value": "b"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := ParseSpec(data)
		if err != nil {
			return
		}
		encoded, err := json.Marshal(spec)
		must.OK(t, err)
		again, err := ParseSpec(encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if second, _ := json.Marshal(again); string(second) != string(encoded) {
			t.Fatalf("%s became %s", encoded, second)
		}
		if s := spec.schedule(); s != nil {
			last := int64(0)
			for range 100 {
				r, ok := s.Next()
				if !ok {
					break
				}
				if r.Offset < last {
					t.Fatalf("%s: offset %d after %d", encoded, r.Offset, last)
				}
				last = r.Offset
			}
		}
	})
}

func TestEnoughFiles(t *testing.T) {
	must.OK(t, enoughFiles(1, 1))
	err := enoughFiles(1<<40, 1)
	if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("a connection for every file of the world: %v", err)
	}
}
