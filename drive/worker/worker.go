package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/sync/errgroup"
)

// Options sets where a worker listens, its behaviour, and its limits. Addresses are
// host:port; an empty one is not served. A zero limit means the default.
type Options struct {
	Control string // a loopback address, unless Token is given
	Health  string // /healthz and /readyz for probes, which are not counted
	// Listen maps an endpoint's Listener to the address on which it listens.
	Listen map[string]string

	Config control.Config // at start; its Version is ignored
	// Token is the bearer token of the control server; "" allows anyone who
	// reaches the loopback.
	Token string
	// Crash ends the process; nil: configurations that crash are rejected.
	Crash func()
	// RequestLog receives a JSON line, a [control.Request], for every request
	// with an x-request-id, ten times per second and at the end; nil: none.
	RequestLog io.Writer

	MaxConnections  int           // over all protocols; default 10,000
	MaxHeaderBytes  int           // default 64 KiB
	MaxBodyBytes    int64         // of a request; default 16 MiB
	BodyMemoryBytes int64         // of all request bodies held to be echoed; default 256 MiB
	ReadTimeout     time.Duration // to read one request; default 30 s
	IdleTimeout     time.Duration // between requests; default 10 min
	DrainTimeout    time.Duration // to finish requests in flight; default 10 s

	Log *slog.Logger // nil: nothing is logged
}

