package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/bench/internal/child"
)

// serverMode is the argument with which this program runs the server of the
// truth part.
const serverMode = "truth-server"

// truthServer answers HTTP/1.1 requests one at a time, in order of arrival,
// each after its service time. It never sleeps: on its own core it notices a
// request, and ends a service time, within about a microsecond.
type truthServer struct {
	epoll   int
	listen  int
	next    func() int64
	queue   []int // connections with a request, in order of arrival
	partial map[int][]byte
	start   time.Time
	done    int64   // when the request in service will be answered, ns
	noted   []int64 // when each was answered, ns of the wall clock
}

// serve reads a service from in, prints its address, and serves until in ends.
// Then it prints when it answered each request.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s service
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("truth server: %w", err)
	}
	ctx, cancel := child.While(ctx, in)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer file.Close()
	listen := int(file.Fd())
	if err := unix.SetNonblock(listen, true); err != nil {
		return err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(epoll)
	t := &truthServer{epoll: epoll, listen: listen, next: s.times(), partial: map[int][]byte{}, start: time.Now()}
	if err := t.watch(listen); err != nil {
		return err
	}
	fmt.Fprintln(out, l.Addr())
	runtime.LockOSThread()
	for ctx.Err() == nil {
		if err := t.turn(); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(t.noted)
}

func (t *truthServer) watch(fd int) error {
	return unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// turn reads new requests and answers finished ones.
func (t *truthServer) turn() error {
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(t.epoll, events[:], 0)
	if err != nil && err != unix.EINTR {
		return err
	}
	now := int64(time.Since(t.start))
	for i := range max(0, n) {
		if fd := int(events[i].Fd); fd == t.listen {
			if err := t.accept(); err != nil {
				return err
			}
		} else {
			t.read(fd, now)
		}
	}
	for len(t.queue) > 0 && now >= t.done {
		t.noted = append(t.noted, time.Now().UnixNano())
		_, _ = unix.Write(t.queue[0], []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) // an error means that the client has gone
		t.queue = t.queue[1:]
		if len(t.queue) > 0 {
			t.done += t.next() // it was waiting, so its service began immediately
		}
	}
	return nil
}

func (t *truthServer) accept() error {
	fd, _, err := unix.Accept4(t.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err == unix.EAGAIN {
		return nil
	}
	if err != nil {
		return err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return t.watch(fd)
}

func (t *truthServer) read(fd int, now int64) {
	var buf [4096]byte
	n, err := unix.Read(fd, buf[:])
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if n <= 0 {
		delete(t.partial, fd)
		unix.Close(fd)
		return
	}
	request := append(t.partial[fd], buf[:n]...)
	if !bytes.HasSuffix(request, []byte("\r\n\r\n")) {
		t.partial[fd] = request
		return
	}
	delete(t.partial, fd)
	t.queue = append(t.queue, fd)
	if len(t.queue) == 1 {
		t.done = now + t.next()
	}
}
