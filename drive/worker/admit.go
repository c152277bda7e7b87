package worker

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate bounds how many requests are served at once and how many wait for
// that, in their order.
type gate struct {
	limit, queue int
	places       *semaphore.Weighted
	waiting      atomic.Int64
}

func newGate(limit, queue int) *gate {
	return &gate{limit: limit, queue: queue, places: semaphore.NewWeighted(int64(limit))}
}

var overloaded = []byte("overloaded\n")

// admit lets requests through a gate; nil lets all through.
func admit(g *gate, c *counters) Link {
	return func(next Behaviour) Behaviour {
		if g == nil {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			if !g.places.TryAcquire(1) {
				if g.waiting.Add(1) > int64(g.queue) {
					g.waiting.Add(-1)
					c.overflowed.Add(1)
					x.Status, x.Reply = http.StatusServiceUnavailable, overloaded
					return nil
				}
				c.waiting.Add(1)
				err := g.places.Acquire(ctx, 1)
				c.waiting.Add(-1)
				g.waiting.Add(-1)
				if err != nil {
					return err
				}
				x.begun = time.Now()
			}
			defer g.places.Release(1)
			return next(ctx, x)
		}
	}
}
