package control

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wallclock"
)

// maxRequest limits the bytes of a request.
const maxRequest = 64 << 20

// maxWait limits how long a request for a result waits, in seconds.
const maxWait = 60

// Server runs one load at a time on request.
type Server struct {
	version string
	ctx     context.Context // of every run

	mu   sync.Mutex
	run  *run // the latest; nil: none
	busy bool // a run is being started
}

// NewServer returns a server whose runs end when ctx does. version is the response of
// /v1/version.
func NewServer(ctx context.Context, version string) *Server {
	return &Server{version: version, ctx: ctx}
}

// Serve serves l until the ctx of the server ends, then closes l.
func (s *Server) Serve(l net.Listener) error {
	return jsonhttp.Server{Name: "load control", Handler: s.mux(), MaxRequest: maxRequest}.Serve(s.ctx, l)
}

// Handler returns the protocol described in the package comment.
func (s *Server) Handler() http.Handler { return jsonhttp.Protect(s.mux(), maxRequest) }

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/start", s.start)
	jsonhttp.Handle(mux, "GET /v1/intervals", with(s, intervals[jsonhttp.None]))
	jsonhttp.Handle(mux, "POST /v1/stop", s.stop)
	jsonhttp.Handle(mux, "POST /v1/stop-after", with(s, func(r *http.Request, run *run, in StopAfter) (Status, error) {
		if in.Interval < 0 {
			return Status{}, errs.Usage("interval %d: must be the index of an interval", in.Interval)
		}
		run.StopAfter(in.Interval)
		return intervals(r, run, in)
	}))
	jsonhttp.Handle(mux, "POST /v1/runs/{run}/rate", with(s, rate))
	jsonhttp.Handle(mux, "GET /v1/runs/{run}/progress", with(s, func(_ *http.Request, run *run, _ jsonhttp.None) (load.Progress, error) {
		return run.Progress(), nil
	}))
	mux.HandleFunc("GET /v1/runs/{run}/requests", s.requests)
	mux.HandleFunc("GET /v1/runs/{run}/result", s.result)
	jsonhttp.HandleClock(mux)
	jsonhttp.HandleVersion(mux, s.version)
	return mux
}

// run is a run with its name.
type run struct {
	name string
	*load.Running
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	data, ok := jsonhttp.ReadBody(w, r)
	if !ok {
		return
	}
	spec, err := load.ParseSpec(data)
	if err == nil {
		err = s.reserve()
	}
	if err != nil {
		jsonhttp.Reject(w, err)
		return
	}
	running, err := load.Start(s.ctx, spec, nil)
	stepped := wallclock.Now().SteppedNS()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if load.Retryable(err) {
		err = jsonhttp.WithStatus(http.StatusServiceUnavailable, err)
	}
	if err != nil {
		jsonhttp.Reject(w, err)
		return
	}
	s.run = &run{rand.Text(), running}
	jsonhttp.Answer(w, Started{Run: s.run.name, StartUnixNS: running.Epoch.UnixNano(), SteppedNS: stepped})
}

// reserve makes sure that only one run starts.
func (s *Server) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.run != nil && !done(s.run) {
		return jsonhttp.WithStatus(http.StatusConflict, errs.WithHint(errors.New("another run is in progress"), "stop it first, or wait for its end"))
	}
	s.busy = true
	return nil
}

func done(r *run) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// find returns the run that a request names.
func (s *Server) find(r *http.Request) (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := cmp.Or(r.PathValue("run"), r.URL.Query().Get("run"))
	if s.run == nil || asked != s.run.name {
		return nil, jsonhttp.WithStatus(http.StatusNotFound, fmt.Errorf("there is no run %.40q here", asked))
	}
	return s.run, nil
}

// with answers requests about the run that they name.
func with[In, Out any](s *Server, do func(*http.Request, *run, In) (Out, error)) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (out Out, err error) {
		run, err := s.find(r)
		if err != nil {
			return out, err
		}
		return do(r, run, in)
	}
}

func intervals[In any](r *http.Request, run *run, _ In) (Status, error) {
	from, err := jsonhttp.Query(r, "from")
	if err != nil {
		return Status{}, err
	}
	status := Status{Run: run.name, StartUnixNS: run.Epoch.UnixNano(), Done: done(run)}
	if status.Done {
		if _, err := run.Result(r.Context()); err != nil {
			status.Error = err.Error()
		}
	}
	status.Intervals = run.Intervals(from)
	if r.URL.Query().Has("latency") {
		status.Intervals = run.IntervalsWithLatency(from)
	}
	if status.Intervals == nil {
		status.Intervals = []load.Summary{}
	}
	return status, nil
}

func (s *Server) stop(r *http.Request, in jsonhttp.None) (Status, error) {
	if r.URL.Query().Get("run") == "" {
		return s.stopAny(), nil
	}
	return with(s, func(r *http.Request, run *run, in jsonhttp.None) (Status, error) {
		run.Stop()
		return intervals(r, run, in)
	})(r, in)
}

// stopAny stops the run in progress and reports whether none is left: a run that is
// starting can only be stopped once it has started.
func (s *Server) stopAny() Status {
	s.mu.Lock()
	run, busy := s.run, s.busy
	s.mu.Unlock()
	status := Status{Done: !busy, Intervals: []load.Summary{}}
	if run != nil {
		run.Stop()
		status.Run, status.StartUnixNS, status.Done = run.name, run.Epoch.UnixNano(), !busy && done(run)
	}
	return status
}

func rate(_ *http.Request, run *run, in Rate) (load.RateChange, error) {
	at := time.Time{}
	if in.AtUnixNS != 0 {
		at = time.Unix(0, in.AtUnixNS)
	}
	made, err := run.SetRate(in.RPS, at)
	if errors.Is(err, load.ErrLate) || errors.Is(err, load.ErrEnded) {
		err = jsonhttp.WithStatus(http.StatusConflict, err)
	}
	return made, err
}

// ended waits for the end of the run that a request names and returns its result.
func (s *Server) ended(r *http.Request, wait time.Duration) (*load.Result, error) {
	run, err := s.find(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	select {
	case <-run.Done():
	case <-ctx.Done():
	}
	if !done(run) {
		return nil, jsonhttp.WithStatus(http.StatusTooEarly, errors.New("the run has not ended yet"))
	}
	return run.Result(context.Background())
}

// result sends the result of an ended run, as fast as the client reads. It waits for the
// end for up to wait_s.
func (s *Server) result(w http.ResponseWriter, r *http.Request) {
	wait, err := jsonhttp.Query(r, "wait_s")
	var result *load.Result
	if err == nil {
		result, err = s.ended(r, time.Duration(min(wait, maxWait))*time.Second)
	}
	if err != nil {
		jsonhttp.Reject(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = result.WriteStream(w) // the client notices a truncated response
}

// requests sends the request log of an ended run.
func (s *Server) requests(w http.ResponseWriter, r *http.Request) {
	result, err := s.ended(r, 0)
	if err == nil && result.Requests == nil {
		err = jsonhttp.WithStatus(http.StatusNotFound, errors.New("the run kept no log of its requests (request_log)"))
	}
	if err != nil {
		jsonhttp.Reject(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_ = result.Requests.Write(w) // the client has gone and will ask again
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // fails only for unknown levels
	if err := result.Requests.Write(packed); err == nil {
		_ = packed.Close()
	}
}
