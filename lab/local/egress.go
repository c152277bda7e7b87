package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
)

// egressAddress is the address of containerd's HTTP proxy, on the loopback of the lab's
// network namespace.
const egressAddress = "127.0.0.1:3128"

// egressPatience bounds connecting to a registry, so that a pod's event reports an
// unreachable registry soon.
const egressPatience = 10 * time.Second

// egress is an HTTP proxy that connects by a function that dials from the host's network.
// containerd pulls images through it, since the lab's network has no route out and the host
// neither forwards nor translates addresses for it.
type egress func(ctx context.Context, network, address string) (net.Conn, error)

// hostNetwork dials from another network namespace. A socket belongs to the namespace of
// its thread, so each dial uses a dedicated thread.
type hostNetwork struct {
	namespace   int      // file descriptor
	nameservers []string // addresses with ports
}

// hostNameservers reads the host's resolver configuration, which may be hidden once the
// lab has mounted its own /run.
func hostNameservers(path string) []string {
	data, _ := os.ReadFile(path)
	var servers []string
	for _, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, net.JoinHostPort(fields[1], "53"))
		}
	}
	return servers
}

// DialContext connects to an address. It resolves names with the host's name servers.
func (h hostNetwork) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return h.dialIP(ctx, network, address)
	}
	if len(h.nameservers) == 0 {
		return nil, fmt.Errorf("look up %s: this machine has no name server", host)
	}
	attempt := 0
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		server := h.nameservers[attempt%len(h.nameservers)]
		attempt++
		return h.dialIP(ctx, network, server)
	}}
	found, err := resolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	var all []error
	for _, ip := range found {
		conn, err := h.dialIP(ctx, network, net.JoinHostPort(ip, port))
		if err == nil {
			return conn, nil
		}
		all = append(all, err)
	}
	return nil, errors.Join(all...)
}

func (h hostNetwork) dialIP(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := thread.Apart(func() error {
		if err := unix.Setns(h.namespace, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the host's network: %w", err)
		}
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// serve serves requests until the listener is closed.
func (e egress) serve(listener net.Listener) error {
	plain := &httputil.ReverseProxy{ // for registries without TLS
		Rewrite:   func(*httputil.ProxyRequest) {}, // the request line already has the target
		Transport: &http.Transport{DialContext: e, DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	server := &http.Server{
		ReadHeaderTimeout: egressPatience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodConnect {
				e.connect(w, r)
				return
			}
			plain.ServeHTTP(w, r)
		}),
	}
	return server.Serve(listener)
}

// connect opens a tunnel. On a failure the status line has the reason, which containerd
// reports.
func (e egress) connect(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), egressPatience, fmt.Errorf("%s does not answer", r.Host))
	defer cancel()
	out, err := e(ctx, "tcp", r.Host)
	in, buffered, hijack := w.(http.Hijacker).Hijack()
	if hijack != nil {
		if err == nil {
			out.Close()
		}
		return
	}
	defer in.Close()
	if err != nil {
		reason := strings.Join(strings.Fields(err.Error()), " ")
		if cause := context.Cause(ctx); cause != nil {
			reason = cause.Error()
		}
		fmt.Fprintf(in, "HTTP/1.1 502 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", reason)
		return
	}
	defer out.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go func() { io.Copy(out, buffered); ended <- struct{}{} }()
	go func() { io.Copy(in, out); ended <- struct{}{} }()
	<-ended // closing both ends the other copy
}
