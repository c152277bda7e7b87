package churn

import (
	"fmt"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
)

const gatewayAPI = "gateway.networking.k8s.io/v1"

// gatewayClass is the one that istiod makes for itself.
const gatewayClass = "istio"

// EdgePort is the port of a real gateway's Service.
const EdgePort = 80

// edgeName is the name of the Gateway that a plan's routes are attached to.
func (s Spec) edgeName() string { return "mm-" + s.Trial + "-edge" }

// EdgeGateway is that Gateway of the Gateway API.
func (p *Plan) EdgeGateway() (namespace, name string) {
	return p.Spec.Edge.Service.Namespace, p.Spec.edgeName()
}

// EdgeHost is a host that a real gateway serves before the first change.
func (p *Plan) EdgeHost() string { return p.Spec.edgeName() + "." + population.Domain }

// edgeRoute gives the gateway a route to a host that nobody had, or gives a route
// another host.
func (b *builder) edgeRoute(kind string, n int) {
	if !b.edged {
		b.edged = true
		b.edge(kind)
	}
	name, _, first := b.slot(n)
	host := b.text() + "." + population.Domain
	namespace := b.spec.Edge.Service.Namespace
	b.put(first, b.object(edgeVersion(kind), edgeKind(kind), namespace, name, b.edgeSpec(kind, host)),
		Scope{Gateways: true, Owner: namespace}, record.Marker{Type: "rds", Text: host})
	b.plan.Changes[len(b.plan.Changes)-1].Host = host
}

// edge prepares the Gateway and its first route.
func (b *builder) edge(kind string) {
	name, namespace := b.spec.edgeName(), b.spec.Edge.Service.Namespace
	gateway := b.object(networking, "Gateway", namespace, name, gatewaySpec(EdgePort, "*."+population.Domain))
	if kind == KindHTTPRoute {
		gateway = b.object(gatewayAPI, "Gateway", namespace, name, map[string]any{
			"gatewayClassName": gatewayClass, "addresses": b.edgeAddresses(),
			"listeners": []any{map[string]any{"name": "http", "port": int64(EdgePort), "protocol": "HTTP", "hostname": "*." + population.Domain}},
		})
	}
	b.plan.prepare = append(b.plan.prepare, gateway,
		b.object(edgeVersion(kind), edgeKind(kind), namespace, name, b.edgeSpec(kind, b.plan.EdgeHost())))
}

// edgeAddresses name the Services of the gateways that are there already, the real one
// and the simulated ones: without them istiod makes one more.
// See istio.io/docs, Kubernetes Gateway API, manual deployment.
func (b *builder) edgeAddresses() []any {
	services := []population.Service{b.spec.Edge.Service}
	if b.spec.Population.Gateways > 0 {
		services = append(services, population.Service{Namespace: population.GatewayNamespace, Name: population.GatewayDeployment})
	}
	var out []any
	for _, s := range services {
		out = append(out, map[string]any{"type": "Hostname", "value": s.Host()})
	}
	return out
}

func edgeVersion(kind string) string {
	if kind == KindHTTPRoute {
		return gatewayAPI
	}
	return networking
}

func edgeKind(kind string) string {
	if kind == KindHTTPRoute {
		return "HTTPRoute"
	}
	return "VirtualService"
}

// edgeSpec leads a host to the pod behind the gateway.
func (b *builder) edgeSpec(kind, host string) map[string]any {
	backend := b.spec.Edge.Backend
	if kind == KindHTTPRoute {
		return map[string]any{
			"parentRefs": []any{map[string]any{"name": b.spec.edgeName()}},
			"hostnames":  []any{host},
			"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": backend.Name, "port": int64(population.ServicePort)}}}},
		}
	}
	return map[string]any{"hosts": []any{host}, "gateways": []any{fmt.Sprintf("%s/%s", backend.Namespace, b.spec.edgeName())}, "http": []any{routeTo(backend.Host())}}
}
