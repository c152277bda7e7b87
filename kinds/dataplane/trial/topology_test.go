package trial

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience" // studies name its fields
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// everyVariant varies everything that makes pods differ.
const everyVariant = `
name: variants
question: Which?
factors:
  sidecars: [none, server, client, both]
  mtls: [permissive, off]
  telemetry: [off, access-log-json+stats]
  concurrency: [1, 2]
  cpu_limit: [none, 500m]
  envoy: [default, 1.39.0]
`

func deploymentsOf(t *testing.T, plan *study.Plan, m mesh.Mesh) map[string]*appsv1.Deployment {
	t.Helper()
	all, err := newTopology("meshtrial-20261121-101500-0abc", plan).deployments(m, sitetest.Images, "20261121-101500-0abc")
	must.OK(t, err)
	out := map[string]*appsv1.Deployment{}
	for _, d := range all {
		if out[d.Name] != nil {
			t.Errorf("Deployment %s is there twice", d.Name)
		}
		out[d.Name] = d
	}
	return out
}

// Each variant of a pod that a cell needs is deployed once, and nothing else is.
func TestEveryVariantOnce(t *testing.T) {
	plan := studytest.Plan(t, everyVariant)
	top := newTopology("ns", plan)
	clients, servers := map[dataplane.Variant]bool{}, map[dataplane.Variant]bool{}
	for _, cell := range plan.Cells {
		clients[dataplane.ClientVariant(cell)], servers[dataplane.ServerVariant(cell)] = true, true
		if plan.IsBaseline(cell) { // its second turn in a block has its own pods
			clients[dataplane.ClientVariant(cell).For(1)], servers[dataplane.ServerVariant(cell).For(1)] = true, true
		}
	}
	if len(top.clients) != len(clients) || len(top.servers) != len(servers) {
		t.Errorf("%d clients and %d servers, the cells need %d and %d", len(top.clients), len(top.servers), len(clients), len(servers))
	}
	for v := range clients {
		if w, ok := top.clients[v]; !ok || (w.Proxy != nil) != v.Sidecar || w.ControlPort != site.LoadControlPort {
			t.Errorf("client %+v: %+v", v, w)
		}
	}
	for v := range servers {
		w, ok := top.servers[v]
		if !ok || (w.Proxy != nil) != v.Sidecar || w.ControlPort != control.ControlPort {
			t.Errorf("server %+v: %+v", v, w)
			continue
		}
		if v.Sidecar {
			if !maps.Equal(w.Proxy.Levels, v.Levels()) || w.Proxy.CertificateTTL != 0 {
				t.Errorf("server %+v has sidecar %+v", v, *w.Proxy)
			}
		}
	}
	if got := deploymentsOf(t, plan, sitetest.Istio()); len(got) != len(clients)+len(servers) {
		t.Errorf("%d Deployments, want %d", len(got), len(clients)+len(servers))
	}
}

// Names and labels are valid for Kubernetes, for the shipped studies too.
func TestNamesAreValid(t *testing.T) {
	plans := map[string]*study.Plan{"every variant": studytest.Plan(t, everyVariant)}
	for _, name := range studies.Names() {
		text, err := studies.Read(name)
		must.OK(t, err)
		if plan := studytest.Plan(t, string(text)); plan.Study.Kind == study.DataPlane {
			plans[name] = plan
		}
	}
	run := runner.NewRunID(time.Now())
	for name, plan := range plans {
		namespace := site.NamespacePrefix + run
		top := newTopology(namespace, plan)
		if bad := validation.IsDNS1123Label(namespace); bad != nil {
			t.Errorf("namespace %s: %v", namespace, bad)
		}
		services := map[string]*corev1.Service{}
		for _, s := range top.services(&istio.Mesh{}, run) {
			services[s.Name] = s
			if bad := validation.IsDNS1035Label(s.Name); bad != nil {
				t.Errorf("%s: Service %s: %v", name, s.Name, bad)
			}
			for _, p := range s.Spec.Ports {
				if bad := validation.IsValidPortName(p.Name); bad != nil {
					t.Errorf("port %s: %v", p.Name, bad)
				}
			}
		}
		images := sitetest.Images
		proxies := map[string]string{}
		for _, cell := range plan.Cells {
			proxies["proxy@"+cell[study.FactorEnvoy]] = "hub/proxyv2:other"
		}
		images.Meshes = map[string]map[string]string{study.MeshIstio: proxies}
		deployments, err := top.deployments(istio.New(images), images, run)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, d := range deployments {
			if bad := validation.IsDNS1123Label(d.Name); bad != nil {
				t.Errorf("%s: Deployment %s: %v", name, d.Name, bad)
			}
			for key, value := range d.Spec.Template.Labels {
				if bad := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); bad != nil {
					t.Errorf("%s: label %s=%s: %v", name, key, value, bad)
				}
			}
			for key, value := range d.Spec.Selector.MatchLabels {
				if d.Spec.Template.Labels[key] != value {
					t.Errorf("%s: Deployment %s does not select its own pods", name, d.Name)
				}
			}
			if s := services[d.Name]; (strings.HasPrefix(d.Name, "server-") || d.Name == mesh.SinkName) != (s != nil) {
				t.Errorf("%s: Deployment %s, Service %v", name, d.Name, s)
			} else if leads := d.Spec.Template.Labels[mesh.AppLabel]; s != nil {
				if d.Name == "server-"+study.SidecarsGateway {
					leads = "gateway" // from where requests go to its pods
				}
				if s.Spec.Selector[mesh.AppLabel] != leads {
					t.Errorf("%s: Service %s does not select the pods of %s", name, s.Name, leads)
				}
			}
		}
	}
	if a, b := runner.NewRunID(time.Now()), runner.NewRunID(time.Now()); a == b {
		t.Errorf("two runs are both called %s", a)
	}
}

