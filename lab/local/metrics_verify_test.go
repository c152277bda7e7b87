//go:build verify

package local_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
)

// busyYAML is a pod that may use 0.3 of a CPU, and uses them: it asks another as
// often as it can.
const busyYAML = `
apiVersion: v1
kind: Service
metadata: {name: server, namespace: top}
spec: {selector: {app: server}, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: top, labels: {app: server}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: server, image: IMAGE, args: [worker, --http, ":8080"], resources: {limits: {cpu: 300m}, requests: {cpu: 10m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: busy, namespace: top}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: busy
    image: IMAGE
    args: [load, "http://$(SERVER_SERVICE_HOST):8080/", --rate, max, --connections, "4", --duration, 20m]
    resources: {limits: {cpu: 300m}, requests: {cpu: 10m}}
`

// playedYAML is a node that kwok plays.
const playedYAML = `
apiVersion: v1
kind: Node
metadata: {name: played, annotations: {kwok.x-k8s.io/node: fake}}
spec: {taints: [{key: played, effect: NoSchedule}]}
`

// `kubectl top` has figures; metrics-server may do no more than it must; a study beside it
// runs, and its header says so.
func TestKubectlTop(t *testing.T) {
	b := newBench(t)
	l := b.up(t, "--mesh", "none", "--metrics-server")
	status, err := local.GetStatus("")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(status.Components, func(c local.ComponentStatus) bool { return c.Name == "metrics-server" })
	if at < 0 || status.Components[at].PID == 0 || status.Components[at].Restarts > 0 {
		t.Errorf("metrics-server has not simply started: %+v", status.Components)
	}
	objects := strings.Split(strings.ReplaceAll(busyYAML, "IMAGE", l.Images().Meshtrial), "\n---\n")
	kubectl(t, "", "create", "namespace", "top")
	kubectl(t, playedYAML, "apply", "-f", "-")
	kubectl(t, "", "wait", "--for=condition=Ready", "node/played", "--timeout=60s")
	kubectl(t, strings.Join(objects[:2], "\n---\n"), "apply", "-f", "-")
	kubectl(t, "", "-n", "top", "wait", "--for=condition=Ready", "pod/server", "--timeout=60s")
	kubectl(t, objects[2], "apply", "-f", "-")
	kubectl(t, "", "-n", "top", "wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")
	t.Run("figures", figures)
	t.Run("rights", func(t *testing.T) { metricsRights(t, l, status) })
	kubectl(t, "", "delete", "namespace", "top")
	kubectl(t, "", "delete", "node", "played")
	t.Run("a study", func(t *testing.T) { studyBeside(t, b) })
	b.down(t, status.ID)
}

// figures are there within two minutes, and are of the pod's limit and of the real node.
func figures(t *testing.T) {
	var pod []string
	eventually.Succeeds(t, 2*time.Minute, "figures of a pod that is busy", func() error {
		out, err := tryKubectl("", "-n", "top", "top", "pod", "busy", "--no-headers")
		if pod = strings.Fields(out); err != nil || len(pod) != 3 || milli(t, pod[1]) < 20 {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
	if pod[0] != "busy" || milli(t, pod[1]) > 400 || !strings.HasSuffix(pod[2], "Mi") {
		t.Errorf("kubectl top pod: %v", pod)
	}
	node := strings.Fields(kubectl(t, "", "top", "node", "lab", "--no-headers"))
	if len(node) != 5 || node[0] != "lab" || milli(t, node[1]) < milli(t, pod[1])*3/4 || milli(t, node[1]) > 1050*runtime.NumCPU() {
		t.Errorf("kubectl top node: %v, of which the pod %v", node, pod)
	}
	var nodes struct {
		Items []struct{ Metadata metav1.ObjectMeta }
	}
	if err := json.Unmarshal([]byte(kubectl(t, "", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")), &nodes); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Metadata.Name != "lab" {
		t.Errorf("it has figures of %+v (%v), not of the one real node alone", nodes.Items, err)
	}
	if all := kubectl(t, "", "top", "pods", "--all-namespaces", "--no-headers"); !strings.Contains(all, "coredns-") || !strings.Contains(all, "busy") {
		t.Errorf("kubectl top pods: %s", all)
	}
}

// milli reads thousandths of CPUs as kubectl writes them: 250m.
func milli(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(text, "m"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// metricsRights has metrics-server refuse strangers, and the API server refuse
// metrics-server what it needs not.
func metricsRights(t *testing.T, l *local.Lab, status *local.Status) {
	for question, want := range map[string]string{
		"get nodes --subresource=metrics": "yes", "watch pods -A": "yes", "create subjectaccessreviews.authorization.k8s.io": "yes",
		"get nodes --subresource=proxy": "no", "get secrets -A": "no", "list configmaps -A": "no", "create pods -A": "no", "delete nodes": "no",
	} {
		out, _ := tryKubectl("", append([]string{"auth", "can-i", "--as=metrics-server"}, strings.Fields(question)...)...)
		if lines := strings.Fields(out); len(lines) == 0 || lines[len(lines)-1] != want {
			t.Errorf("can metrics-server %s: %q, want %s", question, out, want)
		}
	}
	if out := kubectl(t, "", "get", "apiservice", "v1beta1.metrics.k8s.io", "-o", "jsonpath={.spec.insecureSkipTLSVerify}"); out == "true" {
		t.Error("the API server does not verify its certificate")
	}
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: l.RESTConfig().CAData}})
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("https://" + status.Node + ":4443/apis/metrics.k8s.io/v1beta1/nodes")
	if err != nil {
		t.Fatalf("its certificate is not of the lab's authority: %v", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger who asks it gets %s", response.Status)
	}
}

func studyBeside(t *testing.T, b *bench) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "beside.yaml"), filepath.Join(dir, "run")
	if err := os.WriteFile(file, []byte(`
name: beside
question: Does a study run beside metrics-server?
mesh: none
settings: {rate: 100, connections: 4, payload: 100B}
factors: {planted: [none, nothing]}
baseline: {planted: none}
warmup: {min: 200ms, max: 400ms}
window: 500ms
interval: 100ms
blocks: {min: 2, max: 2, limit: 20m}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	// Whether its trials are valid depends on what else this machine does.
	if code, said := b.Run(t, "run", file, "--out", out); code != 0 && code != 4 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	for name, want := range map[string]string{"machine.json": "metrics-server runs in the lab", "findings.json": "metrics-server runs in the lab", "trials.jsonl": `"others"`} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s (%v) says nothing of %s:\n%s", name, err, want, text)
		}
	}
}
