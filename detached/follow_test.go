package detached

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// A log that breaks off is read on where it broke: no line is lost, and none comes
// twice.
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

// Whoever may not look at the runs learns that, and does not wait for it to change.
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
