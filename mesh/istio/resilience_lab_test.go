//go:build integration || verify

package istio_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const resilient = "meshtrial-resilience"

// failures returns the failed checks.
func failures(checks []record.Check) []string {
	var out []string
	for _, c := range checks {
		if !c.OK {
			out = append(out, c.Name+": "+c.Detail)
		}
	}
	return out
}

// scene is a lab with a caller and a service with two replicas.
type scene struct {
	t      *testing.T
	lab    *local.Lab
	mesh   *istio.Mesh
	dialer *lab.Dialer
}

// up creates a namespace with two workers behind a Service, and a client.
func (s scene) up(bar, client mesh.Workload) {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	kube := kubeOf(t, s.lab)
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: resilient}}, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) || time.Since(began) > 4*time.Minute {
			t.Fatal(err)
		}
	}
	labtest.Namespace(t, s.lab, resilient)
	applier, err := lab.NewApplier(s.lab.RESTConfig())
	must.OK(t, err)
	must.OK(t, applier.ApplyObjects(ctx, s.mesh.Policies([]mesh.Workload{bar, client})))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: bar.Name, Namespace: resilient},
		Spec: corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: bar.Name}, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}}}
	must.OK(t, must.Err(kube.CoreV1().Services(resilient).Create(ctx, service, metav1.CreateOptions{})))
	for _, w := range []struct {
		mesh.Workload
		replicas int32
		role     string
	}{{bar, 2, "worker"}, {client, 1, "load"}} {
		selected := map[string]string{mesh.AppLabel: w.Name}
		pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{mesh.AppLabel: w.Name}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: s.lab.Images().Meshtrial, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: []string{w.role, "--control", fmt.Sprintf("127.0.0.1:%d", w.ControlPort)}}}}}
		must.OK(t, s.mesh.Decorate(w.Workload, &pod))
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: resilient},
			Spec: appsv1.DeploymentSpec{Replicas: &w.replicas, Selector: &metav1.LabelSelector{MatchLabels: selected}, Template: pod}}
		must.OK(t, must.Err(kube.AppsV1().Deployments(resilient).Create(ctx, d, metav1.CreateOptions{})))
	}
	limited, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	for _, name := range []string{bar.Name, client.Name} {
		must.OK(t, lab.WaitDeployment(limited, kube, resilient, name))
	}
	s.known(limited, client.Name, bar.Name, 2)
}

