package routeprobe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/record"
)

// Spec describes the requests to send.
type Spec struct {
	Address string `json:"address"` // of the gateway, host:port
	// Every is the minimum interval between two requests to a route. It grows to a
	// hundredth of the time for which the route has been probed.
	Every   time.Duration `json:"every_ns"`
	Timeout time.Duration `json:"timeout_ns"`
	// After is how long a route is probed after its first good response.
	After time.Duration `json:"after_ns"`
	// WatchEvery is the interval between two requests to a watched route.
	WatchEvery time.Duration `json:"watch_every_ns,omitempty"`
	// RootCA, in PEM, makes the requests use TLS with certificates of this authority for their
	// hosts.
	RootCA string  `json:"root_ca,omitempty"`
	Routes []Route `json:"routes"`
}

// Route is a route that the gateway is expected to serve.
type Route struct {
	Change int    `json:"change"` // that creates it
	Host   string `json:"host"`
	// FromNS is when the first request is sent, in Unix nanoseconds by the clock of the
	// sending machine; a time in the past means immediately.
	FromNS int64 `json:"from_unix_ns"`
	// Watched routes exist already: they are requested at a constant interval until Stop, and any
	// response but a good one is a failure.
	Watched bool `json:"watched,omitempty"`
}

// Seen holds the outcomes of the requests to a route. Times are Unix nanoseconds.
type Seen struct {
	Change int `json:"change"`
	// GoodNS is when the first request with a good response was sent, AnsweredNS when
	// that response arrived; 0: none. BadNS is when the last request before it without
	// a good response was sent; 0: none. A request counts as sent before a new
	// connection is set up, so the set-up is part of the response time.
	GoodNS     int64 `json:"good_unix_ns,omitempty"`
	AnsweredNS int64 `json:"answered_unix_ns,omitempty"`
	BadNS      int64 `json:"bad_unix_ns,omitempty"`
	// Statuses counts the responses by status; requests without one are under "error".
	Statuses map[string]int `json:"statuses"`
	// Relapses counts requests without a good response sent after the first good one.
	Relapses int `json:"relapses,omitempty"`
	// Failed counts requests without a good response, except for 404 responses before
	// the route was served.
	Failed int `json:"failed,omitempty"`
	// Late is the maximum delay of sending a request. Unsent counts requests not sent
	// because maxOut were in flight.
	Late   time.Duration `json:"late_ns"`
	Unsent int           `json:"unsent,omitempty"`
	Error  string        `json:"error,omitempty"` // of the last request without a response
}

// Served returns the outcome by the times since the route's commit, whose clock the requests' was
// ahead of.
func (s Seen) Served(committedNS, aheadNS int64) *record.Served {
	since := func(ns int64) *int64 {
		if ns == 0 {
			return nil
		}
		us := (ns - aheadNS - committedNS) / 1000
		return &us
	}
	return &record.Served{GoodUS: since(s.GoodNS), AnsweredUS: since(s.AnsweredNS), BadUS: since(s.BadNS),
		Statuses: maps.Clone(s.Statuses), Relapses: s.Relapses, Failed: s.Failed}
}

const (
	// maxOut limits the requests in flight per route.
	maxOut = 64
	// maxRoutes limits the routes of a spec.
	maxRoutes = 1000
	// apart limits the number of requests: the minimum interval is the time probed so
	// far divided by apart, so that routes that are never served cause little load.
	apart = 100
	// failed is the status of a request without a response.
	failed = "error"
	// good is the status of a served route, lacking that of a missing one.
	good, lacking = "200", "404"
)

// Validate checks the spec.
func (s Spec) Validate() error {
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return errs.Usage("route probe: address %q: must be host:port", s.Address)
	}
	if s.Every < 100*time.Microsecond || s.Timeout <= 0 || s.After < 0 {
		return errs.Usage("route probe: every %v, timeout %v, after %v: at least 100µs between requests and a timeout are required", s.Every, s.Timeout, s.After)
	}
	if len(s.Routes) > maxRoutes {
		return errs.Usage("route probe: %d routes are more than %d", len(s.Routes), maxRoutes)
	}
	for _, r := range s.Routes {
		if r.Host == "" {
			return errs.Usage("route probe: the route of change %d has no host", r.Change)
		}
		if r.Watched && s.WatchEvery < 100*time.Microsecond {
			return errs.Usage("route probe: an interval of %v between requests to watched routes: at least 100µs is required", s.WatchEvery)
		}
	}
	_, err := s.authorities()
	return err
}

