//go:build verify

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const dataPlaneOfAGuest = `
name: guest
question: Do the rights of the table suffice?
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both]}
warmup: {min: 1s, max: 3s}
window: 2s
interval: 1s
blocks: {min: 1, max: 2, limit: 20m, redeploy: 1}
`

const controlPlaneOfAGuest = `
name: guest-control
question: Do the rights of the table suffice?
kind: control-plane
control: {changes: 2, settle: 20s, idle: 0s}
settings: {proxies: 5, services: 2, endpoints: 1, namespaces: 1}
factors: {change: [service+gateway+virtualservice, endpoints-scale]}
blocks: {min: 1, max: 1, limit: 20m}
`

const scenarioOfAGuest = `
name: guest-scenario
question: Do the rights of the table suffice?
story: One service, and steps of the kinds that need rights of their own.
graph:
  services:
    bar: {replicas: 2, service_time: {mean: 2ms}, response: 1KiB, concurrency: 10, queue: 100}
load: {to: bar, clients: 1, timeout: 3s}
settings: {rate: 50, connections: 2, retries: 1, outlier_detection: errors=5}
timeline:
  duration: 25s
  steps:
  - {name: gone, at: 1s, for: 4s, remove: {service: bar, replicas: 1}}
  - {name: apart, at: 6s, for: 2s, network: {from: clients, to: bar, delay: 5ms}}
  - {name: away, at: 9s, for: 4s, process: {of: istiod, do: kill}}
  - name: elsewhere
    at: 20s
    for: 2s
    config:
      apply: |
        apiVersion: networking.istio.io/v1
        kind: ServiceEntry
        metadata: {name: elsewhere, namespace: default}
        spec: {hosts: [elsewhere.example], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}
blocks: {min: 1, max: 1}
stop: none
`

// guests are users of a lab whose API server writes down what they ask for.
type guests struct {
	machine labtest.Machine
	lab     *local.Lab
	audit   string // the log's file
}

// TestLeastRights has users with the rights that `cluster check` prints, and no
// others, run what they are for. The API server's audit log has nothing of
// theirs that the table lacks.
func TestLeastRights(t *testing.T) {
	m := labtest.New(t)
	g := guests{machine: m, lab: m.Up(t, "--audit")}
	files, err := local.LogFiles(m.State())
	must.OK(t, err)
	g.audit = files["audit"]
	for name, test := range map[string]func(*testing.T){"data plane": g.dataPlane, "control plane": g.controlPlane, "resilience": g.resilience, "readers": g.readers, "assessor": g.assessor, "commands": g.commands, "detached": g.detached} {
		t.Run(name, test)
	}
}

