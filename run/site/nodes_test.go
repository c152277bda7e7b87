package site

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// Pods may go to a node that is ready, named, and kept from nobody.
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
