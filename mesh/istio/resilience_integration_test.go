//go:build integration

package istio_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Levers on requests reach the caller's proxy and are verified there, ledger
// lines with the requests' IDs come from both sides, failing endpoints are
// ejected and counted, and short-lived certificates are replaced.
func TestResilienceOnIstio(t *testing.T) {
	l := labtest.Start(t)
	m := istio.New(l.Images())
	s := scene{t: t, lab: l, mesh: m, dialer: lab.NewDialer(l.RESTConfig())}
	defer s.dialer.Close()
	ctx := t.Context()
	proxy := &mesh.Proxy{Levels: record.Cell{"mtls": "strict", "telemetry": mesh.TelemetryLedger, "concurrency": "1", "cpu_limit": "none"}}
	short := *proxy
	short.CertificateTTL = 20 * time.Second
	bar := mesh.Workload{Name: "bar", Namespace: resilient, Proxy: &short, ControlPort: 15900}
	client := mesh.Workload{Name: "clients", Namespace: resilient, Proxy: proxy, ControlPort: 15901}
	must.OK(t, must.Err(m.Check(ctx, l.RESTConfig(), []mesh.Proxy{*proxy})))
	s.up(bar, client)

	route := mesh.Route{Name: "bar", Namespace: resilient, Port: 8080}
	plain := record.Cell{"retries": "default", "retry_on": "default", "per_try_timeout": "none", "request_timeout": "none",
		"outlier_detection": "off", "circuit_breaker": "off", "load_balancer": "default"}
	all := record.Cell{"retries": "3", "retry_on": "5xx,reset,429", "per_try_timeout": "250ms", "request_timeout": "1.5s",
		"outlier_detection": "errors=5 interval=1s ejection=5s max=100%", "circuit_breaker": "connections=10 pending=5 requests=20 retries=4",
		"load_balancer": "ring_hash"}
	off := plain.With(map[string]string{"retries": "off", "outlier_detection": "errors=2 interval=0.5s ejection=1m max=50%", "load_balancer": "random"})
	for i, cell := range []record.Cell{plain, all, off} {
		s.apply(route, cell)
		began := time.Now()
		dump := s.until(client, route, cell)
		t.Logf("%v: in force after %v", cell, time.Since(began).Round(time.Millisecond))
		for j, other := range []record.Cell{plain, all, off} {
			if bad := failures(m.CheckTraffic(dump, []mesh.Route{route}, other, true)); (len(bad) > 0) != (i != j) {
				t.Errorf("cell %d is in force, checked for cell %d: %q", i, j, bad)
			}
		}
		if to := os.Getenv("MESHTRIAL_KEEP_DUMPS"); to != "" {
			must.OK(t, os.WriteFile(filepath.Join(to, fmt.Sprintf("dump%d.json", i)), dump, 0o644))
		}
	}

	// One of the two replicas fails and is ejected; the other is not.
	failing := control.Client{HTTPClient: s.dialer.Role(resilient, s.pods("bar")[0].Name, 15900), BaseURL: "http://127.0.0.1:15900"}
	must.OK(t, must.Err(failing.Update(ctx, func(c *control.Config) {
		c.Failures = []control.Failure{{Share: 1, How: "status", Status: 503}}
	})))
	// Two consecutive errors of the replica eject it. Another thread notifies the
	// thread that has the requests, which takes a while on a busy machine; then
	// no more of them fail.
	switch failed := s.request("mm-it-0-1", 20); {
	case failed < 2:
		t.Errorf("%d requests failed before the replica was ejected, want 2", failed)
	case failed > 2:
		t.Logf("%d requests failed before the proxy's thread knew that the replica is ejected", failed)
	}
	admin := s.admin(s.pods("clients")[0].Name)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		stats, err := admin.Stats(ctx, m.EjectedFilter())
		must.OK(t, err)
		ejected := m.Ejected(stats.Values(), resilient)
		if ejected["bar"] == 1 && len(ejected) == 1 {
			t.Logf("ejected: %v of %v", ejected, stats.Values())
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("ejected: %v of %v", ejected, stats.Values())
		}
	}
	failed := int64(0)
	for i := range 5 {
		if failed = s.request(fmt.Sprintf("mm-it-0-%d", 2+i), 20); failed == 0 {
			break
		}
	}
	if failed != 0 {
		t.Errorf("%d of 20 requests failed with the replica ejected", failed)
	}
	s.lines("mm-it-0-1", 20)

	// Counters of rejected configuration are kept, including those of routes and
	// endpoints.
	stats, err := admin.Stats(ctx, `\.update_rejected$`)
	must.OK(t, err)
	for _, want := range []string{"listener_manager.lds.", "cluster_manager.cds.", ".rds.8080.", "cluster.outbound|8080||bar."} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(stats.Counters)), func(name string) bool { return strings.Contains(name, want) }) {
			t.Errorf("no counter of %s among %v", want, stats.Counters)
		}
	}

	// A certificate is replaced after half of its validity, 10 s.
	server := s.admin(s.pods("bar")[0].Name)
	certificate := func() mesh.Certificate {
		answer, err := server.Get(ctx, m.CertificatePath(), nil)
		must.OK(t, err)
		c, err := m.Certificate(answer)
		must.OK(t, err)
		return c
	}
	first := certificate()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		now := certificate()
		if now.Serial != first.Serial {
			if now.ExpiredAt(time.Now()) || !now.Expire.After(first.Expire) || now.Expire.After(time.Now().Add(21*time.Second)) {
				t.Errorf("%+v after %+v", now, first)
			}
			t.Logf("%+v, after %v %+v", first, time.Since(began), now)
			break
		}
		if time.Since(began) > 90*time.Second {
			t.Fatalf("still %+v", now)
		}
	}
}
