package openmetrics

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// Path is where a [Server] has its page.
const Path = "/metrics"

// Server answers GET [Path]. Nil serves nothing.
type Server struct {
	listener net.Listener
	http     *http.Server // nil before [Server.Serve]
	ended    chan struct{}
}

// Listen takes an address, HOST:PORT or a port of the loopback address; nil for "". Close the
// server at the end.
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

// URL is that of the page.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + Path }

// Serve begins to answer with pages that fill makes; requests may call it at the same time.
func (s *Server) Serve(fill func(*Page)) {
	if s == nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		var page Page
		var text bytes.Buffer
		fill(&page)
		if err := page.Write(&text); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", ContentType)
		_, _ = w.Write(text.Bytes()) // the client has gone; it will ask again
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

// Close ends the server. Requests under way have a second.
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

// listen listens at an address. One without a host is refused: it would be open to the
// network though nobody said so.
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
