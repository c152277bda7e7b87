package openmetrics

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/openmetrics/openmetricstest"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestServe(t *testing.T) {
	server, err := Listen("0")
	must.OK(t, err)
	scrapes := 0.0
	server.Serve(func(p *Page) {
		scrapes++
		p.Counter(Metric{Name: "scrapes", Help: "So many."}, scrapes, "of", "a\"b\\c\nd", "none", "")
		p.Gauge(Metric{Name: "level", Unit: "bytes"}, -2.5)
		p.Histogram(Metric{Name: "took", Unit: "seconds"}, []Bucket{{0.5, 2}, {60, 3}}, 1.25)
		p.Counter(Metric{Name: "scrapes"}, 0, "of", "others")
	})
	if !strings.HasPrefix(server.URL(), "http://127.0.0.1:") {
		t.Errorf("a port alone is %s", server.URL())
	}
	for n := range 2 {
		resp, err := http.Get(server.URL())
		must.OK(t, err)
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != ContentType {
			t.Fatalf("%v, %v, %v", resp.Status, resp.Header, err)
		}
		got := openmetricstest.Read(t, page)
		for series, want := range map[string]float64{
			`scrapes_total{of="a\"b\\c\nd"}`: float64(n + 1), `scrapes_total{of="others"}`: 0, "level_bytes": -2.5,
			`took_seconds_bucket{le="0.5"}`: 2, `took_seconds_bucket{le="60.0"}`: 3, `took_seconds_bucket{le="+Inf"}`: 3,
			"took_seconds_count": 3, "took_seconds_sum": 1.25,
		} {
			if value, ok := got[series]; !ok || value != want {
				t.Errorf("%s is %v, %v; want %v", series, value, ok, want)
			}
		}
	}
	req, err := http.NewRequest(http.MethodGet, server.URL(), nil)
	must.OK(t, err)
	req.Host = "evil.example"
	resp, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site reads it: %s", resp.Status)
	}
	server.Close()
	if _, err := http.Get(server.URL()); err == nil {
		t.Error("it still answers")
	}
}

// A page that is held is made once, however many ask for it.
func TestHold(t *testing.T) {
	server, err := Listen("0")
	must.OK(t, err)
	defer server.Close()
	made := 0.0
	server.Serve(func(p *Page) {
		made++
		p.Gauge(Metric{Name: "made", Help: "So many."}, made)
	})
	check := func(want float64) {
		t.Helper()
		resp, err := http.Get(server.URL())
		must.OK(t, err)
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		must.OK(t, err)
		if got := openmetricstest.Read(t, page)["made"]; got != want || resp.Header.Get("Content-Type") != ContentType {
			t.Errorf("page %v as %s, want page %v", got, resp.Header.Get("Content-Type"), want)
		}
	}
	check(1)
	server.Hold()
	check(2)
	check(2)
	server.Release()
	check(3)
}

func TestListen(t *testing.T) {
	for _, address := range []string{":0", ":9464", "localhost", "127.0.0.1:x", "70000", "127.0.0.1"} {
		if s, err := Listen(address); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: %v, %v", address, s, err)
		}
	}
	s, err := Listen("127.0.0.1:0")
	must.OK(t, err)
	if _, err := Listen(s.listener.Addr().String()); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("an address in use: %v", err)
	}
	s.Close() // without having served
	if c, err := net.Dial("tcp", s.listener.Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
	none, err := Listen("")
	if none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	none.Serve(nil)
	none.Close()
}
