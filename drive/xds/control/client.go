package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/record"
)

// Started is the response of /v1/start. The fleet is connecting.
type Started struct {
	Proxies     int   `json:"proxies"`
	StartUnixNS int64 `json:"start_unix_ns"`
}

// Announcement lists markers of coming changes.
type Announcement struct {
	Markers []record.Marker `json:"markers"`
	// Key, if not empty, makes the request idempotent: if it is repeated because
	// the response was lost, it adds nothing and gets the same response.
	Key string `json:"key,omitempty"`
}

// Announced is the response of /v1/markers. The markers are being looked for.
type Announced struct {
	// First is the index of the first new marker, Total the number of all markers.
	First int `json:"first"`
	Total int `json:"total"`
}

// OutageRequest is the body of POST /v1/outage.
type OutageRequest struct {
	Drop bool `json:"drop"` // end all connections
}

// maxAnswer limits the bytes of a response: enough for sightings of a thousand
// changes by ten thousand proxies.
const maxAnswer = 1 << 30

// Client is a client of a [Server], safe for concurrent use.
type Client struct {
	json jsonhttp.Client
}

// NewClient returns a client of the server at base, for instance
// "http://127.0.0.1:15983". A nil httpClient means [http.DefaultClient]. If its
// transport dials through a port-forward, the host name in base is ignored.
func NewClient(base string, httpClient *http.Client) *Client {
	return &Client{json: jsonhttp.Client{HTTPClient: httpClient, BaseURL: base, Name: "xds control", MaxAnswer: maxAnswer}}
}

// Start starts a fleet and returns before its proxies have connected. It fails if
// another fleet runs.
func (c *Client) Start(ctx context.Context, spec xds.Spec) (Started, error) {
	return jsonhttp.Ask[Started](ctx, c.json, http.MethodPost, "/v1/start", spec)
}

// Status returns the state of the fleet.
func (c *Client) Status(ctx context.Context) (xds.Status, error) {
	return jsonhttp.Ask[xds.Status](ctx, c.json, http.MethodGet, "/v1/status", nil)
}

// Announce adds markers to look for. Make the changes only after it has returned.
func (c *Client) Announce(ctx context.Context, markers []record.Marker) (Announced, error) {
	in := Announcement{Markers: markers, Key: rand.Text()}
	out, err := jsonhttp.Ask[Announced](ctx, c.json, http.MethodPost, "/v1/markers", in)
	if lost(err) && ctx.Err() == nil {
		out, err = jsonhttp.Ask[Announced](ctx, c.json, http.MethodPost, "/v1/markers", in)
	}
	return out, err
}

// lost reports whether a connection ended before the response, as happens to an
// idle connection when its port-forward ends.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Account returns the counters of the fleet.
func (c *Client) Account(ctx context.Context) (xds.Account, error) {
	return jsonhttp.Ask[xds.Account](ctx, c.json, http.MethodGet, "/v1/account", nil)
}

// Holdings returns the bytes that each proxy holds, the input of [xds.Holdings].
func (c *Client) Holdings(ctx context.Context) ([]int64, error) {
	return jsonhttp.Ask[[]int64](ctx, c.json, http.MethodGet, "/v1/holdings", nil)
}

// Configuration returns the configuration of the proxy that represents a kind, as a
// gzipped file of package confile.
func (c *Client) Configuration(ctx context.Context, of xds.Holding) ([]byte, error) {
	return jsonhttp.Ask[[]byte](ctx, c.json, http.MethodGet, fmt.Sprintf("/v1/configuration?proxy=%d&proxies=%d", of.Proxy, of.Proxies), nil)
}

// BeginOutage starts a record of what happens to the fleet's streams. From then on
// proxies reconnect as real ones do. drop closes all connections.
func (c *Client) BeginOutage(ctx context.Context, drop bool) (xds.Outage, error) {
	return jsonhttp.Ask[xds.Outage](ctx, c.json, http.MethodPost, "/v1/outage", OutageRequest{Drop: drop})
}

// Outage returns the record since BeginOutage.
func (c *Client) Outage(ctx context.Context) (xds.Outage, error) {
	return jsonhttp.Ask[xds.Outage](ctx, c.json, http.MethodGet, "/v1/outage", nil)
}

// Join connects an additional proxy, waits until it has its first configuration,
// and disconnects it.
func (c *Client) Join(ctx context.Context, spec xds.Spec) (*record.Join, error) {
	return jsonhttp.Ask[*record.Join](ctx, c.json, http.MethodPost, "/v1/join", spec)
}

// Stop ends the fleet and returns its last account.
func (c *Client) Stop(ctx context.Context) (xds.Account, error) {
	return jsonhttp.Ask[xds.Account](ctx, c.json, http.MethodPost, "/v1/stop", nil)
}

// AskRoutes starts requests for routes through a gateway, replacing earlier ones.
func (c *Client) AskRoutes(ctx context.Context, spec routeprobe.Spec) error {
	_, err := jsonhttp.Ask[[]routeprobe.Seen](ctx, c.json, http.MethodPost, "/v1/routes", spec)
	return err
}

// RoutesSeen returns the outcomes of these requests so far.
func (c *Client) RoutesSeen(ctx context.Context) ([]routeprobe.Seen, error) {
	return jsonhttp.Ask[[]routeprobe.Seen](ctx, c.json, http.MethodGet, "/v1/routes", nil)
}

// StopRoutes ends the requests and returns their outcomes.
func (c *Client) StopRoutes(ctx context.Context) ([]routeprobe.Seen, error) {
	return jsonhttp.Ask[[]routeprobe.Seen](ctx, c.json, http.MethodPost, "/v1/routes/stop", nil)
}

// Version returns the version of the server: a cheap health check.
func (c *Client) Version(ctx context.Context) (string, error) { return c.json.Version(ctx) }

// Clock compares the role's clock with this process's.
func (c *Client) Clock(ctx context.Context) (jsonhttp.Clock, error) { return c.json.Clock(ctx) }
