package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// restart is a step's change that replaces node proxies.
type restart struct {
	object journal.Object
	step   []fields.Field
	old    []corev1.Pod // former pods
	moved  bool         // to another control plane
}

// Reasons in the journal for replacing node proxies.
const (
	whyRestarted = "a step restarts the proxies of nodes"
	whyMoved     = "a step moves the proxies of nodes to another revision"
)

// restartShared replaces shared proxies.
func (h *executor) restartShared(ctx context.Context, of string) (*execution, error) {
	if of == fault.OfWaypoint {
		return h.restartWaypoint(ctx)
	}
	object, old, err := h.onNodes(ctx)
	if err != nil {
		return nil, err
	}
	var begun time.Time
	return &execution{
		target: fmt.Sprintf("DaemonSet %s/%s", object.Namespace, object.Name),
		begin: func(ctx context.Context) error {
			begun = time.Now()
			step, err := h.changes.Change(ctx, object, whyRestarted, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
				return live, unstructured.SetNestedField(live.Object, begun.UTC().Format(time.RFC3339Nano), "spec", "template", "metadata", "annotations", restartedAt)
			})
			if len(step) > 0 { // else it was rejected
				h.shared.noteReset(restart{object: object, step: step, old: old})
			}
			return err
		},
		prove: func(ctx context.Context) (string, error) {
			fresh, err := h.replaced(ctx, old)
			if err != nil {
				return "", err
			}
			_, err = h.present(ctx) // their CPU is counted from now on
			return fmt.Sprintf("%d of the cluster's %d nodes, including the trial's, have a new, ready proxy, %.1f s later", fresh, len(old), time.Since(begun).Seconds()), err
		},
	}, nil
}

// onNodes returns the DaemonSet of the node proxies, and its pods that are not being stopped, at
// least one.
func (t *scenarioTrial) onNodes(ctx context.Context) (object journal.Object, pods []corev1.Pod, err error) {
	if pods, err = t.onAllNodes(ctx); err != nil {
		return object, nil, err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(pods) == 0 {
		return object, nil, errors.New("all proxies of nodes are ending: leave more time after the step before")
	}
	owner := metav1.GetControllerOf(&pods[0])
	if owner == nil || owner.Kind != "DaemonSet" {
		return object, nil, fmt.Errorf("pod %s belongs to no DaemonSet that could be restarted", pods[0].Name)
	}
	return journal.Object{APIVersion: "apps/v1", Kind: owner.Kind, Namespace: pods[0].Namespace, Name: owner.Name}, pods, nil
}

// moveNodes connects the node proxies to a control plane, node after node, and waits for those of the
// trial's nodes. The way back to the first one reverts earlier moves.
func (h *executor) moveNodes(ctx context.Context, to string, plane mesh.Plane) error {
	object, old, err := h.onNodes(ctx)
	if err != nil {
		return err
	}
	if to == fault.Installed {
		old, err = h.moveNodesBack(ctx, old)
	} else {
		var step []fields.Field
		step, err = h.changes.Change(ctx, object, whyMoved, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, plane.OnNodes(live)
		})
		if len(step) > 0 {
			h.shared.noteReset(restart{object: object, step: step, old: old, moved: true})
		} else {
			old = nil
		}
	}
	if err != nil || len(old) == 0 {
		return err
	}
	_, err = h.replaced(ctx, old)
	return err
}

// moveNodesBack reverts the moves of node proxies, the latest first. It notes and returns those of
// the pods now that will be replaced: all but those from before the moves, which the moves had not
// reached.
func (h *executor) moveNodesBack(ctx context.Context, now []corev1.Pod) (leaving []corev1.Pod, err error) {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	for i, one := range slices.Backward(h.shared.reset) {
		if !one.moved {
			continue
		}
		if err = h.changes.Revert(ctx, one.object, whyMoved, one.step); err != nil {
			break
		}
		leaving = slices.DeleteFunc(slices.Clone(now), func(p corev1.Pod) bool { return among(one.old, p) })
		h.shared.reset = slices.Delete(h.shared.reset, i, i+1)
	}
	h.shared.leaving = append(h.shared.leaving, leaving...)
	return leaving, err
}

// onAllNodes returns the pods of the mesh's node proxies, at least one.
func (t *scenarioTrial) onAllNodes(ctx context.Context) ([]corev1.Pod, error) {
	return nodeProxies(ctx, t.Kube, t.scene.mesh)
}

