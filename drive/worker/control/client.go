package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// ErrConflict is wrapped by SetConfig when another change came first.
var ErrConflict = errors.New("the configuration was changed by someone else")

// maxAnswer limits the bytes of an answer.
const maxAnswer = 64 << 20

// Client talks to a worker's control server.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "http://127.0.0.1:15990"
	Token      string       // bearer token; "": none
}

// Counters reads the worker's counters since its start.
func (c Client) Counters(ctx context.Context) (Counters, error) {
	var out Counters
	return out, c.do(ctx, http.MethodGet, "/v1/counters", nil, &out)
}

// Config reads the behaviour in force.
func (c Client) Config(ctx context.Context) (Config, error) {
	var out Config
	return out, c.do(ctx, http.MethodGet, "/v1/config", nil, &out)
}

// SetConfig replaces the behaviour and returns the one in force, whose Version the next
// change must have. The error wraps ErrConflict if config.Version is not the version in
// force, and has exit code 2 if a value is invalid.
func (c Client) SetConfig(ctx context.Context, config Config) (Config, error) {
	var out Config
	return out, c.do(ctx, http.MethodPost, "/v1/config", config, &out)
}

// Update reads the configuration, changes it and sets it. After a conflict it starts
// again.
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

// ClockOffset returns how far the worker's clock is ahead of this process's, and the
// error bound: half the round trip of the fastest of several exchanges.
func (c Client) ClockOffset(ctx context.Context) (offset, bound time.Duration, err error) {
	return c.json().ClockOffset(ctx)
}

func (c Client) json() jsonhttp.Client {
	return jsonhttp.Client{HTTPClient: c.HTTPClient, BaseURL: c.BaseURL, Name: "worker control", MaxAnswer: maxAnswer, Token: c.Token}
}

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	err := c.json().Do(ctx, method, path, in, out)
	var status *jsonhttp.StatusError
	if errors.As(err, &status) && status.Status == http.StatusConflict {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}
