package control

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/record"
)

// maxRequest limits the bytes of a request: enough for a fleet of a hundred
// thousand proxies.
const maxRequest = 128 << 20

// Server runs one fleet at a time on request and, independently of it, sends requests for
// routes through a gateway.
type Server struct {
	// Alive is notified of requests; may be nil.
	Alive *jsonhttp.Alive

	version string
	ctx     context.Context // of every fleet

	mu     sync.Mutex
	fleet  *xds.Fleet
	prober *routeprobe.Prober

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
	if prober := s.takeRoutes(); prober != nil {
		prober.Stop()
	}
	s.mu.Lock()
	fleet := s.fleet
	s.fleet = nil
	s.mu.Unlock()
	if fleet != nil {
		fleet.Stop()
	}
	return err
}

// Handler returns the protocol described in the package comment.
func (s *Server) Handler() http.Handler { return jsonhttp.Protect(s.mux(), maxRequest) }

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	jsonhttp.Handle(mux, "POST /v1/start", s.start)
	jsonhttp.Handle(mux, "GET /v1/status", with(s, func(f *xds.Fleet) (xds.Status, error) { return f.Status(), nil }))
	jsonhttp.Handle(mux, "POST /v1/markers", s.markers)
	jsonhttp.Handle(mux, "GET /v1/account", with(s, func(f *xds.Fleet) (xds.Account, error) { return f.Account(), nil }))
	jsonhttp.Handle(mux, "GET /v1/holdings", with(s, func(f *xds.Fleet) ([]int64, error) { return f.Bytes(), nil }))
	jsonhttp.Handle(mux, "GET /v1/configuration", s.configuration)
	jsonhttp.Handle(mux, "POST /v1/outage", func(_ *http.Request, in OutageRequest) (xds.Outage, error) {
		f, err := s.running()
		if err != nil {
			return xds.Outage{}, err
		}
		return f.BeginOutage(in.Drop), nil
	})
	jsonhttp.Handle(mux, "GET /v1/outage", with(s, func(f *xds.Fleet) (xds.Outage, error) {
		o, ok := f.Outage()
		if !ok {
			return o, jsonhttp.WithStatus(http.StatusNotFound, errors.New("no outage has begun"))
		}
		return o, nil
	}))
	jsonhttp.Handle(mux, "POST /v1/join", func(r *http.Request, spec xds.Spec) (*record.Join, error) {
		return xds.Join(r.Context(), spec) // ends with the server
	})
	jsonhttp.Handle(mux, "POST /v1/stop", s.stop)
	mux.HandleFunc("GET /v1/sightings", s.sightings)
	jsonhttp.Handle(mux, "POST /v1/routes", s.askRoutes)
	jsonhttp.Handle(mux, "GET /v1/routes", s.routesSeen)
	jsonhttp.Handle(mux, "POST /v1/routes/stop", s.stopRoutes)
	jsonhttp.HandleClock(mux)
	jsonhttp.HandleVersion(mux, s.version)
	return mux
}

// running returns the running fleet.
func (s *Server) running() (*xds.Fleet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleet == nil {
		return nil, jsonhttp.WithStatus(http.StatusNotFound, errors.New("no fleet runs here"))
	}
	return s.fleet, nil
}

// with answers requests about the running fleet.
func with[Out any](s *Server, do func(*xds.Fleet) (Out, error)) func(*http.Request, jsonhttp.None) (Out, error) {
	return func(*http.Request, jsonhttp.None) (out Out, err error) {
		f, err := s.running()
		if err != nil {
			return out, err
		}
		return do(f)
	}
}

func (s *Server) start(_ *http.Request, spec xds.Spec) (Started, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return Started{}, errors.New("the server is shutting down")
	case s.fleet != nil:
		return Started{}, jsonhttp.WithStatus(http.StatusConflict, errs.WithHint(errors.New("another fleet is running"), "stop it first"))
	}
	fleet, err := xds.Start(s.ctx, spec)
	if err != nil {
		return Started{}, err
	}
	s.fleet = fleet
	return Started{Proxies: len(spec.Proxies), StartUnixNS: time.Now().UnixNano()}, nil
}

