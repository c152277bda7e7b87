//go:build verify

package cli_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// theirValues installs Istio as another team might.
var theirValues = []string{
	"revision=canary",
	"meshConfig.outboundTrafficPolicy.mode=REGISTRY_ONLY",
	"meshConfig.discoverySelectors[0].matchLabels.mesh=shop",
	"meshConfig.accessLogFile=/dev/stdout",
	"meshConfig.defaultConfig.holdApplicationUntilProxyStarts=true",
	"meshConfig.extensionProviders[2].name=theirs", "meshConfig.extensionProviders[2].zipkin.service=zipkin.shop.svc.cluster.local", "meshConfig.extensionProviders[2].zipkin.port=9411",
	"meshConfig.defaultProviders.tracing[0]=theirs", "meshConfig.defaultConfig.tracing.sampling=100",
	"values.pilot.autoscaleEnabled=true", "values.pilot.autoscaleMin=2", "values.pilot.autoscaleMax=3",
}

// theirStudies has a short study of each kind.
var theirStudies = map[string]string{
	"data plane": dataPlaneOfAGuest,
	"control plane": `
name: their-istiod
question: Does a lever of this revision take effect?
kind: control-plane
control: {changes: 2, settle: 20s, idle: 0s}
settings: {proxies: 5, services: 2, endpoints: 1, namespaces: 1, change: endpoints-scale}
factors: {debounce_after: [installed, 250ms]}
blocks: {min: 1, max: 1, limit: 20m}
`,
	"resilience": `
name: their-scenario
question: Do requests outlive the control plane?
story: One service, whose control plane goes away.
graph:
  services:
    bar: {replicas: 2, service_time: {mean: 2ms}, response: 1KiB, concurrency: 10, queue: 100}
load: {to: bar, clients: 1, timeout: 3s}
settings: {rate: 50, connections: 2}
timeline:
  duration: 20s
  steps:
  - {name: away, at: 3s, for: 4s, process: {of: istiod, do: kill}}
blocks: {min: 1, max: 1}
stop: none
`,
}

// TestTheirMesh runs each kind of study on a mesh that belongs to others: a revision that watches
// only some namespaces, blocks requests to unknown hosts, and has two istiods through an
// autoscaler, while a tenant's requests enter by its ingress gateway. It repeats this alongside a
// second revision. Afterwards everything of theirs is as it was, and none of their requests has
// failed.
func TestTheirMesh(t *testing.T) {
	m := labtest.New(t)
	args := []string{}
	for _, value := range theirValues {
		args = append(args, "--set", value)
	}
	l := m.Up(t, args...)
	labtest.Kubectl(t, l, "", "-n", "istio-system", "wait", "deployment/istiod-canary", "--for=jsonpath={.status.availableReplicas}=2", "--timeout=120s")
	shop := newTenant(t, l)
	t.Run("one revision", func(t *testing.T) { theirRuns(t, m, l, shop) })
	t.Run("autoscaler", func(t *testing.T) { theirAutoscaler(t, m, l) })

	secondRevision(t, l)
	code, said := m.Run(t, "run", labtest.Study(t, dataPlaneOfAGuest), "--yes", "--lab", "cluster", "--kubeconfig", l.Kubeconfig(), "--image", l.Images().Meshtrial, "--out", filepath.Join(t.TempDir(), "run"))
	if code != errs.CodeUsage || !strings.Contains(said, "several istiods, of revisions canary, stable") || !strings.Contains(said, "--revision") {
		t.Errorf("no revision named: exit code %d\n%s", code, said)
	}
	// The tenant's proxies would lose access to what they call, which --yes does not allow.
	config := labtest.Kubectl(t, l, "", "-n", "istio-system", "get", "configmap", "istio-canary", "-o", "jsonpath={.data}")
	code, said = m.Run(t, "run", labtest.Study(t, theirStudies["control plane"]), "--set", "export_to=.", "--revision", "canary", "--yes", "--lab", "cluster", "--kubeconfig", l.Kubeconfig(), "--image", l.Images().Meshtrial, "--out", filepath.Join(t.TempDir(), "run"))
	if code != errs.CodeUsage || !strings.Contains(said, "export_to .:") || !strings.Contains(said, "proxies of other users") || !strings.Contains(said, "--mesh-wide") {
		t.Errorf("a lever that holds for the tenant too: exit code %d\n%s", code, said)
	}
	if after := labtest.Kubectl(t, l, "", "-n", "istio-system", "get", "configmap", "istio-canary", "-o", "jsonpath={.data}"); after != config {
		t.Errorf("refused, and changed:\n%s\n%s", config, after)
	}
	m.Succeeds(t, "assess", "traffic", "--duration", "10s", "--interval", "1s", "--revision", "canary")
	t.Run("two revisions", func(t *testing.T) { theirRuns(t, m, l, shop, "--revision", "prod") }) // canary's tag
}

