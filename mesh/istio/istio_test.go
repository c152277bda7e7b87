package istio

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
	corev1 "k8s.io/api/core/v1"
)

func compiled(t *testing.T) *regexp.Regexp {
	t.Helper()
	filter, err := regexp.Compile(mesh.Sidecars(&Mesh{}).Stats)
	must.OK(t, err)
	return filter
}

func proxy(change func(*mesh.Proxy)) *mesh.Proxy {
	p := &mesh.Proxy{Levels: record.Cell{"mtls": "strict", "telemetry": "off", "concurrency": "2", "cpu_limit": "none"}}
	if change != nil {
		change(p)
	}
	return p
}

func TestDecorate(t *testing.T) {
	images := func(version string) (string, error) {
		switch version {
		case "":
			return "hub/proxyv2:1", nil
		case "1.39.0":
			return "hub/proxyv2:1-envoy1.39.0", nil
		}
		return "", errors.New("no such image")
	}
	for _, tt := range []struct {
		name        string
		proxy       *mesh.Proxy
		images      func(string) (string, error)
		inject      string
		annotations map[string]string // of the sidecar, without its config
		concurrency int
		allStats    bool
		err         string
	}{
		{name: "no sidecar", inject: "false", annotations: map[string]string{}},
		{name: "defaults", proxy: proxy(nil), inject: "true", concurrency: 2,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi"}},
		{name: "a thread", proxy: proxy(func(p *mesh.Proxy) { p.Levels["concurrency"] = "1" }), inject: "true", concurrency: 1,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi"}},
		{name: "limit", proxy: proxy(func(p *mesh.Proxy) { p.Levels["cpu_limit"] = "500m" }), inject: "true", concurrency: 2,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi", "proxyCPULimit": "500m"}},
		{name: "access log alone", proxy: proxy(func(p *mesh.Proxy) { p.Levels["telemetry"] = "access-log-text" }), inject: "true", concurrency: 2,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi"}},
		{name: "all statistics", proxy: proxy(func(p *mesh.Proxy) { p.Levels["telemetry"] = "access-log-json+stats" }), inject: "true", concurrency: 2, allStats: true,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi"}},
		{name: "the lab's image", proxy: proxy(nil), images: images, inject: "true", concurrency: 2,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi", "proxyImage": "hub/proxyv2:1"}},
		{name: "another Envoy", proxy: proxy(func(p *mesh.Proxy) { p.Levels["envoy"] = "1.39.0" }), images: images, inject: "true", concurrency: 2,
			annotations: map[string]string{"proxyCPU": "10m", "proxyMemory": "32Mi", "proxyImage": "hub/proxyv2:1-envoy1.39.0"}},
		{name: "an Envoy there is not", proxy: proxy(func(p *mesh.Proxy) { p.Levels["envoy"] = "9.9.9" }), images: images, err: "no such image"},
		{name: "concurrency is no number", proxy: proxy(func(p *mesh.Proxy) { p.Levels["concurrency"] = "many" }), err: `workload server: concurrency "many"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := corev1.PodTemplateSpec{}
			err := (&Mesh{ProxyImage: tt.images}).Decorate(mesh.Workload{Name: "server", Proxy: tt.proxy}, &pod)
			if tells(t, tt.name, err, tt.err, ""); err != nil {
				return
			}
			if got := pod.Labels["sidecar.istio.io/inject"]; got != tt.inject {
				t.Errorf("inject is %q, want %q", got, tt.inject)
			}
			got := map[string]string{}
			for name, value := range pod.Annotations {
				if short, ok := strings.CutPrefix(name, "sidecar.istio.io/"); ok {
					got[short] = value
				}
			}
			if !maps.Equal(got, tt.annotations) {
				t.Errorf("annotations %v, want %v", got, tt.annotations)
			}
			var config proxyConfig
			must.OK(t, yaml.Unmarshal([]byte(pod.Annotations["proxy.istio.io/config"]), &config))
			if config.Concurrency != tt.concurrency || config.Hold != (tt.proxy != nil) {
				t.Errorf("config %+v", config)
			}
			if all := slices.Contains(config.StatsMatcher.InclusionRegexps, ".*"); all != tt.allStats {
				t.Errorf("all statistics: %v, want %v", all, tt.allStats)
			}
			if tt.proxy != nil && !tt.allStats && !slices.Equal(config.StatsMatcher.InclusionRegexps, verifiedStats) {
				t.Errorf("statistics %q", config.StatsMatcher.InclusionRegexps)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	var workloads []mesh.Workload
	want := map[string]any{}
	for level, mode := range map[string]string{"strict": "STRICT", "permissive": "PERMISSIVE", "off": "DISABLE", "": "PERMISSIVE"} {
		workloads = append(workloads, mesh.Workload{Name: "server-" + level, Namespace: "ns", Proxy: proxy(func(p *mesh.Proxy) { p.Levels["mtls"] = level })})
		want["server-"+level] = mode
	}
	workloads = append(workloads, mesh.Workload{Name: "plain", Namespace: "ns"})
	seen := 0
	for _, o := range (&Mesh{}).Policies(workloads) {
		if o.GetNamespace() != "ns" || o.GetName() == "plain" {
			t.Errorf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
		}
		spec := o.Object["spec"].(map[string]any)
		selector := spec["selector"].(map[string]any)["matchLabels"].(map[string]any)
		if selector[mesh.AppLabel] != o.GetName() || len(selector) != 1 {
			t.Errorf("%s %s selects %v", o.GetKind(), o.GetName(), selector)
		}
		if o.GetKind() == "PeerAuthentication" {
			seen++
			if mode := spec["mtls"].(map[string]any)["mode"]; mode != want[o.GetName()] {
				t.Errorf("%s has mode %v, want %v", o.GetName(), mode, want[o.GetName()])
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d PeerAuthentications, want %d", seen, len(want))
	}
}

func TestTelemetryPolicy(t *testing.T) {
	for _, tt := range []struct {
		level, metrics string
		want           string
	}{
		{"off", "", "accessLogging:\n- disabled: true\n  providers:\n  - name: envoy\n"},
		{"access-log-text", "", "accessLogging:\n- providers:\n  - name: envoy\n"},
		{"access-log-json", "", "accessLogging:\n- providers:\n  - name: meshtrial-json\n"},
		{"access-log-text+stats", "", "accessLogging:\n- providers:\n  - name: envoy\n"},
		{"off", "prometheus", "accessLogging:\n- disabled: true\n  providers:\n  - name: envoy\nmetrics:\n- overrides:\n  - disabled: true\n  providers:\n  - name: prometheus\n"},
		{"access-log-json+stats", "prometheus", "accessLogging:\n- providers:\n  - name: meshtrial-json\nmetrics:\n- overrides:\n  - disabled: false\n  providers:\n  - name: prometheus\n"},
	} {
		got, err := yaml.Marshal((&Mesh{metricsProvider: tt.metrics}).telemetry(tt.level))
		must.OK(t, err)
		if string(got) != tt.want {
			t.Errorf("%s with metrics provider %q:\n%swant\n%s", tt.level, tt.metrics, got, tt.want)
		}
	}
}

// If a mesh makes sidecars report spans, no level of telemetry does.
func TestSpansAreSwitchedOff(t *testing.T) {
	for config, want := range map[string]bool{
		"": false, "enableTracing: true": false, "defaultConfig: {tracing: {sampling: 5}}": false, "defaultProviders: {accessLogging: [envoy]}": false,
		"defaultProviders: {tracing: [jaeger]}": true, "defaultConfig: {tracing: {sampling: 5, zipkin: {address: 'zipkin:9411'}}}": true,
	} {
		var read meshConfig
		must.OK(t, yaml.Unmarshal([]byte(config), &read))
		spec := (&Mesh{traces: read.reportsSpans()}).telemetry("access-log-text")
		if _, there := spec["tracing"]; there != want {
			t.Errorf("%q: %v", config, spec)
		}
	}
}

func TestNeedProviders(t *testing.T) {
	var with meshConfig
	must.OK(t, yaml.Unmarshal([]byte("extensionProviders:\n- name: other\n- name: meshtrial-json\n"), &with))
	for _, tt := range []struct {
		config meshConfig
		level  string
		ok     bool
	}{
		{meshConfig{}, "off", true}, {meshConfig{}, "access-log-text", true}, {meshConfig{}, "access-log-text+stats", true},
		{meshConfig{}, "access-log-json", false}, {meshConfig{}, "access-log-json+stats", false},
		{with, "access-log-json", true}, {with, "access-log-json+stats", true},
	} {
		err := needProviders(tt.config, []mesh.Proxy{{Levels: record.Cell{"telemetry": "off"}}, {Levels: record.Cell{"telemetry": tt.level}}})
		if (err == nil) != tt.ok {
			t.Errorf("%s, providers %v: %v", tt.level, tt.config.ExtensionProviders, err)
		}
		if err != nil && (errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "extensionProviders")) {
			t.Errorf("exit code %d, hint %q", errs.Code(err), errs.Hint(err))
		}
	}
}

// The settings of an installation contain the providers that levels need.
func TestManifestSettings(t *testing.T) {
	settings := ManifestSettings()
	for _, want := range []string{"[0].name=" + jsonProvider, "[1].name=" + ledgerProvider, "[1].envoyFileAccessLog.logFormat.labels.id=%REQ(X-REQUEST-ID)%"} {
		if !slices.Contains(settings, "meshConfig.extensionProviders"+want) {
			t.Errorf("no %s in %q", want, settings)
		}
	}
	for _, s := range settings {
		if key, value, ok := strings.Cut(s, "="); !ok || key == "" || value == "" || strings.ContainsAny(s, ", ") {
			t.Errorf("%q is no setting that --set takes", s)
		}
	}
}
