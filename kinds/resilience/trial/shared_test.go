package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// nodeProxy returns a ztunnel pod.
func nodeProxy(name, node string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "istio-system", UID: types.UID(name), Labels: map[string]string{"app": "ztunnel"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func sharedTrial(cluster fakecluster.Cluster) *scenarioTrial {
	return &scenarioTrial{stage: &stage{Site: &site.Site{Kube: cluster}, say: func(string, ...any) {}}, scene: &scene{mesh: sitetest.Istio()}}
}

// briefly returns a context for waits that are to end soon.
func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A restart counts once each of the trial's nodes has a different proxy that is ready, however many
// others have.
func TestReplaced(t *testing.T) {
	a, b := nodeProxy("a", "one", true), nodeProxy("b", "two", true)
	fresh, slow := nodeProxy("c", "one", true), nodeProxy("d", "two", false)
	for name, c := range map[string]struct {
		pods  []runtime.Object
		nodes []string // of the trial
		want  int      // 0: not proved
	}{
		"both":                   {[]runtime.Object{fresh, nodeProxy("d", "two", true)}, []string{"one", "two"}, 2},
		"both, old ones end":     {[]runtime.Object{a, b, fresh, nodeProxy("d", "two", true)}, []string{"one", "two"}, 2},
		"the trial's alone":      {[]runtime.Object{b, fresh, slow}, []string{"one"}, 1},
		"one of two":             {[]runtime.Object{b, fresh, slow}, []string{"one", "two"}, 0},
		"another's":              {[]runtime.Object{b, fresh, slow}, []string{"two"}, 0},
		"none":                   {[]runtime.Object{a, b, slow}, []string{"one"}, 0},
		"nobody is there at all": {nil, []string{"one"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			trial := sharedTrial(fakecluster.New(c.pods...))
			trial.shared.nodes = c.nodes
			got, err := trial.replaced(briefly(t), []corev1.Pod{*a, *b})
			if got != c.want || (err == nil) != (c.want > 0) {
				t.Errorf("%d are replaced, %v", got, err)
			}
		})
	}
}

// The way back of a move that had not reached every node awaits only the nodes that it had.
func TestMoveBackHalfway(t *testing.T) {
	owned := func(name, node string) *corev1.Pod {
		pod := nodeProxy(name, node, true)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ztunnel", Controller: site.Ptr(true)}}
		return pod
	}
	before, untouched, moved := owned("a", "one"), owned("b", "two"), owned("c", "one")
	cluster := fakecluster.New(moved, untouched)
	lists := 0
	cluster.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if lists++; lists != 3 {
			return false, nil, nil
		}
		return false, nil, errors.Join(cluster.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), moved.Namespace, moved.Name), cluster.Tracker().Add(owned("d", "one")))
	})
	trial := sharedTrial(cluster)
	trial.shared.nodes, trial.shared.reset = []string{"one", "two"}, []restart{{old: []corev1.Pod{*before, *untouched}, moved: true}}
	trial.changes = reverting{}
	h := &executor{scenarioTrial: trial}
	limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	must.OK(t, h.moveNodes(limited, fault.Installed, mesh.Plane{}))
	if left := trial.shared.leaving; lists < 3 || len(left) != 1 || left[0].Name != "c" || len(trial.shared.reset) > 0 {
		t.Errorf("%d looks, leaving %v", lists, left)
	}
}

// reverting reverts every change.
type reverting struct{ changer }

func (reverting) Revert(context.Context, journal.Object, string, []fields.Field) error { return nil }

// After a trial the pods that Kubernetes replaces are awaited. If a restart had not reached every
// node, the rest are not, since they are as they should be.
func TestOutdated(t *testing.T) {
	untouched, made, killed := *nodeProxy("a", "one", true), *nodeProxy("b", "two", true), *nodeProxy("c", "three", true)
	ending := *nodeProxy("d", "two", true)
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	now := []corev1.Pod{untouched, made, killed, ending}
	reset := []restart{{old: []corev1.Pod{untouched, killed, ending}}}
	for name, c := range map[string]struct {
		reset  []restart
		killed []site.Pod
		want   string
	}{
		"nothing":           {nil, nil, ""},
		"killed":            {nil, []site.Pod{{UID: "c"}}, "c"},
		"restarted":         {reset, nil, "bd"},
		"killed, restarted": {reset, []site.Pod{{UID: "c"}}, "bcd"},
	} {
		got := ""
		for _, p := range outdated(now, c.reset, c.killed) {
			got += p.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A ztunnel that a step killed has a new pod when the trial ends; the others stay.
func TestSettleKilled(t *testing.T) {
	cluster := fakecluster.New(nodeProxy("a", "one", true), nodeProxy("b", "two", true))
	cluster.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		if name != "a" {
			t.Errorf("pod %s is deleted", name)
		}
		return false, nil, cluster.Tracker().Add(nodeProxy("c", "one", true))
	})
	trial := sharedTrial(cluster)
	must.OK(t, trial.settleShared(t.Context()))
	trial.shared.noteKilled([]site.Pod{{Name: "a", UID: "a"}, {Name: "gone", UID: "before"}})
	must.OK(t, trial.settleShared(t.Context()))
	left, err := trial.onAllNodes(t.Context())
	names := ""
	for _, p := range left {
		names += p.Name
	}
	if err != nil || !strings.Contains(names, "b") || !strings.Contains(names, "c") || len(left) != 2 {
		t.Errorf("pods %s, %v", names, err)
	}
}

// The way back of a move goes from node to node, and may not have reached all at the trial's end.
func TestSettleMovedBack(t *testing.T) {
	late := nodeProxy("b", "two", true)
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	cluster := fakecluster.New(nodeProxy("a", "one", true), late, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Status: ready})
	lists := 0
	cluster.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if lists++; lists != 3 {
			return false, nil, nil
		}
		return false, nil, errors.Join(cluster.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), late.Namespace, late.Name), cluster.Tracker().Add(nodeProxy("c", "two", true)))
	})
	trial := sharedTrial(cluster)
	trial.shared.leaving = []corev1.Pod{*late}
	must.OK(t, trial.settleShared(t.Context()))
	if now, err := trial.onAllNodes(t.Context()); err != nil || among(now, *late) {
		t.Errorf("it was not awaited: %v, %v", now, err)
	}
}

