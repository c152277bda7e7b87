//go:build integration || verify

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// callGraph is a tree of services that call one another, spread over namespaces. Their servers
// accept only mutual TLS, so a call to a host that a scope leaves out fails. Of the last two
// services, one is called once, by hand, and the other never.
type callGraph struct {
	t          *testing.T
	lab        *local.Lab
	services   int
	pods       int
	namespaces int
}

// newCallGraph runs a call graph. MESHTRIAL_GENERATE_SERVICES is the number of services.
// MESHTRIAL_GENERATE_PODS is the number of pods, each with a sidecar; a pod may then have several
// services, each in its own container and on its own port.
func newCallGraph(t *testing.T) callGraph {
	t.Helper()
	g := callGraph{t: t, lab: labtest.Start(t), namespaces: 4}
	g.services = fromEnvironment(t, "MESHTRIAL_GENERATE_SERVICES", 20)
	g.pods = min(fromEnvironment(t, "MESHTRIAL_GENERATE_PODS", g.services), g.services)
	if g.pods < g.services && g.pods%g.namespaces != 0 {
		t.Fatalf("MESHTRIAL_GENERATE_PODS=%d: want a multiple of %d", g.pods, g.namespaces)
	}
	var b strings.Builder
	for i := range g.namespaces {
		labtest.Namespace(t, g.lab, fmt.Sprintf("gen-%d", i))
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: gen-%d, labels: {istio-injection: enabled}}\n", i)
		fmt.Fprintf(&b, "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: gen-%d}\nspec: {mtls: {mode: STRICT}}\n", i)
	}
	for i := range g.services {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: %s}
spec: {selector: {app: %s}, ports: [{name: http, port: 8080, targetPort: %d}]}
`, g.name(i), g.namespace(i), g.name(i%g.pods), workerPort(i/g.pods))
	}
	for i := range g.pods {
		fmt.Fprintf(&b, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {proxy.istio.io/config: "concurrency: 1", sidecar.istio.io/proxyCPU: 10m}}
    spec: {terminationGracePeriodSeconds: 1, containers: [%[3]s]}
`, g.name(i), g.namespace(i), strings.Join(g.containers(i), ", "))
	}
	b.WriteString(g.hidden())
	g.kubectl(b.String(), "apply", "-f", "-")
	for i := range g.pods {
		g.kubectl("", "-n", g.namespace(i), "rollout", "status", "deployment/"+g.name(i), "--timeout=300s")
	}
	return g
}

func fromEnvironment(t *testing.T, name string, preset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return preset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 8 {
		t.Fatalf("%s=%s: must be a number from 8", name, text)
	}
	return n
}

// containers returns the workers of a pod, one for each of its services.
func (g callGraph) containers(pod int) (out []string) {
	for k, i := 0, pod; i < g.services; k, i = k+1, i+g.pods {
		behaviour, err := json.Marshal(map[string]any{"calls": g.calls(i), "response_bytes": 100})
		must.OK(g.t, err)
		name, more := "worker", ""
		if k > 0 { // the first worker has the default ports
			name = fmt.Sprintf("worker-%d", k)
			more = fmt.Sprintf(", --http, %q, --control, %q, --health, %q", fmt.Sprintf(":%d", workerPort(k)), fmt.Sprintf("127.0.0.1:%d", 15800+k), fmt.Sprintf(":%d", 15900+k))
			for _, e := range protocol.Endpoints() {
				if e.Flag != "http" {
					more += fmt.Sprintf(", --%s, %q", e.Flag, off)
				}
			}
		}
		out = append(out, fmt.Sprintf(`{name: %s, image: "docker.io/meshtrial/meshtrial:lab", imagePullPolicy: IfNotPresent, args: [worker, --config, %q%s]}`, name, behaviour, more))
	}
	return out
}

// workerPort returns the port of the k-th service of a pod. The first worker uses several ports
// after its own.
func workerPort(k int) int {
	if k == 0 {
		return 8080
	}
	return 8090 + k
}

