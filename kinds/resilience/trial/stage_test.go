package trial

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const twoServices = `
name: two-services
question: Does it hold?
mesh: istio
graph:
  services:
    front: {replicas: 2, calls: [{to: bar, timeout: 1s, retries: 2, probability: 50%}, {to: bar, times: 3}], mode: parallel}
    bar: {replicas: 3, protocol: grpc, sidecar: false, service_time: {mean: 5ms}, response: 1KiB, concurrency: 4, queue: 8, failures: [{share: 10%, status: 503}]}
load: {to: front, clients: 2, timeout: 3s, path: /x}
settings: {rate: 100, connections: 3, protocol: http2}
timeline:
  duration: 20s
  steps:
  - {name: sale, at: 10s, for: 2s, load: {rate: 300, announced: 4s, service: bar, replicas: 5}}
  - {name: rotate, at: 1s, certificates: {service: front, do: rotate}}
variants: {drain: {}, no-drain: {drain: false}, bare: {mesh: none}}
blocks: {min: 1, max: 1}
stop: none
assert: [total.failed == 0]
`

// sceneIn returns the scene of a plan's cell.
func sceneIn(t *testing.T, plan *study.Plan, cell record.Cell, m mesh.Mesh) *scene {
	t.Helper()
	s, err := newScene(plan.Study, cell, m, sitetest.Images, "run", "b000-t00", 7)
	must.OK(t, err)
	return s
}

func sceneOf(t *testing.T, variant string) *scene {
	t.Helper()
	plan := studytest.Plan(t, twoServices)
	for _, cell := range plan.Cells {
		if cell[study.FactorVariant] != variant {
			continue
		}
		return sceneIn(t, plan, cell, sitetest.Istio())
	}
	t.Fatalf("no variant %s", variant)
	return nil
}

// Workers receive what a graph says about their service.
func TestSceneBehaviour(t *testing.T) {
	for variant, drain := range map[string]string{"drain": `{"delay_ms":2000}`, "no-drain": `{"off":true}`} {
		s := sceneOf(t, variant)
		for _, one := range s.scenario.Graph.Services {
			got, err := s.behaviour(one)
			must.OK(t, err)
			text, err := json.Marshal(got)
			must.OK(t, err)
			want := map[string]string{
				"front": `"service_time":{"distribution":"none"},"calls":[{"name":"bar","url":"http://bar.meshtrial-run.svc.cluster.local:8082/","protocol":"grpc","probability":0.5,"times":1,"timeout_ms":1000,"retries":2},` +
					`{"name":"bar.1","url":"http://bar.meshtrial-run.svc.cluster.local:8082/","protocol":"grpc","probability":1,"times":3}],"parallel":true`,
				"bar": `"service_time":{"distribution":"fixed","mean_us":5000,"seed":7},"concurrency":4,"queue":8,"failures":[{"share":0.1,"how":"status","status":503}]`,
			}[one.Name]
			if !strings.Contains(string(text), want+`,"drain":`+drain) || got.ResponseBytes != one.ResponseBytes {
				t.Errorf("%s, %s:\n got %s\nwant %s", variant, one.Name, text, want)
			}
		}
	}
}

// A behaviour is a worker argument, with nothing that Kubernetes would expand. One that is too long
// is in a ConfigMap.
func TestSceneBehaviourIsPassedOn(t *testing.T) {
	for values, inFile := range map[int]bool{10: false, 20_000: true} {
		s := sceneOf(t, "drain")
		s.namespace = "$(HOME)"
		one := &s.scenario.Graph.Services[0]
		one.ServiceTime = graph.ServiceTime{Distribution: graph.Recorded}
		for i := range values {
			one.ServiceTime.Values = append(one.ServiceTime.Values, time.Duration(i+1)*time.Microsecond)
		}
		want, err := s.behaviour(*one)
		must.OK(t, err)
		pod, err := s.workerPod(one)
		must.OK(t, err)
		configs, err := s.configs()
		must.OK(t, err)
		c := pod.Spec.Containers[0]
		text := c.Args[slices.Index(c.Args, "--config")+1]
		if strings.Contains(text, "$") {
			t.Errorf("%d values: %.100q would be expanded", values, text)
		}
		switch {
		case inFile && (len(configs) != 1 || len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].ConfigMap.Name != configs[0].Name ||
			c.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name || text != c.VolumeMounts[0].MountPath+"/"+configKey):
			t.Errorf("%d values: %d ConfigMaps, volumes %+v, mounts %+v, %.100q", values, len(configs), pod.Spec.Volumes, c.VolumeMounts, text)
			continue
		case inFile:
			text = configs[0].Data[configKey]
		case len(configs) > 0 || len(pod.Spec.Volumes) > 0 || len(c.VolumeMounts) > 0:
			t.Errorf("%d values: %d ConfigMaps, volumes %+v", values, len(configs), pod.Spec.Volumes)
		}
		got, err := control.ParseConfig([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d values: %v\n got %.300v\nwant %.300v", values, err, got, want)
		}
	}
}

