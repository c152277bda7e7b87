package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/spf13/pflag"
)

// loadFlags holds the flags of `meshtrial load`.
type loadFlags struct {
	rate, arrival, protocol, method    string
	connections, payload, streams      int
	threads, maxConnections            int
	keepAlive, insecure, json          bool
	duration, timeout, drain, interval time.Duration
	headers, expectStatus              []string
	body, ramp, steps                  string
	ca, cert, key, serverName, log     string
	control                            string
	requestLog, requestID, headerKey   string
	metrics                            string
	seed                               uint64
}

func (f *loadFlags) register(flags *pflag.FlagSet) {
	d := load.DefaultSpec("")
	flags.IntVarP(&f.connections, "connections", "c", d.Connections, "number of `connections`")
	flags.IntVar(&f.maxConnections, "max-connections", 0, "open more `connections` while all are busy, up to this total (plain http1 and tcp; default: --connections)")
	flags.StringVarP(&f.rate, "rate", "r", d.Rate.String(), "requests per second, or max")
	flags.DurationVarP(&f.duration, "duration", "d", defaultLoadDuration, "length of the schedule; steps have their own")
	flags.StringVar(&f.arrival, "arrival", d.Arrival, "poisson, uniform, or burst (all connections at one instant)")
	flags.StringVar(&f.protocol, "protocol", "", protocol.List(protocol.Names(nil))+" (default: by the URL's scheme)")
	flags.StringVar(&f.method, "method", "", "HTTP `method` (default GET, or POST with a payload)")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "a header, `\"Name: value\"`; may be repeated")
	flags.StringSliceVar(&f.expectStatus, "expect-status", nil, "HTTP `statuses` that count as success, such as 2xx,3xx or 200,404 (default 2xx)")
	flags.StringVar(&f.requestID, "request-id", "", "send x-request-id: this `prefix`, a hyphen and the request's number")
	flags.StringVar(&f.headerKey, "header-key", "", "a header that cycles through a number of values, `NAME:VALUES`, for hash-based load balancing")
	flags.IntVar(&f.payload, "payload", 0, "send a generated payload of this many `bytes`")
	flags.StringVar(&f.body, "body", "", "send this `text`, or the contents of a file with @FILE")
	flags.BoolVar(&f.keepAlive, "keep-alive", true, "keep connections open; false opens a new one for each request")
	flags.IntVar(&f.streams, "streams", 0, "concurrent requests per http2 or grpc connection (default 100, or 1 at rate max)")
	flags.IntVar(&f.threads, "threads", 1, "event loops for plain http1, tcp and streams")
	flags.StringVar(&f.ramp, "ramp", "", "instead of a rate, `FROM:TO` rps over the duration, or FROM:TO:TIME")
	flags.StringVar(&f.steps, "steps", "", "instead of a rate, `RATE:TIME,RATE:TIME,...`")
	flags.Uint64Var(&f.seed, "seed", d.Seed, "seed of the schedule: the same seed gives the same send times")
	flags.DurationVar(&f.timeout, "timeout", secondsOf(d.TimeoutS), "request timeout")
	flags.DurationVar(&f.drain, "drain", secondsOf(d.DrainS), "how long to wait for outstanding requests at the end")
	flags.DurationVar(&f.interval, "interval", secondsOf(d.IntervalS), "length of one interval in the results and the log")
	flags.StringVar(&f.ca, "ca", "", "`FILE` with certificates to trust, PEM")
	flags.StringVar(&f.cert, "cert", "", "`FILE` with a client certificate, PEM")
	flags.StringVar(&f.key, "key", "", "`FILE` with the key of --cert, PEM")
	flags.StringVar(&f.serverName, "server-name", "", "`name` for SNI and verification")
	flags.BoolVar(&f.insecure, "insecure", false, "do not verify the server's certificate")
	flags.StringVar(&f.log, "log", "", "write an HdrHistogram interval log to this `FILE`")
	flags.StringVar(&f.requestLog, "request-log", "", "write the outcome of each request to this `FILE`, one JSON line each")
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
	addMetricsFlag(flags, &f.metrics, "the load")
	flags.StringVar(&f.control, "control", "", "serve as the load role: accept loads over HTTP at this loopback `address`")
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// spec turns the flags into a validated Spec. changed reports whether a flag was given.
func (f *loadFlags) spec(ctx context.Context, url string, changed func(string) bool) (load.Spec, error) {
	s := load.DefaultSpec(url)
	s.Protocol, s.Method, s.Arrival, s.ExpectStatus = f.protocol, f.method, f.arrival, f.expectStatus
	s.Connections, s.StreamsPerConnection, s.Threads = f.connections, f.streams, f.threads
	s.MaxConnections, s.RequestID, s.RequestLog = f.maxConnections, f.requestID, f.requestLog != ""
	s.KeepAlive, s.PayloadBytes, s.Seed = f.keepAlive, f.payload, f.seed
	s.DurationS, s.TimeoutS = f.duration.Seconds(), f.timeout.Seconds()
	s.DrainS, s.IntervalS = f.drain.Seconds(), f.interval.Seconds()
	err := f.setRate(&s, changed)
	if err == nil {
		err = f.setRequest(ctx, &s, changed)
	}
	if err == nil {
		err = f.setTLS(ctx, &s)
	}
	if err != nil {
		return s, errs.WithCode(err, errs.CodeUsage)
	}
	if err := s.Validate(); err != nil {
		return s, errs.WithHint(err, "meshtrial load --help shows the flags")
	}
	return s, nil
}

