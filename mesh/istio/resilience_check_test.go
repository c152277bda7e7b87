package istio

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// trafficDumps are excerpts of the configuration of a caller's Envoy in a lab
// whose istiod had the objects of these cells.
var trafficDumps = map[string]record.Cell{
	"default": untouched,
	"all": {"retries": "3", "retry_on": "5xx,reset,429", "per_try_timeout": "250ms", "request_timeout": "1.5s",
		"outlier_detection": "errors=5 interval=1s ejection=5s max=100%", "circuit_breaker": "connections=10 pending=5 requests=20 retries=4",
		"load_balancer": "ring_hash"},
	"off": untouched.With(map[string]string{"retries": "off", "outlier_detection": "errors=2 interval=0.5s ejection=1m max=50%", "load_balancer": "random"}),
}

var recordedRoute = mesh.Route{Name: "bar", Namespace: "meshtrial-resilience", Port: 8080}

func trafficDump(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "traffic", name+".json"))
	must.OK(t, err)
	return string(text)
}

// A level that the proxy does not have fails only the check of its lever and
// that of the object it requires.
func TestCheckTraffic(t *testing.T) {
	routes, clusters := "traffic-routes", "traffic-clusters"
	for _, tt := range []struct {
		dump   string
		change map[string]string
		fails  []string
	}{
		{dump: "default"}, {dump: "all"}, {dump: "off"},
		{"all", map[string]string{"retries": "2"}, []string{"retries"}},
		{"all", map[string]string{"retries": "off"}, []string{"retries"}},
		{"all", map[string]string{"retries": "default"}, []string{"retries"}}, // Istio's default of 2 is requested with the rest
		{"all", map[string]string{"retry_on": "5xx,reset"}, []string{"retry_on"}},
		{"all", map[string]string{"retry_on": "429,reset,5xx"}, nil},
		{"all", map[string]string{"per_try_timeout": "251ms"}, []string{"per_try_timeout"}},
		{"all", map[string]string{"per_try_timeout": "none"}, []string{"per_try_timeout"}},
		{"all", map[string]string{"request_timeout": "1s"}, []string{"request_timeout"}},
		{"all", map[string]string{"request_timeout": "none"}, []string{"request_timeout"}},
		{"all", map[string]string{"outlier_detection": "off"}, []string{"outlier_detection"}},
		{"all", map[string]string{"outlier_detection": "errors=4 interval=1s ejection=5s max=100%"}, []string{"outlier_detection"}},
		{"all", map[string]string{"outlier_detection": "errors=5 interval=2s ejection=5s max=100%"}, []string{"outlier_detection"}},
		{"all", map[string]string{"outlier_detection": "errors=5 interval=1s ejection=6s max=100%"}, []string{"outlier_detection"}},
		{"all", map[string]string{"outlier_detection": "errors=5 interval=1s ejection=5s max=99%"}, []string{"outlier_detection"}},
		{"all", map[string]string{"outlier_detection": "errors=5"}, nil},
		{"all", map[string]string{"circuit_breaker": "off"}, []string{"circuit_breaker"}},
		{"all", map[string]string{"circuit_breaker": "connections=11 pending=5 requests=20 retries=4"}, []string{"circuit_breaker"}},
		{"all", map[string]string{"circuit_breaker": "connections=10 pending=6 requests=20 retries=4"}, []string{"circuit_breaker"}},
		{"all", map[string]string{"circuit_breaker": "connections=10 pending=5 requests=21 retries=4"}, []string{"circuit_breaker"}},
		{"all", map[string]string{"circuit_breaker": "connections=10 pending=5 requests=20"}, []string{"circuit_breaker"}},
		{"all", map[string]string{"load_balancer": "round_robin"}, []string{"load_balancer"}},
		{"all", untouched, []string{"circuit_breaker", "outlier_detection", "per_try_timeout", "request_timeout", clusters, routes}},
		{"default", map[string]string{"retries": "3"}, []string{"retries", routes}},
		{"default", map[string]string{"retries": "off"}, []string{"retries", routes}},
		{"default", map[string]string{"retry_on": "5xx"}, []string{"retry_on", routes}},
		{"default", map[string]string{"outlier_detection": "max=50%"}, []string{"outlier_detection", clusters}},
		{"default", map[string]string{"load_balancer": "least_request"}, []string{clusters}}, // Istio's own, but not set by our object
		{"off", map[string]string{"retries": "default"}, []string{routes}},
		{"off", map[string]string{"load_balancer": "ring_hash"}, []string{"load_balancer"}},
		{"off", map[string]string{"load_balancer": "-", "outlier_detection": "-"}, []string{clusters}},
	} {
		cell := trafficDumps[tt.dump].With(tt.change)
		checks := (&Mesh{}).CheckTraffic([]byte(trafficDump(t, tt.dump)), []mesh.Route{recordedRoute}, cell, true)
		if got := failed(checks); !slices.Equal(got, tt.fails) {
			t.Errorf("%s with %v fails %q, want %q: %+v", tt.dump, tt.change, got, tt.fails, checks)
		}
	}
}

