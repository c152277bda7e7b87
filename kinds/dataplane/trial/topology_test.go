package trial

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience" // studies name its fields
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/none"
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
	for name, d := range deploymentsOf(t, studytest.Plan(t, everyVariant), sitetest.Istio()) {
		pod := d.Spec.Template
		if len(pod.Spec.Containers) != 1 || *d.Spec.Replicas != 1 || len(pod.Spec.Volumes) != 0 {
			t.Fatalf("%s: %+v", name, d.Spec)
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
		if *s.RunAsUser == 0 || !*s.RunAsNonRoot || pod.Spec.HostPID || len(s.Capabilities.Add) > 0 {
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

// TestCalloutTopology: proxies that ask have a sink, the waypoint's Service knows what it asks, and a
// module reaches only the sidecar of its cell.
func TestCalloutTopology(t *testing.T) {
	s, err := studytest.Parse(t, `
name: a
question: b
factors: {sidecars: [server, waypoint], filters: [none, ext-authz-grpc, wasm-file-mine]}
wasm: {mine: mine.wasm}
`).WithFiles(func(string) ([]byte, error) { return []byte("\x00asm\x01\x00\x00\x00"), nil })
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
	top := newTopology("ns", plan)
	if top.sink == nil {
		t.Fatal("there is nobody to ask")
	}
	waypoints, modules := 0, 0
	for v, w := range top.servers {
		switch level := v.Level(dataplane.FactorFilters); {
		case w.Proxy == nil && level != "":
			waypoints++
			if w.Levels[dataplane.FactorFilters] != "ext-authz-grpc" || w.Set(dataplane.FactorFilters) != "ext-authz-grpc" {
				t.Errorf("%s has the levels %v", w.Name, w.Levels)
			}
		case len(w.Levels) > 0:
			t.Errorf("%s has levels beside its sidecar's: %v", w.Name, w.Levels)
		}
		for _, x := range w.Extensions {
			modules++
			if x.Part != "wasm-file-mine" || v.Level(dataplane.FactorFilters) != x.Part || len(x.Wasm) != 8 {
				t.Errorf("%s has the extension %+v", w.Name, x)
			}
		}
	}
	if waypoints != 1 || modules != 1 {
		t.Errorf("%d Services whose waypoint asks, %d with a module, expected one each", waypoints, modules)
	}
	if top := newTopology("ns", studytest.Plan(t, "name: a\nquestion: b\nfactors: {filters: [none, lua]}\n")); top.sink != nil {
		t.Error("a study that asks nobody has a sink")
	}
}

const placedStudy = `
name: placed
question: Where?
factors:
  placement: [as-scheduled, same-node, other-node, other-zone]
  sidecars: [none, both]
baseline: {sidecars: none}
`

// Each pod with a place is bound to its node by the node's own label, and no other pod is.
func TestPin(t *testing.T) {
	plan := studytest.Plan(t, placedStudy)
	top := newTopology("ns", plan)
	top.places = dataplane.Places{
		dataplane.PlacementClient: {Name: "a", Host: "host-a"}, dataplane.PlacementSameNode: {Name: "a", Host: "host-a"},
		dataplane.PlacementOtherNode: {Name: "b", Host: "host-b"}, dataplane.PlacementOtherZone: {Name: "c", Host: "host-c"},
	}
	all, err := top.deployments(sitetest.Istio(), sitetest.Images, "run")
	must.OK(t, err)
	pinned := 0
	for _, d := range all {
		want := ""
		switch name := strings.TrimSuffix(d.Name, "-twin"); {
		case strings.HasSuffix(name, "-placed") || strings.HasSuffix(name, "-same-node"):
			want = "host-a"
		case strings.HasSuffix(name, "-other-node"):
			want = "host-b"
		case strings.HasSuffix(name, "-other-zone"):
			want = "host-c"
		}
		got := d.Spec.Template.Spec.NodeSelector
		if got[corev1.LabelHostname] != want || (want == "") != (len(got) == 0) {
			t.Errorf("%s is bound to %v, want %q", d.Name, got, want)
		}
		if want != "" {
			pinned++
		}
		if leaves := len(d.Spec.Template.Spec.Tolerations) > 0; leaves == (want != "") {
			t.Errorf("%s leaves a node that died: %v", d.Name, leaves)
		}
	}
	if pinned != 12 { // clients and three servers, of two kinds, the plain ones twice
		t.Errorf("%d pods have a place", pinned)
	}
	all, err = newTopology("ns", plan).deployments(sitetest.Istio(), sitetest.Images, "run")
	must.OK(t, err)
	for _, d := range all {
		if len(d.Spec.Template.Spec.NodeSelector) > 0 {
			t.Errorf("%s is bound before nodes were chosen", d.Name)
		}
	}
}

// Several generators without a place run on different nodes if possible; those with a place all run
// there.
func TestSpread(t *testing.T) {
	for _, place := range []string{"placement=as-scheduled", "placement=other-node"} {
		top := newTopology("ns", studytest.Plan(t, scatteredStudy, place))
		top.places = dataplane.Places{dataplane.PlacementClient: {Name: "a", Host: "a"}, dataplane.PlacementOtherNode: {Name: "b", Host: "b"}}
		all, err := top.deployments(sitetest.Istio(), sitetest.Images, "run")
		must.OK(t, err)
		several := 0
		for _, d := range all {
			want := *d.Spec.Replicas > 1 && place == "placement=as-scheduled"
			spread := d.Spec.Template.Spec.TopologySpreadConstraints
			if (len(spread) == 1) != want || want && (spread[0].TopologyKey != corev1.LabelHostname || !maps.Equal(spread[0].LabelSelector.MatchLabels, d.Spec.Selector.MatchLabels)) {
				t.Errorf("%s: %d pods of %s are spread: %+v", place, *d.Spec.Replicas, d.Name, spread)
			}
			if *d.Spec.Replicas > 1 {
				several++
			}
		}
		if several == 0 {
			t.Errorf("%s: no workload has several pods", place)
		}
	}
}

const scatteredStudy = `
name: scattered
question: Which way?
settings: {connections: 6}
factors: {sidecars: [none, ambient], generators: [1, 3]}
baseline: {sidecars: none}
`

// Several generators are rejected on several nodes if node proxies carry requests, with the
// position in the study, unless all of them are on one node.
func TestRefuseSpread(t *testing.T) {
	err := refuseSpread(studytest.Plan(t, scatteredStudy), 3)
	if err == nil || !strings.Contains(err.Error(), "3 generators may be scheduled both on the worker's node and on others") || !strings.Contains(err.Error(), "test.yaml:5") {
		t.Errorf("three nodes: %v", err)
	}
	if err := refuseSpread(studytest.Plan(t, scatteredStudy), 1); err != nil {
		t.Errorf("one node: %v", err)
	}
	for _, set := range []string{"placement=other-node", "placement=same-node", "sidecars=[none,both]", "generators=1"} {
		if err := refuseSpread(studytest.Plan(t, scatteredStudy, set), 3); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// filtersPlan returns a study's plan with a user-defined EnvoyFilter.
func filtersPlan(t *testing.T) *study.Plan {
	t.Helper()
	return studytest.Plan(t, `
name: a
question: b
factors: {filters: [none, tracing, envoyfilter-mine+jwt-token]}
envoy_filters: {mine: {inline: '{"configPatches": [{"applyTo": "CLUSTER"}]}'}}
`)
}

// TestRefusedExtension: cells whose EnvoyFilter is not active have invalid trials that say why;
// others are measured.
func TestRefusedExtension(t *testing.T) {
	plan := filtersPlan(t)
	d := &deployed{topology: newTopology("ns", plan), workers: map[dataplane.Variant]*workerRole{}}
	for v, w := range d.servers {
		d.workers[v] = &workerRole{Workload: w}
		if len(w.Extensions) > 0 {
			d.workers[v].extended = map[string]mesh.Extended{"mine": {Problem: "no such filter"}}
		}
	}
	for _, cell := range plan.Cells {
		refused := d.refused(runner.Job{Cell: cell})
		if !dataplane.HasPart(cell[dataplane.FactorFilters], dataplane.PartEnvoyFilter) {
			if refused != nil {
				t.Errorf("cell %s is refused: %+v", cell.Key(), refused)
			}
			continue
		}
		want := record.Check{Name: "server-envoyfilter-mine", Detail: "no such filter"}
		if len(refused) != 1 || refused[0] != want {
			t.Errorf("cell %s: %+v, expected %+v", cell.Key(), refused, want)
		}
	}
	if said := d.unextended(); len(said) != 1 || !strings.Contains(said[0], "envoyfilter-mine is not active") || !strings.Contains(said[0], "no such filter") {
		t.Errorf("the run says %q", said)
	}
	for _, w := range d.workers {
		for name := range w.extended {
			w.extended[name] = mesh.Extended{}
		}
	}
	if said := d.unextended(); len(said) != 0 {
		t.Errorf("the run says %q of what is in force", said)
	}
}

// TestSink: a workload without a sidecar receives the spans.
func TestSink(t *testing.T) {
	top := newTopology("ns", filtersPlan(t))
	if top.sink == nil || top.sink.Proxy != nil {
		t.Fatalf("the sink is %+v", top.sink)
	}
	if all := slices.DeleteFunc(top.workloads(), func(w mesh.Workload) bool { return w.Name != mesh.SinkName }); len(all) != 1 {
		t.Errorf("%d sinks", len(all))
	}
}

// TestHeadersOfParts: the token goes with all requests, and only if a cell has it.
func TestHeadersOfParts(t *testing.T) {
	for name, tt := range map[string]struct {
		mesh mesh.Mesh
		want int
	}{"istio": {&istio.Mesh{}, 1}, "none": {none.Mesh{}, 0}} {
		d := &deployed{o: &runner.Options{Mesh: tt.mesh}, topology: newTopology("ns", filtersPlan(t))}
		if err := d.setHeaders(); err != nil || len(d.headers) != tt.want {
			t.Errorf("%s: headers %v (%v)", name, d.headers, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	kind := schema.GroupKind{Group: "networking.istio.io", Kind: "EnvoyFilter"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewInvalid(kind, "a", nil), true},
		{apierrors.NewBadRequest("unknown field"), true},
		{errors.New(`admission webhook "validation.istio.io" denied the request`), true},
		{apierrors.NewServiceUnavailable("later"), false},
		{errors.New("connection refused"), false},
	} {
		if got := refusal(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
