package churn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/podstate"
	"github.com/meshtrial/meshtrial/record"
)

// podChange executes a change through the controllers: it finds the pods, announces
// known markers, sends the request on time, and follows pods and EndpointSlices until
// both show the change.
func (d *Driver) podChange(ctx context.Context, c *Change, e *record.Event, slots chan struct{}, announce Announce) {
	p := c.pods
	victims, err := d.victims(ctx, p)
	if err != nil {
		fail(e, "find its pods", err)
		return
	}
	if len(victims) > 0 {
		pod := victims[len(victims)-1]
		e.Object = "Pod/" + pod.Namespace + "/" + pod.Name
	}
	if p.op == podRestart || p.op == podScaleUp || p.op == podScaleDown {
		e.Object = c.Object
	}
	s := newPodSight(c, victims)
	if known := s.known(victims); len(known) > 0 {
		e.Markers = append(e.Markers, known...)
		if err := announce(ctx, known); err != nil {
			fail(e, "announce its markers", err)
			return
		}
	}
	if until(ctx, time.Unix(0, e.PlannedNS)) != nil {
		return
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.old = d.watch.ready(p.service)
	waiter := d.watch.wait(p.service, s.look)
	defer d.watch.forget(p.service, waiter)
	e.SentNS = time.Now().UnixNano()
	err = d.act(ctx, p, victims)
	<-slots
	switch {
	case err != nil:
		fail(e, "", err)
	case p.op == podLabel: // istiod looks at the pod itself
		e.CommittedNS = time.Now().UnixNano()
	default:
		s.follow(ctx, e, waiter, announce)
	}
}

// fail sets the error of an event, unless it has one.
func fail(e *record.Event, what string, err error) {
	if e.Error == "" {
		e.Error = strings.TrimSuffix(what+": "+err.Error(), ": ")
	}
}

// podSight holds what a change of pods must cause in the endpoints of its Service, and
// what was observed. A watch writes shown, left and committed until its waiter has
// finished or is forgotten.
type podSight struct {
	change    *Change
	gone      map[string]bool // addresses that must disappear
	fresh     int             // number of addresses that must appear
	returning string          // address that must become ready again; "" for none
	old       map[string]bool // addresses that were ready before

	shown     map[string]bool  // new addresses that became ready
	left      map[string]int64 // when an old address was no longer ready
	committed int64            // when the change was complete
	ready     chan string      // new addresses, as they appear
	announced map[string]bool  // new addresses
}

func newPodSight(c *Change, victims []*corev1.Pod) *podSight {
	s := &podSight{change: c, gone: map[string]bool{}, shown: map[string]bool{}, left: map[string]int64{},
		ready: make(chan string, maxWaiting), announced: map[string]bool{}}
	switch c.pods.op {
	case podReplace, podRestart:
		s.fresh = len(victims)
	case podScaleUp:
		s.fresh = 1
	case podReady:
		s.returning = victims[0].Status.PodIP
	}
	switch c.pods.op {
	case podScaleDown, podReplace, podUnready, podRestart:
		for _, pod := range victims {
			s.gone[pod.Status.PodIP] = true
		}
	}
	return s
}

// known returns the markers that are known before the change.
func (s *podSight) known(victims []*corev1.Pod) []record.Marker {
	var out []record.Marker
	for _, pod := range victims {
		if ip := pod.Status.PodIP; s.gone[ip] || ip == s.returning {
			out = append(out, s.markers(ip, s.gone[ip])...)
		}
	}
	return out
}

// markers returns the markers of an address that appears or disappears.
func (s *podSight) markers(ip string, gone bool) []record.Marker {
	out := []record.Marker{eds(s.change.pods.service, ip, gone)}
	if s.change.Scope.Ztunnels {
		out = append(out, workload(ip, gone))
	}
	for i := range out {
		out[i].Change = s.change.Index
	}
	return out
}

// look records which addresses are ready, and reports whether the change is complete.
func (s *podSight) look(now map[string]bool, at int64) bool {
	came := 0
	for ip := range now {
		if s.old[ip] {
			continue
		}
		came++
		if !s.shown[ip] {
			s.shown[ip] = true
			select {
			case s.ready <- ip:
			default: // the watch of pods reports all of them too
			}
		}
	}
	departures(s.gone, now, s.left, at)
	if len(s.left) < len(s.gone) || came < s.fresh || s.returning != "" && !now[s.returning] {
		return false
	}
	s.committed = at
	return true
}

// departures records in left when addresses that must disappear were no longer ready.
// An address that a new pod has taken over has not disappeared.
func departures(gone, ready map[string]bool, left map[string]int64, at int64) {
	for ip := range gone {
		if ready[ip] {
			delete(left, ip)
		} else if left[ip] == 0 {
			left[ip] = at
		}
	}
}

// follow announces addresses as they appear, from the watch that shows them first,
// until the change is complete and all new addresses are announced.
func (s *podSight) follow(ctx context.Context, e *record.Event, waiter *waiter, announce Announce) {
	limit := time.NewTimer(settle)
	defer limit.Stop()
	for finished := waiter.finished; finished != nil || len(s.announced) < s.fresh; {
		var err error
		select {
		case pod := <-waiter.pods:
			if pod.DeletionTimestamp == nil {
				err = s.came(ctx, e, pod.Status.PodIP, announce)
			}
		case ip := <-s.ready:
			err = s.came(ctx, e, ip, announce)
		case <-finished:
			finished = nil
			s.commit(e)
		case <-limit.C:
			fail(e, fmt.Sprintf("its EndpointSlice was not updated within %s", settle), errors.New(""))
			return
		case <-ctx.Done():
			return
		}
		if err != nil {
			fail(e, "announce its markers", err)
			return
		}
	}
}

// came announces a new address unless it was announced before.
func (s *podSight) came(ctx context.Context, e *record.Event, ip string, announce Announce) error {
	if s.fresh == 0 || s.old[ip] || s.gone[ip] || s.announced[ip] {
		return nil
	}
	m := s.markers(ip, false)
	e.Markers = append(e.Markers, m...)
	if err := announce(ctx, m); err != nil {
		return err
	}
	s.announced[ip] = true
	return nil
}

// commit records when the change was complete.
func (s *podSight) commit(e *record.Event) {
	e.CommittedNS, e.WatchedNS = s.committed, s.committed
	for i := range e.Markers {
		if m := &e.Markers[i]; m.Gone {
			m.GoneNS = s.left[m.Text]
		}
	}
}

// deletionCost makes the ReplicaSet controller delete a pod before others.
// See kubernetes.io/docs/concepts/workloads/controllers/replicaset, Pod deletion cost.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// revisionLabel has the canonical revision of a pod.
const revisionLabel = "service.istio.io/canonical-revision"

// victims finds the pods that a change affects: none for scaling up, all for a restart,
// else one.
func (d *Driver) victims(ctx context.Context, p *podChange) ([]*corev1.Pod, error) {
	if p.op == podScaleUp {
		return nil, nil
	}
	pods := d.watch.podsOf(p.service)
	wantReady := p.op != podReady
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return podstate.Ready(pod) != wantReady })
	if len(pods) == 0 {
		return nil, fmt.Errorf("%s/%s has no pod for it", p.service.Namespace, p.service.Name)
	}
	switch p.op {
	case podRestart:
		return pods, nil
	case podScaleDown: // the newest
		pod := pods[len(pods)-1]
		return pods[len(pods)-1:], d.patchPod(ctx, pod, map[string]any{"metadata": map[string]any{"annotations": map[string]any{deletionCost: "-1000"}}}, "")
	}
	return pods[:1], nil // the oldest
}

