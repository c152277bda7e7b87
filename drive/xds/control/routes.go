package control

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// Routes answers for requests through a gateway: what became of them.
type Routes struct {
	Routes []routeprobe.Seen `json:"routes"`
}

// errNoRoutes answers whoever asks for requests that are not sent.
var errNoRoutes = errors.New("no requests go through a gateway from here")

// routes are the requests through a gateway, whether a fleet runs or not.
type routes struct {
	mu     sync.Mutex
	prober *routeprobe.Prober
}

// end stops them, if there are any.
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

// askRoutes begins to ask a gateway for routes, in place of those before.
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
	if s.routes.prober != nil { // another came between
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

// AskRoutes has the role ask a gateway for routes, in place of those that it asked
// for before.
func (c *Client) AskRoutes(ctx context.Context, spec routeprobe.Spec) error {
	_, err := call[Routes](ctx, c, http.MethodPost, "/v1/routes", spec)
	return err
}

// RoutesSeen says what became of these requests so far.
func (c *Client) RoutesSeen(ctx context.Context) ([]routeprobe.Seen, error) {
	out, err := call[Routes](ctx, c, http.MethodGet, "/v1/routes", nil)
	return out.Routes, err
}

// StopRoutes ends them, and says what became of them.
func (c *Client) StopRoutes(ctx context.Context) ([]routeprobe.Seen, error) {
	out, err := call[Routes](ctx, c, http.MethodPost, "/v1/routes/stop", struct{}{})
	return out.Routes, err
}
