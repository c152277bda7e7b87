package site

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// A run waits for the pods of runs that have ended, and for no others; for
// those that do not end, a minute.
func TestAwaitEnding(t *testing.T) {
	namespace := func(name, run string, ending bool) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{RunLabel: run}}}
		if ending {
			ns.DeletionTimestamp, ns.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes"}
		}
		return ns
	}
	pod := func(in string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "worker", Namespace: in}}
	}
	for _, test := range []struct {
		name    string
		ends    time.Duration // until the pods are gone; 0: never
		cancel  time.Duration // the context; 0: never
		waits   []string
		left    []string
		seconds float64
	}{
		{name: "pods end", ends: 3 * time.Second, waits: []string{"meshtrial-ending"}, seconds: 3},
		{name: "pods stay", waits: []string{"meshtrial-ending"}, left: []string{"meshtrial-ending"}, seconds: 60},
		{name: "interrupted", cancel: 2 * time.Second, waits: []string{"meshtrial-ending"}, seconds: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			kube := fakecluster.New(namespace("meshtrial-ending", "a", true), pod("meshtrial-ending"),
				namespace("meshtrial-empty", "b", true), namespace("meshtrial-at-work", "c", false), pod("meshtrial-at-work"),
				namespace("theirs", "d", true), pod("theirs"))
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.ends > 0 {
					time.AfterFunc(test.ends, func() {
						if err := kube.CoreV1().Pods("meshtrial-ending").Delete(ctx, "worker", metav1.DeleteOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, cancel)
				}
				begin := time.Now()
				var waits []string
				left, err := AwaitEnding(ctx, kube, func(of []string) { waits = slices.Clone(of) })
				if (test.cancel > 0) != errors.Is(err, context.Canceled) || test.cancel == 0 && err != nil {
					t.Error(err)
				}
				if !slices.Equal(waits, test.waits) || !slices.Equal(left, test.left) {
					t.Errorf("waits for %v, left %v", waits, left)
				}
				if took := time.Since(begin).Seconds(); took < test.seconds-0.3 || took > test.seconds+0.3 {
					t.Errorf("took %.1f s, want %.0f", took, test.seconds)
				}
			})
		})
	}
	if left, err := AwaitEnding(t.Context(), fakecluster.New(namespace("meshtrial-at-work", "c", false), pod("meshtrial-at-work")), func(of []string) {
		t.Errorf("waits for %v", of)
	}); err != nil || left != nil {
		t.Errorf("%v, %v", left, err)
	}
}