// authorities returns the certificate pool of RootCA; nil without one.
func (s Spec) authorities() (*x509.CertPool, error) {
	if s.RootCA == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.RootCA)) {
		return nil, errs.Usage("route probe: the root has no certificate in PEM")
	}
	return pool, nil
}

// Prober sends requests to the routes of a spec until Stop.
type Prober struct {
	spec   Spec
	timer  *wake.Timer
	client *http.Client
	cancel context.CancelFunc
	done   sync.WaitGroup
	routes []*route
}

// Start starts a Prober.
func Start(ctx context.Context, spec Spec) (*Prober, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	timer, err := wake.New()
	if err != nil {
		return nil, fmt.Errorf("route probe: %w", err)
	}
	roots, err := spec.authorities()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: maxOut, DisableCompression: true}
	if roots != nil { // the host of the URL is the name in the handshake
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, spec.Address)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Prober{spec: spec, timer: timer, cancel: cancel, client: &http.Client{
		Transport:     transport,
		Timeout:       spec.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, r := range spec.Routes {
		one := &route{Route: r, statuses: map[string]int{}}
		p.routes = append(p.routes, one)
		p.done.Go(func() { p.follow(ctx, one) })
	}
	return p, nil
}

// Stop cancels all requests and waits for them to end.
func (p *Prober) Stop() {
	p.cancel()
	p.done.Wait()
	p.timer.Close()
	p.client.CloseIdleConnections()
}

// Seen returns the outcomes so far, by route in the order of the spec.
func (p *Prober) Seen() []Seen {
	out := make([]Seen, len(p.routes))
	for i, r := range p.routes {
		out[i] = r.seen()
	}
	return out
}

// follow sends the requests to one route on their schedule.
func (p *Prober) follow(ctx context.Context, r *route) {
	slots := make(chan struct{}, maxOut)
	from := time.Unix(0, r.FromNS)
	if now := time.Now(); from.Before(now) { // skipped requests in the past do not count as missed
		from = now
	}
	next := func(at time.Time) time.Time {
		if r.Watched {
			return at.Add(p.spec.WatchEvery)
		}
		return at.Add(max(p.spec.Every, at.Sub(from)/apart))
	}
	for at := from; ; at = next(at) {
		if p.timer.Until(ctx, at) != nil || r.over(p.spec.After) {
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			r.withhold()
			continue
		}
		p.done.Go(func() {
			defer func() { <-slots }()
			p.ask(ctx, r, at)
		})
	}
}

// ask sends one request, due at the given time.
func (p *Prober) ask(ctx context.Context, r *route, due time.Time) {
	url := "http://" + p.spec.Address + "/"
	if p.spec.RootCA != "" {
		url = "https://" + r.Host + "/"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return // cannot happen after Validate
	}
	request.Host = r.Host
	sent := time.Now()
	answer, err := p.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
		answer.Body.Close()
	}
	switch {
	case ctx.Err() != nil: // stopped
	case err != nil:
		r.answered(due, sent, time.Now(), failed, err.Error())
	default:
		r.answered(due, sent, time.Now(), strconv.Itoa(answer.StatusCode), "")
	}
}

// route is the state of a route.
type route struct {
	Route

	mu               sync.Mutex
	goodNS, answerNS int64
	bad              []badly
	statuses         map[string]int
	late             time.Duration
	unsent           int
	err              string
}

// badly is a request without a good response.
type badly struct {
	leftNS  int64
	lacking bool // the gateway said that it has no such route
}

// over reports whether the route has been served for that long.
func (r *route) over(after time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.Watched && r.answerNS != 0 && time.Now().UnixNano() >= r.answerNS+int64(after)
}

func (r *route) withhold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent++
}

// answered records the outcome of a request.
func (r *route) answered(due, sent, at time.Time, status, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[status]++
	r.late = max(r.late, sent.Sub(due))
	left := sent.UnixNano()
	switch {
	case status != good:
		r.bad = append(r.bad, badly{left, status == lacking})
		if problem != "" {
			r.err = problem
		}
	case r.goodNS == 0 || left < r.goodNS:
		r.goodNS, r.answerNS = left, at.UnixNano()
	}
}

func (r *route) seen() Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Seen{Change: r.Change, GoodNS: r.goodNS, AnsweredNS: r.answerNS, Statuses: maps.Clone(r.statuses), Late: r.late, Unsent: r.unsent, Error: r.err}
	for _, b := range r.bad {
		after := r.goodNS != 0 && b.leftNS > r.goodNS
		if after {
			s.Relapses++
		} else {
			s.BadNS = max(s.BadNS, b.leftNS)
		}
		if after || !b.lacking || r.Watched {
			s.Failed++
		}
	}
	return s
}
