package site

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// Of many namespaces those of runs that are not under way are left over, and
// only those are removed whose process is certainly dead, or whose cluster has
// another holder now.
func TestLeftovers(t *testing.T) {
	me, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := me
	elsewhere.Boot, elsewhere.Host = "another", "elsewhere"
	namespace := func(name, run string, of *procfs.Identity, text string) *corev1.Namespace {
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
	leased := func(name, run string, of *procfs.Identity) *corev1.Namespace {
		ns := namespace(name, run, of, "")
		ns.Annotations[leaseAnnotation] = "true"
		return ns
	}
	gone := me
	gone.StartTicks++ // its number is this process's now
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
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, l := range left {
		got[l.Namespace] = l.Dead
	}
	if want := (map[string]bool{"meshtrial-dead": true, "meshtrial-far-leased": true, "meshtrial-far": false, "meshtrial-silent": false, "meshtrial-garbled": false}); !reflect.DeepEqual(got, want) {
		t.Errorf("left over (and dead): %v, want %v", got, want)
	}
	if err := RemoveLeftovers(t.Context(), kube, left); err != nil {
		t.Fatal(err)
	}
	list, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != len(all)-2 {
		t.Errorf("%d namespaces are there, want all but two of %d", len(list.Items), len(all))
	}
	for _, ns := range list.Items {
		if ns.Name == "meshtrial-dead" || ns.Name == "meshtrial-far-leased" {
			t.Error("the dead run's namespace is there")
		}
	}
}
