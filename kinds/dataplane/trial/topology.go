package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
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

// onLoopback resolves the names of all servers to the loopback address: without redirection the
// client's sidecar listens there, and finds the Service by the request's host.
func (t topology) onLoopback() []corev1.HostAlias {
	var names []string
	for _, w := range t.servers {
		names = append(names, hostOf(w))
	}
	slices.Sort(names)
	return []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: names}}
}

// hostOf returns the full name of a workload's Service.
func hostOf(w mesh.Workload) string { return w.Name + "." + w.Namespace + ".svc.cluster.local" }

// targetOf returns the port that a Service leads to: the worker's or, without redirection, its
// sidecar's port for it.
func targetOf(w mesh.Workload, port protocol.Endpoint) intstr.IntOrString {
	for _, p := range protocol.All() {
		if p.Plain == port && w.Uncaptured() && p.Headers {
			return intstr.FromInt(mesh.OwnPort(port.Port))
		}
	}
	return intstr.FromInt(port.Port)
}

// loadSpec returns the generator's load in a cell. The schedule is long enough for the longest
// warm-up; the runner stops it after the window.
//
// All trials of a block have the same seed, and Poisson arrivals repeat after the length of a
// window. So the windows of a block's cells have the same arrivals, whenever their warm-ups end,
// and the effect of arrivals on latency cancels in differences within the block (common random
// numbers: Law, "Simulation Modeling and Analysis", chapter 11). Other blocks have other arrivals.
func loadSpec(s *study.Study, cell record.Cell, url string, seed uint64) (load.Spec, error) {
	levels, err := dataplane.LevelsOf(cell)
	if err != nil {
		return load.Spec{}, err
	}
	window, interval := dataplane.Of(s).Window, dataplane.Of(s).Interval
	spec := load.DefaultSpec(url)
	spec.Protocol = levels.Protocol
	spec.Method = s.Load.Method
	spec.PayloadBytes = int(levels.PayloadBytes)
	spec.Connections = levels.Connections
	spec.KeepAlive = levels.KeepAlive
	spec.Seed = seed
	spec.Rate = levels.Rate
	if !spec.Rate.IsMax() {
		spec.Arrival = levels.Arrival
		if spec.Arrival == load.Poisson {
			spec.RepeatS = window.Seconds()
		}
	}
	if !protocol.Of(levels.Protocol).Methods {
		spec.Method = ""
	}
	spec.IntervalS = interval.Seconds()
	spec.DurationS = (s.Warmup.Max + window + spare(interval)).Seconds()
	spec.TimeoutS = s.Load.Timeout.Seconds()
	for _, name := range slices.Sorted(maps.Keys(s.Load.Headers)) {
		spec.Headers = append(spec.Headers, load.Header{Name: name, Value: s.Load.Headers[name]})
	}
	if s.Load.TLS {
		// The worker creates its own certificate at startup.
		spec.TLS = &load.TLS{InsecureSkipVerify: true}
	}
	return spec, spec.Validate()
}

// findPlaces chooses nodes for a plan's pods from those that the cluster has now, the same as in
// earlier trials of the run; nil for a plan that leaves them to Kubernetes.
func findPlaces(ctx context.Context, l lab.Lab, plan *study.Plan, recorded []record.Trial) (dataplane.Places, error) {
	if !dataplane.Placed(plan) {
		return nil, nil
	}
	open, err := openNodes(ctx, l, dataplane.FactorPlacement)
	if err != nil {
		return nil, err
	}
	hint := "usable nodes are ready, have no taints, and for other zones have labels " + corev1.LabelTopologyZone
	if l.Kind() == lab.KindLocal {
		hint = "run `meshtrial lab down`, and the run starts a lab with enough nodes; or `meshtrial lab up --nodes N --zones A,B`"
	}
	return dataplane.ChoosePlaces(plan, open, dataplane.PlacesKept(recorded), hint)
}

// openNodes returns the nodes where the scheduler may put any pod; factor is the one that needs
// them.
func openNodes(ctx context.Context, l lab.Lab, factor string) ([]dataplane.NodeAt, error) {
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		return nil, err
	}
	nodes, err := site.OpenNodes(ctx, kube)
	if err != nil {
		return nil, fmt.Errorf("factor %s: %w", factor, err)
	}
	var open []dataplane.NodeAt
	for i := range nodes {
		open = append(open, nodeAt(&nodes[i]))
	}
	return open, nil
}

// checkSpread rejects several generators whose requests may pass different proxies, judging by the
// nodes that the cluster has now.
func checkSpread(ctx context.Context, l lab.Lab, plan *study.Plan) error {
	if !slices.ContainsFunc(plan.Cells, dataplane.Scattered) {
		return nil
	}
	open, err := openNodes(ctx, l, study.FactorGenerators)
	if err != nil {
		return err
	}
	return refuseSpread(plan, len(open))
}

// refuseSpread is checkSpread for a number of nodes: if node proxies carry requests, those of a
// generator next to the worker's pod take another way than those of one elsewhere.
func refuseSpread(plan *study.Plan, nodes int) error {
	for _, cell := range plan.Cells {
		if nodes > 1 && dataplane.Scattered(cell) {
			return runner.Placed(plan, cell, fmt.Errorf("%d generators may be scheduled both on the worker's node and on others, where other proxies carry their requests: the cluster has %d schedulable nodes", dataplane.GeneratorsIn(cell), nodes),
				fmt.Sprintf("%s: %s or %s puts all of them on one node", dataplane.FactorPlacement, dataplane.PlacementOtherNode, dataplane.PlacementSameNode), study.FactorGenerators)
		}
	}
	return nil
}

func nodeAt(n *corev1.Node) dataplane.NodeAt {
	return dataplane.NodeAt{Name: n.Name, Host: n.Labels[corev1.LabelHostname], Zone: site.Zone(n), Kind: site.Kind(n)}
}

// pin makes a variant's pod run where the plan requires it, by its node's own label. A pod that may
// run anywhere returns soon if it is lost with its node.
func (t topology) pin(v dataplane.Variant, pod *corev1.PodTemplateSpec) {
	if at, ok := t.places[v.Place()]; ok {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: at.Host}
		return
	}
	lab.LeaveDeadNodes(pod)
}

// findNodes records what may be read about the pods' nodes.
func (d *deployed) findNodes(ctx context.Context) {
	for _, name := range d.nodes() {
		d.at[name] = d.NodeAt(ctx, name, d.at[name])
	}
}

// on returns the nodes of the trial's pods, and of the proxies on its way that may run anywhere.
func (t *trialRun) on() map[string]record.NodeAt {
	out := map[string]record.NodeAt{}
	for part, node := range map[string]string{record.PartGenerator: t.client.pod.Node, record.PartWorker: t.server.pod.Node} {
		out[part] = t.d.at[node]
	}
	for i, h := range t.hands {
		out[record.OfHand(record.PartGenerator, i)] = t.d.at[h.pod.Node]
	}
	for part, pod := range t.proxies {
		if p, _ := record.ProxyOf(part); p.Place == record.PlaceWaypoint || p.Place == record.PlaceGateway {
			out[part] = t.d.at[pod.Node]
		}
	}
	return out
}
