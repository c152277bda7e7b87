package live

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/ui"
)

// source has one document.
type source struct {
	mu      sync.Mutex
	version string
	changed chan struct{}
	asked   int // for states
	quiet   bool
	acts    []Action
	refuse  error
}

func (s *source) State(q url.Values) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if q.Get("run") == "none" {
		return State{}, errors.New("there is no such run")
	}
	return State{Version: s.version, Quiet: s.quiet}, nil
}

func (s *source) Document(_ context.Context, q url.Values) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(`{"version":"` + s.version + `"}`), nil
}

func (s *source) Act(_ context.Context, a Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts = append(s.acts, a)
	return s.refuse
}

func (s *source) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *source) change(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	close(s.changed)
	s.changed = make(chan struct{})
}

// served is a server of a source, and a browser that it let in.
func served(t *testing.T) (s *source, server *Server, base, entrance string, browser *http.Client) {
	t.Helper()
	s = &source{version: "1", changed: make(chan struct{})}
	server, entrance = New(s, 0)
	ctx, stop := context.WithCancel(t.Context())
	address := loopback.Serve(t, func(l net.Listener) error { return server.Serve(ctx, l) }, stop)
	jar, err := cookiejar.New(nil)
	must.OK(t, err)
	browser = &http.Client{Jar: jar}
	base = "http://" + address
	answer, err := browser.Get(base + entrance)
	must.OK(t, err)
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	page, _ := ui.Served()
	if answer.StatusCode != http.StatusOK || string(body) != string(page) || answer.Request.URL.RawQuery != "" {
		t.Fatalf("the entrance leads to %s, %d", answer.Request.URL, answer.StatusCode)
	}
	return s, server, base + server.prefix, base + entrance, browser
}

func TestPolicy(t *testing.T) {
	_, server, base, _, browser := served(t)
	answer, err := browser.Get(base)
	must.OK(t, err)
	defer answer.Body.Close()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(string(server.page), "http-equiv=\"Content-Security-Policy\"") {
		t.Errorf("policy %q, or one in the page too", policy)
	}
	if answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", answer.Header)
	}
}

// Nobody comes in without the token, and no page of another site has a browser do anything.
func TestStrangersAreRefused(t *testing.T) {
	s, _, base, entrance, browser := served(t)
	port := base[strings.LastIndex(strings.TrimSuffix(base, "/"), ":"):]
	port = port[:strings.IndexByte(port, '/')]
	for name, c := range map[string]struct {
		client *http.Client
		method string
		url    string
		host   string
		header map[string]string
		want   int
	}{
		"no cookie":             {&http.Client{}, "GET", base + "page.json", "", nil, 403},
		"a wrong cookie":        {&http.Client{}, "GET", base, "", map[string]string{"Cookie": "meshtrial=x"}, 403},
		"no token":              {&http.Client{}, "GET", entrance[:strings.IndexByte(entrance, '?')], "", nil, 403},
		"a wrong token":         {&http.Client{}, "GET", entrance + "x", "", nil, 403},
		"a name for 127.0.0.1":  {browser, "GET", base + "page.json", "evil.example" + port, nil, 403},
		"the same, entering":    {&http.Client{}, "GET", entrance, "evil.example" + port, nil, 403},
		"another site's post":   {browser, "POST", base + "act", "", map[string]string{"Origin": "http://evil.example"}, 403},
		"another port's post":   {browser, "POST", base + "act", "", map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403},
		"a post without origin": {browser, "POST", base + "act", "", nil, 403},
		"a link to act":         {browser, "GET", base + "act", "", nil, 405},
		"a path outside":        {browser, "GET", base + "../../etc/passwd", "", nil, 404},
		"the page":              {browser, "GET", base + "page.json", "", nil, 200},
		"the page's own post":   {browser, "POST", base + "act", "", map[string]string{"Origin": "http://127.0.0.1" + port}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(`{"do":"stop","run":"r"}`))
			must.OK(t, err)
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			if c.host != "" {
				r.Host = c.host
			}
			answer, err := c.client.Do(r)
			must.OK(t, err)
			answer.Body.Close()
			if answer.StatusCode != c.want {
				t.Errorf("status %d, want %d", answer.StatusCode, c.want)
			}
		})
	}
	if len(s.acts) != 1 || s.acts[0] != (Action{Do: "stop", Run: "r"}) {
		t.Errorf("done: %+v", s.acts)
	}
}

// events reads a stream of events.
func events(t *testing.T, browser *http.Client, address string) (next func() State, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	must.OK(t, err)
	answer, err := browser.Do(r)
	must.OK(t, err)
	t.Cleanup(func() { cancel(); answer.Body.Close() })
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events: %d %v", answer.StatusCode, answer.Header)
	}
	lines := bufio.NewReader(answer.Body)
	return func() (s State) {
		t.Helper()
		line, err := lines.ReadString('\n')
		must.OK(t, err)
		must.OK(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &s))
		if blank, err := lines.ReadString('\n'); blank != "\n" || err != nil {
			t.Fatalf("an event goes on with %q, %v", blank, err)
		}
		return s
	}, cancel
}

