// Package wake waits until an instant more precisely than the Go runtime's own
// timers, without spinning.
//
// A sleeping Go program waits for its next timer in epoll_wait, whose timeout
// is in milliseconds: time.Sleep returns up to a millisecond late. A [Timer]
// instead sets a timerfd to the deadline of its earliest waiter. The runtime's
// poller watches it like a socket: the kernel's high-resolution timer makes it
// readable, and one goroutine notifies the waiters that are due. The remaining
// cost is waking an idle CPU, a thread and a goroutine, some tens of
// microseconds; see the package's benchmark. Burning CPU to hide that would
// disturb the measurement.
package wake

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by Until once the Timer is closed.
var ErrClosed = errors.New("the timer is closed")

// Timer wakes waiters. It owns a timerfd and one goroutine; Close ends both.
type Timer struct {
	fd   int
	file *os.File
	done chan struct{}

	mu      sync.Mutex
	waiters waiters
	armed   int64 // deadline the timerfd is set to; 0: none
	closed  bool
}

// waiter is one caller of Until.
type waiter struct {
	at    int64 // CLOCK_MONOTONIC, nanoseconds
	index int   // in the heap; -1 if not in it
	due   chan error
}

var pool = sync.Pool{New: func() any { return &waiter{due: make(chan error, 1)} }}

// New returns a running Timer.
func New() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	t := &Timer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), done: make(chan struct{})}
	go t.run()
	return t, nil
}

// Until returns at the instant at, or early with ctx's error if ctx ends. It
// returns immediately if the instant has passed.
func (t *Timer) Until(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	w := pool.Get().(*waiter)
	w.at = monotonic() + int64(wait)
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return ErrClosed
	}
	heap.Push(&t.waiters, w)
	if w.index == 0 {
		t.arm()
	}
	t.mu.Unlock()
	select {
	case err := <-w.due:
		pool.Put(w)
		return err
	case <-ctx.Done():
		t.mu.Lock()
		if w.index >= 0 {
			heap.Remove(&t.waiters, w.index)
		} else {
			<-w.due // run has removed it and sent, or Close has
		}
		t.mu.Unlock()
		pool.Put(w)
		return ctx.Err()
	}
}

// Close wakes every waiter with ErrClosed, and returns when the Timer's
// goroutine has ended.
func (t *Timer) Close() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		<-t.done
		return
	}
	t.closed = true
	for len(t.waiters) > 0 {
		heap.Pop(&t.waiters).(*waiter).due <- ErrClosed
	}
	t.mu.Unlock()
	t.file.Close()
	<-t.done
}

func (t *Timer) run() {
	defer close(t.done)
	var expirations [8]byte
	for {
		_, err := t.file.Read(expirations[:])
		t.mu.Lock()
		if err != nil || t.closed {
			t.mu.Unlock()
			return
		}
		now := monotonic()
		t.armed = 0
		for len(t.waiters) > 0 && t.waiters[0].at <= now {
			heap.Pop(&t.waiters).(*waiter).due <- nil
		}
		if len(t.waiters) > 0 {
			t.arm()
		}
		t.mu.Unlock()
	}
}

// arm sets the timerfd to the earliest deadline. A cancelled waiter's deadline
// may stay armed and wake run once in vain.
func (t *Timer) arm() {
	if at := t.waiters[0].at; t.armed == 0 || at < t.armed {
		t.armed = at
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at)}
		// The arguments are valid by construction and the descriptor is open
		// while the lock is held and closed is false.
		_ = unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
	}
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}

type waiters []*waiter

func (h waiters) Len() int           { return len(h) }
func (h waiters) Less(i, j int) bool { return h[i].at < h[j].at }
func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}
func (h *waiters) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
