package signals

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A Prometheus server yields the same readings as the series themselves.
func TestRemote(t *testing.T) {
	first, second := fixtures(t)
	s := twoPages(t, first, second)
	api := prometheusAPI(t, s.memory)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "me" || password != "secret" || r.Header.Get("X-Tenant") != "one" || !strings.HasPrefix(r.URL.Path, "/prom/") {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	remote, err := NewRemote(strings.Replace(server.URL, "http://", "http://me:secret@", 1)+"/prom/", http.Header{"X-Tenant": {"one"}})
	must.OK(t, err)
	defer remote.Close()
	ctx := context.Background()
	got, err := Read(ctx, remote, tenSeconds, after(10))
	must.OK(t, err)
	want, err := Read(ctx, s, tenSeconds, after(10))
	must.OK(t, err)
	if got.Source != "Prometheus "+server.URL+"/prom" {
		t.Errorf("source %s", got.Source)
	}
	got.Source = want.Source
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\n\nwant\n%+v", got, want)
	}
	a, err := Alerts(ctx, remote, Options{}, after(0), after(12), time.Second)
	must.OK(t, err)
	b, err := Alerts(ctx, s, Options{}, after(0), after(12), time.Second)
	must.OK(t, err)
	if !reflect.DeepEqual(a, b) || a[0].State != StateInactive {
		t.Errorf("%v, want %v", a, b)
	}
	if _, err := remote.Instant(ctx, "sum(", after(0)); err == nil || !strings.Contains(err.Error(), "Prometheus says: bad_data") {
		t.Errorf("a wrong expression: %v", err)
	}
	if v, err := remote.Range(ctx, `pilot_services + 0`, after(0), after(2), time.Second); err != nil || len(v) != 1 || len(v[0].Points) != 3 || v[0].Points[2].MS != after(2).UnixMilli() {
		t.Errorf("a range: %v %v", v, err)
	}
}

