package wake

import (
	"context"
	"errors"
	"math/rand/v2"
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
