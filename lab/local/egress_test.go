package local

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/testing/must"
)

// startEgress serves an egress and returns a client that uses it.
func startEgress(t *testing.T, e egress) *http.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	go e.serve(listener) // ends with the listener
	proxy := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the test server's certificate
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestEgress(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Content-Digest", "sha256:1")
		io.WriteString(w, "hello "+r.URL.Path)
	})
	plain, secure := httptest.NewServer(hello), httptest.NewTLSServer(hello)
	defer plain.Close()
	defer secure.Close()
	var dialed []string
	client := startEgress(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		if strings.HasPrefix(address, "registry.invalid:") {
			return nil, &net.DNSError{Err: "no such host", Name: "registry.invalid", IsNotFound: true}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	for _, server := range []*httptest.Server{plain, secure} {
		response, err := client.Get(server.URL + "/v2/")
		must.OK(t, err)
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != "hello /v2/" || response.Header.Get("Docker-Content-Digest") != "sha256:1" {
			t.Errorf("%q, %v", body, response.Header)
		}
		if !slices.Contains(dialed, server.Listener.Addr().String()) {
			t.Errorf("%s was not reached through the egress but: %v", server.URL, dialed)
		}
	}
	if _, err := client.Get("https://registry.invalid/v2/"); err == nil || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("a registry that is not: %v", err)
	}
}

func TestHostNameservers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	put(t, path, "# comment\nsearch example.com\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nnameserver\n")
	if got := hostNameservers(path); !slices.Equal(got, []string{"192.0.2.53:53", "[2001:db8::53]:53"}) {
		t.Errorf("%v", got)
	}
	if got := hostNameservers(path + ".none"); got != nil {
		t.Errorf("%v", got)
	}
	if _, err := (hostNetwork{}).DialContext(context.Background(), "tcp", "registry.invalid:443"); err == nil || !strings.Contains(err.Error(), "no name server") {
		t.Errorf("%v", err)
	}
}

// TestHostNetwork dials from another network namespace and back.
func TestHostNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changing namespaces takes root")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer listener.Close()
	here, err := os.Open("/proc/thread-self/ns/net")
	must.OK(t, err)
	defer here.Close()
	err = thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			conn.Close()
			return errors.New("the new namespace reaches the old one's loopback")
		}
		conn, err := hostNetwork{namespace: int(here.Fd())}.DialContext(context.Background(), "tcp", listener.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
