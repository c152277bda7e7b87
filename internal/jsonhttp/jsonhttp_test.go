package jsonhttp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

func TestDo(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		want, hint string
		code       int
	}{
		{"answer", `{"n": 7}`, 200, "", "", errs.CodeOK},
		{"refusal", `{"error": "n is negative", "hint": "give 1"}`, 400, "role: POST /n: 400: n is negative", "give 1", errs.CodeUsage},
		{"too large", `{"error": "n is long"}`, 413, "413: n is long", "", errs.CodeUsage},
		{"failure", `{"error": "broken"}`, 500, "500: broken", "", errs.CodeFailure},
		{"stranger", "<html>" + strings.Repeat("x", 300), 502, "502: <html>xxx", "", errs.CodeFailure},
		{"nothing", "", 404, "role: POST /n: 404: ", "", errs.CodeFailure},
		{"no JSON", "hello", 200, "role: POST /n: invalid character", "", errs.CodeFailure},
		{"endless", `"` + strings.Repeat("x", 1000) + `"`, 200, "longer than 100 bytes", "", errs.CodeFailure},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/n" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s, %s", c.name, r.URL, r.Header)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		var out struct{ N int }
		err := Client{BaseURL: server.URL + "/", Name: "role", MaxAnswer: 100}.Do(t.Context(), http.MethodPost, "/n", map[string]int{"n": 1}, &out)
		server.Close()
		if c.want == "" {
			if err != nil || out.N != 7 {
				t.Errorf("%s: %v, %+v", c.name, err, out)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errs.Hint(err) != c.hint || errs.Code(err) != c.code {
			t.Errorf("%s: %v, hint %q, code %d", c.name, err, errs.Hint(err), errs.Code(err))
		}
		var status *StatusError
		if errors.As(err, &status) != (c.status != 200) || status != nil && status.Status != c.status {
			t.Errorf("%s: status %+v", c.name, status)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: %d bytes of error", c.name, len(err.Error()))
		}
	}
	err := Client{BaseURL: "http://127.0.0.1:1", Name: "role", MaxAnswer: 1}.Do(t.Context(), http.MethodGet, "/n", nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "role: ") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestClock(t *testing.T) {
	ahead := 3 * time.Second
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) {
		Answer(w, clock{UnixNS: time.Now().Add(ahead).UnixNano()})
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c := Client{BaseURL: server.URL, Name: "role", MaxAnswer: 100}
	if got, err := c.Clock(t.Context()); err != nil || (got.Ahead-ahead).Abs() > got.Bound {
		t.Errorf("%+v, %v", got, err)
	}
	server.Close()
	if _, err := c.Clock(t.Context()); err == nil {
		t.Error("no error")
	}
}
