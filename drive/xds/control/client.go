package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/record"
)

// Started answers /v1/start: the fleet is connecting.
type Started struct {
	Proxies     int   `json:"proxies"`
	StartUnixNS int64 `json:"start_unix_ns"`
}

// Announcement tells of changes to come.
type Announcement struct {
	Markers []record.Marker `json:"markers"`
	// Key, if there is one, names this announcement: sent again, because the
	// answer was lost on its way, it adds nothing and is answered as before.
	Key string `json:"key,omitempty"`
}

// Announced answers /v1/markers: from now on they are seen.
type Announced struct {
	// First is the index of the first of them, Total how many there are now.
	First int `json:"first"`
	Total int `json:"total"`
}

// Holdings answers /v1/holdings: how many bytes each proxy holds.
type Holdings struct {
	Bytes []int64 `json:"bytes"`
}

// Configuration answers /v1/configuration: what one proxy holds.
type Configuration struct {
	// File is what package confile reads, packed with gzip.
	File []byte `json:"file"`
}

// maxAnswer bounds what a client reads of one answer, in bytes: sightings of
// a thousand changes by ten thousand proxies.
const maxAnswer = 1 << 30

// Client talks to one [Server]. Its methods may be called at the same time.
type Client struct {
	json jsonhttp.Client
}

// NewClient returns a client of the server at base, for instance
// "http://127.0.0.1:15983". With an httpClient whose transport dials through
// a port-forward the host name in base is of no matter. nil means
// [http.DefaultClient].
func NewClient(base string, httpClient *http.Client) *Client {
	return &Client{json: jsonhttp.Client{HTTPClient: httpClient, BaseURL: base, Name: "xds control", MaxAnswer: maxAnswer}}
}

// Start starts a fleet and returns at once, while its proxies connect. It
// fails if another runs.
func (c *Client) Start(ctx context.Context, spec xds.Spec) (Started, error) {
	return call[Started](ctx, c, http.MethodPost, "/v1/start", spec)
}

// Status says how the fleet stands.
func (c *Client) Status(ctx context.Context) (xds.Status, error) {
	return call[xds.Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Announce tells the fleet what to look for. It has to return before the
// change is made.
func (c *Client) Announce(ctx context.Context, markers []record.Marker) (Announced, error) {
	in := Announcement{Markers: markers, Key: rand.Text()}
	out, err := call[Announced](ctx, c, http.MethodPost, "/v1/markers", in)
	if lost(err) && ctx.Err() == nil {
		out, err = call[Announced](ctx, c, http.MethodPost, "/v1/markers", in)
	}
	return out, err
}

// lost says whether a connection ended before the answer, as an idle one does
// that its port-forward gives up just then.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Account returns what the fleet has counted.
func (c *Client) Account(ctx context.Context) (xds.Account, error) {
	return call[xds.Account](ctx, c, http.MethodGet, "/v1/account", nil)
}

// Holdings returns how many bytes each proxy holds, which [xds.Holdings] makes kinds
// of.
func (c *Client) Holdings(ctx context.Context) ([]int64, error) {
	out, err := call[Holdings](ctx, c, http.MethodGet, "/v1/holdings", nil)
	return out.Bytes, err
}

// Configuration returns what the proxy that stands for a kind holds: a file
// of package confile, packed with gzip.
func (c *Client) Configuration(ctx context.Context, of xds.Holding) ([]byte, error) {
	out, err := call[Configuration](ctx, c, http.MethodGet, fmt.Sprintf("/v1/configuration?proxy=%d&proxies=%d", of.Proxy, of.Proxies), nil)
	return out.File, err
}

// BeginOutage has the fleet note from now on what becomes of its streams, and
// come back as real proxies do; drop ends all of its connections.
func (c *Client) BeginOutage(ctx context.Context, drop bool) (xds.Outage, error) {
	return call[xds.Outage](ctx, c, http.MethodPost, "/v1/outage", OutageRequest{Drop: drop})
}

// Outage returns what the fleet has noted since then.
func (c *Client) Outage(ctx context.Context) (xds.Outage, error) {
	return call[xds.Outage](ctx, c, http.MethodGet, "/v1/outage", nil)
}

// Join connects one proxy more, waits until it has its first configuration,
// and disconnects it.
func (c *Client) Join(ctx context.Context, spec xds.Spec) (*record.Join, error) {
	return call[*record.Join](ctx, c, http.MethodPost, "/v1/join", spec)
}

// Stop ends the fleet and returns its last account.
func (c *Client) Stop(ctx context.Context) (xds.Account, error) {
	return call[xds.Account](ctx, c, http.MethodPost, "/v1/stop", struct{}{})
}

// Version asks which program answers: a cheap test that it is up.
func (c *Client) Version(ctx context.Context) (string, error) { return c.json.Version(ctx) }

// ClockOffset returns how far the role's clock is ahead of ours, and the
// bound of the error.
func (c *Client) ClockOffset(ctx context.Context) (offset, bound time.Duration, err error) {
	return c.json.ClockOffset(ctx)
}

func call[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var out T
	err := c.json.Do(ctx, method, path, in, &out)
	return out, err
}
