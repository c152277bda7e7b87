package openmetrics

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// Path is the path of a [Server]'s page.
const Path = "/metrics"

// Server serves GET [Path]. A nil Server serves nothing.
type Server struct {
	listener net.Listener
	http     *http.Server // nil before [Server.Serve]
	ended    chan struct{}
	fill     func(*Page)

	mu   sync.Mutex
	held []byte // the page until [Server.Release]; nil: made for each request
}

// Listen listens on an address, HOST:PORT or a port of the loopback address; it returns nil
// for "". Close the server when done.
func Listen(address string) (*Server, error) {
	if address == "" {
		return nil, nil
	}
	l, err := listen(address)
	if err != nil {
		return nil, err
	}
	return &Server{listener: l, ended: make(chan struct{})}, nil
}

// URL returns the URL of the page.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + Path }

// Serve starts serving pages filled by fill, which may be called concurrently.
func (s *Server) Serve(fill func(*Page)) {
	if s == nil {
		return
	}
	s.fill = fill
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		text := s.held
		s.mu.Unlock()
		if text == nil {
			var err error
			if text, err = s.page(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		w.Header().Set("Content-Type", ContentType)
		_, _ = w.Write(text) // on an error the client has gone, and will ask again
	})
	handler := http.Handler(mux)
	if s.listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		handler = jsonhttp.Protect(handler, 0)
	}
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(s.listener) // until it is closed
	}()
}

// page returns the current page.
func (s *Server) page() ([]byte, error) {
	var page Page
	var text bytes.Buffer
	s.fill(&page)
	err := page.Write(&text)
	return text.Bytes(), err
}

// Hold makes the page now and serves it until [Server.Release], so that a request costs
// little. If that fails, each request still makes its own.
func (s *Server) Hold() {
	text, err := s.page()
	if err != nil {
		return // requests report it
	}
	s.mu.Lock()
	s.held = text
	s.mu.Unlock()
}

// Release lets each request make its own page again.
func (s *Server) Release() {
	s.mu.Lock()
	s.held = nil
	s.mu.Unlock()
}

// Close shuts the server down, leaving requests in progress one second.
func (s *Server) Close() {
	switch {
	case s == nil:
		return
	case s.http == nil:
		s.listener.Close()
		return
	}
	limited, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	if s.http.Shutdown(limited) != nil {
		s.http.Close()
	}
	<-s.ended
}

// listen listens on an address. It rejects one without a host, which would be open to the
// network although nobody asked for that.
func listen(address string) (net.Listener, error) {
	if port, err := strconv.ParseUint(address, 10, 16); err == nil {
		address = net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10))
	}
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return nil, errs.WithHint(errs.Usage("metrics: %q is not HOST:PORT: %v", address, err), "a port alone, such as 9464, is one of this machine's loopback address")
	case host == "":
		return nil, errs.WithHint(errs.Usage("metrics: %q would listen on every address of this machine", address),
			"%s is for this machine alone, 0.0.0.0:%s for every address", port, port)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(fmt.Errorf("metrics: %w", err), errs.CodeUsage), "give an address of this machine and a free port; port 0 is any free one")
	}
	return l, nil
}