// hidden returns objects for hosts that the root calls and that no counter names: an alias of a
// Service in another namespace, and a Service whose requests go where a delegate of its
// VirtualService sends them.
func (g callGraph) hidden() string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: %[5]s}
spec: {type: ExternalName, externalName: %[2]s, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: routed, namespace: %[1]s}
spec: {selector: {app: nobody}, ports: [{name: http, port: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: routed, namespace: %[3]s}
spec: {hosts: [routed.%[1]s.svc.cluster.local], http: [{delegate: {name: part, namespace: %[4]s}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: part, namespace: %[4]s}
spec: {http: [{route: [{destination: {host: %[2]s}}]}]}
`, g.namespace(1), g.host(g.aliased()), g.namespace(2), g.namespace(3), g.aliasNamespace())
}

// aliased returns the service behind the hidden hosts.
func (g callGraph) aliased() int { return g.services - 3 }

// aliasNamespace returns a namespace other than that of the aliased service.
func (g callGraph) aliasNamespace() string { return g.namespace(g.aliased() + 1) }

// hiddenHosts returns the hidden hosts that the root calls, and the egress hosts that admit them
// in a Sidecar.
func (g callGraph) hiddenHosts() (called, let []string) {
	alias, routed := "alias."+g.aliasNamespace()+".svc.cluster.local", "routed."+g.namespace(1)+".svc.cluster.local"
	of := g.namespace(g.aliased())
	return []string{alias, routed}, []string{of + "/" + g.host(g.aliased()), of + "/" + alias, g.namespace(1) + "/" + routed, g.namespace(2) + "/" + routed}
}

func (g callGraph) name(i int) string      { return fmt.Sprintf("s%02d", i) }
func (g callGraph) namespace(i int) string { return fmt.Sprintf("gen-%d", i%g.namespaces) }
func (g callGraph) rare() int              { return g.services - 2 }
func (g callGraph) host(i int) string {
	return fmt.Sprintf("%s.%s.svc.cluster.local", g.name(i), g.namespace(i))
}

// children returns the services that a service calls.
func (g callGraph) children(i int) (out []int) {
	for _, child := range []int{2*i + 1, 2*i + 2} {
		if child < g.services-2 && i < g.services-2 {
			out = append(out, child)
		}
	}
	return out
}

func (g callGraph) calls(i int) []map[string]any {
	out := []map[string]any{}
	for _, child := range g.children(i) {
		out = append(out, map[string]any{"name": g.name(child), "url": "http://" + g.host(child) + ":8080/", "protocol": "http1"})
	}
	if called, _ := g.hiddenHosts(); i == 0 {
		for _, host := range called {
			out = append(out, map[string]any{"name": strings.SplitN(host, ".", 2)[0], "url": "http://" + host + ":8080/", "protocol": "http1"})
		}
	}
	return out
}

func (g callGraph) kubectl(input string, args ...string) string {
	g.t.Helper()
	return labtest.Kubectl(g.t, g.lab, input, args...)
}

// loaded is the result of a load in a pod.
type loaded struct {
	Scheduled  int64            `json:"scheduled"`
	Completed  int64            `json:"completed"`
	Unfinished int64            `json:"unfinished"`
	Failed     map[string]int64 `json:"failed"`
	Latency    record.Latency   `json:"latency_send_us"`
	Wait       record.Latency   `json:"connection_wait_us"`
}

// load sends requests from the pod of one service to another, in the background.
func (g callGraph) load(from, to int, rate float64, lasting time.Duration) func() loaded {
	g.t.Helper()
	state := filepath.Dir(g.lab.Kubeconfig())
	cmd := exec.Command(filepath.Join(local.ToolsDir(state), "kubectl"), "-n", g.namespace(from), "exec", "deployment/"+g.name(from), "-c", "worker", "--",
		"/usr/local/bin/meshtrial", "load", "http://"+g.host(to)+":8080/", "--rate", fmt.Sprint(rate), "--arrival", "uniform", "--connections", "16", "--duration", lasting.String(), "--json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.lab.Kubeconfig())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	must.OK(g.t, cmd.Start())
	return func() (l loaded) {
		g.t.Helper()
		err := cmd.Wait()
		if json.Unmarshal(out.Bytes(), &l) != nil {
			g.t.Fatalf("load: %v\n%s%s", err, out.String(), said.String())
		}
		return l
	}
}

// whole fails the test unless every request was answered.
func (g callGraph) whole(l loaded, when string) {
	g.t.Helper()
	if l.Scheduled == 0 || l.Completed != l.Scheduled || l.Unfinished != 0 {
		g.t.Errorf("%s: of %d requests %d were answered; failed: %v, unfinished: %d", when, l.Scheduled, l.Completed, l.Failed, l.Unfinished)
	}
	g.t.Logf("%s: %d requests, all answered: %v; half took %.0f ms, the longest %.0f ms; waited for a connection: half %.0f ms, the longest %.0f ms",
		when, l.Scheduled, l.Completed == l.Scheduled, l.Latency.At(0.5)/1000, l.Latency.Max()/1000, l.Wait.At(0.5)/1000, l.Wait.Max()/1000)
}

// scope reads the sidecars of the graph.
func (g callGraph) scope() scope.Report {
	t := g.t
	t.Helper()
	var all scope.Report
	must.OK(t, json.Unmarshal([]byte(g.run("assess", "config", "--proxies", "0", "--top", "0", "--json")), &all))
	var own []scope.Proxy
	for _, p := range all.Proxies {
		if strings.HasPrefix(p.Name, "gen-") {
			own = append(own, p)
		}
	}
	if len(own) != g.pods {
		t.Fatalf("%d sidecars, want %d", len(own), g.pods)
	}
	return scope.Merge(own, 0)
}

// generate makes Sidecars from the counters of the lab's proxies.
func (g callGraph) generate(to string, more ...string) generate.Result {
	g.t.Helper()
	g.t.Log(g.run(append([]string{"assess", "config", "--generate", to, "--top", "0", "--watched", "0"}, more...)...))
	var r generate.Result
	data, err := os.ReadFile(filepath.Join(to, fileReport))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	must.OK(g.t, err)
	return r
}

// run returns a command's output.
func (g callGraph) run(args ...string) string {
	g.t.Helper()
	out, _ := succeeds(g.t, args...)
	return out
}

// handMade returns Sidecars as someone who knows the graph would write them: each allows exactly
// the calls of its workload.
func (g callGraph) handMade() string {
	var b strings.Builder
	for i := range g.pods {
		hosts := []string{}
		for of := i; of < g.services; of += g.pods {
			for _, child := range g.children(of) {
				hosts = append(hosts, fmt.Sprintf("%q", g.namespace(child)+"/"+g.host(child)))
			}
		}
		if i == 0 {
			hosts = append(hosts, fmt.Sprintf("%q", g.namespace(g.rare())+"/"+g.host(g.rare())))
			_, let := g.hiddenHosts()
			for _, host := range let {
				hosts = append(hosts, fmt.Sprintf("%q", host))
			}
		}
		if len(hosts) == 0 {
			hosts = []string{`"~/*"`}
		}
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: %[1]s, namespace: %[2]s}\nspec: {workloadSelector: {labels: {app: %[1]s}}, egress: [{hosts: [%[3]s]}]}\n",
			g.name(i), g.namespace(i), strings.Join(hosts, ", "))
	}
	return b.String()
}
