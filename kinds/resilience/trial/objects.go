package trial

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Names in a resilience trial.
const (
	// roleClients is the Deployment of the load pods, and their name in the ledger and in steps.
	roleClients = fault.LoadService
	// trialMark labels what a trial creates and removes.
	trialMark = "meshtrial.dev/trial"
	// A worker's behaviour is an argument, so there is nothing to create, watch and mount. More
	// than maxArgument bytes would burden each update of its pods' status, which contains the
	// argument; a longer behaviour is in a ConfigMap, under configKey, mounted at configDir.
	maxArgument = 8 << 10
	configKey   = "worker.json"
	configDir   = "/etc/meshtrial"
	// drainDelay is the time for which a draining worker keeps serving: until every proxy knows
	// that it is no longer an endpoint.
	drainDelay = 2 * time.Second
	// graceSeconds is the termination grace period of a pod.
	graceSeconds = 30
)

// scene is everything that a resilience trial needs in the cluster, as values.
type scene struct {
	run, trial, namespace string
	study                 *study.Study
	scenario              *resilience.Scenario
	cell                  record.Cell
	levels                resilience.Levels
	mesh                  mesh.Mesh
	images                lab.Images
	seed                  uint64
	zones                 []string // of nodes that take pods, if the cell weighs them
}

// portsOf returns the ports of a service: the port of its protocol and, for the first service with a
// worker, the clients' too. A gateway has only the latter.
func (s *scene) portsOf(one graph.Service) []protocol.Endpoint {
	asked := protocol.Of(s.levels.Protocol).Plain
	if one.Gateway {
		return []protocol.Endpoint{asked}
	}
	ports := []protocol.Endpoint{protocol.Of(one.Protocol).Plain}
	if one.Name == s.first() && asked != ports[0] {
		ports = append(ports, asked)
	}
	return ports
}

// first returns the first service with a worker that clients' requests reach.
func (s *scene) first() string {
	if gateway, ok := s.scenario.Graph.Gateway(); ok {
		return gateway.Calls[0].To
	}
	return s.scenario.Entry
}

// forwarded returns the route on which a gateway sends requests on.
func (s *scene) forwarded(gateway graph.Service) mesh.Route {
	return mesh.Route{Name: s.first(), Namespace: s.namespace, Port: protocol.Of(s.levels.Protocol).Plain.Port, Via: gateway.Name}
}

// routes returns the ports of services.
func (s *scene) routes(services ...graph.Service) []mesh.Route {
	var out []mesh.Route
	for _, one := range services {
		for _, p := range s.portsOf(one) {
			out = append(out, mesh.Route{Name: one.Name, Namespace: s.namespace, Port: p.Port})
		}
	}
	return out
}

// meshed reports whether the cell's pods can have sidecars.
func (s *scene) meshed() bool { return s.levels.Mesh != study.MeshNone && !s.ambient() }

// able returns the scene's mesh if its pods can have sidecars and it implements T, such as
// [mesh.RequestLogger].
func able[T any](s *scene) (m T, ok bool) {
	if s.meshed() {
		m, ok = s.mesh.(T)
	}
	return m, ok
}

// workload returns a service's workload, or the clients' for nil.
func (s *scene) workload(one *graph.Service) mesh.Workload {
	w := mesh.Workload{Name: roleClients, Namespace: s.namespace, ControlPort: site.LoadControlPort}
	_, gated := s.scenario.Graph.Gateway()
	in := !gated // in the mesh: clients of a gateway are outside
	if one != nil {
		w.Name, w.ControlPort, in, w.Gateway = one.Name, site.WorkerControlPort, one.Sidecar, one.Gateway
	}
	switch {
	case in && s.ambient():
		w.Carrier = s.cell[study.FactorSidecars]
	case in && s.meshed():
		w.Proxy = &mesh.Proxy{Levels: record.Cell{study.FactorMTLS: s.levels.MTLS, study.FactorTelemetry: s.telemetry(), study.FactorConcurrency: "1", study.FactorCPULimit: study.CPULimitNone}}
		w.Proxy.Abrupt = w.Gateway && !s.levels.Drain // workers' pods end after their workers
		if one != nil && shortLived(s.scenario)[one.Name] {
			w.Proxy.CertificateTTL = certificateTTL
		}
		if one != nil && one.Name == s.scenario.Entry {
			w.Proxy.Levels[study.FactorCallout] = s.cell[study.FactorCallout]
		}
	}
	return w
}

