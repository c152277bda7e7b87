package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// maxAnswer limits the bytes of a response.
const maxAnswer = 1 << 30

// Client is a client of a [Server], safe for concurrent use.
type Client struct{ http jsonhttp.Client }

// NewClient returns a client of the server at base, for instance
// "http://127.0.0.1:15980". A nil httpClient means [http.DefaultClient]. If its
// transport dials through a port-forward, the host name in base is ignored.
func NewClient(base string, httpClient *http.Client) *Client {
	return &Client{jsonhttp.Client{HTTPClient: httpClient, BaseURL: base, Name: "load control", MaxAnswer: maxAnswer}}
}

// Start starts a run and returns its name. It fails if another run is in progress.
func (c *Client) Start(ctx context.Context, spec load.Spec) (Started, error) {
	var out Started
	err := c.http.Do(ctx, http.MethodPost, "/v1/start", spec, &out)
	return out, err
}

// Intervals returns the state of the run and its finished intervals from index from
// on.
func (c *Client) Intervals(ctx context.Context, run string, from int) (Status, error) {
	return c.intervals(ctx, url.Values{"run": {run}, "from": {strconv.Itoa(from)}})
}

// IntervalsWithLatency is Intervals with each interval's histogram of intended latency.
func (c *Client) IntervalsWithLatency(ctx context.Context, run string, from int) (Status, error) {
	return c.intervals(ctx, url.Values{"run": {run}, "from": {strconv.Itoa(from)}, "latency": {""}})
}

func (c *Client) intervals(ctx context.Context, query url.Values) (Status, error) {
	var out Status
	err := c.http.Do(ctx, http.MethodGet, "/v1/intervals?"+query.Encode(), nil, &out)
	return out, err
}

// Stop ends the run's schedule now.
func (c *Client) Stop(ctx context.Context, run string) (Status, error) {
	var out Status
	err := c.http.Do(ctx, http.MethodPost, "/v1/stop?"+url.Values{"run": {run}}.Encode(), struct{}{}, &out)
	return out, err
}

// endEvery is how often [Client.End] asks whether a run has ended.
const endEvery = 20 * time.Millisecond

// End stops the run in progress, if there is one, whoever started it, and waits until the
// next can start. It is for a role whose trial ended without stopping its run, for example
// because the connection broke.
func (c *Client) End(ctx context.Context) error {
	for {
		status, err := c.Stop(ctx, "")
		if err != nil || status.Done {
			return err
		}
		if err := wake.Pause(ctx, endEvery); err != nil {
			return fmt.Errorf("load control: wait for the end of run %q: %w", status.Run, err)
		}
	}
}

// StopAfter ends the run's schedule at the end of an interval.
func (c *Client) StopAfter(ctx context.Context, run string, interval int) (Status, error) {
	var out Status
	err := c.http.Do(ctx, http.MethodPost, "/v1/stop-after?"+url.Values{"run": {run}}.Encode(), StopAfter{Interval: interval}, &out)
	return out, err
}

// Result waits until the run has ended and returns everything it recorded. Its Spec lacks
// a trace.
func (c *Client) Result(ctx context.Context, run string) (*load.Result, error) {
	s, err := c.Stream(ctx, run)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.All()
}

// Stream waits until the run has ended and returns what it recorded. Read and close it before
// any other request to a role behind a port-forward, which is one connection and blocks
// while a response is not read.
func (c *Client) Stream(ctx context.Context, run string) (*load.Stream, error) {
	for {
		body, err := c.http.Stream(ctx, runPath(run, "result")+"?wait_s=20")
		if err == nil {
			out, err := load.NewStream(body)
			if err != nil {
				body.Close()
			}
			return out, err
		}
		if !tooEarly(err) {
			return nil, err
		}
	}
}

// tooEarly reports whether err says that the run has not ended yet.
func tooEarly(err error) bool {
	var answer *jsonhttp.StatusError
	return errors.As(err, &answer) && answer.Status == http.StatusTooEarly
}

// Version returns the version of the server: a cheap health check.
func (c *Client) Version(ctx context.Context) (string, error) { return c.http.Version(ctx) }

// Offset is an estimate of how far the role's wall clock is ahead of the local one.
type Offset struct {
	Offset time.Duration
	// Uncertainty is half the shortest round trip, the maximum error.
	Uncertainty time.Duration
	// Stepped is the total step of the role's clock since its process started.
	Stepped time.Duration
}

// ClockOffset requests the role's time several times and uses the response with the
// shortest round trip.
func (c *Client) ClockOffset(ctx context.Context) (Offset, error) {
	clock, err := c.http.Clock(ctx)
	return Offset{Offset: clock.Ahead, Uncertainty: clock.Bound, Stepped: clock.Stepped}, err
}
