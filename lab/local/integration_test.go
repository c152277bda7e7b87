//go:build integration

package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshmark/meshmark/components"
	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/internal/leakcheck"
	"github.com/meshmark/meshmark/lab"
	"github.com/meshmark/meshmark/lab/cluster"
	"github.com/meshmark/meshmark/lab/local"
)

// bench is a machine's worth of tools for these tests: the meshmark program
// and a state folder of its own.
type bench struct {
	program string
	state   string
	before  *leakcheck.Snapshot
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a local lab takes root")
	}
	program := os.Getenv("MESHMARK_PROGRAM")
	if program == "" {
		program, _ = filepath.Abs("../../bin/meshmark")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no meshmark program: %v; `make build` makes it", err)
	}
	source, err := filepath.Abs("../../components/src")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MESHMARK_SOURCE", source)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	b := &bench{program: program, state: filepath.Join(os.Getenv("XDG_STATE_HOME"), "meshmark", "lab")}
	if b.before, err = leakcheck.Take(b.leaks()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // whatever a test did, its lab goes
		if _, err := local.Down(context.Background(), ""); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
	})
	return b
}

// leaks looks for what labs with these ids could leave.
func (b *bench) leaks(ids ...string) leakcheck.Options {
	only := []string{b.state}
	for _, id := range ids {
		only = append(only, "meshmark-"+id)
	}
	return leakcheck.Options{Only: only}
}