// telemetry returns what sidecars log about requests.
func (s *scene) telemetry() string {
	if s.keepsLedger() {
		return mesh.TelemetryLedger
	}
	return study.TelemetryOff
}

// workloads returns the workloads of the services and the clients.
func (s *scene) workloads() []mesh.Workload {
	out := make([]mesh.Workload, 0, len(s.scenario.Graph.Services)+1)
	for i := range s.scenario.Graph.Services {
		out = append(out, s.workload(&s.scenario.Graph.Services[i]))
	}
	return append(out, s.workload(nil))
}

func (s *scene) labels(name string) map[string]string {
	out := site.Labels(s.run, name)
	out[trialMark] = s.trial
	return out
}

func (s *scene) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: s.labels(name)}
}

// services returns the Services.
func (s *scene) services() []*corev1.Service {
	var out []*corev1.Service
	for _, one := range s.scenario.Graph.Services {
		service := &corev1.Service{ObjectMeta: s.meta(one.Name), Spec: corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: one.Name}}}
		for _, p := range s.portsOf(one) {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: p.PortName, Port: int32(p.Port)})
		}
		s.mesh.DecorateService(service, s.cell)
		out = append(out, service)
	}
	return out
}

// configs returns ConfigMaps with the behaviours that are too large for an argument.
func (s *scene) configs() ([]*corev1.ConfigMap, error) {
	var out []*corev1.ConfigMap
	for i := range s.scenario.Graph.Services {
		one := &s.scenario.Graph.Services[i]
		if one.Gateway {
			continue
		}
		text, err := s.behaviourText(one)
		if err != nil {
			return nil, err
		}
		if len(text) > maxArgument {
			out = append(out, &corev1.ConfigMap{ObjectMeta: s.meta(one.Name), Data: map[string]string{configKey: text}})
		}
	}
	return out, nil
}

// behaviourText encodes a behaviour for a worker, without "$": Kubernetes expands variable
// references in arguments.
func (s *scene) behaviourText(one *graph.Service) (string, error) {
	config, err := s.behaviour(*one)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("service %s: %w", one.Name, err)
	}
	return strings.ReplaceAll(string(text), "$", `\u0024`), nil
}

// behaviour returns the behaviour of a service's workers.
func (s *scene) behaviour(one graph.Service) (control.Config, error) {
	c := control.Config{
		Schema: control.Schema, ResponseBytes: one.ResponseBytes, ServiceTime: serviceTime(one.ServiceTime, s.seed),
		Concurrency: one.Concurrency, Queue: one.Queue, BurnUS: record.Microseconds(one.CPU),
		Failures: failuresOf(one.Failures), Parallel: one.Mode == graph.Parallel,
		Drain: control.Drain{Off: !s.levels.Drain},
	}
	if s.levels.Drain {
		c.Drain.DelayMS = float64(drainDelay / time.Millisecond)
	}
	for i, call := range one.Calls {
		to, ok := s.scenario.Graph.Service(call.To)
		if !ok {
			return c, fmt.Errorf("service %s calls %s, which is not in the graph", one.Name, call.To)
		}
		name := call.To
		if slices.ContainsFunc(one.Calls[:i], func(o graph.Call) bool { return o.To == call.To }) {
			name += "." + strconv.Itoa(i) // counted separately
		}
		c.Calls = append(c.Calls, control.Call{
			Name: name, URL: s.url(to.Name, to.Protocol, "/"), Protocol: to.Protocol, Probability: site.Ptr(call.Probability), Times: call.Times,
			TimeoutMS: float64(call.Timeout) / float64(time.Millisecond), Retries: call.Retries, Bytes: call.RequestBytes,
		})
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("service %s: %w", one.Name, err)
	}
	return c, nil
}

// url returns the URL of requests to a service.
func (s *scene) url(service, speaks, path string) string {
	return fmt.Sprintf("http://%s.%s.svc.cluster.local:%d%s", service, s.namespace, protocol.Of(speaks).Plain.Port, path)
}

func serviceTime(t graph.ServiceTime, seed uint64) control.ServiceTime {
	out := control.ServiceTime{Distribution: t.Distribution, MeanUS: record.Microseconds(t.Mean), Sigma: t.Sigma, Seed: seed}
	switch {
	case t.Distribution == graph.Recorded:
		out.MeanUS = 0
		for _, v := range t.Values {
			out.SamplesUS = append(out.SamplesUS, record.Microseconds(v))
		}
	case t.Mean == 0:
		out = control.ServiceTime{Distribution: control.None}
	case t.Distribution == "":
		out.Distribution = control.Fixed
	}
	return out
}

