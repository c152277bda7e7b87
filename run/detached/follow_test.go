package detached

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// Reading continues where a log was interrupted: no line is lost or repeated.
func TestLines(t *testing.T) {
	const (
		first  = "2026-11-26T10:00:00.100000000Z block 1 of at most 3\n"
		second = "2026-11-26T10:00:00.200000000Z   indented: yes\n"
		third  = "2026-11-26T10:00:01.000000000Z \n"
		fourth = "2026-11-26T10:00:02Z the end\n"
	)
	var out strings.Builder
	f := follower{out: &out}
	read := func(log io.Reader, want bool) {
		t.Helper()
		if ended, err := f.lines(log); err != nil || ended != want {
			t.Errorf("ended: %t, %v", ended, err)
		}
	}
	read(io.MultiReader(strings.NewReader(first+second[:40]), broken{}), false)
	read(strings.NewReader(first+second+third[:20]), true)
	read(strings.NewReader(second+third+fourth), true)
	read(strings.NewReader(fourth), true)
	if want := "block 1 of at most 3\n  indented: yes\n\nthe end\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	f.out = full{}
	if _, err := f.lines(strings.NewReader("2026-11-26T10:00:03Z more\n")); err == nil {
		t.Error("nobody reads, and it goes on")
	}
}

// A user who may not read the runs gets an error at once.
func TestFollowDenied(t *testing.T) {
	group := schema.GroupResource{Resource: "jobs"}
	for _, refusal := range []error{apierrors.NewForbidden(group, "", errors.New("not yours")), apierrors.NewUnauthorized("expired")} {
		c, kube := fake()
		kube.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := c.Follow(ctx, Run{Name: "r"}, io.Discard, func(string) {})
		if cancel(); !errors.Is(err, refusal) {
			t.Errorf("%v, want %v", err, refusal)
		}
	}
}

// If a node reports why it ended a pod, those attached are told.
func TestLostFor(t *testing.T) {
	evicted := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}}
	for text, pod := range map[string]*corev1.Pod{" (Evicted: The node was low on resource: memory.)": evicted, "": nil} {
		if got := lostFor(pod); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

func TestStuck(t *testing.T) {
	now := time.Unix(10_000, 0)
	pod := func(deleted time.Duration, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", DeletionTimestamp: &metav1.Time{Time: now.Add(deleted)}},
			Spec: corev1.PodSpec{NodeName: "worker-3"}, Status: corev1.PodStatus{Phase: phase}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"no pod":      {nil, false},
		"at work":     {&corev1.Pod{}, false},
		"has time":    {pod(time.Minute, corev1.PodRunning), false},
		"just due":    {pod(-time.Second, corev1.PodRunning), false},
		"overdue":     {pod(-2*time.Minute, corev1.PodRunning), true},
		"over by now": {pod(-2*time.Minute, corev1.PodFailed), false},
	} {
		text := stuck(c.pod, now)
		if (text != "") != c.want || c.want && (!strings.Contains(text, "node worker-3") || !strings.Contains(text, "kubectl -n n delete pod p --force")) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestSilent(t *testing.T) {
	pod := func(phase corev1.PodPhase, said bool, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: corev1.PodSpec{NodeName: "worker-3"}, Status: corev1.PodStatus{Phase: phase,
			ContainerStatuses: []corev1.ContainerStatus{{Ready: said}}, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready}}}}
	}
	injected := pod(corev1.PodRunning, true, corev1.ConditionFalse)
	injected.Status.ContainerStatuses = append(injected.Status.ContainerStatuses, corev1.ContainerStatus{Name: "injected"})
	gated := pod(corev1.PodRunning, true, corev1.ConditionFalse)
	gated.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/ready"}}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"no pod":         {nil, false},
		"another is not": {injected, false},
		"a gate":         {gated, false},
		"at work":        {pod(corev1.PodRunning, true, corev1.ConditionTrue), false},
		"not yet ready":  {pod(corev1.PodRunning, false, corev1.ConditionFalse), false},
		"over":           {pod(corev1.PodFailed, true, corev1.ConditionFalse), false},
		"silent":         {pod(corev1.PodRunning, true, corev1.ConditionFalse), true},
	} {
		text := silent(c.pod)
		if (text != "") != c.want || c.want && (!strings.Contains(text, " from node worker-3, which runs pod p:") || !strings.Contains(text, "kubectl -n n delete pod p --force")) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// hanging is a cluster whose pods' logs have one line and never end, like those of a dead
// node.
type hanging struct{ kubernetes.Interface }

type hangingCore struct{ kubernetes.CoreV1 }

type hangingPods struct{ kubernetes.Pods }

func (h hanging) CoreV1() kubernetes.CoreV1 { return hangingCore{h.Interface.CoreV1()} }

func (h hangingCore) Pods(namespace string) kubernetes.Pods {
	return hangingPods{h.CoreV1.Pods(namespace)}
}

func (hangingPods) GetLogs(string, *corev1.PodLogOptions) *rest.Request {
	answer := answers(func(r *http.Request) (*http.Response, error) {
		from, to := io.Pipe()
		context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
		go io.WriteString(to, "2026-11-26T10:00:00Z block 1 of at most 3\n")
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: from}, nil
	})
	return rest.NewRequestWithClient(&url.URL{Scheme: "http", Host: "api"}, "", rest.ClientContentConfig{}, &http.Client{Transport: answer}).Verb(http.MethodGet)
}

// A node that dies while its log is read is soon named, although the log neither continues
// nor ends.
func TestFollowSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const run = "20261126-100000-abcd"
		job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job"}}
		job.SetNamespace("n")
		job.SetName(objectName(run))
		job.SetLabels(map[string]string{Label: run})
		job.SetAnnotations(map[string]string{studyAnnotation: "p"})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", Labels: labels(run, partRun)}, Spec: corev1.PodSpec{NodeName: "worker-3"}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		c, _ := fake(job)
		kube := fakecluster.New(pod)
		c.kube = hanging{kube}
		const dies, patience = 35 * time.Second, 2 * time.Minute
		began, heard := time.Now(), time.Duration(0)
		time.AfterFunc(dies, func() {
			dead := pod.DeepCopy()
			dead.Status.Conditions[0].Status = corev1.ConditionFalse
			if _, err := kube.CoreV1().Pods("n").Update(context.Background(), dead, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var out strings.Builder
		_, err := c.Follow(ctx, Run{Name: run, Namespace: "n"}, &out, func(text string) {
			if heard == 0 && strings.Contains(text, " from node worker-3, which") {
				heard = time.Since(began)
			}
		})
		if !errors.Is(err, context.DeadlineExceeded) || out.String() != "block 1 of at most 3\n" || heard < dies || heard > dies+watchEvery+2*lookEvery {
			t.Errorf("the node died after %v, and was named after %v; %v, %q", dies, heard, err, out.String())
		}
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestParseLine(t *testing.T) {
	at, text := parseLine("2026-11-26T10:00:00.5Z a b\n")
	if !at.Equal(time.Date(2026, 11, 26, 10, 0, 0, 5e8, time.UTC)) || text != "a b\n" {
		t.Errorf("%v %q", at, text)
	}
	for _, line := range []string{"", "\n", "unable to retrieve container logs\n", "2026-11-26T10:00:00Z"} {
		if at, text := parseLine(line); !at.IsZero() || text != line {
			t.Errorf("%q: %v %q", line, at, text)
		}
	}
}
