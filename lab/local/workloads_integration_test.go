//go:build integration

package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	_ "github.com/meshtrial/meshtrial/mesh/meshes" // their rights
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

func workloads(t *testing.T, ctx context.Context, l *local.Lab, client kubernetes.Interface) {
	kubectl(t, serverYAML(l.Images()), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "deploy/server", "--timeout=180s")
	service, err := client.CoreV1().Services("default").Get(ctx, "server", metav1.GetOptions{})
	must.OK(t, err)
	eventually.Succeeds(t, time.Minute, "the cluster IP answers from the host", func() error {
		return hello("http://" + service.Spec.ClusterIP + "/")
	})
	kubectl(t, "", "scale", "deploy/server", "--replicas=3")
	kubectl(t, "", "rollout", "restart", "deploy/server")
	kubectl(t, "", "rollout", "status", "deploy/server", "--timeout=180s")
	pods := staying(t, ctx, client, "default")
	if out := kubectl(t, "", "exec", pods[0].Name, "--", "/usr/local/bin/envoy", "--version"); !strings.Contains(out, "version") {
		t.Errorf("exec: %s", out)
	}
	eventually.Succeeds(t, time.Minute, "what the pod writes is its log", func() error {
		out, err := tryKubectl("", "logs", pods[0].Name)
		if err == nil && !strings.Contains(out, "starting main dispatch loop") {
			err = fmt.Errorf("logs: %.500s", out)
		}
		return err
	})
	dialer := lab.NewDialer(l.RESTConfig())
	defer dialer.Close()
	for _, pod := range pods {
		web := dialer.Client(pod.Namespace, pod.Name, 15000)
		web.Timeout = time.Minute
		for range 3 {
			response, err := web.Get("http://pod/ready")
			if err != nil {
				t.Fatalf("port-forward to Envoy's admin port: %v", err)
			}
			response.Body.Close()
		}
		nobody := dialer.Client(pod.Namespace, pod.Name, 9)
		nobody.Timeout = time.Minute
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
  template: {metadata: {labels: {app: everywhere}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "docker.io/meshtrial/pause:1"}]}}
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
`, t.TempDir(), l.Images().Meshes["istio"]["proxy"]), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "ds/everywhere", "--timeout=180s")
	kubectl(t, "", "wait", "--for=condition=Complete", "job/once", "--timeout=180s")
	if out := kubectl(t, "", "logs", "job/once"); !strings.Contains(out, "version") {
		t.Errorf("the job's log: %s", out)
	}
	eventually.Succeeds(t, 2*time.Minute, "an image that cannot be pulled shows in events", func() error {
		out, err := tryKubectl("", "get", "events", "--field-selector", "involvedObject.name=nowhere")
		if err == nil && (!strings.Contains(out, "ErrImagePull") && !strings.Contains(out, "Failed to pull image")) {
			err = errors.New(out)
		}
		return err
	})
	kubectl(t, "", "delete", "pod/nowhere", "job/once", "ds/everywhere", "--wait=false")
}

// staying returns the server's ready pods that no rollout is about to end. Pods
// from before a restart keep running while they drain, and their containers end
// one by one.
func staying(t *testing.T, ctx context.Context, client kubernetes.Interface, namespace string) []corev1.Pod {
	t.Helper()
	var left []corev1.Pod
	eventually.Succeeds(t, time.Minute, "a pod that stays", func() error {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=server"})
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !lab.PodReady(&p) })
		if len(left) == 0 {
			return fmt.Errorf("none of %d pods", len(pods.Items))
		}
		return nil
	})
	return left
}

func sidecars(t *testing.T, ctx context.Context, l *local.Lab, client kubernetes.Interface) {
	// With its label from the beginning: an API server that has seen the
	// namespace without it takes a while to request sidecars.
	kubectl(t, `{apiVersion: v1, kind: Namespace, metadata: {name: meshed, labels: {istio-injection: enabled}}}`, "apply", "-f", "-")
	kubectl(t, serverYAML(l.Images()), "apply", "-n", "meshed", "-f", "-")
	// The server's admin port is also the sidecar's, so it gets another.
	kubectl(t, "", "patch", "-n", "meshed", "cm/server", "--type=json", "-p",
		`[{"op":"replace","path":"/data/envoy.yaml","value":`+noAdmin(l)+`}]`)
	kubectl(t, "", "rollout", "restart", "-n", "meshed", "deploy/server")
	kubectl(t, "", "rollout", "status", "-n", "meshed", "deploy/server", "--timeout=180s")
	name := staying(t, ctx, client, "meshed")[0].Name
	if out := kubectl(t, "", "exec", "-n", "meshed", name, "-c", "istio-proxy", "--", "pilot-agent", "request", "GET", "server_info"); !strings.Contains(out, "LIVE") {
		t.Errorf("the sidecar: %.300s", out)
	}
}

// proxyStatus inspects the mesh as Istio's users do.
func proxyStatus(t *testing.T, ctx context.Context, l *local.Lab) {
	builder, err := components.New(components.Options{})
	must.OK(t, err)
	status, err := builder.Status()
	must.OK(t, err)
	if !slices.ContainsFunc(status, func(s components.Status) bool { return s.Name == "istioctl" && s.Cached }) {
		t.Skip("istioctl is not built: meshtrial lab components build istioctl")
	}
	set, err := builder.Ensure(ctx, "istioctl")
	must.OK(t, err)
	program, _ := set.Program("istioctl")
	eventually.Succeeds(t, time.Minute, "istioctl proxy-status", func() error {
		out, err := exec.CommandContext(ctx, program.Path, "--kubeconfig", l.Kubeconfig(), "proxy-status").CombinedOutput()
		if err != nil || !strings.Contains(string(out), ".meshed") {
			return fmt.Errorf("%v\n%s", err, out)
		}
		return nil
	})
}

// noAdmin returns the server's configuration without an admin port, as JSON.
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
	kubectl(t, "", "wait", "--for=condition=Ready", "node/kwok-0", "--timeout=120s")
	kubectl(t, "", "wait", "--for=condition=Ready", "pod/simulated", "--timeout=120s")
	kubectl(t, "", "delete", "pod/simulated", "node/kwok-0", "--timeout=120s")
}

func strangersCluster(t *testing.T, ctx context.Context, l *local.Lab) {
	needs := rights.Place(rights.Features(), rights.Places{Journal: journal.Namespace, Run: "meshtrial-check", Meshes: map[string]string{"istio": "istio-system"}})
	c, err := cluster.Open(ctx, cluster.Options{Kubeconfig: l.Kubeconfig(), Images: l.Images(), Needs: needs})
	must.OK(t, err)
	if c.Kind() != lab.KindCluster {
		t.Errorf("kind %s", c.Kind())
	}
	_, err = cluster.Open(ctx, cluster.Options{Kubeconfig: l.Kubeconfig(), Context: "nowhere"})
	if errs.Code(err) != errs.CodeUsage {
		t.Errorf("an unknown context: %v", err)
	}
	// A user with read-only rights.
	kubectl(t, "", "create", "serviceaccount", "guest")
	kubectl(t, "", "create", "clusterrolebinding", "guest", "--clusterrole=view", "--serviceaccount=default:guest")
	token := strings.TrimSpace(kubectl(t, "", "create", "token", "guest"))
	data, err := os.ReadFile(l.Kubeconfig())
	must.OK(t, err)
	guest := filepath.Join(t.TempDir(), "guest")
	must.OK(t, os.WriteFile(guest, data, 0o600))
	for _, args := range [][]string{{"config", "set-credentials", "guest", "--token=" + token}, {"config", "set-context", "meshtrial", "--user=guest"}} {
		kubectl(t, "", append([]string{"--kubeconfig=" + guest}, args...)...)
	}
	// The API server learns of the account and its rights a moment later.
	eventually.Succeeds(t, time.Minute, "a user without rights", func() error {
		_, err := cluster.Open(ctx, cluster.Options{Kubeconfig: guest, Needs: needs})
		if errs.Code(err) != errs.CodeUsage {
			return fmt.Errorf("said was: %v", err)
		}
		for _, want := range []string{"data plane: create deployments.apps in the run's namespace", "every run: create, delete namespaces",
			"data plane: patch, create peerauthentications.security.istio.io in the run's namespace"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				return fmt.Errorf("said was: %v; want %q", err, want)
			}
		}
		return nil
	})
}
