package routeprobe_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// gateway serves a host from a given number of requests on.
func gateway(t *testing.T, served func(host string, n int64) int) string {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(served(r.Host, asked.Add(1)))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func spec(address string, hosts ...string) routeprobe.Spec {
	s := routeprobe.Spec{Address: address, Every: 2 * time.Millisecond, Timeout: 5 * time.Second, After: time.Minute}
	for i, host := range hosts {
		s.Routes = append(s.Routes, routeprobe.Route{Change: i, Host: host, FromNS: time.Now().UnixNano()})
	}
	return s
}

// await polls until done is true for all routes, or fails after some time.
func await(t *testing.T, s routeprobe.Spec, done func([]routeprobe.Seen) bool) []routeprobe.Seen {
	t.Helper()
	p, err := routeprobe.Start(t.Context(), s)
	must.OK(t, err)
	eventually.Holds(t, "all routes are done", func() bool { return done(p.Seen()) })
	p.Stop()
	return p.Seen()
}

// A route is requested until it is served: the first good request was sent after the
// last bad one, and its response arrived later.
func TestServed(t *testing.T) {
	address := gateway(t, func(host string, n int64) int {
		if host != "a.example" {
			t.Errorf("asked for host %q", host)
		}
		if n <= 5 {
			return http.StatusNotFound
		}
		return http.StatusOK
	})
	seen := await(t, spec(address, "a.example"), func(s []routeprobe.Seen) bool { return s[0].Statuses["200"] > 3 && s[0].Statuses["404"] == 5 })[0]
	if seen.BadNS == 0 || seen.GoodNS == 0 || seen.AnsweredNS <= seen.GoodNS || seen.Error != "" || seen.Failed != seen.Relapses {
		t.Errorf("%+v", seen)
	}
	if seen.Relapses == 0 && seen.BadNS >= seen.GoodNS {
		t.Errorf("the last bad request left at %d, the first good one at %d", seen.BadNS, seen.GoodNS)
	}
}

// Requests that start long ago are not made up for.
func TestFromLongAgo(t *testing.T) {
	address := gateway(t, func(string, int64) int { return http.StatusNotFound })
	s := spec(address, "a.example")
	s.Routes[0].FromNS, s.Every = 1, 50*time.Millisecond
	began := time.Now()
	seen := await(t, s, func(s []routeprobe.Seen) bool { return s[0].Statuses["404"] > 1 })[0]
	if most := int(time.Since(began)/s.Every) + 1; seen.Statuses["404"]+seen.Unsent > most {
		t.Errorf("%+v where %d requests were due", seen, most)
	}
}

// The longer a route is not served, the less often it is requested.
func TestPatience(t *testing.T) {
	s := spec(gateway(t, func(string, int64) int { return http.StatusNotFound }), "a.example")
	s.Every = time.Millisecond
	began := time.Now()
	seen := await(t, s, func(seen []routeprobe.Seen) bool {
		return time.Since(began) > time.Second && seen[0].Statuses["404"] > 0
	})[0]
	if most := int(time.Since(began)/s.Every) / 2; seen.Statuses["404"]+seen.Unsent > most {
		t.Errorf("%d requests, of which %d did not leave: more than %d", seen.Statuses["404"]+seen.Unsent, seen.Unsent, most)
	}
}

// Requests end some time after the first good response.
func TestEnds(t *testing.T) {
	s := spec(gateway(t, func(string, int64) int { return http.StatusOK }), "a.example")
	s.After = time.Millisecond
	last := -1
	await(t, s, func(seen []routeprobe.Seen) bool {
		if last == seen[0].Statuses["200"] {
			return last > 0
		}
		last = seen[0].Statuses["200"]
		time.Sleep(50 * time.Millisecond) // many times the interval between two requests
		return false
	})
}

// A route that is served and then is not has relapsed, whatever the response; before it
// is served, any response except that the route is missing is a failure.
func TestRelapse(t *testing.T) {
	address := gateway(t, func(_ string, n int64) int {
		switch {
		case n == 1:
			return http.StatusOK
		case n%2 == 0:
			return http.StatusServiceUnavailable
		}
		return http.StatusNotFound
	})
	seen := await(t, spec(address, "a.example"), func(s []routeprobe.Seen) bool { return s[0].Relapses > 3 })[0]
	if before := seen.Statuses["404"] + seen.Statuses["503"] - seen.Relapses; seen.Statuses["200"] != 1 || seen.Failed < seen.Relapses || seen.Failed > seen.Relapses+before {
		t.Errorf("%+v", seen)
	}
	never := gateway(t, func(_ string, n int64) int {
		if n == 3 {
			return http.StatusServiceUnavailable
		}
		return http.StatusNotFound
	})
	seen = await(t, spec(never, "a.example"), func(s []routeprobe.Seen) bool { return s[0].Statuses["404"] > 3 && s[0].Statuses["503"] == 1 })[0]
	if seen.GoodNS != 0 || seen.Relapses != 0 || seen.Failed != 1 {
		t.Errorf("%+v", seen)
	}
}

// A route that is never served, at an address where nothing answers, has the error.
func TestNobody(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(s.URL, "http://")
	s.Close()
	seen := await(t, spec(address, "a.example", "b.example"), func(s []routeprobe.Seen) bool { return s[0].Statuses["error"] > 1 && s[1].Statuses["error"] > 1 })
	for i, one := range seen {
		if one.Change != i || one.GoodNS != 0 || one.BadNS == 0 || one.Error == "" {
			t.Errorf("%+v", one)
		}
	}
}

// A gateway that hangs delays no request: open loop.
func TestOpenLoop(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer s.Close()
	defer close(hang)
	seen := await(t, spec(strings.TrimPrefix(s.URL, "http://"), "a.example"), func(s []routeprobe.Seen) bool { return s[0].Unsent > 3 })[0]
	if len(seen.Statuses) != 0 || seen.GoodNS != 0 {
		t.Errorf("%+v", seen)
	}
}

func TestRefuses(t *testing.T) {
	good := spec("127.0.0.1:1", "a.example")
	for name, bad := range map[string]func(s *routeprobe.Spec){
		"no port":    func(s *routeprobe.Spec) { s.Address = "127.0.0.1" },
		"no time":    func(s *routeprobe.Spec) { s.Every = 0 },
		"no timeout": func(s *routeprobe.Spec) { s.Timeout = 0 },
		"no host":    func(s *routeprobe.Spec) { s.Routes[0].Host = "" },
		"too many":   func(s *routeprobe.Spec) { s.Routes = make([]routeprobe.Route, 2000) },
	} {
		s := good
		s.Routes = append([]routeprobe.Route(nil), good.Routes...)
		bad(&s)
		if _, err := routeprobe.Start(t.Context(), s); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