func TestRemoteRefuses(t *testing.T) {
	for _, address := range []string{"", "prometheus:9090", "ftp://x", "http://", "http://us er:secret@x:y z", "://"} {
		_, err := NewRemote(address, nil)
		if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestRemoteFails(t *testing.T) {
	status, body := 200, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	remote, err := NewRemote(strings.Replace(server.URL, "http://", "http://me:secret@", 1), nil)
	must.OK(t, err)
	ctx := context.Background()
	for _, tt := range []struct {
		status     int
		body       string
		says, hint string
	}{
		{200, "<html>hello</html>", "not an answer of Prometheus", "address of a prometheus server"},
		{404, "404 page not found", "404", "its path comes before /api/v1"},
		{401, "who?", "401", "--prometheus-header"},
		{503, "", "503", "address of a prometheus server"},
		{422, `{"status":"error","errorType":"execution","error":"too many samples"}`, "execution: too many samples", ""},
		{200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, `a "matrix"`, ""},
		{200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}`, "without numbers", ""},
		{200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}}`, "result", ""},
		{200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}`, "no number", ""},
		{200, `{"status":"success","data":`, "not an answer", ""},
		{200, `{"status":"perhaps"}`, `status "perhaps"`, ""},
	} {
		status, body = tt.status, tt.body
		_, err := remote.Instant(ctx, "up", after(0))
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(strings.ToLower(errs.Hint(err)), tt.hint) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %s: %v (hint: %s)", tt.status, tt.body, err, errs.Hint(err))
		}
	}
	server.Close()
	if _, err := remote.Instant(ctx, "up", after(0)); err == nil || !strings.Contains(errs.Hint(err), "can this machine reach it") || strings.Contains(err.Error()+errs.Hint(err), "secret") {
		t.Errorf("nobody there: %v (hint: %s)", err, errs.Hint(err))
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := remote.Instant(cancelled, "up", after(0)); errs.Code(err) != errs.CodeInterrupted {
		t.Errorf("interrupted: %v", err)
	}
}

// A server that never finishes, or never starts, its response is awaited for
// exactly the configured time.
func TestRemoteTimeout(t *testing.T) {
	var silent atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then is the client's disconnect detected
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
			if !silent.Load() {
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
			}
		}
	}))
	defer server.Close()
	remote, err := NewRemote(server.URL, nil)
	must.OK(t, err)
	defer remote.Close()
	remote.client.Timeout = 200 * time.Millisecond
	for _, quiet := range []bool{false, true} {
		silent.Store(quiet)
		begin := time.Now()
		_, err := remote.Instant(context.Background(), "up", after(0))
		if err == nil || !strings.Contains(err.Error(), "no whole answer within 200ms") || !strings.Contains(errs.Hint(err), "overloaded") {
			t.Errorf("silent %v: %v (hint: %s)", quiet, err, errs.Hint(err))
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("silent %v: it took %v", quiet, took)
		}
	}
	limited, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := remote.Instant(limited, "up", after(0)); err == nil || strings.Contains(err.Error(), "no whole answer") {
		t.Errorf("the caller's own end: %v", err)
	}
}

// A header may be a key, so it is sent only to the server it was given for,
// wherever that redirects.
func TestRemoteFollowsNoRedirectElsewhere(t *testing.T) {
	const key = "X-Api-Key"
	var leaked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Add(1)
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer elsewhere.Close()
	to := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/there/") {
			if r.Header.Get(key) != "secret" {
				t.Errorf("on the server itself: %v", r.Header)
			}
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
			return
		}
		http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	remote, err := NewRemote(server.URL, http.Header{key: {"secret"}})
	must.OK(t, err)
	defer remote.Close()
	to = "/there"
	if _, err := remote.Instant(t.Context(), "up", after(0)); err != nil {
		t.Errorf("to another path: %v", err)
	}
	to = "/again"
	if _, err := remote.Instant(t.Context(), "up", after(0)); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("in circles: %v", err)
	}
	other, err := url.Parse(elsewhere.URL)
	must.OK(t, err)
	for _, to = range []string{elsewhere.URL, "http://localhost:" + other.Port()} {
		_, err := remote.Instant(t.Context(), "up", after(0))
		if err == nil || !strings.Contains(err.Error(), "sends on to "+strings.TrimPrefix(to, "http://")) || errs.Hint(err) == "" {
			t.Errorf("to %s: %v, hint %q", to, err, errs.Hint(err))
		}
	}
	if n := leaked.Load(); n != 0 {
		t.Errorf("%d requests went to another server", n)
	}
}

func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		from, to string
		follow   bool
	}{
		{"http://a:9090/x", "http://a:9090/prometheus/x", true},
		{"http://a/x", "https://a/x", true},
		{"http://a:9090/x", "https://a:9443/x", true},
		{"https://a/x", "http://a/x", false},
		{"https://a/x", "https://a:8443/x", false},
		{"http://a:9090/x", "http://a:9091/x", false},
		{"http://a/x", "http://a.example/x", false},
		{"http://a/x", "https://b/x", false},
		{"https://a/x", "https://b/x", false},
	} {
		from, to := httptest.NewRequest("GET", c.from, nil), httptest.NewRequest("GET", c.to, nil)
		if err := stayHere(to, []*http.Request{from}); (err == nil) != c.follow {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

// prometheusAPI serves the three calls of Prometheus's HTTP API that are used, with
// Prometheus's own engine.
func prometheusAPI(t *testing.T, series storage.Queryable) http.Handler {
	engine := newEngine()
	moment := func(text string) time.Time {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Error(err)
		}
		return time.UnixMilli(int64(math.Round(seconds * 1000)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var query promql.Query
		var err error
		expr, named := r.FormValue("query"), strings.HasSuffix(r.URL.Path, "/api/v1/label/__name__/values")
		switch {
		case named:
			expr = "count by (__name__) (" + r.FormValue("match[]") + ")"
			query, err = engine.NewInstantQuery(r.Context(), series, nil, expr, moment(r.FormValue("end")))
		case strings.HasSuffix(r.URL.Path, "/api/v1/query"):
			query, err = engine.NewInstantQuery(r.Context(), series, nil, expr, moment(r.FormValue("time")))
		case strings.HasSuffix(r.URL.Path, "/api/v1/query_range"):
			step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
			query, err = engine.NewRangeQuery(r.Context(), series, nil, expr, moment(r.FormValue("start")), moment(r.FormValue("end")), time.Duration(step*1e9))
		default:
			http.NotFound(w, r)
			return
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]any{"status": "error", "errorType": "bad_data", "error": err.Error()})
			return
		}
		defer query.Close()
		result := query.Exec(r.Context())
		if warnings, _ := result.Warnings.AsStrings(expr, 5, 0); result.Err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", expr, result.Err, warnings)
		}
		var data any = map[string]any{"resultType": result.Value.Type(), "result": result.Value}
		if vector, ok := result.Value.(promql.Vector); named && ok {
			names := []string{}
			for _, one := range vector {
				names = append(names, one.Metric.Get(metricName))
			}
			data = names
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data})
	})
}
