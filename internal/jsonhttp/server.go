package jsonhttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wallclock"
)

// grace is how long requests in progress may take when a server shuts down.
const grace = time.Second

// Server is a role's control server. Without a Token it does not authenticate
// clients, and so listens only on a loopback address. On loopback it rejects
// requests from other sites' pages in a browser on the same machine (see
// [Protect]).
type Server struct {
	Name       string // "load control", which precedes each error
	Handler    http.Handler
	MaxRequest int64        // maximum size of a request's body, in bytes
	Token      string       // callers must send Authorization: Bearer TOKEN; "": none
	Log        *slog.Logger // for failed connections, at level debug; nil: none
	Alive      *Alive       // records each request that is not rejected as foreign; may be nil
}

// HTTP returns an HTTP server for l with the limits that all of them have. It
// fails if other machines can reach l without a token.
func (s Server) HTTP(l net.Listener) (*http.Server, error) {
	a, ok := l.Addr().(*net.TCPAddr)
	others := ok && !a.IP.IsLoopback()
	if others && s.Token == "" {
		err := errs.Usage("%s: %s is no loopback address, and whoever reaches it commands this process", s.Name, a)
		return nil, errs.WithHint(err, "listen on 127.0.0.1:%d, and reach it from elsewhere by kubectl port-forward or ssh -L", a.Port)
	}
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	handler := http.MaxBytesHandler(s.Alive.listen(s.Handler), s.MaxRequest)
	if s.Token != "" {
		handler = authorise(handler, s.Token)
	}
	if !others { // a server for other machines cannot know by which names they call it
		handler = Protect(handler, s.MaxRequest)
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       10 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}, nil
}

// Serve serves l until ctx ends, which also ends the contexts of all requests.
// When it returns, l is closed and no request is in progress.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	server, err := s.HTTP(l)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("%s: %w", s.Name, err)
	case <-ctx.Done():
	}
	limited, end := context.WithTimeout(context.Background(), grace)
	defer end()
	if server.Shutdown(limited) != nil {
		server.Close()
	}
	<-failed
	return nil
}

// Protect answers 403 to anything that another site's page, open in a browser
// on this machine, can send here, and limits the bodies of other requests to
// maxRequest bytes. Such a page can post without permission (the browser
// reveals it in Sec-Fetch-Site or Origin, see [http.CrossOriginProtection]),
// and can resolve its own name to 127.0.0.1 to count as the same site.
// Therefore Protect accepts only loopback addresses and localhost, which
// browsers resolve themselves: a name without a dot may belong to a stranger
// through a search domain.
func Protect(next http.Handler, maxRequest int64) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w, http.StatusForbidden, errors.New("the request comes from a page of another site"))
	}))
	bounded := cross.Handler(http.MaxBytesHandler(next, maxRequest))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ours(r.Host) {
			err := fmt.Errorf("%.80q is no name of this machine's loopback address", r.Host)
			Refuse(w, http.StatusForbidden, errs.WithHint(err, "call it by 127.0.0.1"))
			return
		}
		bounded.ServeHTTP(w, r)
	})
}

// authorise answers 401 to requests without the token, which no browser sends
// on its own.
func authorise(next http.Handler, token string) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			Refuse(w, http.StatusUnauthorized, errors.New("the request lacks the token of this server"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ours reports whether a request's Host header is a loopback address or
// localhost, which nobody else can own.
func ours(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport // no port
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return a.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// Answer sends value as JSON.
func Answer(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		Refuse(w, http.StatusInternalServerError, err)
		return
	}
	send(w, http.StatusOK, data)
}

// Refuse sends err and its hint as a [Problem].
func Refuse(w http.ResponseWriter, status int, err error) {
	data, _ := json.Marshal(Problem{Error: err.Error(), Hint: errs.Hint(err)}) // cannot fail for two strings
	send(w, status, data)
}

// Fail rejects invalid input (see [errs.Usage]) with 400 and reports other
// errors with 500.
func Fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errs.Code(err) == errs.CodeUsage {
		status = http.StatusBadRequest
	}
	Refuse(w, status, err)
}

func send(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // on an error the client has gone, and will ask again
}

// ReadBody reads the entire body of a request. If ok is false, it has sent a
// response.
func ReadBody(w http.ResponseWriter, r *http.Request) (data []byte, ok bool) {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		return data, true
	}
	status := http.StatusBadRequest
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", large.Limit)
	}
	Refuse(w, status, err)
	return nil, false
}

// Read parses a request strictly: one document, without fields that out lacks.
// If it returns false, it has sent a response.
func Read(w http.ResponseWriter, r *http.Request, out any) bool {
	data, ok := ReadBody(w, r)
	if !ok {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(out)
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return true
		}
		err = errors.New("text after the document")
	}
	Refuse(w, http.StatusBadRequest, fmt.Errorf("at byte %d: %w", dec.InputOffset(), err))
	return false
}

// clock is the state of a role's clock.
type clock struct {
	UnixNS    int64 `json:"unix_ns"`
	SteppedNS int64 `json:"stepped_ns"` // see [wallclock.Reading]
}

// HandleClock adds GET /v1/clock, which [Client.Clock] calls.
func HandleClock(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) {
		now := wallclock.Now()
		Answer(w, clock{UnixNS: now.UnixNS, SteppedNS: now.SteppedNS()})
	})
}

// version identifies the running program.
type version struct {
	Version string `json:"version"`
}

// HandleVersion adds GET /v1/version, which [Client.Version] calls.
func HandleVersion(mux *http.ServeMux, text string) {
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { Answer(w, version{Version: text}) })
}