// known waits until the client's proxy knows a service's replicas: a pod may be
// ready before the corresponding push has arrived everywhere.
func (s scene) known(ctx context.Context, client, service string, replicas int) {
	s.t.Helper()
	admin, prefix := s.admin(s.pods(client)[0].Name), "outbound|8080||"+service+"."+resilient+"."
	for {
		hosts, err := admin.Get(ctx, "/clusters", nil)
		must.OK(s.t, err)
		healthy := 0
		for line := range strings.Lines(string(hosts)) {
			if strings.HasPrefix(line, prefix) && strings.HasSuffix(strings.TrimSpace(line), "::health_flags::healthy") {
				healthy++
			}
		}
		if healthy == replicas {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("%s's proxy knows %d of %d replicas of %s", client, healthy, replicas, service)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// apply creates a cell's objects and removes those of the previous cell.
func (s scene) apply(route mesh.Route, cell record.Cell) {
	s.t.Helper()
	labtest.Kubectl(s.t, s.lab, "", "-n", resilient, "delete", "virtualservice,destinationrule", "--all")
	applier, err := lab.NewApplier(s.lab.RESTConfig())
	must.OK(s.t, err)
	must.OK(s.t, applier.ApplyObjects(s.t.Context(), s.mesh.Traffic(route, cell, nil)))
}

func kubeOf(t *testing.T, l *local.Lab) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	return kube
}

func (s scene) pods(name string) []corev1.Pod {
	s.t.Helper()
	list, err := kubeOf(s.t, s.lab).CoreV1().Pods(resilient).List(s.t.Context(), metav1.ListOptions{LabelSelector: mesh.AppLabel + "=" + name})
	if err != nil || len(list.Items) == 0 {
		s.t.Fatalf("pods of %s: %v", name, err)
	}
	return list.Items
}

func (s scene) admin(pod string) observe.EnvoyAdmin {
	return observe.EnvoyAdmin{HTTPClient: s.dialer.Client(resilient, pod, mesh.Sidecars(s.mesh).AdminPort)}
}

// until waits until a cell is in force in the client's proxy and returns the
// proxy's report.
func (s scene) until(client mesh.Workload, route mesh.Route, cell record.Cell) []byte {
	s.t.Helper()
	admin := s.admin(s.pods(client.Name)[0].Name)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		dump, err := admin.Get(s.t.Context(), s.mesh.ConfigPath(), nil)
		must.OK(s.t, err)
		bad := failures(s.mesh.CheckTraffic(dump, []mesh.Route{route}, cell, true))
		if len(bad) == 0 {
			return dump
		}
		if time.Since(began) > 2*time.Minute {
			s.t.Fatalf("%v: %s", cell, strings.Join(bad, "\n"))
		}
	}
}

// request sends requests with an ID over two connections.
func (s scene) request(id string, count int) int64 {
	s.t.Helper()
	return s.requests(id, count, 2, load.Uniform)
}

// requests sends requests with an ID within a second, and returns the number of
// failures.
func (s scene) requests(id string, count, connections int, arrival string) int64 {
	s.t.Helper()
	client := loadcontrol.NewClient(lab.InPod, s.dialer.Role(resilient, s.pods("clients")[0].Name, 15901))
	spec := load.DefaultSpec("http://bar." + resilient + ":8080/")
	spec.Headers = []load.Header{{Name: "x-request-id", Value: id}}
	spec.Connections, spec.Rate, spec.Arrival, spec.DurationS = connections, rate.Rate(count), arrival, 1
	run, err := client.Start(s.t.Context(), spec)
	must.OK(s.t, err)
	result, err := client.Result(s.t.Context(), run.Run)
	must.OK(s.t, err)
	var scheduled, completed int64
	for i := range result.Intervals {
		scheduled, completed = scheduled+result.Intervals[i].Scheduled, completed+result.Intervals[i].Completed
	}
	if scheduled != int64(count) {
		s.t.Fatalf("%d requests, want %d", scheduled, count)
	}
	return scheduled - completed
}

// entries reads a workload's logs as the ledger does, and returns the lines with
// an ID.
func (s scene) entries(workload, id string) []ledger.ProxyEntry {
	s.t.Helper()
	out, err := s.log(workload, id)
	if err != nil {
		s.t.Error(err)
	}
	return out
}

func (s scene) log(workload, id string) (out []ledger.ProxyEntry, failed error) {
	s.t.Helper()
	for _, pod := range s.pods(workload) {
		log, err := kubeOf(s.t, s.lab).CoreV1().Pods(resilient).GetLogs(pod.Name, &corev1.PodLogOptions{Container: s.mesh.LogContainer()}).Stream(s.t.Context())
		must.OK(s.t, err)
		lines, err := ledger.ReadEnvoy(log, ledger.Source{Service: workload, Pod: pod.Name, Addresses: []string{pod.Status.PodIP}, Prefix: id},
			func(e ledger.ProxyEntry) { out = append(out, e) })
		log.Close()
		if err != nil || lines.Damaged != 0 {
			failed = errors.Join(failed, fmt.Errorf("%s: %+v, %v", pod.Name, lines, err))
		}
	}
	return out, failed
}

// logged waits, for at most limit, until that many lines with an ID are in a
// workload's logs. A proxy buffers them for a second, and a busy node delays
// them further.
func (s scene) logged(workload, id string, count int, limit time.Duration) {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < limit; {
		time.Sleep(time.Second)
		if out, err := s.log(workload, id); err == nil && len(out) >= count {
			return
		}
	}
}

// lines verifies the number of lines for requests with an ID.
func (s scene) lines(id string, count int) {
	s.t.Helper()
	s.logged("clients", id, 2*count, time.Minute)
	s.logged("bar", id, count, time.Minute)
	for name, want := range map[string]struct {
		side               ledger.Side
		requests, attempts int
	}{"clients": {ledger.SideClient, count, count}, "bar": {ledger.SideServer, count, 0}} {
		requests, attempts := 0, 0
		for _, e := range s.entries(name, id) {
			if e.Side != want.side {
				s.t.Errorf("%s: %+v", name, e)
			}
			if e.One {
				attempts++
			} else {
				requests++
			}
		}
		if requests != want.requests || attempts != want.attempts {
			s.t.Errorf("%s: %d requests, %d attempts; want %+v", name, requests, attempts, want)
		}
	}
}