// theirRuns runs each kind of study and compares everything of theirs with its state before. It
// ignores checks of timing, which a busy machine fails.
func theirRuns(t *testing.T, m labtest.Machine, l *local.Lab, shop *tenant, more ...string) {
	for kind, text := range theirStudies {
		t.Run(kind, func(t *testing.T) {
			before, out := theirObjects(t, l), filepath.Join(t.TempDir(), "run")
			shop.begin(t)
			said := m.Measured(t, append([]string{"run", labtest.Study(t, text), "--yes", "--mesh-wide", "--lab", "cluster", "--kubeconfig", l.Kubeconfig(), "--image", l.Images().Meshtrial, "--out", out}, more...)...)
			run, err := store.Read(out)
			if err != nil || run.Header.Revision != "canary" || len(run.Trials) == 0 {
				t.Fatalf("revision %q, %d trials, %v\n%s", run.Header.Revision, len(run.Trials), err, said)
			}
			for _, trial := range run.Trials {
				for _, c := range trial.Validity.Checks {
					if !c.OK && !slices.Contains(busyChecks, c.Name) && !labtest.OfTheMachine(trial, c) {
						t.Errorf("trial %s: %s: %s", trial.ID, c.Name, c.Detail)
					}
				}
				if trial.Control != nil && !strings.Contains(note.Codes(trial.Validity.Warnings), "others_connected") {
					t.Errorf("trial %s says of the tenant's proxies %q", trial.ID, trial.Validity.Warnings)
				}
			}
			shop.held(t)
			after := theirObjects(t, l)
			for name, want := range before {
				if got, there := after[name]; !there || !fields.Equal(got, want) {
					t.Errorf("%s is not as it was: %v", name, fields.Diff(fields.Own(want), fields.Own(got)))
				}
			}
			for name := range after {
				if before[name] == nil {
					t.Errorf("%s was left behind", name)
				}
			}
			if code, said := m.Run(t, "run", "--resume", out, "--revision", "stable", "--yes", "--lab", "cluster", "--kubeconfig", l.Kubeconfig(), "--image", l.Images().Meshtrial); code != errs.CodeUsage {
				t.Errorf("gone on with on another revision: exit code %d\n%s", code, said)
			}
		})
	}
}

// theirAutoscaler makes istiod's autoscaler act during a control-plane study that leaves it
// alone: the trial is invalid and says why.
func theirAutoscaler(t *testing.T, m labtest.Machine, l *local.Lab) {
	out := filepath.Join(t.TempDir(), "run")
	text := strings.Replace(theirStudies["control plane"], "control: {changes: 2, settle: 20s", "control: {changes: 12, settle: 30s", 1)
	text = strings.Replace(text, "factors: {debounce_after: [installed, 250ms]}", "factors: {change_rate: [0.2]}", 1)
	said, ended := labtest.Background(t, m.Command(t, "run", labtest.Study(t, text), "--yes", "--lab", "cluster", "--kubeconfig", l.Kubeconfig(), "--image", l.Images().Meshtrial, "--out", out))
	scaled(t, l, ended)
	run, err := store.Read(out)
	if err != nil || len(run.Trials) == 0 {
		t.Fatalf("%d trials, %v\n%s", len(run.Trials), err, said)
	}
	for _, trial := range run.Trials {
		named := slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool {
			return c.Name == "istiod-lived" && !c.OK && strings.Contains(c.Detail, "autoscaler istiod-canary")
		})
		if trial.Validity.Valid || !named {
			t.Errorf("trial %s with an autoscaler at work: %+v", trial.ID, trial.Validity)
		}
	}
	labtest.Kubectl(t, l, "", "-n", "istio-system", "wait", "deployment/istiod-canary", "--for=jsonpath={.status.availableReplicas}=2", "--timeout=600s")
}

// busyChecks fail, in addition to those of [labtest.OfTheMachine], on a machine that others use
// too.
var busyChecks = []string{"unattributed", "simulator-lag", "driver-schedule"}

// passing lists kinds whose objects come, go or change on their own.
var passing = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "pods", "replicasets.apps", "endpoints",
	"endpointslices.discovery.k8s.io", "nodes", "ipaddresses.networking.k8s.io", "componentstatuses", "controllerrevisions.apps"}

// theirObjects returns all objects that belong to no run, by kind, namespace and name.
func theirObjects(t *testing.T, l *local.Lab) map[string]map[string]any {
	t.Helper()
	kinds := slices.DeleteFunc(strings.Fields(labtest.Kubectl(t, l, "", "api-resources", "--verbs=list", "-o", "name")), func(kind string) bool {
		return slices.Contains(passing, kind) || strings.Contains(kind, "metrics")
	})
	out := map[string]map[string]any{}
	for _, o := range listed(t, labtest.Kubectl(t, l, "", "get", strings.Join(kinds, ","), "-A", "-o", "json")) {
		ours := func(namespace string) bool {
			return strings.HasPrefix(namespace, "meshtrial-") || strings.HasPrefix(namespace, "mm-")
		}
		if ours(o.GetNamespace()) || o.GetKind() == "Namespace" && ours(o.GetName()) || o.GetLabels()["app.kubernetes.io/part-of"] == "meshtrial" {
			continue
		}
		for _, kept := range []string{"deployment.kubernetes.io/revision", "control-plane.alpha.kubernetes.io/leader"} { // set by controllers
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", kept)
		}
		out[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	return out
}

func listed(t *testing.T, text string) []unstructured.Unstructured {
	t.Helper()
	var list struct {
		Items []map[string]any `json:"items"`
	}
	must.OK(t, json.Unmarshal([]byte(text), &list))
	var out []unstructured.Unstructured
	for _, item := range list.Items {
		out = append(out, unstructured.Unstructured{Object: item})
	}
	return out
}
