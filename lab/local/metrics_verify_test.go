//go:build verify

package local_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
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

// podMetrics is what `kubectl top pods` reads of a pod.
type podMetrics struct {
	Timestamp  time.Time
	Window     metav1.Duration
	Containers []struct {
		Name  string
		Usage map[string]resource.Quantity
	}
}

// `kubectl top` has figures, and they are those of the cgroups; metrics-server may
// do no more than it must; a study beside it runs, and its header says so.
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
	used := follow(t, kubectl(t, "", "-n", "top", "get", "pod", "busy", "-o", "jsonpath={.metadata.uid}"))

	t.Run("figures", func(t *testing.T) { figures(t, used) })
	t.Run("rights", func(t *testing.T) { metricsRights(t, l, status) })
	kubectl(t, "", "delete", "namespace", "top")
	kubectl(t, "", "delete", "node", "played")
	t.Run("a study", func(t *testing.T) { studyBeside(t, b) })
	b.down(t, status.ID)
}

// figures holds what kubectl shows against what cgroups counted.
func figures(t *testing.T, used *counter) {
	var m podMetrics
	eventually.Succeeds(t, 2*time.Minute, "figures of the pod over a time in which it was followed", func() error {
		out, err := tryKubectl("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/top/pods/busy")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		m = podMetrics{}
		if err := json.Unmarshal([]byte(out), &m); err != nil {
			return err
		}
		if len(m.Containers) != 1 || !used.covers(m.Timestamp.Add(-m.Window.Duration), m.Timestamp) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	shown, counted := m.Containers[0].Usage["cpu"], used.cpus(m.Timestamp.Add(-m.Window.Duration), m.Timestamp)
	says := shown.AsApproximateFloat64()
	t.Logf("metrics-server says %.3f CPUs over %v, the cgroup %.3f", says, m.Window.Duration, counted)
	// The time that it gives has whole seconds, and others may use this machine.
	if counted < 0.02 || says < 0.9*counted-0.02 || says > 1.1*counted+0.02 {
		t.Errorf("it says %.3f CPUs, the cgroup counted %.3f", says, counted)
	}
	if memory := m.Containers[0].Usage["memory"]; memory.Value() < 1<<20 || memory.Value() > 1<<30 {
		t.Errorf("it says %s of memory", memory.String())
	}
	// As people see it.
	pod := strings.Fields(kubectl(t, "", "-n", "top", "top", "pod", "busy", "--no-headers"))
	if len(pod) != 3 || pod[0] != "busy" || milli(t, pod[1]) < 20 || milli(t, pod[1]) > 400 {
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

// counter is the CPU time of a pod's cgroup, read ten times a second.
type counter struct {
	mu      sync.Mutex
	at      []time.Time
	seconds []float64
}

// follow reads the cgroup of a pod until the test ends.
func follow(t *testing.T, uid string) *counter {
	t.Helper()
	var file string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() != "pod"+uid {
			return nil // groups come and go meanwhile
		}
		for _, name := range []string{"cpuacct.usage", "cpu.stat"} {
			if _, ok := cpuSeconds(filepath.Join(path, name)); ok {
				file = filepath.Join(path, name)
				return fs.SkipAll
			}
		}
		return fs.SkipDir
	})
	if err != nil || file == "" {
		t.Fatalf("no cgroup of pod %s: %v", uid, err)
	}
	c, stop, ended := &counter{}, make(chan struct{}), make(chan struct{})
	go func() { // ends with the test
		defer close(ended)
		for {
			if seconds, ok := cpuSeconds(file); ok {
				c.mu.Lock()
				c.at, c.seconds = append(c.at, time.Now()), append(c.seconds, seconds)
				c.mu.Unlock()
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return c
}

// cpuSeconds reads cpuacct.usage (nanoseconds) or cpu.stat of the unified hierarchy.
func cpuSeconds(file string) (float64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	if filepath.Base(file) == "cpuacct.usage" {
		ns, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return ns / 1e9, err == nil
	}
	for line := range strings.Lines(string(text)) {
		if us, ok := strings.CutPrefix(strings.TrimSpace(line), "usage_usec "); ok {
			n, err := strconv.ParseFloat(us, 64)
			return n / 1e6, err == nil
		}
	}
	return 0, false
}

// covers says that the counter was read before a and after b.
func (c *counter) covers(a, b time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return a.Before(b) && len(c.at) > 1 && c.at[0].Before(a) && c.at[len(c.at)-1].After(b)
}

// cpus is the use between two moments that the counter covers.
func (c *counter) cpus(a, b time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := func(at time.Time) float64 {
		i := slices.IndexFunc(c.at, func(x time.Time) bool { return x.After(at) })
		part := at.Sub(c.at[i-1]).Seconds() / c.at[i].Sub(c.at[i-1]).Seconds()
		return c.seconds[i-1] + part*(c.seconds[i]-c.seconds[i-1])
	}
	return (read(b) - read(a)) / b.Sub(a).Seconds()
}
