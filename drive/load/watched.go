package load

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// watched is a TCP connection of the pool, below TLS. It records what the libraries above it
// do not report: whether anything was received, and how the connection ended.
type watched struct {
	net.Conn
	written, heard atomic.Int64 // bytes
	ended          atomic.Pointer[ending]
}

// ending is how a connection ended, except by our own close.
type ending struct {
	err   error // io.EOF, or the operating system's
	acked int64 // bytes that the peer's kernel had acknowledged; -1 if unknown
}

// Read implements [net.Conn].
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.heard.Add(int64(n))
	w.note(err)
	return n, err
}

// Write implements [net.Conn].
func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.written.Add(int64(n))
	w.note(err)
	return n, err
}

// note records the first error that ends the connection, while the socket still exists.
func (w *watched) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || w.ended.Load() != nil {
		return
	}
	w.ended.CompareAndSwap(nil, &ending{err: err, acked: w.acked()})
}

// acked returns how many bytes the peer's kernel has acknowledged; -1 if unknown.
func (w *watched) acked() int64 {
	acked := int64(-1)
	if raw, ok := w.Conn.(syscall.Conn); ok {
		if rc, err := raw.SyscallConn(); err == nil {
			_ = rc.Control(func(fd uintptr) { acked = sysAcked(int(fd)) })
		}
	}
	return acked
}

// unread reports whether the peer closed the connection before it had received anything beyond
// the first before bytes; see [unread].
func (w *watched) unread(before int64) bool {
	e := w.ended.Load()
	if e == nil { // closed by TLS's own alert
		e = &ending{err: io.EOF, acked: w.acked()}
	}
	return (isEOF(e.err) || classify(e.err) == failEOF) && noneOf(e.acked, before)
}

// watchedOf returns the connection below one that [dialer.dial] made.
func watchedOf(conn net.Conn) *watched {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*watched)
}

// sysAcked returns how many bytes the peer's kernel has acknowledged; -1 if our kernel does
// not report it (before Linux 4.1).
func sysAcked(fd int) int64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return -1
	}
	return int64(info.Bytes_acked) - 1 // the SYN counts as one
}

// unread reports, for a socket that its peer has closed, whether everything written beyond the
// first before bytes arrived too late for any process to read. The peer's FIN acknowledges all
// earlier bytes. A reset does not, so it proves nothing.
func unread(fd int, before int64) bool { return noneOf(sysAcked(fd), before) }

func noneOf(acked, before int64) bool { return acked >= 0 && acked <= before }

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
