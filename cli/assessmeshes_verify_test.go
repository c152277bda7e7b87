//go:build verify

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// assessedMesh is a mesh that a study makes, with something planted in it.
type assessedMesh struct {
	name      string
	study     string
	manifests string // of what is in the mesh besides
	// ready returns nil once the mesh is as planted.
	ready func(w *world) error
	// advice lists the rules that hold there, or may on a busy machine. No other rule may.
	advice []string
	// whole lets the study run to its end, as its figures are compared. Nothing changes in its mesh.
	whole bool
}

// world is a mesh while it is assessed.
type world struct {
	guests
	t          *testing.T
	mesh       assessedMesh
	kubeconfig string // of a user who may assess and nothing else
	dir        string // of files
	// cores and bytes are what the sidecars use by their cgroups.
	cores, bytes float64
	// dumped is the mean size of the sidecars' config dumps, in bytes.
	dumped float64
}

// plant is something in a mesh that an assessment must report.
type plant struct {
	mesh, what string
	// seen returns nil if the assessment reports it.
	seen func(w *world, a assess.Assessment) error
	// unknown reports whether the assessment says that it does not know. It is nil for what
	// files tell.
	unknown func(a assess.Assessment) bool
}

const (
	fromFiles  = 15   // at least this many of the plants are known from files alone
	tolerance  = 0.1  // of figures
	istiodMost = 0.01 // cores that an assessment takes from istiod
	memoryMost = 300  // MB that an assessment may hold
)

// planted lists what is planted, as the studies and manifests below have it.
var planted = []plant{
	{"shop", "five sidecars and one istiod", counts(map[assess.Kind]int{assess.Sidecar: 5, assess.Istiod: 1}), nil},
	{"shop", "sidecars that request 5 x 10 millicores and have no CPU limit", shopRequests, nil},
	{"shop", "60 requests per second from front to cart, and 120 to catalogue", shopCalls, gaps(assess.NoCounters)},
	{"shop", "CPU and memory of the sidecars", func(w *world, a assess.Assessment) error {
		used := use(a, assess.Sidecar).Used
		return errors.Join(near("cores of sidecars", used.Cores, w.cores), near("bytes of sidecars", used.Bytes, w.bytes))
	}, gaps(assess.UnknownUse)},
	{"shop", "five sidecars are connected to istiod", quantity(advice.QuantityProxies, 5), nil},

	{"unscoped", "1,000 Services beside those of the lab and the run", func(_ *world, a assess.Assessment) error {
		if n := a.Mesh.Objects["Service"]; n < 1000 || n > 1010 {
			return fmt.Errorf("%d Services", n)
		}
		return nil
	}, nil},
	{"unscoped", "302 sidecars are connected to istiod, 300 of which are in no pod with a proxy", func(w *world, a assess.Assessment) error {
		if !assess.Elsewhere.In(a.Unknown) {
			return errors.New("nothing is said of the simulated sidecars")
		}
		return errors.Join(quantity(advice.QuantityProxies, 302)(w, a), counts(map[assess.Kind]int{assess.Sidecar: 2, assess.Istiod: 1})(w, a))
	}, nil},
	{"unscoped", "the bytes that a sidecar holds", func(w *world, a assess.Assessment) error {
		if a.Configuration == nil || len(a.Configuration.Held.Proxies) == 0 {
			return errors.New("no configuration")
		}
		return near("bytes held", float64(a.Configuration.Held.DumpBytes)/float64(len(a.Configuration.Held.Proxies)), w.dumped)
	}, nil},
	{"unscoped", "no Sidecar scopes what proxies hold", holds("no_scope"), undecided("no_scope")},

	{"ambient", "one ztunnel on the only node", counts(map[assess.Kind]int{assess.Ztunnel: 1, assess.Waypoint: 2, assess.Gateway: 1, assess.Istiod: 1}), nil},
	{"ambient", "two waypoints", counted(assess.Waypoint, 2), nil},
	{"ambient", "a gateway", counted(assess.Gateway, 1), nil},
	{"ambient", "three pods whose requests ztunnel carries and nobody counts", func(_ *world, a assess.Assessment) error {
		if a.Mesh.Enrolled != 3 || !assess.NoAmbient.In(a.Unknown) {
			return fmt.Errorf("%d enrolled pods, unknown: %v", a.Mesh.Enrolled, a.Unknown)
		}
		return nil
	}, nil},

	{"throttled", "istiod's CPU limit of 200 millicores", func(_ *world, a assess.Assessment) error {
		return near("istiod's CPU limit", group(a, assess.Istiod).Limits.Cores, 0.2)
	}, nil},
	{"throttled", "the CPU limit holds istiod back", holds("cpu_limit"), undecided("cpu_limit")},
	{"throttled", "400 listeners for the endpoints of a headless Service", func(w *world, a assess.Assessment) error {
		return errors.Join(holds("headless")(w, a), quantity(quantityHeadless, 400)(w, a))
	}, nil},
	{"throttled", "the headless Service owns more of what a sidecar holds than any other object", func(_ *world, a assess.Assessment) error {
		if a.Configuration == nil || len(a.Configuration.Held.Owners) == 0 {
			return errors.New("no configuration")
		}
		if o := a.Configuration.Held.Owners[0]; o.Owner.String() != "Service planted/headless" || o.Share < 0.3 {
			return fmt.Errorf("%s owns %.0f%%", o.Owner, 100*o.Share)
		}
		return nil
	}, nil},

	{"revisions", "two istiods, of the revisions canary and default", revisions(assess.Istiod, map[string]int{"canary": 1, "default": 1}), nil},
	{"revisions", "three sidecars of canary, two of default", revisions(assess.Sidecar, map[string]int{"canary": 3, "default": 2}), nil},
	{"revisions", "40 requests per second from clients to bar", func(_ *world, a assess.Assessment) error {
		return near("requests per second", calls(a, "clients", "bar."), 40)
	}, gaps(assess.NoCounters)},
}