// The objects of a graph fit together: Services find their pods and name protocols, pods get their
// behaviour and a sidecar if they should have one, and everything can be found again for removal.
func TestSceneObjects(t *testing.T) {
	s := sceneOf(t, "drain")
	deployments, err := s.deployments()
	must.OK(t, err)
	replicas := map[string]int32{}
	for _, d := range deployments {
		replicas[d.Name] = *d.Spec.Replicas
		pod := d.Spec.Template
		for _, labels := range []map[string]string{d.Labels, pod.Labels} {
			if labels[trialMark] != "b000-t00" || labels[site.RunLabel] != "run" || labels[mesh.AppLabel] != d.Name {
				t.Errorf("%s: labels %v", d.Name, labels)
			}
		}
		if got := pod.Labels["sidecar.istio.io/inject"]; got != map[string]string{"front": "true", "bar": "false", roleClients: "true"}[d.Name] {
			t.Errorf("%s: injected %s", d.Name, got)
		}
		if d.Name == roleClients {
			continue
		}
		args := pod.Spec.Containers[0].Args
		if config, err := control.ParseConfig([]byte(args[slices.Index(args, "--config")+1])); err != nil || config.Schema != control.Schema {
			t.Errorf("%s: its behaviour is %+v, %v", d.Name, config, err)
		}
		if probe := pod.Spec.Containers[0].ReadinessProbe; probe == nil || probe.HTTPGet.Port.IntValue() != control.HealthPort {
			t.Errorf("%s: probe %v", d.Name, probe)
		}
		if grace := *pod.Spec.TerminationGracePeriodSeconds; time.Duration(grace)*time.Second <= drainDelay {
			t.Errorf("%s: it has %d s to end", d.Name, grace)
		}
	}
	if len(replicas) != 3 || replicas["front"] != 2 || replicas["bar"] != 3 || replicas[roleClients] != 2 {
		t.Errorf("replicas %v", replicas)
	}
	ports := map[string]string{}
	for _, service := range s.services() {
		for _, p := range service.Spec.Ports {
			ports[service.Name] += p.Name + " "
			if bad := validation.IsValidPortName(p.Name); bad != nil {
				t.Errorf("port %s: %v", p.Name, bad)
			}
		}
		if !selects(deployments, service.Spec.Selector) {
			t.Errorf("Service %s finds no pod", service.Name)
		}
	}
	if ports["front"] != "http-echo http2-echo " || ports["bar"] != "grpc-echo " {
		t.Errorf("ports %v", ports)
	}
	if w := s.workload(&s.scenario.Graph.Services[0]); w.Proxy.CertificateTTL != certificateTTL {
		t.Errorf("certificates of %s live %v", w.Name, w.Proxy.CertificateTTL)
	}
	if w := sceneOf(t, "bare").workload(&s.scenario.Graph.Services[0]); w.Proxy != nil {
		t.Error("a pod has a sidecar where there is no mesh")
	}
}

// A study whose steps may make endpoints unready probes them each second, in all its cells. Others
// use Kubernetes' interval once the pods have started.
func TestProbes(t *testing.T) {
	for name, c := range map[string]struct {
		text           string
		ready, startup int32 // seconds; 0: none
	}{
		"steps":         {twoServices, 1, 0},
		"skipped steps": {strings.Replace(twoServices, "variants: {drain: {}", "variants: {drain: {skip: 'sale,rotate'}", 1), 1, 0},
		"no steps":      {ambientServices, 10, 1},
	} {
		plan := studytest.Plan(t, c.text)
		s := sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
		pod, err := s.workerPod(&s.scenario.Graph.Services[0])
		must.OK(t, err)
		one := pod.Spec.Containers[0]
		if p := one.ReadinessProbe; p == nil || p.PeriodSeconds != c.ready || p.HTTPGet.Path != "/readyz" || p.HTTPGet.Port.IntValue() != control.HealthPort {
			t.Errorf("%s: whether it is ready is asked by %+v", name, p)
		}
		if p := one.StartupProbe; (p != nil) != (c.startup > 0) || p != nil && (p.PeriodSeconds != c.startup || p.HTTPGet.Path != "/healthz") {
			t.Errorf("%s: whether it has begun is asked by %+v", name, p)
		}
	}
}

