package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"golang.org/x/sync/errgroup"
)

// Change is a configuration that waits for its commit, so that many workers change
// together or not at all.
type Change struct {
	ID     string `json:"id"` // the caller's choice
	Config Config `json:"config"`
}

// Commit puts a waiting change in force.
type Commit struct {
	// AtNS is when, by the worker's clock, at most a minute ahead; 0 or past: now.
	AtNS int64 `json:"at_unix_ns,omitempty"`
}

// Committed is a change in force.
type Committed struct {
	Config Config `json:"config"`
	AtNS   int64  `json:"at_unix_ns"` // when it was put in force
}

// Validate checks the change.
func (c Change) Validate() error {
	if !reChangeID.MatchString(c.ID) {
		return errs.Usage("id is %.40q, it must be 1 to 100 letters, digits, dots or dashes", c.ID)
	}
	return c.Config.Validate()
}

// Stage makes the worker check and prepare a change, which then waits for its commit.
func (c Client) Stage(ctx context.Context, change Change) error {
	_, err := ask[jsonhttp.None](ctx, c, http.MethodPost, "/v1/changes", change)
	return err
}

// Commit puts a waiting change in force at an instant of the worker's clock,
// or immediately if that is zero or past, and returns once it is in force.
func (c Client) Commit(ctx context.Context, id string, at time.Time) (Committed, error) {
	var in Commit
	if !at.IsZero() {
		in.AtNS = at.UnixNano()
	}
	return ask[Committed](ctx, c, http.MethodPost, "/v1/changes/"+url.PathEscape(id)+"/commit", in)
}

// Discard drops a waiting change.
func (c Client) Discard(ctx context.Context, id string) error {
	_, err := ask[jsonhttp.None](ctx, c, http.MethodDelete, "/v1/changes/"+url.PathEscape(id), nil)
	return err
}

// revertTimeout limits how long it takes to revert a change on all workers.
const revertTimeout = 10 * time.Second

// Pending is a change that several workers have staged.
type Pending struct {
	clients []Client
	id      string
	before  []Config
}

// StageAll stages a change on all workers, or on none.
func StageAll(ctx context.Context, clients []Client, change func(worker int, c *Config)) (*Pending, error) {
	p := &Pending{clients: clients, id: "all-" + rand.Text(), before: make([]Config, len(clients))}
	group, groupCtx := errgroup.WithContext(ctx)
	for i, c := range clients {
		group.Go(func() error {
			config, err := c.Config(groupCtx)
			if err != nil {
				return err
			}
			p.before[i] = config
			config.Calls, config.Failures = slices.Clone(config.Calls), slices.Clone(config.Failures)
			change(i, &config)
			return c.Stage(groupCtx, Change{ID: p.id, Config: config})
		})
	}
	if err := group.Wait(); err != nil {
		p.Discard(ctx)
		return nil, fmt.Errorf("no worker was changed: %w", err)
	}
	return p, nil
}

// Discard drops the change everywhere.
func (p *Pending) Discard(ctx context.Context) {
	ctx, cancel := ending.Within(ctx, revertTimeout)
	defer cancel()
	var group errgroup.Group
	for _, c := range p.clients {
		group.Go(func() error { return c.Discard(ctx, p.id) })
	}
	_ = group.Wait() // a worker that never had it, or is gone, needs no cleanup
}

// Commit puts the change in force on all workers, at the same instant if their clocks
// agree. If one fails, the others return to their previous configuration, and the error
// names failures.
func (p *Pending) Commit(ctx context.Context, at time.Time) ([]Committed, error) {
	out := make([]Committed, len(p.clients))
	failed := make([]error, len(p.clients))
	var group errgroup.Group
	for i, c := range p.clients {
		group.Go(func() error {
			out[i], failed[i] = c.Commit(ctx, p.id, at)
			return failed[i]
		})
	}
	if group.Wait() == nil {
		return out, nil
	}
	revert, cancel := ending.Within(ctx, revertTimeout)
	defer cancel()
	all := []error{errors.New("the change was reverted")}
	for i, c := range p.clients {
		if failed[i] != nil {
			all = append(all, failed[i])
		}
		// A lost answer may hide a commit, so revert all.
		_, err := c.Update(revert, func(config *Config) {
			version := config.Version
			*config = p.before[i]
			config.Version = version
		})
		if err != nil {
			all = append(all, fmt.Errorf("not reverted: %w", err))
		}
	}
	return nil, errors.Join(all...)
}
