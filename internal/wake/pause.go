package wake

import (
	"context"
	"time"
)

// Pause waits for d, or until ctx ends, and then returns its cause. It needs no
// [Timer], and is for waits in which an extra millisecond does not matter. It
// does not wait if d is zero or less.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