// quantityHeadless is the name of the quantity [advice.HeadlessListeners].
var quantityHeadless = advice.HeadlessListeners.Name

// counts returns a check of how many proxies of each kind there are.
func counts(want map[assess.Kind]int) func(*world, assess.Assessment) error {
	return func(_ *world, a assess.Assessment) error {
		for _, kind := range assess.Kinds {
			if n := a.Mesh.Count(kind); n != want[kind] {
				return fmt.Errorf("%d of kind %s, want %d", n, kind, want[kind])
			}
		}
		return nil
	}
}

func counted(kind assess.Kind, want int) func(*world, assess.Assessment) error {
	return func(_ *world, a assess.Assessment) error {
		if n := a.Mesh.Count(kind); n != want {
			return fmt.Errorf("%d of kind %s, want %d", n, kind, want)
		}
		return nil
	}
}

func revisions(kind assess.Kind, want map[string]int) func(*world, assess.Assessment) error {
	return func(_ *world, a assess.Assessment) error {
		got := map[string]int{}
		for _, g := range a.Mesh.Proxies {
			if g.Kind == kind {
				got[g.Revision] += g.Count
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s by revision: %v, want %v", kind, got, want)
		}
		return nil
	}
}

// group returns the group of a kind of which there is one.
func group(a assess.Assessment, kind assess.Kind) assess.Group {
	i := slices.IndexFunc(a.Mesh.Proxies, func(g assess.Group) bool { return g.Kind == kind })
	if i < 0 {
		return assess.Group{}
	}
	return a.Mesh.Proxies[i]
}

func use(a assess.Assessment, kind assess.Kind) assess.Use {
	i := slices.IndexFunc(a.Cost.Uses, func(u assess.Use) bool { return u.Kind == kind })
	if i < 0 {
		return assess.Use{}
	}
	return a.Cost.Uses[i]
}

func near(what string, got, want float64) error {
	if !(math.Abs(got-want) <= tolerance*want) {
		return fmt.Errorf("%s: %.4g, want %.4g within %.0f%%", what, got, want, 100*tolerance)
	}
	return nil
}

func shopRequests(_ *world, a assess.Assessment) error {
	if g := group(a, assess.Sidecar); g.Unlimited != 5 {
		return fmt.Errorf("%d sidecars without CPU limit", g.Unlimited)
	}
	return near("CPU requests", group(a, assess.Sidecar).Requests.Cores, 0.05)
}

// calls returns the requests per second from a workload to hosts with a prefix.
func calls(a assess.Assessment, from, to string) (perS float64) {
	if a.Traffic == nil {
		return 0
	}
	for _, c := range a.Traffic.Calls {
		if c.From.Name == from && strings.HasPrefix(c.Host, to) {
			perS += c.PerS
		}
	}
	return perS
}

func shopCalls(_ *world, a assess.Assessment) error {
	return errors.Join(near("front to cart", calls(a, "front", "cart."), 60), near("front to catalogue", calls(a, "front", "catalogue."), 120))
}

func quantity(name string, want float64) func(*world, assess.Assessment) error {
	return func(_ *world, a assess.Assessment) error {
		if a.Limits == nil {
			return errors.New("istiod was not judged")
		}
		i := slices.IndexFunc(a.Limits.Values, func(v advice.Value) bool { return v.Name == name })
		if i < 0 {
			return fmt.Errorf("%s is unknown", name)
		}
		if v := a.Limits.Values[i].Value; v != want {
			return fmt.Errorf("%s: %g, want %g", name, v, want)
		}
		return nil
	}
}

func holds(rule string) func(*world, assess.Assessment) error {
	return func(_ *world, a assess.Assessment) error {
		if a.Limits == nil || !among(a.Limits.Advice, rule) {
			return fmt.Errorf("rule %s does not hold", rule)
		}
		return nil
	}
}

func undecided(rule string) func(assess.Assessment) bool {
	return func(a assess.Assessment) bool {
		return a.Limits == nil && assess.NotWatched.In(a.Unknown) || a.Limits != nil && among(a.Limits.Undecided, rule)
	}
}

func among(judgements []advice.Judgement, rule string) bool {
	return slices.ContainsFunc(judgements, func(j advice.Judgement) bool { return j.Rule == rule })
}

func gaps(of assess.Gap) func(assess.Assessment) bool {
	return func(a assess.Assessment) bool { return of.In(a.Unknown) }
}

// shop is a small shop of five workloads.
var shop = assessedMesh{
	name: "shop",
	study: `
name: assessed-shop
question: What does a small shop cost its mesh?
story: Four services and a client.
graph:
  services:
    front: {response: 1KiB, calls: [{to: cart}, {to: catalogue, times: 2}]}
    cart: {response: 1KiB, calls: [{to: stock}]}
    catalogue: {response: 4KiB}
    stock: {}
load: {to: front, clients: 1}
settings: {rate: 60, connections: 4, arrival: uniform}
measures: [latency, cpu, memory]
timeline: {duration: 110s}
blocks: {min: 1, max: 1}
stop: none
`,
	ready: func(w *world) error { return w.called("front", "cart.", 100) },
	whole: true,
}

// unscoped is a mesh whose sidecars hold all of it.
var unscoped = assessedMesh{
	name: "unscoped",
	study: `
name: assessed-unscoped
question: What do 1,000 Services cost sidecars without scope?
control: {changes: 100, settle: 20s, idle: 0s, security: plaintext}
settings: {proxies: 300, services: 1000, endpoints: 1, namespaces: 10, real_pods: 2, change: virtualservice, change_rate: 0.5}
blocks: {min: 1, max: 1, limit: 20m}
`,
	ready: func(w *world) error { return w.changing(302) },
	// The simulator takes CPU from istiod, whose pushes then wait as they would for a free slot.
	advice: []string{"no_scope", "throttle"},
}

// throttled is a mesh whose istiod has too little CPU.
var throttled = assessedMesh{
	name: "throttled",
	study: `
name: assessed-throttled
question: What does a CPU limit cost istiod?
control: {changes: 200, settle: 20s, idle: 0s, security: plaintext}
settings: {proxies: 60, services: 60, endpoints: 1, namespaces: 2, real_pods: 1, change: virtualservice, change_rate: 1, istiod_cpu: 200m}
blocks: {min: 1, max: 1, limit: 20m}
`,
	manifests: headless(400),
	ready:     func(w *world) error { return w.changing(61) },
	advice:    []string{"cpu_limit", "headless"},
}

// headless returns a headless Service with endpoints, none of which answers.
func headless(endpoints int) string {
	var b strings.Builder
	b.WriteString(`
apiVersion: v1
kind: Namespace
metadata: {name: planted}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: planted}
spec: {clusterIP: None, ports: [{name: tcp-store, port: 9999}]}
`)
	const each = 100 // the most that Kubernetes' own slices have
	for first := 0; first < endpoints; first += each {
		fmt.Fprintf(&b, `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-%d, namespace: planted, labels: {kubernetes.io/service-name: headless, endpointslice.kubernetes.io/managed-by: planted, service.kubernetes.io/headless: ""}}
addressType: IPv4
ports: [{name: tcp-store, port: 9999, protocol: TCP}]
endpoints:
`, first/each)
		for i := first; i < min(first+each, endpoints); i++ {
			fmt.Fprintf(&b, "- {addresses: [198.18.%d.%d], conditions: {ready: true}}\n", i/200, i%200+1) // for benchmarks (RFC 2544)
		}
	}
	return b.String()
}

// twoRevisions is a mesh in the middle of an upgrade.
var twoRevisions = assessedMesh{
	name: "revisions",
	study: `
name: assessed-revisions
question: Who is at which revision?
story: A namespace moves to a second istiod; its clients stay.
graph: {services: {bar: {replicas: 3, response: 1KiB}}}
load: {to: bar, clients: 2}
settings: {rate: 40, connections: 2, arrival: uniform}
timeline:
  duration: 300s
  steps:
  - {name: second, at: 2s, revision: {name: canary}}
  - {name: moved, at: 15s, move: {to: canary}}
blocks: {min: 1, max: 1}
stop: none
`,
	ready: func(w *world) error {
		return errors.Join(w.connected(canary, 3), w.noneEnds())
	},
}

// ambient is an ambient mesh with a waypoint of the study's, and another one and a gateway.
var ambient = assessedMesh{
	name: "ambient",
	study: `
name: assessed-ambient
question: Who carries requests in an ambient mesh?
story: A client and two services, behind a waypoint.
graph: {services: {front: {response: 1KiB, calls: [{to: back}]}, back: {}}}
load: {to: front, clients: 1}
settings: {rate: 40, connections: 2, sidecars: waypoint}
measures: [latency]
timeline: {duration: 300s}
blocks: {min: 1, max: 1}
stop: none
`,
	manifests: gateways,
	advice:    []string{"rejected"}, // where the planted waypoint's Envoy is an upstream one; see docs/lab.md
	ready: func(w *world) error {
		gateways, clients := w.pods("-A", "-l", "gateway.networking.k8s.io/gateway-name"), w.pods("-A", "-l", mesh.AppLabel+"=clients")
		if len(gateways) != 3 || len(clients) != 1 {
			return fmt.Errorf("%d gateways, %d clients", len(gateways), len(clients))
		}
		return nil
	},
}

// gateways are a waypoint and a gateway, without anybody behind them.
const gateways = `
apiVersion: v1
kind: Namespace
metadata: {name: planted}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: second, namespace: planted, labels: {istio.io/waypoint-for: service}}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: entry, namespace: planted}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

// TestAssessMeshes has meshes assessed while they run, by a user with the rights for that alone,
// and from files. What is planted is reported, or said to be unknown, and nothing else; nothing is
// written.
func TestAssessMeshes(t *testing.T) {
	known := 0
	for _, p := range planted {
		if p.unknown == nil {
			known++
		}
	}
	if len(planted) != 20 || known < fromFiles {
		t.Fatalf("of %d plants %d are known from files", len(planted), known)
	}
	m := labtest.New(t)
	assessAll(t, guests{machine: m, lab: m.Up(t, "--audit")}, shop, unscoped, throttled, twoRevisions)
}

// TestAssessAmbientMesh is the same for an ambient mesh.
func TestAssessAmbientMesh(t *testing.T) {
	m, dir := ambientLab(t)
	assessAll(t, guests{machine: m, lab: m.Up(t, "--audit", "--ztunnel", dir)}, ambient)
}

func assessAll(t *testing.T, g guests, meshes ...assessedMesh) {
	files, err := local.LogFiles(g.machine.State())
	must.OK(t, err)
	g.audit = files["audit"]
	kubeconfig := g.user(t, "assessor")
	g.grant(t, "assessor", kubeconfig, "--feature", rights.Reach, "--feature", rights.Assess)
	for _, one := range meshes {
		t.Run(one.name, func(t *testing.T) {
			w := &world{guests: g, t: t, mesh: one, kubeconfig: kubeconfig, dir: t.TempDir()}
			w.assessed()
		})
	}
	events := g.events(t, "assessor")
	if len(events) == 0 {
		t.Error("the audit log has nothing of the assessments")
	}
	for _, e := range events {
		if e.writes() {
			t.Errorf("an assessment has asked for %s", e)
		}
	}
}

// assessed makes the mesh and assesses it.
func (w *world) assessed() {
	t := w.t
	if w.mesh.manifests != "" {
		labtest.Namespace(t, w.lab, "planted")
		labtest.Kubectl(t, w.lab, w.mesh.manifests, "apply", "-f", "-")
	}
	out := filepath.Join(t.TempDir(), "run")
	began := time.Now()
	study := w.machine.Command(t, "run", labtest.Study(t, w.mesh.study), "--out", out)
	said, ended := labtest.Background(t, study)
	eventually.Succeeds(t, 4*time.Minute, "the mesh is as planted", func() error {
		select {
		case <-ended:
			t.Fatalf("the study has ended:\n%s", said)
		default:
		}
		return w.mesh.ready(w)
	})
	t.Logf("ready after %.0f s", time.Since(began).Seconds())
	idle := 0.0
	if w.mesh.whole {
		cpu, at := w.istiodCPU(), time.Now()
		time.Sleep(20 * time.Second) // the length of a measurement
		idle = (w.istiodCPU() - cpu) / time.Since(at).Seconds()
	}
	before := w.pages("before")
	cpu, _, at := w.cgroups()
	live, busy := w.assess("--lab", "cluster", "--kubeconfig", w.kubeconfig, "--duration", "40s", "--proxies", "0")
	after, bytes, end := w.cgroups()
	w.cores, w.bytes = (after-cpu)/end.Sub(at).Seconds(), bytes
	files := slices.Concat(before, w.pages("after"), w.dumps(), []string{w.objects()})
	if w.mesh.whole {
		t.Logf("istiod used %.4f cores before", idle)
		if more := busy - idle; more > istiodMost {
			t.Errorf("the assessment took %.2f%% of a core from istiod", 100*more)
		}
	}
	offline, _ := w.assess(append([]string{"--from"}, files...)...)
	if !w.mesh.whole {
		must.OK(t, study.Process.Signal(os.Interrupt))
	}
	<-ended
	w.judge("live", live, false)
	w.judge("from files", offline, true)
	if w.mesh.whole {
		w.beside(out, live, said)
	}
}

// judge checks what an assessment says of what is planted, and that it says no more.
func (w *world) judge(how string, a assess.Assessment, unknown bool) {
	t := w.t
	for _, p := range planted {
		if p.mesh != w.mesh.name {
			continue
		}
		switch err := p.seen(w, a); {
		case err == nil:
			t.Logf("%s: %s: reported", how, p.what)
		case unknown && p.unknown != nil && p.unknown(a):
			t.Logf("%s: %s: said to be unknown", how, p.what)
		default:
			t.Errorf("%s: %s: %v\nunknown: %v", how, p.what, err, a.Unknown)
		}
	}
	if a.Limits == nil {
		return
	}
	for _, j := range a.Limits.Advice {
		if !slices.Contains(w.mesh.advice, j.Rule) {
			t.Errorf("%s: advice %s: %s", how, j.Rule, j.Says)
		}
	}
}

// beside compares the assessment with what the run measured of the same mesh.
func (w *world) beside(out string, a assess.Assessment, said *bytes.Buffer) {
	t := w.t
	run, err := store.Read(out)
	if err != nil || len(run.Trials) != 1 {
		t.Fatalf("%d trials, %v\n%s", len(run.Trials), err, said)
	}
	scenario, cores := run.Trials[0].Scenario, 0.0
	for part, cpu := range scenario.CPU {
		if strings.Contains(part, "proxy") {
			cores += cpu.TotalS() / scenario.CountedS
		}
	}
	used := use(a, assess.Sidecar).Used
	t.Logf("sidecars: %.4f cores by the run, %.4f cores and %.1f MB by their cgroups, %.4f and %.1f by the assessment", cores, w.cores, w.bytes/1e6, used.Cores, used.Bytes/1e6)
	if err := near("cores of sidecars, as the run has them", used.Cores, cores); err != nil {
		t.Error(err)
	}
}

// assess runs the command, and logs what it took. It also returns istiod's CPU meanwhile, in cores.
func (w *world) assess(args ...string) (a assess.Assessment, istiod float64) {
	t := w.t
	t.Helper()
	cmd := w.machine.Command(t, append([]string{"assess", "--format", "json", "--out", filepath.Join(w.dir, args[0])}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	before, began := w.istiodCPU(), time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
	}
	took := time.Since(began)
	istiod = (w.istiodCPU() - before) / time.Since(began).Seconds()
	// This counts what the test itself held when it started the command, so it is an upper bound.
	megabytes := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%s: %.1f s, %.1f s of CPU, %d MB; istiod used %.4f cores meanwhile", args[0], took.Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), megabytes, istiod)
	if megabytes > memoryMost {
		t.Errorf("the assessment took %d MB", megabytes)
	}
	must.OK(t, json.Unmarshal(out, &a))
	return a, istiod
}

// kubectl runs the lab's kubectl and returns its output alone.
func (w *world) kubectl(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(local.ToolsDir(filepath.Dir(w.lab.Kubeconfig())), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.lab.Kubeconfig())
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("kubectl %v: %w: %s", args, err, exit.Stderr)
	}
	return string(out), err
}

// get returns the output of a kubectl that must succeed.
func (w *world) get(args ...string) string {
	w.t.Helper()
	out, err := w.kubectl(args...)
	must.OK(w.t, err)
	return out
}

// pods lists running pods by kubectl's arguments.
func (w *world) pods(args ...string) []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	must.OK(w.t, json.Unmarshal([]byte(w.get(append([]string{"get", "pods", "-o", "json", "--field-selector", "status.phase=Running"}, args...)...)), &list))
	return list.Items
}

// noneEnds returns nil if no pod is being deleted.
func (w *world) noneEnds() error {
	w.t.Helper()
	for _, pod := range w.pods("-A") {
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is being deleted", pod.Name)
		}
	}
	return nil
}

func (w *world) istiods(selector string) []corev1.Pod {
	w.t.Helper()
	return slices.DeleteFunc(w.pods("-n", "istio-system", "-l", selector), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// page returns istiod's metrics.
func (w *world) page(istiod corev1.Pod) (string, error) {
	return w.kubectl("get", "--raw", "/api/v1/namespaces/"+istiod.Namespace+"/pods/"+istiod.Name+":15014/proxy/metrics")
}

// sum adds up a metric of the istiods that a selector matches.
func (w *world) sum(selector, metric string, labels map[string]string) (sum float64, err error) {
	w.t.Helper()
	for _, pod := range w.istiods(selector) {
		page, err := w.page(pod)
		if err != nil {
			return 0, err
		}
		metrics, err := observe.ParsePrometheus([]byte(page))
		if err != nil {
			return 0, err
		}
		v, _ := observe.Sum(metrics, metric, labels)
		sum += v
	}
	return sum, nil
}

const (
	anyIstiod = "app=istiod"
	canary    = "app=istiod,istio.io/rev=canary"
)

// istiodCPU returns the CPU time of all istiods, in seconds.
func (w *world) istiodCPU() float64 {
	w.t.Helper()
	seconds, err := w.sum(anyIstiod, "process_cpu_seconds_total", nil)
	must.OK(w.t, err)
	return seconds
}

// connected returns nil if n proxies are connected to the istiods that a selector matches.
func (w *world) connected(selector string, n float64) error {
	w.t.Helper()
	got, err := w.sum(selector, "pilot_xds", nil)
	if err == nil && got != n {
		err = fmt.Errorf("%g proxies are connected, want %g", got, n)
	}
	return err
}

// changing returns nil if n proxies are connected, and VirtualServices change.
func (w *world) changing(n float64) error {
	w.t.Helper()
	if err := w.connected(anyIstiod, n); err != nil {
		return err
	}
	changes, err := w.sum(anyIstiod, "pilot_k8s_cfg_events", map[string]string{"type": "VirtualService"})
	if err == nil && changes < 3 {
		err = fmt.Errorf("%g changes", changes)
	}
	return err
}

// called returns nil if a workload's sidecar has sent n requests to a host.
func (w *world) called(workload, host string, n int) error {
	w.t.Helper()
	pods := w.pods("-A", "-l", mesh.AppLabel+"="+workload)
	if len(pods) == 0 {
		return fmt.Errorf("no pod of %s", workload)
	}
	page, err := w.ask(pods[0], "clusters")
	if err != nil {
		return err
	}
	sent := 0
	for line := range strings.Lines(page) {
		cluster, rest, _ := strings.Cut(line, "::")
		if _, count, ok := strings.Cut(rest, "rq_total::"); ok && strings.Contains(cluster, "||"+host) {
			c, err := strconv.Atoi(strings.TrimSpace(count))
			must.OK(w.t, err)
			sent += c
		}
	}
	if sent < n {
		return fmt.Errorf("%d requests", sent)
	}
	return nil
}

// ask returns a page of a sidecar.
func (w *world) ask(pod corev1.Pod, page string) (string, error) {
	return w.kubectl("-n", pod.Namespace, "exec", pod.Name, "-c", "istio-proxy", "--", "pilot-agent", "request", "GET", page)
}

// write writes a file for an assessment.
func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must.OK(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// pages writes istiods' metrics.
func (w *world) pages(when string) (files []string) {
	w.t.Helper()
	for _, pod := range w.istiods(anyIstiod) {
		page, err := w.page(pod)
		must.OK(w.t, err)
		files = append(files, w.write(when+"-"+pod.Name, page))
	}
	return files
}

// dumps writes the config dumps of all sidecars.
func (w *world) dumps() (files []string) {
	w.t.Helper()
	for _, pod := range w.pods("-A") {
		if !slices.ContainsFunc(slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers), func(c corev1.Container) bool {
			return c.Name == "istio-proxy" && slices.Contains(c.Args, "sidecar")
		}) {
			continue
		}
		text, err := w.ask(pod, "config_dump?include_eds")
		must.OK(w.t, err)
		w.dumped += float64(len(text))
		files = append(files, w.write("dump-"+pod.Name, text))
	}
	w.dumped /= float64(max(1, len(files)))
	return files
}

// objects writes what is in the mesh, as docs/assess.md says.
func (w *world) objects() string {
	w.t.Helper()
	return w.write("objects.json", w.get("get", "pods,services,namespaces,deployments,sidecars,virtualservices", "-A", "-o", "json"))
}

// cgroups returns the CPU time and the working set of the containers that run Envoy, in seconds
// and bytes.
func (w *world) cgroups() (seconds, bytes float64, at time.Time) {
	t := w.t
	t.Helper()
	status, err := local.GetStatus(w.machine.State())
	must.OK(t, err)
	number := func(path, key string) float64 {
		data, err := os.ReadFile(path)
		must.OK(t, err)
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if v := fields[len(fields)-1]; key == "" || fields[0] == key {
				n, err := strconv.ParseFloat(v, 64)
				must.OK(t, err)
				return n
			}
		}
		t.Fatalf("%s has no %s", path, key)
		return 0
	}
	seen := map[string]bool{}
	for _, pid := range labtest.PIDs(status.ID, "envoy") {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		must.OK(t, err)
		in := map[string]string{} // by controller
		for line := range strings.Lines(string(data)) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
				for _, controller := range strings.Split(parts[1], ",") {
					in[controller] = parts[2]
				}
			}
		}
		const root = "/sys/fs/cgroup"
		cpuacct, v1 := in["cpuacct"]
		if path := in["memory"] + in[""]; seen[path] {
			continue
		} else {
			seen[path] = true
		}
		if v1 {
			seconds += number(filepath.Join(root, "cpuacct", cpuacct, "cpuacct.usage"), "") / 1e9
			memory := filepath.Join(root, "memory", in["memory"])
			bytes += number(filepath.Join(memory, "memory.usage_in_bytes"), "") - number(filepath.Join(memory, "memory.stat"), "total_inactive_file")
			continue
		}
		path := filepath.Join(root, in[""])
		seconds += number(filepath.Join(path, "cpu.stat"), "usage_usec") / 1e6
		bytes += number(filepath.Join(path, "memory.current"), "") - number(filepath.Join(path, "memory.stat"), "inactive_file")
	}
	return seconds, bytes, time.Now()
}
