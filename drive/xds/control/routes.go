package control

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/meshtrial/meshtrial/drive/xds/edge"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// Routes answers for requests through a gateway: what became of them.
type Routes struct {
	Routes []edge.Seen `json:"routes"`
}

// errNoRoutes answers whoever asks for requests that are not sent.
var errNoRoutes = errors.New("no requests go through a gateway from here")

// routes are the requests through a gateway, whether a fleet runs or not.
type routes struct {
	mu     sync.Mutex
	prober *edge.Prober
}

// end stops them, if there are any.
func (r *routes) end() (seen []edge.Seen, ok bool) {
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
	var spec edge.Spec
	if !jsonhttp.Read(w, r, &spec) {
		return
	}
	s.edge.end()
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	if s.ctx.Err() != nil {
		jsonhttp.Refuse(w, http.StatusInternalServerError, errors.New("the server is ending"))
		return
	}
	prober, err := edge.Start(s.ctx, spec)
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	if s.edge.prober != nil { // another came between
		s.edge.prober.Stop()
	}
	s.edge.prober = prober
	jsonhttp.Answer(w, Routes{Routes: prober.Seen()})
}

func (s *Server) routesSeen(w http.ResponseWriter, _ *http.Request) {
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	if s.edge.prober == nil {
		jsonhttp.Refuse(w, http.StatusNotFound, errNoRoutes)
		return
	}
	jsonhttp.Answer(w, Routes{Routes: s.edge.prober.Seen()})
}

func (s *Server) stopRoutes(w http.ResponseWriter, _ *http.Request) {
	seen, ok := s.edge.end()
	if !ok {
		jsonhttp.Refuse(w, http.StatusNotFound, errNoRoutes)
		return
	}
	jsonhttp.Answer(w, Routes{Routes: seen})
}

// AskRoutes has the role ask a gateway for routes, in place of those that it asked
// for before.
func (c *Client) AskRoutes(ctx context.Context, spec edge.Spec) error {
	_, err := call[Routes](ctx, c, http.MethodPost, "/v1/routes", spec)
	return err
}

// RoutesSeen says what became of these requests so far.
func (c *Client) RoutesSeen(ctx context.Context) ([]edge.Seen, error) {
	out, err := call[Routes](ctx, c, http.MethodGet, "/v1/routes", nil)
	return out.Routes, err
}

// StopRoutes ends them, and says what became of them.
func (c *Client) StopRoutes(ctx context.Context) ([]edge.Seen, error) {
	out, err := call[Routes](ctx, c, http.MethodPost, "/v1/routes/stop", struct{}{})
	return out.Routes, err
}
