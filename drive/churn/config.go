package churn

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
)

const (
	core       = "v1"
	networking = "networking.istio.io/v1"
	security   = "security.istio.io/v1"
	telemetry  = "telemetry.istio.io/v1"
)

// Label is on every object that changes create, with the trial as value. changeAnnotation
// names the change that wrote the object last.
const (
	Label            = "meshtrial.dev/churn"
	changeAnnotation = "meshtrial.dev/change"
)

// object returns an object that belongs to the plan.
func (b *builder) object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return population.Object{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name,
		Labels: map[string]string{Label: b.spec.Trial, population.PartOf: "meshtrial"}, Spec: spec}.Unstructured()
}

// prepare adds objects that must exist before the first change.
func (b *builder) prepare(objects ...*unstructured.Unstructured) {
	b.plan.prepare = append(b.plan.prepare, objects...)
}

// servicePorts is the spec of a Service with one port.
func servicePorts(port int64) map[string]any {
	return map[string]any{"ports": []any{map[string]any{"name": "http", "port": port, "targetPort": int64(population.TargetPort), "protocol": "TCP"}}}
}

// put adds a change that creates an object or replaces its spec.
func (b *builder) put(first bool, o *unstructured.Unstructured, scope Scope, markers ...record.Marker) {
	if !first {
		b.patch(o, "update", map[string]any{"spec": o.Object["spec"]}, scope, markers...)
		return
	}
	o.SetAnnotations(map[string]string{changeAnnotation: strconv.Itoa(b.index())})
	b.append(Change{Op: "create", Object: population.Key(o), Scope: scope, writes: []write{{object: o}}}, markers...)
}

// patch adds a change that merges a patch into an object.
func (b *builder) patch(o *unstructured.Unstructured, op string, patch map[string]any, scope Scope, markers ...record.Marker) {
	b.append(Change{Op: op, Object: population.Key(o), Scope: scope, writes: []write{{o, annotated(patch, b.index())}}}, markers...)
}

// annotated adds the change's number to a patch.
func annotated(patch map[string]any, index int) map[string]any {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[changeAnnotation] = strconv.Itoa(index)
	return patch
}

// visible returns the scope of a change of a host in a namespace: every proxy that can
// see it.
func visible(owner string) Scope { return Scope{Sidecars: true, Gateways: true, Owner: owner} }

func cds(name string) record.Marker { return record.Marker{Type: "cds", Resource: name, Text: name} }

// wds marks a host of a namespace in the configuration of ztunnels.
func wds(namespace, host string) record.Marker {
	return record.Marker{Type: "wds", Resource: namespace + "/" + host, Text: host}
}

// service creates a Service that selects nothing, or changes its port. The name of its
// cluster contains both.
func (b *builder) service(_ string, n int) {
	name, namespace, first := b.slot(n)
	port := int64(population.ServicePort)
	if b.spec.Objects > 0 {
		port = b.number()
	}
	b.serviceObject(first, namespace, name, port)
}

func (b *builder) serviceObject(first bool, namespace, name string, port int64) {
	host := fmt.Sprintf("%s.%s.svc.cluster.local", name, namespace)
	markers := []record.Marker{cds(fmt.Sprintf("outbound|%d||%s", port, host))}
	if first { // ztunnels receive a port as a number, which no marker finds
		markers = append(markers, wds(namespace, host))
	}
	b.put(first, b.object(core, "Service", namespace, name, servicePorts(port)), visible(namespace), markers...)
}

// published creates the three objects of the published test. The Gateway itself is
// not visible: all of them share a listener, whose routes come from VirtualServices.
func (b *builder) published(_ string, n int) {
	namespace, text := b.namespace(n), b.text()
	host := text + "." + population.Domain
	b.serviceObject(true, namespace, text, population.ServicePort)
	b.put(true, b.object(networking, "Gateway", namespace, text, gatewaySpec(80, host)), Scope{})
	b.put(true, b.object(networking, "VirtualService", namespace, text, map[string]any{
		"hosts": []any{host}, "gateways": []any{text},
		"http": []any{routeTo(fmt.Sprintf("%s.%s.svc.cluster.local", text, namespace))},
	}), Scope{Gateways: true, Owner: namespace}, record.Marker{Type: "rds", Text: host})
}

func gatewaySpec(port int64, host string) map[string]any {
	return map[string]any{
		"selector": map[string]any{population.GatewayLabel: "true"},
		"servers":  []any{map[string]any{"port": map[string]any{"name": "http", "number": port, "protocol": "HTTP"}, "hosts": []any{host}}},
	}
}

