package wake

import (
	"context"
	"time"
)

// Pause waits for d, or until ctx ends, and then returns its cause. It is for
// waits where a millisecond more does not matter, and needs no [Timer]. A time
// of zero or less does not wait.
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
