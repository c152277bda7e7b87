//go:build verify

package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// callersYAML has an idle pod on each node; the test makes calls on its behalf.
const callersYAML = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: caller}
spec:
  selector: {matchLabels: {app: caller}}
  template:
    metadata: {labels: {app: caller}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: caller, image: "docker.io/meshtrial/pause:1"}]
`

// TestNodes checks what a user expects of a lab of three nodes.
func TestNodes(t *testing.T) {
	b := newBench(t)
	l := b.up(t, "--nodes", "3", "--mesh", "none")
	status, err := local.GetStatus("")
	must.OK(t, err)
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	t.Run("nodes as Kubernetes knows them", func(t *testing.T) { knownNodes(t, ctx, client, status) })
	t.Run("as the host sees them", func(t *testing.T) { names(t, ctx) })
	t.Run("pods reach each other", func(t *testing.T) { podsMeet(t, ctx, l, client, status) })
	t.Run("a node is drained", func(t *testing.T) {
		kubectl(t, "", "drain", "lab-3", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
		kubectl(t, "", "uncordon", "lab-3")
	})
	t.Run("a node dies and comes back", func(t *testing.T) { nodeDies(t, b, client, status) })
	t.Run("orders that make no sense", func(t *testing.T) {
		for _, c := range []struct{ do, node, says string }{{"kill", "lab-9", `no node "lab-9"`}, {"start", "lab-1", "is already running"}} {
			if code, out := b.Run(t, "lab", "node", c.do, c.node); code != errs.CodeUsage || !strings.Contains(out, c.says) {
				t.Errorf("%s %s: exit code %d\n%s", c.do, c.node, code, out)
			}
		}
	})
	t.Run("a node's first process is killed", func(t *testing.T) { memberDies(t, b, status) })
	t.Run("all nodes die with the lab", func(t *testing.T) {
		killNode(t)
		eventually.Succeeds(t, 10*time.Second, "no process is left", func() error {
			if pids := labtest.PIDs(status.ID, "kubelet"); len(pids) > 0 {
				return fmt.Errorf("kubelets %v", pids)
			}
			return nil
		})
	})
	b.down(t, status.ID)
	left, err := filepath.Glob(filepath.Join(cacheDir(t), "containerd", "*", "nodes", status.ID))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %q, %v", left, err)
	}
	for range 2 {
		b.killStart(t, chance(t), "--nodes", "3", "--mesh", "none")
	}
}

// cacheDir returns the folder of components and images that the program uses.
func cacheDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("MESHTRIAL_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	must.OK(t, err)
	return filepath.Join(dir, "meshtrial")
}

func knownNodes(t *testing.T, ctx context.Context, client kubernetes.Interface, status *local.Status) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 3 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	for i, n := range nodes.Items {
		want := status.Nodes[i]
		if n.Name != want.Name || n.Labels["topology.kubernetes.io/zone"] != fmt.Sprintf("zone-%d", i+1) || n.Labels["topology.kubernetes.io/region"] != "lab" {
			t.Errorf("%s: %v", n.Name, n.Labels)
		}
		if n.Spec.PodCIDR != want.Pods.String() || !slices.Contains(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: want.Address.String()}) {
			t.Errorf("%s: pods %s, addresses %v", n.Name, n.Spec.PodCIDR, n.Status.Addresses)
		}
		if !nodeReady(&n) || want.State != local.StateRunning {
			t.Errorf("%s is %s, %v", n.Name, want.State, n.Status.Conditions)
		}
	}
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// get sends a request to a server from a pod's network, by address, or by its name
// in the lab's DNS.
func get(ctx context.Context, status *local.Status, pod *corev1.Pod, host string, port int) error {
	pids := labtest.PIDs(status.ID+"/"+pod.Spec.NodeName+"/kubepods/besteffort/pod"+string(pod.UID), "pause")
	if len(pids) == 0 {
		return fmt.Errorf("pod %s has no process", pod.Name)
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pids[0]))
	if err != nil {
		return err
	}
	defer namespace.Close()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		var conn net.Conn
		err := thread.Apart(func() error {
			err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
			if err == nil {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			}
			return err
		})
		return conn, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := netip.ParseAddr(host); err != nil {
		server := strings.Replace(status.Services, ".0.0/16", ".0.10:53", 1)
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, server) }}
		found, err := resolver.LookupHost(ctx, host+".")
		if err != nil {
			return err
		}
		host = found[0]
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/", host, port), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(body), "hello") {
		err = fmt.Errorf("%s answers %s: %.100s", host, response.Status, body)
	}
	return err
}

// podsMeet has a pod on each node call a server on one of them, by the pod's
// address, by its Service's, and by name; the host does the same.
func podsMeet(t *testing.T, ctx context.Context, l *local.Lab, client kubernetes.Interface, status *local.Status) {
	kubectl(t, serverYAML(l.Images())+"\n---\n"+callersYAML, "apply", "-f", "-")
	must.OK(t, lab.WaitDeployment(ctx, client, "default", "server"))
	must.OK(t, lab.WaitPods(ctx, client, "default", "app=caller", 3))
	servers, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=server"})
	if err != nil || len(servers.Items) != 1 {
		t.Fatalf("%d servers, %v", len(servers.Items), err)
	}
	callers, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=caller"})
	must.OK(t, err)
	service, err := client.CoreV1().Services("default").Get(ctx, "server", metav1.GetOptions{})
	must.OK(t, err)
	on := map[string]bool{}
	for _, caller := range callers.Items {
		on[caller.Spec.NodeName] = true
		for host, port := range map[string]int{servers.Items[0].Status.PodIP: 8080, service.Spec.ClusterIP: 80, "server.default.svc.cluster.local": 80} {
			eventually.Succeeds(t, 30*time.Second, "a call from "+caller.Spec.NodeName, func() error { return get(ctx, status, &caller, host, port) })
		}
	}
	if len(on) != 3 {
		t.Errorf("callers on %v", on)
	}
	for _, address := range []string{servers.Items[0].Status.PodIP + ":8080", service.Spec.ClusterIP + ":80"} {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			t.Errorf("from the host: %v", err)
			continue
		}
		conn.Close()
	}
}

// nodeDies kills a node. Kubernetes notices, the others keep running, and the
// status reports it; once started again it is ready, and its pods run.
func nodeDies(t *testing.T, b *bench, client kubernetes.Interface, status *local.Status) {
	const victim = "lab-2"
	ctx := context.Background()
	kubelets := len(labtest.PIDs(status.ID, "kubelet"))
	if code, out := b.Run(t, "lab", "node", "kill", victim); code != 0 {
		t.Fatalf("kill: exit code %d\n%s", code, out)
	}
	if left := len(labtest.PIDs(status.ID, "kubelet")); left != kubelets-1 {
		t.Errorf("%d kubelets of %d are left", left, kubelets)
	}
	if pids := labtest.PIDs(status.ID+"/"+victim, "envoy"); len(pids) > 0 {
		t.Errorf("pods of the node live on: %v", pids)
	}
	if _, out := b.Run(t, "lab", "status"); !strings.Contains(out, victim+"  dead") {
		t.Errorf("status:\n%s", out)
	}
	eventually.Succeeds(t, 3*time.Minute, "Kubernetes misses the node", func() error {
		n, err := client.CoreV1().Nodes().Get(ctx, victim, metav1.GetOptions{})
		if err == nil && nodeReady(n) {
			err = errors.New("it is ready")
		}
		return err
	})
	names(t, ctx) // through a running node
	began := time.Now()
	if code, out := b.Run(t, "lab", "node", "start", victim); code != 0 {
		t.Fatalf("start: exit code %d\n%s", code, out)
	}
	t.Logf("%s came back in %.1f s", victim, time.Since(began).Seconds())
	n, err := client.CoreV1().Nodes().Get(ctx, victim, metav1.GetOptions{})
	if err != nil || !nodeReady(n) {
		t.Errorf("after its start: %v, %v", n.Status.Conditions, err)
	}
	eventually.Succeeds(t, 2*time.Minute, "its pod runs again", func() error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=caller"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Spec.NodeName == victim && lab.PodReady(&pod) {
				return get(ctx, status, &pod, "server.default.svc.cluster.local", 80)
			}
		}
		return errors.New("no caller on it")
	})
}

// memberDies kills a node by means other than the program: it is completely dead
// all the same, and can be started.
func memberDies(t *testing.T, b *bench, status *local.Status) {
	const victim = "lab-3"
	pids := labtest.PIDs(status.ID+"/"+victim, "exe") // as /proc/self/exe
	if len(pids) != 1 {
		t.Fatalf("first processes of %s: %v", victim, pids)
	}
	must.OK(t, unix.Kill(pids[0], unix.SIGKILL))
	eventually.Succeeds(t, 20*time.Second, "the node is dead", func() error {
		now, err := local.GetStatus("")
		if err == nil && now.Nodes[2].State != local.StateDead {
			err = fmt.Errorf("it is %s", now.Nodes[2].State)
		}
		return err
	})
	if code, out := b.Run(t, "lab", "node", "kill", victim); code != errs.CodeUsage || !strings.Contains(out, "is not running") {
		t.Errorf("killed again: exit code %d\n%s", code, out)
	}
	if code, out := b.Run(t, "lab", "node", "start", victim); code != 0 {
		t.Errorf("start: exit code %d\n%s", code, out)
	}
}
