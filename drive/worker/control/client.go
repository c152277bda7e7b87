package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"golang.org/x/sync/errgroup"
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
	return ask[Counters](ctx, c, http.MethodGet, "/v1/counters", nil)
}

// Config reads the behaviour in force.
func (c Client) Config(ctx context.Context) (Config, error) {
	return ask[Config](ctx, c, http.MethodGet, "/v1/config", nil)
}

// SetConfig replaces the behaviour and returns the one in force, whose Version the next
// change must have. The error wraps ErrConflict if config.Version is not the version in
// force, and has exit code 2 if a value is invalid.
func (c Client) SetConfig(ctx context.Context, config Config) (Config, error) {
	return ask[Config](ctx, c, http.MethodPost, "/v1/config", config)
}

// Update reads the configuration, changes it and sets it. After a conflict it starts
// over.
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

// revertTimeout limits how long workers take to revert a change.
const revertTimeout = 10 * time.Second

// UpdateAll updates many workers at the same time. If one fails, all are reverted.
func UpdateAll(ctx context.Context, clients []Client, change func(worker int, c *Config)) error {
	before, failed := make([]*Config, len(clients)), make([]error, len(clients))
	var group errgroup.Group
	for i, c := range clients {
		group.Go(func() error {
			_, failed[i] = c.Update(ctx, func(config *Config) {
				old := *config
				before[i] = &old
				config.Calls, config.Failures = slices.Clone(config.Calls), slices.Clone(config.Failures)
				change(i, config)
			})
			return failed[i]
		})
	}
	if group.Wait() == nil {
		return nil
	}
	ctx, cancel := ending.Within(ctx, revertTimeout)
	defer cancel()
	kept := make([]error, len(clients))
	var reverts sync.WaitGroup // at once: one that does not answer must not delay the others
	for i, c := range clients {
		if before[i] == nil {
			continue
		}
		reverts.Go(func() {
			// A lost answer may hide that it was changed.
			_, err := c.Update(ctx, func(config *Config) {
				version := config.Version
				*config = *before[i]
				config.Version = version
			})
			if err != nil {
				kept[i] = fmt.Errorf("not reverted: %w", err)
			}
		})
	}
	reverts.Wait()
	return errors.Join(errors.New("the change was reverted"), errors.Join(failed...), errors.Join(kept...))
}

// Clock compares the worker's clock with this process's.
func (c Client) Clock(ctx context.Context) (jsonhttp.Clock, error) { return c.json().Clock(ctx) }

func (c Client) json() jsonhttp.Client {
	return jsonhttp.Client{HTTPClient: c.HTTPClient, BaseURL: c.BaseURL, Name: "worker control", MaxAnswer: maxAnswer, Token: c.Token}
}

func ask[T any](ctx context.Context, c Client, method, path string, in any) (T, error) {
	out, err := jsonhttp.Ask[T](ctx, c.json(), method, path, in)
	var status *jsonhttp.StatusError
	if errors.As(err, &status) && status.Status == http.StatusConflict {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return out, err
}
