package control

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// Routes is the response about requests through a gateway: their outcomes by route.
type Routes struct {
	Routes []routeprobe.Seen `json:"routes"`
}

// errNoRoutes is the error if no requests are sent.
var errNoRoutes = errors.New("no requests go through a gateway from here")

// routes sends requests through a gateway, independently of the fleet.
type routes struct {
	mu     sync.Mutex
	prober *routeprobe.Prober
}

// end stops the requests, if any.
func (r *routes) end() (seen []routeprobe.Seen, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prober == nil {
		return nil, false
	}
	r.prober.Stop()
	seen, r.prober = r.prober.Seen(), nil
	return seen, true
}

// askRoutes starts requests through a gateway, in place of earlier ones.
func (s *Server) askRoutes(w http.ResponseWriter, r *http.Request) {
	var spec routeprobe.Spec
	if !jsonhttp.Read(w, r, &spec) {
		return
	}
	s.routes.end()
	s.routes.mu.Lock()
	defer s.routes.mu.Unlock()
	if s.ctx.Err() != nil {
		jsonhttp.Refuse(w, http.StatusInternalServerError, errors.New("the server is ending"))
		return
	}
	prober, err := routeprobe.Start(s.ctx, spec)
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	if s.routes.prober != nil { // a concurrent request was first
		s.routes.prober.Stop()
	}
	s.routes.prober = prober
	jsonhttp.Answer(w, Routes{Routes: prober.Seen()})
}

func (s *Server) routesSeen(w http.ResponseWriter, _ *http.Request) {
	s.routes.mu.Lock()
	defer s.routes.mu.Unlock()
	if s.routes.prober == nil {
		jsonhttp.Refuse(w, http.StatusNotFound, errNoRoutes)
		return
	}
	jsonhttp.Answer(w, Routes{Routes: s.routes.prober.Seen()})
}

func (s *Server) stopRoutes(w http.ResponseWriter, _ *http.Request) {
	seen, ok := s.routes.end()
	if !ok {
		jsonhttp.Refuse(w, http.StatusNotFound, errNoRoutes)
		return
	}
	jsonhttp.Answer(w, Routes{Routes: seen})
}

// AskRoutes starts requests for routes through a gateway, in place of earlier ones.
func (c *Client) AskRoutes(ctx context.Context, spec routeprobe.Spec) error {
	_, err := call[Routes](ctx, c, http.MethodPost, "/v1/routes", spec)
	return err
}

// RoutesSeen returns the outcomes of these requests so far.
func (c *Client) RoutesSeen(ctx context.Context) ([]routeprobe.Seen, error) {
	out, err := call[Routes](ctx, c, http.MethodGet, "/v1/routes", nil)
	return out.Routes, err
}

// StopRoutes ends the requests and returns their outcomes.
func (c *Client) StopRoutes(ctx context.Context) ([]routeprobe.Seen, error) {
	out, err := call[Routes](ctx, c, http.MethodPost, "/v1/routes/stop", struct{}{})
	return out.Routes, err
}
