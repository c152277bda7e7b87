package population

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// specAnnotation holds a digest of the data from which an object was made. A later
// Ensure compares it to see whether the object must change.
const specAnnotation = "meshtrial.dev/spec"

// labels returns the labels of every object of a population, plus more.
func labels(more ...string) map[string]string {
	out := map[string]string{Label: LabelValue, PartOf: "meshtrial"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// Objects returns the objects of the population, except those that the cluster's
// controllers create. Namespaces get extra labels. The same sizes give the same
// objects.
func (s Sizes) Objects(namespaceLabels map[string]string) ([]*unstructured.Unstructured, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	add := func(objects ...*unstructured.Unstructured) { out = append(out, objects...) }
	for i := range s.nodes() {
		add(node(i))
	}
	namespaces := s.NamespaceNames()
	if s.Gateways > 0 {
		namespaces = append(namespaces, GatewayNamespace)
	}
	if s.Ztunnels > 0 {
		namespaces = append(namespaces, ZtunnelNamespace)
	}
	for i := range min(s.EndpointSlices, max(1, s.SliceNamespaces)) {
		namespaces = append(namespaces, s.sliceNamespace(i))
	}
	for _, name := range namespaces {
		add(Object{"v1", "Namespace", "", name, merge(namespaceLabels, labels()), nil}.Unstructured())
		add(Object{"v1", "ServiceAccount", name, ServiceAccount, labels(), nil}.Unstructured())
	}
	for i := range s.Services {
		service := s.Service(i)
		add(Object{"v1", "Service", service.Namespace, service.Name, labels(AppLabel, service.Name), map[string]any{
			"selector": map[string]any{AppLabel: service.Name},
			"ports":    []any{port("http", ServicePort, TargetPort)},
		}}.Unstructured())
		if s.EndpointsPerService > 0 {
			add(deployment(service.Namespace, service.Name, s.EndpointsPerService, nil, containerPort("http", TargetPort)))
		}
	}
	for i := range s.Namespaces {
		share := s.clients() / s.Namespaces
		if i < s.clients()%s.Namespaces {
			share++
		}
		if share > 0 {
			add(deployment(Namespace(i), ClientsDeployment, share, nil))
		}
	}
	if s.Gateways > 0 {
		add(Object{"v1", "Service", GatewayNamespace, GatewayDeployment, labels(AppLabel, GatewayDeployment), map[string]any{
			"selector": map[string]any{AppLabel: GatewayDeployment},
			"ports":    []any{port("http2", 80, 8080), port("https", 443, 8443)},
		}}.Unstructured())
		add(deployment(GatewayNamespace, GatewayDeployment, s.Gateways, map[string]string{GatewayLabel: "true"}, containerPort("http2", 8080), containerPort("https", 8443)))
	}
	if s.Ztunnels > 0 {
		add(deployment(ZtunnelNamespace, ZtunnelDeployment, s.Ztunnels, nil))
	}
	add(s.dummies()...)
	add(s.slices()...)
	for _, o := range out {
		if err := stamp(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// slices returns EndpointSlices and their Services: plain objects that no controller
// creates and that kube-proxy ignores.
func (s Sizes) slices() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := range s.EndpointSlices {
		name, namespace := fmt.Sprintf("slice-%d", i), s.sliceNamespace(i)
		out = append(out, Object{"v1", "Service", namespace, name, labels(AppLabel, name), map[string]any{
			"clusterIP": "None",
			"ports":     []any{port("http", ServicePort, TargetPort)},
		}}.Unstructured())
		o := Object{"discovery.k8s.io/v1", "EndpointSlice", namespace, name, labels(discoveryv1.LabelServiceName, name,
			discoveryv1.LabelManagedBy, sliceManager, corev1.IsHeadlessService, ""), nil}.Unstructured()
		o.Object["addressType"] = "IPv4"
		// 198.18.0.0/15 is reserved for benchmarks (RFC 2544).
		o.Object["endpoints"] = []any{map[string]any{"addresses": []any{fmt.Sprintf("198.%d.%d.%d", 18+i>>16&1, i>>8&255, i&255)}, "conditions": map[string]any{"ready": true}}}
		o.Object["ports"] = []any{map[string]any{"name": "http", "port": int64(TargetPort), "protocol": "TCP"}}
		out = append(out, o)
	}
	return out
}

// stamp annotates an object with the digest of the data from which it was made.
func stamp(o *unstructured.Unstructured) error {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	sum := sha256.Sum256(text)
	o.SetAnnotations(merge(o.GetAnnotations(), map[string]string{specAnnotation: hex.EncodeToString(sum[:8])}))
	return nil
}

func merge(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// node returns a node that kwok simulates: see its documentation of the annotation.
// Its address range has one address. kwok counts up from there. Because released
// addresses lie outside the range, it never assigns one twice. See
// sigs.k8s.io/kwok/pkg/kwok/controllers, ipPool.
func node(i int) *unstructured.Unstructured {
	name := fmt.Sprintf("mm-node-%d", i)
	o := Object{"v1", "Node", "", name, labels(NodeLabel, "true", "kubernetes.io/hostname", name, "kubernetes.io/os", "linux", "kubernetes.io/arch", "amd64"), map[string]any{
		"podCIDR":  fmt.Sprintf("240.%d.0.0/32", i),
		"podCIDRs": []any{fmt.Sprintf("240.%d.0.0/32", i)},
		"taints":   []any{map[string]any{"key": NodeLabel, "value": "true", "effect": "NoSchedule"}},
	}}.Unstructured()
	resources := map[string]any{"cpu": "100000", "memory": "1000Ti", "pods": fmt.Sprint(podsPerNode)}
	o.Object["status"] = map[string]any{"allocatable": resources, "capacity": resources}
	o.SetAnnotations(map[string]string{"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"})
	return o
}

func port(name string, number, target int64) map[string]any {
	return map[string]any{"name": name, "port": number, "targetPort": target, "protocol": "TCP"}
}

func containerPort(name string, number int64) any {
	return map[string]any{"name": name, "containerPort": number, "protocol": "TCP"}
}

// deployment returns a Deployment of simulated pods, which look injected to istiod.
// kwok terminates them as soon as they are deleted.
func deployment(namespace, name string, replicas int, podLabels map[string]string, ports ...any) *unstructured.Unstructured {
	container := map[string]any{"name": "app", "image": "simulated"}
	if len(ports) > 0 {
		container["ports"] = ports
	}
	pod := merge(labels(AppLabel, name,
		"sidecar.istio.io/inject", "false",
		"security.istio.io/tlsMode", "istio",
		"service.istio.io/canonical-name", name,
		"service.istio.io/canonical-revision", "latest"), podLabels)
	return Object{"apps/v1", "Deployment", namespace, name, labels(AppLabel, name), map[string]any{
		"replicas":             int64(replicas),
		"revisionHistoryLimit": int64(0),
		"selector":             map[string]any{"matchLabels": map[string]any{AppLabel: name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": anyMap(pod)},
			"spec": map[string]any{
				"serviceAccountName":            ServiceAccount,
				"automountServiceAccountToken":  false,
				"enableServiceLinks":            false,
				"terminationGracePeriodSeconds": int64(1),
				"nodeSelector":                  map[string]any{NodeLabel: "true"},
				"tolerations":                   []any{map[string]any{"key": NodeLabel, "operator": "Exists"}},
				"containers":                    []any{container},
			},
		},
	}}.Unstructured()
}

// dummies returns the mesh configuration that only adds to the number of objects.
func (s Sizes) dummies() []*unstructured.Unstructured {
	const networking, security = "networking.istio.io/v1", "security.istio.io/v1"
	var out []*unstructured.Unstructured
	host := func(kind string, i int) string { return fmt.Sprintf("%s-%d.%s", kind, i, Domain) }
	name := func(i int) string { return fmt.Sprintf("dummy-%d", i) }
	for i := range s.ServiceEntries {
		resolution := cmp.Or(s.ServiceEntry.Resolution, "DNS")
		spec := map[string]any{
			"hosts":      []any{cmp.Or(s.ServiceEntry.Host, host("entry", i))},
			"location":   "MESH_EXTERNAL",
			"resolution": resolution,
			"ports":      []any{map[string]any{"name": "http", "number": int64(cmp.Or(s.ServiceEntry.Port, 80)), "protocol": "HTTP"}},
		}
		if resolution == "STATIC" {
			spec["endpoints"] = []any{map[string]any{"address": "203.0.113.1"}}
		}
		out = append(out, Object{networking, "ServiceEntry", s.dummyNamespace(), name(i), labels(), spec}.Unstructured())
	}
	for i := range s.VirtualServices {
		h := host("route", i)
		spec := map[string]any{"hosts": []any{h}}
		if i < s.GatewayResources {
			h = host("gateway", i)
			spec = map[string]any{"hosts": []any{h}, "gateways": []any{name(i)}}
		}
		destination := h
		if s.Services > 0 {
			destination = s.Service(i % s.Services).Host()
		}
		spec["http"] = []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": destination, "port": map[string]any{"number": int64(ServicePort)}}}}}}
		out = append(out, Object{networking, "VirtualService", s.dummyNamespace(), name(i), labels(), spec}.Unstructured())
	}
	for i := range s.GatewayResources {
		out = append(out, Object{networking, "Gateway", s.dummyNamespace(), name(i), labels(), map[string]any{
			"selector": map[string]any{GatewayLabel: "true"},
			"servers":  []any{map[string]any{"port": map[string]any{"name": "http", "number": int64(80), "protocol": "HTTP"}, "hosts": []any{host("gateway", i)}}},
		}}.Unstructured())
	}
	for i := range s.DestinationRules {
		namespace, h := Namespace(i%s.Namespaces), host("rule", i)
		if i < s.Services {
			namespace, h = s.Service(i).Namespace, s.Service(i).Host()
		}
		out = append(out, Object{networking, "DestinationRule", namespace, name(i), labels(), map[string]any{
			"host": h, "trafficPolicy": map[string]any{"connectionPool": map[string]any{"tcp": map[string]any{"maxConnections": int64(1000)}}},
		}}.Unstructured())
	}
	for i := range s.AuthorizationPolicies {
		out = append(out, Object{security, "AuthorizationPolicy", Namespace(i % s.Namespaces), name(i), labels(), map[string]any{
			"action": "DENY",
			"rules":  []any{map[string]any{"from": []any{map[string]any{"source": map[string]any{"principals": []any{fmt.Sprintf("cluster.local/ns/nobody/sa/dummy-%d", i)}}}}}},
		}}.Unstructured())
	}
	return out
}
