package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// maxRequest limits the bytes of a request: enough for a fleet of a hundred
// thousand proxies.
const maxRequest = 128 << 20

// Server runs one fleet at a time on request.
type Server struct {
	// Alive is notified of requests; may be nil.
	Alive *jsonhttp.Alive

	version string
	ctx     context.Context // of every fleet

	mu    sync.Mutex
	fleet *xds.Fleet

	routes routes

	announcing sync.Mutex
	announced  []keyed // the latest announcements with a key, at most keptKeys
}

// keyed is the response to an announcement with a key.
type keyed struct {
	fleet  *xds.Fleet
	key    string
	answer Announced
}

// keptKeys is the number of responses kept for repeated announcements.
const keptKeys = 256

// NewServer returns a server whose fleets end when ctx does. version is the response
// of /v1/version.
func NewServer(ctx context.Context, version string) *Server {
	return &Server{version: version, ctx: ctx}
}

// Serve serves l until the ctx of the server ends, then closes l and waits for the
// fleet to end.
func (s *Server) Serve(l net.Listener) error {
	err := jsonhttp.Server{Name: "xds control", Handler: s.mux(), MaxRequest: maxRequest, Alive: s.Alive}.Serve(s.ctx, l)
	s.routes.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleet != nil {
		s.fleet.Stop()
		s.fleet = nil
	}
	return err
}

// Handler returns the protocol described in the package comment.
func (s *Server) Handler() http.Handler { return jsonhttp.Protect(s.mux(), maxRequest) }

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/start", s.start)
	mux.HandleFunc("POST /v1/markers", s.withFleet(s.markers))
	mux.HandleFunc("POST /v1/join", s.join)
	mux.HandleFunc("POST /v1/outage", s.withFleet(beginOutage))
	mux.HandleFunc("GET /v1/outage", s.withFleet(outage))
	mux.HandleFunc("POST /v1/stop", s.stop)
	mux.HandleFunc("GET /v1/status", s.withFleet(func(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) { jsonhttp.Answer(w, f.Status()) }))
	mux.HandleFunc("GET /v1/account", s.withFleet(func(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) { jsonhttp.Answer(w, f.Account()) }))
	mux.HandleFunc("GET /v1/sightings", s.withFleet(sightings))
	mux.HandleFunc("GET /v1/holdings", s.withFleet(s.holdings))
	mux.HandleFunc("GET /v1/configuration", s.withFleet(s.configuration))
	mux.HandleFunc("POST /v1/routes", s.askRoutes)
	mux.HandleFunc("GET /v1/routes", s.routesSeen)
	mux.HandleFunc("POST /v1/routes/stop", s.stopRoutes)
	jsonhttp.HandleClock(mux)
	jsonhttp.HandleVersion(mux, s.version)
	return mux
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var spec xds.Spec
	if !jsonhttp.Read(w, r, &spec) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		jsonhttp.Refuse(w, http.StatusInternalServerError, errors.New("the server is ending"))
		return
	case s.fleet != nil:
		jsonhttp.Refuse(w, http.StatusConflict, errs.WithHint(errors.New("another fleet runs"), "stop it first"))
		return
	}
	fleet, err := xds.Start(s.ctx, spec)
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	s.fleet = fleet
	jsonhttp.Answer(w, Started{Proxies: len(spec.Proxies), StartUnixNS: time.Now().UnixNano()})
}

type fleetHandler func(w http.ResponseWriter, r *http.Request, f *xds.Fleet)

// errNoFleet is the error if no fleet runs.
var errNoFleet = errors.New("no fleet runs here")

func (s *Server) withFleet(next fleetHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fleet := s.fleet
		s.mu.Unlock()
		if fleet == nil {
			jsonhttp.Refuse(w, http.StatusNotFound, errNoFleet)
			return
		}
		next(w, r, fleet)
	}
}

func (s *Server) markers(w http.ResponseWriter, r *http.Request, f *xds.Fleet) {
	var in Announcement
	if !jsonhttp.Read(w, r, &in) {
		return
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if in.Key != "" {
		if i := slices.IndexFunc(s.announced, func(k keyed) bool { return k.fleet == f && k.key == in.Key }); i >= 0 {
			jsonhttp.Answer(w, s.announced[i].answer)
			return
		}
	}
	first, err := f.Announce(in.Markers)
	if err != nil {
		jsonhttp.Refuse(w, http.StatusBadRequest, err)
		return
	}
	answer := Announced{First: first, Total: first + len(in.Markers)}
	if in.Key != "" {
		if len(s.announced) == keptKeys {
			s.announced = slices.Delete(s.announced, 0, 1)
		}
		s.announced = append(s.announced, keyed{f, in.Key, answer})
	}
	jsonhttp.Answer(w, answer)
}

// join connects an additional proxy, independently of the fleet.
func (s *Server) join(w http.ResponseWriter, r *http.Request) {
	var spec xds.Spec
	if !jsonhttp.Read(w, r, &spec) {
		return
	}
	out, err := xds.Join(r.Context(), spec) // which ends with the server
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	jsonhttp.Answer(w, out)
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fleet := s.fleet
	s.fleet = nil
	s.mu.Unlock()
	if fleet == nil {
		jsonhttp.Refuse(w, http.StatusNotFound, errNoFleet)
		return
	}
	s.announcing.Lock()
	s.announced = nil
	s.announcing.Unlock()
	account := fleet.Account()
	fleet.Stop()
	jsonhttp.Answer(w, account)
}
