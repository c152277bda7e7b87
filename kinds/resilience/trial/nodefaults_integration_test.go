//go:build integration

package trial

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// faultBench has a client that calls a server, both with sidecars, and the fault role.
type faultBench struct {
	*site.Site
	executor *executor
}

const (
	faultServer = "server"
	faultClient = fault.LoadService
)

func newFaultBench(t *testing.T) *faultBench {
	l := labtest.Start(t)
	s, err := site.New(l, nil, fmt.Sprintf("faults-%d", time.Now().Unix()))
	must.OK(t, err)
	ctx := t.Context()
	t.Cleanup(func() {
		if err := s.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	must.OK(t, s.CreateNamespace(ctx, string(resilience.Kind)))
	roles, err := s.CreateFaultRoles(ctx)
	must.OK(t, err)
	server := site.WorkerPod(mesh.Workload{Name: faultServer, ControlPort: site.WorkerControlPort}, l.Images(), s.Run)
	client := site.RolePod(faultClient, s.Run, corev1.Container{Name: site.RoleLoad, Args: []string{"load", "http://" + faultServer + ":8080/", "--rate", "100", "--connections", "4", "--duration", "30m"}}, l.Images())
	for name, pod := range map[string]corev1.PodTemplateSpec{faultServer: server, faultClient: client} {
		pod.Labels["sidecar.istio.io/inject"], pod.Labels[trialMark] = "true", s.Run
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}, Spec: appsv1.DeploymentSpec{
			Replicas: site.Ptr(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: name}}, Template: pod}}
		must.OK(t, must.Err(s.Kube.AppsV1().Deployments(s.Namespace).Create(ctx, d, metav1.CreateOptions{})))
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: faultServer, Namespace: s.Namespace}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{mesh.AppLabel: faultServer}, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}}}
	must.OK(t, must.Err(s.Kube.CoreV1().Services(s.Namespace).Create(ctx, service, metav1.CreateOptions{})))
	for _, name := range []string{faultServer, faultClient} {
		must.OK(t, lab.WaitPods(ctx, s.Kube, s.Namespace, mesh.AppLabel+"="+name, 1))
	}
	must.OK(t, roles.Connect(ctx))
	watched, err := newCensus(ctx, s.Kube, s.Namespace, s.Run, nil)
	must.OK(t, err)
	t.Cleanup(watched.stop)
	trial := &scenarioTrial{stage: &stage{Site: s, faults: roles, changes: labtest.Journal(t, l, s.Run)}, scene: &scene{mesh: sitetest.Istio()}, census: watched}
	b := &faultBench{Site: s, executor: &executor{scenarioTrial: trial, run: ctx, doomed: map[string]bool{}}}
	for _, name := range []string{faultServer, faultClient} {
		eventually.Within(t, time.Minute, "the pods of "+name, func() bool { return len(watched.living(name)) == 1 })
	}
	return b
}

// pod returns the only pod of an app.
func (b *faultBench) pod(t *testing.T, app string) site.Pod {
	t.Helper()
	found, err := b.Kube.CoreV1().Pods(b.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: mesh.AppLabel + "=" + app})
	must.OK(t, err)
	all := slices.DeleteFunc(found.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(all) != 1 {
		t.Fatalf("%s has %d pods", app, len(all))
	}
	return site.PodOf(&all[0])
}

// control returns the control plane.
func (b *faultBench) control() *controlPods {
	return controlOf(b.Kube, b.executor.changes, b.executor.scene.mesh)
}

// act begins a step, proves it and ends it.
func (b *faultBench) act(t *testing.T, a fault.Action, lasting time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	execution, err := b.executor.Prepare(ctx, fault.Occurrence{Action: a, For: lasting})
	must.OK(t, err)
	do(t, ctx, execution)
}

// do begins an execution, proves it and ends it.
func do(t *testing.T, ctx context.Context, execution drive.Execution) {
	t.Helper()
	begin := time.Now()
	err := execution.Begin(ctx)
	began := time.Since(begin)
	text := ""
	if err == nil {
		text, err = execution.Prove(ctx)
	}
	proven := time.Since(begin)
	begin = time.Now()
	ended := execution.End(ctx)
	t.Logf("%s: begun in %v, proven after %v (%s), ended in %v", execution.Target(), began.Round(10*time.Microsecond), proven.Round(time.Millisecond), text, time.Since(begin).Round(time.Millisecond))
	if err != nil || ended != nil {
		t.Errorf("%s: %v; %v", execution.Target(), err, ended)
	}
}

// none fails if a fault remains on the node.
func (b *faultBench) none(t *testing.T) {
	t.Helper()
	for name, client := range b.executor.faults.ByNode {
		if list, err := client.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("node %s: %+v, %v", name, list, err)
		}
	}
}

