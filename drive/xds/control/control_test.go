package control_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/jsonhttp/jsonhttptest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
)

// role starts a control server and returns a client of it.
func role(t *testing.T) (*control.Client, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	base := "http://" + loopback.Serve(t, control.NewServer(ctx, "v1.2.3").Serve, cancel)
	return control.NewClient(base, nil), base
}

// deaf returns an address where nothing answers.
func deaf(t *testing.T) string { return loopback.Listen(t).Addr().String() }

func TestControl(t *testing.T) {
	c, _ := role(t)
	ctx := t.Context()
	if v, err := c.Version(ctx); err != nil || v != "v1.2.3" {
		t.Errorf("version %q, %v", v, err)
	}
	if _, err := c.Status(ctx); err == nil || !strings.Contains(err.Error(), "no fleet") {
		t.Errorf("status of nothing: %v", err)
	}
	spec := xds.DefaultSpec(deaf(t))
	if _, err := c.Start(ctx, spec); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a fleet without proxies: %v", err)
	}
	spec.Proxies = []xds.Proxy{{Name: "a", Namespace: "b", IP: "10.0.0.1", Labels: map[string]string{"app": "a"}}, {Type: xds.NodeRouter, Name: "g", Namespace: "b", IP: "10.0.0.2"}}
	started, err := c.Start(ctx, spec)
	if err != nil || started.Proxies != 2 {
		t.Fatal(started, err)
	}
	if _, err := c.Start(ctx, spec); err == nil || !strings.Contains(err.Error(), "another fleet") || errs.Hint(err) == "" {
		t.Errorf("a second fleet: %v", err)
	}
	s, err := c.Status(ctx)
	if err != nil || s.Proxies != 2 || s.Gateways != 1 || s.Connected != 0 || s.Quiet(0) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.Outage(ctx); err == nil || !strings.Contains(err.Error(), "no outage") {
		t.Errorf("an outage that nobody began: %v", err)
	}
	begun, err := c.BeginOutage(ctx, true)
	if err != nil || len(begun.LostNS) != 2 || begun.LostNS[0] != record.Never {
		t.Errorf("%+v, %v", begun, err)
	}
	if o, err := c.Outage(ctx); err != nil || o.SinceUnixNS != begun.SinceUnixNS || o.BackNS[1] != record.Never {
		t.Errorf("%+v, %v", o, err)
	}
	announced, err := c.Announce(ctx, []record.Marker{{Change: 1, Type: "cds", Text: "x"}, {Change: 2, Type: "eds", Text: "y", Gone: true}})
	if err != nil || announced.First != 0 || announced.Total != 2 {
		t.Errorf("%+v, %v", announced, err)
	}
	if _, err := c.Announce(ctx, []record.Marker{{Type: "cds"}}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a marker without text: %v", err)
	}
	seen, err := sightings(ctx, c, 1)
	if err != nil || len(seen) != 1 || seen[0].Change != 2 || !seen[0].Gone || len(seen[0].Proxy) != 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	account, err := c.Account(ctx)
	if err != nil || account.Proxies != 2 || account.RSSBytes == 0 || account.CPU.TotalS() == 0 {
		t.Errorf("%+v, %v", account, err)
	}
	bytesOf, err := c.Holdings(ctx)
	if err != nil || len(bytesOf) != 2 {
		t.Fatalf("%v, %v", bytesOf, err)
	}
	holdings := xds.Holdings(spec.Proxies, bytesOf)
	if len(holdings) != 2 || holdings[0].Proxies != 1 || holdings[0].Bytes != 0 {
		t.Fatalf("%+v, %v", holdings, err)
	}
	file, err := c.Configuration(ctx, holdings[0])
	must.OK(t, err)
	plain, err := gzip.NewReader(bytes.NewReader(file))
	must.OK(t, err)
	if held, err := confile.NewReader(plain); err != nil || held.Header.Proxy != holdings[0].Name || held.Header.Proxies != 1 {
		t.Errorf("%+v, %v", held, err)
	}
	if _, err := c.Configuration(ctx, xds.Holding{Proxy: 2}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a proxy that is not there: %v", err)
	}
	if _, err := c.Join(ctx, spec); errs.Code(err) != errs.CodeUsage {
		t.Errorf("two proxies join: %v", err)
	}
	alone := spec
	alone.Proxies = spec.Proxies[:1]
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := c.Join(limited, alone); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a join where nobody answers: %v", err)
	}
	if clock, err := c.Clock(ctx); err != nil || clock.Ahead.Abs() > clock.Bound {
		t.Errorf("the same clock: %+v, %v", clock, err)
	}
	must.OK(t, must.Err(c.Stop(ctx)))
	if _, err := c.Stop(ctx); err == nil {
		t.Error("stopped twice")
	}
	if _, err := c.Start(ctx, spec); err != nil { // left for the server to end
		t.Error(err)
	}
}

