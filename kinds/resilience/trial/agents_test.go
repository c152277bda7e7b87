package trial

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Node agents are a separate part if ztunnel carries requests, or if pods rely on them for
// redirection to their sidecars. They are not if each pod redirects itself, nor if one of them is
// missing, which the evidence reports.
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
		said := strings.Join(trial.evidence.Unmeasured, "; ")
		if missing := name == "one is missing"; missing != (said != "") || missing && !strings.Contains(said, "Istio's node agent, which no request passes, were not measured: no pod k8s-app=istio-cni-node is ready on node three") {
			t.Errorf("%s: it says %q", name, said)
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

// The agents' usage is removed from the record if one of them was not sampled from start to end.
func TestWholeAgents(t *testing.T) {
	for name, c := range map[string]struct {
		away   bool
		inode  uint64 // of b's cgroup at the end
		unseen bool
		lacks  string
	}{
		"both":               {inode: 1},
		"one was replaced":   {inode: 1, away: true, lacks: "on node two: it was gone at the last reading"},
		"one was never read": {unseen: true, lacks: "on node two: it was gone at the last reading"},
		"one began anew":     {inode: 2, lacks: "on node two: cgroup CPU counters: restarted within the window"},
	} {
		at := func(inode uint64) usage {
			return usage{record.PartNodeAgent, observe.Sample{CPU: observe.CPUSample{Inode: inode}}}
		}
		trial := sharedTrial(fakecluster.New())
		trial.agents, trial.out.NodeAgents = []site.Pod{{UID: "a", Node: "one"}, {UID: "b", Node: "two"}}, 2
		trial.looks = &looks{first: map[string]usage{"a": at(1), "b": at(1)}, last: map[string]usage{"a": at(1), "b": at(c.inode)}, away: map[string]bool{"a": false, "b": c.away}}
		if c.unseen {
			delete(trial.looks.last, "b")
		}
		out := &record.Scenario{CPU: map[string]record.CPU{record.PartNodeAgent: {UserS: 1}, partControlPlane: {UserS: 1}}, Memory: map[string]int64{record.PartNodeAgent: 1, partControlPlane: 1}}
		trial.wholeAgents(out)
		_, cpu := out.CPU[record.PartNodeAgent]
		_, memory := out.Memory[record.PartNodeAgent]
		whole := c.lacks == ""
		if cpu != whole || memory != whole || (trial.out.NodeAgents == 2) != whole || len(out.CPU) == 0 || len(out.Memory) == 0 {
			t.Errorf("%s: %d agents, CPU %v, memory %v", name, trial.out.NodeAgents, out.CPU, out.Memory)
		}
		if want := "CPU and memory of Istio's node agent, which no request passes, were not measured: " + c.lacks; slices.Contains(trial.evidence.Unmeasured, want) == whole || whole != (len(trial.evidence.Unmeasured) == 0) {
			t.Errorf("%s: it says %q", name, trial.evidence.Unmeasured)
		}
	}
}

// A pod missing in the last sample was gone by then, whatever was read of it before.
func TestGoneAtTheLastLook(t *testing.T) {
	gone := false
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sample := observe.Sample{}
		if gone {
			sample.Error = "no cgroup found"
		}
		jsonhttp.Answer(w, observe.SnapshotsAnswer{Snapshots: []observe.Snapshot{{Targets: map[string]observe.Sample{"1": sample}}}})
	}))
	defer node.Close()
	l := looksAt(&site.Site{Observers: map[string]observe.Client{"a": {HTTPClient: node.Client(), BaseURL: node.URL}}, Control: []site.Pod{{UID: "1", Node: "a"}}})
	for _, gone = range []bool{false, true} {
		must.OK(t, l.cost(t.Context(), false))
		if err := l.whole("1"); (err != nil) != gone {
			t.Errorf("gone %v: %v", gone, err)
		}
	}
}
