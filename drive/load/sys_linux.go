package load

import (
	"net"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The event loop reads, writes and waits with RawSyscall, which bypasses Go's
// scheduler even in waits. With Syscall the runtime's monitor would take the
// processor away from the loop in each wait, which costs more CPU time than the
// requests do. When the garbage collector needs the loop to stop, the runtime's
// preemption signal ends the wait with EINTR. Meanwhile the loop occupies one of
// GOMAXPROCS; [Start] ensures that there is another.

// sysSend writes b to a socket without raising SIGPIPE.
func sysSend(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// sysRecv reads from a socket into b.
func sysRecv(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// sysClosed reports whether the peer has closed or reset an idle connection, or sent
// unsolicited data.
func sysClosed(fd int) bool {
	var b [1]byte
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
	return errno != unix.EAGAIN && errno != unix.EINTR
}

// stamped reads from sockets that report the kernel's receive timestamp (SO_TIMESTAMPNS): that
// of the last segment read, taken before any process was woken.
type stamped struct {
	msg     unix.Msghdr
	iov     unix.Iovec
	control [64]byte
	toMono  int64 // offset from CLOCK_REALTIME to the loop's own time
}

// calibrate sets the offset between the clocks; own is the loop's time. The offset
// is constant except for steps of the wall clock, because the kernel slews both
// clocks equally.
func (s *stamped) calibrate(own func() int64) {
	var ts unix.Timespec
	best := int64(1 << 62)
	for range 3 {
		before := own()
		_ = unix.ClockGettime(unix.CLOCK_REALTIME, &ts) // cannot fail
		after := own()
		if after-before < best {
			best = after - before
			s.toMono = before + (after-before)/2 - ts.Nano()
		}
	}
}

// recv reads like sysRecv; at is when the last byte arrived, by the loop's clock, or
// 0 without a kernel timestamp.
func (s *stamped) recv(fd int, b []byte) (n int, at int64, errno syscall.Errno) {
	s.iov.Base = unsafe.SliceData(b)
	s.iov.SetLen(len(b))
	s.msg.Iov, s.msg.Iovlen = &s.iov, 1
	s.msg.Control = &s.control[0]
	s.msg.SetControllen(len(s.control))
	r, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.msg)), unix.MSG_DONTWAIT)
	if errno != 0 {
		return int(r), 0, errno
	}
	if s.msg.Controllen >= uint64(unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{})))) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&s.control))
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS {
			ts := (*unix.Timespec)(unsafe.Pointer(&s.control[unix.CmsgLen(0)]))
			at = ts.Nano() + s.toMono
		}
	}
	return int(r), at, 0
}

// poller is an epoll instance with nanosecond timeouts.
type poller struct {
	fd     int
	wakeFD int  // eventfd that ends a wait from another thread
	coarse bool // the kernel lacks epoll_pwait2 (before 5.11) or forbids it
	events []unix.EpollEvent

	mu     sync.Mutex // guards wakeFD against a wake after close
	closed bool
}

// User data of descriptors that are not connections.
const (
	wakeID   = -1 // the poller's own eventfd
	timerID  = -2 // a timerfd
	pollerID = -3 // another poller
)

func newPoller(events int) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	p := &poller{fd: fd, wakeFD: wake, events: make([]unix.EpollEvent, events)}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeID}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, wake, &ev); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	unix.Close(p.fd)
	unix.Close(p.wakeFD)
}

// wake ends the current wait, or the next one.
func (p *poller) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	one := [8]byte{1}
	_, _ = unix.Write(p.wakeFD, one[:])
}

// add registers a socket permanently: edge-triggered, both directions.
func (p *poller) add(fd int, id, generation int32) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: id, Pad: generation}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// watch sets whether events of another poller end this one's waits.
func (p *poller) watch(other *poller, on bool) {
	op := unix.EPOLL_CTL_DEL
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: pollerID}
	_ = unix.EpollCtl(p.fd, op, other.fd, &ev) // cannot fail: descriptors are valid and calls alternate
}

// wait returns the available events, waiting for up to ns nanoseconds; it does not
// wait if ns is not positive.
func (p *poller) wait(ns int64) []unix.EpollEvent {
	var n uintptr
	var errno syscall.Errno
	events := uintptr(unsafe.Pointer(unsafe.SliceData(p.events)))
	switch {
	case ns <= 0:
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), events, uintptr(len(p.events)), 0, 0, 0)
	case !p.coarse:
		ts := unix.NsecToTimespec(ns)
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), events, uintptr(len(p.events)),
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno == unix.ENOSYS || errno == unix.EPERM {
			p.coarse = true
			return nil
		}
	default:
		// An epoll instance can itself be polled, with a fine timeout.
		fds := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		ts := unix.NsecToTimespec(ns)
		if got, err := unix.Ppoll(fds[:], &ts, nil); err != nil || got == 0 {
			return nil
		}
		return p.wait(0)
	}
	if errno != 0 {
		return nil // EINTR: a valid descriptor has no other error
	}
	return p.events[:n]
}

// waitFriendly is wait, but releases the processor to Go's scheduler: for a thread
// that shares its work with goroutines.
func (p *poller) waitFriendly(ns int64) {
	if ns <= 0 {
		p.wait(0)
		return
	}
	fds := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	ts := unix.NsecToTimespec(ns)
	if n, err := unix.Ppoll(fds[:], &ts, nil); err == nil && n > 0 {
		p.wait(0) // consume the event
	}
}

// shortSlice is the shortest time slice that the kernel's scheduler grants, in ns.
const shortSlice = 100_000

// precise asks the kernel to fire this thread's timers when they are due (by default
// it may add 50 us) and to run the thread soon after it is woken, even if others
// want the same core. With a short time slice (since Linux 6.12; no privilege, and
// no larger share of the CPU) it need not wait for theirs to end. If the kernel
// refuses, only precision is lost.
func precise() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attr, err := unix.SchedGetAttr(0, 0)
	if err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = shortSlice
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// endpoint is an address that sockets connect to.
type endpoint struct {
	family int
	to     unix.Sockaddr
}

func newEndpoint(addr *net.TCPAddr) endpoint {
	if ip4 := addr.IP.To4(); ip4 != nil {
		return endpoint{unix.AF_INET, &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip4)}}
	}
	to := &unix.SockaddrInet6{Port: addr.Port, Addr: [16]byte(addr.IP.To16())}
	if ifi, err := net.InterfaceByName(addr.Zone); err == nil {
		to.ZoneId = uint32(ifi.Index)
	}
	return endpoint{unix.AF_INET6, to}
}

// dial starts a non-blocking connection.
func (e *endpoint) dial() (fd int, err error) {
	fd, err = unix.Socket(e.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // a TCP socket has it
	if err = unix.Connect(fd, e.to); err != nil && err != unix.EINPROGRESS {
		sysClose(fd, false)
		return -1, err
	}
	return fd, nil
}

// sysClose closes a socket; with reset it leaves no TIME_WAIT behind.
func sysClose(fd int, reset bool) {
	if reset {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	_ = unix.Close(fd)
}

// socketError returns how a connection attempt ended.
func socketError(fd int) syscall.Errno {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return unix.EIO
	}
	return syscall.Errno(v)
}

// ownCPU returns the CPU time of the whole process so far.
func ownCPU() CPU {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return CPU{}
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return CPU{User: seconds(u.Utime), System: seconds(u.Stime)}
}
