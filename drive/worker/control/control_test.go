package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

func TestParseConfigRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"nothing":            {``, "byte 0"},
		"no object":          {`[]`, "configuration"},
		"unknown field":      {`{"response_byte": 3}`, `unknown field "response_byte"`},
		"trailing text":      {`{"version": 1} x`, "after the document"},
		"two documents":      {`{} {}`, "after the document"},
		"other schema":       {`{"schema": 7}`, "schema 7"},
		"negative size":      {`{"response_bytes": -2}`, "response_bytes is -2"},
		"huge size":          {`{"response_bytes": 99999999999}`, "response_bytes"},
		"fraction":           {`{"response_bytes": 1.5}`, "response_bytes"},
		"unknown law":        {`{"service_time": {"distribution": "pareto"}}`, `"pareto"`},
		"no mean":            {`{"service_time": {"distribution": "fixed"}}`, "mean_us is 0"},
		"negative mean":      {`{"service_time": {"distribution": "exponential", "mean_us": -1}}`, "mean_us is -1"},
		"mean without law":   {`{"service_time": {"mean_us": 5}}`, "distribution is none"},
		"lognormal no sigma": {`{"service_time": {"distribution": "lognormal", "mean_us": 5}}`, "sigma is 0"},
		"sigma too large":    {`{"service_time": {"distribution": "lognormal", "mean_us": 5, "sigma": 6}}`, "sigma is 6"},
		"stray sigma":        {`{"service_time": {"distribution": "fixed", "mean_us": 5, "sigma": 1}}`, "sigma is set"},
		"no samples":         {`{"service_time": {"distribution": "recorded"}}`, "samples_us has 0"},
		"bad sample":         {`{"service_time": {"distribution": "recorded", "samples_us": [1, -3]}}`, "samples_us[1]"},
		"stray samples":      {`{"service_time": {"distribution": "fixed", "mean_us": 5, "samples_us": [1]}}`, "samples_us is set"},
		"cut too high":       {`{"service_time": {"distribution": "fixed", "mean_us": 5, "max_us": 1e9}}`, "max_us"},
		"message too large":  {`{"tcp_message_bytes": 99999999}`, "tcp_message_bytes"},
	} {
		_, err := ParseConfig([]byte(test.text))
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v (exit code %d)", name, err, errs.Code(err))
		}
	}
}

func TestCountersSince(t *testing.T) {
	before := Counters{StartedNS: 1, Protocols: map[string]ProtocolCounters{protocol.HTTP1: {Requests: 10, Status: map[string]int64{"200": 10}}}}
	after := Counters{StartedNS: 1, Protocols: map[string]ProtocolCounters{
		protocol.HTTP1: {Requests: 15, ClientCert: 4, Status: map[string]int64{"200": 14, "503": 1}},
		protocol.TCP:   {Requests: 2, Status: map[string]int64{"ok": 2}},
	}}
	rise, err := after.Since(before)
	must.OK(t, err)
	for key, want := range map[string]float64{"requests": 7, "http1.requests": 5, "http1.status.200": 4, "errors": 1, "client_cert": 4, "tcp.requests": 2} {
		if rise[key] != want {
			t.Errorf("%s rose by %v, expected %v", key, rise[key], want)
		}
	}
	after.StartedNS = 2
	if _, err := after.Since(before); err == nil {
		t.Error("a restart was not noticed")
	}
}

// A valid configuration survives its own JSON form.
func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(0.001, MaxServiceUS)
		service := rapid.OneOf(
			rapid.Just(ServiceTime{Distribution: None}),
			rapid.Map(mean, func(us float64) ServiceTime { return ServiceTime{Distribution: Exponential, MeanUS: us} }),
			rapid.Map(mean, func(us float64) ServiceTime {
				return ServiceTime{Distribution: Lognormal, MeanUS: us, Sigma: 0.5, Seed: 3}
			}),
			rapid.Map(rapid.SliceOfN(rapid.Float64Range(0, MaxServiceUS), 1, 20), func(us []float64) ServiceTime {
				return ServiceTime{Distribution: Recorded, SamplesUS: us}
			}),
		).Draw(t, "service")
		config := Config{
			Version:         rapid.Int64Range(0, math.MaxInt64).Draw(t, "version"),
			ResponseBytes:   rapid.Int64Range(EchoBody, MaxResponse).Draw(t, "size"),
			TCPMessageBytes: rapid.Int64Range(0, MaxMessage).Draw(t, "message"),
			ServiceTime:     service,
		}
		data, err := json.Marshal(config)
		must.OK(t, err)
		got, err := ParseConfig(data)
		if err != nil || !reflect.DeepEqual(got, config) {
			t.Fatalf("%s: %+v, %v", data, got, err)
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"version":1,"response_bytes":1024,"service_time":{"distribution":"lognormal","mean_us":1000,"sigma":0.5}}`))
	f.Add([]byte(`{"service_time":{"distribution":"recorded","samples_us":[1,2,3]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := ParseConfig(data)
		if err == nil && config.Validate() != nil {
			t.Error("took an invalid configuration")
		}
		if err != nil && errs.Code(err) != errs.CodeUsage {
			t.Errorf("exit code %d for %v", errs.Code(err), err)
		}
	})
}

// memory is a worker's control server whose requests wait for their end once it is silent.
type memory struct {
	config  Config
	refuses bool
	silent  bool
}

func (m *memory) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.silent {
		<-r.Context().Done()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Method == http.MethodPost {
		if m.refuses {
			return nil, errors.New("refused")
		}
		if err := json.NewDecoder(r.Body).Decode(&m.config); err != nil {
			return nil, err
		}
		m.silent = m.config.ResponseBytes == 666
	}
	data, err := json.Marshal(m.config)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(data))}, err
}

// A worker that no longer answers does not keep the others from being reverted.
func TestRevertsBesideASilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers := []*memory{{}, {}, {}, {refuses: true}}
		var clients []Client
		for _, w := range workers {
			clients = append(clients, Client{HTTPClient: &http.Client{Transport: w}, BaseURL: "http://worker"})
		}
		err := UpdateAll(t.Context(), clients, func(i int, c *Config) {
			if c.ResponseBytes = 7; i == 0 {
				c.ResponseBytes = 666
			}
		})
		if err == nil || strings.Count(err.Error(), "not reverted") != 2 { // the silent one, and the one that refuses
			t.Errorf("error %v", err)
		}
		for i, w := range workers[1:] {
			if w.config.ResponseBytes != 0 {
				t.Errorf("worker %d still has the change", i+1)
			}
		}
	})
}
