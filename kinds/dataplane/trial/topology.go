package trial

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// topology is everything a plan needs in the cluster, as values.
type topology struct {
	clients map[dataplane.Variant]mesh.Workload
	servers map[dataplane.Variant]mesh.Workload
	// replicas holds the number of a workload's pods, by name; one for others.
	replicas map[string]int
	// sink receives what proxies ask and tell about requests; nil if none does.
	sink *mesh.Workload
	// cells are the plan's cells.
	cells []record.Cell
	// places holds nodes for variants that require one.
	places dataplane.Places
}

// newTopology builds a Deployment for each variant of the plan's pods.
func newTopology(namespace string, plan *study.Plan) topology {
	t := topology{clients: map[dataplane.Variant]mesh.Workload{}, servers: map[dataplane.Variant]mesh.Workload{}, replicas: map[string]int{}, cells: plan.Cells}
	for _, v := range dataplane.ClientVariants(plan) {
		t.clients[v] = mesh.Workload{Name: "client-" + v.Name(), Namespace: namespace, Proxy: proxyOf(v), Carrier: v.Carrier, Client: true, ControlPort: site.LoadControlPort}
		t.replicas[t.clients[v].Name] = dataplane.Generators(plan, v)
	}
	for _, v := range dataplane.ServerVariants(plan) {
		t.servers[v] = mesh.Workload{Name: "server-" + v.Name(), Namespace: namespace, Proxy: proxyOf(v), Carrier: v.Carrier, ControlPort: site.WorkerControlPort,
			Levels: sharedLevels(v), Extensions: extensionsOf(plan.Study, v), Outside: outsideOf(v)}
		if dataplane.NeedsSink(v.Level(dataplane.FactorFilters)) {
			t.sink = &mesh.Workload{Name: mesh.SinkName, Namespace: namespace, ControlPort: site.WorkerControlPort}
		}
	}
	t.nameOutside()
	return t
}

func proxyOf(v dataplane.Variant) *mesh.Proxy {
	if !v.Sidecar {
		return nil
	}
	return &mesh.Proxy{Levels: v.Levels()}
}

// sharedLevels returns the levels of the shared proxy in front of a variant.
func sharedLevels(v dataplane.Variant) record.Cell {
	if v.Sidecar {
		return nil
	}
	return v.Levels()
}

// extensionsOf returns the user-defined EnvoyFilters and Wasm modules of a variant.
func extensionsOf(s *study.Study, v dataplane.Variant) []mesh.Extension {
	parts, _ := dataplane.Parts(v.Level(dataplane.FactorFilters)) // levels of a plan are valid
	var out []mesh.Extension
	for _, p := range parts {
		if f, ok := dataplane.EnvoyFilterOf(s, p.File); ok && p.Kind == dataplane.PartEnvoyFilter {
			out = append(out, mesh.Extension{Name: f.Name, Part: p.String(), Patches: f.Patches, Priority: f.Priority})
		}
		if m, ok := dataplane.WasmOf(s, p.File); ok && p.Kind == dataplane.PartWasmFile {
			out = append(out, mesh.Extension{Name: p.Kind + "." + m.Name, Part: p.String(), Wasm: m.Code}) // no name of an EnvoyFilter has a dot
		}
	}
	return out
}

// workloads lists every workload, servers first.
func (t topology) workloads() []mesh.Workload {
	var out []mesh.Workload
	for _, w := range t.servers {
		out = append(out, w)
	}
	for _, w := range t.clients {
		out = append(out, w)
	}
	if t.sink != nil {
		out = append(out, *t.sink)
	}
	return out
}

// replicasOf returns the number of a workload's pods.
func (t topology) replicasOf(w mesh.Workload) int { return max(1, t.replicas[w.Name]) }

// proxies lists the sidecars of all workloads.
func (t topology) proxies() []mesh.Proxy {
	var out []mesh.Proxy
	for _, w := range t.workloads() {
		if w.Proxy != nil {
			out = append(out, *w.Proxy)
		}
	}
	return out
}

// deployments returns the Deployments of all workloads, decorated by the mesh.
func (t topology) deployments(m mesh.Mesh, images lab.Images, run string) ([]*appsv1.Deployment, error) {
	var out []*appsv1.Deployment
	add := func(w mesh.Workload, v dataplane.Variant, pod corev1.PodTemplateSpec) error {
		these := &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: w.Name}}
		t.pin(v, &pod)
		if t.replicasOf(w) > 1 && pod.Spec.NodeSelector == nil {
			site.Spread(&pod, these)
		}
		if err := m.Decorate(w, &pod); err != nil {
			return err
		}
		out = append(out, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace, Labels: site.Labels(run, w.Name)},
			Spec: appsv1.DeploymentSpec{
				Replicas: site.Ptr(int32(t.replicasOf(w))),
				Selector: these,
				Template: pod,
			},
		})
		return nil
	}
	for v, w := range t.servers {
		pod := site.WorkerPod(w, images, run)
		// No requests are sent before the worker has been configured, and when it acknowledges that
		// it listens on all ports: a probe would only take a second.
		pod.Spec.Containers[0].StartupProbe = nil
		if err := add(w, v, pod); err != nil {
			return nil, err
		}
	}
	for v, w := range t.clients {
		pod := site.LoadPod(w, images, run)
		if w.Uncaptured() {
			pod.Spec.HostAliases = t.onLoopback()
		}
		pod.Spec.HostAliases = append(pod.Spec.HostAliases, t.outsideAliases()...)
		if err := add(w, v, pod); err != nil {
			return nil, err
		}
	}
	if t.sink != nil {
		if err := add(*t.sink, dataplane.Variant{}, site.WorkerPod(*t.sink, images, run)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// services returns the Services of the servers and of the sink, decorated by the mesh.
func (t topology) services(m mesh.Mesh, run string) []*corev1.Service {
	var out []*corev1.Service
	add := func(w mesh.Workload) {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace, Labels: site.Labels(run, w.Name)},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: w.Name}},
		}
		for _, p := range site.AllPorts() {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.PortName, Port: int32(p.Port), TargetPort: targetOf(w, p)})
		}
		if w.Outside != nil && w.Outside.Destination == study.DestinationOutside {
			s.Spec.Type = corev1.ServiceTypeNodePort
		}
		var carried record.Cell
		if w.Carrier != "" && w.Outside == nil {
			carried = record.Cell{study.FactorSidecars: w.Carrier}
		}
		m.DecorateService(s, carried)
		out = append(out, s)
	}
	for _, w := range t.servers {
		add(w)
	}
	if t.sink != nil {
		add(*t.sink)
	}
	return out
}

// endpointOf returns where the worker receives a cell's requests.
func endpointOf(cell record.Cell, load study.Load) protocol.Endpoint {
	return protocol.Of(cell[study.FactorProtocol]).Endpoint(load.TLS)
}

// url returns the URL of a cell's requests. at is where a server outside the mesh is found; nil for
// others, and if that is unknown yet.
func url(server mesh.Workload, at *nodePorts, cell record.Cell, load study.Load) string {
	path := ""
	if protocol.Of(cell[study.FactorProtocol]).Methods {
		path = load.Path
	}
	endpoint, host := endpointOf(cell, load), hostOf(server)
	switch {
	case server.Outside == nil:
	case at != nil:
		endpoint.Port, host = at.ports[endpoint.Port], at.node
	default:
		host = server.Outside.Host
	}
	return endpoint.URL(host, path)
}
