package site

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Pods may be placed on a node that is ready, named, and has no restrictions.
func TestOpenNodes(t *testing.T) {
	now := metav1.Now()
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: effect}} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"ready":          {func(*corev1.Node) {}, true},
		"cordoned":       {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		"going":          {func(n *corev1.Node) { n.DeletionTimestamp, n.Finalizers = &now, []string{"x"} }, false},
		"tainted":        {taint(corev1.TaintEffectNoSchedule), false},
		"evicting":       {taint(corev1.TaintEffectNoExecute), false},
		"shunned":        {taint(corev1.TaintEffectPreferNoSchedule), true},
		"not ready":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, false},
		"says nothing":   {func(n *corev1.Node) { n.Status.Conditions = nil }, false},
		"without a name": {func(n *corev1.Node) { delete(n.Labels, corev1.LabelHostname) }, false},
	} {
		node := func(name string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		}
		changed := node("b")
		c.change(changed)
		got := ""
		open, err := OpenNodes(t.Context(), fakecluster.New(node("a"), changed, node("c")))
		for _, n := range open {
			got += n.Name
		}
		if want := map[bool]string{true: "abc", false: "ac"}[c.want]; err != nil || got != want {
			t.Errorf("%s: nodes %q, %v", name, got, err)
		}
	}
}

// A node's machine is what its observer reports, or otherwise the API server. Each node
// of a part is listed once.
func TestNodesOf(t *testing.T) {
	node := func(name string) runtime.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "m5", corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "eu"}}}
		n.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: "amd64", KernelVersion: "6.1"}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		return n
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonhttp.Answer(w, record.Machine{CPUModel: "EPYC", NodeArch: "amd64", CPUs: 2, Kernel: "6.2"})
	}))
	defer server.Close()
	s := &Site{Kube: fakecluster.New(node("a"), node("b")), Observers: map[string]observe.Client{"b": {HTTPClient: server.Client(), BaseURL: server.URL}}}
	got := s.NodesOf(t.Context(), map[string][]string{record.PartControl: {"b", "a", "b"}, record.PartSimulator: {"gone"}})
	want := map[string]record.NodeAt{
		record.PartControl:                   {Name: "a", Zone: "eu/a", Machine: "m5, amd64, 8 CPUs, Linux 6.1"},
		record.OfHand(record.PartControl, 1): {Name: "b", Zone: "eu/a", Machine: "EPYC, amd64, 2 CPUs, Linux 6.2"},
		record.PartSimulator:                 {Name: "gone"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
