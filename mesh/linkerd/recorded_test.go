package linkerd

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// recorded returns the statistics of the proxy of a pod that receives requests
// and calls a Service with three endpoints.
func recorded(t *testing.T, filter string) observe.ProxyStats {
	t.Helper()
	page, err := os.ReadFile("testdata/client-proxy.txt")
	must.OK(t, err)
	metrics, err := observe.ParsePrometheus(page)
	must.OK(t, err)
	if version, err := observe.LinkerdVersion(metrics); err != nil || version != "29637b64f" {
		t.Errorf("version %q, %v", version, err)
	}
	stats, err := observe.LinkerdStats(metrics, time.Unix(1795295088, 0), regexp.MustCompile(filter))
	must.OK(t, err)
	if stats.Uptime != 59*time.Second {
		t.Errorf("up for %v", stats.Uptime)
	}
	return stats
}

func TestVerifyRecorded(t *testing.T) {
	stats := recorded(t, mesh.Sidecars(&Mesh{}).Stats)
	if len(stats.Gauges) != 1 || stats.Gauges[workersStat] != 1 {
		t.Errorf("gauges: %v, want that of one worker thread", stats.Gauges)
	}
	sent := mesh.SumSeries(stats.Counters, "request_total", map[string]string{"direction": "outbound", "dst_service": "server", "dst_namespace": "test"})
	received := mesh.SumSeries(stats.Counters, "request_total", map[string]string{"direction": "inbound", "target_port": "8080"})
	if sent == 0 || received != 979 {
		t.Fatalf("%v sent, %v received", sent, received)
	}
	env := []byte(`{"LINKERD2_PROXY_CORES_MAX":"1","LINKERD2_PROXY_INBOUND_DEFAULT_POLICY":"all-authenticated","OTHER":null}`)
	at := func(service string, port int, requests float64, levels ...string) mesh.Evidence {
		e := mesh.Evidence{
			Cell:     record.Cell{"sidecars": "both", "concurrency": "1", "telemetry": "off", "mtls": "strict", "cpu_limit": "none"},
			Endpoint: mesh.Endpoint{Service: service, Namespace: "test", Port: port}, Requests: int64(requests), Proxies: map[string]*mesh.Passed{},
		}
		for i := 0; i < len(levels); i += 2 {
			e.Cell[levels[i]] = levels[i+1]
		}
		return e
	}
	for _, tt := range []struct {
		name string
		e    mesh.Evidence
		side string
		bad  []string
	}{
		{"as sent", at("server", 8080, sent), "client", nil},
		{"as received", at("client", 8080, received), "server", nil},
		{"one is missing", at("server", 8080, sent+1), "client", []string{"client-requests", "client-tls"}},
		{"another service", at("other", 8080, sent), "client", []string{"client-requests", "client-tls"}},
		{"another port", at("client", 8081, received), "server", []string{"server-requests", "server-tls"}},
		{"plain text expected", at("server", 8080, sent, "sidecars", "client"), "client", []string{"client-tls"}},
		{"other threads", at("server", 8080, sent, "concurrency", "2"), "client", []string{"client-concurrency"}},
		{"a log", at("server", 8080, sent, "telemetry", "access-log-json"), "client", []string{"client-access-log"}},
		{"permissive", at("client", 8080, received, "mtls", "permissive"), "server", []string{"server-mtls"}},
		{"a limit", at("server", 8080, sent, "cpu_limit", "500m"), "client", []string{"client-cpu-limit"}},
	} {
		tt.e.Way = study.WayOf(tt.e.Cell)
		tt.e.Proxies[tt.side+"_proxy"] = &mesh.Passed{Rise: stats.Counters, Total: stats.Values(), Config: env, State: &mesh.ProxyState{CPULimit: "none"}}
		var bad []string
		for _, c := range (&Mesh{}).Verify(tt.e) {
			if !c.OK && c.Name != "client-sidecar" && c.Name != "server-sidecar" { // only one side is recorded
				bad = append(bad, c.Name)
			}
		}
		if slices.Sort(bad); !slices.Equal(bad, tt.bad) {
			t.Errorf("%s: %v, want %v", tt.name, bad, tt.bad)
		}
	}
}

// The number of threads is what the proxy reports, or what it was configured
// with if it reports none.
func TestWorkersOfProxies(t *testing.T) {
	for _, c := range []struct {
		name  string
		told  string
		stats map[string]float64
		ok    bool
		want  string
	}{
		{"as told", "2", map[string]float64{workersStat: 2}, true, "that the proxy runs"},
		{"fewer CPUs than told", "2", map[string]float64{workersStat: 1}, false, `that the proxy runs: "1", the cell sets "2"`},
		{"not counted", "2", nil, true, "worker threads configured"},
		{"not counted, and told otherwise", "1", nil, false, "worker threads configured"},
	} {
		e := mesh.Evidence{Cell: record.Cell{"concurrency": "2", "telemetry": "off"}}
		checks := runs("client", e, &mesh.Passed{Config: []byte(`{"LINKERD2_PROXY_CORES_MAX":"` + c.told + `"}`), Total: c.stats})
		if checks[0].Name != "client-concurrency" || checks[0].OK != c.ok || !strings.Contains(checks[0].Detail, c.want) {
			t.Errorf("%s: %+v", c.name, checks[0])
		}
	}
}

func TestEjectedRecorded(t *testing.T) {
	m := &Mesh{}
	gauges := recorded(t, m.EjectedFilter()).Gauges
	if len(gauges) != 1 {
		t.Fatalf("%d series: %v", len(gauges), gauges)
	}
	if got := m.Ejected(gauges, "test"); len(got) != 0 {
		t.Errorf("nothing was ejected: %v", got)
	}
	for key := range gauges {
		gauges[key] = 2
	}
	if got := m.Ejected(gauges, "test"); len(got) != 1 || got["server"] != 2 {
		t.Errorf("two of server are out: %v", got)
	}
	if got := m.Ejected(gauges, "elsewhere"); len(got) != 0 {
		t.Errorf("another namespace's: %v", got)
	}
}

func FuzzLabelOf(f *testing.F) {
	f.Add(`request_total{a="b",c="d\"e"}`, "c")
	f.Add(`x{a="`, "a")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, key, label string) {
		mesh.LabelOf(key, label)
		mesh.HasLabels(key, map[string]string{label: "x"})
	})
}