func routeTo(host string) map[string]any {
	return map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": host, "port": map[string]any{"number": int64(population.ServicePort)}}}}}
}

// virtualService routes a host that does not exist: it gets a virtual host in the
// route of port 80.
// See istio.io/istio/pilot/pkg/networking/core/route, separateVSHostsAndServices.
func (b *builder) virtualService(_ string, n int) {
	name, namespace, first := b.slot(n)
	host := b.text() + "." + population.Domain
	b.put(first, b.object(networking, "VirtualService", namespace, name, map[string]any{
		"hosts": []any{host}, "http": []any{routeTo(b.target(n).Host())},
	}), Scope{Sidecars: true, Owner: namespace}, record.Marker{Type: "rds", Resource: strconv.Itoa(population.ServicePort), Text: host})
}

// target returns a Service for change n: one of the population, or one of the plan's own
// if the population has none.
func (b *builder) target(n int) population.Service {
	if b.spec.Population.Services > 0 {
		return b.spec.Population.Service(n % b.spec.Population.Services)
	}
	s := population.Service{Namespace: b.spec.Namespaces[0], Name: "mm-" + b.spec.Trial + "-base"}
	if !b.based {
		b.based = true
		b.prepare(b.object(core, "Service", s.Namespace, s.Name, servicePorts(population.ServicePort)))
	}
	return s
}

// destinationRule gives a Service a subset, which has its own cluster.
func (b *builder) destinationRule(_ string, n int) {
	name, _, first := b.slot(n)
	k := n
	if b.spec.Objects > 0 {
		k = n % b.spec.Objects
	}
	service, subset := b.target(k), b.text()
	b.put(first, b.object(networking, "DestinationRule", service.Namespace, name, map[string]any{
		"host": service.Host(), "subsets": []any{map[string]any{"name": subset, "labels": map[string]any{"version": "v1"}}},
	}), visible(service.Namespace), cds(service.Cluster(subset)))
}

// gateway opens a new port on the gateways.
// See istio.io/istio/pilot/pkg/model, resolvePorts: a port that the gateway's Service
// lacks is used as it is.
func (b *builder) gateway(_ string, n int) {
	name, namespace, first := b.slot(n)
	listener := fmt.Sprintf("0.0.0.0_%d", b.number())
	b.put(first, b.object(networking, "Gateway", namespace, name, gatewaySpec(b.number(), b.text()+"."+population.Domain)),
		Scope{Gateways: true}, record.Marker{Type: "lds", Resource: listener, Text: listener})
}

// serviceEntry adds an external host.
func (b *builder) serviceEntry(_ string, n int) {
	name, namespace, first := b.slot(n)
	host := b.text() + "." + population.Domain
	b.put(first, b.object(networking, "ServiceEntry", namespace, name, map[string]any{
		"hosts": []any{host}, "location": "MESH_EXTERNAL", "resolution": "STATIC",
		"ports":     []any{map[string]any{"name": "http", "number": int64(80), "protocol": "HTTP"}},
		"endpoints": []any{map[string]any{"address": "203.0.113.1"}},
	}), visible(namespace), cds("outbound|80||"+host), wds(namespace, host))
}

// one names the object of a kind that a namespace can have only once. Changes go to the
// namespaces in turn, and update what an earlier change created.
func (b *builder) one(n int) (name, namespace string, first bool) {
	return "mm-" + b.spec.Trial, b.namespace(n), n < len(b.spec.Namespaces)
}

// sidecarPort is the port of a Service of the plan's own. On a port of other Services,
// the listener would hide them.
const sidecarPort = 7080

// sidecar gives the sidecars of a namespace an egress listener on a new address. They
// still reach everything else.
func (b *builder) sidecar(_ string, n int) {
	name, namespace, first := b.one(n)
	service := population.Service{Namespace: b.spec.Namespaces[0], Name: name + "-egress"}
	if n == 0 {
		b.prepare(b.object(core, "Service", service.Namespace, service.Name, servicePorts(sidecarPort)))
	}
	i := b.index()
	address := fmt.Sprintf("127.%d.%d.%d", 100+i/(156*156), 100+i/156%156, 100+i%156)
	listener := fmt.Sprintf("%s_%d", address, sidecarPort)
	b.put(first, b.object(networking, "Sidecar", namespace, name, map[string]any{"egress": []any{
		map[string]any{"bind": address, "hosts": []any{service.Namespace + "/" + service.Host()},
			"port": map[string]any{"name": "http", "number": int64(sidecarPort), "protocol": "HTTP"}},
		map[string]any{"hosts": []any{"*/*"}},
	}}), Scope{Sidecars: true, Namespaces: []string{namespace}}, record.Marker{Type: "lds", Resource: listener, Text: listener})
}

