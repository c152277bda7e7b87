package site

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Only the namespaces of runs that are not in progress are leftovers. Only those
// whose process is certainly dead, or whose cluster now has another holder, are
// removed.
func TestLeftovers(t *testing.T) {
	me, err := procfs.Self()
	must.OK(t, err)
	elsewhere := me
	elsewhere.Boot, elsewhere.Host = "another", "elsewhere"
	namespace := func(name, run string, of *procfs.Identity, text string) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if run != "" {
			ns.Labels[RunLabel] = run
		}
		if of != nil {
			must.OK(t, annotate(ns, *of))
		}
		if text != "" {
			ns.Annotations = map[string]string{ownerAnnotation: text}
		}
		return ns
	}
	leased := func(name, run string, of *procfs.Identity) *corev1.Namespace {
		ns := namespace(name, run, of, "")
		ns.Annotations[leaseAnnotation] = "true"
		return ns
	}
	gone := me
	gone.StartTicks++ // its PID now belongs to this process
	going := namespace("meshtrial-going", "r", &gone, "")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes"}
	all := []runtime.Object{
		namespace("default", "", nil, ""),
		namespace("meshtrial-mine", "r", &me, ""),
		namespace("meshtrial-dead", "r", &gone, ""),
		namespace("meshtrial-far", "r", &elsewhere, ""),
		leased("meshtrial-far-leased", "r", &elsewhere),
		leased("meshtrial-mine-leased", "r", &me),
		namespace("meshtrial-silent", "r", nil, ""),
		namespace("meshtrial-garbled", "r", nil, `{"pid":`),
		namespace("meshtrial-unlabelled", "", &gone, ""),
		namespace("theirs", "r", &gone, ""),
		going,
	}
	kube := fakecluster.New(all...)
	left, err := Leftovers(t.Context(), kube)
	must.OK(t, err)
	got := map[string]bool{}
	for _, l := range left {
		got[l.Namespace] = l.Dead
	}
	if want := (map[string]bool{"meshtrial-dead": true, "meshtrial-far-leased": true, "meshtrial-far": false, "meshtrial-silent": false, "meshtrial-garbled": false}); !reflect.DeepEqual(got, want) {
		t.Errorf("left over (and dead): %v, want %v", got, want)
	}
	must.OK(t, RemoveLeftovers(t.Context(), kube, left))
	list, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	must.OK(t, err)
	if len(list.Items) != len(all)-2 {
		t.Errorf("%d namespaces are there, want all but two of %d", len(list.Items), len(all))
	}
	for _, ns := range list.Items {
		if ns.Name == "meshtrial-dead" || ns.Name == "meshtrial-far-leased" {
			t.Error("the dead run's namespace is there")
		}
	}
}

// An API server that is busy for a moment does not end the wait for a namespace; one that refuses
// the request does.
func TestAwaitGone(t *testing.T) {
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"busy":    {[]error{apierrors.NewServiceUnavailable("starting"), apierrors.NewTooManyRequests("busy", 1)}, ""},
		"refused": {[]error{apierrors.NewForbidden(corev1.Resource("namespaces"), "x", nil)}, "forbidden"},
	} {
		synctest.Test(t, func(t *testing.T) {
			kube, looks := fakecluster.New(), 0
			kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				if looks++; looks > len(c.errs) {
					return false, nil, nil
				}
				return true, nil, c.errs[looks-1]
			})
			if err := awaitGone(t.Context(), kube, "x"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// FuzzLeftovers verifies that, whatever the annotation of a namespace with an
// unknown run, it counts as a leftover, and as certainly dead only if the
// annotation is from this boot, because dead runs are removed.
func FuzzLeftovers(f *testing.F) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must.OK(f, err)
	boot := strings.TrimSpace(string(text))
	for _, note := range []string{"", "{", "null", "7", `{"pid": 1}`, `{"pid": -1, "boot_id": "` + boot + `"}`, `{"host": "a", "boot": "b", "pid": 99999999999999999999}`,
		`{"pid": 4194304, "boot": "x", "pid_namespace": "pid:[1]", "start_ticks": 1}`} {
		f.Add(note)
	}
	f.Fuzz(func(t *testing.T, note string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: NamespacePrefix + "x", Labels: map[string]string{RunLabel: "x"},
			Annotations: map[string]string{ownerAnnotation: note}}}
		left, err := Leftovers(t.Context(), fakecluster.New(ns))
		must.OK(t, err)
		mine := strings.Contains(note, boot)
		if len(left) != 1 && !mine {
			t.Errorf("%q: its run counts as alive", note)
		}
		for _, l := range left {
			if l.Dead && !mine {
				t.Errorf("%q: its run counts as dead", note)
			}
			if l.Namespace != ns.Name || l.Run != "x" {
				t.Errorf("%q: %+v", note, l)
			}
		}
	})
}

// A run waits only for the pods of runs that have ended, and at most a minute for
// those that do not terminate.
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
		cancel  time.Duration // when the context is canceled; 0: never
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
	hidden := fakecluster.New(namespace("meshtrial-ending", "a", true), pod("meshtrial-ending"))
	hidden.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	if left, err := AwaitEnding(t.Context(), hidden, func(of []string) { t.Errorf("waits for %v, which it cannot see", of) }); err != nil || left != nil {
		t.Errorf("%v, %v", left, err)
	}
	if left, err := AwaitEnding(t.Context(), fakecluster.New(namespace("meshtrial-at-work", "c", false), pod("meshtrial-at-work")), func(of []string) {
		t.Errorf("waits for %v", of)
	}); err != nil || left != nil {
		t.Errorf("%v, %v", left, err)
	}
}
