// Package live serves pages whose documents change while somebody looks at them.
//
//	GET  /?token=T       lets a browser in, by a cookie
//	GET  /PREFIX/        the page of package ui, the same for all documents
//	GET  page.json?QUERY the document that the query names
//	GET  events?QUERY    server-sent events: its version and status, whenever they change
//	POST act             what a reader asks for
//
// Pages re-read their document when its version has changed. Nothing is kept for a reader: one
// that comes late, or was too slow and was dropped, begins with what is there. Whoever has no
// cookie, calls the server by another name than a loopback address, or comes from a page of
// another site is refused.
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
	// Document is the JSON of the document that a query names.
	Document(ctx context.Context, query url.Values) ([]byte, error)
	// Act does what a reader asks for.
	Act(ctx context.Context, a Action) error
	// Changed returns a channel that is closed when a state may have changed.
	Changed() <-chan struct{}
}

// State is what a document is at the moment.
type State struct {
	// Version changes with the document.
	Version string `json:"version"`
	// Status goes with every event; nil if the document has it all.
	Status any `json:"status,omitempty"`
}

// Action is what a reader asks for.
type Action struct {
	Do    string `json:"do"`              // "start", "stop" or "resume"
	Run   string `json:"run,omitempty"`   // to stop or to resume, by its ID
	Study string `json:"study,omitempty"` // to start
}

// Limits of what is kept for readers and taken from them.
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

	mu     sync.Mutex
	states map[string]known // by query, while polling

	// patience is writeTimeout, but in tests.
	patience time.Duration
	page     []byte
	policy   string
}

// known is a state that readers share for a while, unless its source is told.
type known struct {
	State
	at      time.Time
	changed <-chan struct{}
}

// New returns a server, and the path and query of the address that lets a browser in. poll is
// how often states are looked at that change without their source being told; 0 for never.
func New(source Source, poll time.Duration) (s *Server, entrance string) {
	token, secret := rand.Text(), rand.Text()
	s = &Server{source: source, poll: poll, patience: writeTimeout, token: sha256.Sum256([]byte(token)), secret: sha256.Sum256([]byte(secret)),
		prefix: "/" + rand.Text() + "/", states: map[string]known{}}
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

// Linger returns when no page is open any more, or after a limit. Pages that are told of a last
// status load their last document and go.
func (s *Server) Linger(limit time.Duration) {
	ticker := time.NewTicker(min(limit, 20*time.Millisecond))
	defer ticker.Stop()
	for end := time.Now().Add(limit); s.readers.Load() > 0 && time.Now().Before(end); {
		<-ticker.C
	}
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
	// It may wait for the end of a trial, longer than requests may take to come in.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	document, err := s.source.Document(r.Context(), r.URL.Query())
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document) // the reader has gone
}

func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	// Browsers name the origin of each POST. One that names none is no page of ours.
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

// state is that of a query. Those who poll it share what one of them was told in the last half of
// a poll: not the whole, so that one alone is told at each poll.
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
	if len(s.states) > maxReaders { // of readers that have gone, too
		clear(s.states)
	}
	s.states[key] = known{state, time.Now(), changed}
	return state, nil
}

// events tells a reader of each state of its document, until one of the two goes.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.readers.Add(1) > maxReaders {
		s.readers.Add(-1)
		jsonhttp.Refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d pages are open already", maxReaders))
		return
	}
	defer s.readers.Add(-1)
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil {
		jsonhttp.Fail(w, err)
		return
	}
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
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-tick:
		}
	}
}