// inbound marks text in a sidecar's inbound listener.
func inbound(text string) record.Marker {
	return record.Marker{Type: "lds", Resource: "virtualInbound", Text: text}
}

// authorizationPolicy denies a principal that does not exist.
func (b *builder) authorizationPolicy(_ string, n int) {
	name, namespace, first := b.slot(n)
	text := b.text()
	b.put(first, b.object(security, "AuthorizationPolicy", namespace, name, map[string]any{
		"action": "DENY",
		"rules":  []any{map[string]any{"from": []any{map[string]any{"source": map[string]any{"principals": []any{"cluster.local/ns/nobody/sa/" + text}}}}}},
	}), Scope{Sidecars: true, Namespaces: []string{namespace}}, inbound(text), record.Marker{Type: "wads", Resource: namespace + "/" + name, Text: text})
}

// telemetry logs requests to a path that nobody requests.
func (b *builder) telemetry(_ string, n int) {
	name, namespace, first := b.one(n)
	text := b.text()
	b.put(first, b.object(telemetry, "Telemetry", namespace, name, map[string]any{"accessLogging": []any{map[string]any{
		"providers": []any{map[string]any{"name": "envoy"}},
		"filter":    map[string]any{"expression": fmt.Sprintf("request.url_path == '/%s'", text)},
	}}}), Scope{Sidecars: true, Namespaces: []string{namespace}}, inbound(text))
}

// namespaceLabels labels a namespace. If istiod selects namespaces by a label, each
// change selects one of the plan's own namespaces, with one Service. Otherwise the label
// has no effect.
func (b *builder) namespaceLabels(_ string, n int) {
	key, value, in := b.spec.selector()
	if key == "" {
		namespace := population.Object{APIVersion: core, Kind: "Namespace", Name: b.namespace(n)}.Unstructured()
		b.patch(namespace, "patch", labelPatch(Label+"-label", b.text()), Scope{})
		if n < len(b.spec.Namespaces) {
			b.restore(namespace, map[string]any{"metadata": map[string]any{
				"labels": map[string]any{Label + "-label": nil}, "annotations": map[string]any{changeAnnotation: nil}}})
		}
		return
	}
	text := b.text()
	// Labelled as population, so that a cleanup after a dead run finds it.
	namespace := b.object(core, "Namespace", "", text, nil)
	namespace.SetLabels(map[string]string{Label: b.spec.Trial, population.PartOf: "meshtrial", population.Label: population.LabelValue})
	patch := labelPatch(key, value)
	if !in { // selected by removing the label
		labels := namespace.GetLabels()
		labels[key] = value
		namespace.SetLabels(labels)
		patch = labelPatch(key, nil)
	}
	service := b.object(core, "Service", text, "svc", servicePorts(population.ServicePort))
	b.prepare(namespace, service)
	b.patch(namespace, "patch", patch, visible(text), cds(population.Service{Namespace: text, Name: "svc"}.Cluster("")))
}

func labelPatch(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}}
}

// restore adds a patch that reverts a change to an object that the plan does not own.
func (b *builder) restore(o *unstructured.Unstructured, patch map[string]any) {
	b.plan.restore = append(b.plan.restore, write{o, patch})
}

// noOp writes an annotation without meaning, alternately to a Service and a
// VirtualService.
func (b *builder) noOp(_ string, n int) {
	if n%2 == 1 {
		o := b.object(networking, "VirtualService", b.spec.Namespaces[0], "mm-"+b.spec.Trial+"-noop", map[string]any{
			"hosts": []any{"mm-" + b.spec.Trial + "-noop." + population.Domain}, "http": []any{routeTo(b.target(0).Host())}})
		if n == 1 {
			b.prepare(o)
		}
		b.patch(o, "patch", map[string]any{}, Scope{})
		return
	}
	s := b.target(n / 2)
	o := population.Object{APIVersion: core, Kind: "Service", Namespace: s.Namespace, Name: s.Name}.Unstructured()
	b.patch(o, "patch", map[string]any{}, Scope{})
	if n/2 < b.spec.Population.Services {
		b.restore(o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{changeAnnotation: nil}}})
	}
}