// Differences in the proxy are detected.
func TestCheckTrafficFinds(t *testing.T) {
	for _, tt := range []struct{ dump, old, new, fails, detail string }{
		{"all", `"num_retries": 3`, `"num_retries": 4`, "retries", "bar: retries: the proxy has 4, the cell sets 3"},
		{"all", `"num_retries": 3,`, ``, "retries", "the proxy has 1, the cell sets 3"},
		{"all", `"retriable_status_codes"`, `"x"`, "retry_on", "5xx,reset,retriable-status-codes,"},
		{"all", `"0.250s"`, `"25s"`, "per_try_timeout", "the proxy has 25s, the cell sets 250ms"},
		{"all", `"timeout": "1.500s"`, `"x": ""`, "request_timeout", "the proxy has 15s"},
		{"all", `"consecutive_5xx": 5`, `"consecutive_5xx": 6`, "outlier_detection", "errors: the proxy has 6, the cell sets 5"},
		{"all", `"consecutive_5xx": 5,`, ``, "outlier_detection", "errors: the proxy has -1"},
		{"all", `"lb_policy": "RING_HASH",`, ``, "load_balancer", "the proxy has round_robin, the cell sets ring_hash"},
		{"all", `"x-meshtrial-key"`, `"x-other"`, "load_balancer", "hashed headers: the proxy has x-other"},
		{"all", `"max_connections": 10`, `"max_connections": 1024`, "circuit_breaker", "connections: the proxy has 1024, the cell sets 10"},
		{"all", `virtual-service/bar`, `virtual-service/other`, "traffic-routes", "made by meshtrial-resilience/virtual-service/other, expected meshtrial-resilience/virtual-service/bar"},
		{"all", `destination-rule/bar`, `destination-rule/other`, "traffic-clusters", "destination-rule/other"},
		{"default", `"dynamic_active_clusters"`, `"dynamic_warming_clusters"`, "traffic-clusters", "no cluster"},
		{"default", `"upstream_log"`, `"x"`, "ledger-attempts", "a line per attempt: false"},
		{"default", `%REQ(X-REQUEST-ID)%`, `%REQ(X-OTHER)%`, "ledger-requests", "a line per request: false"},
	} {
		text := trafficDump(t, tt.dump)
		if !strings.Contains(text, tt.old) {
			t.Fatalf("%s has no %s", tt.dump, tt.old)
		}
		checks := (&Mesh{}).CheckTraffic([]byte(strings.ReplaceAll(text, tt.old, tt.new)), []mesh.Route{recordedRoute}, trafficDumps[tt.dump], true)
		i := slices.IndexFunc(checks, func(c record.Check) bool { return c.Name == tt.fails })
		if i < 0 || checks[i].OK || !strings.Contains(checks[i].Detail, tt.detail) {
			t.Errorf("%s instead of %s: want %s to fail with %q: %+v", tt.new, tt.old, tt.fails, tt.detail, checks)
		}
	}
}

// Of many incorrect services a few are named, and the others counted.
func TestCheckTrafficOfManyServices(t *testing.T) {
	routes := []mesh.Route{recordedRoute}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		routes = append(routes, mesh.Route{Name: name, Namespace: recordedRoute.Namespace, Port: 8080})
	}
	for _, c := range (&Mesh{}).CheckTraffic([]byte(trafficDump(t, "all")), routes, trafficDumps["all"], true) {
		if strings.HasPrefix(c.Name, "ledger-") {
			continue
		}
		if c.OK || !strings.Contains(c.Detail, "a: the proxy has no ") || !strings.Contains(c.Detail, "b: ") || strings.Contains(c.Detail, "e: ") || !strings.HasSuffix(c.Detail, " more") {
			t.Errorf("%+v", c)
		}
	}
	for _, broken := range []string{"", "{", `{"configs":[{"dynamic_active_clusters":[{"cluster":{"name":1}}]}]}`} {
		if checks := (&Mesh{}).CheckTraffic([]byte(broken), routes, untouched, true); len(checks) != 1 || checks[0].OK {
			t.Errorf("%q: %+v", broken, checks)
		}
	}
}

// A study without a ledger measures proxies without the log.
func TestCheckTrafficWithoutLedger(t *testing.T) {
	wrong := 0
	for _, c := range (&Mesh{}).CheckTraffic([]byte(trafficDump(t, "default")), []mesh.Route{recordedRoute}, trafficDumps["default"], false) {
		if !c.OK && strings.HasPrefix(c.Name, "ledger-") && strings.Contains(c.Detail, "asks for it: false") {
			wrong++
		}
	}
	if wrong != 2 {
		t.Errorf("%d checks find the log that nobody asked for, want 2", wrong)
	}
}

func FuzzCheckTraffic(f *testing.F) {
	for name := range trafficDumps {
		f.Add([]byte(trafficDump(f, name)))
	}
	f.Add([]byte(`{"configs":[{"dynamic_route_configs":[{"route_config":{"virtual_hosts":[{"routes":[{"route":{"retry_policy":{}}}]}]}}]}]}`))
	f.Fuzz(func(t *testing.T, dump []byte) {
		for _, cell := range trafficDumps {
			if len((&Mesh{}).CheckTraffic(dump, []mesh.Route{recordedRoute}, cell, true)) == 0 {
				t.Error("nothing was checked")
			}
		}
	})
}
