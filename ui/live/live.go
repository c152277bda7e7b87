// Package live serves pages whose documents change while somebody looks at them.
//
//	GET  /?token=T       lets a browser in, by a cookie
//	GET  /PREFIX/        the page of package ui, the same for all documents
//	GET  page.json?QUERY the document that the query names
//	GET  events?QUERY    server-sent events: its version and status, whenever they change
//	POST act             what a reader asks for
//
// Pages fetch their document again when its version has changed. No state is kept per reader: a
// late one, or one that was too slow and was dropped, starts from the current state. Requests
// without the cookie, with a Host other than a loopback address, or from another site's page are
// refused.
package live

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/ui"
)

// Source has the documents. Its methods must be safe for concurrent use.
type Source interface {
	// State is cheap. It fails for a query that names nothing.
	State(query url.Values) (State, error)
	// Document returns the document that a query names, as JSON.
	Document(ctx context.Context, query url.Values) ([]byte, error)
	// Act does what a reader asks for.
	Act(ctx context.Context, a Action) error
	// Changed returns a channel that is closed when a state may have changed.
	Changed() <-chan struct{}
}

// State is the current state of a document.
type State struct {
	// Version changes with the document.
	Version string `json:"version"`
	// Status is sent with every event; nil if the document says it all.
	Status any `json:"status,omitempty"`
	// Quiet: no state changes until the source says so, and readers do not poll.
	Quiet bool `json:"-"`
}

// Action is what a reader asks for.
type Action struct {
	Do    string `json:"do"`              // "start", "stop" or "resume"
	Run   string `json:"run,omitempty"`   // to stop or to resume, by its ID
	Study string `json:"study,omitempty"` // to start
}

// Limits of readers and their requests.
const (
	maxReaders   = 64
	maxRequest   = 16 << 10
	writeTimeout = 10 * time.Second // of one event: a reader that takes longer is dropped
)

// Server serves the pages of one source.
type Server struct {
	source  Source
	poll    time.Duration
	token   [sha256.Size]byte
	cookie  http.Cookie
	secret  [sha256.Size]byte // of the cookie
	prefix  string
	readers atomic.Int64

	page   []byte
	policy string
	// patience is writeTimeout, except in tests.
	patience time.Duration

	mu     sync.Mutex
	states map[string]known // by query, while polling
	// current counts the readers that have all states from before a channel is closed.
	current map[<-chan struct{}]int64
}

// known is a state that readers share for half a poll, or until its source changes.
type known struct {
	State
	at      time.Time
	changed <-chan struct{}
}

// New returns a server, and the path and query of the address that lets a browser in. poll is
// how often to look for changes that the source is not told of; 0 for never.
func New(source Source, poll time.Duration) (s *Server, entrance string) {
	token, secret := rand.Text(), rand.Text()
	s = &Server{source: source, poll: poll, patience: writeTimeout, token: sha256.Sum256([]byte(token)), secret: sha256.Sum256([]byte(secret)),
		prefix: "/" + rand.Text() + "/", states: map[string]known{}, current: map[<-chan struct{}]int64{}}
	// Cookies know no ports. The path keeps this one from other servers on the loopback.
	s.cookie = http.Cookie{Name: "meshtrial", Value: secret, Path: s.prefix, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	s.page, s.policy = ui.Served()
	return s, "/?token=" + token
}

// Serve answers on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.http().Serve(ctx, l) }

// Check refuses a listener that others than this machine can reach.
func (s *Server) Check(l net.Listener) error {
	_, err := s.http().HTTP(l)
	return err
}

func (s *Server) http() jsonhttp.Server {
	return jsonhttp.Server{Name: "page", Handler: s.handler(), MaxRequest: maxRequest}
}

// Linger returns when no page is open any more, or after a limit. Pages close after a last status,
// once they have its document.
func (s *Server) Linger(limit time.Duration) {
	ticker := time.NewTicker(min(limit, 20*time.Millisecond))
	defer ticker.Stop()
	for end := time.Now().Add(limit); s.readers.Load() > 0 && time.Now().Before(end); {
		<-ticker.C
	}
}

// Settle returns once all readers have the current state, or after a limit.
func (s *Server) Settle(limit time.Duration) {
	ticker := time.NewTicker(min(limit, time.Millisecond))
	defer ticker.Stop()
	for end := time.Now().Add(limit); !s.settled() && time.Now().Before(end); {
		<-ticker.C
	}
}

func (s *Server) settled() bool {
	changed := s.source.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[changed] >= s.readers.Load()
}

// wait returns false when a reader has gone, and true when it is to look for a new state.
func (s *Server) wait(ctx context.Context, changed <-chan struct{}, tick <-chan time.Time) bool {
	count := func(by int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current[changed] += by; s.current[changed] == 0 {
			delete(s.current, changed)
		}
	}
	count(1)
	defer count(-1)
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-tick:
	}
	return true
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.enter)
	mux.Handle("GET "+s.prefix+"{$}", s.known(s.showPage))
	mux.Handle("GET "+s.prefix+"page.json", s.known(s.document))
	mux.Handle("GET "+s.prefix+"events", s.known(s.events))
	mux.Handle("POST "+s.prefix+"act", s.known(s.act))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", s.policy)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		mux.ServeHTTP(w, r)
	})
}