// user makes a service account, and a kubeconfig of its token.
func (g guests) user(t *testing.T, name string) (kubeconfig string) {
	t.Helper()
	labtest.Kubectl(t, g.lab, "", "create", "serviceaccount", name)
	token := strings.TrimSpace(labtest.Kubectl(t, g.lab, "", "create", "token", name, "--duration=2h"))
	data, err := os.ReadFile(g.lab.Kubeconfig())
	must.OK(t, err)
	kubeconfig = filepath.Join(t.TempDir(), name)
	must.OK(t, os.WriteFile(kubeconfig, data, 0o600))
	for _, args := range [][]string{{"config", "set-credentials", name, "--token=" + token}, {"config", "set-context", "meshtrial", "--user=" + name}} {
		labtest.Kubectl(t, g.lab, "", append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	}
	return kubeconfig
}

// grant applies the manifests that `cluster check` prints for a user, and waits
// until the API server knows them.
func (g guests) grant(t *testing.T, name, kubeconfig string, args ...string) {
	t.Helper()
	check := append([]string{"cluster", "check"}, args...)
	cmd := g.machine.Command(t, append(slices.Clone(check), "--kubeconfig", g.lab.Kubeconfig(), "--manifests", "--serviceaccount", "default/"+name)...)
	manifests, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	labtest.Kubectl(t, g.lab, string(manifests), "apply", "-f", "-")
	g.eventually(t, 0, append(check, "--kubeconfig", kubeconfig)...)
}

// eventually has a command end with a code, within the moment that the API
// server takes to learn of rights.
func (g guests) eventually(t *testing.T, code int, args ...string) {
	t.Helper()
	eventually.Succeeds(t, time.Minute, strings.Join(args, " "), func() error {
		if got, said := g.machine.Run(t, args...); got != code {
			return fmt.Errorf("exit code %d, not %d\n%s", got, code, said)
		}
		return nil
	})
}

func (g guests) dataPlane(t *testing.T) {
	file := labtest.Study(t, dataPlaneOfAGuest)
	kubeconfig := g.user(t, "guest")
	code, said := g.machine.Run(t, "cluster", "check", file, "--kubeconfig", kubeconfig)
	if code != errs.CodeAssertion || !strings.Contains(said, "missing  create daemonsets.apps in the run's namespace") {
		t.Errorf("a user without rights: exit code %d\n%s", code, said)
	}
	g.grant(t, "guest", kubeconfig, file)
	plan := studytest.Plan(t, dataPlaneOfAGuest)
	g.runs(t, "guest", kubeconfig, file, plan, 3)

	// Without the rights that it can go without, it runs and says so.
	g.allow(t, "guest", needed(rights.Of(plan)))
	g.eventually(t, errs.CodeOK, "cluster", "check", file, "--kubeconfig", kubeconfig)
	if said = g.runs(t, "guest", kubeconfig, file, plan, 3); !strings.Contains(said, "note: this user may not list namespaces (what earlier runs left): ") {
		t.Errorf("nothing is said of rights that are lacking:\n%s", said)
	}

	// One right less, and the run says which before it has begun.
	g.allow(t, "guest", slices.DeleteFunc(rights.Of(plan), func(f rights.Feature) bool { return f.Name == rights.Observe }))
	g.eventually(t, errs.CodeAssertion, "cluster", "check", file, "--kubeconfig", kubeconfig)
	before := len(g.events(t, "guest"))
	code, said = g.machine.Run(t, "run", file, "--lab", "cluster", "--kubeconfig", kubeconfig, "--image", g.lab.Images().Meshtrial, "--out", filepath.Join(t.TempDir(), "out"))
	if code != errs.CodeUsage || !strings.Contains(said, "observe: create daemonsets.apps in the run's namespace (the observer on each node)") {
		t.Errorf("a right less: exit code %d\n%s", code, said)
	}
	for _, e := range g.events(t, "guest")[before:] {
		if e.writes() {
			t.Errorf("the refused run has asked for %s", e)
		}
	}
}

// needed are features without the rights that a run can go without.
func needed(features []rights.Feature) []rights.Feature {
	for i := range features {
		features[i].Rights = slices.DeleteFunc(features[i].Rights, func(r rights.Right) bool { return r.Optional() })
	}
	return features
}

// allow gives a user these rights in place of others.
func (g guests) allow(t *testing.T, name string, features []rights.Feature) {
	t.Helper()
	text, err := rights.Manifests(rights.Place(features, g.places("")), rights.Subject{Kind: "ServiceAccount", Namespace: "default", Name: name})
	must.OK(t, err)
	labtest.Kubectl(t, g.lab, string(text), "apply", "-f", "-")
}

func (g guests) controlPlane(t *testing.T) {
	file := labtest.Study(t, controlPlaneOfAGuest)
	kubeconfig, plan := g.user(t, "controller"), studytest.Plan(t, controlPlaneOfAGuest)
	g.allow(t, "controller", needed(rights.Of(plan)))
	g.eventually(t, errs.CodeOK, "cluster", "check", file, "--kubeconfig", kubeconfig)
	g.runs(t, "controller", kubeconfig, file, plan, 2)
}

func (g guests) resilience(t *testing.T) {
	file := labtest.Study(t, scenarioOfAGuest)
	kubeconfig := g.user(t, "breaker")
	g.grant(t, "breaker", kubeconfig, file)
	g.runs(t, "breaker", kubeconfig, file, studytest.Plan(t, scenarioOfAGuest), 1)
}

// runs has a user run a study, holds what it asked for against the table, and
// returns what it said.
func (g guests) runs(t *testing.T, name, kubeconfig, file string, plan *study.Plan, trials int) (said string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	said = g.machine.Measured(t, "run", file, "--yes", "--mesh-wide", "--lab", "cluster", "--kubeconfig", kubeconfig, "--image", g.lab.Images().Meshtrial, "--out", out)
	lines, err := os.ReadFile(filepath.Join(out, store.FileTrials))
	if n := bytes.Count(lines, []byte("\n")); err != nil || n < trials {
		t.Errorf("%d trials (%v)\n%s", n, err, said)
	}
	g.holds(t, name, rights.Place(rights.Of(plan), g.places("")))
	return said
}

// readers see the configuration of a namespace with rights to read alone, and write nothing.
func (g guests) readers(t *testing.T) {
	labtest.Kubectl(t, g.lab, readManifests, "apply", "-f", "-")
	labtest.Kubectl(t, g.lab, "", "-n", "read", "rollout", "status", "deployment/shop", "--timeout=240s")
	kubeconfig := g.user(t, "reader")
	g.grant(t, "reader", kubeconfig, "-n", "read", "--feature", rights.Reach, "--feature", rights.AssessConfig)
	g.machine.Succeeds(t, "assess", "config", "-n", "read", "--generate", t.TempDir(), "--lab", "cluster", "--kubeconfig", kubeconfig)
	features, err := rights.Named(rights.Reach, rights.AssessConfig)
	must.OK(t, err)
	g.holds(t, "reader", rights.Place(features, g.places("read")))
	for _, e := range g.events(t, "reader") {
		if e.writes() {
			t.Errorf("a reader has asked for %s", e)
		}
	}
}

// assessor has a mesh assessed, and writes nothing to it.
func (g guests) assessor(t *testing.T) {
	labtest.Kubectl(t, g.lab, strings.ReplaceAll(readManifests, "read", "assessed"), "apply", "-f", "-")
	labtest.Kubectl(t, g.lab, "", "-n", "assessed", "rollout", "status", "deployment/shop", "--timeout=240s")
	kubeconfig, to := g.user(t, "assessor"), t.TempDir()
	g.grant(t, "assessor", kubeconfig, "--feature", rights.Reach, "--feature", rights.Assess)
	for _, args := range [][]string{{"assess", "--duration", "25s", "--out", to}, {"assess", "traffic", "--duration", "10s"}, {"assess", "limits", "--duration", "10s"}} {
		g.machine.Succeeds(t, append(args, "--lab", "cluster", "--kubeconfig", kubeconfig)...)
	}
	features, err := rights.Named(rights.Reach, rights.Assess)
	must.OK(t, err)
	g.holds(t, "assessor", rights.Place(features, g.places("")))
	for _, e := range g.events(t, "assessor") {
		if e.writes() {
			t.Errorf("an assessment has asked for %s", e)
		}
	}
}

// commands work in a namespace and with a pod that their user names.
func (g guests) commands(t *testing.T) {
	labtest.Kubectl(t, g.lab, "", "create", "namespace", "tested")
	pod := strings.TrimSpace(labtest.Kubectl(t, g.lab, "", "-n", "istio-system", "get", "pods", "-l", "app=istiod", "-o", "jsonpath={.items[0].metadata.name}"))
	for name, c := range map[string]struct {
		namespace string
		features  []string
		args      []string
	}{
		"tester": {"tested", []string{rights.Reach, rights.PushTest, rights.Signals, rights.Journal},
			[]string{"controlplane-test", "--namespace", "tested", "--reps", "2", "--delay", "1", "--settle", "1s"}},
		"perfer": {"istio-system", []string{rights.Reach, rights.Journal, rights.Keeper, rights.ProfilePod},
			[]string{"profile", pod, "-n", "istio-system", "--length", "20s", "--format", "json", "--image", g.lab.Images().Meshtrial}},
		"profiler": {"istio-system", []string{rights.Reach, rights.ProfilePage}, []string{"profile", pod, "-n", "istio-system", "--kind", "heap", "--format", "json"}},
	} {
		kubeconfig := g.user(t, name)
		check := []string{"-n", c.namespace}
		for _, f := range c.features {
			check = append(check, "--feature", f)
		}
		g.grant(t, name, kubeconfig, check...)
		code, said := g.machine.Run(t, append(c.args, "--lab", "cluster", "--kubeconfig", kubeconfig)...)
		// Where a machine's perf counts nothing, all has been asked for all the same.
		if code != errs.CodeOK && code != errs.CodeInvalid && !strings.Contains(said, "it used no CPU") {
			t.Errorf("%v: exit code %d\n%s", c.args, code, said)
		}
		features, err := rights.Named(c.features...)
		must.OK(t, err)
		g.holds(t, name, rights.Place(features, g.places(c.namespace)))
	}
}

// detached has a user begin a detached run, follow, list and fetch it, and another one, with
// the rights for that alone, remove it. The run's pod has the rights of the study, and what it
// says of itself.
func (g guests) detached(t *testing.T) {
	results, err := g.lab.ResultsDir()
	must.OK(t, err)
	labtest.Kubectl(t, g.lab, "", "create", "namespace", "team")
	labtest.Kubectl(t, g.lab, fmt.Sprintf(volume, results), "apply", "-f", "-")
	file := labtest.Study(t, dataPlaneOfAGuest)
	kubeconfig := g.user(t, "launcher")
	g.grant(t, "launcher", kubeconfig, file, "-n", "team", "--feature", rights.Detached, "--feature", rights.DetachedRuns)
	where := []string{"--lab", "cluster", "--kubeconfig", kubeconfig}
	begun := detach(t, g.machine, append([]string{"run", file, "--detach", "--json", "--yes", "--mesh-wide", "--image", g.lab.Images().Meshtrial, "--results", "pvc:team/results"}, where...)...)
	if begun.Namespace != "team" {
		t.Fatalf("its Job is in namespace %s", begun.Namespace)
	}
	fetched := filepath.Join(t.TempDir(), "fetched")
	for _, args := range [][]string{{"attach", begun.Run}, {"runs", "list"}, {"runs", "fetch", begun.Run, "--to", fetched}} {
		code, said := g.machine.Run(t, append(append(args, "-n", "team"), where...)...)
		if code != errs.CodeOK && (args[0] != "attach" || code != errs.CodeInvalid) { // figures may be invalid on a busy machine
			t.Fatalf("%v: exit code %d\n%s", args, code, said)
		}
	}
	// The manifests have prepared the journal's namespace, which then stays. Where nobody has, the
	// run has reserved it.
	labtest.Kubectl(t, g.lab, "", "annotate", "namespace", journal.Namespace, "meshtrial.dev/reserved=true")
	remover := g.user(t, "remover")
	g.grant(t, "remover", remover, "-n", "team", "--feature", rights.Reach, "--feature", rights.DetachedRuns)
	if code, said := g.machine.Run(t, "runs", "delete", begun.Run, "-n", "team", "--lab", "cluster", "--kubeconfig", remover); code != errs.CodeOK || !strings.Contains(said, "was deleted") || !strings.Contains(said, "stays until the next run ends") {
		t.Errorf("removed by another: exit code %d\n%s", code, said)
	}
	labtest.Kubectl(t, g.lab, "", "label", "--overwrite", "namespace", journal.Namespace, journal.Label+"-", "app.kubernetes.io/part-of=meshtrial") // as it was
	if run, notes, err := store.Load(t.Context(), fetched); err != nil || len(run.Trials) < 3 {
		t.Errorf("%d trials were fetched, %v, %v", len(run.Trials), notes, err)
	}
	plan := studytest.Plan(t, dataPlaneOfAGuest)
	commands, err := rights.Named(rights.Detached, rights.DetachedRuns)
	must.OK(t, err)
	g.holds(t, "launcher", rights.Place(append(rights.Of(plan), commands...), g.places("team")))
	removes, err := rights.Named(rights.Reach, rights.DetachedRuns, rights.Journal)
	must.OK(t, err)
	g.holds(t, "remover", rights.Place(removes, g.places("team")))
	own := rights.Feature{Name: "how far it is", Rights: []rights.Right{{Verbs: []string{"get", "patch"}, Resource: "configmaps", Namespace: "team"}}}
	g.holds(t, "team:meshtrial-"+begun.Run, append(rights.Place(rights.Of(plan), g.places("team")), own))
}

const readManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: read, labels: {istio-injection: enabled}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: read}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: worker, image: "docker.io/meshtrial/meshtrial:lab", imagePullPolicy: IfNotPresent, args: [worker], resources: {requests: {cpu: 10m}}}]
`

// event is a line of the audit log; see audit.k8s.io/v1, Event.
type event struct {
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  *struct{ Resource, Subresource, Namespace, Name, APIGroup string }
	Status     struct{ Code int } `json:"responseStatus"`
}

func (e event) String() string {
	if e.ObjectRef == nil {
		return e.Verb + " " + e.RequestURI
	}
	o := e.ObjectRef
	return fmt.Sprintf("%s %s.%s/%s in namespace %q: %d", e.Verb, o.Resource, o.APIGroup, o.Subresource, o.Namespace, e.Status.Code)
}

// writes says that it changes something: not the question what a user may do,
// which is a create, nor a port-forward.
func (e event) writes() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, e.Verb) && e.ObjectRef != nil &&
		e.ObjectRef.Resource != "selfsubjectaccessreviews" && e.ObjectRef.Subresource != "portforward"
}

// events are those of a service account, NAME or NAMESPACE:NAME, in their order.
func (g guests) events(t *testing.T, name string) []event {
	t.Helper()
	data, err := os.ReadFile(g.audit)
	must.OK(t, err)
	if !strings.Contains(name, ":") {
		name = "default:" + name
	}
	var out []event
	for line := range bytes.Lines(data) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.User.Username == "system:serviceaccount:"+name {
			out = append(out, e)
		}
	}
	return out
}

// anyRun stands for the namespaces of runs.
const anyRun = "a run's"

func (g guests) places(named string) rights.Places {
	return rights.Places{Journal: journal.Namespace, Run: anyRun, Meshes: map[string]string{study.MeshIstio: "istio-system"}, Named: named}
}

// grants says that a right covers an event by a verb.
func grants(r rights.Right, e event) bool {
	if !slices.Contains(r.Verbs, e.Verb) {
		return false
	}
	if e.ObjectRef == nil {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		prefix, open := strings.CutSuffix(r.URL, "*")
		return r.Where == rights.OfURL && (path == r.URL || open && strings.HasPrefix(path, prefix))
	}
	o := e.ObjectRef
	namespace := o.Namespace
	if strings.HasPrefix(namespace, site.NamespacePrefix) && namespace != journal.Namespace {
		namespace = anyRun
	}
	return r.Resource == o.Resource && r.Group == o.APIGroup && r.Subresource == o.Subresource && (r.Namespace == "" || r.Namespace == namespace)
}

// holds finds what a user asked for that the features do not have, and what was
// refused; what they have that was not asked for goes to the test's log.
func (g guests) holds(t *testing.T, name string, features []rights.Feature) {
	t.Helper()
	events := g.events(t, name)
	if len(events) == 0 {
		t.Fatalf("the audit log has nothing of user %s", name)
	}
	for _, f := range features { // as the API server resolves it
		for i := range f.Rights {
			if f.Rights[i].Kind == "ServiceEntry" {
				f.Rights[i].Resource = "serviceentries"
			}
		}
	}
	used, strange := map[string]bool{}, map[string]int{}
	for _, e := range events {
		granted := false
		for _, f := range features {
			for _, r := range f.Rights {
				if grants(r, e) {
					granted = true
					used[f.Name+": "+e.Verb+" "+r.Name()+" "+string(r.Where)] = true
					if e.Verb == "patch" && e.Status.Code == http.StatusCreated { // which the server asks for besides
						used[f.Name+": create "+r.Name()+" "+string(r.Where)] = true
					}
				}
			}
		}
		if !granted {
			strange[e.String()]++
		}
	}
	for what, n := range strange {
		t.Errorf("user %s asked %d times for what is not in the table: %s", name, n, what)
	}
	var idle []string
	for _, f := range features {
		for _, r := range f.Rights {
			for _, verb := range r.Verbs {
				if line := f.Name + ": " + verb + " " + r.Name() + " " + string(r.Where); !used[line] {
					idle = append(idle, line)
				}
			}
		}
	}
	sort.Strings(idle)
	t.Logf("user %s: %d requests, all in the table but %d; %d rights granted and not used:\n  %s", name, len(events), len(strange), len(idle), strings.Join(idle, "\n  "))
}