func nodeProxies(ctx context.Context, kube kubernetes.Interface, m mesh.Mesh) ([]corev1.Pod, error) {
	proxies := m.Proxies(record.PlaceNode)
	found, err := kube.CoreV1().Pods(proxies.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxies.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the proxies %s: %w", proxies.Selector, err)
	}
	if len(found.Items) == 0 {
		return nil, fmt.Errorf("namespace %s has no pod with %s", proxies.Namespace, proxies.Selector)
	}
	return found.Items, nil
}

// replaced waits until each of the trial's nodes has a new ready pod in place of the old, and
// returns the number of nodes overall that do: Kubernetes goes from node to node.
func (t *scenarioTrial) replaced(ctx context.Context, old []corev1.Pod) (int, error) {
	watch := podwait.New(t.Kube, t.scene.mesh.Proxies(record.PlaceNode).Namespace, "the new proxies of nodes")
	for {
		now, err := t.onAllNodes(ctx)
		fresh := freshOn(now, old)
		missing := slices.DeleteFunc(slices.Clone(t.shared.nodes), func(node string) bool { return fresh[node] })
		if err == nil && len(missing) == 0 {
			return len(fresh), nil
		}
		if terminal := watch.Look(ctx, podwait.Seen{Pods: now}); terminal != nil && ctx.Err() == nil {
			return 0, terminal
		}
		if late := wake.Pause(ctx, leverEvery); late != nil {
			return 0, errors.Join(fmt.Errorf("the proxy of node %s is not replaced, those of %d of %d nodes are: %w", strings.Join(missing, ", "), len(fresh), len(old), late), err)
		}
	}
}

// restartWaypoint replaces the waypoint's pods through its Deployment in the run's namespace.
func (h *executor) restartWaypoint(ctx context.Context) (*execution, error) {
	all, err := waypointPods(h.Kube, h.Namespace, h.scene.mesh.Proxies(record.PlaceWaypoint)).deployments(ctx)
	if err != nil {
		return nil, err
	}
	name := all[0].Name
	return &execution{
		target: "Deployment " + name,
		begin:  func(ctx context.Context) error { return h.rollOut(ctx, name, nil, nil) },
		prove: func(ctx context.Context) (string, error) {
			begin := time.Now()
			err := lab.WaitDeployment(ctx, h.Kube, h.Namespace, name)
			if err == nil {
				_, err = h.present(ctx)
			}
			return fmt.Sprintf("Deployment %s has new pods alone, which are ready, %.1f s later", name, time.Since(begin).Seconds()), err
		},
	}, nil
}

// Time limits for node proxies to recover: each has half a minute to end, and a restart goes from
// one to the next.
const (
	settleTimeout = 3 * time.Minute
	settleEach    = 10 * time.Second
)

// settleTime returns the time limit for this many nodes.
func settleTime(nodes int) time.Duration {
	return settleTimeout + time.Duration(nodes)*settleEach
}

// settleShared reverts what steps changed on node proxies and waits for fresh ones. Kubernetes
// delays the restart of a process that was killed before, longer each time, so the next trial would
// see a different fault. Proxies that a restart had not reached yet stay, since their template is
// the one restored.
func (t *scenarioTrial) settleShared(ctx context.Context) error {
	reset, killed, leaving := t.shared.reset, t.shared.killed, t.shared.leaving
	if len(reset)+len(killed)+len(leaving) == 0 {
		return nil
	}
	listing, listed := ending.Within(ctx, settleEach)
	now, err := t.onAllNodes(listing)
	listed()
	if err != nil {
		return err
	}
	limit := settleTime(len(now))
	ctx, cancel := ending.Within(ctx, limit)
	defer cancel()
	old := outdated(now, reset, killed)
	for _, p := range now {
		if among(leaving, p) && !among(old, p) {
			old = append(old, p)
		}
	}
	var failed []error
	for _, one := range slices.Backward(reset) {
		failed = append(failed, t.changes.Revert(ctx, one.object, whyRestarted, one.step))
	}
	if len(reset) > 0 {
		t.say("%s is reverted, which restarts it once more, for %v at most", reset[0].object, limit)
	}
	for _, pod := range killed {
		i := slices.IndexFunc(old, func(p corev1.Pod) bool { return string(p.UID) == pod.UID })
		if i < 0 {
			continue
		}
		t.say("pod %s, whose process was killed, is replaced, for %v at most", old[i].Name, limit)
		second := int64(1)
		err := t.Kube.CoreV1().Pods(old[i].Namespace).Delete(ctx, old[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &second, Preconditions: metav1.NewUIDPreconditions(pod.UID)})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("replace pod %s: %w", old[i].Name, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("restore the node proxies: %w", err)
	}
	return t.onceGone(ctx, old)
}

// outdated returns the pods to replace after the trial: those with a process that a step killed,
// those created by a restart, and terminating ones.
func outdated(now []corev1.Pod, reset []restart, killed []site.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(now), func(p corev1.Pod) bool {
		if slices.ContainsFunc(killed, func(k site.Pod) bool { return k.UID == string(p.UID) }) {
			return false
		}
		if len(reset) == 0 || p.DeletionTimestamp != nil {
			return len(reset) == 0
		}
		return among(reset[0].old, p)
	})
}

