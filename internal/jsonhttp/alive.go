package jsonhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrAlone is wrapped by the cause of contexts that [Alive.While] ends.
var ErrAlone = errors.New("alone")

// alivePath is the path to which a role's commander posts when it has nothing else to
// send.
const alivePath = "/v1/alive"

// Alive tracks when a server last heard from its commander, so that work for the
// commander ends with it, however it ends. Time is measured by the monotonic clock,
// excluding time for which this process was suspended: the commander may have been
// suspended with it. A nil Alive does nothing.
type Alive struct {
	limit time.Duration

	mu    sync.Mutex
	heard time.Time
}

// NewAlive returns an Alive that tolerates silence up to limit; nil for 0.
func NewAlive(limit time.Duration) *Alive {
	if limit <= 0 {
		return nil
	}
	return &Alive{limit: limit, heard: time.Now()}
}

// Heard records a sign of life.
func (a *Alive) Heard() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// left returns how much longer the silence may last.
func (a *Alive) left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit - time.Since(a.heard)
}

// looks is the number of checks within the limit.
const looks = 9

// look takes the start and the intended length of a wait that is over, and returns
// how much longer the silence may last. If the wait took far longer, the process was
// suspended.
func (a *Alive) look(began time.Time, wait time.Duration) (left time.Duration) {
	if late := time.Since(began) - wait; late > a.limit/looks {
		a.mu.Lock()
		if a.heard = a.heard.Add(late); time.Since(a.heard) < 0 {
			a.heard = time.Now()
		}
		a.mu.Unlock()
	}
	return a.left()
}

// While returns a context that ends with ctx, with the returned function, or after
// silence for the limit, counted from now. In the last case it first passes the
// reason to tell; the context's cause wraps [ErrAlone].
func (a *Alive) While(ctx context.Context, tell func(error)) (context.Context, context.CancelFunc) {
	if a == nil {
		return context.WithCancel(ctx)
	}
	a.Heard()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		wait := a.limit / looks
		timer := time.NewTimer(wait)
		defer timer.Stop()
		for {
			began := time.Now()
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			left := a.look(began, wait)
			if left <= 0 {
				err := fmt.Errorf("%w: nobody who commands this role was heard for %v; what it did is undone, and it ends", ErrAlone, a.limit)
				tell(err)
				cancel(err)
				return
			}
			wait = min(left, a.limit/looks)
			timer.Reset(wait)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// listen counts each request as a sign of life when it begins: a hanging request may
// have lost its client. Requests that next rejects for missing credentials must not
// reach it.
func (a *Alive) listen(next http.Handler) http.Handler {
	if a == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Heard()
		if r.Method == http.MethodPost && r.URL.Path == alivePath {
			Answer(w, struct{}{})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// StillHere tells a server with [Server.Alive] that its commander is still there.
func (c Client) StillHere(ctx context.Context) error {
	return c.Do(ctx, http.MethodPost, alivePath, nil, &struct{}{})
}