// The role sends requests through a gateway, with or without a fleet. It reports their
// outcomes, and requests of a new spec replace them.
func TestRoutes(t *testing.T) {
	c, _ := role(t)
	ctx := t.Context()
	if _, err := c.RoutesSeen(ctx); err == nil || !strings.Contains(err.Error(), "no requests") {
		t.Errorf("what became of nothing: %v", err)
	}
	if err := c.AskRoutes(ctx, routeprobe.Spec{Address: "nowhere"}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a gateway without a port: %v", err)
	}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "served.example" {
			http.NotFound(w, r)
		}
	}))
	defer gateway.Close()
	spec := routeprobe.Spec{Address: strings.TrimPrefix(gateway.URL, "http://"), Every: time.Millisecond, Timeout: 5 * time.Second}
	for _, host := range []string{"lacking.example", "served.example"} {
		spec.Routes = []routeprobe.Route{{Change: 7, Host: host}}
		must.OK(t, c.AskRoutes(ctx, spec))
	}
	eventually.Holds(t, "a good response", func() bool {
		seen, err := c.RoutesSeen(ctx)
		if err != nil || len(seen) != 1 {
			t.Fatalf("%+v, %v", seen, err)
		}
		return seen[0].GoodNS != 0
	})
	seen, err := c.StopRoutes(ctx)
	if err != nil || len(seen) != 1 || seen[0].Change != 7 || seen[0].Statuses["200"] == 0 || seen[0].Statuses["404"] != 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	if _, err := c.StopRoutes(ctx); err == nil {
		t.Error("stopped twice")
	}
}

// sightings reads all sightings.
func sightings(ctx context.Context, c *control.Client, from int) ([]xds.MarkerSightings, error) {
	s, err := c.Sightings(ctx, from)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.All()
}

// Truncated sightings are an error, not fewer sightings.
func TestSightingsBreakOff(t *testing.T) {
	const one = `{"change":1,"marker":0,"type":"cds","proxy":[4],"received_unix_ns":[9],"acked_unix_ns":[null]}`
	for name, c := range map[string]struct {
		body string
		read int // markers
		err  bool
	}{
		"none":           {`{"markers":0}`, 0, false},
		"all":            {`{"markers":2}` + one + one, 2, false},
		"one is missing": {`{"markers":2}` + one, 0, true},
		"one is cut":     {`{"markers":2}` + one + one[:50], 0, true},
		"of two lengths": {`{"markers":1}` + strings.Replace(one, "[9]", "[9,10]", 1), 0, true},
		"nothing":        {``, 0, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) }))
		got, err := sightings(t.Context(), control.NewClient(server.URL, nil), 0)
		if len(got) != c.read || (err != nil) != c.err {
			t.Errorf("%s: %d markers, %v", name, len(got), err)
		}
		for _, m := range got {
			if len(m.Proxy) != 1 || m.Proxy[0] != 4 || m.AckedNS[0] != record.Never {
				t.Errorf("%s: %+v", name, m)
			}
		}
		server.Close()
	}
}

