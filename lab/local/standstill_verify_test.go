//go:build verify

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// standstill is longer than most timeouts of Kubernetes for a node, a connection or a
// Lease.
const standstill = 40 * time.Second

// TestStandstill suspends a lab, completely as on a machine that sleeps, or only one
// program, and resumes it. Existing pods remain in the same networks and answer; new
// ones come, with sidecars, and go; the status reports that all is well.
func TestStandstill(t *testing.T) {
	b := newBench(t)
	l := b.up(t)
	status, err := local.GetStatus("")
	must.OK(t, err)
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	kubectl(t, serverYAML(l.Images())+"\n---\n"+meshedYAML, "apply", "-f", "-")
	for _, d := range []struct{ namespace, name string }{{"default", "server"}, {"killed", "app"}} {
		must.OK(t, lab.WaitDeployment(ctx, client, d.namespace, d.name))
	}
	server, err := client.CoreV1().Services("default").Get(ctx, "server", metav1.GetOptions{})
	must.OK(t, err)
	answers := func() error { return hello("http://" + server.Spec.ClusterIP + "/") }
	eventually.Succeeds(t, time.Minute, "the server answers", answers)
	before := residents(t, ctx, client, status)
	for _, c := range []struct {
		name string
		pids func() []int
	}{
		{"everything", func() []int { return labtest.PIDs(status.ID, "") }},
		{"etcd", func() []int { return labtest.PIDs(status.ID, "etcd") }},
		{"kube-apiserver", func() []int { return labtest.PIDs(status.ID, "kube-apiserver") }},
		{"kube-controller-manager", func() []int { return labtest.PIDs(status.ID, "kube-controller-manager") }},
		{"kubelet", func() []int { return labtest.PIDs(status.ID, "kubelet") }},
		{"containerd", func() []int { return labtest.PIDs(status.ID, "containerd") }},
		{"init", func() []int { return []int{status.InitPID} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			labtest.StandStill(t, standstill, c.pids)
			began := time.Now()
			eventually.Succeeds(t, time.Minute, "the server answers again", answers)
			eventually.Succeeds(t, time.Minute, "the node is as it was", func() error { return asNew(ctx, client) })
			kubectl(t, "", "run", "fresh", "-n", "killed", "--image=docker.io/meshtrial/pause:1", "--image-pull-policy=IfNotPresent", "--restart=Never")
			kubectl(t, "", "wait", "-n", "killed", "--for=condition=Ready", "pod/fresh", "--timeout=120s")
			kubectl(t, "", "delete", "-n", "killed", "pod/fresh", "--grace-period=1", "--timeout=60s")
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err := errors.Join(lab.WaitPods(limited, client, "default", "app=server", 1), lab.WaitPods(limited, client, "killed", "app=app", 1),
				lab.WaitPods(limited, client, "istio-system", "app=istiod", 1))
			if err != nil {
				t.Error(err)
			}
			t.Logf("all works %.1f s after it", time.Since(began).Seconds())
			if now := residents(t, ctx, client, status); !reflect.DeepEqual(now, before) {
				t.Errorf("other pods than before:\n%v\n%v", now, before)
			}
			healthy(t, b)
		})
	}
	b.down(t, status.ID)
}

// healthy checks that the program reports the whole lab as running, without restarts.
func healthy(t *testing.T, b *bench) {
	t.Helper()
	if code, out := b.Run(t, "lab", "status"); code != 0 || !strings.Contains(out, "running") {
		t.Errorf("lab status: exit code %d\n%s", code, out)
	}
	now, err := local.GetStatus("")
	if err != nil || now.State != local.StateRunning {
		t.Fatalf("%+v, %v", now, err)
	}
	for _, c := range now.Components {
		if c.PID == 0 || c.Restarts > 0 {
			t.Errorf("%s: process %d, started again %d times: %s", c.Name, c.PID, c.Restarts, c.LastExit)
		}
	}
}

// asNew reports anything that keeps pods from the node or removes them from it.
func asNew(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var all []error
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if !nodeReady(n) {
			all = append(all, fmt.Errorf("node %s is not ready: %+v", n.Name, n.Status.Conditions))
		}
		if len(n.Spec.Taints) > 0 {
			all = append(all, fmt.Errorf("node %s: %+v", n.Name, n.Spec.Taints))
		}
	}
	return errors.Join(all...)
}

// residents returns the pods of all namespaces: their identity, their network, and the
// number of restarts of their containers.
func residents(t *testing.T, ctx context.Context, client kubernetes.Interface, status *local.Status) map[string]string {
	t.Helper()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	out := map[string]string{}
	for _, pod := range pods.Items {
		restarts := int32(0)
		for _, c := range pod.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		out[pod.Namespace+"/"+pod.Name] = fmt.Sprintf("%s, %s, %s, network %s, %d restarts", pod.UID, pod.Status.Phase, pod.Status.PodIP, networkOf(&pod, status), restarts)
	}
	return out
}

// networkOf returns the network namespace of a pod's sandbox.
func networkOf(pod *corev1.Pod, status *local.Status) string {
	group := "/kubepods/"
	if class := pod.Status.QOSClass; class != corev1.PodQOSGuaranteed {
		group += strings.ToLower(string(class)) + "/"
	}
	pids := labtest.PIDs(status.ID+group+"pod"+string(pod.UID), "pause")
	if len(pids) == 0 {
		return "none"
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pids[0]))
	if err != nil {
		return err.Error()
	}
	return namespace
}