// Readers begin with what there is, hear of each change, and leave nothing when they go; one
// that does not read misses states between, and no later one.
func TestEvents(t *testing.T) {
	s, server, base, _, browser := served(t)
	first, end := events(t, browser, base+"events")
	if got := first(); got.Version != "1" {
		t.Errorf("begins with %+v", got)
	}
	s.change("2")
	if got := first(); got.Version != "2" {
		t.Errorf("then %+v", got)
	}
	for range 1000 {
		s.change("between")
	}
	late, _ := events(t, browser, base+"events?run=x")
	if got := late(); got.Version != "between" {
		t.Errorf("a late reader begins with %+v", got)
	}
	s.change("3")
	for _, read := range []func() State{first, late} {
		for got := read(); got.Version != "3"; got = read() {
			if got.Version != "between" {
				t.Fatalf("heard of %+v", got)
			}
		}
	}
	end()
	eventually.Holds(t, "the reader who went is forgotten", func() bool { return server.readers.Load() == 1 })
	answer, err := browser.Get(base + "events?run=none")
	must.OK(t, err)
	answer.Body.Close()
	if answer.StatusCode != 500 {
		t.Errorf("events of nothing: %d", answer.StatusCode)
	}
}

// However many readers poll a state, its source is asked once in a while.
func TestReadersShareAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{version: "1", changed: make(chan struct{})}
		server, _ := New(s, 2*time.Second)
		state := func(query string) string {
			got, err := server.state(url.Values{"run": {query}}, s.Changed())
			must.OK(t, err)
			return got.Version
		}
		for range 20 {
			state("a")
			state("b")
			time.Sleep(100 * time.Millisecond) // of the bubble's own time
		}
		if s.asked != 4 {
			t.Errorf("asked %d times in one poll for two states", s.asked)
		}
		s.version = "2" // of which nobody was told
		if got := state("a"); got != "2" {
			t.Errorf("at the next poll it is %q", got)
		}
		s.change("3")
		if got := state("a"); got != "3" {
			t.Errorf("after its source was told it is %q", got)
		}
	})
}

// reader is a browser that reads events, or blocks in the midst of one.
type reader struct {
	*httptest.ResponseRecorder
	taken chan struct{} // closed: it reads
}

func (reader) SetWriteDeadline(time.Time) error { return nil }

func (r reader) Write(data []byte) (int, error) {
	<-r.taken
	return r.ResponseRecorder.Write(data)
}

// Before a window begins its readers have been told, unless one does not read. In the window they
// ask for nothing, after it they poll again.
func TestReadersSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{version: "1", changed: make(chan struct{})}
		server, _ := New(s, time.Second)
		connect := func() (r reader, end func()) {
			r = reader{httptest.NewRecorder(), make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			go server.events(r, httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
			synctest.Wait()
			return r, cancel
		}
		prompt, end := connect()
		close(prompt.taken)
		synctest.Wait()
		s.mu.Lock()
		s.quiet = true
		s.mu.Unlock()
		s.change("2")
		began := time.Now()
		server.Settle(time.Hour)
		if took := time.Since(began); took > time.Millisecond || !strings.Contains(prompt.Body.String(), `"version":"2"`) {
			t.Errorf("settled after %v with %q", took, prompt.Body)
		}
		asked := s.asked
		time.Sleep(time.Minute) // of the bubble's own time
		if s.asked != asked {
			t.Errorf("asked %d times in a window", s.asked-asked)
		}
		s.mu.Lock()
		s.quiet = false
		s.mu.Unlock()
		s.change("3")
		time.Sleep(time.Minute)
		if n := s.asked - asked; n < 50 || n > 70 {
			t.Errorf("asked %d times in a minute after the window", n)
		}
		slow, endSlow := connect()
		began = time.Now()
		if server.Settle(50 * time.Millisecond); time.Since(began) != 50*time.Millisecond {
			t.Errorf("waited %v for a reader who does not read", time.Since(began))
		}
		close(slow.taken)
		end()
		endSlow()
		synctest.Wait()
		if server.Settle(time.Hour); len(server.current) != 0 {
			t.Errorf("of readers that have gone there are %v", server.current)
		}
	})
}

// A reader that does not read is dropped, and may come again.
func TestSlowReader(t *testing.T) {
	s, server, base, _, browser := served(t)
	server.patience = 20 * time.Millisecond
	_, end := events(t, browser, base+"events")
	defer end()
	large := strings.Repeat("x", 1<<20)
	eventually.Holds(t, "the reader is dropped", func() bool {
		s.change(large + rand.Text())
		return server.readers.Load() == 0
	})
	s.change("small")
	next, _ := events(t, browser, base+"events")
	if got := next(); got.Version != "small" {
		t.Errorf("begins again with %.20q", got.Version)
	}
}

// A server that ends waits for pages that still load their last document, and not for ever.
func TestLinger(t *testing.T) {
	_, server, base, _, browser := served(t)
	next, end := events(t, browser, base+"events")
	next()
	lingered := make(chan struct{})
	go func() { server.Linger(time.Hour); close(lingered) }()
	end()
	<-lingered
	if n := server.readers.Load(); n != 0 {
		t.Errorf("ended with %d readers", n)
	}
}