// Pods have no more permissions than their role needs.
func TestSecurity(t *testing.T) {
	plan := studytest.Plan(t, everyVariant)
	check := func(name string, pod corev1.PodTemplateSpec, observer bool) {
		t.Helper()
		if len(pod.Spec.Containers) != 1 {
			t.Fatalf("%s has %d containers", name, len(pod.Spec.Containers))
		}
		c := pod.Spec.Containers[0]
		s := c.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Privileged != nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			!reflect.DeepEqual(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: %+v", name, s)
		}
		if *pod.Spec.AutomountServiceAccountToken || pod.Spec.HostNetwork || pod.Spec.HostIPC || *pod.Spec.EnableServiceLinks {
			t.Errorf("%s has credentials, or more of the host than it needs", name)
		}
		if root := *s.RunAsUser == 0; root != observer || *s.RunAsNonRoot == observer || pod.Spec.HostPID != observer || (len(s.Capabilities.Add) > 0) != observer {
			t.Errorf("%s: user %d, the host's processes %v, capabilities %v", name, *s.RunAsUser, pod.Spec.HostPID, s.Capabilities.Add)
		}
		if c.Image != sitetest.Images.Meshtrial || c.ImagePullPolicy != sitetest.Images.PullPolicy {
			t.Errorf("%s: image %s %s", name, c.Image, c.ImagePullPolicy)
		}
		if !strings.Contains(strings.Join(c.Args, " "), "--control 127.0.0.1:") {
			t.Errorf("%s: the control server's address in %q", name, c.Args)
		}
		if c.LivenessProbe != nil || c.ReadinessProbe != nil {
			t.Errorf("%s is probed while it is measured", name)
		}
	}
	for name, d := range deploymentsOf(t, plan, sitetest.Istio()) {
		check(name, d.Spec.Template, false)
		if *d.Spec.Replicas != 1 || len(d.Spec.Template.Spec.Volumes) != 0 {
			t.Errorf("%s: %d replicas, volumes %v", name, *d.Spec.Replicas, d.Spec.Template.Spec.Volumes)
		}
	}
	set := site.ObserveSet("ns", sitetest.Images, "run")
	check("observer", set.Spec.Template, true)
	pod := set.Spec.Template.Spec
	if want := []corev1.Capability{"SYS_PTRACE"}; !slices.Equal(pod.Containers[0].SecurityContext.Capabilities.Add, want) {
		t.Errorf("the observer has capabilities %v", pod.Containers[0].SecurityContext.Capabilities.Add)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].HostPath.Path != "/sys/fs/cgroup" || len(pod.Containers[0].VolumeMounts) != 1 || !pod.Containers[0].VolumeMounts[0].ReadOnly {
		t.Errorf("the observer's volumes: %+v, %+v", pod.Volumes, pod.Containers[0].VolumeMounts)
	}
	if set.Spec.Template.Labels["sidecar.istio.io/inject"] != "false" {
		t.Error("the observer may get a sidecar")
	}
}

