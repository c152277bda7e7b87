package istio

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A node that is not ready is unusable by studies: it is named, but does not cause a refusal. A
// ready node without a ready ztunnel does.
func TestAmbientDeadNodes(t *testing.T) {
	const unknown, notReady = corev1.ConditionUnknown, corev1.ConditionFalse
	type counts struct{ ready, updated int32 }
	for name, c := range map[string]struct {
		nodes  map[string]corev1.ConditionStatus // of three
		counts counts
		// pods has, for each node a to c, the template generation of its pod and whether it runs
		// the image of the DaemonSet, whose generation is 2.
		pods   [3]string
		hidden string // what this user may not read
		want   string
		noted  string
	}{
		"all are ready":             {counts: counts{3, 3}},
		"one is not":                {nodes: map[string]corev1.ConditionStatus{"c": unknown}, counts: counts{2, 3}, noted: "not ready are left out of the ambient mesh and of the study: c"},
		"one is not, after upgrade": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 2}, pods: [3]string{"2 new", "2 new", "1 old"}, noted: "study: c"},
		"two are not":               {nodes: map[string]corev1.ConditionStatus{"b": notReady, "c": unknown}, counts: counts{1, 3}, noted: "study: b, c"},
		"none is":                   {nodes: map[string]corev1.ConditionStatus{"a": notReady, "b": notReady, "c": unknown}, counts: counts{0, 3}, want: "ztunnel is available on 0 of 0 nodes", noted: "study: a, b, c"},
		"another's is not":          {counts: counts{2, 3}, want: "ztunnel is available on 2 of 3 nodes"},
		"one of the others is not":  {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{1, 3}, want: "ztunnel is available on 1 of 2 nodes", noted: "study: c"},
		"amid an upgrade": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 1}, pods: [3]string{"2 new", "1 old", "1 old"},
			want: "ztunnel is being rolled out: 1 of 2 nodes", noted: "study: c"},
		// The dead node's pod counts as updated but unavailable, and blocks the others.
		"stalled by a dead node": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 2}, pods: [3]string{"2 new", "1 old", "2 new"},
			want: "ztunnel is being rolled out: 1 of 2 nodes that are ready have the new version", noted: "study: c"},
		"stalled amid a change of settings": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 2}, pods: [3]string{"2 new", "1 env", "2 new"},
			want: "ztunnel is being rolled out: 1 of 2 nodes that are ready have the new version", noted: "study: c"},
		"stalled by it alone": {nodes: map[string]corev1.ConditionStatus{"b": notReady, "c": notReady}, counts: counts{1, 1}, pods: [3]string{"1 old", "1 old", "2 new"},
			want: "ztunnel is being rolled out: 0 of 1 nodes that are ready have the new version", noted: "study: b, c"},
		"an upgrade undone": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 2}, pods: [3]string{"0 new", "0 new", "1 old"}, noted: "study: c"},
		"and stalled": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 2}, pods: [3]string{"0 new", "1 old", "0 new"},
			want: "ztunnel is being rolled out: 1 of 2 nodes that are ready", noted: "study: c"},
		"nobody may ask for nodes": {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 3}, hidden: "nodes", want: "ztunnel is available on 2 of 3 nodes"},
		"nobody may ask for pods":  {nodes: map[string]corev1.ConditionStatus{"c": notReady}, counts: counts{2, 3}, hidden: "pods", want: "ztunnel is available on 2 of 3 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fakecluster.New()
			add := func(o runtime.Object) {
				must.OK(t, kube.Tracker().Add(o))
			}
			for _, set := range []string{ztunnelName, agentName} {
				labels := map[string]string{"app": set}
				add(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: set, Namespace: Namespace, Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}},
					Spec:   appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podOf(proxyContainer, "istio/"+set+":1.31.0")},
					Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: c.counts.updated, NumberReady: c.counts.ready, NumberAvailable: c.counts.ready}})
				for i, on := range []string{"a", "b", "c"} {
					ready := corev1.ConditionFalse
					if int32(i) < c.counts.ready {
						ready = corev1.ConditionTrue
					}
					of := maps.Clone(labels)
					made, image, _ := strings.Cut(cmp.Or(c.pods[i], "2 new"), " ")
					of[templateGeneration] = made
					add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: set + "-" + on, Namespace: Namespace, Labels: of},
						Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Image: "istio/" + set + map[string]string{"new": ":1.31.0", "env": ":1.31.0", "old": ":1.30.0"}[image],
							Env: map[string][]corev1.EnvVar{"env": {{Name: "RUST_LOG", Value: "debug"}}}[image]}}},
						Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}})
				}
			}
			for _, one := range []string{"a", "b", "c"} {
				// Cordoned nodes keep the pods of DaemonSets, which are updated there too.
				add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: one}, Spec: corev1.NodeSpec{Unschedulable: one == "b"},
					Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: cmp.Or(c.nodes[one], corev1.ConditionTrue)}}}})
			}
			if c.hidden != "" {
				kube.PrependReactor("*", c.hidden, func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(corev1.Resource(c.hidden), "c", nil)
				})
			}
			f := istiodAs("istio/pilot:1.31.0", corev1.EnvVar{Name: ambientEnv, Value: "true"})
			must.OK(t, f.readAmbient(t.Context(), kube))
			err := f.refuseAmbient()
			tells(t, c.want, err, c.want, "")
			if rolls := strings.Contains(c.want, "rolled out"); err != nil && strings.Contains(errs.Hint(err), "until it is ready or removed") != rolls {
				t.Errorf("a rollout %v: hint %q", rolls, errs.Hint(err))
			}
			noted := strings.Join(f.Beside(mesh.Asked{Ambient: true}), "; ")
			if (noted == "") != (c.noted == "") || !strings.HasSuffix(noted, c.noted) {
				t.Errorf("noted %q, want %q", noted, c.noted)
			}
			if of := f.Beside(mesh.Asked{}); len(of) > 0 {
				t.Errorf("a study of sidecars is told %q", of)
			}
		})
	}
}
