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
	"golang.org/x/sync/errgroup"
)

// Stage has the worker check and build a change, which then waits for its
// commit.
func (c Client) Stage(ctx context.Context, change Change) error {
	return c.do(ctx, http.MethodPost, "/v1/changes", change, &struct{}{})
}

// Commit puts a waiting change in force at an instant of the worker's clock,
// or at once if that is zero or past, and returns when it is.
func (c Client) Commit(ctx context.Context, id string, at time.Time) (Committed, error) {
	var in Commit
	if !at.IsZero() {
		in.AtNS = at.UnixNano()
	}
	var out Committed
	return out, c.do(ctx, http.MethodPost, "/v1/changes/"+url.PathEscape(id)+"/commit", in, &out)
}

// Discard forgets a waiting change.
func (c Client) Discard(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/v1/changes/"+url.PathEscape(id), nil, &struct{}{})
}

// Requests returns a page of the request log from entry number from on.
func (c Client) Requests(ctx context.Context, from int64) (Requests, error) {
	var out Requests
	return out, c.do(ctx, http.MethodGet, fmt.Sprintf("/v1/requests?from=%d", from), nil, &out)
}

// undoTimeout bounds what it takes to take a change of all back.
const undoTimeout = 10 * time.Second

// Pending is a change that all of a number of workers hold ready.
type Pending struct {
	clients []Client
	id      string
	before  []Config
}

// StageAll has all workers get ready for a change: it is checked and built
// everywhere, or nowhere is anything left of it.
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

// Discard gives the change up.
func (p *Pending) Discard(ctx context.Context) {
	ctx, cancel := ending.Within(ctx, undoTimeout)
	defer cancel()
	var group errgroup.Group
	for _, c := range p.clients {
		group.Go(func() error { return c.Discard(ctx, p.id) })
	}
	_ = group.Wait() // who never had it, or is gone, needs nothing
}

// Commit puts the change in force on all workers, at the same instant if
// their clocks agree. Where one of them fails, the others go back to what
// they did before, and the error says who could not.
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
	undo, cancel := ending.Within(ctx, undoTimeout)
	defer cancel()
	errs := []error{errors.New("the change was taken back")}
	for i, c := range p.clients {
		if failed[i] != nil {
			errs = append(errs, failed[i])
		}
		// An answer that was lost may hide a commit, so all are looked at.
		_, err := c.Update(undo, func(config *Config) {
			version := config.Version
			*config = p.before[i]
			config.Version = version
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("not taken back: %w", err))
		}
	}
	return nil, errors.Join(errs...)
}
