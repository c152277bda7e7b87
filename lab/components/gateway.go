package components

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// The Gateway API's definitions, for waypoints and for routes of gateways.
const (
	gatewayAPI    = "gateway-api"
	gatewayModule = "sigs.k8s.io/gateway-api"
)

// gatewayFiles are the definitions of the Gateway API's standard channel that istiod
// watches.
func gatewayFiles() []moduleFile {
	var out []moduleFile
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes", "referencegrants", "backendtlspolicies", "listenersets"} {
		name := "gateway.networking.k8s.io_" + kind + ".yaml"
		out = append(out, moduleFile{gatewayModule, "config/crd/standard/" + name, name})
	}
	return out
}

// gatewayCRDs are those definitions as YAML documents.
func (b *Builder) gatewayCRDs(ctx context.Context) ([]byte, error) {
	entries, err := b.entries(ctx, []string{gatewayAPI}, newMeter(b.options.Progress))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, f := range gatewayFiles() {
		text, err := os.ReadFile(entries[gatewayAPI].path(f.as))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "---\n%s\n", text)
	}
	return out.Bytes(), nil
}

// upstreamBootstrap is Istio's bootstrap template without Istio's own extensions.
// pilot-agent always enables the discovery of peers for a waypoint, an extension
// without which an upstream Envoy does not start.
func upstreamBootstrap(template string) (string, error) {
	const begin, end = "{{- if .metadata_discovery }}", "{{- end }}"
	_, list, ok := strings.Cut(template, `"bootstrap_extensions": [`)
	before, rest, has := strings.Cut(list, begin)
	block, after, closed := strings.Cut(rest, end)
	if !ok || !has || !closed || strings.TrimSpace(before) != "" || !strings.Contains(block, "istio.workload.BootstrapExtension") {
		return "", errs.WithHint(fmt.Errorf("%s of Istio %s does not begin its bootstrap_extensions with that of the discovery of peers", bootstrapTemplate, istioVersion),
			"lab/components/gateway.go says what of it is left out; see tools/packaging/common/envoy_bootstrap.json")
	}
	return strings.TrimSuffix(template, list) + after, nil
}
