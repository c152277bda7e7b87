package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	must.OK(t, err)
	return data
}

// Envoy 1.40.0 wrote both files one after the other. Their common content must
// be read identically.
func TestBothFormsAgree(t *testing.T) {
	stats, err := ParseEnvoyStatsJSON(testdata(t, "envoy-stats.json"))
	must.OK(t, err)
	if len(stats) < 200 {
		t.Fatalf("%d statistics", len(stats))
	}
	if stats["http.in.downstream_rq_2xx"] != 3 || stats["http.in.downstream_rq_total"] != 3 || stats["server.concurrency"] != 1 {
		t.Errorf("rq_2xx %v, rq_total %v, concurrency %v", stats["http.in.downstream_rq_2xx"], stats["http.in.downstream_rq_total"], stats["server.concurrency"])
	}
	metrics, err := ParsePrometheus(testdata(t, "envoy-stats.prom"))
	must.OK(t, err)
	total, found := Sum(metrics, "envoy_http_downstream_rq_xx", map[string]string{"envoy_http_conn_manager_prefix": "in", "envoy_response_code_class": "2"})
	if !found || total != 3 {
		t.Errorf("prometheus: %v, %v", total, found)
	}
}

// fakeEnvoy fakes an admin interface.
type fakeEnvoy struct {
	uptime   int
	counters map[string]int
	gauges   map[string]int
	status   int
}

func (e *fakeEnvoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.status != 0 {
		http.Error(w, "upstream connect error", e.status)
		return
	}
	switch r.URL.Path {
	case "/server_info":
		fmt.Fprintf(w, `{"version":"9e55/1.40.0/Clean/RELEASE/BoringSSL","state":"LIVE","uptime_current_epoch":"%ds","command_line_options":{"concurrency":2},"node":{"id":"sidecar~1"}}`, e.uptime)
	case "/stats":
		stats := e.counters
		if r.URL.Query().Get("type") == "Gauges" {
			stats = e.gauges
		}
		var entries []string
		for name, value := range stats {
			if strings.Contains(name, r.URL.Query().Get("filter")) {
				entries = append(entries, fmt.Sprintf(`{"name":%q,"value":%d}`, name, value))
			}
		}
		entries = append(entries, `{"histograms":{"supported_quantiles":[0]}}`, `{"name":"text","value":"x"}`)
		fmt.Fprintf(w, `{"stats":[%s]}`, strings.Join(entries, ","))
	case "/certs":
		fmt.Fprint(w, `{"certificates":[{"ca_cert":[{"path":"<inline>","serial_number":"aa","subject_alt_names":[],"days_until_expiration":"3649","valid_from":"2026-11-21T08:00:00Z","expiration_time":"2036-11-18T08:00:00Z"}],`+
			`"cert_chain":[{"serial_number":"bb","subject_alt_names":[{"uri":"spiffe://cluster.local/ns/a/sa/b"}],"valid_from":"2026-11-21T08:00:00Z","expiration_time":"2026-11-22T08:00:00Z"}]}]}`)
	case "/config_dump":
		fmt.Fprint(w, "no json")
	default:
		http.NotFound(w, r)
	}
}

// Both kinds of proxies are queried the same way, and errors name the kind.
func TestAdminPages(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			http.Error(w, "not here", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, r.URL)
	}))
	defer server.Close()
	for what, get := range map[string]func(context.Context, string, url.Values) ([]byte, error){
		"envoy admin":   EnvoyAdmin{BaseURL: server.URL + "/"}.Get,
		"linkerd admin": LinkerdAdmin(nil, server.URL+"/").Get,
	} {
		if body, err := get(t.Context(), "/a", url.Values{"b": {"c d"}}); err != nil || string(body) != "/a?b=c+d" {
			t.Errorf("%s: %q, %v", what, body, err)
		}
		if _, err := get(t.Context(), "/gone", nil); err == nil || err.Error() != what+": /gone: 404 Not Found: not here" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for limit, ok := range map[int64]bool{3: false, 5: true} {
		if _, err := fetch(t.Context(), nil, http.MethodGet, server.URL+"/long", "small", limit); (err == nil) != ok || !ok && err.Error() != "small: the answer is larger than 3 bytes, more than is read" {
			t.Errorf("an answer of 5 bytes, limit %d: %v", limit, err)
		}
	}
}