// meshmark runs the program and returns its exit code and output.
func (b *bench) meshmark(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := exec.Command(b.program, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// up starts a lab with the program.
func (b *bench) up(t *testing.T, args ...string) *local.Lab {
	t.Helper()
	began := time.Now()
	if code, out := b.meshmark(t, append([]string{"lab", "up"}, args...)...); code != 0 {
		t.Fatalf("lab up: exit code %d\n%s", code, out)
	}
	l, err := local.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab up in %.1f s, the command took %.1f s", l.UpTime().Seconds(), time.Since(began).Seconds())
	return l
}

// down takes the lab down with the program and checks that nothing is left.
func (b *bench) down(t *testing.T, ids ...string) {
	t.Helper()
	began := time.Now()
	if code, out := b.meshmark(t, "lab", "down"); code != 0 {
		t.Fatalf("lab down: exit code %d\n%s", code, out)
	}
	t.Logf("lab down in %.1f s", time.Since(began).Seconds())
	leakcheck.Check(t, b.before, b.leaks(ids...), 2*time.Second)
	left, err := os.ReadDir(b.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if entry.Name() != "lock" {
			t.Errorf("left in the state folder: %s", entry.Name())
		}
	}
}

// kubectl runs the lab's kubectl.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryKubectl(stdin string, args ...string) (string, error) {
	status, err := local.GetStatus("")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(local.ToolsDir(""), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+status.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// eventually repeats check until it succeeds.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %s: %v", what, limit, err)
}

// serverYAML is a Deployment and Service that answer "hello" on port 8080:
// the sidecar's own Envoy with a configuration of its own.
func serverYAML(images lab.Images) string {
	return strings.ReplaceAll(`
apiVersion: v1
kind: ConfigMap
metadata: {name: server}
data:
  envoy.yaml: |
    admin: {address: {socket_address: {address: 127.0.0.1, port_value: 15000}}}
    static_resources:
      listeners:
      - address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
        filter_chains:
        - filters:
          - name: http
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
              stat_prefix: in
              http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
              route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: hello}}}]}]}
---
apiVersion: v1
kind: Secret
metadata: {name: word}
stringData: {word: sesame}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: server
        image: PROXY
        command: [/usr/local/bin/envoy, -c, /config/envoy.yaml, --concurrency, "1"]
        volumeMounts:
        - {name: config, mountPath: /config}
        - {name: scratch, mountPath: /scratch}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
      volumes:
      - name: config
        projected: {sources: [{configMap: {name: server}}, {secret: {name: word}}]}
      - name: scratch
        emptyDir: {}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
`, "PROXY", images.Proxy)
}

// TestLab goes through what a user expects of a lab, on one lab.
func TestLab(t *testing.T) {
	b := newBench(t)
	l := b.up(t)
	status, err := local.GetStatus("")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()

	t.Run("a second lab", func(t *testing.T) {
		code, out := b.meshmark(t, "lab", "up")
		if code != errs.CodeUsage || !strings.Contains(out, status.ID) {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("files are the owner's alone", func(t *testing.T) {
		filepath.WalkDir(b.state, func(path string, entry os.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			info, err := entry.Info()
			if err == nil && entry.IsDir() && path == filepath.Join(b.state, status.ID) && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			if path == filepath.Join(b.state, "kubeconfig") && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		})
		data, err := os.ReadFile(l.Kubeconfig())
		if err != nil || bytes.Contains(data, []byte("insecure")) {
			t.Errorf("kubeconfig: %v\n%s", err, data)
		}
	})
	t.Run("the host is as it was", func(t *testing.T) {
		now, err := leakcheck.Take(b.leaks(status.ID))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range now.New(b.before) {
			kind, _, _ := strings.Cut(found, " ")
			switch kind {
			case "process", "namespace", "cgroup": // the lab's own
			case "interface", "route":
				if !strings.HasSuffix(found, "meshmark-"+status.ID) {
					t.Error(found)
				}
			default: // a listener, a mount, a rule, a file
				t.Error(found)
			}
		}
	})
	t.Run("strangers are refused", func(t *testing.T) {
		config := l.RESTConfig()
		config.CertData, config.KeyData = nil, nil
		stranger, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stranger.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
			t.Error("a client without a certificate could list nodes")
		}
	})
	t.Run("names", func(t *testing.T) { names(t, ctx) })
	t.Run("workloads", func(t *testing.T) { workloads(t, ctx, l, client) })
	t.Run("sidecars", func(t *testing.T) { sidecars(t, ctx, l, client) })
	t.Run("istioctl", func(t *testing.T) { proxyStatus(t, ctx, l) })
	t.Run("simulated node", func(t *testing.T) { simulatedNode(t) })
	t.Run("as a stranger's cluster", func(t *testing.T) { strangersCluster(t, ctx, l) })
	b.down(t, status.ID)
}

// names asks the lab's DNS, from the host, through its cluster IP.
func names(t *testing.T, ctx context.Context) {
	status, err := local.GetStatus("")
	if err != nil {
		t.Fatal(err)
	}
	server := strings.Replace(status.Services, ".0.0/16", ".0.10:53", 1)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server)
	}}
	for name, want := range map[string]string{
		"kubernetes.default.svc.cluster.local.": strings.Replace(status.Services, ".0.0/16", ".0.1", 1),
		"www.example.com.":                      "203.0.113.1",
		"any.slow.test.":                        "192.0.2.53",
	} {
		began := time.Now()
		got, err := resolver.LookupNetIP(ctx, "ip4", name)
		if err != nil || len(got) != 1 || got[0].Unmap().String() != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if took := time.Since(began); strings.Contains(name, "slow") && took < time.Second {
			t.Errorf("%s answered after %s, which is not slow", name, took)
		}
	}
	if got, err := resolver.LookupHost(ctx, "any.fail.test."); err == nil {
		t.Errorf("any.fail.test: %v", got)
	}
	if got, err := resolver.LookupHost(ctx, "none.default.svc.cluster.local."); err == nil {
		t.Errorf("a Service that is not: %v", got)
	}
}

func workloads(t *testing.T, ctx context.Context, l *local.Lab, client kubernetes.Interface) {
	kubectl(t, serverYAML(l.Images()), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "deploy/server", "--timeout=60s")
	service, err := client.CoreV1().Services("default").Get(ctx, "server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the cluster IP answers from the host", func() error {
		return wantBody("http://" + service.Spec.ClusterIP + "/")
	})
	kubectl(t, "", "scale", "deploy/server", "--replicas=3")
	kubectl(t, "", "rollout", "restart", "deploy/server")
	kubectl(t, "", "rollout", "status", "deploy/server", "--timeout=60s")
	if out := kubectl(t, "", "exec", "deploy/server", "--", "/usr/local/bin/envoy", "--version"); !strings.Contains(out, "version") {
		t.Errorf("exec: %s", out)
	}
	if out := kubectl(t, "", "logs", "deploy/server"); !strings.Contains(out, "starting main dispatch loop") {
		t.Errorf("logs: %.500s", out)
	}
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=server"})
	if err != nil {
		t.Fatal(err)
	}
	dialer := lab.NewDialer(l.RESTConfig())
	defer dialer.Close()
	for _, pod := range pods.Items {
		if !lab.PodReady(&pod) {
			continue
		}
		web := dialer.Client(pod.Namespace, pod.Name, 15000)
		web.Timeout = 10 * time.Second
		for range 3 {
			response, err := web.Get("http://pod/ready")
			if err != nil {
				t.Fatalf("port-forward to Envoy's admin port: %v", err)
			}
			response.Body.Close()
		}
		nobody := dialer.Client(pod.Namespace, pod.Name, 9)
		nobody.Timeout = 10 * time.Second
		if _, err := nobody.Get("http://pod/"); err == nil || !strings.Contains(err.Error(), pod.Name) {
			t.Errorf("a port on which nothing listens: %v", err)
		}
	}
	kubectl(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template: {metadata: {labels: {app: everywhere}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "docker.io/meshmark/pause:1"}]}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec: {capacity: {storage: 1Mi}, accessModes: [ReadWriteOnce], storageClassName: "", hostPath: {path: %s}, claimRef: {namespace: default, name: claim}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: volume, resources: {requests: {storage: 1Mi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: %s, command: [/usr/local/bin/envoy, --version], volumeMounts: [{name: v, mountPath: /v}]}
      volumes: [{name: v, persistentVolumeClaim: {claimName: claim}}]
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere}
spec: {containers: [{name: c, image: "registry.invalid/nothing:1"}]}
`, t.TempDir(), l.Images().Proxy), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "ds/everywhere", "--timeout=60s")
	kubectl(t, "", "wait", "--for=condition=Complete", "job/once", "--timeout=60s")
	if out := kubectl(t, "", "logs", "job/once"); !strings.Contains(out, "version") {
		t.Errorf("the job's log: %s", out)
	}
	eventually(t, 30*time.Second, "an image that cannot be pulled shows in events", func() error {
		out, err := tryKubectl("", "get", "events", "--field-selector", "involvedObject.name=nowhere")
		if err == nil && (!strings.Contains(out, "ErrImagePull") && !strings.Contains(out, "Failed to pull image")) {
			err = errors.New(out)
		}
		return err
	})
	kubectl(t, "", "delete", "pod/nowhere", "job/once", "ds/everywhere", "--wait=false")
}

func wantBody(url string) error {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && string(body) != "hello" {
		err = fmt.Errorf("%s: %q", response.Status, body)
	}
	return err
}

func sidecars(t *testing.T, ctx context.Context, l *local.Lab, client kubernetes.Interface) {
	kubectl(t, "", "create", "namespace", "meshed")
	kubectl(t, "", "label", "namespace", "meshed", "istio-injection=enabled")
	kubectl(t, serverYAML(l.Images()), "apply", "-n", "meshed", "-f", "-")
	// The server's admin port is the sidecar's too: it gets another.
	kubectl(t, "", "patch", "-n", "meshed", "cm/server", "--type=json", "-p",
		`[{"op":"replace","path":"/data/envoy.yaml","value":`+noAdmin(l)+`}]`)
	kubectl(t, "", "rollout", "restart", "-n", "meshed", "deploy/server")
	kubectl(t, "", "rollout", "status", "-n", "meshed", "deploy/server", "--timeout=90s")
	pods, err := client.CoreV1().Pods("meshed").List(ctx, metav1.ListOptions{LabelSelector: "app=server", FieldSelector: "status.phase=Running"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("pods: %v", err)
	}
	name := pods.Items[len(pods.Items)-1].Name
	if out := kubectl(t, "", "exec", "-n", "meshed", name, "-c", "istio-proxy", "--", "pilot-agent", "request", "GET", "server_info"); !strings.Contains(out, "LIVE") {
		t.Errorf("the sidecar: %.300s", out)
	}
}

// proxyStatus looks at the mesh as Istio's users do.
func proxyStatus(t *testing.T, ctx context.Context, l *local.Lab) {
	builder, err := components.New(components.Options{})
	if err != nil {
		t.Fatal(err)
	}
	status, err := builder.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(status, func(s components.Status) bool { return s.Name == "istioctl" && s.Cached }) {
		t.Skip("istioctl is not built: meshmark components build istioctl")
	}
	set, err := builder.Ensure(ctx, "istioctl")
	if err != nil {
		t.Fatal(err)
	}
	program, _ := set.Program("istioctl")
	cmd := exec.CommandContext(ctx, program.Path, "--kubeconfig", l.Kubeconfig(), "proxy-status")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), ".meshed") {
		t.Errorf("istioctl proxy-status: %v\n%s", err, out)
	}
}

// noAdmin is the server's configuration without an admin port, as JSON.
func noAdmin(l *local.Lab) string {
	text := serverYAML(l.Images())
	_, text, _ = strings.Cut(text, "envoy.yaml: |\n")
	text, _, _ = strings.Cut(text, "---")
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimPrefix(line, "    "); !strings.HasPrefix(line, "admin:") {
			lines = append(lines, line)
		}
	}
	data, _ := json.Marshal(strings.Join(lines, "\n"))
	return string(data)
}

func simulatedNode(t *testing.T) {
	kubectl(t, `
apiVersion: v1
kind: Node
metadata: {name: kwok-0, annotations: {kwok.x-k8s.io/node: fake}, labels: {type: kwok}}
spec: {taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]}
---
apiVersion: v1
kind: Pod
metadata: {name: simulated}
spec:
  nodeSelector: {type: kwok}
  tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
  containers: [{name: c, image: "registry.invalid/any:1"}]
`, "apply", "-f", "-")
	kubectl(t, "", "wait", "--for=condition=Ready", "node/kwok-0", "--timeout=20s")
	kubectl(t, "", "wait", "--for=condition=Ready", "pod/simulated", "--timeout=20s")
	kubectl(t, "", "delete", "pod/simulated", "node/kwok-0", "--timeout=20s")
}

func strangersCluster(t *testing.T, ctx context.Context, l *local.Lab) {
	c, err := cluster.Open(ctx, cluster.Options{Kubeconfig: l.Kubeconfig(), Images: l.Images()})
	if err != nil {
		t.Fatal(err)
	}
	if c.Kind() != lab.KindCluster || c.ServerVersion() == "" {
		t.Errorf("kind %s, version %s", c.Kind(), c.ServerVersion())
	}
	_, err = cluster.Open(ctx, cluster.Options{Kubeconfig: l.Kubeconfig(), Context: "nowhere"})
	if errs.Code(err) != errs.CodeUsage {
		t.Errorf("an unknown context: %v", err)
	}
	// A user who may only look.
	kubectl(t, "", "create", "serviceaccount", "guest")
	kubectl(t, "", "create", "clusterrolebinding", "guest", "--clusterrole=view", "--serviceaccount=default:guest")
	token := strings.TrimSpace(kubectl(t, "", "create", "token", "guest"))
	data, err := os.ReadFile(l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(guest, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"config", "set-credentials", "guest", "--token=" + token}, {"config", "set-context", "meshmark", "--user=guest"}} {
		kubectl(t, "", append([]string{"--kubeconfig=" + guest}, args...)...)
	}
	_, err = cluster.Open(ctx, cluster.Options{Kubeconfig: guest})
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(fmt.Sprint(err), "create, patch, delete deployments.apps") || !strings.Contains(fmt.Sprint(err), "namespaces") {
		t.Errorf("a user without rights: %v", err)
	}
}
