package site

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe"
)

// machineLab is a lab with that many nodes on this machine.
type machineLab struct {
	lab.Lab
	size int
}

func (machineLab) Process() int { return 1 }
func (m machineLab) Size() int  { return m.size }

// Waiting for observers includes those that trials read in addition to the workloads': on
// the control plane's nodes, and on all nodes of a shared machine. A missing one is
// reported, and does not end a run.
func TestAwaitObservers(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		size  int                      // of a lab on this machine; 0: a cluster
		plane string                   // the control plane's node
		ready map[string]time.Duration // when observers are, by node
		takes time.Duration
		note  string
	}{
		"the workload's alone":    {0, "", map[string]time.Duration{"a": 2 * time.Second, "b": never}, 2 * time.Second, ""},
		"the control plane's":     {0, "b", map[string]time.Duration{"a": 0, "b": 5 * time.Second, "c": never}, 5 * time.Second, ""},
		"none on that node":       {0, "b", map[string]time.Duration{"a": 0}, 0, ""},
		"a machine's":             {3, "", map[string]time.Duration{"a": 0, "b": 0, "c": 3 * time.Second}, 3 * time.Second, ""},
		"a machine of one node":   {1, "", map[string]time.Duration{"a": 0, "b": never}, 0, ""},
		"one that does not come":  {0, "b", map[string]time.Duration{"a": time.Second, "b": never}, time.Second + besideTime, "no observer is ready on node b after 30s"},
		"one of a node that died": {3, "", map[string]time.Duration{"a": 0, "dead": never}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, note := time.Now(), ""
				s := observed(c.plane, slices.Collect(maps.Keys(c.ready)), func(node string) bool { return time.Since(began) >= c.ready[node] })
				s.Note = func(text string) { note = text }
				if c.size > 0 {
					s.lab = machineLab{size: c.size}
				}
				err := s.AwaitObservers(t.Context())
				if took := time.Since(began); err != nil || took != c.takes {
					t.Errorf("took %v, want %v; %v", took, c.takes, err)
				}
				if !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
					t.Errorf("told %q", note)
				}
			})
		})
	}
}

// An observer that cannot start on an irrelevant node does not end the wait.
func TestAwaitObserversBesideBrokenNode(t *testing.T) {
	for node, ends := range map[string]bool{"a": true, "broken": false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := observed("", nil, nil)
			s.Kube.(fakecluster.Cluster).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				pod := func(app, node string) corev1.Pod {
					return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app + "-" + node, Labels: Labels("r", app)}, Spec: corev1.PodSpec{NodeName: node}}
				}
				stuck := pod(RoleObserve, node)
				stuck.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}}}}
				list := &corev1.PodList{Items: []corev1.Pod{pod(RoleWorker, "a"), stuck}}
				list.Items[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				if time.Since(began) >= 5*time.Second {
					ready := pod(RoleObserve, "a")
					ready.Status.Conditions = list.Items[0].Status.Conditions
					list.Items = append(list.Items, ready)
				}
				return true, list, nil
			})
			if err := s.AwaitObservers(t.Context()); (err != nil) != ends {
				t.Errorf("stuck on node %s: %v", node, err)
			}
		})
	}
}

// An observer that was given up is used once it is ready, and only then awaited again.
func TestObserverGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready, told := map[string]bool{"a": true}, 0
		s := observed("b", []string{"a", "b"}, func(node string) bool { return ready[node] })
		s.Note, s.Dialer = func(string) { told++ }, lab.NewDialer(&rest.Config{})
		await := func(when string, takes time.Duration, notes int) {
			t.Helper()
			began := time.Now()
			if err := s.AwaitObservers(t.Context()); err != nil || time.Since(began) != takes || told != notes {
				t.Errorf("%s: took %v, want %v, and told %d times, want %d; %v", when, time.Since(began), takes, told, notes, err)
			}
			if _, err := s.ReadyPods(t.Context()); err != nil || s.Observed("b") != ready["b"] {
				t.Errorf("%s: node b is observed: %v; %v", when, s.Observed("b"), err)
			}
			s.Observers = map[string]observe.Client{} // as by Redial
		}
		await("never ready", besideTime, 1)
		await("given up", 0, 1)
		ready["b"] = true
		await("ready after all", 0, 1)
		ready["b"] = false
		await("gone again", besideTime, 2)
	})
}

// observed returns a site with a worker on node a, the control plane on the node at, and
// observers on some nodes. On node "dead" the kubelet is silent.
func observed(at string, nodes []string, ready func(node string) bool) *Site {
	pod := func(app, node string, ready bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app + "-" + node, Labels: Labels("r", app)}, Spec: corev1.PodSpec{NodeName: node}}
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Ready: ready || node == "dead"}}}
		return p
	}
	kube := fakecluster.New()
	kube.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "istio-system" {
			return true, &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "istiod"}}, Spec: corev1.PodSpec{NodeName: at}}}}, nil
		}
		list := &corev1.PodList{Items: []corev1.Pod{pod(RoleWorker, "a", true)}}
		for _, node := range nodes {
			list.Items = append(list.Items, pod(RoleObserve, node, ready(node)))
		}
		return true, list, nil
	})
	return &Site{Kube: kube, Namespace: "meshtrial-r", Observers: map[string]observe.Client{}, mesh: plane{selector: "app=istiod"}}
}
