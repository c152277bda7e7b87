package istio

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/study"
)

// ledgerProvider is the access log provider whose lines the ledger reads.
const ledgerProvider = "meshtrial-ledger"

// ledgerFlush is how long ledger lines may be buffered in a proxy. A killed
// proxy loses them.
const ledgerFlush = "0.1s"

// LogsInboundOnly returns false: both sides log.
func (*Mesh) LogsInboundOnly() bool { return false }

// ReadLog reads Envoy's access log.
func (*Mesh) ReadLog(r io.Reader, source ledger.Source, each func(ledger.ProxyEntry)) (ledger.Lines, error) {
	return ledger.ReadEnvoy(r, source, each)
}

// attemptLedger makes w's sidecar write a line per attempt, in addition to the
// line per request from the ledger's provider.
func attemptLedger(w mesh.Workload) *unstructured.Unstructured {
	fields := map[string]any{}
	for _, f := range ledger.AttemptFields {
		fields[f[0]] = f[1]
	}
	patch := upstreamLog(0, map[string]any{"json_format": fields})
	if w.Gateway {
		patch["match"].(map[string]any)["context"] = "GATEWAY"
	}
	return envoyFilter(w, patch)
}

// providers lists the access log providers that levels of telemetry need in
// addition to Istio's own, with the prefix of those levels and the fields of a
// line.
var providers = []struct {
	level, name string
	fields      [][2]string
}{
	{"access-log-json", jsonProvider, jsonFields},
	{mesh.TelemetryLedger, ledgerProvider, ledger.Fields},
}

// needProviders rejects levels of telemetry whose provider the mesh lacks.
func needProviders(config meshConfig, proxies []mesh.Proxy) error {
	for _, p := range proxies {
		for _, need := range providers {
			if !strings.HasPrefix(p.Level(study.FactorTelemetry), need.level) || config.hasProvider(need.name) {
				continue
			}
			var labels strings.Builder
			for _, f := range need.fields {
				fmt.Fprintf(&labels, "\n        %s: %q", f[0], f[1])
			}
			return errs.WithHint(errs.Usage("istio: %s needs an access log provider that this mesh lacks: %s", purpose(p.Level(study.FactorTelemetry)), need.name),
				"add this to meshConfig.extensionProviders (a local lab has it after lab down and lab up):\n- name: %s\n  envoyFileAccessLog:\n    path: /dev/stdout\n    logFormat:\n      labels:%s",
				need.name, labels.String())
		}
	}
	return nil
}

func purpose(telemetry string) string {
	if telemetry == mesh.TelemetryLedger {
		return "the ledger of requests"
	}
	return "telemetry level " + telemetry
}

// ManifestSettings returns the chart values, in the form of istioctl's --set,
// that the levels of the factors need in addition to a plain installation: the
// access log providers.
func ManifestSettings() []string {
	var set []string
	for i, p := range providers {
		prefix := fmt.Sprintf("meshConfig.extensionProviders[%d].", i)
		set = append(set, prefix+"name="+p.name, prefix+"envoyFileAccessLog.path=/dev/stdout")
		for _, f := range p.fields {
			set = append(set, prefix+"envoyFileAccessLog.logFormat.labels."+f[0]+"="+f[1])
		}
	}
	return set
}
