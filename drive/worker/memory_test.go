package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/race"
)

// floodedBody limits the bodies that a flooded worker may hold, and
// floodedLimit the total memory of its process. Connections, their buffers and
// the runtime need some memory in addition to the bodies.
const (
	floodedBody  = 16 << 20
	floodedLimit = 160 << 20
	floodedEnv   = "MESHTRIAL_TEST_FLOODED"
)

// TestFloodedProcess is not a test: it is the worker that
// TestFloodedWorkerKeepsItsMemory starts as a separate process.
func TestFloodedProcess(t *testing.T) {
	path := os.Getenv(floodedEnv)
	if path == "" {
		t.Skip("it serves another test")
	}
	w := start(t, func(o *Options) {
		o.MaxConnections, o.MaxBodyBytes, o.BodyMemoryBytes = 600, 1<<20, floodedBody
		o.ReadTimeout, o.IdleTimeout = 20*time.Second, 20*time.Second
	})
	must.OK(t, must.Err(w.ctl.Update(t.Context(), func(c *control.Config) { c.ResponseBytes, c.Concurrency, c.Queue = control.EchoBody, 4, 100 })))
	must.OK(t, os.WriteFile(path, []byte(w.addr[protocol.HTTP1]+"\n"), 0o600))
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other test ends
}

// A worker that is flooded, and sent slow and endless bodies, stays within its
// limit and continues to answer. Its peak is the kernel's own account of the
// process.
func TestFloodedWorkerKeepsItsMemory(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("it takes some seconds, and the race detector takes memory of its own")
	}
	path := filepath.Join(t.TempDir(), "address")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestFloodedProcess$")
	process.Env = append(os.Environ(), floodedEnv+"="+path)
	stdin, err := process.StdinPipe()
	must.OK(t, err)
	must.OK(t, process.Start())
	defer func() { stdin.Close(); _ = process.Wait() }()
	var http1 string
	eventually.Within(t, 3*time.Minute, "the worker comes up", func() (ended bool) {
		text, _ := os.ReadFile(path)
		http1, ended = strings.CutSuffix(string(text), "\n")
		return ended
	})
	flood(t, http1)
	if peak := peakOf(t, process.Process.Pid); peak > floodedLimit {
		t.Errorf("the worker held %d MiB, its bound is %d", peak>>20, floodedLimit>>20)
	} else {
		t.Logf("the worker held %d MiB at the most", peak>>20)
	}
	// It may still be busy closing connections of the flood.
	eventually.Holds(t, "200 after the flood", func() bool {
		resp, err := client(t, protocol.HTTP1).Post("http://"+http1, "", strings.NewReader("still there?"))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// flood sends what a worker must withstand: more connections than it accepts,
// endless bodies, slow bodies, and many large ones at once.
func flood(t *testing.T, address string) {
	t.Helper()
	block := []byte(strings.Repeat("x", 32<<10))
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(block), block)
	end := time.Now().Add(3 * time.Second)
	var wait sync.WaitGroup
	send := func(header string, each func(conn net.Conn) error) {
		wait.Go(func() {
			for time.Now().Before(end) {
				conn, err := net.DialTimeout("tcp", address, time.Second)
				if err != nil {
					return
				}
				_ = conn.SetDeadline(end.Add(time.Second))
				_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", header)
				for err == nil && time.Now().Before(end) {
					err = each(conn)
				}
				conn.Close()
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	for range 60 {
		send("Transfer-Encoding: chunked", func(conn net.Conn) error { // endless
			_, err := conn.Write(chunk)
			return err
		})
	}
	for range 300 {
		send("Content-Length: 1000000", func(conn net.Conn) error { // slow
			_, err := conn.Write(block[:1024])
			time.Sleep(50 * time.Millisecond)
			return err
		})
	}
	for range 60 {
		send("Content-Length: 1000000", func(conn net.Conn) error { // large, and the answer is never read
			for range 31 {
				if _, err := conn.Write(block); err != nil {
					return err
				}
			}
			time.Sleep(100 * time.Millisecond)
			return io.EOF
		})
	}
	for range 400 { // idle, over the limit
		send("Content-Length: 10", func(conn net.Conn) error {
			_, err := http.ReadResponse(bufio.NewReader(conn), nil)
			return err
		})
	}
	wait.Wait()
}

// peakOf returns the peak memory of a process, from /proc.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.OK(t, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			must.OK(t, err)
			return kib << 10
		}
	}
	t.Fatal("/proc says no VmHWM")
	return 0
}