func selects(all []*appsv1.Deployment, selector map[string]string) bool {
	for _, d := range all {
		hit := true
		for k, v := range selector {
			hit = hit && d.Spec.Template.Labels[k] == v
		}
		if hit {
			return true
		}
	}
	return false
}

// All clients together give the rate, and no ID belongs to another trial.
func TestSceneLoad(t *testing.T) {
	s := sceneOf(t, "drain")
	seen := map[string]bool{}
	for i := range s.scenario.Clients {
		spec, err := s.loadSpec(i)
		must.OK(t, err)
		if spec.URL != "http://front.meshtrial-run.svc.cluster.local:8081/x" || spec.Protocol != protocol.HTTP2 || spec.Rate != 100 || *spec.Share != (load.Share{Index: i, Of: 2}) || spec.DurationS != 20 || !spec.RequestLog {
			t.Errorf("%+v", spec)
		}
		if !strings.HasPrefix(spec.RequestID, s.idPrefix()) || !strings.HasPrefix(spec.RequestID, ledger.IDPrefix) || seen[spec.RequestID] {
			t.Errorf("ids begin with %s", spec.RequestID)
		}
		seen[spec.RequestID] = true
	}
}

// Only runs that name levers of the control plane set them, even at istiod's usual level, and they
// are rejected where nothing can set them.
func TestScenarioSetsControl(t *testing.T) {
	usual := studytest.Plan(t, twoServices)
	slow := studytest.Plan(t, strings.Replace(twoServices, "protocol: http2}", "protocol: http2, debounce_after: 2s}", 1))
	named := studytest.Plan(t, strings.Replace(twoServices, "protocol: http2}", "protocol: http2, debounce_after: 100ms}", 1))
	left := studytest.Plan(t, strings.Replace(twoServices, "protocol: http2}", "protocol: http2, debounce_after: installed}", 1))
	for _, plan := range []*study.Plan{usual, slow, named, left} {
		if err := Kind.Check(plan); err != nil {
			t.Error(err)
		}
		if got := SetsControl(plan); got != (plan == slow || plan == named) {
			t.Errorf("sets the control plane at %s: %v", plan.Cells[0][study.FactorDebounceAfter], got)
		}
	}
	moved := studytest.Plan(t, strings.NewReplacer("mesh: linkerd", "mesh: istio", "retries: 2", "debounce_after: 5s", "remove: {service: bar, replicas: 1}", "move: {to: installed}").Replace(oneService))
	if err := fitControl(&runner.Options{Study: moved.Study}, moved); err == nil || !strings.Contains(err.Error(), "only the first istiod would have it") {
		t.Errorf("beside a move: %v", err)
	}
	if err := fitControl(&runner.Options{Study: usual.Study}, usual); err != nil {
		t.Error(err)
	}
	if err := fitControl(&runner.Options{Study: slow.Study}, slow); err == nil || !strings.Contains(err.Error(), "debounce_after") {
		t.Errorf("%v", err)
	}
}

// Sidecars accept what the cell says.
func TestScenarioMTLS(t *testing.T) {
	plan := studytest.Plan(t, strings.Replace(twoServices, "drain: {}", "drain: {mtls: strict}", 1))
	want := map[string]string{"drain": study.MTLSStrict, "no-drain": study.MTLSPermissive}
	for _, cell := range plan.Cells {
		s := sceneIn(t, plan, cell, sitetest.Istio())
		front, _ := s.scenario.Graph.Service("front")
		level, meshed := want[cell[study.FactorVariant]]
		if w := s.workload(&front); meshed != (w.Proxy != nil) || meshed && w.Proxy.Level(study.FactorMTLS) != level {
			t.Errorf("%s: %+v, want %q", cell[study.FactorVariant], w.Proxy, level)
		}
	}
}

