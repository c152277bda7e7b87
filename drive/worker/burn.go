package worker

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// burn spends CPU time on each exchange.
func burn(each time.Duration) Link {
	return func(next Behaviour) Behaviour {
		if each <= 0 {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			if err := spin(ctx, each); err != nil {
				return err
			}
			return next(ctx, x)
		}
	}
}

// spin uses CPU until the thread's own clock has risen by d, so that time in
// which another process had the CPU does not count.
func spin(ctx context.Context, d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	end := threadTime() + d
	for threadTime() < end {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		runtime.KeepAlive(churn(200))
	}
	return nil
}

// churn is some hundred nanoseconds of work that no compiler leaves out.
//
//go:noinline
func churn(rounds uint64) uint64 {
	x := rounds | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// threadTime is the CPU time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil { // it cannot fail with these arguments
		return 0
	}
	return time.Duration(t.Nano())
}

// hoard holds memory that is really there: every page has been written to.
func hoard(bytes int64) []byte {
	if bytes == 0 {
		return nil
	}
	held := make([]byte, bytes)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	return held
}
