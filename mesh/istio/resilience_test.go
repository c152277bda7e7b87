package istio

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

var bar = mesh.Route{Name: "bar", Namespace: "ns", Port: 8080}

// untouched is a cell with every lever at its default.
var untouched = record.Cell{"retries": "default", "retry_on": "default", "per_try_timeout": "none", "request_timeout": "none",
	"outlier_detection": "off", "circuit_breaker": "off", "load_balancer": "default"}

const virtualService = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata:\n  name: bar\n  namespace: ns\nspec:\n  hosts:\n  - bar.ns.svc.cluster.local\n  http:\n  - "

const toBar = "route:\n    - destination:\n        host: bar.ns.svc.cluster.local\n"

const destinationRule = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata:\n  name: bar\n  namespace: ns\nspec:\n  host: bar.ns.svc.cluster.local\n  trafficPolicy:\n    "

func TestTraffic(t *testing.T) {
	for _, tt := range []struct {
		name string
		cell map[string]string
		want []string
	}{
		{name: "defaults"},
		{name: "not applicable", cell: map[string]string{"retries": "-", "retry_on": "-", "per_try_timeout": "-", "request_timeout": "-", "outlier_detection": "-", "circuit_breaker": "-", "load_balancer": "-"}},
		{"retries", map[string]string{"retries": "3"}, []string{virtualService + "retries:\n      attempts: 3\n    " + toBar}},
		{"no retries", map[string]string{"retries": "off", "retry_on": "-", "per_try_timeout": "-"}, []string{virtualService + "retries:\n      attempts: 0\n    " + toBar}},
		{"conditions alone", map[string]string{"retry_on": "5xx,429"}, []string{virtualService + "retries:\n      attempts: 2\n      retryOn: 5xx,429\n    " + toBar}},
		{"an attempt's time alone", map[string]string{"per_try_timeout": "250ms"}, []string{virtualService + "retries:\n      attempts: 2\n      perTryTimeout: 0.25s\n    " + toBar}},
		{"a request's time alone", map[string]string{"request_timeout": "1m30s"}, []string{virtualService + toBar + "    timeout: 90s\n"}},
		{"all of a route", map[string]string{"retries": "1", "retry_on": "reset", "per_try_timeout": "1ms", "request_timeout": "1h"},
			[]string{virtualService + "retries:\n      attempts: 1\n      perTryTimeout: 0.001s\n      retryOn: reset\n    " + toBar + "    timeout: 3600s\n"}},
		{"outliers", map[string]string{"outlier_detection": "errors=5 interval=1s ejection=5.5s max=100%"},
			[]string{destinationRule + "outlierDetection:\n      baseEjectionTime: 5.5s\n      consecutive5xxErrors: 5\n      interval: 1s\n      maxEjectionPercent: 100\n"}},
		{"some of outliers", map[string]string{"outlier_detection": "max=50%"}, []string{destinationRule + "outlierDetection:\n      maxEjectionPercent: 50\n"}},
		{"breaker", map[string]string{"circuit_breaker": "connections=10 pending=5 requests=20 retries=4"},
			[]string{destinationRule + "connectionPool:\n      http:\n        http1MaxPendingRequests: 5\n        http2MaxRequests: 20\n        maxRetries: 4\n      tcp:\n        maxConnections: 10\n"}},
		{"retries at once", map[string]string{"circuit_breaker": "retries=4"}, []string{destinationRule + "connectionPool:\n      http:\n        maxRetries: 4\n"}},
		{"round robin", map[string]string{"load_balancer": "round_robin"}, []string{destinationRule + "loadBalancer:\n      simple: ROUND_ROBIN\n"}},
		{"least request", map[string]string{"load_balancer": "least_request"}, []string{destinationRule + "loadBalancer:\n      simple: LEAST_REQUEST\n"}},
		{"random", map[string]string{"load_balancer": "random"}, []string{destinationRule + "loadBalancer:\n      simple: RANDOM\n"}},
		{"ring hash", map[string]string{"load_balancer": "ring_hash"}, []string{destinationRule + "loadBalancer:\n      consistentHash:\n        httpHeaderName: x-meshtrial-key\n"}},
		{"both", map[string]string{"retries": "1", "load_balancer": "random"},
			[]string{virtualService + "retries:\n      attempts: 1\n    " + toBar, destinationRule + "loadBalancer:\n      simple: RANDOM\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (&Mesh{}).Traffic(bar, untouched.With(tt.cell), nil)
			var text []string
			for _, o := range got {
				text = append(text, asYAML(t, o))
			}
			if !slices.Equal(text, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "---\n"), strings.Join(tt.want, "---\n"))
			}
		})
	}
}