// Before an announced load its service is prepared.
func TestAnnounced(t *testing.T) {
	s := sceneOf(t, "drain")
	line := announced(s.scenario.Timeline, s.scenario.Graph)
	if problems := line.Check(); len(problems) > 0 {
		t.Fatal(problems)
	}
	last := line.Steps[len(line.Steps)-1]
	if len(line.Steps) != 3 || last.Name != "sale-announced" || last.At != 6*time.Second || !reflect.DeepEqual(last.Action, &fault.Add{Replicas: fault.Replicas{Service: "bar", Count: 2}}) {
		t.Errorf("%+v", last)
	}
	if len(s.scenario.Timeline.Steps) != 2 {
		t.Error("the study's own timeline was changed")
	}
}

func podOf(name, service, ip string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{mesh.AppLabel: service}},
		Status:     corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func newTestCensus() *census {
	return &census{pods: map[string]*resident{}, slices: map[string]map[string]bool{}, of: map[string]string{}, since: map[string]int64{}}
}

// An endpoint's times are its own, whether the pod or the endpoint is reported first. An address
// that another pod takes over belongs to that pod from then on.
func TestCensus(t *testing.T) {
	c := newTestCensus()
	at := func(addresses ...string) map[string]bool {
		out := map[string]bool{}
		for _, a := range addresses {
			out[a] = true
		}
		return out
	}
	a, b := podOf("a", "bar", "10.0.0.1", true), podOf("b", "bar", "10.0.0.2", true)
	a.UID, b.UID = "a", "b"
	c.onPod(a, false)
	c.update("bar", "s", at("10.0.0.1", "10.0.0.2"), 100) // b's pod is reported later
	c.onPod(b, false)
	c.update("bar", "s", at("10.0.0.2"), 200) // a goes
	c.update("bar", "s", at("10.0.0.1", "10.0.0.2"), 300)
	c.update("bar", "s", at("10.0.0.2"), 400)
	c.onPod(a, true)
	again := podOf("c", "bar", "10.0.0.1", true)
	again.UID = "c"
	c.onPod(again, false)
	c.update("bar", "s", at("10.0.0.1", "10.0.0.2"), 500)
	pods := c.account()
	if len(pods) != 3 || pods[0].ReadyNS != 100 || pods[0].BackNS != 300 || pods[0].GoneNS != 400 || pods[1].ReadyNS != 100 || pods[1].GoneNS != 0 || pods[2].ReadyNS != 500 {
		t.Errorf("%+v", pods)
	}
	if n := c.readyCount([]string{"bar", "foo"}); n["bar"] != 2 || n["foo"] != 0 {
		t.Errorf("ready %v", n)
	}
	if names := c.living("bar"); len(names) != 2 || names[0].Name != "b" || names[1].Name != "c" {
		t.Errorf("living %v", names)
	}
}

// A moment is the last second that has ended for all clients: rates of what was answered within it,
// and percentiles over all clients' requests together, as in assertions.
func TestMomentOf(t *testing.T) {
	buckets := func(ms ...int64) load.Buckets {
		h := hdrhistogram.NewPacked(1, 60_000_000_000, 3)
		for _, v := range ms {
			must.OK(t, h.RecordValue(v*1e6))
		}
		return load.BucketsOf(h)
	}
	// One client has few, slow requests: the 99th percentile of each of its intervals says nothing
	// about all requests.
	few, many := &client{}, &client{}
	for i := range 25 {
		s := load.Summary{Index: i, Scheduled: 99, Completed: 99, Answered: 90, P99NS: 1e6}
		s.Intended = buckets(slices.Repeat([]int64{1}, 99)...)
		many.seen = append(many.seen, s)
		few.seen = append(few.seen, load.Summary{Index: i, Scheduled: 1, Completed: 1, Answered: 1, P99NS: 80e6, Intended: buckets(80)})
	}
	near := func(got, want float64) bool { return math.Abs(got/want-1) < 1e-3 }
	moment := func(last int, all ...*client) record.Moment {
		m, err := momentOf(all, last)
		must.OK(t, err)
		return m
	}
	m := moment(24, few, many)
	if m.Requests != 1000 || m.Failed != 0 || m.ErrorShare != 0 || m.RateRPS != 910 || m.AtS < 2.39 || m.AtS > 2.41 {
		t.Errorf("%+v", m)
	}
	if !near(m.Latency.At(0.5), 1000) || !near(m.Latency.At(0.9), 1000) || !near(m.Latency.At(0.99), 1000) || !near(m.Latency.At(1), 80000) || m.Answered != m.Latency {
		t.Errorf("%+v", m)
	}
	// A twentieth failed: neither the 99th percentile nor the maximum over all is that of an
	// answered request.
	for i := range few.seen {
		few.seen[i].Scheduled, few.seen[i].Failed = 6, 5
	}
	m = moment(24, few, many)
	if !near(m.Latency.At(0.5), 1000) || !near(m.Latency.At(0.9), 1000) || !math.IsInf(m.Latency.At(0.99), 1) || !math.IsInf(m.Latency.At(1), 1) || !near(m.Answered.At(0.99), 1000) || !near(m.Answered.At(1), 80000) {
		t.Errorf("%+v", m)
	}
	for i := range few.seen {
		few.seen[i] = load.Summary{Index: i, Scheduled: 10, Failed: 10}
	}
	if m := moment(5, few); m.ErrorShare != 1 || m.Requests != 50 || !math.IsInf(m.Latency.At(0.5), 1) || !math.IsInf(m.Answered.At(0.5), 1) {
		t.Errorf("%+v", m)
	}
	if m := moment(0, few); m.Requests != 0 || m.ErrorShare != 0 || m.Latency != (record.Latency{}) {
		t.Errorf("%+v", m)
	}
	few.seen[0] = load.Summary{Scheduled: 2, Completed: 2, Intended: buckets(1)}
	if _, err := momentOf([]*client{few}, 1); err == nil {
		t.Error("a histogram that lacks an answer was taken")
	}
}

