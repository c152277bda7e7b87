package istio

import (
	"cmp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
)

// A node that is not ready is none that a study could use: it refuses none, and is named.
// One that is ready, and has no ztunnel that is, does.
func TestAmbientDeadNodes(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	type counts struct{ ready, updated int32 }
	for name, c := range map[string]struct {
		nodes  map[string]corev1.ConditionStatus // of three
		counts counts
		hidden bool // nodes may not be asked for
		want   string
		noted  string
	}{
		"all are ready":             {nil, counts{3, 3}, false, "", ""},
		"one is not":                {map[string]corev1.ConditionStatus{"c": corev1.ConditionUnknown}, counts{2, 3}, false, "", "not ready have no part in the ambient mesh, nor in the study: c"},
		"one is not, after upgrade": {map[string]corev1.ConditionStatus{"c": corev1.ConditionFalse}, counts{2, 2}, false, "", "study: c"},
		"two are not":               {map[string]corev1.ConditionStatus{"b": corev1.ConditionFalse, "c": corev1.ConditionUnknown}, counts{1, 3}, false, "", "study: b, c"},
		"none is":                   {map[string]corev1.ConditionStatus{"a": corev1.ConditionFalse, "b": corev1.ConditionFalse, "c": corev1.ConditionUnknown}, counts{0, 3}, false, "ztunnel is ready on 0 of 0 nodes", "study: a, b, c"},
		"another's is not":          {nil, counts{2, 3}, false, "ztunnel is ready on 2 of 3 nodes", ""},
		"one of the others is not":  {map[string]corev1.ConditionStatus{"c": corev1.ConditionFalse}, counts{1, 3}, false, "ztunnel is ready on 1 of 2 nodes", "study: c"},
		"amid an upgrade":           {map[string]corev1.ConditionStatus{"c": corev1.ConditionFalse}, counts{2, 1}, false, "ztunnel is being rolled out: 1 of 2 nodes", "study: c"},
		"nobody may ask":            {map[string]corev1.ConditionStatus{"c": corev1.ConditionFalse}, counts{2, 3}, true, "ztunnel is ready on 2 of 3 nodes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fakecluster.New()
			add := func(o runtime.Object) {
				if err := kube.Tracker().Add(o); err != nil {
					t.Fatal(err)
				}
			}
			for _, set := range []string{ztunnelName, agentName} {
				labels := map[string]string{"app": set}
				add(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: set, Namespace: Namespace},
					Spec:   appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podOf(proxyContainer, "istio/"+set+":1.31.0")},
					Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: c.counts.updated, NumberReady: c.counts.ready}})
				for i, on := range []string{"a", "b", "c"} {
					ready := corev1.ConditionFalse
					if int32(i) < c.counts.ready {
						ready = corev1.ConditionTrue
					}
					add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: set + "-" + on, Namespace: Namespace, Labels: labels}, Spec: corev1.PodSpec{NodeName: on},
						Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}})
				}
			}
			for _, one := range []string{"a", "b", "c"} {
				add(node(one, cmp.Or(c.nodes[one], corev1.ConditionTrue)))
			}
			if c.hidden {
				kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "c", nil)
				})
			}
			f := AsFound{istiods: []appsv1.Deployment{{Spec: appsv1.DeploymentSpec{Template: podOf(istiodContainer, "istio/pilot:1.31.0")}}}}
			f.istiods[0].Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: ambientEnv, Value: "true"}}
			if err := f.readAmbient(t.Context(), kube); err != nil {
				t.Fatal(err)
			}
			if err := f.refuseAmbient(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
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
