package routeprobe

import (
	"context"
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
)

// Spec says what is asked for, and when.
type Spec struct {
	Address string `json:"address"` // of the gateway, host:port
	// Every is how far apart two requests to a route are, until that is less than a
	// hundredth of the time for which it has been asked for, which they are then.
	Every   time.Duration `json:"every_ns"`
	Timeout time.Duration `json:"timeout_ns"`
	// After is how long a route is asked for after its first good answer.
	After  time.Duration `json:"after_ns"`
	Routes []Route       `json:"routes"`
}

// Route is one that a gateway is to serve.
type Route struct {
	Change int    `json:"change"` // that makes it
	Host   string `json:"host"`
	// FromNS is when the first request leaves, nanoseconds since 1970 by the clock of
	// the machine that sends it; at once where that is past.
	FromNS int64 `json:"from_unix_ns"`
}

// Seen is what became of the requests to a route. Times are nanoseconds since 1970.
type Seen struct {
	Change int `json:"change"`
	// GoodNS is when the first request left that had a good answer, AnsweredNS when
	// that had come; 0: there was none. BadNS is when the last one left before it that
	// had none; 0 if there was none. A request leaves when it is its turn: what a new
	// connection for it takes is part of its answer's time.
	GoodNS     int64 `json:"good_unix_ns,omitempty"`
	AnsweredNS int64 `json:"answered_unix_ns,omitempty"`
	BadNS      int64 `json:"bad_unix_ns,omitempty"`
	// Statuses count the answers by status, "error" what had none.
	Statuses map[string]int `json:"statuses"`
	// Relapses are requests that left after the first good one and had no good answer.
	Relapses int `json:"relapses,omitempty"`
	// Failed are requests without a good answer, but for those that were told, before the
	// route was served, that there is none.
	Failed int `json:"failed,omitempty"`
	// Late is how late a request left at the most, Unsent how many did not leave,
	// because as many as may be were out.
	Late   time.Duration `json:"late_ns"`
	Unsent int           `json:"unsent,omitempty"`
	Error  string        `json:"error,omitempty"` // of the last request without an answer
}

const (
	// maxOut is how many requests to a route may be out.
	maxOut = 64
	// maxRoutes bounds a spec.
	maxRoutes = 1000
	// apart is the share of the time that a route has been asked for by which requests are
	// apart at the least: those to routes that are never served would be a load.
	apart = 100
	// failed stands for the status of a request without an answer.
	failed = "error"
	// good is the status of a route that is served, lacking of one that is not there.
	good, lacking = "200", "404"
)

// Validate says what is wrong with the spec.
func (s Spec) Validate() error {
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return errs.Usage("route probe: address %q: want host:port", s.Address)
	}
	if s.Every < 100*time.Microsecond || s.Timeout <= 0 || s.After < 0 {
		return errs.Usage("route probe: every %v, timeout %v, after %v: want at least 100µs between requests, and a time-out", s.Every, s.Timeout, s.After)
	}
	if len(s.Routes) > maxRoutes {
		return errs.Usage("route probe: %d routes are more than %d", len(s.Routes), maxRoutes)
	}
	for _, r := range s.Routes {
		if r.Host == "" {
			return errs.Usage("route probe: the route of change %d has no host", r.Change)
		}
	}
	return nil
}

// Prober asks for the routes of a spec. Stop ends it.
type Prober struct {
	spec   Spec
	timer  *wake.Timer
	client *http.Client
	cancel context.CancelFunc
	done   sync.WaitGroup
	routes []*route
}

// Start begins to ask.
func Start(ctx context.Context, spec Spec) (*Prober, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	timer, err := wake.New()
	if err != nil {
		return nil, fmt.Errorf("route probe: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Prober{spec: spec, timer: timer, cancel: cancel, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: maxOut, DisableCompression: true},
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

// Stop ends the requests, those that are out as well, and returns when they have.
func (p *Prober) Stop() {
	p.cancel()
	p.done.Wait()
	p.timer.Close()
	p.client.CloseIdleConnections()
}

// Seen says what became of the requests so far, by route in the spec's order.
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
	if now := time.Now(); from.Before(now) { // what is past was not missed
		from = now
	}
	for at := from; ; at = at.Add(max(p.spec.Every, at.Sub(from)/apart)) {
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

// ask sends one request, which was due at an instant.
func (p *Prober) ask(ctx context.Context, r *route, due time.Time) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.spec.Address+"/", nil)
	if err != nil {
		return // Validate has looked
	}
	request.Host = r.Host
	sent := time.Now()
	answer, err := p.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
		answer.Body.Close()
	}
	switch {
	case ctx.Err() != nil: // nobody waits for it any more
	case err != nil:
		r.answered(due, sent, time.Now(), failed, err.Error())
	default:
		r.answered(due, sent, time.Now(), strconv.Itoa(answer.StatusCode), "")
	}
}

// route is one that is asked for, and what came of it.
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

// badly is a request that had no good answer.
type badly struct {
	leftNS  int64
	lacking bool // the gateway said that it has no such route
}

// over says that the route has been served for so long.
func (r *route) over(after time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answerNS != 0 && time.Now().UnixNano() >= r.answerNS+int64(after)
}

func (r *route) withhold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent++
}

// answered notes what became of a request.
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
		if after || !b.lacking {
			s.Failed++
		}
	}
	return s
}