// Of a worker's output only the lines of requests with the trial's IDs count.
func TestReadWorker(t *testing.T) {
	text := strings.Join([]string{
		"http     :8080",
		`{"id":"mm-t-0-1","protocol":"http1","start_unix_ns":1100,"end_unix_ns":1200,"status":200}`,
		`{"id":"warm-t-0-1","protocol":"http1","start_unix_ns":1100,"end_unix_ns":1200,"status":200}`,
		`{"id":"mm-t-0-2","protocol":"http1","start_unix_ns":1300,"end_unix_ns":1400,"status":503,"failure":"status"}`,
		`{"id":"mm-t-0-3","protocol":"http1","start_unix_ns":1300,"end_unix_ns":1400,"status":499}`,
	}, "\n")
	var got []ledger.WorkerEntry
	err := readWorker(strings.NewReader(text), ledger.Source{Service: "bar", Pod: "p", Prefix: "mm-t-", ZeroNS: 1000}, func(e ledger.WorkerEntry) { got = append(got, e) })
	want := []ledger.WorkerEntry{
		{ID: "mm-t-0-1", Service: "bar", Pod: "p", StartNS: 100, EndNS: 200, Status: 200, Ended: ledger.EndAnswered},
		{ID: "mm-t-0-2", Service: "bar", Pod: "p", StartNS: 300, EndNS: 400, Status: 503, Ended: "status"},
		{ID: "mm-t-0-3", Service: "bar", Pod: "p", StartNS: 300, EndNS: 400, Status: 499, Ended: ledger.EndGone},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %+v", err, got)
	}
	if err := readWorker(strings.NewReader(`{"id":"mm-t-0-1","status":"x"}`), ledger.Source{Prefix: "mm-t-"}, func(ledger.WorkerEntry) {}); err == nil {
		t.Error("a damaged line is no error")
	}
}

// Order and stamps do not make a different configuration; anything else does.
func TestConfigHash(t *testing.T) {
	const text = `{"configs":[{"name":"a","version_info":"1","route":{"x":1,"y":[1,2]}},{"name":"b","last_updated":"t"}]}`
	hash := func(text string) [32]byte {
		h, err := configHash([]byte(text))
		must.OK(t, err)
		return h
	}
	for _, c := range []struct {
		text string
		same bool
	}{
		{text, true},
		{`{"configs":[{"name":"b","last_updated":"u"},{"route":{"y":[2,1],"x":1},"name":"a","version_info":"2"}]}`, true},
		{`{"configs":[{"name":"b"},{"route":{"y":[2,1],"x":2},"name":"a"}]}`, false},
		{`{"configs":[{"name":"a","route":{"x":1,"y":[1,2]}}]}`, false},
	} {
		if same := hash(c.text) == hash(text); same != c.same {
			t.Errorf("%s: the same: %v", c.text, same)
		}
	}
	if _, err := configHash([]byte("no JSON")); err == nil {
		t.Error("no JSON is taken")
	}
}

