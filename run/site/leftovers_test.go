package site

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// Of many namespaces those of runs are left over that are not under way on this machine,
// and only those are removed.
func TestLeftovers(t *testing.T) {
	me, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, gone := me, me
	elsewhere.Boot, elsewhere.Host = "another", "elsewhere"
	gone.StartTicks++ // its number is this process's now
	namespace := func(name, run string, of *procfs.Identity) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if run != "" {
			ns.Labels[RunLabel] = run
		}
		if of != nil {
			if err := annotate(ns, *of); err != nil {
				t.Fatal(err)
			}
		}
		return ns
	}
	going, garbled := namespace("meshtrial-going", "r", &gone), namespace("meshtrial-garbled", "r", nil)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes"}
	garbled.Annotations = map[string]string{ownerAnnotation: `{"pid":`}
	others := []runtime.Object{namespace("default", "", nil), namespace("meshtrial-mine", "r", &me), namespace("meshtrial-unlabelled", "", &gone), namespace("theirs", "r", &gone), going}
	kube := fakecluster.New(append(others, namespace("meshtrial-dead", "r", &gone), namespace("meshtrial-far", "r", &elsewhere), namespace("meshtrial-silent", "r", nil), garbled)...)
	left, err := Leftovers(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range left {
		got = append(got, l.Namespace)
	}
	if want := []string{"meshtrial-dead", "meshtrial-far", "meshtrial-garbled", "meshtrial-silent"}; !slices.Equal(got, want) {
		t.Errorf("left over: %v, want %v", got, want)
	}
	if err := RemoveLeftovers(t.Context(), kube, left); err != nil {
		t.Fatal(err)
	}
	list, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != len(others) {
		t.Errorf("%d namespaces are there, want %d: %v", len(list.Items), len(others), err)
	}
}

// Whatever stands in the note of a namespace, its run counts as alive only by a process of
// this boot.
func FuzzLeftovers(f *testing.F) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		f.Fatal(err)
	}
	boot := strings.TrimSpace(string(text))
	for _, note := range []string{"", "{", "null", "7", `{"pid": 1}`, `{"pid": -1, "boot_id": "` + boot + `"}`, `{"host": "a", "boot": "b", "pid": 99999999999999999999}`,
		`{"pid": 4194304, "boot": "x", "pid_namespace": "pid:[1]", "start_ticks": 1}`} {
		f.Add(note)
	}
	f.Fuzz(func(t *testing.T, note string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: NamespacePrefix + "x", Labels: map[string]string{RunLabel: "x"},
			Annotations: map[string]string{ownerAnnotation: note}}}
		left, err := Leftovers(t.Context(), fakecluster.New(ns))
		if err != nil || len(left) != 1 && !strings.Contains(note, boot) {
			t.Errorf("%q: its run counts as alive, or %v", note, err)
		}
	})
}

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
