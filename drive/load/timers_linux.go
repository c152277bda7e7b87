package load

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"golang.org/x/sys/unix"
)

// lookahead is the number of requests of the schedule that are known, and have
// a timer armed, before they are due. A power of two.
const lookahead = 64

// timers wakes a poller when requests of a schedule are due, with a ring of
// timerfds armed well ahead.
//
// A timeout per wait would also work, but it is nearly always the next timer of
// its CPU to expire, so setting it programs the hardware, and does so again for
// each wait that a response cuts short. In a virtual machine that exits to the
// hypervisor and costs more than sending a request. A timer armed ahead of its
// turn only goes into the kernel's queue; the interrupt of the previous one
// programs the hardware anyway.
type timers struct {
	fds   [lookahead]int
	armed uint64 // requests below this have had their timer
	mono  int64  // CLOCK_MONOTONIC at offset 0, in ns
	// lead is how long before a request is due its timer fires, in ns: the
	// median wake-up time. The loop spins for the rest.
	lead int64
}

// Bounds of timers.lead: half of the wake-ups should be early, and none by
// much. A larger lead would cost more CPU time in spins than the precision is
// worth.
const (
	maxLead  = 50_000
	leadStep = 200
)

// woken adjusts lead to a wake-up at now for a request due at due: a running
// estimate of the median (Robbins and Monro).
func (t *timers) woken(now, due int64) {
	if now < due {
		t.lead = max(0, t.lead-leadStep)
	} else {
		t.lead = min(maxLead, t.lead+leadStep)
	}
}

func newTimers(p *poller) (*timers, error) {
	t := &timers{}
	for i := range t.fds {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err == nil {
			t.fds[i] = fd
			ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: timerID}
			err = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev)
		}
		if err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

// begin sets the clock: epoch is offset 0.
func (t *timers) begin(epoch time.Time) {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	t.mono = ts.Nano() - int64(time.Since(epoch))
}

// arm ensures that every request that the cursor knows, and that is not due
// yet, has its timer.
func (t *timers) arm(c *cursor, now int64) {
	t.armed = max(t.armed, c.first)
	for ; t.armed < c.first+c.known; t.armed++ {
		at := c.ring[t.armed%lookahead].Offset
		if at <= now || at == never || (t.armed > c.first && at == c.ring[(t.armed-1)%lookahead].Offset) {
			continue // due already, or woken by its neighbour
		}
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(t.mono + at - t.lead)}
		unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(t.fds[t.armed%lookahead]), unix.TFD_TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	}
}

func (t *timers) close() {
	for _, fd := range t.fds {
		if fd > 0 {
			_ = syscall.Close(fd)
		}
	}
}

// cursor walks a schedule: the next request that was not sent yet, and those
// after it.
type cursor struct {
	head     arrival.Request // the same as ring[first%lookahead]
	ring     [lookahead]arrival.Request
	first    uint64 // index in the schedule of head
	known    uint64 // requests in the ring
	schedule arrival.Schedule
}

// never is later than any time.
const never = 1<<63 - 1

func newCursor(s arrival.Schedule) cursor {
	c := cursor{schedule: s}
	for c.known < lookahead && c.fetch() {
	}
	c.settle()
	return c
}

// fetch adds the next request of the schedule to the ring.
func (c *cursor) fetch() bool {
	next, ok := c.schedule.Next()
	if ok {
		c.ring[(c.first+c.known)%lookahead] = next
		c.known++
	}
	return ok
}

func (c *cursor) settle() {
	c.head = arrival.Request{Offset: never}
	if c.known > 0 {
		c.head = c.ring[c.first%lookahead]
	}
}

// change sets the rate to rps from offset at on; requests in the ring get new
// times.
func (c *cursor) change(at int64, rps float64) {
	c.schedule.Change(at, rps)
	for i := c.first; i < c.first+c.known; i++ {
		req := &c.ring[i%lookahead]
		if req.Offset < at {
			continue
		}
		again, ok := c.schedule.Again(*req)
		if !ok { // it stays in the ring: another change may bring it back
			again = *req
			again.Offset = never
		}
		*req = again
	}
	for c.known < lookahead && c.fetch() {
	}
	c.settle()
}

// advance drops the head.
func (c *cursor) advance() {
	c.first++
	c.known--
	c.fetch()
	c.settle()
}