// asYAML also verifies that an object can be copied, as clients of the
// Kubernetes API do, which panics on numbers other than int64.
func asYAML(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.MarshalWithOptions(sorted(o.DeepCopy().Object), yaml.UseLiteralStyleIfMultiline(true))
	must.OK(t, err)
	return string(text)
}

func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		var out yaml.MapSlice
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, yaml.MapItem{Key: key, Value: sorted(v[key])})
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = sorted(v[i])
		}
		return out
	}
	return v
}

func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		factor, level, reason string
	}{
		{"retries", "99", ""}, {"retry_on", "default", ""}, {"retry_on", "-", ""},
		{"retry_on", "5xx,gateway-error,503,unavailable", ""},
		{"retry_on", "5xx,bad-luck", `"bad-luck"`}, {"retry_on", "999", `"999"`},
		{"outlier_detection", "off", ""}, {"outlier_detection", "errors=5", ""}, {"outlier_detection", "max=7%", ""}, {"outlier_detection", "max=0.29", ""},
		{"outlier_detection", "max=33.3%", "33.3% is not a whole percentage"}, {"outlier_detection", "max=0.1%", "0.1% is not a whole"},
	} {
		got := (&Mesh{}).Lacks(untouched.With(map[string]string{tt.factor: tt.level}))
		switch {
		case tt.reason == "" && len(got) > 0:
			t.Errorf("%s %s: %+v", tt.factor, tt.level, got)
		case tt.reason != "" && (len(got) != 1 || got[0].Factor != tt.factor || got[0].Level != tt.level || !strings.Contains(got[0].Reason, tt.reason)):
			t.Errorf("%s %s: %+v, want one with %s", tt.factor, tt.level, got, tt.reason)
		}
	}
}

func TestDecorateForTheLedger(t *testing.T) {
	for _, tt := range []struct {
		name     string
		proxy    *mesh.Proxy
		flush    string
		stats    bool
		metadata map[string]string
	}{
		{"no ledger", proxy(nil), "", false, nil},
		{"ledger", proxy(func(p *mesh.Proxy) { p.Levels["telemetry"] = mesh.TelemetryLedger }), ledgerFlush, true, nil},
		{"short-lived", proxy(func(p *mesh.Proxy) { p.CertificateTTL = 20e9 }), "", false, map[string]string{"SECRET_TTL": "20s", "SECRET_GRACE_PERIOD_RATIO": "0.5"}},
	} {
		pod := corev1.PodTemplateSpec{}
		must.OK(t, (&Mesh{}).Decorate(mesh.Workload{Name: "bar", Proxy: tt.proxy}, &pod))
		text := pod.Annotations["proxy.istio.io/config"]
		var config proxyConfig
		must.OK(t, yaml.Unmarshal([]byte(text), &config))
		stats := slices.Equal(config.StatsMatcher.InclusionRegexps, slices.Concat(verifiedStats, resilienceStats))
		if config.FileFlush != tt.flush || stats != tt.stats || !maps.Equal(config.Metadata, tt.metadata) {
			t.Errorf("%s: %s", tt.name, text)
		}
		if tt.metadata == nil && strings.Contains(text, "proxyMetadata") || tt.flush == "" && strings.Contains(text, "fileFlush") {
			t.Errorf("%s: says what it need not: %s", tt.name, text)
		}
	}
	if slices.Contains(resilienceStats, "") || len(verifiedStats) != 6 {
		t.Error("the statistics of other studies have changed")
	}
}

