package jsonhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrAlone is wrapped by the cause of what [Alive.While] ends.
var ErrAlone = errors.New("alone")

// alivePath is what whoever commands a role posts to, when he has nothing else
// to say.
const alivePath = "/v1/alive"

// Alive knows when a server has last heard of whoever commands it, so that
// what it does for him ends with him, however he ends. Time goes by the
// monotonic clock, without that for which this process stood still: he may have
// stood still with it. Nil hears nothing, and ends nothing.
type Alive struct {
	limit time.Duration

	mu    sync.Mutex
	heard time.Time
}

// NewAlive returns an Alive for which silence of so long is an end; nil for 0.
func NewAlive(limit time.Duration) *Alive {
	if limit <= 0 {
		return nil
	}
	return &Alive{limit: limit, heard: time.Now()}
}

// Heard notes a sign of life.
func (a *Alive) Heard() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// left is how long silence may go on.
func (a *Alive) left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit - time.Since(a.heard)
}

// looks is how many times within its limit silence is looked at.
const looks = 9

// look is told that a wait of so long, which began at a moment, is over, and returns
// how long silence may go on. Where the wait took far longer the process stood still.
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

// While returns a context that ends with ctx, with the returned function, or
// when nothing was heard for the limit, counted from now on. It then tells why
// first; the context's cause wraps [ErrAlone].
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

// listen takes each request for a sign of life when it begins: one that hangs
// may have lost whoever made it. Requests that next refuses for what they lack
// must not come here.
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

// StillHere tells a server that listens for it (see [Server.Alive]) that
// whoever commands it is still there, and no more.
func (c Client) StillHere(ctx context.Context) error {
	return c.Do(ctx, http.MethodPost, alivePath, nil, &struct{}{})
}