func (f *loadFlags) setRate(s *load.Spec, changed func(string) bool) error {
	given := 0
	for _, name := range []string{"rate", "ramp", "steps"} {
		if changed(name) {
			given++
		}
	}
	if given > 1 {
		return errs.WithHint(errs.Usage("--rate, --ramp and --steps are mutually exclusive"), "give one of them")
	}
	var err error
	switch {
	case changed("ramp"):
		s.Rate = 0
		s.Shape, err = parseRamp(f.ramp, s.DurationS)
	case changed("steps"):
		s.Rate = 0
		var length float64
		s.Shape, length, err = parseSteps(f.steps)
		if !changed("duration") {
			s.DurationS = length
		}
	default:
		s.Rate, err = rate.Parse(f.rate)
	}
	return err
}

// parseRamp parses FROM:TO or FROM:TO:TIME.
func parseRamp(text string, durationS float64) (*arrival.Shape, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return nil, errs.Usage("--ramp %q: want FROM:TO or FROM:TO:TIME, for instance 100:5000:30s", text)
	}
	from, err1 := strconv.ParseFloat(parts[0], 64)
	to, err2 := strconv.ParseFloat(parts[1], 64)
	if err1 != nil || err2 != nil {
		return nil, errs.Usage("--ramp %q: FROM and TO are requests per second", text)
	}
	shape := &arrival.Shape{Kind: arrival.Ramp, FromRPS: from, ToRPS: to, OverS: durationS}
	if len(parts) == 3 {
		over, err := time.ParseDuration(parts[2])
		if err != nil {
			return nil, errs.Usage("--ramp %q: %v", text, err)
		}
		shape.OverS = over.Seconds()
	}
	return shape, nil
}

// parseSteps parses RATE:TIME,RATE:TIME,... and also returns the total length in seconds.
func parseSteps(text string) (*arrival.Shape, float64, error) {
	shape := &arrival.Shape{Kind: arrival.Steps}
	length := 0.0
	for i, part := range strings.Split(text, ",") {
		rate, hold, ok := strings.Cut(strings.TrimSpace(part), ":")
		r, err1 := strconv.ParseFloat(rate, 64)
		d, err2 := time.ParseDuration(hold)
		if !ok || err1 != nil || err2 != nil {
			return nil, 0, errs.Usage("--steps: step %d, %q: want RATE:TIME, for instance 1000:10s", i+1, part)
		}
		shape.Steps = append(shape.Steps, arrival.Step{RateRPS: r, DurationS: d.Seconds()})
		length += d.Seconds()
	}
	return shape, length, nil
}

func (f *loadFlags) setRequest(ctx context.Context, s *load.Spec, changed func(string) bool) (err error) {
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return errs.Usage("--header %q: want \"Name: value\"", h)
		}
		s.Headers = append(s.Headers, load.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	if changed("header-key") {
		name, values, ok := strings.Cut(f.headerKey, ":")
		n, err := strconv.Atoi(strings.TrimSpace(values))
		if !ok || err != nil {
			return errs.Usage("--header-key %q: want NAME:VALUES, for instance x-user:100", f.headerKey)
		}
		s.HeaderKey = &load.HeaderKey{Name: strings.TrimSpace(name), Values: n}
	}
	if !changed("body") {
		return nil
	}
	path, isFile := strings.CutPrefix(f.body, "@")
	if !isFile {
		s.Body = []byte(f.body)
		return nil
	}
	s.Body, err = readInput(ctx, path, 64<<20)
	return err
}

func (f *loadFlags) setTLS(ctx context.Context, s *load.Spec) error {
	if f.ca == "" && f.cert == "" && f.key == "" && f.serverName == "" && !f.insecure {
		return nil
	}
	s.TLS = &load.TLS{ServerName: f.serverName, InsecureSkipVerify: f.insecure}
	for _, file := range []struct {
		path string
		to   *string
	}{{f.ca, &s.TLS.CAPEM}, {f.cert, &s.TLS.CertPEM}, {f.key, &s.TLS.KeyPEM}} {
		if file.path == "" {
			continue
		}
		data, err := readInput(ctx, file.path, app.MaxSecret)
		if err != nil {
			return err
		}
		*file.to = string(data)
	}
	return nil
}
