// Package loopback serves on loopback ports for the duration of a test.
package loopback

import (
	"net"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Listen returns a listener that is closed at the end of the test.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// Serve runs a server until the test ends, which stops it and waits for it, and returns
// its address. The test fails if serve does.
func Serve(t testing.TB, serve func(net.Listener) error, stop func()) (address string) {
	t.Helper()
	l := Listen(t)
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
