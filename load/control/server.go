package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/load"
)

// maxRequest bounds what the server reads of one request, in bytes: enough
// for a recorded trace of some million requests.
const maxRequest = 64 << 20

// maxWait bounds how long a call for a result is held, in seconds.
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

// NewServer returns a server whose runs end when ctx does. version is told
// to whoever asks.
func NewServer(ctx context.Context, version string) *Server {
	return &Server{version: version, ctx: ctx}
}

// Serve answers on l until ctx of the server ends, and then closes l.
func (s *Server) Serve(l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(s.ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("load control: %w", err)
	}
	return nil
}

// Handler returns the protocol described in the package comment.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/start", s.start)
	mux.HandleFunc("GET /v1/intervals", s.withRun(s.intervals))
	mux.HandleFunc("POST /v1/stop", s.withRun(func(w http.ResponseWriter, r *http.Request, run string, running *load.Running) {
		running.Stop()
		s.intervals(w, r, run, running)
	}))
	mux.HandleFunc("POST /v1/stop-after", s.withRun(s.stopAfter))
	mux.HandleFunc("GET /v1/result", s.withRun(s.result))
	mux.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, r *http.Request) {
		answer(w, Clock{UnixNS: time.Now().UnixNano()})
	})
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, r *http.Request) {
		answer(w, Version{Version: s.version})
	})
	// A page of another site, open in a browser on this machine, must not
	// start load.
	return http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxRequest))
}

func answer(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the client has gone; it will ask again
}

func refuse(w http.ResponseWriter, status int, err error) {
	data, _ := json.Marshal(Problem{Error: err.Error(), Hint: errs.Hint(err)})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	spec, err := load.ParseSpec(data)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if err := s.reserve(); err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	running, err := load.Start(s.ctx, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if err != nil {
		status := http.StatusInternalServerError
		if errs.Code(err) == errs.CodeUsage {
			status = http.StatusBadRequest
		}
		refuse(w, status, err)
		return
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s.run, s.running = hex.EncodeToString(id[:]), running
	answer(w, Started{Run: s.run, StartUnixNS: running.Epoch.UnixNano()})
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
		if asked := r.URL.Query().Get("run"); running == nil || asked != run {
			refuse(w, http.StatusNotFound, fmt.Errorf("no run %.40q here", asked))
			return
		}
		next(w, r, run, running)
	}
}

func (s *Server) intervals(w http.ResponseWriter, r *http.Request, run string, running *load.Running) {
	from := 0
	if text := r.URL.Query().Get("from"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, fmt.Errorf("from %.40q: want the index of an interval", text))
			return
		}
		from = n
	}
	status := Status{Run: run, StartUnixNS: running.Epoch.UnixNano(), Done: done(running)}
	if status.Done {
		if _, err := running.Result(r.Context()); err != nil {
			status.Error = err.Error()
		}
	}
	status.Intervals = running.Intervals(from)
	if status.Intervals == nil {
		status.Intervals = []load.Summary{}
	}
	answer(w, status)
}

func (s *Server) stopAfter(w http.ResponseWriter, r *http.Request, run string, running *load.Running) {
	var in StopAfter
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || in.Interval < 0 {
		refuse(w, http.StatusBadRequest, fmt.Errorf(`want {"interval": N} with N not negative`))
		return
	}
	running.StopAfter(in.Interval)
	s.intervals(w, r, run, running)
}

func (s *Server) result(w http.ResponseWriter, r *http.Request, _ string, running *load.Running) {
	wait := 0.0
	if text := r.URL.Query().Get("wait_s"); text != "" {
		var err error
		if wait, err = strconv.ParseFloat(text, 64); err != nil || !(wait >= 0 && wait <= maxWait) {
			refuse(w, http.StatusBadRequest, fmt.Errorf("wait_s %.40q: want seconds, at most %d", text, maxWait))
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
		refuse(w, http.StatusTooEarly, errors.New("the run has not ended yet"))
		return
	}
	result, err := running.Result(context.Background())
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, result)
}
