package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshmark/meshmark/errs"
)

var errRestarted = errors.New("the worker restarted between the two readings of its counters")

// ErrConflict is what SetConfig's error wraps when another change came first.
var ErrConflict = errors.New("the configuration was changed by someone else")

// maxAnswer bounds what the client reads of an answer.
const maxAnswer = 64 << 20

// Client talks to a worker's control server.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "http://127.0.0.1:15990"
}

// Counters reads what the worker served since its start.
func (c Client) Counters(ctx context.Context) (Counters, error) {
	var out Counters
	return out, c.do(ctx, http.MethodGet, "/v1/counters", nil, &out)
}

// Config reads the behaviour in force.
func (c Client) Config(ctx context.Context) (Config, error) {
	var out Config
	return out, c.do(ctx, http.MethodGet, "/v1/config", nil, &out)
}

// SetConfig replaces the behaviour and returns the one in force, whose
// Version the next change must carry. The error wraps ErrConflict if
// config.Version is not the version in force, and has exit code 2 if the
// worker refused a value.
func (c Client) SetConfig(ctx context.Context, config Config) (Config, error) {
	var out Config
	return out, c.do(ctx, http.MethodPost, "/v1/config", config, &out)
}

// Update reads the configuration, lets change alter it, and sets it; when
// another change comes between, it starts again.
func (c Client) Update(ctx context.Context, change func(*Config)) (Config, error) {
	for {
		config, err := c.Config(ctx)
		if err != nil {
			return Config{}, err
		}
		change(&config)
		config, err = c.SetConfig(ctx, config)
		if !errors.Is(err, ErrConflict) {
			return config, err
		}
	}
}

// ClockOffset returns how far the worker's clock is ahead of this process's,
// and the bound of the error: half the round trip of the quickest of several
// exchanges.
func (c Client) ClockOffset(ctx context.Context) (offset, bound time.Duration, err error) {
	bound = time.Hour
	for range 5 {
		var clock Clock
		sent := time.Now()
		if err := c.do(ctx, http.MethodGet, "/v1/clock", nil, &clock); err != nil {
			return 0, 0, err
		}
		trip := time.Since(sent)
		if half := trip / 2; half < bound {
			bound = half
			offset = time.Duration(clock.UnixNS - sent.Add(half).UnixNano())
		}
	}
	return offset, bound, nil
}

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTPClient
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("worker control: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("worker control: %s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return problem(method, path, resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("worker control: %s %s: %w", method, path, err)
	}
	return nil
}

// problem turns an unsuccessful answer into an error.
func problem(method, path string, status int, body []byte) error {
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Error == "" {
		p.Error = strings.TrimSpace(string(body[:min(len(body), 200)]))
	}
	err := fmt.Errorf("worker control: %s %s: %d: %s", method, path, status, p.Error)
	switch status {
	case http.StatusConflict:
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		err = errs.WithCode(err, errs.CodeUsage)
	}
	if p.Hint != "" {
		err = errs.WithHint(err, "%s", p.Hint)
	}
	return err
}