// podsOf returns the Service's pods that have an address and are not being deleted,
// the oldest first.
func (w *watcher) podsOf(s population.Service) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Pod
	for _, pod := range w.pods[keyOf(s)] {
		if pod.DeletionTimestamp == nil && pod.Status.PodIP != "" {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// act sends the request of a change.
func (d *Driver) act(ctx context.Context, p *podChange, victims []*corev1.Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	service := p.service
	switch p.op {
	case podScaleUp:
		return d.scale(ctx, service, service.Endpoints+1)
	case podScaleDown:
		return d.scale(ctx, service, service.Endpoints)
	case podReplace:
		return d.kube.CoreV1().Pods(service.Namespace).Delete(ctx, victims[0].Name, metav1.DeleteOptions{})
	case podUnready, podReady:
		return d.setReady(ctx, victims[0], p.op == podReady)
	case podLabel:
		return d.patchPod(ctx, victims[0], labelPatch(revisionLabel, p.text), "")
	case podRestart: // as kubectl rollout restart does
		return d.patchDeployment(ctx, service, map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)}}}}})
	}
	return fmt.Errorf("unknown change of pods: %s", p.op)
}

func (d *Driver) scale(ctx context.Context, s population.Service, replicas int) error {
	return d.patchDeployment(ctx, s, map[string]any{"spec": map[string]any{"replicas": replicas}})
}

func (d *Driver) patchDeployment(ctx context.Context, s population.Service, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = d.kube.AppsV1().Deployments(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

func (d *Driver) patchPod(ctx context.Context, pod *corev1.Pod, patch map[string]any, subresource string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	kind := types.MergePatchType
	var sub []string
	if subresource != "" {
		kind, sub = types.StrategicMergePatchType, []string{subresource}
	}
	_, err = d.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, body, metav1.PatchOptions{}, sub...)
	return err
}

// setReady sets a pod's readiness, as a kubelet does after a probe.
func (d *Driver) setReady(ctx context.Context, pod *corev1.Pod, ready bool) error {
	status := map[bool]string{true: "True", false: "False"}[ready]
	conditions := []any{}
	for _, kind := range []string{"Ready", "ContainersReady"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": status, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	}
	return d.patchPod(ctx, pod, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
}

// restorePods restores the sizes of Deployments, and readiness and labels of pods.
func (d *Driver) restorePods(ctx context.Context) error {
	var all []error
	done := map[string]bool{}
	for _, c := range d.plan.Changes {
		if c.pods == nil || done[keyOf(c.pods.service)] {
			continue
		}
		s := c.pods.service
		done[keyOf(s)] = true
		all = append(all, d.scale(ctx, s, s.Endpoints))
		if d.plan.Spec.On != nil {
			continue // the kubelet sets the readiness of real pods
		}
		pods, err := d.kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: population.AppLabel + "=" + s.Name})
		if err != nil {
			all = append(all, err)
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil {
				continue
			}
			if !podstate.Ready(pod) && pod.Status.PodIP != "" {
				all = append(all, d.setReady(ctx, pod, true))
			}
			if pod.Labels[revisionLabel] != "latest" {
				all = append(all, d.patchPod(ctx, pod, labelPatch(revisionLabel, "latest"), ""))
			}
		}
	}
	return errors.Join(slices.DeleteFunc(all, apierrors.IsNotFound)...)
}