func TestRateReached(t *testing.T) {
	for _, c := range []struct {
		rps  float64
		sent int64
		took time.Duration
		want bool
	}{
		{200, 200, time.Second, true}, {200, 150, time.Second, true}, {200, 140, time.Second, false}, {200, 249, time.Second, true}, {200, 260, time.Second, false},
		{5, 0, time.Second, true}, {200, 187, 1280 * time.Millisecond, false}, {200, 500, 2500 * time.Millisecond, true},
	} {
		if text, got := rateReached(c.rps, c.sent, c.took); got != c.want || text == "" {
			t.Errorf("%d in %v for %v/s: %v, %q", c.sent, c.took, c.rps, got, text)
		}
	}
	// Chance alone does not count as a different rate.
	random := rand.New(rand.NewPCG(1, 2))
	for _, rps := range []float64{20, 200, 1000} {
		missed := 0
		for range 20_000 {
			sent := int64(0)
			for at := random.ExpFloat64() / rps; at < 1; at += random.ExpFloat64() / rps {
				sent++
			}
			if _, ok := rateReached(rps, sent, time.Second); !ok {
				missed++
			}
		}
		if missed > 10 {
			t.Errorf("at %g/s %d of 20,000 seconds are taken for another rate", rps, missed)
		}
	}
}

// A sidecar version that a step requests and the lab lacks is rejected before anything starts.
func TestScenarioUpgrades(t *testing.T) {
	upgrade := func(service string) *scene {
		plan := studytest.Plan(t, strings.Replace(twoServices, "certificates: {service: front, do: rotate}", "restart: {service: "+service+", proxy: 9.9.9}", 1))
		return sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
	}
	if err := upgrade("front").fitUpgrades(); err == nil || !strings.Contains(err.Error(), `step "rotate"`) || !strings.Contains(err.Error(), "9.9.9") {
		t.Errorf("%v", err)
	}
	if err := upgrade("bar").fitUpgrades(); err == nil || !strings.Contains(err.Error(), "no sidecar") {
		t.Errorf("%v", err)
	}
	if err := sceneOf(t, "drain").fitUpgrades(); err != nil {
		t.Error(err)
	}
}

// A proxy that a step stops need not answer; all others must.
func TestDisturbs(t *testing.T) {
	step := func(of, service string) fault.Step {
		return fault.Step{Action: &fault.Process{Of: of, Service: service, Do: fault.DoKill}}
	}
	for _, c := range []struct {
		step fault.Step
		want string // the services that it disturbs
	}{
		{step(fault.OfProxy, "front"), "front"}, {step(fault.OfAgent, "bar"), "bar"}, {step(fault.OfProxy, fault.LoadService), roleClients},
		{step(fault.OfWorker, "bar"), ""}, {step(fault.OfControlPlane, ""), ""}, {fault.Step{Action: &fault.Restart{Service: "bar"}}, ""},
	} {
		for _, service := range []string{"front", "bar", roleClients} {
			if got := disturbs(&fault.Timeline{Steps: []fault.Step{c.step}}, service); got != (service == c.want) {
				t.Errorf("%+v disturbs %s: %v", c.step.Action, service, got)
			}
		}
	}
}

// A failed sample is recorded with the time of the last success, and repeated.
func TestLooksThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		fails         func(n int) bool
		missed, since int // how many, and how long before the last of them one succeeded, seconds
	}{
		"never":      {func(int) bool { return false }, 0, 0},
		"some times": {func(n int) bool { return n%3 == 1 }, 7, 1},
		"for long":   {func(n int) bool { return n > 2 }, 18, 18},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 19500*time.Millisecond)
				defer cancel()
				l, n := &looks{}, 0
				l.every(ctx, "counters", time.Now(), time.Second, func(context.Context) error {
					if n++; c.fails(n) {
						return errors.New("nobody answers")
					}
					return nil
				})
				if len(l.missed) != c.missed || n != 20 {
					t.Fatalf("missed %v after %d looks", l.missed, n)
				}
				if c.missed > 0 {
					last := l.missed[c.missed-1]
					since := int(time.Duration(last.AtNS - last.SinceNS).Seconds())
					last.AtNS, last.SinceNS = 0, 0
					if want := (verdict.Missed{Of: "counters", Error: "nobody answers", Every: time.Second}); last != want || since != c.since {
						t.Errorf("%+v, %d s", last, since)
					}
				}
			})
		})
	}
}
