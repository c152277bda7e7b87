package wake

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

func newTimer(t testing.TB) *Timer {
	timer, err := New()
	must.OK(t, err)
	t.Cleanup(timer.Close)
	return timer
}

func TestNeverEarlyAndEveryoneWakes(t *testing.T) {
	timer := newTimer(t)
	var all sync.WaitGroup
	for range 200 {
		wait := time.Duration(rand.Int64N(int64(20 * time.Millisecond)))
		all.Go(func() {
			at := time.Now().Add(wait)
			if err := timer.Until(t.Context(), at); err != nil {
				t.Error(err)
			}
			if early := time.Until(at); early > 0 {
				t.Errorf("woke %v early", early)
			}
		})
	}
	all.Wait()
	if len(timer.waiters) != 0 {
		t.Errorf("%d waiters left", len(timer.waiters))
	}
}

func TestAnEarlierDeadlineOvertakesALaterOne(t *testing.T) {
	timer := newTimer(t)
	ctx, cancel := context.WithCancel(t.Context())
	late := make(chan error)
	go func() { late <- timer.Until(ctx, time.Now().Add(time.Hour)) }()
	for {
		timer.mu.Lock()
		n := len(timer.waiters)
		timer.mu.Unlock()
		if n == 1 {
			break
		}
	}
	must.OK(t, timer.Until(ctx, time.Now().Add(time.Millisecond)))
	cancel()
	if err := <-late; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled wait returned %v", err)
	}
	if len(timer.waiters) != 0 {
		t.Error("the cancelled waiter is still queued")
	}
}

func TestCancelAndExpiryMayRace(t *testing.T) {
	timer := newTimer(t)
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(4*time.Millisecond))))
			defer cancel()
			_ = timer.Until(ctx, time.Now().Add(time.Duration(rand.Int64N(int64(4*time.Millisecond)))))
		})
	}
	all.Wait()
	// Whatever the results, no reused waiter may hold an old message.
	if err := timer.Until(t.Context(), time.Now().Add(time.Millisecond)); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	timer := newTimer(t)
	errc := make(chan error)
	go func() { errc <- timer.Until(t.Context(), time.Now().Add(time.Hour)) }()
	time.Sleep(time.Millisecond)
	timer.Close()
	if err := <-errc; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := timer.Until(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	timer.Close()
}

func TestPast(t *testing.T) {
	if err := newTimer(t).Until(t.Context(), time.Now().Add(-time.Second)); err != nil {
		t.Error(err)
	}
}

// BenchmarkLateness reports how late waits of 1 ms end, with this package and
// with the runtime's own timers.
func BenchmarkLateness(b *testing.B) {
	timer := newTimer(b)
	for name, wait := range map[string]func(time.Time){
		"timerfd": func(at time.Time) { _ = timer.Until(context.Background(), at) },
		"runtime": func(at time.Time) { time.Sleep(time.Until(at)) },
	} {
		b.Run(name, func(b *testing.B) {
			late := make([]time.Duration, 0, b.N)
			for b.Loop() {
				at := time.Now().Add(700*time.Microsecond + time.Duration(rand.Int64N(600_000)))
				wait(at)
				late = append(late, time.Since(at))
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(late[len(late)-1].Microseconds()), "max-us")
		})
	}
}
