package control

import (
	"context"
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
	return jsonhttp.Ask[Started](ctx, c.http, http.MethodPost, "/v1/start", spec)
}

// Retryable reports whether [Client.Start] failed for one of the reasons of [load.Retryable].
func Retryable(err error) bool { return jsonhttp.Answered(err, http.StatusServiceUnavailable) }

// Intervals returns the state of the run and its finished intervals from index from
// on.
func (c *Client) Intervals(ctx context.Context, run string, from int) (Status, error) {
	return jsonhttp.Ask[Status](ctx, c.http, http.MethodGet, "/v1/intervals?"+url.Values{"run": {run}, "from": {strconv.Itoa(from)}}.Encode(), nil)
}

// IntervalsWithLatency is Intervals with each interval's histogram of intended latency.
func (c *Client) IntervalsWithLatency(ctx context.Context, run string, from int) (Status, error) {
	return jsonhttp.Ask[Status](ctx, c.http, http.MethodGet, "/v1/intervals?"+url.Values{"run": {run}, "from": {strconv.Itoa(from)}, "latency": {""}}.Encode(), nil)
}

// Stop ends the run's schedule now.
func (c *Client) Stop(ctx context.Context, run string) (Status, error) {
	return jsonhttp.Ask[Status](ctx, c.http, http.MethodPost, "/v1/stop?"+url.Values{"run": {run}}.Encode(), nil)
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
	return jsonhttp.Ask[Status](ctx, c.http, http.MethodPost, "/v1/stop-after?"+url.Values{"run": {run}}.Encode(), StopAfter{Interval: interval})
}

// Result waits until the run has ended and returns everything it recorded.
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
		if !jsonhttp.Answered(err, http.StatusTooEarly) {
			return nil, err
		}
	}
}

// SetRate sets the rate of a run from a time on, by the role's wall clock; the zero time
// means immediately. It returns the change as applied. If the time has passed or the run has
// ended, nothing changes and the error wraps [load.ErrLate].
func (c *Client) SetRate(ctx context.Context, run string, rps float64, at time.Time) (load.RateChange, error) {
	in := Rate{RPS: rps}
	if !at.IsZero() {
		in.AtUnixNS = at.UnixNano()
	}
	out, err := jsonhttp.Ask[load.RateChange](ctx, c.http, http.MethodPost, runPath(run, "rate"), in)
	if jsonhttp.Answered(err, http.StatusConflict) {
		err = fmt.Errorf("%w: %w", load.ErrLate, err)
	}
	return out, err
}

// Progress returns the progress of a run. It is cheap enough to be called every few
// milliseconds.
func (c *Client) Progress(ctx context.Context, run string) (load.Progress, error) {
	return jsonhttp.Ask[load.Progress](ctx, c.http, http.MethodGet, runPath(run, "progress"), nil)
}

// EachRequest calls each with the log's header and each request of an ended run, ordered by
// number, until the first error.
func (c *Client) EachRequest(ctx context.Context, run string, each func(*load.RequestsHeader, load.Request) error) (load.RequestsHeader, error) {
	path := runPath(run, "requests")
	body, err := c.http.Stream(ctx, path)
	if err != nil {
		return load.RequestsHeader{}, err
	}
	defer body.Close()
	return load.ReadRequests("load control: GET "+path, body, each)
}

func runPath(run, what string) string { return "/v1/runs/" + url.PathEscape(run) + "/" + what }

// Version returns the version of the server: a cheap health check.
func (c *Client) Version(ctx context.Context) (string, error) { return c.http.Version(ctx) }

// Clock compares the role's clock with this process's.
func (c *Client) Clock(ctx context.Context) (jsonhttp.Clock, error) { return c.http.Clock(ctx) }