// TestFaultsOnNodes does everything that steps can do on nodes to pods of a real mesh.
func TestFaultsOnNodes(t *testing.T) {
	b := newFaultBench(t)
	t.Run("what the node offers", func(t *testing.T) {
		seen, err := b.executor.faults.Check(t.Context(), &fault.Timeline{Steps: []fault.Step{
			{Action: &fault.Process{}}, {Action: &fault.Network{Cut: true, Lose: 0.1, Delay: 1, Rate: 1}}}})
		if err != nil || len(seen) != 5 {
			t.Errorf("%q, %v", seen, err)
		}
		t.Log(strings.Join(seen, "\n"))
	})
	t.Run("a zone", func(t *testing.T) {
		request := node.NetworkRequest{Peers: []string{b.pod(t, faultClient).Address}, Direction: node.Both, Cut: true}
		execution, err := b.executor.disturb(t.Context(), "lab/a", b.executor.census.living(faultServer), request)
		must.OK(t, err)
		do(t, t.Context(), execution)
		b.none(t)
	})
	t.Run("packets", func(t *testing.T) {
		for _, n := range []fault.Network{{Cut: true}, {Lose: 0.3}, {Delay: 5 * time.Millisecond}, {Rate: 1_000_000}} {
			n.From, n.To = faultClient, faultServer
			b.act(t, &n, time.Second)
		}
		b.none(t)
	})
	t.Run("paused", func(t *testing.T) {
		for _, of := range []string{fault.OfProxy, fault.OfAgent, fault.OfWorker, fault.OfControlPlane} {
			b.act(t, &fault.Process{Of: of, Service: faultServer, Do: fault.DoPause}, time.Second)
		}
		b.none(t)
	})
	t.Run("a dead role", func(t *testing.T) { b.testDeadRole(t) })
	t.Run("killed", func(t *testing.T) {
		for _, of := range []string{fault.OfWorker, fault.OfProxy} {
			before := b.pod(t, faultServer).Containers
			b.act(t, &fault.Process{Of: of, Service: faultServer, Do: fault.DoKill}, 0)
			eventually.Within(t, 3*time.Minute, "another container", func() bool {
				now := b.pod(t, faultServer).Containers
				return now[site.RoleWorker] != before[site.RoleWorker] || now["istio-proxy"] != before["istio-proxy"]
			})
		}
	})
	t.Run("the control plane away", func(t *testing.T) {
		b.act(t, &fault.Process{Of: fault.OfControlPlane, Do: fault.DoKill}, 5*time.Second)
		if _, err := b.control().list(t.Context()); err != nil {
			t.Error(err)
		}
		// What a dead run took away returns.
		found, err := b.control().deployments(t.Context())
		if err != nil || len(found) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		must.OK(t, must.Err(b.control().takeAway(t.Context(), found[0])))
		if done, err := b.executor.changes.Restore(t.Context(), journal.OfRun(b.Run)); err != nil || len(done) != 1 || !slices.Equal(done[0].Back, []string{"spec.replicas"}) {
			t.Errorf("%+v, %v", done, err)
		}
		again, err := b.control().deployments(t.Context())
		if err != nil || *again[0].Spec.Replicas != *found[0].Spec.Replicas {
			t.Errorf("%+v, %v", again, err)
		}
		// The former pod may still exist, and be counted, for a moment: istiod is back once there
		// is one that stays.
		kept := ""
		for since := time.Now(); time.Since(since) < 2*time.Second; time.Sleep(200 * time.Millisecond) {
			now := ""
			eventually.Within(t, 3*time.Minute, "istiod", func() bool { now = b.onlyIstiod(t); return now != "" })
			if now != kept {
				kept, since = now, time.Now()
			}
		}
	})
}

// onlyIstiod returns the UID of istiod's pod if its Deployment is as it should be and has one pod,
// not terminating; else "".
func (b *faultBench) onlyIstiod(t *testing.T) string {
	t.Helper()
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	must.OK(t, lab.WaitDeployment(limited, b.Kube, "istio-system", "istiod"))
	found, err := b.Kube.CoreV1().Pods("istio-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app=istiod"})
	must.OK(t, err)
	if len(found.Items) != 1 || !lab.PodReady(&found.Items[0]) {
		return ""
	}
	return string(found.Items[0].UID)
}

// testDeadRole kills the fault role while faults are in force: the replacement that Kubernetes
// starts reverts them.
func (b *faultBench) testDeadRole(t *testing.T) {
	pod, role := b.pod(t, faultServer), b.pod(t, site.RoleFault)
	client, err := b.executor.faults.At(pod.Node)
	must.OK(t, err)
	c := node.Container{PodUID: pod.UID, ID: pod.Containers["istio-proxy"]}
	f, err := client.Signal(t.Context(), node.SignalRequest{Container: c, Kind: node.KindEnvoy, Signal: node.SignalStop, LeaseMS: 600_000})
	must.OK(t, err)
	must.OK(t, must.Err(client.Network(t.Context(), node.NetworkRequest{PodUID: pod.UID, Peers: []string{b.pod(t, faultClient).Address}, Direction: node.In, Cut: true, LeaseMS: 600_000})))
	// It kills itself, so its response may not arrive.
	_, _ = client.Signal(t.Context(), node.SignalRequest{Container: node.Container{PodUID: role.UID, ID: role.Containers[site.RoleFault]}, Kind: node.KindWorker, Signal: node.SignalKill})
	eventually.Within(t, 3*time.Minute, "another role", func() bool {
		return b.pod(t, site.RoleFault).Containers[site.RoleFault] != role.Containers[site.RoleFault]
	})
	b.Redial()
	must.OK(t, b.executor.faults.Connect(t.Context()))
	b.none(t)
	client, err = b.executor.faults.At(pod.Node)
	must.OK(t, err)
	if now, err := client.Look(t.Context(), f.Processes); err != nil || now[0].State == "T" || now[0].State == node.Gone {
		t.Errorf("%+v, %v", now, err)
	}
	client.Token = "a token that is not its own"
	client.HTTPClient = &http.Client{Transport: client.HTTPClient.Transport}
	if _, err := client.List(t.Context()); err == nil {
		t.Error("it answers without its token")
	}
	// Packets flow again: a fault that affects none still counts some.
	n := fault.Network{From: faultClient, To: faultServer, Delay: time.Millisecond}
	b.act(t, &n, time.Second)
}