func TestEnvoyAdmin(t *testing.T) {
	envoy := &fakeEnvoy{uptime: 100, counters: map[string]int{"http.rq": 10, "other": 1}, gauges: map[string]int{"http.active": 3}}
	server := httptest.NewServer(envoy)
	defer server.Close()
	admin, ctx := EnvoyAdmin{BaseURL: server.URL}, t.Context()
	before, err := admin.Stats(ctx, "http")
	if err != nil || before.Counters["http.rq"] != 10 || len(before.Counters) != 1 || before.Values()["http.active"] != 3 || before.Uptime != 100*time.Second {
		t.Fatalf("%+v, %v", before, err)
	}
	envoy.counters = map[string]int{"http.rq": 17, "http.new": 2}
	after, err := admin.Stats(ctx, "http")
	must.OK(t, err)
	rise, err := after.Since(before)
	if want := map[string]float64{"http.rq": 7, "http.new": 2}; err != nil || !reflect.DeepEqual(rise, want) {
		t.Errorf("%v, %v", rise, err)
	}
	if version, err := admin.Version(ctx); err != nil || version != "1.40.0" {
		t.Errorf("%q, %v", version, err)
	}
	page, err := admin.Get(ctx, "/certs", nil)
	must.OK(t, err)
	certs, err := ParseEnvoyCertificates(page)
	if err != nil || len(certs) != 2 || certs[0].Authority || certs[0].Names[0] != "spiffe://cluster.local/ns/a/sa/b" || !certs[1].Authority || certs[0].Expiration.Day() != 22 {
		t.Errorf("%+v, %v", certs, err)
	}
	if _, err := admin.Config(ctx); err == nil {
		t.Error("a config dump that is no JSON was taken")
	}
	envoy.status = 503
	if _, err := admin.Stats(ctx, ""); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := admin.Stats(cancelled, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestARestartedEnvoyIsNoticed(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := ProxyStats{Taken: at, Uptime: 60 * time.Second, Counters: map[string]float64{"a": 5, "gone": 3, "idle": 0}}
	for name, test := range map[string]struct {
		after   ProxyStats
		restart bool
	}{
		"went on":                    {ProxyStats{Taken: at.Add(10 * time.Second), Uptime: 70 * time.Second, Counters: map[string]float64{"a": 6}}, false},
		"cut to seconds":             {ProxyStats{Taken: at.Add(10*time.Second + 900*time.Millisecond), Uptime: 70 * time.Second, Counters: map[string]float64{"a": 6}}, false},
		"younger":                    {ProxyStats{Taken: at.Add(10 * time.Second), Uptime: 4 * time.Second, Counters: map[string]float64{"a": 60}}, true},
		"older than before, but new": {ProxyStats{Taken: at.Add(100 * time.Second), Uptime: 90 * time.Second, Counters: map[string]float64{"a": 60}}, true},
		"a counter fell":             {ProxyStats{Taken: at.Add(time.Second), Uptime: 61 * time.Second, Counters: map[string]float64{"a": 4}}, true},
	} {
		rise, err := test.after.Since(before)
		if errors.Is(err, ErrReset) != test.restart {
			t.Errorf("%s: %v, %v", name, rise, err)
		}
	}
	if _, err := before.Since(ProxyStats{Taken: at.Add(time.Second)}); err == nil {
		t.Error("readings in the wrong order were taken")
	}
}

func TestParsersRefuse(t *testing.T) {
	for name, parse := range map[string]func([]byte) error{
		"stats": func(b []byte) error { _, err := ParseEnvoyStatsJSON(b); return err },
		"info":  func(b []byte) error { _, err := parseEnvoyServerInfo(b); return err },
		"certs": func(b []byte) error { _, err := ParseEnvoyCertificates(b); return err },
	} {
		for _, text := range []string{"", "x", "[1]", `{"stats":1,"certificates":1,"version":1}`} {
			if parse([]byte(text)) == nil {
				t.Errorf("%s: %q was taken", name, text)
			}
		}
	}
	for _, version := range []string{"", "1.40.0", "a/b/c"} {
		if _, err := parseEnvoyServerInfo([]byte(`{"version":"` + version + `","uptime_current_epoch":"1s"}`)); err == nil {
			t.Errorf("version %q was taken", version)
		}
	}
	for _, uptime := range []string{"", "1", "xs", "NaNs", "1e300s"} {
		if _, err := parseEnvoyServerInfo([]byte(`{"version":"a/b/c/d/e","uptime_current_epoch":"` + uptime + `"}`)); err == nil {
			t.Errorf("uptime %q was taken", uptime)
		}
	}
}

func TestParsePrometheus(t *testing.T) {
	page := "# TYPE c counter\nc{code=\"200\",to=\"a\\\"b\"} 3\nc{code=\"500\",to=\"x\"} 1\n# TYPE g gauge\ng 1.5\nu 7\n" +
		"# TYPE h histogram\nh_bucket{le=\"0.1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 0.5\nh_count 3\n# TYPE s summary\ns{quantile=\"0.5\"} 4\ns_sum 9\ns_count 2\n"
	metrics, err := ParsePrometheus([]byte(page))
	must.OK(t, err)
	byKey := map[string]float64{}
	for _, m := range metrics {
		byKey[m.Key()] = m.Value
	}
	want := map[string]float64{`c{code="200",to="a\"b"}`: 3, `c{code="500",to="x"}`: 1, "g": 1.5, "u": 7, `h_bucket{le="0.1"}`: 2, `h_bucket{le="+Inf"}`: 3,
		"h_sum": 0.5, "h_count": 3, `s{quantile="0.5"}`: 4, "s_sum": 9, "s_count": 2}
	if !reflect.DeepEqual(byKey, want) {
		t.Errorf("%v", byKey)
	}
	if sum, found := Sum(metrics, "c", nil); sum != 4 || !found {
		t.Errorf("%v, %v", sum, found)
	}
	if _, found := Sum(metrics, "c", map[string]string{"code": "404"}); found {
		t.Error("found what is not there")
	}
	if _, err := ParsePrometheus([]byte("c{ 3\n")); err == nil {
		t.Error("a broken page was taken")
	}
}

func TestSampleSince(t *testing.T) {
	at := func(total, user, system uint64) Sample {
		return Sample{CPU: CPUSample{TotalNS: total, UserNS: user, SystemNS: system, Inode: 1}}
	}
	cpu, err := at(5e9, 3e9, 1e9).Since(at(1e9, 1e9, 0))
	if err != nil || cpu.TotalS() != 4 || math.Abs(cpu.UserS-4*2.0/3) > 1e-12 {
		t.Errorf("%+v, %v", cpu, err)
	}
	// No tick fell into the window: use the proportion so far.
	if cpu, err := at(1e9+1000, 6e8, 2e8).Since(at(1e9, 6e8, 2e8)); err != nil || math.Abs(cpu.SystemS-2.5e-7) > 1e-12 {
		t.Errorf("%+v, %v", cpu, err)
	}
	if cpu, err := at(7, 0, 0).Since(at(5, 0, 0)); err != nil || cpu.UserS != 2e-9 {
		t.Errorf("%+v, %v", cpu, err)
	}
	other := at(9e9, 0, 0)
	other.CPU.Inode = 2
	for name, after := range map[string]Sample{"fell": at(0, 0, 0), "another cgroup": other, "gone": {Error: "gone"}} {
		if _, err := after.Since(at(1e9, 1, 1)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := at(1, 1, 1).Since(Sample{Error: "was not there"}); err == nil {
		t.Error("a missing start was taken")
	}
}

// However the estimates of the shares vary, the parts add up to the exact total
// and neither is negative.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) uint64 { return rapid.Uint64Range(0, 1e18).Draw(t, name) }
		a := Sample{CPU: CPUSample{TotalNS: draw("t0"), UserNS: draw("u0"), SystemNS: draw("s0")}}
		b := Sample{CPU: CPUSample{TotalNS: a.CPU.TotalNS + draw("dt"), UserNS: draw("u1"), SystemNS: draw("s1")}}
		cpu, err := b.Since(a)
		must.OK(t, err)
		total := float64(b.CPU.TotalNS-a.CPU.TotalNS) / 1e9
		if cpu.UserS < -1e-9*total || cpu.SystemS < 0 || math.Abs(cpu.TotalS()-total) > 1e-9*total {
			t.Fatalf("%+v of %v", cpu, total)
		}
	})
}

func TestMachineSince(t *testing.T) {
	before := MachineSample{AtUnixNS: 1e9, UserNS: 1e9, SystemNS: 1e9, IdleNS: 5e9, CPUSomeNS: 1e9}
	after := MachineSample{AtUnixNS: 3e9, UserNS: 2e9, SystemNS: 1.25e9, IRQNS: 0.25e9, SoftIRQNS: 0.5e9, StealNS: 0.2e9, IdleNS: 6.8e9, CPUSomeNS: 1.5e9}
	cpu, pressure, err := after.Since(before)
	if err != nil || cpu.UserS != 1 || cpu.SystemS != 1 || pressure.CPUSomeRatio != 0.25 || math.Abs(pressure.BusyRatio-0.5) > 1e-12 || math.Abs(pressure.StealRatio-0.05) > 1e-12 {
		t.Errorf("%+v %+v %v", cpu, pressure, err)
	}
	if _, _, err := before.Since(after); err == nil {
		t.Error("samples in the wrong order were taken")
	}
	if _, _, err := (MachineSample{AtUnixNS: 9e9}).Since(before); !errors.Is(err, ErrReset) {
		t.Errorf("a reboot: %v", err)
	}
}