func matches(t *testing.T, pattern, name string) bool {
	t.Helper()
	re, err := regexp.Compile("^(" + pattern + ")$") // Envoy's expressions are anchored
	must.OK(t, err)
	return re.MatchString(name)
}

// The statistics that a proxy keeps include those that are read.
func TestEjectedStatisticsAreKept(t *testing.T) {
	name := "cluster.outbound|8080||bar.ns.svc.cluster.local.outlier_detection.ejections_active"
	kept := matches(t, resilienceStats[0], name)
	if read := matches(t, (&Mesh{}).EjectedFilter(), name); !kept || !read {
		t.Errorf("kept %v, read %v", kept, read)
	}
	for _, other := range []string{strings.Replace(name, "outbound", "inbound", 1), name + "_total", strings.Replace(name, "_active", "_total", 1)} {
		if matches(t, (&Mesh{}).EjectedFilter(), other) {
			t.Errorf("%s is read", other)
		}
	}
}

func TestEjected(t *testing.T) {
	got := (&Mesh{}).Ejected(map[string]float64{
		"cluster.outbound|8080||bar.ns.svc.cluster.local.outlier_detection.ejections_active":       2,
		"cluster.outbound|9090||bar.ns.svc.cluster.local.outlier_detection.ejections_active":       1,
		"cluster.outbound|8080|v2|bar.ns.svc.cluster.local.outlier_detection.ejections_active":     3,
		"cluster.outbound|8080||front.ns.svc.cluster.local.outlier_detection.ejections_active":     0,
		"cluster.outbound|8080||bar.other.svc.cluster.local.outlier_detection.ejections_active":    9,
		"cluster.outbound|80||example.com.outlier_detection.ejections_active":                      9,
		"cluster.outbound|8080||last.ns.svc.cluster.local.outlier_detection.ejections_active":      1,
		"cluster.outbound|8080||last.ns.svc.cluster.local.outlier_detection.ejections_overflow":    7,
		"cluster.inbound|8080||x.ns.svc.cluster.local.outlier_detection.ejections_active":          5,
		"cluster.outbound|8080||nobody.nsx.svc.cluster.local.outlier_detection.ejections_active":   5,
		"cluster.outbound|8080||nobody.ns.example.cluster.local.outlier_detection.ejections_other": 5,
	}, "ns")
	if want := map[string]int{"bar": 3, "last": 1}; !maps.Equal(got, want) {
		t.Errorf("ejected %v, want %v", got, want)
	}
}