// Every protocol has a worker port, with a name that tells a mesh the protocol, and the load goes
// to it.
func TestPorts(t *testing.T) {
	plan := studytest.Plan(t, everyVariant)
	var service *corev1.Service
	for _, s := range newTopology("ns", plan).services(&istio.Mesh{}, "run") {
		service = s
	}
	for _, tt := range []struct {
		protocol string
		tls      bool
		url      string
		port     int
		name     string // the part before the dash
	}{
		{"http1", false, "http://server.ns.svc.cluster.local:8080/path", 8080, "http"},
		{"http2", false, "http://server.ns.svc.cluster.local:8081/path", 8081, "http2"},
		{"grpc", false, "grpc://server.ns.svc.cluster.local:8082", 8082, "grpc"},
		{"tcp", false, "tcp://server.ns.svc.cluster.local:8083", 8083, "tcp"},
		{"http1", true, "https://server.ns.svc.cluster.local:8443/path", 8443, "https"},
		{"http2", true, "https://server.ns.svc.cluster.local:8443/path", 8443, "https"},
		{"grpc", true, "grpcs://server.ns.svc.cluster.local:8445", 8445, "tls"},
		{"tcp", true, "tls://server.ns.svc.cluster.local:8444", 8444, "tls"},
	} {
		t.Run(fmt.Sprintf("%s, TLS %v", tt.protocol, tt.tls), func(t *testing.T) {
			cell := plan.Cells[0].With(record.Cell{study.FactorProtocol: tt.protocol})
			s := *plan.Study
			s.Load.TLS, s.Load.Path = tt.tls, "/path"
			got := url(mesh.Workload{Name: "server", Namespace: "ns"}, nil, cell, s.Load)
			if got != tt.url {
				t.Errorf("url %s, want %s", got, tt.url)
			}
			port := endpointOf(cell, s.Load)
			if prefix, _, _ := strings.Cut(port.PortName, "-"); port.Port != tt.port || prefix != tt.name {
				t.Errorf("port %+v", port)
			}
			if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port.PortName && int(p.Port) == port.Port }) {
				t.Errorf("the Service lacks port %+v: %+v", port, service.Spec.Ports)
			}
			spec, err := loadSpec(&s, cell, got, 5)
			must.OK(t, err)
			if spec.Protocol != tt.protocol || (spec.TLS != nil) != tt.tls {
				t.Errorf("spec %+v", spec)
			}
		})
	}
	ports := map[int32]bool{}
	for _, p := range service.Spec.Ports {
		if ports[p.Port] {
			t.Errorf("port %d is there twice", p.Port)
		}
		ports[p.Port] = true
	}
}

func TestLoadSpec(t *testing.T) {
	s := studytest.Parse(t, studytest.ThreeCells, "load.timeout=3s", "load.method=POST", "load.path=/x", "load.headers={b: 2, a: 1}", "warmup={min: 1s, max: 5s}", "window=2s", "interval=500ms")
	cell := func(other record.Cell) record.Cell {
		return studytest.Plan(t, studytest.ThreeCells).Cells[2].With(other)
	}
	spec, err := loadSpec(s, cell(record.Cell{study.FactorPayload: "2KiB"}), "http://server:8080/x", 42)
	must.OK(t, err)
	want := load.DefaultSpec("http://server:8080/x")
	want.Protocol, want.Method, want.PayloadBytes, want.Connections = "http1", "POST", 2048, 4
	want.Rate, want.Arrival, want.Seed, want.RepeatS = 100, "poisson", 42, 2
	want.IntervalS, want.DurationS, want.TimeoutS = 0.5, 17, 3
	want.Headers = []load.Header{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("got  %+v\nwant %+v", spec, want)
	}
	spec, err = loadSpec(s, cell(record.Cell{study.FactorRate: rate.Word, study.FactorArrival: study.NotApplicable, study.FactorKeepAlive: "false"}), "http://server:8080/x", 1)
	must.OK(t, err)
	if spec.Rate != rate.Max || spec.KeepAlive {
		t.Errorf("rate %v, keep-alive %v", spec.Rate, spec.KeepAlive)
	}
	// Short intervals leave the runner as much time as it may stall for.
	hurried := studytest.Parse(t, studytest.ThreeCells, "warmup={min: 0s, max: 250ms}", "window=500ms", "interval=100ms")
	if spec, err = loadSpec(hurried, cell(record.Cell{}), "http://server:8080/x", 1); err != nil || spec.DurationS != 10.75 {
		t.Errorf("%.2f s with short intervals, %v", spec.DurationS, err)
	}
	// gRPC and TCP have no methods.
	plain := studytest.Parse(t, studytest.ThreeCells)
	for protocol, url := range map[string]string{"grpc": "grpc://server:8082", "tcp": "tcp://server:8083"} {
		if spec, err = loadSpec(plain, cell(record.Cell{study.FactorProtocol: protocol}), url, 1); err != nil || spec.Method != "" {
			t.Errorf("%s: method %q, %v", protocol, spec.Method, err)
		}
	}
}

