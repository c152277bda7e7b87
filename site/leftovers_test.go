package site

import (
	"os/exec"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// ended starts a process, lets it end, and returns it as an owner, waited
// for or still a zombie.
func ended(t *testing.T, me owner, wait bool) owner {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := readProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	o := me
	o.PID, o.StartTicks = cmd.Process.Pid, process.StartTime
	if got := lifeOf(o, me); got != alive {
		t.Errorf("a process that runs is %d", got)
	}
	in.Close()
	if wait {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return o
	}
	t.Cleanup(func() { cmd.Wait() })
	for process.State != 'Z' { // ends with the test's own deadline
		if process, err = readProcess(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	return o
}

func TestLifeOf(t *testing.T) {
	me, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*owner)) owner {
		o := me
		change(&o)
		return o
	}
	for _, tt := range []struct {
		name string
		of   owner
		want life
	}{
		{"this process", me, alive},
		{"gone", ended(t, me, true), dead},
		{"a zombie", ended(t, me, false), dead},
		{"its number is used again", with(func(o *owner) { o.StartTicks++ }), dead},
		{"another machine, or boot", with(func(o *owner) { o.Boot = "b"; o.PID = 1 << 22 }), unknown},
		{"another PID namespace", with(func(o *owner) { o.PIDNamespace = "pid:[1]"; o.PID = 1 << 22 }), unknown},
		{"nothing known", owner{}, unknown},
		{"no PID", with(func(o *owner) { o.PID = 0 }), unknown},
	} {
		if got := lifeOf(tt.of, me); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Of many namespaces those of runs that are not under way are left over, and
// only those whose process is certainly dead are removed.
func TestLeftovers(t *testing.T) {
	me, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := me
	elsewhere.Boot, elsewhere.Host = "another", "elsewhere"
	namespace := func(name, run string, of *owner, text string) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if run != "" {
			ns.Labels[RunLabel] = run
		}
		if of != nil {
			if err := annotate(ns, *of); err != nil {
				t.Fatal(err)
			}
		}
		if text != "" {
			ns.Annotations = map[string]string{ownerAnnotation: text}
		}
		return ns
	}
	gone := ended(t, me, true)
	going := namespace("meshtrial-going", "r", &gone, "")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes"}
	all := []runtime.Object{
		namespace("default", "", nil, ""),
		namespace("meshtrial-mine", "r", &me, ""),
		namespace("meshtrial-dead", "r", &gone, ""),
		namespace("meshtrial-far", "r", &elsewhere, ""),
		namespace("meshtrial-silent", "r", nil, ""),
		namespace("meshtrial-garbled", "r", nil, `{"pid":`),
		namespace("meshtrial-unlabelled", "", &gone, ""),
		namespace("theirs", "r", &gone, ""),
		going,
	}
	kube := fakecluster.New(all...)
	left, err := Leftovers(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, l := range left {
		got[l.Namespace] = l.Dead
	}
	if want := (map[string]bool{"meshtrial-dead": true, "meshtrial-far": false, "meshtrial-silent": false, "meshtrial-garbled": false}); !reflect.DeepEqual(got, want) {
		t.Errorf("left over (and dead): %v, want %v", got, want)
	}
	if err := removeLeftovers(t.Context(), kube, left); err != nil {
		t.Fatal(err)
	}
	list, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != len(all)-1 {
		t.Errorf("%d namespaces are there, want all but one of %d", len(list.Items), len(all))
	}
	for _, ns := range list.Items {
		if ns.Name == "meshtrial-dead" {
			t.Error("the dead run's namespace is there")
		}
	}
}