func (s *Server) markers(_ *http.Request, in Announcement) (Announced, error) {
	f, err := s.running()
	if err != nil {
		return Announced{}, err
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if in.Key != "" {
		if i := slices.IndexFunc(s.announced, func(k keyed) bool { return k.fleet == f && k.key == in.Key }); i >= 0 {
			return s.announced[i].answer, nil
		}
	}
	first, err := f.Announce(in.Markers)
	if err != nil {
		return Announced{}, err
	}
	answer := Announced{First: first, Total: first + len(in.Markers)}
	if in.Key != "" {
		if len(s.announced) == keptKeys {
			s.announced = slices.Delete(s.announced, 0, 1)
		}
		s.announced = append(s.announced, keyed{f, in.Key, answer})
	}
	return answer, nil
}

// configuration returns what one proxy holds, as a gzipped file of package confile.
func (s *Server) configuration(r *http.Request, _ jsonhttp.None) ([]byte, error) {
	f, err := s.running()
	proxy, err2 := jsonhttp.Query(r, "proxy")
	proxies, err3 := jsonhttp.Query(r, "proxies")
	if err = errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	err = errors.Join(f.WriteConfiguration(z, proxy, confile.Header{Proxies: proxies}), z.Close())
	return file.Bytes(), err
}

// sightings sends the sightings marker by marker, as fast as the client reads.
func (s *Server) sightings(w http.ResponseWriter, r *http.Request) {
	f, err := s.running()
	from, err2 := jsonhttp.Query(r, "from")
	if err = errors.Join(err, err2); err != nil {
		jsonhttp.Reject(w, err)
		return
	}
	count, each := f.SightingsFrom(from)
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	err = out.Encode(sightingsHead{count})
	for m := range each {
		if err != nil { // the client sees a truncated document
			return
		}
		err = out.Encode(m)
	}
}

func (s *Server) stop(*http.Request, jsonhttp.None) (xds.Account, error) {
	fleet, err := s.running()
	if err != nil {
		return xds.Account{}, err
	}
	s.mu.Lock()
	mine := s.fleet == fleet
	if mine {
		s.fleet = nil
	}
	s.mu.Unlock()
	if !mine { // a concurrent request was first
		return xds.Account{}, jsonhttp.WithStatus(http.StatusNotFound, errors.New("the fleet has just ended"))
	}
	s.announcing.Lock()
	s.announced = nil
	s.announcing.Unlock()
	account := fleet.Account()
	fleet.Stop()
	return account, nil
}

// askRoutes starts requests through a gateway, replacing earlier ones.
func (s *Server) askRoutes(_ *http.Request, spec routeprobe.Spec) ([]routeprobe.Seen, error) {
	if earlier := s.takeRoutes(); earlier != nil {
		earlier.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, errors.New("the server is shutting down")
	case s.prober != nil: // another request's
		return nil, jsonhttp.WithStatus(http.StatusConflict, errors.New("other requests through a gateway have just started"))
	}
	prober, err := routeprobe.Start(s.ctx, spec)
	if err != nil {
		return nil, err
	}
	s.prober = prober
	return prober.Seen(), nil
}

// routesSeen returns the outcomes so far of the requests through a gateway.
func (s *Server) routesSeen(*http.Request, jsonhttp.None) ([]routeprobe.Seen, error) {
	s.mu.Lock()
	prober := s.prober
	s.mu.Unlock()
	if prober == nil {
		return nil, errNoRoutes
	}
	return prober.Seen(), nil
}

// stopRoutes stops the requests and returns their outcomes.
func (s *Server) stopRoutes(*http.Request, jsonhttp.None) ([]routeprobe.Seen, error) {
	prober := s.takeRoutes()
	if prober == nil {
		return nil, errNoRoutes
	}
	prober.Stop()
	return prober.Seen(), nil
}

// errNoRoutes is the response when no requests go through a gateway.
var errNoRoutes = jsonhttp.WithStatus(http.StatusNotFound, errors.New("no requests through a gateway are running here"))

// takeRoutes hands over the requests through a gateway for the caller to stop, because
// stopping takes longer than the lock may be held; nil if there are none.
func (s *Server) takeRoutes() *routeprobe.Prober {
	s.mu.Lock()
	defer s.mu.Unlock()
	prober := s.prober
	s.prober = nil
	return prober
}
