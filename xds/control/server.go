package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/internal/jsonhttp"
	"github.com/meshmark/meshmark/xds"
)

// maxRequest bounds what the server reads of one request, in bytes: a fleet
// of a hundred thousand proxies.
const maxRequest = 128 << 20

// Server runs one fleet at a time on request.
type Server struct {
	version string
	ctx     context.Context // of every fleet

	mu    sync.Mutex
	fleet *xds.Fleet
}

// NewServer returns a server whose fleets end when ctx does. version is told
// to whoever asks.
func NewServer(ctx context.Context, version string) *Server {
	return &Server{version: version, ctx: ctx}
}

// Serve answers on l until ctx of the server ends; then it closes l and waits
// for its fleet to end.
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
	err := server.Serve(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleet != nil {
		s.fleet.Stop()
		s.fleet = nil
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("xds control: %w", err)
	}
	return nil
}

// Handler returns the protocol described in the package comment.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/start", s.start)
	mux.HandleFunc("POST /v1/markers", s.withFleet(s.markers))
	mux.HandleFunc("POST /v1/join", s.join)
	mux.HandleFunc("POST /v1/stop", s.stop)
	mux.HandleFunc("GET /v1/status", s.withFleet(func(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) { answer(w, f.Status()) }))
	mux.HandleFunc("GET /v1/account", s.withFleet(func(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) { answer(w, f.Account()) }))
	mux.HandleFunc("GET /v1/sightings", s.withFleet(s.sightings))
	mux.HandleFunc("GET /v1/holdings", s.withFleet(s.holdings))
	mux.HandleFunc("GET /v1/configuration", s.withFleet(s.configuration))
	mux.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, Clock{UnixNS: time.Now().UnixNano()})
	})
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { answer(w, Version{Version: s.version}) })
	return http.MaxBytesHandler(mux, maxRequest)
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
	data, _ := json.Marshal(jsonhttp.Problem{Error: err.Error(), Hint: errs.Hint(err)})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // as above
}

// read parses a request strictly.
func read(r *http.Request, out any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	return dec.Decode(out)
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var spec xds.Spec
	if err := read(r, &spec); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		refuse(w, http.StatusInternalServerError, errors.New("the server is ending"))
		return
	case s.fleet != nil:
		refuse(w, http.StatusConflict, errs.WithHint(errors.New("another fleet runs"), "stop it first"))
		return
	}
	fleet, err := xds.Start(s.ctx, spec)
	if err != nil {
		status := http.StatusInternalServerError
		if errs.Code(err) == errs.CodeUsage {
			status = http.StatusBadRequest
		}
		refuse(w, status, err)
		return
	}
	s.fleet = fleet
	answer(w, Started{Proxies: len(spec.Proxies), StartUnixNS: time.Now().UnixNano()})
}

type fleetHandler func(w http.ResponseWriter, r *http.Request, f *xds.Fleet)

// errNoFleet answers whoever asks for a fleet that is not there.
var errNoFleet = errors.New("no fleet runs here")

func (s *Server) withFleet(next fleetHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fleet := s.fleet
		s.mu.Unlock()
		if fleet == nil {
			refuse(w, http.StatusNotFound, errNoFleet)
			return
		}
		next(w, r, fleet)
	}
}

func (s *Server) markers(w http.ResponseWriter, r *http.Request, f *xds.Fleet) {
	var in Announcement
	if err := read(r, &in); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	first, err := f.Announce(in.Markers)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, Announced{First: first, Total: first + len(in.Markers)})
}

func (s *Server) sightings(w http.ResponseWriter, r *http.Request, f *xds.Fleet) {
	from := 0
	if text := r.URL.Query().Get("from"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, fmt.Errorf("from %.40q: want the index of a marker", text))
			return
		}
		from = n
	}
	answer(w, Sightings{Markers: f.Sightings(from)})
}

// join connects one proxy more, whatever fleet runs.
func (s *Server) join(w http.ResponseWriter, r *http.Request) {
	var spec xds.Spec
	if err := read(r, &spec); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	out, err := xds.Join(ctx, spec)
	if err != nil {
		status := http.StatusInternalServerError
		if errs.Code(err) == errs.CodeUsage {
			status = http.StatusBadRequest
		}
		refuse(w, status, err)
		return
	}
	answer(w, out)
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fleet := s.fleet
	s.fleet = nil
	s.mu.Unlock()
	if fleet == nil {
		refuse(w, http.StatusNotFound, errNoFleet)
		return
	}
	account := fleet.Account()
	fleet.Stop()
	answer(w, account)
}