func TestCertificate(t *testing.T) {
	one := func(serial, name, from, to string) string {
		return `{"serial_number":"` + serial + `","subject_alt_names":[{"uri":"` + name + `"}],"valid_from":"` + from + `","expiration_time":"` + to + `"}`
	}
	const bar, early, late, end, later = "spiffe://cluster.local/ns/ns/sa/default", "2026-11-21T10:00:00Z", "2026-11-21T10:00:10Z", "2026-11-21T10:00:20Z", "2026-11-21T10:00:30Z"
	chain := func(certs ...string) string {
		return `{"ca_cert":[` + one("ca", bar, later, later) + `],"cert_chain":[` + strings.Join(certs, ",") + `]}`
	}
	for _, tt := range []struct{ name, answer, serial, expire string }{
		{"one", `{"certificates":[` + chain(one("a", bar, early, end)) + `]}`, "a", end},
		{"an old one too", `{"certificates":[` + chain(one("a", bar, early, end)) + `,` + chain(one("b", bar, late, later)) + `,` + chain(one("a", bar, early, end)) + `]}`, "b", later},
		{"in the same second", `{"certificates":[` + chain(one("a", bar, early, later)) + `,` + chain(one("b", bar, early, end)) + `]}`, "a", later},
		{"an intermediate", `{"certificates":[` + chain(one("a", bar, early, end), one("i", "istiod.example", late, later)) + `]}`, "a", end},
		{"none", `{"certificates":[]}`, "", ""},
		{"no JSON", `not yet`, "", ""},
	} {
		got, err := (&Mesh{}).Certificate([]byte(tt.answer))
		if (err != nil) != (tt.serial == "") || got.Serial != tt.serial {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if err == nil {
			if text := got.Expire.Format("2006-01-02T15:04:05Z"); text != tt.expire || got.ExpiredAt(got.Expire.Add(-1)) || !got.ExpiredAt(got.Expire) {
				t.Errorf("%s: expires %s", tt.name, text)
			}
		}
	}
}

// The ledger needs a Telemetry with its provider, and an EnvoyFilter for this
// workload with all fields of an attempt, for listeners of every port.
func TestLedgerPolicies(t *testing.T) {
	level := func(telemetry string) mesh.Workload {
		return mesh.Workload{Name: "bar", Namespace: "ns", Proxy: proxy(func(p *mesh.Proxy) { p.Levels["telemetry"] = telemetry })}
	}
	for _, o := range (&Mesh{}).Policies([]mesh.Workload{level("access-log-json"), {Name: "plain", Namespace: "ns"}}) {
		if o.GetKind() == "EnvoyFilter" || o.GetName() != "bar" {
			t.Errorf("unwanted: %s %s", o.GetKind(), o.GetName())
		}
	}
	byKind := map[string]*unstructured.Unstructured{}
	for _, o := range (&Mesh{metricsProvider: "prometheus"}).Policies([]mesh.Workload{level(mesh.TelemetryLedger)}) {
		byKind[o.GetKind()] = o
	}
	if len(byKind) != 3 || byKind["PeerAuthentication"] == nil {
		t.Fatalf("%d kinds: %v", len(byKind), byKind)
	}
	if got := asYAML(t, byKind["Telemetry"]); !strings.Contains(got, "  accessLogging:\n  - providers:\n    - name: meshtrial-ledger\n  metrics:\n  - overrides:\n    - disabled: true\n") {
		t.Error(got)
	}
	got := asYAML(t, byKind["EnvoyFilter"])
	for _, f := range ledger.AttemptFields {
		field, err := yaml.Marshal(map[string]string{f[0]: f[1]})
		must.OK(t, err)
		if !strings.Contains(got, strings.TrimSpace(string(field))+"\n") {
			t.Errorf("no %s", field)
		}
	}
	if !strings.Contains(got, "upstream_log:") || strings.Contains(got, "portNumber") || !strings.Contains(got, "workloadSelector:\n    labels:\n      app.kubernetes.io/name: bar\n") {
		t.Error(got)
	}
}

func TestLedgerNeedsItsProvider(t *testing.T) {
	var with meshConfig
	must.OK(t, yaml.Unmarshal([]byte("extensionProviders:\n- name: other\n- name: meshtrial-ledger\n"), &with))
	proxies := []mesh.Proxy{{Levels: record.Cell{"telemetry": "off"}}, {Levels: record.Cell{"telemetry": mesh.TelemetryLedger}}}
	if err := needProviders(with, proxies); err != nil {
		t.Error(err)
	}
	err := needProviders(meshConfig{}, proxies)
	refuses(t, "without it", err, ledgerProvider, "")
	// The hint's text can be added verbatim.
	_, list, _ := strings.Cut(errs.Hint(err), ":\n")
	var providers []struct {
		Name string `yaml:"name"`
		File struct {
			Path   string `yaml:"path"`
			Format struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"logFormat"`
		} `yaml:"envoyFileAccessLog"`
	}
	if err := yaml.Unmarshal([]byte(list), &providers); err != nil {
		t.Fatalf("%v in\n%s", err, list)
	}
	if len(providers) != 1 || providers[0].Name != ledgerProvider || providers[0].File.Path != "/dev/stdout" || len(providers[0].File.Format.Labels) != len(ledger.Fields) {
		t.Fatalf("the hint says %+v", providers)
	}
	for _, f := range ledger.Fields {
		if got := providers[0].File.Format.Labels[f[0]]; got != f[1] {
			t.Errorf("%s is %q, want %q", f[0], got, f[1])
		}
	}
}

// A gateway gets a listener for the port and a route with the levers, whatever they are.
func TestEntering(t *testing.T) {
	via := bar
	via.Via = "edge"
	for name, c := range map[string]struct{ cell, rule string }{"defaults": {"default", ""}, "no retries": {"off", "retries:\n      attempts: 0\n    "}} {
		got := (&Mesh{}).Traffic(via, untouched.With(record.Cell{"retries": c.cell}), nil)
		if len(got) != 2 {
			t.Fatalf("%s: %d objects", name, len(got))
		}
		want := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata:\n  name: edge\n  namespace: ns\nspec:\n  selector:\n    app.kubernetes.io/name: edge\n  servers:\n  - hosts:\n    - \"*\"\n    port:\n      name: http-echo\n      number: 8080\n      protocol: HTTP\n"
		if text := asYAML(t, got[0]); text != want {
			t.Errorf("%s: %s", name, text)
		}
		want = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata:\n  name: edge\n  namespace: ns\nspec:\n  gateways:\n  - ns/edge\n  hosts:\n  - edge.ns.svc.cluster.local\n  http:\n  - " +
			c.rule + "route:\n    - destination:\n        host: bar.ns.svc.cluster.local\n        port:\n          number: 8080\n"
		if text := asYAML(t, got[1]); text != want {
			t.Errorf("%s: %s\nwant\n%s", name, text, want)
		}
	}
}

// What a gateway counts is kept and read, and the counters of its other listeners are not.
func TestEntered(t *testing.T) {
	pod := corev1.PodTemplateSpec{}
	w := mesh.Workload{Name: "edge", Gateway: true, Proxy: proxy(func(p *mesh.Proxy) { p.Levels["telemetry"], p.Abrupt = mesh.TelemetryLedger, true })}
	must.OK(t, (&Mesh{}).DecorateGateway(w, &pod))
	var config proxyConfig
	must.OK(t, yaml.Unmarshal([]byte(pod.Annotations["proxy.istio.io/config"]), &config))
	if config.Drain != "0s" || config.Headers == nil || !config.Headers.RequestID.Disabled || !slices.Contains(config.StatsMatcher.InclusionRegexps, enteringStats) {
		t.Errorf("%+v", config)
	}
	prefix := "http.outbound_0.0.0.0_8080;.downstream_"
	for name, want := range map[string]bool{prefix + "cx_total": true, prefix + "cx_destroy_local": true, prefix + "rq_total": true, prefix + "cx_destroy": false, "http.admin.downstream_cx_total": false} {
		if matches(t, enteringStats, name) != want {
			t.Errorf("%s is kept: %v", name, !want)
		}
	}
	got := (&Mesh{}).Entered(observe.ProxyStats{Counters: map[string]float64{prefix + "cx_total": 7, prefix + "cx_destroy_local": 2, prefix + "rq_total": 90, "http.outbound_0.0.0.0_8081;.downstream_rq_total": 10},
		Gauges: map[string]float64{prefix + "cx_active": 5}})
	if got != (mesh.Entered{Connections: 7, Closed: 2, Requests: 100, Active: 5}) {
		t.Errorf("%+v", got)
	}
	log := attemptLedger(w)
	if text := asYAML(t, log); !strings.Contains(text, "context: GATEWAY\n") {
		t.Error(text)
	}
}