// same compares in constant time.
func same(text string, want [sha256.Size]byte) bool {
	got := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

var errStranger = errs.WithHint(errors.New("this page is for whoever started it"), "open the address that meshtrial printed")

// enter gives whoever knows the token the cookie.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if !same(r.URL.Query().Get("token"), s.token) {
		jsonhttp.Refuse(w, http.StatusForbidden, errStranger)
		return
	}
	http.SetCookie(w, &s.cookie)
	http.Redirect(w, r, s.prefix, http.StatusSeeOther)
}

// known refuses whoever has no cookie.
func (s *Server) known(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(s.cookie.Name)
		if err != nil || !same(cookie.Value, s.secret) {
			jsonhttp.Refuse(w, http.StatusForbidden, errStranger)
			return
		}
		next(w, r)
	})
}

func (s *Server) showPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(s.page) // the reader has gone
}

func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	document, err := s.source.Document(r.Context(), r.URL.Query())
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document) // the reader has gone
}

func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	// Browsers send the origin with each POST. A request without one is not from our page.
	if origin := r.Header.Get("Origin"); origin != "http://"+r.Host {
		jsonhttp.Refuse(w, http.StatusForbidden, errors.New("the request comes from a page of another site"))
		return
	}
	var a Action
	if !jsonhttp.Read(w, r, &a) {
		return
	}
	if err := s.source.Act(r.Context(), a); err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	jsonhttp.Answer(w, struct{}{})
}

// state is that of a query. Readers that poll share an answer that is at most half a poll old, so
// that a single reader gets a new one at each poll.
func (s *Server) state(query url.Values, changed <-chan struct{}) (State, error) {
	if s.poll == 0 {
		return s.source.State(query)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := query.Encode()
	if k, ok := s.states[key]; ok && k.changed == changed && time.Since(k.at) < s.poll/2 {
		return k.State, nil
	}
	state, err := s.source.State(query)
	if err != nil {
		return state, err
	}
	if len(s.states) > maxReaders { // also those of readers that are gone
		clear(s.states)
	}
	s.states[key] = known{state, time.Now(), changed}
	return state, nil
}

// events sends a reader each state of its document, until reader or server ends.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.readers.Add(1) > maxReaders {
		s.readers.Add(-1)
		jsonhttp.Refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d pages are open already", maxReaders))
		return
	}
	defer s.readers.Add(-1)
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	var tick <-chan time.Time
	if s.poll > 0 {
		ticker := time.NewTicker(s.poll)
		defer ticker.Stop()
		tick = ticker.C
	}
	sent := ""
	for {
		changed := s.source.Changed()
		state, err := s.state(r.URL.Query(), changed)
		if err != nil {
			if sent == "" {
				jsonhttp.Fail(w, err)
			}
			return
		}
		data, err := json.Marshal(state)
		if err != nil {
			return
		}
		if string(data) != sent {
			sent = string(data)
			if out.SetWriteDeadline(time.Now().Add(s.patience)) != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil || out.Flush() != nil {
				return
			}
		}
		poll := tick
		if state.Quiet {
			poll = nil
		}
		if !s.wait(r.Context(), changed, poll) {
			return
		}
	}
}
