package trial

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// The agents of nodes are a part of their own where ztunnel carries requests, and where pods
// leave it to them to lead requests to their sidecars; not where each pod does that itself,
// and not if one of them is missing.
func TestFindAgents(t *testing.T) {
	agent := func(node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-" + node, Namespace: "istio-system", UID: types.UID("agent-" + node), Labels: map[string]string{"k8s-app": "istio-cni-node"}},
			Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	}
	for name, c := range map[string]struct {
		ambient  []string // nodes
		init     string   // container of the pods
		want     int
		sidecars bool
	}{
		"ambient":             {[]string{"one", "two"}, "", 2, false},
		"its own redirection": {nil, "istio-init", 0, false},
		"the agent's":         {nil, "istio-validation", 1, true},
		"one is missing":      {[]string{"one", "three"}, "", 0, false},
	} {
		trial := sharedTrial(fakecluster.New(agent("one"), agent("two")))
		trial.Observers = map[string]observe.Client{}
		for _, node := range []string{"one", "two", "three"} {
			trial.Observers[node] = observe.Client{HTTPClient: http.DefaultClient}
		}
		trial.shared.nodes = c.ambient
		trial.census = &census{pods: map[string]*resident{"a": {uid: "a", ScenarioPod: record.ScenarioPod{Node: "one"},
			volatile: &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: c.init}}}}}}}
		trial.findAgents(t.Context())
		if trial.out.NodeAgents != c.want || trial.out.AgentForSidecars != c.sidecars {
			t.Errorf("%s: %d agents, for sidecars %v", name, trial.out.NodeAgents, trial.out.AgentForSidecars)
		}
		seen := 0
		_, parts := trial.targets()
		for _, part := range parts {
			if part == record.PartNodeAgent {
				seen++
			}
		}
		if seen != c.want {
			t.Errorf("%s: %d of the %d are looked at", name, seen, c.want)
		}
	}
}
