package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/load"
)

// maxAnswer bounds what a client reads of one answer, in bytes.
const maxAnswer = 1 << 30

// Client talks to one [Server]. Its methods may be called at the same time.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of the server at base, for instance
// "http://127.0.0.1:15980". With an httpClient whose transport dials through
// a port-forward the host name in base is of no matter. nil means
// [http.DefaultClient].
func NewClient(base string, httpClient *http.Client) *Client {
	if httpClient == nil {
		httpClient = http.DefaultClient
	}
	return &Client{base: strings.TrimSuffix(base, "/"), http: httpClient}
}

// Start begins a run and returns its name. It fails if another is under way.
func (c *Client) Start(ctx context.Context, spec load.Spec) (Started, error) {
	var out Started
	err := c.call(ctx, http.MethodPost, "/v1/start", nil, spec, &out)
	return out, err
}

// Intervals returns how the run stands and the intervals finished, from
// index from on.
func (c *Client) Intervals(ctx context.Context, run string, from int) (Status, error) {
	var out Status
	query := url.Values{"run": {run}, "from": {strconv.Itoa(from)}}
	err := c.call(ctx, http.MethodGet, "/v1/intervals", query, nil, &out)
	return out, err
}

// Stop ends the run's schedule now.
func (c *Client) Stop(ctx context.Context, run string) (Status, error) {
	var out Status
	err := c.call(ctx, http.MethodPost, "/v1/stop", url.Values{"run": {run}}, struct{}{}, &out)
	return out, err
}

// StopAfter ends the run's schedule at the end of an interval.
func (c *Client) StopAfter(ctx context.Context, run string, interval int) (Status, error) {
	var out Status
	err := c.call(ctx, http.MethodPost, "/v1/stop-after", url.Values{"run": {run}}, StopAfter{Interval: interval}, &out)
	return out, err
}

// Result waits until the run has ended and returns everything it recorded.
// The Spec in it lacks a trace.
func (c *Client) Result(ctx context.Context, run string) (*load.Result, error) {
	query := url.Values{"run": {run}, "wait_s": {"20"}}
	for {
		out := &load.Result{}
		err := c.call(ctx, http.MethodGet, "/v1/result", query, nil, out)
		if err == nil {
			return out, nil
		}
		var answer *answerError
		if !errors.As(err, &answer) || answer.status != http.StatusTooEarly {
			return nil, err
		}
	}
}

// Version asks which program answers: a cheap test that it is up.
func (c *Client) Version(ctx context.Context) (string, error) {
	var out Version
	err := c.call(ctx, http.MethodGet, "/v1/version", nil, nil, &out)
	return out.Version, err
}

// Offset is an estimate of how far the role's wall clock is ahead of ours.
type Offset struct {
	Offset time.Duration
	// Uncertainty is half the shortest round trip: the truth is within it.
	Uncertainty time.Duration
}

// ClockOffset asks for the role's time n times and takes the answer with the
// shortest round trip (Cristian's method).
func (c *Client) ClockOffset(ctx context.Context, n int) (Offset, error) {
	best := Offset{Uncertainty: -1}
	for range max(1, n) {
		before := time.Now()
		var clock Clock
		if err := c.call(ctx, http.MethodGet, "/v1/clock", nil, nil, &clock); err != nil {
			return Offset{}, err
		}
		half := time.Since(before) / 2
		if best.Uncertainty < 0 || half < best.Uncertainty {
			best = Offset{Offset: time.Unix(0, clock.UnixNS).Sub(before.Add(half)), Uncertainty: half}
		}
	}
	return best, nil
}

// answerError is an answer other than a success.
type answerError struct {
	status int
	body   Error
	what   string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("load control: %s: %s", e.what, e.body.Error)
}

func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("load control: %s: %w", path, err)
		}
		body = bytes.NewReader(data)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return fmt.Errorf("load control: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("load control: %w", err)
	}
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode != http.StatusOK {
		answer := &answerError{status: resp.StatusCode, what: method + " " + path}
		data, _ := io.ReadAll(io.LimitReader(limited, 64<<10))
		if json.Unmarshal(data, &answer.body) != nil || answer.body.Error == "" {
			answer.body.Error = fmt.Sprintf("status %d: %.200s", resp.StatusCode, data)
		}
		err := error(answer)
		if resp.StatusCode == http.StatusBadRequest {
			err = errs.WithCode(err, errs.CodeUsage)
		}
		if answer.body.Hint != "" {
			err = errs.WithHint(err, "%s", answer.body.Hint)
		}
		return err
	}
	if err := json.NewDecoder(limited).Decode(out); err != nil {
		return fmt.Errorf("load control: %s %s: answer: %w", method, path, err)
	}
	_, _ = io.Copy(io.Discard, limited) // lets the connection be used again
	return nil
}