func failuresOf(in []graph.Failure) []control.Failure {
	var out []control.Failure
	for _, f := range in {
		f.How = cmp.Or(f.How, graph.FailStatus)
		if f.How == graph.FailStatus {
			f.Status = cmp.Or(f.Status, 503)
		}
		out = append(out, control.Failure{Share: f.Share, How: f.How, Status: f.Status})
	}
	return out
}

// deployments returns the Deployments of the services and the clients.
func (s *scene) deployments() ([]*appsv1.Deployment, error) {
	var out []*appsv1.Deployment
	add := func(w mesh.Workload, pod corev1.PodTemplateSpec, replicas int) error {
		if err := s.decorate(w, &pod); err != nil {
			return err
		}
		pod.Labels[trialMark] = s.trial
		if w.Name != roleClients {
			s.spread(w, &pod)
		}
		out = append(out, &appsv1.Deployment{ObjectMeta: s.meta(w.Name), Spec: appsv1.DeploymentSpec{
			Replicas: site.Ptr(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: w.Name}},
			Template: pod,
		}})
		return nil
	}
	for i := range s.scenario.Graph.Services {
		one := &s.scenario.Graph.Services[i]
		pod, err := s.workerPod(one)
		if err != nil {
			return nil, err
		}
		if err := add(s.workload(one), pod, one.Replicas); err != nil {
			return nil, err
		}
	}
	clients := s.workload(nil)
	if err := add(clients, site.LoadPod(clients, s.images, s.run), s.scenario.Clients); err != nil {
		return nil, err
	}
	return out, nil
}

// decorate asks the mesh for a pod's sidecar, or for a gateway.
func (s *scene) decorate(w mesh.Workload, pod *corev1.PodTemplateSpec) error {
	if !w.Gateway {
		return s.mesh.Decorate(w, pod)
	}
	gated, ok := s.mesh.(mesh.Gated)
	if !ok {
		return errs.Usage("mesh %s has no ingress gateway for %s", s.mesh.Name(), w.Name)
	}
	return gated.DecorateGateway(w, pod)
}

// workerPod returns the pod template of a service. The mesh fills in that of a gateway.
func (s *scene) workerPod(one *graph.Service) (corev1.PodTemplateSpec, error) {
	if one.Gateway {
		pod := site.RolePod(one.Name, s.run, corev1.Container{}, s.images)
		pod.Spec.Containers, pod.Spec.TerminationGracePeriodSeconds = nil, site.Ptr(int64(graceSeconds))
		return pod, nil
	}
	config, err := s.behaviourText(one)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	var mounts []corev1.VolumeMount
	var volumes []corev1.Volume
	if len(config) > maxArgument {
		config = configDir + "/" + configKey
		mounts = []corev1.VolumeMount{{Name: "config", MountPath: configDir, ReadOnly: true}}
		volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: one.Name}}}}}
	}
	c := corev1.Container{
		Name:         site.RoleWorker,
		Args:         []string{"worker", "--control", "127.0.0.1:" + strconv.Itoa(site.WorkerControlPort), "--config", config},
		VolumeMounts: mounts,
	}
	s.probe(&c)
	if s.keepsLedger() {
		c.Args = append(c.Args, "--log-requests")
	}
	for _, p := range s.portsOf(*one) {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.PortName, ContainerPort: int32(p.Port)})
	}
	pod := site.RolePod(one.Name, s.run, c, s.images)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{ // small enough for a hundred pods on a small node
		corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	pod.Spec.TerminationGracePeriodSeconds = site.Ptr(int64(graceSeconds))
	pod.Spec.Volumes = volumes
	return pod, nil
}

// probe sets a worker's readiness probe. In studies with steps it runs every second, since the time
// at which an endpoint becomes ready is part of what is measured, also in cells that skip steps.
// Elsewhere it runs at Kubernetes' default interval, since a sidecar pays for each probe, but every
// second until the worker has started, to shorten the wait.
func (s *scene) probe(c *corev1.Container) {
	ask := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt(control.HealthPort)}},
			PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 2}
	}
	if len(s.scenario.Timeline.Steps) > 0 {
		c.ReadinessProbe = ask("/readyz", 1, 1)
		return
	}
	c.StartupProbe, c.ReadinessProbe = ask("/healthz", 1, 60), ask("/readyz", 10, 3)
}
