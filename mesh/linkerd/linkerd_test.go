package linkerd

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

func podWithPorts() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
		{Name: "http-echo", ContainerPort: 8080}, {Name: "tcp-echo", ContainerPort: 8090}, {Name: "https-echo", ContainerPort: 8443}, {Name: "tcp", ContainerPort: 9000},
	}}}}}
}

func TestDecorate(t *testing.T) {
	threads := func(n string) string {
		return `[{"name":"LINKERD2_PROXY_CORES","value":"` + n + `"},{"name":"LINKERD2_PROXY_CORES_MIN","value":"` + n + `"},{"name":"LINKERD2_PROXY_CORES_MAX","value":"` + n + `"}]`
	}
	for _, tt := range []struct {
		name  string
		proxy *mesh.Proxy
		want  map[string]string
	}{
		{"none", nil, map[string]string{"linkerd.io/inject": "disabled"}},
		{"plain", &mesh.Proxy{Levels: record.Cell{"mtls": "strict", "telemetry": "off", "concurrency": "2", "cpu_limit": "none"}}, map[string]string{
			"linkerd.io/inject": "enabled", "config.linkerd.io/proxy-additional-env": threads("2"), "config.linkerd.io/default-inbound-policy": "all-authenticated",
			"config.linkerd.io/skip-inbound-ports": "15991", "config.linkerd.io/opaque-ports": "8090,9000"}},
		{"all", &mesh.Proxy{Levels: record.Cell{"mtls": "permissive", "telemetry": mesh.TelemetryLedger, "concurrency": "1", "cpu_limit": "500m"}}, map[string]string{
			"linkerd.io/inject": "enabled", "config.linkerd.io/proxy-additional-env": threads("1"), "config.linkerd.io/default-inbound-policy": "all-unauthenticated",
			"config.linkerd.io/skip-inbound-ports": "15991", "config.linkerd.io/opaque-ports": "8090,9000",
			"config.linkerd.io/access-log": "json", "config.linkerd.io/proxy-cpu-limit": "500m"}},
		{"apache", &mesh.Proxy{Levels: record.Cell{"mtls": "permissive", "telemetry": "access-log-text", "concurrency": "1"}}, map[string]string{
			"linkerd.io/inject": "enabled", "config.linkerd.io/proxy-additional-env": threads("1"), "config.linkerd.io/default-inbound-policy": "all-unauthenticated",
			"config.linkerd.io/skip-inbound-ports": "15991", "config.linkerd.io/opaque-ports": "8090,9000", "config.linkerd.io/access-log": "apache"}},
	} {
		pod := podWithPorts()
		if err := (&Mesh{}).Decorate(mesh.Workload{Name: "w", Proxy: tt.proxy, ControlPort: 15991}, &pod); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !maps.Equal(pod.Annotations, tt.want) {
			t.Errorf("%s: %v", tt.name, pod.Annotations)
		}
	}
}