func (o *Options) setDefaults() {
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 10*time.Minute)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 10*time.Second)
	o.MaxConnections = cmp.Or(o.MaxConnections, 10_000)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 64<<10)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 16<<20)
	o.BodyMemoryBytes = cmp.Or(o.BodyMemoryBytes, 256<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Worker is a worker whose listeners are open.
type Worker struct {
	options  Options
	counters *counters
	pacer    *pacer
	bodies   budget
	draining atomic.Bool // no longer serves new requests
	leaving  atomic.Bool // shutdown has begun
	log      *requestLog // nil: none

	configMu sync.Mutex // one change at a time
	active   atomic.Pointer[active]
	peers    map[string]peer // by protocol and host

	listeners map[string]net.Listener // by option name
	servers   []server
}

// server is one protocol's server.
type server struct {
	name  string
	serve func() error
	// drain stops accepting and returns when all requests in flight or ctx have
	// ended; end closes the rest.
	drain func(ctx context.Context) error
	end   func()
}

// New builds a worker and opens its listeners. The caller must call Serve,
// or Close.
func New(options Options) (*Worker, error) {
	options.setDefaults()
	if options.MaxConnections < 0 || options.MaxBodyBytes < 0 || options.MaxHeaderBytes < 0 || options.BodyMemoryBytes < 0 || options.DrainTimeout < 0 {
		return nil, errs.Usage("worker: a limit is negative")
	}
	timer, err := wake.New()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{
		options:   options,
		counters:  newCounters(time.Now()),
		pacer:     &pacer{timer: timer},
		listeners: map[string]net.Listener{},
	}
	w.bodies.left.Store(options.BodyMemoryBytes)
	if options.RequestLog != nil {
		w.log = &requestLog{out: options.RequestLog}
	}
	if err := w.build(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Worker) build() error {
	if _, err := w.configure(w.options.Config); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	for name := range w.options.Listen {
		if !slices.ContainsFunc(protocol.Endpoints(), func(e protocol.Endpoint) bool { return e.Listener == name }) {
			return errs.Usage("worker: there is no listener %q", name)
		}
	}
	for _, part := range w.parts() {
		if part.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", part.address)
		if err != nil {
			return listenError(part.name, part.address, err)
		}
		w.listeners[part.name] = listener
		if part.counted != nil {
			listener = &countingListener{Listener: listener, p: part.counted, all: &w.counters.openConnections, limit: int64(w.options.MaxConnections)}
		}
		server, err := part.build(w, listener)
		if err != nil {
			return fmt.Errorf("worker: %s: %w", part.name, err)
		}
		server.name = part.name
		w.servers = append(w.servers, server)
	}
	if len(w.servers) == 0 {
		return errs.Usage("worker: no address to listen on")
	}
	return nil
}

func listenError(name, address string, err error) error {
	err = fmt.Errorf("worker: %s: %w", name, err)
	usage := errs.WithCode(err, errs.CodeUsage)
	var operation *net.OpError
	var invalid *net.AddrError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errs.WithHint(usage, "another program listens on %s; choose another address with the flag --%s", address, flagOf(name))
	case errors.Is(err, syscall.EACCES):
		return errs.WithHint(usage, "ports below 1024 need root; choose another with the flag --%s", flagOf(name))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return errs.WithHint(usage, "this machine has no address %s; choose another with the flag --%s", address, flagOf(name))
	case errors.As(err, &operation) && !errors.As(err, &invalid):
		return err
	}
	return usage
}

// flagOf returns the command-line flag of a listener.
func flagOf(name string) string {
	for _, e := range protocol.Endpoints() {
		if e.Listener == name {
			return e.Flag
		}
	}
	return name
}

// Addresses returns the listening addresses: control, health, and one for
// each protocol served.
func (w *Worker) Addresses() map[string]string {
	out := make(map[string]string, len(w.listeners))
	for name, listener := range w.listeners {
		out[name] = listener.Addr().String()
	}
	return out
}

// Counters returns the current counters.
func (w *Worker) Counters() control.Counters { return w.counters.read(time.Now()) }

// Serve serves until ctx ends, then drains as configured: health turns to 503, after
// the delay listeners close, requests in flight may finish within the drain timeout,
// and the rest is cut off. It returns nil after a complete drain. When Serve
// returns, everything that it started has ended.
func (w *Worker) Serve(ctx context.Context) error {
	defer w.Close()
	group, groupCtx := errgroup.WithContext(context.Background())
	logging, endLog := context.WithCancel(context.Background())
	logged := make(chan error, 1)
	if w.log == nil {
		logged <- nil
	} else {
		go func() { logged <- w.log.follow(logging) }()
	}
	for _, s := range w.servers {
		group.Go(func() error {
			if err := s.serve(); err != nil && !w.draining.Load() {
				return fmt.Errorf("worker: %s: %w", s.name, err)
			}
			return nil
		})
	}
	select {
	case <-ctx.Done():
	case <-groupCtx.Done(): // a server failed: end the others
	}
	drained := w.drain()
	err := group.Wait()
	endLog()
	return cmp.Or(err, drained, <-logged)
}

// drain ends the measured protocols first; control and health answer until they are
// done.
func (w *Worker) drain() error {
	w.leaving.Store(true)
	how := w.active.Load().config.Drain
	if how.DelayMS > 0 {
		_ = w.pacer.timer.Until(context.Background(), time.Now().Add(microseconds(how.DelayMS*1e3))) // it is not closed yet
	}
	w.draining.Store(true)
	if how.Off {
		for _, s := range w.servers {
			s.end()
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.options.DrainTimeout)
	defer cancel()
	var group errgroup.Group
	for _, s := range w.servers {
		if s.name != "control" && s.name != "health" {
			group.Go(func() error { return s.drain(ctx) })
		}
	}
	err := group.Wait()
	if err != nil {
		err = fmt.Errorf("worker: requests were aborted: not finished within %v of the signal to stop", w.options.DrainTimeout)
	}
	for _, s := range w.servers {
		s.end()
	}
	return err
}

// Close releases what New opened. Serve does so too.
func (w *Worker) Close() {
	for _, listener := range w.listeners {
		listener.Close()
	}
	w.pacer.timer.Close()
	w.configMu.Lock()
	defer w.configMu.Unlock()
	for _, p := range w.peers {
		p.close()
	}
}

// httpServer wraps net/http's server.
func httpServer(s *http.Server, serve func() error) server {
	return server{
		serve: func() error {
			if err := serve(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		drain: s.Shutdown,
		end:   func() { s.Close() },
	}
}

// drainOr calls drain and returns when it does. If ctx ends first, it calls end, which makes drain
// return.
func drainOr(ctx context.Context, drain, end func()) error {
	done := make(chan struct{})
	go func() {
		drain()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		end()
		<-done
		return ctx.Err()
	}
}
