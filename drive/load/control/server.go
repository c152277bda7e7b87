package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wallclock"
)

// maxRequest limits the bytes of a request: enough for a recorded trace of some
// million requests.
const maxRequest = 64 << 20

// maxWait limits how long a request for a result waits, in seconds.
const maxWait = 60

// Server runs one load at a time on request.
type Server struct {
	version string
	ctx     context.Context // of every run

	mu      sync.Mutex
	run     string
	running *load.Running
	busy    bool // a run is being started
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
	mux.HandleFunc("GET /v1/intervals", s.withRun(s.intervals))
	mux.HandleFunc("POST /v1/stop", s.stop)
	mux.HandleFunc("POST /v1/stop-after", s.withRun(s.stopAfter))
	mux.HandleFunc("POST /v1/runs/{run}/rate", s.withRun(s.rate))
	mux.HandleFunc("GET /v1/runs/{run}/progress", s.withRun(func(w http.ResponseWriter, _ *http.Request, _ string, running *load.Running) {
		jsonhttp.Answer(w, running.Progress())
	}))
	mux.HandleFunc("GET /v1/runs/{run}/requests", s.withRun(s.requests))
	mux.HandleFunc("GET /v1/runs/{run}/result", s.withRun(s.result))
	jsonhttp.HandleClock(mux)
	jsonhttp.HandleVersion(mux, s.version)
	return mux
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	data, ok := jsonhttp.ReadBody(w, r)
	if !ok {
		return
	}
	spec, err := load.ParseSpec(data)
	if err != nil {
		jsonhttp.Refuse(w, http.StatusBadRequest, err)
		return
	}
	if err := s.reserve(); err != nil {
		jsonhttp.Refuse(w, http.StatusConflict, err)
		return
	}
	running, err := load.Start(s.ctx, spec)
	stepped := wallclock.Now().SteppedNS()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s.run, s.running = hex.EncodeToString(id[:]), running
	jsonhttp.Answer(w, Started{Run: s.run, StartUnixNS: running.Epoch.UnixNano(), SteppedNS: stepped})
}

// reserve makes sure that only one run starts.
func (s *Server) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || (s.running != nil && !done(s.running)) {
		return errs.WithHint(errors.New("another run is under way"), "stop it first, or wait for its end")
	}
	s.busy = true
	return nil
}

func done(r *load.Running) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

type runHandler func(w http.ResponseWriter, r *http.Request, run string, running *load.Running)

// withRun finds the run that a request names.
func (s *Server) withRun(next runHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		run, running := s.run, s.running
		s.mu.Unlock()
		asked := r.PathValue("run")
		if asked == "" {
			asked = r.URL.Query().Get("run")
		}
		if running == nil || asked != run {
			jsonhttp.Refuse(w, http.StatusNotFound, fmt.Errorf("no run %.40q here", asked))
			return
		}
		next(w, r, run, running)
	}
}

func (s *Server) intervals(w http.ResponseWriter, r *http.Request, run string, running *load.Running) {
	from, ok := jsonhttp.Index(w, r, "from")
	if !ok {
		return
	}
	status := Status{Run: run, StartUnixNS: running.Epoch.UnixNano(), Done: done(running)}
	if status.Done {
		if _, err := running.Result(r.Context()); err != nil {
			status.Error = err.Error()
		}
	}
	status.Intervals = running.Intervals(from)
	if r.URL.Query().Has("latency") {
		status.Intervals = running.IntervalsWithLatency(from)
	}
	if status.Intervals == nil {
		status.Intervals = []load.Summary{}
	}
	jsonhttp.Answer(w, status)
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("run") == "" {
		s.stopAny(w)
		return
	}
	s.withRun(func(w http.ResponseWriter, r *http.Request, run string, running *load.Running) {
		running.Stop()
		s.intervals(w, r, run, running)
	})(w, r)
}

// stopAny stops the run in progress and reports whether none is left: a run that is being
// started can only be stopped once it has started.
func (s *Server) stopAny(w http.ResponseWriter) {
	s.mu.Lock()
	status, running, busy := Status{Run: s.run, Intervals: []load.Summary{}}, s.running, s.busy
	s.mu.Unlock()
	if running != nil {
		running.Stop()
		status.StartUnixNS = running.Epoch.UnixNano()
	}
	status.Done = !busy && (running == nil || done(running))
	jsonhttp.Answer(w, status)
}

func (s *Server) stopAfter(w http.ResponseWriter, r *http.Request, run string, running *load.Running) {
	var in StopAfter
	if !jsonhttp.Read(w, r, &in) {
		return
	}
	if in.Interval < 0 {
		jsonhttp.Refuse(w, http.StatusBadRequest, fmt.Errorf("interval %d: want the index of one", in.Interval))
		return
	}
	running.StopAfter(in.Interval)
	s.intervals(w, r, run, running)
}

// result sends the result of an ended run, as fast as the client reads. It waits for the
// end for up to wait_s.
func (s *Server) result(w http.ResponseWriter, r *http.Request, _ string, running *load.Running) {
	wait := 0.0
	if text := r.URL.Query().Get("wait_s"); text != "" {
		var err error
		if wait, err = strconv.ParseFloat(text, 64); err != nil || !(wait >= 0 && wait <= maxWait) {
			jsonhttp.Refuse(w, http.StatusBadRequest, fmt.Errorf("wait_s %.40q: want seconds, at most %d", text, maxWait))
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait*float64(time.Second)))
	defer cancel()
	select {
	case <-running.Done():
	case <-ctx.Done():
	}
	if !done(running) {
		jsonhttp.Refuse(w, http.StatusTooEarly, errors.New("the run has not ended yet"))
		return
	}
	result, err := running.Result(context.Background())
	if err != nil {
		jsonhttp.Refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = result.WriteStream(w) // the client notices a broken answer
}
