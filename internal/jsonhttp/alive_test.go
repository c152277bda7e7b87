package jsonhttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// With a limit of 45 s and a sign of life after 30 s, a watch ends after 75 s
// and not before.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAlive(45 * time.Second)
		time.Sleep(time.Hour) // time before the watch does not count
		var told error
		ctx, cancel := a.While(t.Context(), func(err error) { told = err })
		defer cancel()
		time.Sleep(30 * time.Second)
		a.Heard()
		time.Sleep(44999 * time.Millisecond)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatalf("over after 44.999 s of silence: %v", context.Cause(ctx))
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if cause := context.Cause(ctx); !errors.Is(cause, ErrAlone) || told != cause || !strings.Contains(cause.Error(), "for 45s") {
			t.Errorf("after 45 s of silence: %v, told %v", cause, told)
		}
	})
}

// Time in which the role was suspended does not count as silence of its
// commander.
func TestAliveThatStoodStill(t *testing.T) {
	for _, c := range []struct {
		name        string
		wait, takes time.Duration // of the look that begins after 20 s
		heard       bool          // just before its end
		left        time.Duration
	}{
		{"not at all", 5 * time.Second, 5 * time.Second, false, 20 * time.Second},
		{"a little late", 5 * time.Second, 9 * time.Second, false, 16 * time.Second},
		{"40 s", 5 * time.Second, 45 * time.Second, false, 20 * time.Second},
		{"40 s, and was told at once", 5 * time.Second, 45 * time.Second, true, 45 * time.Second},
		{"an hour", 5 * time.Second, time.Hour, false, 20 * time.Second},
		{"not at all, for too long", 25 * time.Second, 25 * time.Second, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := NewAlive(45 * time.Second)
			time.Sleep(20 * time.Second)
			began := time.Now()
			time.Sleep(c.takes)
			if c.heard {
				a.Heard()
			}
			if left := a.look(began, c.wait); left != c.left {
				t.Errorf("%s: %v left, want %v", c.name, left, c.left)
			}
		})
	}
}

func TestAliveEndsOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, end := context.WithCancel(t.Context())
		ctx, cancel := NewAlive(time.Minute).While(outer, func(err error) { t.Error(err) })
		defer cancel()
		end()
		synctest.Wait()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			t.Errorf("it ended for %v", cause)
		}
		// Without a limit it never ends.
		none := NewAlive(0)
		none.Heard()
		ctx, cancel = none.While(t.Context(), func(err error) { t.Error(err) })
		time.Sleep(1000 * time.Hour)
		if ctx.Err() != nil {
			t.Errorf("it ended: %v", context.Cause(ctx))
		}
		cancel()
		if ctx.Err() == nil {
			t.Error("it did not end")
		}
	})
}

// The start of an accepted request counts: neither a foreign request nor a
// hanging one keeps a role alive.
func TestWhatIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAlive(time.Minute)
		hang := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(50 * time.Second) })
		silence := func() time.Duration { return time.Minute - a.left() }
		open, err := Server{Name: "role", Handler: hang, Alive: a}.HTTP(loopback{})
		must.OK(t, err)
		guarded, err := Server{Name: "role", Handler: hang, Token: "secret", Alive: a}.HTTP(loopback{})
		must.OK(t, err)
		for _, c := range []struct {
			name   string
			server *http.Server
			header map[string]string
			path   string
			status int
			heard  bool
			takes  time.Duration
		}{
			{"a beat", open, nil, alivePath, 200, true, 0},
			{"a page's", open, map[string]string{"Origin": "http://evil.example"}, alivePath, 403, false, 0},
			{"a request that hangs", open, nil, "/n", 200, true, 50 * time.Second},
			{"a beat without the token", guarded, nil, alivePath, 401, false, 0},
			{"a beat with it", guarded, map[string]string{"Authorization": "Bearer secret"}, alivePath, 200, true, 0},
		} {
			time.Sleep(10 * time.Second)
			before := silence()
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+c.path, nil)
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			c.server.Handler.ServeHTTP(w, r)
			want := before
			if c.heard {
				want = c.takes
			}
			if w.Code != c.status || silence() != want {
				t.Errorf("%s: status %d, nothing heard for %v; want %d, %v", c.name, w.Code, silence(), c.status, want)
			}
			a.Heard()
		}
	})
}

func TestStillHere(t *testing.T) {
	a := NewAlive(time.Hour)
	a.heard = time.Now().Add(-time.Minute)
	handler := a.listen(http.NotFoundHandler())
	server := httptest.NewServer(handler)
	defer server.Close()
	c := Client{BaseURL: server.URL, Name: "role", MaxAnswer: 100}
	if err := c.StillHere(t.Context()); err != nil || a.left() < 59*time.Minute+30*time.Second {
		t.Errorf("%v, %v left", err, a.left())
	}
	deaf := httptest.NewServer(http.NotFoundHandler())
	defer deaf.Close()
	c.BaseURL = deaf.URL
	if err := c.StillHere(t.Context()); err == nil {
		t.Error("a server that does not listen heard it")
	}
}

// loopback is a listener on 127.0.0.1 that never gets a connection.
type loopback struct{ net.Listener }

func (loopback) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
