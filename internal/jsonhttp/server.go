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

// grace is how long requests under way may take when a server ends.
const grace = time.Second

// Server is a role's control server. Unless it has a Token nobody has to say
// who he is, so that it listens on a loopback address only. On loopback it
// answers no page of another site that a browser on the same machine shows
// (see [Protect]).
type Server struct {
	Name       string // "load control", before each error
	Handler    http.Handler
	MaxRequest int64        // bytes of a request's body, at most
	Token      string       // callers must send Authorization: Bearer TOKEN; "": none
	Log        *slog.Logger // of failed connections, at level debug; nil: none
	Alive      *Alive       // hears of each request that is not refused as a stranger's; nil: nobody does
}

// HTTP returns the server with the bounds all of them have, for l. It fails
// if others than this machine can reach l.
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
	if !others { // who listens for others cannot know by which names they call it
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

// Serve answers on l until ctx ends, as the contexts of all requests then do.
// When it returns, l is closed and no request is under way.
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

// Protect answers 403 to whatever a page of another site, open in a browser
// on this machine, can send here, and bounds the rest to maxRequest bytes of
// body. Such a page can post without being asked for leave (the browser says
// so in Sec-Fetch-Site or Origin, see [http.CrossOriginProtection]), and it
// can give its own name the address 127.0.0.1 to count as the same site.
// Therefore only loopback addresses and localhost, which browsers resolve
// themselves, are answered: a name without a dot may be a stranger's, through
// a search domain.
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

// authorise answers 401 to whoever does not send the token, which no browser
// does of its own accord.
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

// ours says whether a request's Host header is a loopback address or
// localhost, which nobody else can own.
func ours(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport // without a port
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
	data, _ := json.Marshal(Problem{Error: err.Error(), Hint: errs.Hint(err)}) // two strings always can
	send(w, status, data)
}

// Fail refuses with 400 what is wrong by its input (see [errs.Usage]) and
// with 500 all else.
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
	_, _ = w.Write(append(data, '\n')) // the client has gone; it will ask again
}

// ReadBody reads a request whole. It has answered if ok is false.
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

// Read parses a request strictly: one document, without fields that out does
// not have. It has answered if it returns false.
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

// Index is [Query] that has answered if ok is false.
func Index(w http.ResponseWriter, r *http.Request, name string) (n int, ok bool) {
	n, err := Query(r, name)
	if err != nil {
		Reject(w, err)
	}
	return n, err == nil
}

// clock is a role's idea of the time.
type clock struct {
	UnixNS    int64 `json:"unix_ns"`
	SteppedNS int64 `json:"stepped_ns"` // see [wallclock.Reading]
}

// HandleClock adds GET /v1/clock, which [Client.Clock] asks.
func HandleClock(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) {
		now := wallclock.Now()
		Answer(w, clock{UnixNS: now.UnixNS, SteppedNS: now.SteppedNS()})
	})
}

// version says which program answers.
type version struct {
	Version string `json:"version"`
}

// HandleVersion adds GET /v1/version, which [Client.Version] asks.
func HandleVersion(mux *http.ServeMux, text string) {
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { Answer(w, version{Version: text}) })
}
