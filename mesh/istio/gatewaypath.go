package istio

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// The gateway through which the requests of some cells enter, or leave the mesh: a Deployment
// in the run's namespace. For those that enter, the Services that clients call target its
// ports, which equal those of the workers. It forwards each host's requests to a Service with
// only the workers. For those that leave, see egress.go.
const (
	gatewayName  = "gateway"
	directPrefix = "direct-"
)

// gatewayPath returns the objects of the gateway and of the routes through it; none without
// a gateway.
func (m *Mesh) gatewayPath(workloads []mesh.Workload) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	entered, left := false, false
	for _, w := range workloads {
		enters, leaves := !w.Client && study.Entering(record.Cell{study.FactorSidecars: w.Carrier}), leaves(w)
		if !enters && !leaves {
			continue
		}
		if out == nil {
			pod := corev1.PodTemplateSpec{}
			gateway := mesh.Workload{Name: gatewayName, Namespace: w.Namespace, Proxy: mesh.PlainProxy()}
			if m.DecorateGateway(gateway, &pod) != nil {
				return nil // the code that waits for its pod reports that there is none
			}
			lab.LeaveDeadNodes(&pod)
			out = append(out, gatewayDeployment(w.Namespace, pod),
				object("telemetry.istio.io/v1", "Telemetry", gateway, m.telemetry(gateway.Proxy.Level(study.FactorTelemetry))))
		}
		if leaves {
			if !left {
				left = true
				out = append(out, egressService(w.Namespace))
			}
			out = append(out, egress(w)...)
			continue
		}
		if !entered {
			entered = true
			out = append(out, gatewayListeners(w.Namespace, gatewayName))
		}
		out = append(out, direct(w), gatewayRoute(w))
	}
	return out
}

// gatewayPorts returns the worker's ports whose requests contain their host.
func gatewayPorts() []protocol.Endpoint {
	var out []protocol.Endpoint
	for _, p := range protocol.All() {
		if p.Headers {
			out = append(out, p.Plain)
		}
	}
	return out
}

func gatewayDeployment(namespace string, pod corev1.PodTemplateSpec) *unstructured.Unstructured {
	no, second := false, int64(1)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, mesh.AppLabel, gatewayName)
	pod.Spec.EnableServiceLinks, pod.Spec.AutomountServiceAccountToken = &no, &no
	pod.Spec.TerminationGracePeriodSeconds = &second
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		panic(err) // a template always has the form of JSON
	}
	return named("apps/v1", "Deployment", namespace, gatewayName, map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{mesh.AppLabel: gatewayName}},
		"template": template,
	})
}

// gatewayListeners opens a gateway's ports: all, or those given.
func gatewayListeners(namespace, name string, ports ...int) *unstructured.Unstructured {
	var servers []any
	for _, p := range gatewayPorts() {
		if len(ports) > 0 && !slices.Contains(ports, p.Port) {
			continue
		}
		servers = append(servers, map[string]any{"hosts": []any{"*"}, "port": map[string]any{"number": int64(p.Port), "name": p.PortName, "protocol": strings.ToUpper(p.Kind())}})
	}
	return named(networkingV1, "Gateway", namespace, name, map[string]any{
		"selector": map[string]any{mesh.AppLabel: name}, "servers": servers})
}

// direct returns the Service with only a server's pods, to which the gateway sends.
func direct(w mesh.Workload) *unstructured.Unstructured {
	var ports []any
	for _, p := range gatewayPorts() {
		ports = append(ports, map[string]any{"name": p.PortName, "port": int64(p.Port), "targetPort": int64(p.Port), "protocol": "TCP"})
	}
	return named("v1", "Service", w.Namespace, directPrefix+w.Name, map[string]any{"selector": map[string]any{mesh.AppLabel: w.Name}, "ports": ports})
}

// gatewayRoute routes a server's host to its pods, each port to its own.
func gatewayRoute(w mesh.Workload) *unstructured.Unstructured {
	var routes []any
	for _, p := range gatewayPorts() {
		routes = append(routes, map[string]any{
			"match": []any{map[string]any{"port": int64(p.Port)}},
			"route": []any{routeTo(hostIn(w.Namespace, directPrefix+w.Name), int64(p.Port), "")},
		})
	}
	return named(networkingV1, "VirtualService", w.Namespace, w.Name, map[string]any{
		"hosts": []any{hostIn(w.Namespace, w.Name)}, "gateways": []any{w.Namespace + "/" + gatewayName}, "http": routes})
}

// gatewayChecks verifies that each request of the generator passed the gateway, and the
// gateway's number of threads.
func gatewayChecks(e mesh.Evidence) []record.Check {
	p := e.Read(record.PartGateway)
	if !e.Way.Has(record.PartGateway) || p == nil {
		return nil
	}
	prefix := fmt.Sprintf("cluster.outbound|%d||%s%s.%s.svc.", e.Endpoint.Port, directPrefix, e.Endpoint.Service, e.Endpoint.Namespace)
	if study.Leaving(e.Cell) {
		prefix = toEntry(e.Endpoint)
	}
	return append(passed("gateway-requests", e, p.Rise, prefix, "the gateway"),
		mesh.Expect("gateway-concurrency", p.Total["server.concurrency"], mesh.PlainThreads, 0, "worker threads of the gateway"))
}
