package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

func TestConnectionsOverTheLimitAreClosed(t *testing.T) {
	w := start(t, func(o *Options) { o.MaxConnections = 2 })
	for range 2 {
		conn := dial(t, w.addr[protocol.TCP])
		fmt.Fprint(conn, "x")
		must.OK(t, must.Err(io.ReadFull(conn, make([]byte, 1))))
	}
	third := dial(t, w.addr[protocol.HTTP1])
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("the third connection was served")
	}
	if n := w.Counters().Protocols[protocol.HTTP1].Refused; n != 1 {
		t.Errorf("counted %d refused", n)
	}
}

func TestBodyLimit(t *testing.T) {
	w := start(t, func(o *Options) { o.MaxBodyBytes = 1000 })
	big := strings.Repeat("x", 1001)
	for _, echo := range []int64{control.EchoBody, 10} {
		w.set(t, func(c *control.Config) { c.ResponseBytes = echo })
		if code, _ := httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP1], big, nil); code != 413 {
			t.Errorf("response_bytes %d: status %d for a known length", echo, code)
		}
		req, _ := http.NewRequest("POST", "http://"+w.addr[protocol.HTTP2], io.MultiReader(strings.NewReader(big)))
		resp, err := client(t, protocol.HTTP2).Do(req)
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Errorf("response_bytes %d: status %d for an unknown length", echo, resp.StatusCode)
		}
		if code, _ := httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP1], big[1:], nil); code != 200 {
			t.Errorf("response_bytes %d: status %d at the limit", echo, code)
		}
	}
	if _, err := unary(t.Context(), t, w.addr[protocol.GRPC], big); err == nil {
		t.Error("gRPC took a message over the limit")
	}
}

func TestHeaderLimit(t *testing.T) {
	w := start(t, func(o *Options) { o.MaxHeaderBytes = 4096 })
	conn := dial(t, w.addr[protocol.HTTP1])
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 20_000))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.OK(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestBodyBudget(t *testing.T) {
	w := start(t, func(o *Options) { o.BodyMemoryBytes = 100_000 })
	c := client(t, protocol.HTTP1)
	url := "http://" + w.addr[protocol.HTTP1]
	if code, _ := httpCall(t, c, url, strings.Repeat("x", 100_001), nil); code != 503 {
		t.Errorf("over the budget: %d", code)
	}
	if code, _ := httpCall(t, c, url, strings.Repeat("x", 100_000), nil); code != 200 {
		t.Errorf("within the budget: %d", code)
	}
	if left := w.bodies.left.Load(); left != 100_000 {
		t.Errorf("%d left of the budget", left)
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	w := start(t, func(o *Options) { o.ReadTimeout = 100 * time.Millisecond; o.IdleTimeout = 100 * time.Millisecond })
	for _, sent := range []string{
		"GET / HT", // never ends its header
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nfew", // nor its body
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",                            // served, then idle
	} {
		conn := dial(t, w.addr[protocol.HTTP1])
		fmt.Fprint(conn, sent)
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: the connection stayed open", sent)
		}
	}
	conn := dial(t, w.addr[protocol.TCP])
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("idle TCP: %v", err)
	}
}
