//go:build verify

package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMain makes the tests share a lab.
func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }

// The kubelet's account of a window is compared with that of the cgroup, for the same
// containers: a load generator and its worker.
func TestBesideTheCgroup(t *testing.T) {
	l := labtest.Start(t)
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	const namespace, window = "kubelet-beside-cgroup", 90 * time.Second
	labtest.Namespace(t, l, namespace)
	image := l.Images().Meshtrial
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	next := func() {
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-ticker.C:
		}
	}
	must.OK(t, must.Err(kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})))
	container := func(name string, args ...string) corev1.Container {
		return corev1.Container{Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args}
	}
	pods := kube.CoreV1().Pods(namespace)
	busy := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "busy"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		container("worker", "worker", "--control", "127.0.0.1:15990"),
		container("load", "load", "http://127.0.0.1:8080/", "--rate", "2000", "--duration", "10m")}}}
	pod, err := pods.Create(ctx, busy, metav1.CreateOptions{})
	for apierrors.IsForbidden(err) { // the namespace has no service account yet
		next()
		pod, err = pods.Create(ctx, busy, metav1.CreateOptions{})
	}
	must.OK(t, err)
	ids := map[string]string{}
	for len(ids) < 2 {
		next()
		pod, err = pods.Get(ctx, "busy", metav1.GetOptions{})
		must.OK(t, err)
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Running != nil {
				ids[status.Name] = status.ContainerID
			}
		}
	}

	// Start with a sample from before the window.
	series := map[string]*kubelet.Series{"worker": {}, "load": {}, "pod": {}} // the pod as a whole, which the lab's cAdvisor knows
	rare := map[string]*kubelet.Series{"worker": {}, "load": {}}              // of a simulated kubelet that samples independently every 10 to 18 s
	kept := 0
	look := func() (ages []time.Duration, memory map[string]int64) {
		memory = map[string]int64{}
		page, err := kubelet.Read(ctx, kube.CoreV1().RESTClient(), pod.Spec.NodeName)
		must.OK(t, err)
		for name, s := range series {
			known := page.Containers[kubelet.Container{Pod: namespace + "/" + pod.Name, Name: strings.TrimPrefix(name, "pod")}]
			if !known.CPU.At.IsZero() {
				s.Add(known.CPU)
				if r := rare[name]; r != nil {
					if last, ok := r.Last(); !ok || known.CPU.At.Sub(last.At) >= time.Duration(10+kept*5%9)*time.Second {
						r.Add(known.CPU)
						kept++
					}
				}
				ages, memory[name] = append(ages, time.Since(known.CPU.At)), known.Memory
			}
		}
		return ages, memory
	}
	for ages, _ := look(); len(ages) < 3; ages, _ = look() {
		next()
	}

	server, err := observe.New(observe.Options{Control: "127.0.0.1:0"})
	must.OK(t, err)
	go func() { _ = server.Serve(ctx) }()
	var targets []observe.Target
	ids["pod"] = ""
	for name, id := range ids {
		targets = append(targets, observe.Target{Name: name, PodUID: string(pod.UID), ContainerID: id})
	}
	begin := time.Now().Add(time.Second)
	end := begin.Add(window)
	type answer struct {
		shots []observe.Snapshot
		err   error
	}
	edges := make(chan answer, 1)
	go func() {
		client := observe.Client{BaseURL: "http://" + server.Address()}
		shots, err := client.Snapshots(ctx, observe.SnapshotsRequest{AtUnixNS: []int64{begin.UnixNano(), end.UnixNano()}, Targets: targets, Memory: true})
		edges <- answer{shots, err}
	}()
	oldest := time.Duration(0)
	var memory map[string]int64
	after := func() bool {
		for _, s := range []*kubelet.Series{rare["worker"], rare["load"], series["pod"]} { // then the others have one too
			if last, _ := s.Last(); last.At.Before(end) {
				return false
			}
		}
		return true
	}
	for !after() {
		next()
		var ages []time.Duration
		ages, memory = look()
		for _, age := range ages {
			oldest = max(oldest, age)
		}
	}
	truth := <-edges
	if truth.err != nil {
		t.Fatal(truth.err)
	}
	for name, s := range series {
		cpu, err := truth.shots[1].Targets[name].Since(truth.shots[0].Targets[name])
		must.OK(t, err)
		charged := int64(0)
		if m := truth.shots[1].Targets[name].Memory; m != nil {
			charged = m.CgroupBytes
		}
		t.Logf("%s: working set %.1f MB, cgroup %.1f MB", name, float64(memory[name])/1e6, float64(charged)/1e6)
		how := map[string]*kubelet.Series{"as asked for": s, "sampled rarely": rare[name]}
		if name == "pod" {
			how = map[string]*kubelet.Series{"sampled by cAdvisor": s}
		}
		for how, s := range how {
			u, err := s.Between(begin, end)
			if short := (*kubelet.ShortError)(nil); err != nil && !(name == "pod" && errors.As(err, &short)) {
				t.Fatal(err)
			}
			told := fmt.Sprintf("%s, %s: the cgroup %.3f s, the kubelet %.3f s: off by %+.2f%%, standard error %.2f%%, between %+.0f%% and %+.0f%%; %d samples up to %.1f s apart",
				name, how, cpu.TotalS(), u.Seconds, 100*(u.Seconds/cpu.TotalS()-1), 100*u.ErrorS/u.Seconds, 100*(u.LowS/u.Seconds-1), 100*(u.HighS/u.Seconds-1), u.Samples, u.Gap.Seconds())
			t.Log(told)
			// The bounds hold whatever the container did. A sample's time is accurate to
			// some milliseconds.
			slack := 0.01 * cpu.TotalS()
			if cpu.TotalS() <= 0 || cpu.TotalS() < u.LowS-slack || cpu.TotalS() > u.HighS+slack {
				t.Error(told)
			}
		}
	}
	t.Logf("samples were up to %.1f s old when they were read", oldest.Seconds())
}
