package observe

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// ztunnelPage is a shortened page of a ztunnel: types are as in OpenMetrics,
// without the suffix of the series.
const ztunnelPage = `# HELP process_open_fds Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 42
# HELP istio_build Istio component build info.
# TYPE istio_build gauge
istio_build{component="ztunnel",tag="1.31.1"} 1
# HELP istio_tcp_connections_opened The total number of TCP connections opened.
# TYPE istio_tcp_connections_opened counter
istio_tcp_connections_opened_total{reporter="source",destination_workload="server-ambient",connection_security_policy="mutual_tls"} 16
istio_tcp_connections_opened_total{reporter="destination",destination_workload="server-ambient",connection_security_policy="mutual_tls"} 16
# EOF
`

func TestZtunnelAdmin(t *testing.T) {
	page := ztunnelPage
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	admin := ZtunnelAdmin(nil, server.URL)
	if version, err := admin.Version(t.Context()); err != nil || version != "1.31.1" {
		t.Errorf("version %q, %v", version, err)
	}
	before, err := admin.Stats(t.Context(), `^istio_tcp_connections_opened_total\{`)
	if err != nil || len(before.Counters) != 2 || len(before.Gauges) != 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	page = strings.ReplaceAll(page, "} 16", "} 20")
	after, err := admin.Stats(t.Context(), `^istio_tcp_connections_opened_total\{`)
	must.OK(t, err)
	after.Taken = before.Taken.Add(time.Hour) // it does not report its uptime
	rise, err := after.Since(before)
	for key, n := range rise {
		if n != 4 {
			t.Errorf("%s rose by %v", key, n)
		}
	}
	if err != nil || len(rise) != 2 {
		t.Errorf("%v, %v", rise, err)
	}
	if _, err := before.Since(ProxyStats{Taken: before.Taken, Counters: after.Counters}); err == nil {
		t.Error("counters that fell passed")
	}
	page = "process_open_fds 1\n"
	if _, err := admin.Version(t.Context()); err == nil {
		t.Error("a page without a version passed")
	}
}