// onceGone waits until none of these pods is left and each of their nodes has another one that is
// ready. It does not wait for a dead node, which can neither end the one nor start the other.
func (t *scenarioTrial) onceGone(ctx context.Context, old []corev1.Pod) error {
	var down []string
	var asked time.Time
	watch := podwait.New(t.Kube, t.scene.mesh.Proxies(record.PlaceNode).Namespace, "the proxies of nodes")
	for {
		now, err := t.onAllNodes(ctx)
		missing := notReplaced(now, old)
		if terminal := watch.Look(ctx, podwait.Seen{Pods: now}); terminal != nil && ctx.Err() == nil {
			return terminal
		}
		if err == nil && len(missing) > 0 && time.Since(asked) > settleEach {
			asked = time.Now()
			down = slices.DeleteFunc(slices.Clone(missing), func(node string) bool { return !t.isDown(ctx, node) })
		}
		slow := slices.DeleteFunc(slices.Clone(missing), func(node string) bool { return slices.Contains(down, node) })
		if err == nil && len(slow) == 0 {
			if len(missing) > 0 {
				t.say("node %s is down; not waiting for its proxy", strings.Join(missing, ", "))
			}
			return nil
		}
		if late := wake.Pause(ctx, leverEvery); late != nil {
			return errors.Join(fmt.Errorf("the proxies of nodes %s are not replaced: %w", strings.Join(slow, ", "), late), err)
		}
	}
}

// freshOn returns the nodes with a ready pod that is not one of the old.
func freshOn(now, old []corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for i := range now {
		if lab.PodReady(&now[i]) && !among(old, now[i]) {
			out[now[i].Spec.NodeName] = true
		}
	}
	return out
}

func among(pods []corev1.Pod, one corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == one.UID })
}

// notReplaced returns the nodes that still have one of the old pods, or no other ready pod.
func notReplaced(now, old []corev1.Pod) []string {
	done := freshOn(now, old)
	for _, p := range now {
		if among(old, p) {
			done[p.Spec.NodeName] = false
		}
	}
	var out []string
	for _, p := range old {
		if !done[p.Spec.NodeName] {
			out = append(out, p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isDown reports whether a node is gone or Kubernetes has lost contact with it; false if the API
// server cannot be queried.
func (t *scenarioTrial) isDown(ctx context.Context, name string) bool {
	node, err := t.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// ztunnelsOf returns the ztunnels on the nodes of a service's pods, or of all mesh pods for "",
// limited to the first nodes by name. They are ready but need not answer: busy ones are not spared.
func (t *scenarioTrial) ztunnelsOf(ctx context.Context, service string, pick int) ([]site.Pod, error) {
	nodes := t.shared.nodes
	if service != "" {
		nodes = nil
		for _, r := range t.census.living(service) {
			if r.Node != "" {
				nodes = append(nodes, r.Node)
			}
		}
	}
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	if pick != fault.All {
		if len(nodes) < pick {
			return nil, fmt.Errorf("the pods of %s are on %s, the step needs the ztunnels of %d", cmp.Or(service, "the trial"), words.Plural(len(nodes), "node"), pick)
		}
		nodes = nodes[:pick]
	}
	limited, cancel := context.WithTimeout(ctx, time.Second) // before the step is due
	defer cancel()
	var out []site.Pod
	for _, node := range nodes {
		pod, err := t.AwaitProxy(limited, t.ReadyProxy, t.proxiesAt(record.PlaceNode), node)
		if err != nil {
			return nil, err
		}
		t.shared.note(record.PartNode, pod)
		out = append(out, pod)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no pods whose nodes could choose ztunnels", cmp.Or(service, "the trial"))
	}
	return out, nil
}

// removeWaypoint removes what the mesh created for the trial's waypoint, whose Gateway the trial
// has removed, and waits until its pod is gone, so that the next waypoint is fresh.
func (t *scenarioTrial) removeWaypoint(ctx context.Context) error {
	if !study.Waypoint(t.job.Cell) {
		return nil
	}
	its := metav1.ListOptions{LabelSelector: t.proxiesAt(record.PlaceWaypoint).Selector}
	if err := t.removePods(ctx, its); err != nil {
		return fmt.Errorf("remove the waypoint: %w", err)
	}
	return nil
}
