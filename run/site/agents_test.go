package site

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
)

// Agents of all nodes are found, or none. Where one is missing that is told at once: no request
// depends on it.
func TestFindAgents(t *testing.T) {
	agent := func(namespace, node string, ready corev1.ConditionStatus) runtime.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-" + node + string(ready), Labels: map[string]string{"app": "agent"}}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	for name, c := range map[string]struct {
		pods    []runtime.Object
		refuses error
		fails   string
	}{
		"on all nodes":        {pods: []runtime.Object{agent("mesh", "a", yes), agent("mesh", "b", yes)}},
		"one is replaced":     {pods: []runtime.Object{agent("mesh", "a", yes), agent("mesh", "b", no), agent("mesh", "b", yes)}},
		"one is not ready":    {pods: []runtime.Object{agent("mesh", "a", yes), agent("mesh", "b", no)}, fails: "no pod app=agent is ready on node b: agent-bFalse: Running"},
		"one is not there":    {pods: []runtime.Object{agent("mesh", "a", yes)}, fails: "no pod app=agent is ready on node b: there is no such pod"},
		"one is out of sight": {pods: []runtime.Object{agent("mesh", "a", yes), agent("mesh", "b", yes), agent("mesh", "unseen", yes)}, fails: "node unseen: no observer runs there"},
		"elsewhere":           {pods: []runtime.Object{agent("system", "a", yes), agent("system", "b", yes)}, fails: "namespace mesh has no pod app=agent"},
		"hidden":              {pods: []runtime.Object{agent("mesh", "a", yes)}, refuses: apierrors.NewForbidden(corev1.Resource("pods"), "", nil), fails: "list the pods app=agent of namespace mesh: pods is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fakecluster.New(c.pods...)
			kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return c.refuses != nil, nil, c.refuses })
			seen := observe.Client{HTTPClient: http.DefaultClient}
			s, nodes := &Site{Kube: kube, Observers: map[string]observe.Client{"a": seen, "b": seen}}, []string{"a", "b"}
			if strings.Contains(c.fails, "unseen") {
				nodes = append(nodes, "unseen")
			}
			found, err := s.FindAgents(t.Context(), mesh.Agents{Namespace: "mesh", Selector: "app=agent"}, nodes)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || len(found) > 0 {
					t.Errorf("%v, found %+v", err, found)
				}
				return
			}
			for _, node := range nodes {
				if pod := found[node]; err != nil || len(found) != 2 || pod.Namespace != "mesh" || pod.Name != "agent-"+node+"True" || pod.Node != node {
					t.Errorf("found %+v, %v", found, err)
				}
			}
		})
	}
}
