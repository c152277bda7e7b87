package runner

import (
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/protocol"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/worker/control"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Names of roles: container names, and prefixes of Deployment names.
const (
	roleLoad    = "load"
	roleWorker  = "worker"
	roleObserve = "observe"
	roleXDS     = "xds"
	roleReal    = "real"
)

// Ports of the roles' control servers, on their pods' loopback.
const (
	loadControlPort    = 15991
	workerControlPort  = control.ControlPort
	observeControlPort = observe.ControlPort
	xdsControlPort     = 15993
)

// runLabel marks everything a run makes in the cluster.
const runLabel = "meshtrial.dev/run"

// allPorts are all of the worker's ports, each once, in order.
func allPorts() []protocol.Endpoint {
	out := protocol.Endpoints()
	slices.SortFunc(out, func(a, b protocol.Endpoint) int { return a.Port - b.Port })
	return out
}

// endpointOf is where a cell's requests go to at the worker.
func endpointOf(cell record.Cell, load study.Load) protocol.Endpoint {
	return protocol.Of(cell[study.FactorProtocol]).Endpoint(load.TLS)
}

// topology is everything a plan needs in the cluster, as values.
type topology struct {
	clients map[study.Variant]mesh.Workload
	servers map[study.Variant]mesh.Workload
	// sink takes what sidecars send about requests; nil if none does.
	sink *mesh.Workload
}

// newTopology lays out a Deployment for each variant of the plan's pods.
func newTopology(namespace string, plan *study.Plan) topology {
	t := topology{clients: map[study.Variant]mesh.Workload{}, servers: map[study.Variant]mesh.Workload{}}
	for _, v := range plan.ClientVariants() {
		t.clients[v] = mesh.Workload{Name: "client-" + v.Name(), Namespace: namespace, Proxy: proxyOf(v), Client: true, ControlPort: loadControlPort}
	}
	for _, v := range plan.ServerVariants() {
		t.servers[v] = mesh.Workload{Name: "server-" + v.Name(), Namespace: namespace, Proxy: proxyOf(v), ControlPort: workerControlPort,
			Extensions: extensionsOf(plan.Study, v)}
		if study.HasPart(v.Filters, study.PartTracing) || study.HasPart(v.Filters, study.PartOTLPLog) {
			t.sink = &mesh.Workload{Name: mesh.SinkName, Namespace: namespace, ControlPort: workerControlPort}
		}
	}
	return t
}

func proxyOf(v study.Variant) *mesh.Proxy {
	if !v.Sidecar {
		return nil
	}
	return &mesh.Proxy{MTLS: v.MTLS, Telemetry: v.Telemetry, Concurrency: v.Concurrency, CPULimit: v.CPULimit, Envoy: envoyVersion(v.Envoy), Interception: v.Interception,
		Filters: filtersOf(v)}
}

// filtersOf is a variant's level of the factor filters, "" for none.
func filtersOf(v study.Variant) string {
	if v.Filters == study.FiltersNone {
		return ""
	}
	return v.Filters
}

// extensionsOf are the EnvoyFilters of the user's that a variant has.
func extensionsOf(s *study.Study, v study.Variant) []mesh.Extension {
	parts, _ := study.Parts(v.Filters) // levels of a plan can be read
	var out []mesh.Extension
	for _, p := range parts {
		if f, ok := s.EnvoyFilterOf(p.File); ok && p.Kind == study.PartEnvoyFilter {
			out = append(out, mesh.Extension{Name: f.Name, Patches: f.Patches, Priority: f.Priority})
		}
	}
	return out
}

// envoyVersion is the version a level of the factor envoy names, "" for the
// mesh's own.
func envoyVersion(level string) string {
	if level == study.EnvoyDefault {
		return ""
	}
	return level
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

// deployments makes the Deployments of all workloads, decorated by the mesh.
func (t topology) deployments(m mesh.Mesh, images lab.Images, run string) ([]*appsv1.Deployment, error) {
	var out []*appsv1.Deployment
	add := func(w mesh.Workload, pod corev1.PodTemplateSpec) error {
		if err := m.Decorate(w, &pod); err != nil {
			return err
		}
		out = append(out, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace, Labels: labels(run, w.Name)},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: w.Name}},
				Template: pod,
			},
		})
		return nil
	}
	for _, w := range t.servers {
		if err := add(w, workerPod(w, images, run)); err != nil {
			return nil, err
		}
	}
	for _, w := range t.clients {
		pod := loadPod(w, images, run)
		if w.Uncaptured() {
			pod.Spec.HostAliases = t.onLoopback()
		}
		if err := add(w, pod); err != nil {
			return nil, err
		}
	}
	if t.sink != nil {
		if err := add(*t.sink, workerPod(*t.sink, images, run)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t topology) services(run string) []*corev1.Service {
	var out []*corev1.Service
	add := func(w mesh.Workload) {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace, Labels: labels(run, w.Name)},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: w.Name}},
		}
		for _, p := range allPorts() {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.PortName, Port: int32(p.Port), TargetPort: targetOf(w, p)})
		}
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

