package load

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestAnsweredWhileWriting checks that responses that arrive before the request
// is written are read, with TLS as in plain text.
func TestAnsweredWhileWriting(t *testing.T) {
	tooLarge := func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	}
	echo := func(c net.Conn) { _, _ = io.Copy(c, c) }
	for _, tt := range []struct {
		scheme string
		handle func(net.Conn)
		status bool // all fail because of their status, otherwise all complete
	}{{"http", tooLarge, true}, {"https", secured(tooLarge), true}, {"tcp", echo, false}, {"tls", secured(echo), false}} {
		t.Run(tt.scheme, func(t *testing.T) {
			spec := quick(tt.scheme + "://" + tcpServer(t, tt.handle))
			spec.Connections, spec.Rate, spec.DurationS, spec.Arrival, spec.PayloadBytes = 1, 10, 0.3, Uniform, 32<<20
			if tt.scheme == "https" || tt.scheme == "tls" {
				spec.TLS = &TLS{InsecureSkipVerify: true}
			}
			w := mustRun(t, spec).Total()
			if got := map[bool]int64{true: w.Failed[FailStatus], false: w.Completed}[tt.status]; got == 0 || got != w.Scheduled {
				t.Errorf("%+v", w.Account)
			}
		})
	}
}