// What the generator would reject is found before anything starts, even if the study's parser
// accepts it.
func TestCheck(t *testing.T) {
	plan := studytest.Plan(t, studytest.ThreeCells)
	if err := Kind.Check(plan); err != nil {
		t.Error(err)
	}
	plan.Study.Load.Headers = map[string]string{"two words": "x"}
	if err := Kind.Check(plan); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "two words") {
		t.Errorf("%v, exit code %d", err, errs.Code(err))
	}
}

func TestSetWorkload(t *testing.T) {
	kept := control.Config{Version: 3, TCPMessageBytes: 7, ResponseBytes: 1, ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 9}}
	for _, tt := range []struct {
		workload dataplane.Workload
		bytes    int64
		time     control.ServiceTime
	}{
		{dataplane.Workload{Response: study.Echo, ServiceTime: dataplane.ServiceTime{Distribution: "fixed"}}, control.EchoBody, control.ServiceTime{Distribution: control.None}},
		{dataplane.Workload{Response: 0, ServiceTime: dataplane.ServiceTime{Distribution: "fixed", Mean: 1500 * time.Microsecond}}, 0, control.ServiceTime{Distribution: control.Fixed, MeanUS: 1500, Seed: 1}},
		{dataplane.Workload{Response: 1024, ServiceTime: dataplane.ServiceTime{Distribution: "exponential", Mean: time.Millisecond}}, 1024, control.ServiceTime{Distribution: control.Exponential, MeanUS: 1000, Seed: 1}},
		{dataplane.Workload{Response: 5, ServiceTime: dataplane.ServiceTime{Distribution: "lognormal", Mean: time.Millisecond, Sigma: 0.5}}, 5, control.ServiceTime{Distribution: control.Lognormal, MeanUS: 1000, Sigma: 0.5, Seed: 1}},
		{dataplane.Workload{Response: 5, ServiceTime: dataplane.ServiceTime{Distribution: "recorded", Mean: time.Second, Values: []time.Duration{time.Millisecond, 2500 * time.Nanosecond}}}, 5,
			control.ServiceTime{Distribution: control.Recorded, SamplesUS: []float64{1000, 2.5}, Seed: 1}},
	} {
		c := kept
		setWorkload(&c, tt.workload)
		if c.Version != 3 || c.TCPMessageBytes != 7 {
			t.Errorf("%+v: other settings became %+v", tt.workload, c)
		}
		if c.ResponseBytes != tt.bytes || !reflect.DeepEqual(c.ServiceTime, tt.time) {
			t.Errorf("%+v: %d bytes, %+v", tt.workload, c.ResponseBytes, c.ServiceTime)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: the worker would refuse it: %v", tt.workload, err)
		}
	}
}

func TestCPULimit(t *testing.T) {
	limited := func(name, limit string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{limited("native-sidecar", "2000m")},
		Containers:     []corev1.Container{limited("app", "1"), {Name: "istio-proxy"}, limited("limited", "0.5")},
	}}
	for container, want := range map[string]string{"istio-proxy": "none", "limited": "500m", "native-sidecar": "2", "absent": "none"} {
		if got := site.CPULimit(pod, container); got != want {
			t.Errorf("%s: %s, want %s", container, got, want)
		}
	}
}

// Every node with a workload needs a ready observer; other nodes do not.
func TestUnobserved(t *testing.T) {
	pod := func(app, node string, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{mesh.AppLabel: app}}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	pods := []corev1.Pod{
		pod("client-plain", "a", "True"), pod("server-plain", "b", "True"), pod("server-sidecar", "b", "True"), pod("client-sidecar", "d", "True"),
		pod(site.RoleObserve, "a", "True"), pod(site.RoleObserve, "b", "False"), pod(site.RoleObserve, "c", "False"),
	}
	lost := pod("server-plain", "e", "False") // with its node, which is unreachable
	lost.DeletionTimestamp, lost.Status.Phase, lost.Status.ContainerStatuses = &metav1.Time{}, corev1.PodRunning, []corev1.ContainerStatus{{Ready: true}}
	pods = append(pods, lost)
	if got := site.Unobserved(pods); !slices.Equal(got, []string{"b", "d"}) {
		t.Errorf("nodes without an observer: %v", got)
	}
}
