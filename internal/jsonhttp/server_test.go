package jsonhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/jsonhttp/jsonhttptest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// role serves a server that parses {"n": N} until the test ends.
func role(t *testing.T, extra func(*http.ServeMux)) (jsonhttp.Client, func() error) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /n", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ N int }
		if !jsonhttp.Read(w, r, &in) {
			return
		}
		if in.N < 0 {
			jsonhttp.Fail(w, errs.WithHint(errs.Usage("n is negative"), "give 1"))
			return
		}
		jsonhttp.Answer(w, in)
	})
	jsonhttp.Handle(mux, "GET /from", func(r *http.Request, _ jsonhttp.None) (map[string]int, error) {
		n, err := jsonhttp.Query(r, "from")
		return map[string]int{"n": n}, err
	})
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, r *http.Request) { jsonhttp.Fail(w, errors.New("broken")) })
	mux.HandleFunc("GET /no-json", func(w http.ResponseWriter, r *http.Request) { jsonhttp.Answer(w, func() {}) })
	jsonhttp.HandleVersion(mux, "v1.2.3")
	jsonhttp.HandleClock(mux)
	if extra != nil {
		extra(mux)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- jsonhttp.Server{Name: "role", Handler: mux, MaxRequest: 100}.Serve(ctx, l) }()
	transport := &http.Transport{}
	ended := false
	end := func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		defer transport.CloseIdleConnections()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			return errors.New("the server does not end")
		}
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return jsonhttp.Client{HTTPClient: &http.Client{Transport: transport}, BaseURL: "http://" + l.Addr().String(), Name: "role", MaxAnswer: 1000}, end
}

func TestServer(t *testing.T) {
	c, _ := role(t, nil)
	jsonhttptest.RefusesStrangers(t, c.BaseURL, "/n")
	for _, tt := range []struct {
		method, path, body string
		status             int
		want, hint         string // of the response
	}{
		{"POST", "/n", `{"n": 7}`, 200, `{"N":7}`, ""},
		{"POST", "/n", `{"n": -7}`, 400, "n is negative", "give 1"},
		{"POST", "/n", `{"m": 7}`, 400, `json: unknown field`, ""},
		{"POST", "/n", `{"n": 7} {}`, 400, "text after the document", ""},
		{"POST", "/n", `{`, 400, "unexpected EOF", ""},
		{"POST", "/n", ``, 400, "EOF", ""},
		{"POST", "/n", `{"n": ` + strings.Repeat("1", 200) + `}`, 413, "larger than 100 bytes", ""},
		{"GET", "/from?from=3", ``, 200, `{"n":3}`, ""},
		{"GET", "/from", ``, 200, `{"n":0}`, ""},
		{"GET", "/from?from=-1", ``, 400, `from \"-1\": want an index`, ""},
		{"GET", "/from?from=x", ``, 400, "want an index", ""},
		{"GET", "/broken", ``, 500, "broken", ""},
		{"GET", "/no-json", ``, 500, "unsupported type", ""},
		{"GET", "/v1/version", ``, 200, `{"version":"v1.2.3"}`, ""},
	} {
		req := httptest.NewRequest(tt.method, c.BaseURL+tt.path, strings.NewReader(tt.body))
		req.RequestURI = ""
		resp, err := c.HTTPClient.Do(req)
		must.OK(t, err)
		var body [500]byte
		n, _ := resp.Body.Read(body[:])
		resp.Body.Close()
		text := string(body[:n])
		if resp.StatusCode != tt.status || !strings.Contains(text, tt.want) || !strings.Contains(text, tt.hint) || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.20s: %d %s, want %d %q %q", tt.method, tt.path, tt.body, resp.StatusCode, text, tt.status, tt.want, tt.hint)
		}
	}
	if v, err := c.Version(t.Context()); err != nil || v != "v1.2.3" {
		t.Errorf("%q, %v", v, err)
	}
	if clock, err := c.Clock(t.Context()); err != nil || clock.Ahead.Abs() > clock.Bound {
		t.Errorf("the same clock: %+v, %v", clock, err)
	}
}

// A client with the token commands a server. On loopback it must also use a
// loopback name, while a server that listens for other machines cannot know its
// names.
func TestServerWithToken(t *testing.T) {
	mux := http.NewServeMux()
	jsonhttp.HandleVersion(mux, "v1.2.3")
	for address, strangersName := range map[string]int{"127.0.0.1:0": http.StatusForbidden, "0.0.0.0:0": http.StatusOK} {
		l, err := net.Listen("tcp4", address)
		must.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- jsonhttp.Server{Name: "role", Handler: mux, MaxRequest: 100, Token: "secret"}.Serve(ctx, l)
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		base := "http://127.0.0.1:" + port
		if strangersName != http.StatusOK {
			jsonhttptest.RefusesStrangers(t, base, "/n")
		}
		for _, c := range []struct {
			host, token string
			want        int
		}{
			{"", "secret", http.StatusOK}, {"", "guess", http.StatusUnauthorized}, {"role.example", "secret", strangersName},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/version", nil)
			must.OK(t, err)
			req.Host = c.host
			req.Header.Set("Authorization", "Bearer "+c.token)
			resp, err := http.DefaultClient.Do(req)
			must.OK(t, err)
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("on %s, called %q with token %q: %d, want %d", address, c.host, c.token, resp.StatusCode, c.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// HTTP/1.0 requires no Host, so such a request does not say which server it is
// for.
func TestServerWantsHost(t *testing.T) {
	c, _ := role(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.BaseURL, "http://"))
	must.OK(t, err)
	defer conn.Close()
	must.OK(t, must.Err(io.WriteString(conn, "GET /v1/version HTTP/1.0\r\n\r\n")))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 403 ") {
		t.Errorf("%q, %v", answer, err)
	}
}

// A server ends with its context, and so do the contexts of its requests. These
// have a second to finish: if the machine was suspended for that long,
// unfinished requests prove nothing.
func TestServerEnds(t *testing.T) {
	for try := 1; ; try++ {
		begun, heard := make(chan struct{}), make(chan struct{})
		c, end := role(t, func(mux *http.ServeMux) {
			mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
				close(heard)
				jsonhttp.Refuse(w, http.StatusServiceUnavailable, errors.New("ended"))
			})
		})
		failed := make(chan error, 1)
		go func() { failed <- c.Do(context.Background(), http.MethodGet, "/wait", nil, nil) }()
		<-begun
		from := time.Now()
		if err := end(); err != nil {
			t.Error(err)
		}
		took := time.Since(from)
		<-heard
		err := <-failed
		if err != nil && strings.Contains(err.Error(), "503: ended") {
			return
		}
		if took < 900*time.Millisecond || try == 10 {
			t.Fatalf("the request under way: %v; the server ended within %v", err, took)
		}
	}
}

// Any client that reaches a role commands it, so a role must be reachable only
// from this machine.
func TestServerWantsLoopback(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	must.OK(t, err)
	err = jsonhttp.Server{Name: "role", Handler: http.NewServeMux()}.Serve(t.Context(), l)
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "role: ") || !strings.Contains(errs.Hint(err), "127.0.0.1:") {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("still open: %v", err)
	}
}