// forgetful forwards requests and loses the answer to the first announcement.
type forgetful struct{ lost bool }

func (f *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && !f.lost && r.URL.Path == "/v1/markers" {
		f.lost = true
		answer.Body.Close()
		return nil, io.EOF
	}
	return answer, err
}

// An announcement whose answer was lost is repeated, and counts once.
func TestAnnouncedOnce(t *testing.T) {
	first, base := role(t)
	ctx := t.Context()
	spec := xds.DefaultSpec(deaf(t))
	spec.Proxies = []xds.Proxy{{Name: "a", Namespace: "b", IP: "10.0.0.1"}}
	must.OK(t, must.Err(first.Start(ctx, spec)))
	transport := &forgetful{}
	c := control.NewClient(base, &http.Client{Transport: transport})
	for n := range 2 {
		got, err := c.Announce(ctx, []record.Marker{{Change: n, Type: "cds", Text: "the same"}})
		if err != nil || got.First != n || got.Total != n+1 {
			t.Errorf("announcement %d: %+v, %v", n, got, err)
		}
	}
	if !transport.lost {
		t.Error("no answer was lost")
	}
	if seen, err := sightings(ctx, c, 0); err != nil || len(seen) != 2 {
		t.Errorf("%d markers, %v", len(seen), err)
	}
}

func TestBadRequests(t *testing.T) {
	_, base := role(t)
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/start", `{"nonsense": 1}`, 400},
		{"POST", "/v1/start", `{`, 400},
		{"GET", "/v1/start", ``, 405},
		{"GET", "/v1/status", ``, 404},
		{"GET", "/v1/holdings", ``, 404},
		{"GET", "/v1/outage", ``, 404},
		{"POST", "/v1/outage", `{}`, 404},
		{"GET", "/v1/configuration?proxy=x", ``, 404},
		{"POST", "/v1/markers", `{}`, 404},
		{"GET", "/nothing", ``, 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, base+tt.path, strings.NewReader(tt.body))
		must.OK(t, err)
		resp, err := http.DefaultClient.Do(req)
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, resp.StatusCode, tt.status)
		}
	}
}

// A page in a user's browser must not make this machine dial others.
func TestPagesOfOthersAreRefused(t *testing.T) {
	_, base := role(t)
	for _, path := range []string{"/v1/start", "/v1/outage", "/v1/markers", "/v1/join", "/v1/stop"} {
		jsonhttptest.RefusesStrangers(t, base, path)
	}
}

// Of requests for routes that meet while earlier ones are being stopped one begins, and another
// is refused: neither goes on unseen.
func TestRoutesAtOnce(t *testing.T) {
	c, _ := role(t)
	gateway := httptest.NewServer(http.NotFoundHandler())
	defer gateway.Close()
	spec := routeprobe.Spec{Address: strings.TrimPrefix(gateway.URL, "http://"), Every: time.Second, Timeout: 5 * time.Second}
	for i := range 200 { // stopping them takes time
		spec.Routes = append(spec.Routes, routeprobe.Route{Change: i, Host: "a.example"})
	}
	eventually.Holds(t, "a conflict", func() bool {
		results := make([]error, 4)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i] = c.AskRoutes(t.Context(), spec) })
		}
		all.Wait()
		conflicts := 0
		for _, err := range results {
			if jsonhttp.Answered(err, http.StatusConflict) {
				conflicts++
			} else {
				must.OK(t, err)
			}
		}
		if seen, err := c.RoutesSeen(t.Context()); err != nil || len(seen) != len(spec.Routes) || conflicts == len(results) {
			t.Fatalf("%d conflicts, requests for %d routes, %v", conflicts, len(seen), err)
		}
		return conflicts > 0
	})
	must.OK(t, must.Err(c.StopRoutes(t.Context())))
}
