package components

// GatewayAPI is the component with the definitions of the Gateway API.
const GatewayAPI = "gateway-api"

const gatewayModule = "sigs.k8s.io/gateway-api"

// gatewayFiles returns the definitions of the Gateway API's standard channel that
// istiod watches.
func gatewayFiles() []moduleFile {
	var out []moduleFile
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes", "referencegrants", "backendtlspolicies", "listenersets"} {
		name := "gateway.networking.k8s.io_" + kind + ".yaml"
		out = append(out, moduleFile{gatewayModule, "config/crd/standard/" + name, name})
	}
	return out
}