// A node that died in a trial has no new ztunnel at the end, and keeps the old one's pod for long:
// it is not awaited, and the run continues. A living node is awaited.
func TestOnceGone(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	a, b := nodeProxy("a", "one", true), nodeProxy("b", "two", true)
	fresh := nodeProxy("c", "one", true)
	lives := node("one", corev1.ConditionTrue)
	for name, c := range map[string]struct {
		cluster []runtime.Object
		waits   string // the node that is awaited
		said    string
	}{
		"both are replaced":                {[]runtime.Object{fresh, nodeProxy("d", "two", true), lives, node("two", corev1.ConditionTrue)}, "", ""},
		"another's is not ready":           {[]runtime.Object{fresh, nodeProxy("d", "two", true), nodeProxy("e", "three", false), lives}, "", ""},
		"one is not heard from":            {[]runtime.Object{fresh, b, lives, node("two", corev1.ConditionUnknown)}, "", "two"},
		"one is not, and has a dead proxy": {[]runtime.Object{fresh, b, nodeProxy("d", "two", false), lives, node("two", corev1.ConditionFalse)}, "", "two"},
		"one is gone":                      {[]runtime.Object{fresh, lives}, "", "two"},
		"one is slow":                      {[]runtime.Object{fresh, b, lives, node("two", corev1.ConditionTrue)}, "two", ""},
		"one is slow, the other is down":   {[]runtime.Object{fresh, a, b, node("one", corev1.ConditionTrue), node("two", corev1.ConditionUnknown)}, "one", ""},
	} {
		t.Run(name, func(t *testing.T) {
			trial, said := sharedTrial(fakecluster.New(c.cluster...)), ""
			trial.say = func(format string, of ...any) { said += fmt.Sprintf(format, of...) }
			err := trial.onceGone(briefly(t), []corev1.Pod{*a, *b})
			if (err == nil) != (c.waits == "") || err != nil && !strings.Contains(err.Error(), "nodes "+c.waits+" are not replaced") {
				t.Errorf("%v, want it to wait for %q", err, c.waits)
			}
			if (said == "") != (c.said == "") || !strings.Contains(said, c.said) {
				t.Errorf("said %q, want node %q", said, c.said)
			}
		})
	}
	cluster := fakecluster.New(fresh, b)
	cluster.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "two", nil)
	})
	if err := sharedTrial(cluster).onceGone(briefly(t), []corev1.Pod{*a, *b}); err == nil {
		t.Error("a node of which nothing is known is not waited for")
	}
}

// A step on some ztunnels affects those of that many nodes, however many pods each has. They need
// not answer: here none can be queried.
func TestZtunnelsOf(t *testing.T) {
	var pods []runtime.Object
	for name, node := range map[string]string{"x": "one", "y": "two", "z": "three"} {
		pod := nodeProxy(name, node, true)
		for _, container := range sitetest.Istio().Proxies(record.PlaceNode).Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: container, ContainerID: "containerd://" + name})
		}
		pods = append(pods, pod)
	}
	trial := sharedTrial(fakecluster.New(pods...))
	trial.Kubelets = true // no observers, and none needed
	trial.shared.nodes = []string{"one", "three", "two"}
	trial.census = &census{pods: map[string]*resident{}}
	for name, node := range map[string]string{"b1": "two", "b2": "two", "b3": "one", "b4": ""} {
		trial.census.pods[name] = &resident{uid: name, ScenarioPod: record.ScenarioPod{Name: name, Service: "b", Node: node}}
	}
	for _, c := range []struct {
		service string
		pick    int
		want    string
	}{
		{"b", 2, "xy"},
		{"b", 1, "x"},
		{"b", fault.All, "xy"},
		{"b", 3, "the pods of b are on 2 nodes, the step needs the ztunnels of 3"},
		{"", fault.All, "xzy"},
		{"", 2, "xz"},
		{"", 4, "the pods of the trial are on 3 nodes"},
		{"gone", fault.All, "gone has no pods"},
	} {
		pods, err := trial.ztunnelsOf(t.Context(), c.service, c.pick)
		got := fmt.Sprint(err)
		if err == nil {
			got = ""
			for _, p := range pods {
				got += p.Name
			}
		}
		if got != c.want && !(err != nil && strings.HasPrefix(got, c.want)) {
			t.Errorf("%q, %d: %s, want %s", c.service, c.pick, got, c.want)
		}
	}
}

// Pods of a drained node must have somewhere to go.
func TestRoomBeside(t *testing.T) {
	node := func(name string, cordoned bool) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Spec: corev1.NodeSpec{Unschedulable: cordoned},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	}
	for name, c := range map[string]struct {
		nodes []runtime.Object
		room  bool
	}{
		"two":              {[]runtime.Object{node("one", false), node("two", false)}, true},
		"one":              {[]runtime.Object{node("one", false)}, false},
		"the other is not": {[]runtime.Object{node("one", false), node("two", true)}, false},
	} {
		err := roomBeside(t.Context(), fakecluster.New(c.nodes...), []string{"one"})
		if c.room != (err == nil) || err != nil && (errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--nodes 2")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
