//go:build integration

package runner_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// sharedMesh is a mesh without sidecars: a proxy on each node, which sends
// requests for Services that request it through a single waypoint. Its proxies
// are Envoys with a configuration of four clusters and no control plane.
type sharedMesh struct {
	images    lab.Images
	namespace string // of the run, from the first workload
}

const (
	nameOfShared    = "shared"
	carriedByShared = "shared-waypoint"
	nodePort        = 15001
	waypointPort    = 15002
	envoyAdminPort  = 15000
)

func init() {
	study.AddMesh(study.Mesh{Name: nameOfShared, Carriers: []study.Carrier{
		{Level: study.SidecarsNone},
		{Level: carriedByShared, Way: record.Way{record.PartClientNode, record.PartWaypoint}, Subject: "the node's proxy with a waypoint"},
	}})
}

func (*sharedMesh) Name() string { return nameOfShared }

func (*sharedMesh) Check(context.Context, *rest.Config, []mesh.Proxy) ([]record.Component, error) {
	return nil, nil
}

func (m *sharedMesh) Decorate(w mesh.Workload, _ *corev1.PodTemplateSpec) error {
	if w.Proxy != nil {
		return fmt.Errorf("workload %s asks for a sidecar", w.Name)
	}
	return nil
}

// DecorateService makes the proxy of the caller's node accept the connections to
// a Service.
func (*sharedMesh) DecorateService(s *corev1.Service, cell record.Cell) {
	if cell[study.FactorSidecars] != carriedByShared {
		return
	}
	local := corev1.ServiceInternalTrafficPolicyLocal
	s.Spec.Selector, s.Spec.InternalTrafficPolicy = map[string]string{"app": "node-proxy"}, &local
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].TargetPort = intstr.FromInt(nodePort)
	}
}

func (*sharedMesh) ControlPlane() (namespace, selector string) { return "", "" }

func (m *sharedMesh) Proxies(place record.Place) mesh.Proxies {
	p := mesh.Proxies{Namespace: m.namespace, Containers: []string{"envoy"}, AdminPort: envoyAdminPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.EnvoyAdmin{HTTPClient: client} },
		Stats: `^cluster\.next\.upstream_rq_total$`}
	switch place {
	case record.PlaceNode:
		p.Selector = "app=node-proxy"
	case record.PlaceWaypoint:
		p.Selector = "app=waypoint"
	default:
		return mesh.Proxies{}
	}
	return p
}

// Verify checks that each proxy on the path forwarded each request.
func (*sharedMesh) Verify(e mesh.Evidence) []record.Check {
	checks := mesh.OnTheWay(e)
	for _, part := range e.Way {
		if p := e.Read(part); p != nil {
			checks = append(checks, mesh.Expect(part+"-requests", p.Rise["cluster.next.upstream_rq_total"],
				float64(e.Requests)+float64(e.Unknown)/2, float64(e.Unknown)/2, "requests that the proxy passed on"))
		}
	}
	return append(checks, mesh.Expect("worker-proxied", e.Worker["through_proxy"], map[bool]float64{true: float64(e.Requests)}[len(e.Way) > 0],
		float64(e.Unknown), "requests with a proxy's header at the worker"))
}

// Policies returns the proxies and their Services.
func (m *sharedMesh) Policies(workloads []mesh.Workload) []*unstructured.Unstructured {
	m.namespace = workloads[0].Namespace
	text := m.proxy("DaemonSet", "node-proxy", nodePort, "waypoint", waypointPort) +
		m.proxy("Deployment", "waypoint", waypointPort, "direct", 8080) +
		m.service("waypoint", "app: waypoint", waypointPort) +
		m.service("direct", mesh.AppLabel+": server-"+carriedByShared, 8080)
	var out []*unstructured.Unstructured
	for _, document := range strings.Split(text, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			panic(err)
		}
		out = append(out, o)
	}
	return out
}

func (m *sharedMesh) service(name, selector string, port int) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {%[3]s}
  ports: [{name: http, port: %[4]d, targetPort: %[4]d}]
`, name, m.namespace, selector, port)
}

// proxy returns an Envoy that listens on a port and forwards all requests.
func (m *sharedMesh) proxy(kind, name string, port int, to string, toPort int) string {
	config := fmt.Sprintf(`{"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}},
"static_resources": {
"listeners": [{"name": "in", "address": {"socket_address": {"address": "0.0.0.0", "port_value": %d}},
"filter_chains": [{"filters": [{"name": "http", "typed_config": {
"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
"stat_prefix": "in",
"route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "next"}}]}]},
"http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
"clusters": [{"name": "next", "type": "STRICT_DNS", "connect_timeout": "2s", "load_assignment": {"cluster_name": "next",
"endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "%s.%s.svc.cluster.local", "port_value": %d}}}}]}]}}]}}`,
		envoyAdminPort, port, to, m.namespace, toPort)
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s, namespace: %[3]s}
spec:
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s, sidecar.istio.io/inject: "false"}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: envoy
        image: %[4]s
        imagePullPolicy: %[5]s
        command: [/usr/local/bin/envoy, --concurrency, "1", --config-yaml, %[6]q]
        readinessProbe: {tcpSocket: {port: %[7]d}, periodSeconds: 1}
`, kind, name, m.namespace, m.images.Meshes["istio"]["proxy"], m.images.PullPolicy, strings.ReplaceAll(config, "\n", " "), port)
}