// What Linkerd lacks is rejected before anything is created.
func TestDecorateRefuses(t *testing.T) {
	for name, p := range map[string]mesh.Proxy{
		"mtls=off":                        {Levels: record.Cell{"mtls": "off", "concurrency": "1"}},
		"telemetry=access-log-json+stats": {Levels: record.Cell{"telemetry": "access-log-json+stats", "concurrency": "1"}},
		"envoy=1.39.0":                    {Levels: record.Cell{"envoy": "1.39.0", "concurrency": "1"}},
		"interception=none":               {Levels: record.Cell{"interception": "none", "concurrency": "1"}},
		"certificates=10s":                {Levels: record.Cell{"concurrency": "1"}, CertificateTTL: 10e9},
	} {
		pod := podWithPorts()
		err := (&Mesh{}).Decorate(mesh.Workload{Name: "w", Proxy: &p}, &pod)
		if err == nil || !strings.Contains(err.Error(), name) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	pod := podWithPorts()
	if err := (&Mesh{}).Decorate(mesh.Workload{Name: "w", Proxy: &mesh.Proxy{Levels: record.Cell{"concurrency": "many"}}}, &pod); err == nil {
		t.Error("took a number of threads that is none")
	}
}

// cellOf returns a cell of a resilience study with the given levels in place of
// defaults.
func cellOf(levels ...string) record.Cell {
	cell := record.Cell{}
	for _, f := range resilience.Kind.Factors() {
		cell[f.Name] = f.Default
	}
	cell[study.FactorMesh] = study.MeshLinkerd
	for i := 0; i < len(levels); i += 2 {
		cell[levels[i]] = levels[i+1]
	}
	return resilience.Kind.Effective(cell)
}

func TestLevers(t *testing.T) {
	for _, tt := range []struct {
		name string
		cell record.Cell
		want map[string]string
	}{
		{"defaults", cellOf(), map[string]string{}},
		{"off", cellOf("retries", "off", "outlier_detection", "off"), map[string]string{}},
		{"retries", cellOf("retries", "3"), map[string]string{retryHTTP: "gateway-error", retryLimit: "3"}},
		{"conditions alone", cellOf("retry_on", "5xx,429"), map[string]string{retryHTTP: "5xx,429", retryLimit: "1"}},
		{"times", cellOf("retries", "2", "per_try_timeout", "1m30s", "request_timeout", "2s"), map[string]string{
			retryHTTP: "gateway-error", retryLimit: "2", retryTimeout: "90000ms", requestTimeout: "2000ms"}},
		{"accrual", cellOf("outlier_detection", "errors=5 ejection=5s max=100%"), map[string]string{
			accrual: "consecutive", maxFailures: "5", minPenalty: "5000ms", maxPenalty: "60000ms"}},
		{"long penalty", cellOf("outlier_detection", "ejection=2m"), map[string]string{
			accrual: "consecutive", maxFailures: "7", minPenalty: "120000ms", maxPenalty: "120000ms"}},
	} {
		s := corev1.Service{}
		(&Mesh{}).DecorateService(&s, tt.cell)
		if !maps.Equal(s.Annotations, tt.want) {
			t.Errorf("%s: %v", tt.name, s.Annotations)
		}
	}
	// Ports without HTTP are marked even without a cell.
	s := corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http-echo", Port: 80}, {Name: "tcp-echo", Port: 81}}}}
	(&Mesh{}).DecorateService(&s, nil)
	if !maps.Equal(s.Annotations, map[string]string{"config.linkerd.io/opaque-ports": "81"}) {
		t.Errorf("%v", s.Annotations)
	}
}

func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		cell   record.Cell
		factor string // "" for none
		says   string
	}{
		{cellOf(), "", ""},
		{cellOf("mtls", "strict"), "", ""},
		{cellOf("retries", "3", "retry_on", "5xx,gateway-error,429", "per_try_timeout", "1s", "request_timeout", "3s", "outlier_detection", "errors=3 ejection=5s max=100%"), "", ""},
		{cellOf("retries", "off", "retry_on", "reset"), "", ""}, // conditions are meaningless then
		{cellOf("mtls", "off"), "mtls", "always uses mutual TLS"},
		{cellOf("retry_on", "5xx,connect-failure"), "retry_on", `"connect-failure"`},
		{cellOf("retries", "2", "protocol", "grpc"), "retries", "HTTP status 200"},
		{cellOf("outlier_detection", "errors=5 interval=1s"), "outlier_detection", "interval"},
		{cellOf("outlier_detection", "errors=5 max=50%"), "outlier_detection", "does not limit how many"},
		{cellOf("circuit_breaker", "pending=5"), "circuit_breaker", "does not limit"},
		{cellOf("load_balancer", "ring_hash"), "load_balancer", "one load balancer"},
		{cellOf("locality", "ignore"), "locality", "hints in a Service's EndpointSlices"},
		{cellOf("locality", "default"), "", ""},
	} {
		got := (&Mesh{}).Lacks(tt.cell)
		if tt.factor == "" && len(got) > 0 || tt.factor != "" && (len(got) != 1 || got[0].Factor != tt.factor || got[0].Level != tt.cell[tt.factor] || !strings.Contains(got[0].Reason, tt.says)) {
			t.Errorf("%s: %+v", tt.cell.Key(), got)
		}
	}
}

func TestLabels(t *testing.T) {
	key := `request_total{authority="bar:80",direction="outbound",dst_service="b\"a,r",tls="true"}`
	for label, want := range map[string]string{"authority": "bar:80", "direction": "outbound", "dst_service": `b"a,r`, "tls": "true", "service": "", "other": ""} {
		if got := mesh.LabelOf(key, label); got != want {
			t.Errorf("%s is %q, want %q", label, got, want)
		}
	}
	stats := map[string]float64{key: 2, `request_total{direction="inbound"}`: 4, `request_totals{direction="outbound"}`: 8}
	if got := mesh.SumSeries(stats, "request_total", map[string]string{"direction": "outbound"}); got != 2 {
		t.Errorf("sum is %v", got)
	}
}
