package components

import (
	"strings"
	"testing"
)

// bootstrapText is a template of which an Envoy without Istio's extensions loads all but
// one.
const bootstrapText = `{"node": {}, "bootstrap_extensions": [
    {{- if .metadata_discovery }}
    {"name": "metadata_discovery", "typed_config": {"type_url": "type.googleapis.com/istio.workload.BootstrapExtension"}},
    {{- end }}
    {"name": "envoy.bootstrap.internal_listener"}
  ],
  {{- if .stats_flush_interval }}
  "stats_flush_interval": "{{ .stats_flush_interval }}",
  {{- end }}
  "x": 1}`

func TestUpstreamBootstrap(t *testing.T) {
	got, err := upstreamBootstrap(bootstrapText)
	if err != nil || strings.Contains(got, "metadata_discovery") || !strings.Contains(got, `"node": {}, "bootstrap_extensions": [`) ||
		!strings.Contains(got, "{\"name\": \"envoy.bootstrap.internal_listener\"}\n  ],\n  {{- if .stats_flush_interval }}") || strings.Count(got, "{{- end }}") != 1 {
		t.Errorf("%s\n%v", got, err)
	}
	for name, text := range map[string]string{
		"no extensions":          `{"node": {}}`,
		"another one first":      strings.Replace(bootstrapText, "{{- if .metadata_discovery }}", `{"name": "other"}, {{- if .metadata_discovery }}`, 1),
		"one that is Envoy's":    strings.Replace(bootstrapText, "istio.workload.BootstrapExtension", "envoy.extensions.A", 1),
		"a block without an end": `{"bootstrap_extensions": [ {{- if .metadata_discovery }} istio.workload.BootstrapExtension`,
	} {
		if got, err := upstreamBootstrap(text); err == nil {
			t.Errorf("%s passed: %s", name, got)
		}
	}
}