func labels(run, name string) map[string]string {
	return map[string]string{runLabel: run, mesh.AppLabel: name, "app.kubernetes.io/part-of": "meshtrial"}
}

// rolePod is what the pods of all roles share: nothing of the host, no
// credentials, a quick end.
func rolePod(name, run string, container corev1.Container, images lab.Images) corev1.PodTemplateSpec {
	container.Image = images.Meshtrial
	container.ImagePullPolicy = images.PullPolicy
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr(false),
		ReadOnlyRootFilesystem:   ptr(true),
		RunAsNonRoot:             ptr(true),
		RunAsUser:                ptr(int64(65532)),
		RunAsGroup:               ptr(int64(65532)),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	container.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(run, name)},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{container},
			AutomountServiceAccountToken:  ptr(false),
			EnableServiceLinks:            ptr(false),
			TerminationGracePeriodSeconds: ptr(int64(1)),
		},
	}
}

func workerPod(w mesh.Workload, images lab.Images, run string) corev1.PodTemplateSpec {
	c := corev1.Container{
		Name: roleWorker,
		Args: []string{"worker", "--control", "127.0.0.1:" + strconv.Itoa(w.ControlPort)},
		// A startup probe ends with its first success: nothing probes the
		// worker while it is measured.
		StartupProbe: &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(control.HealthPort)}},
			PeriodSeconds:    1,
			FailureThreshold: 60,
		},
	}
	for _, e := range protocol.Endpoints() {
		if e.TLS { // not served unless it is asked for
			c.Args = append(c.Args, "--"+e.Flag, ":"+strconv.Itoa(e.Port))
		}
	}
	for _, p := range allPorts() {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.PortName, ContainerPort: int32(p.Port)})
	}
	return rolePod(w.Name, run, c, images)
}

func loadPod(w mesh.Workload, images lab.Images, run string) corev1.PodTemplateSpec {
	return rolePod(w.Name, run, corev1.Container{
		Name: roleLoad,
		Args: []string{"load", "--control", "127.0.0.1:" + strconv.Itoa(w.ControlPort)},
	}, images)
}

// hostCgroups is where the observe role finds its node's cgroups.
const hostCgroups = "/host/cgroup"

// observeSet is the DaemonSet of the observe role. It sees its node's
// processes and cgroups, which is what it is for, and may read other users'
// memory maps (proportional set size), which needs root and one capability.
func observeSet(namespace string, images lab.Images, run string) *appsv1.DaemonSet {
	pod := rolePod(roleObserve, run, corev1.Container{
		Name: roleObserve,
		Args: []string{"observe", "--control", "127.0.0.1:" + strconv.Itoa(observeControlPort), "--cgroup-root", hostCgroups},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "cgroup", MountPath: hostCgroups, ReadOnly: true, MountPropagation: ptr(corev1.MountPropagationHostToContainer)},
		},
	}, images)
	c := &pod.Spec.Containers[0]
	c.SecurityContext.RunAsNonRoot = ptr(false)
	c.SecurityContext.RunAsUser = ptr(int64(0))
	c.SecurityContext.RunAsGroup = ptr(int64(0))
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_PTRACE"}
	pod.Labels["sidecar.istio.io/inject"] = "false"
	pod.Spec.HostPID = true
	pod.Spec.Volumes = []corev1.Volume{{Name: "cgroup", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: ptr(corev1.HostPathDirectory)},
	}}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: roleObserve, Namespace: namespace, Labels: labels(run, roleObserve)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: roleObserve}},
			Template: pod,
		},
	}
}

// url is where the generator sends a cell's requests.
func url(server mesh.Workload, cell record.Cell, load study.Load) string {
	path := ""
	if protocol.Of(cell[study.FactorProtocol]).Methods {
		path = load.Path
	}
	return endpointOf(cell, load).URL(hostOf(server), path)
}

func ptr[T any](v T) *T { return &v }
