package site

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
)

// FindAgents returns the agents of all nodes or none. It reports a missing one at once, because
// no request depends on it.
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

// Pods that agents must connect to proxies are awaited for exactly as long as an agent may
// take. The error names one, its node, and where to look.
func TestAwaitBrought(t *testing.T) {
	pod := func(name, mark string, labels map[string]string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: name, Labels: labels, Annotations: map[string]string{"mark": mark}}, Spec: corev1.PodSpec{NodeName: "one"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	in, out := map[string]string{"mesh": "in"}, map[string]string{"mesh": "none"}
	agent := pod("agent-1", "", map[string]string{"app": "agent"}, corev1.ConditionTrue)
	agent.Namespace = "system"
	elsewhere := agent.DeepCopy()
	elsewhere.Spec.NodeName = "two"
	agents := mesh.Agents{Namespace: "system", Selector: "app=agent", Brought: "mesh=in", Mark: "mark", Marked: "done", Noun: "the agent", Hint: "why that is"}
	const most = (broughtLooks - 1) * broughtEvery
	for name, c := range map[string]struct {
		pods  []*corev1.Pod
		agent *corev1.Pod
		lists func(look int) error
		marks int // the poll from which all are marked; 0: never
		takes time.Duration
		fails string
		hint  string
	}{
		"all":                  {pods: []*corev1.Pod{pod("a", "done", in, corev1.ConditionTrue), pod("b", "done", in, corev1.ConditionTrue)}},
		"none is to be":        {pods: []*corev1.Pod{pod("a", "", out, corev1.ConditionTrue)}},
		"one that is no more":  {pods: []*corev1.Pod{pod("a", "", in, corev1.ConditionFalse)}},
		"late":                 {pods: []*corev1.Pod{pod("a", "pending", in, corev1.ConditionTrue)}, marks: 12, takes: 11 * broughtEvery},
		"at the last look":     {pods: []*corev1.Pod{pod("a", "pending", in, corev1.ConditionTrue)}, marks: broughtLooks, takes: most},
		"a busy API server":    {pods: []*corev1.Pod{pod("a", "done", in, corev1.ConditionTrue)}, lists: func(look int) error { return map[int]error{1: errors.New("busy")}[look] }, takes: broughtEvery},
		"an API server is off": {pods: []*corev1.Pod{pod("a", "done", in, corev1.ConditionTrue)}, lists: func(int) error { return errors.New("off") }, takes: most, fails: "off"},
		"never": {pods: []*corev1.Pod{pod("a", "", in, corev1.ConditionTrue), pod("b", "done", in, corev1.ConditionTrue)}, agent: agent, takes: most,
			fails: `the agent on node one has not added pod a to the node's proxy after 60 checks: its annotation mark is "", not "done"`, hint: "kubectl -n system logs agent-1; why that is"},
		"two of them, and no agent": {pods: []*corev1.Pod{pod("a", "pending", in, corev1.ConditionTrue), pod("b", "", in, corev1.ConditionTrue)}, agent: elsewhere, takes: most,
			fails: `pod a to the node's proxy after 60 checks: its annotation mark is "pending", not "done"; nor 1 more`, hint: "kubectl -n system get pods -l app=agent -o wide shows none that is ready on the node; why that is"},
	} {
		if c.agent == nil {
			c.agent = agent
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube, looks := fakecluster.New(c.agent), 0
				kube.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if action.GetNamespace() != "run" {
						return false, nil, nil
					}
					looks++
					if c.lists != nil && c.lists(looks) != nil {
						return true, nil, c.lists(looks)
					}
					all := &corev1.PodList{}
					for _, p := range c.pods {
						p = p.DeepCopy()
						if c.marks > 0 && looks >= c.marks {
							p.Annotations["mark"] = "done"
						}
						all.Items = append(all.Items, *p)
					}
					return true, all, nil
				})
				s, began := &Site{Kube: kube, Namespace: "run"}, time.Now()
				err := s.AwaitBrought(t.Context(), agents)
				if took := time.Since(began); took != c.takes {
					t.Errorf("took %v, want %v", took, c.takes)
				}
				if (err == nil) != (c.fails == "") || err != nil && (!strings.Contains(err.Error(), c.fails) || errs.Hint(err) != c.hint) {
					t.Errorf("%v (hint %q), want %q (%q)", err, errs.Hint(err), c.fails, c.hint)
				}
			})
		})
	}
	if err := (&Site{Kube: fakecluster.New(pod("a", "", in, corev1.ConditionTrue)), Namespace: "run"}).AwaitBrought(t.Context(), mesh.Agents{}); err != nil {
		t.Errorf("agents that leave no mark: %v", err)
	}
}
