package stream

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampConn is a TCP connection that reads the kernel's receive timestamps
// (SO_TIMESTAMPNS, socket(7) and the kernel's
// Documentation/networking/timestamping.rst).
type stampConn struct {
	net.Conn
	raw    syscall.RawConn // nil: no kernel timestamps
	onRead func(waitedNS int64)
	// last is when the kernel received the newest bytes of the last read, or,
	// without a kernel timestamp, when the read returned; Unix nanoseconds.
	last int64

	// State of the current read, in fields so that the closure is allocated
	// once.
	into    []byte
	oob     [64]byte
	n, oobn int
	err     error
	take    func(fd uintptr) bool

	mu       sync.Mutex
	expected int // bytes that the next reads may wait for
	low      int // SO_RCVLOWAT; 0: not set
}

func newStampConn(conn net.Conn, onRead func(int64)) *stampConn {
	c := &stampConn{Conn: conn, onRead: onRead}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil || set != nil {
		return c
	}
	c.raw = raw
	c.take = func(fd uintptr) bool {
		for {
			c.n, c.oobn, _, _, c.err = unix.Recvmsg(int(fd), c.into, c.oob[:], 0)
			if c.err == unix.EAGAIN {
				c.await(int(fd))
				return false
			}
			if c.err != unix.EINTR {
				return true
			}
		}
	}
	return c
}

// expect sets the number of bytes that are certain to come. The next reads, up to
// that many bytes, may wait until all or part of them are there. 0 cancels it, also
// for a read in progress.
func (c *stampConn) expect(bytes int) {
	if c.raw == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected = bytes; bytes == 0 && c.low > 1 {
		_ = c.raw.Control(func(fd uintptr) { c.setLow(int(fd), 1) }) // fails if the connection is closed
	}
}

// await makes the kernel wake up the current read, which found nothing, only when
// the expected bytes are there: the socket becomes readable at SO_RCVLOWAT bytes
// (socket(7)) or at the connection's end. The kernel checks again when the mark is
// set, so bytes that arrived just before are not missed.
func (c *stampConn) await(fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if low := max(c.expected, 1); low != max(c.low, 1) {
		c.setLow(fd, low)
	}
}

func (c *stampConn) setLow(fd, low int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low) == nil {
		c.low = low
	}
}

// arrived records that some of the expected bytes were read.
func (c *stampConn) arrived(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected = max(c.expected-bytes, 0)
}

// Read reads the available bytes.
func (c *stampConn) Read(b []byte) (int, error) {
	if c.raw == nil || len(b) == 0 {
		n, err := c.Conn.Read(b)
		c.last = time.Now().UnixNano()
		if c.onRead != nil && n > 0 {
			c.onRead(-1)
		}
		return n, err
	}
	c.into = b
	err := c.raw.Read(c.take)
	c.last = time.Now().UnixNano()
	c.into = nil
	switch {
	case err != nil:
		return 0, err
	case c.err != nil:
		return 0, os.NewSyscallError("recvmsg", c.err)
	case c.n == 0:
		return 0, io.EOF
	}
	c.arrived(c.n)
	waited := c.waited()
	if c.onRead != nil {
		c.onRead(waited)
	}
	if waited > 0 { // use the time of receipt, not of the read
		c.last -= waited
	}
	return c.n, nil
}

// waited returns the time since the kernel received the newest bytes.
func (c *stampConn) waited() int64 {
	oob := c.oob[:c.oobn]
	if len(oob) < unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{}))) {
		return -1
	}
	header := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	if header.Level != unix.SOL_SOCKET || header.Type != unix.SCM_TIMESTAMPNS {
		return -1
	}
	stamp := (*unix.Timespec)(unsafe.Pointer(&oob[unix.CmsgLen(0)]))
	return max(0, c.last-stamp.Nano())
}
