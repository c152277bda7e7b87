package xds

import (
	"cmp"
	"encoding/json"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// node returns the encoded node of a proxy, as in the bootstrap that pilot-agent writes.
// It is built for the first request of each stream and not kept.
func (s *Spec) node(p *Proxy) ([]byte, error) {
	if p.nodeType() == NodeZtunnel {
		return s.ztunnelNode(p)
	}
	domain := cmp.Or(s.Mesh.DNSDomain, "cluster.local")
	podPorts, err := json.Marshal(append([]Port{}, p.Ports...)) // [] for none
	if err != nil {
		return nil, fmt.Errorf("ports of %s: %w", p.Name, err)
	}
	labels := map[string]any{}
	for name, value := range p.Labels {
		labels[name] = value
	}
	app := cmp.Or(p.Labels["app"], p.Labels["app.kubernetes.io/name"], p.Name)
	meta := map[string]any{
		"NAME":          p.Name,
		"NAMESPACE":     p.Namespace,
		"LABELS":        labels,
		"CLUSTER_ID":    cmp.Or(s.Mesh.ClusterID, "Kubernetes"),
		"ISTIO_VERSION": s.Mesh.version(),
		"INSTANCE_IPS":  p.IP,
		"MESH_ID":       cmp.Or(s.Mesh.MeshID, "cluster.local"),
		"NODE_NAME":     p.Node,
		"POD_PORTS":     string(podPorts),
		"PROXY_CONFIG": map[string]any{
			"binaryPath": "/usr/local/bin/envoy", "configPath": "./etc/istio/proxy",
			"discoveryAddress": "istiod.istio-system.svc:15012", "serviceCluster": "istio-proxy",
			"statusPort": 15020, "proxyAdminPort": 15000, "controlPlaneAuthPolicy": "MUTUAL_TLS",
			"drainDuration": "45s", "terminationDrainDuration": "5s",
		},
		"INTERCEPTION_MODE": "REDIRECT", // the injector sets the mesh's mode for gateways too
		"APP_CONTAINERS":    "app",
		"SERVICE_ACCOUNT":   p.account(),
		"WORKLOAD_NAME":     app,
		"OWNER":             "kubernetes://apis/apps/v1/namespaces/" + p.Namespace + "/deployments/" + app,
		"PILOT_SAN":         []any{"istiod.istio-system.svc"},
		"ENVOY_STATUS_PORT": 15021, "ENVOY_PROMETHEUS_PORT": 15090, "ENVOY_SKIP_DEPRECATED_LOGS": "true",
		"ANNOTATIONS":                   map[string]any{"istio.io/rev": "default", "prometheus.io/path": "/stats/prometheus", "prometheus.io/port": "15020", "prometheus.io/scrape": "true"},
		"ISTIO_PROXY_SHA":               "meshtrial",
		"METADATA_DISCOVERY":            "false",
		"WORKLOAD_IDENTITY_SOCKET_FILE": "socket",
	}
	if p.nodeType() == NodeRouter {
		meta["APP_CONTAINERS"] = "" // it has only the proxy's container
	} else if s.DNSCapture {
		meta["DNS_CAPTURE"] = "true"
	}
	if s.speaksHBONE(p) {
		meta["ENABLE_HBONE"], meta["METADATA_DISCOVERY"] = "true", "true"
	}
	if p.Node == "" {
		delete(meta, "NODE_NAME")
	}
	return encoded(&corev3.Node{
		UserAgentName: "envoy",
		Id:            p.nodeType() + "~" + p.IP + "~" + p.Name + "." + p.Namespace + "~" + p.Namespace + ".svc." + domain,
		Cluster:       app + "." + p.Namespace,
	}, meta)
}

// encoded encodes a node with its metadata.
func encoded(n *corev3.Node, meta map[string]any) (b []byte, err error) {
	if n.Metadata, err = structpb.NewStruct(meta); err == nil {
		b, err = proto.Marshal(n)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Id, err)
	}
	return b, nil
}

// version returns Istio's version.
func (m Mesh) version() string { return cmp.Or(m.IstioVersion, "1.31.0") }
