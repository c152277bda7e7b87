package churn

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
)

const gatewayAPI = "gateway.networking.k8s.io/v1"

// gatewayClass is istiod's own.
const gatewayClass = "istio"

// GatewayPort is the port of a real gateway's Service.
const GatewayPort = 80

// gatewayName names the Gateway to which a plan's routes are attached.
func (s Spec) gatewayName() string { return "mm-" + s.Trial + "-gateway" }

// RealGateway names that Gateway of the Gateway API.
func (p *Plan) RealGateway() (namespace, name string) {
	return p.Spec.Gateway.Service.Namespace, p.Spec.gatewayName()
}

// GatewayHost is a host that the real gateway serves before the first change.
func (p *Plan) GatewayHost() string { return p.Spec.gatewayName() + "." + population.Domain }

// realRoute gives the gateway a route to a new host, or changes the host of a route.
func (b *builder) realRoute(kind string, n int) {
	if !b.realMade {
		b.realMade = true
		b.realGateway(kind)
	}
	name, _, first := b.slot(n)
	host := b.text() + "." + population.Domain
	namespace := b.spec.Gateway.Service.Namespace
	b.put(first, b.route(kind, namespace, name, host), Scope{Gateways: true, Owner: namespace}, record.Marker{Type: "rds", Text: host})
	b.plan.Changes[len(b.plan.Changes)-1].Host = host
}

// realGateway prepares the Gateway and its first route.
func (b *builder) realGateway(kind string) {
	name, namespace := b.spec.gatewayName(), b.spec.Gateway.Service.Namespace
	gateway := b.object(networking, "Gateway", namespace, name, gatewaySpec(GatewayPort, "*."+population.Domain))
	if kind == KindHTTPRoute {
		gateway = b.object(gatewayAPI, "Gateway", namespace, name, map[string]any{
			"gatewayClassName": gatewayClass, "addresses": b.gatewayAddresses(),
			"listeners": []any{map[string]any{"name": "http", "port": int64(GatewayPort), "protocol": "HTTP", "hostname": "*." + population.Domain}},
		})
	}
	b.prepare(gateway,
		b.route(kind, namespace, name, b.plan.GatewayHost()))
}

// gatewayAddresses names the Services of the existing gateways, the real one and the
// simulated ones. Without addresses istiod would deploy another gateway. See
// istio.io/docs, Kubernetes Gateway API, manual deployment.
func (b *builder) gatewayAddresses() []any {
	services := []population.Service{b.spec.Gateway.Service}
	if b.spec.Population.Gateways > 0 {
		services = append(services, population.Service{Namespace: population.GatewayNamespace, Name: population.GatewayDeployment})
	}
	var out []any
	for _, s := range services {
		out = append(out, map[string]any{"type": "Hostname", "value": s.Host()})
	}
	return out
}

// route returns a route of a host to the backend of the gateway.
func (b *builder) route(kind, namespace, name, host string) *unstructured.Unstructured {
	backend := b.spec.Gateway.Backend
	if kind == KindHTTPRoute {
		return b.object(gatewayAPI, "HTTPRoute", namespace, name, map[string]any{
			"parentRefs": []any{map[string]any{"name": b.spec.gatewayName()}},
			"hostnames":  []any{host},
			"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": backend.Name, "port": int64(population.ServicePort)}}}},
		})
	}
	return b.object(networking, "VirtualService", namespace, name, map[string]any{
		"hosts": []any{host}, "gateways": []any{backend.Namespace + "/" + b.spec.gatewayName()}, "http": []any{routeTo(backend.Host())},
	})
}
