package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// revisions is a trial's knowledge of control planes of several revisions.
type revisions struct {
	mesh    mesh.Revisioned
	clients map[string]*http.Client // connections to their pods, by name

	mu     sync.Mutex
	planes map[string]mesh.Plane                   // by their names in steps
	on     map[string]string                       // by service: the name in steps of its intended control plane
	shared string                                  // the name in steps of the intended control plane of shared proxies
	last   *moving                                 // the move that began last
	second map[string][]site.Pod                   // pods of other control planes by revision, whose CPU is counted
	unseen []string                                // those without an observer
	made   map[string][]*unstructured.Unstructured // objects of control planes that the trial created, by revision
	beside []*beside
	// annotated are the keys of the pod annotations of all control planes so far.
	annotated map[string]bool
}

// sideTime limits how long proxies take to connect to their control plane, before and after the
// timeline.
const sideTime = 20 * time.Second

// beginRevisions finds the existing control planes, if steps involve several, and their
// connections.
func (t *scenarioTrial) beginRevisions(ctx context.Context) error {
	up, to := t.timeline.Revisions()
	if !t.timeline.Moves() && len(up) == 0 {
		return nil
	}
	m, ok := t.scene.mesh.(mesh.Revisioned)
	if !ok {
		return fmt.Errorf("mesh %s has no revisions", t.scene.mesh.Name())
	}
	r := &revisions{mesh: m, shared: fault.Installed, clients: map[string]*http.Client{}, planes: map[string]mesh.Plane{}, on: map[string]string{}, made: map[string][]*unstructured.Unstructured{}, second: map[string][]site.Pod{}, annotated: map[string]bool{}}
	first, err := m.Plane(ctx, t.Kube, "")
	if err != nil {
		return err
	}
	r.planes[fault.Installed] = first
	for _, w := range t.scene.workloads() {
		if w.Proxy != nil {
			r.on[w.Name] = fault.Installed
		}
	}
	t.revisions = r
	for _, name := range slices.Concat(up, to) {
		if _, made := t.o.Beside[name]; made {
			continue // a step creates it
		}
		if err := t.findPlane(ctx, name); err != nil {
			return err
		}
	}
	return t.seeSides(ctx, verdict.BeforeSteps)
}

// findPlane finds the control plane of a revision and its pods.
func (t *scenarioTrial) findPlane(ctx context.Context, name string) error {
	plane, err := t.revisions.mesh.Plane(ctx, t.Kube, name)
	if err != nil {
		return err
	}
	pods, err := t.Kube.CoreV1().Pods(plane.Namespace).List(ctx, metav1.ListOptions{LabelSelector: plane.Selector})
	if err != nil {
		return fmt.Errorf("list the pods of revision %s: %w", name, err)
	}
	r := t.revisions
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planes[name] = plane
	for key := range plane.PodAnnotations {
		r.annotated[key] = true
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		known := slices.ContainsFunc(r.second[plane.Revision], func(p site.Pod) bool { return p.UID == string(pod.UID) })
		if !lab.PodReady(pod) || known {
			continue
		}
		if t.Observed(pod.Spec.NodeName) {
			r.second[plane.Revision] = append(r.second[plane.Revision], site.PodOf(pod))
		} else if name := site.Elsewhere(pod); !slices.Contains(r.unseen, name) {
			r.unseen = append(r.unseen, name)
		}
	}
	return nil
}

// others returns the pods of control planes other than the first; none if the trial has no
// revisions.
func (r *revisions) others() []site.Pod {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []site.Pod
	for _, revision := range slices.Sorted(maps.Keys(r.second)) {
		out = append(out, r.second[revision]...)
	}
	return out
}

// elsewhere returns those of their pods without an observer.
func (r *revisions) elsewhere() []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.unseen)
}

func (r *performer) Revision(a *fault.Revision) error { return r.prepared(r.revision(r.name, a), nil) }

// revision creates a second control plane, if the run may and none exists. Its end removes one that
// it created, unless the timeline is over.
func (h *executor) revision(step string, a *fault.Revision) *execution {
	addition, makes := h.o.Beside[a.Name]
	var shared sharedObjects
	return &execution{
		target: a.Target(),
		begin: func(ctx context.Context) error {
			if !makes {
				return nil
			}
			var err error
			if shared, err = h.readShared(ctx); err != nil {
				return err
			}
			var objects []*unstructured.Unstructured
			for _, o := range addition.Objects {
				o = o.DeepCopy()
				mark(o, map[string]string{site.RunLabel: h.Run})
				o.SetOwnerReferences([]metav1.OwnerReference{h.Owner()}) // it is removed with the run, whichever process dies
				objects = append(objects, o)
			}
			h.revisions.do(func() { h.revisions.made[a.Name] = objects })
			return h.apply.ApplyObjects(ctx, objects)
		},
		prove: func(ctx context.Context) (string, error) {
			begin := time.Now()
			err := h.findPlane(ctx, a.Name)
			for err != nil && makes && wake.Pause(ctx, leverEvery) == nil {
				err = h.findPlane(ctx, a.Name)
			}
			if err != nil {
				return "", err
			}
			plane, _ := h.revisions.plane(a.Name)
			if err := lab.WaitDeployment(ctx, h.Kube, plane.Namespace, plane.Deployment); err != nil {
				return "", err
			}
			took := time.Since(begin).Seconds()
			if err := h.findPlane(ctx, a.Name); err != nil { // its pods are ready now
				return "", err
			}
			h.beginPlanes(ctx, step, a.Name)
			if !makes {
				return fmt.Sprintf("Deployment %s/%s was there and is available", plane.Namespace, plane.Deployment), nil
			}
			return fmt.Sprintf("Deployment %s/%s is available and its injector serves, %.1f s later", plane.Namespace, plane.Deployment, took), nil
		},
		end: func(ctx context.Context) error {
			if !makes || h.over() {
				return nil
			}
			return h.retire(ctx, a.Name, shared)
		},
	}
}

// retire removes a control plane that the trial created, once no proxy is connected to it. It
// returns an error if anything of it is left, or if objects that others use have changed.
func (h *executor) retire(ctx context.Context, name string, shared sharedObjects) error {
	plane, known := h.revisions.plane(name)
	if !known {
		return fmt.Errorf("revision %s never served", name)
	}
	connected := map[string][]verdict.RevisionOf{}
	if err := h.askPlane(ctx, plane, connected); err != nil {
		return err
	}
	var living []string
	for _, w := range h.scene.workloads() {
		for _, pod := range h.census.living(w.Name) {
			living = append(living, pod.Name)
		}
	}
	carriers, err := h.livingShared(ctx)
	if err != nil {
		return err
	}
	for _, pod := range carriers {
		living = append(living, pod.Name)
	}
	for _, pod := range living {
		if len(connected[pod]) > 0 {
			return fmt.Errorf("the proxy of %s is still connected to revision %s", pod, name)
		}
	}
	h.endPlanes(ctx, plane.Revision)
	var objects []*unstructured.Unstructured
	h.revisions.do(func() {
		objects = h.revisions.made[name]
		delete(h.revisions.planes, name)
	})
	if err := h.removePlane(ctx, name, objects); err != nil {
		return err
	}
	now, err := h.readShared(ctx)
	if err != nil {
		return err
	}
	return shared.unchanged(now)
}

// removePlane removes a control plane that the trial created, and waits until its pods are gone.
func (t *scenarioTrial) removePlane(ctx context.Context, name string, objects []*unstructured.Unstructured) error {
	if err := t.apply.DeleteObjects(ctx, objects); err != nil {
		return fmt.Errorf("remove the control plane that trial %s made: %w", t.job.ID, err)
	}
	if err := t.isGone(ctx, objects); err != nil {
		return err
	}
	if err := t.apply.DeleteObjects(ctx, t.o.Beside[name].Leaves); err != nil {
		return fmt.Errorf("remove what revision %s left: %w", name, err)
	}
	return nil
}

func (r *revisions) plane(name string) (plane mesh.Plane, known bool) {
	r.do(func() { plane, known = r.planes[name] })
	return plane, known
}

// do calls f with the lock held.
func (r *revisions) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// untilSides polls until every proxy is connected to the intended control plane, is not connected
// to any other that steps involve, and has acknowledged the last push. It returns the last reading.
// The error states what was wrong with it when the context ended.
func (t *scenarioTrial) untilSides(ctx context.Context, when string) (verdict.RevisionLook, error) {
	var last verdict.RevisionLook
	for {
		look, err := t.lookAtSides(ctx, when)
		if err == nil {
			last, err = look, look.Wrong()
			if err == nil && !look.Acknowledged() {
				err = errors.New("not every proxy has acknowledged its configuration")
			}
		}
		if err == nil || wake.Pause(ctx, leverEvery) != nil {
			return last, err
		}
	}
}

// seeSides records the connections to each control plane once all are as intended or the time is
// up: the rules decide what that is worth.
func (t *scenarioTrial) seeSides(ctx context.Context, when string) error {
	limited, cancel := context.WithTimeout(ctx, sideTime)
	defer cancel()
	look, err := t.untilSides(limited, when)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(look.Sidecars) == 0:
		return fmt.Errorf("which revision proxies are connected to: %w", err)
	}
	t.noteSides(look)
	return nil
}

func (t *scenarioTrial) noteSides(look verdict.RevisionLook) {
	t.revisions.do(func() { t.evidence.Revisions = append(t.evidence.Revisions, look) })
}

// lookAtSides queries every control plane for its connections.
func (t *scenarioTrial) lookAtSides(ctx context.Context, when string) (verdict.RevisionLook, error) {
	r := t.revisions
	r.mu.Lock()
	planes, on, shared := map[string]mesh.Plane{}, map[string]string{}, r.planes[r.shared]
	for name, plane := range r.planes {
		planes[plane.Revision] = plane // a tag is an alias of a revision
		for service, its := range r.on {
			if its == name {
				on[service] = plane.Revision
			}
		}
	}
	r.mu.Unlock()
	connected := map[string][]verdict.RevisionOf{}
	for _, plane := range planes {
		if err := t.askPlane(ctx, plane, connected); err != nil {
			return verdict.RevisionLook{}, err
		}
	}
	images, err := t.sidecarImages(ctx, planes)
	if err != nil {
		return verdict.RevisionLook{}, err
	}
	look := verdict.RevisionLook{When: when, AtNS: time.Now().UnixNano()}
	for _, w := range t.scene.workloads() {
		if w.Proxy == nil {
			continue
		}
		living := t.census.living(w.Name)
		if len(living) == 0 {
			return look, fmt.Errorf("%s has no pods", w.Name)
		}
		for _, pod := range living {
			side := verdict.RevisionSide{Pod: pod.Name, Wanted: on[w.Name], Connected: connected[pod.Name]}
			if images != nil {
				side.Version, side.WantedVersion = mesh.Version(images[pod.Name]), planes[on[w.Name]].Version
			}
			look.Sidecars = append(look.Sidecars, side)
		}
	}
	carriers, err := t.livingShared(ctx)
	for i := range carriers {
		pod := &carriers[i]
		side := verdict.RevisionSide{Pod: pod.Name, Wanted: shared.Revision, Connected: connected[pod.Name]}
		side.WantedVersion = shared.NodeVersion
		if images != nil && pod.Namespace == t.Namespace { // a waypoint
			side.WantedVersion = shared.Version
		}
		if side.WantedVersion != "" {
			side.Version = mesh.Version(t.sidecarImage(pod))
		}
		look.Sidecars = append(look.Sidecars, side)
	}
	return look, err
}

// livingShared returns the pods of the proxies that carry the trial's requests, on the trial's nodes,
// without those that are being stopped, which stay connected until they end.
func (t *scenarioTrial) livingShared(ctx context.Context) (out []corev1.Pod, err error) {
	for _, part := range t.scene.way() {
		place, at := t.seats(part)
		proxies := t.proxiesAt(place)
		found, err := t.Kube.CoreV1().Pods(proxies.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxies.Selector})
		if err != nil {
			return nil, fmt.Errorf("list the proxies %s: %w", proxies.Selector, err)
		}
		living := slices.DeleteFunc(found.Items, func(p corev1.Pod) bool {
			return p.DeletionTimestamp != nil || place == record.PlaceNode && !slices.Contains(at, p.Spec.NodeName)
		})
		if len(living) == 0 {
			return nil, fmt.Errorf("there is no pod with %s", proxies.Selector)
		}
		out = append(out, living...)
	}
	return out, nil
}

// sidecarImages returns the images of all pods' sidecars, if control planes are of different
// versions.
func (t *scenarioTrial) sidecarImages(ctx context.Context, planes map[string]mesh.Plane) (map[string]string, error) {
	versions := map[string]bool{}
	for _, plane := range planes {
		versions[plane.Version] = true
	}
	if len(versions) < 2 {
		return nil, nil
	}
	pods, err := t.Kube.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: trialMark + "=" + t.job.ID})
	if err != nil {
		return nil, fmt.Errorf("list the pods of the trial: %w", err)
	}
	out := map[string]string{}
	for i := range pods.Items {
		out[pods.Items[i].Name] = t.sidecarImage(&pods.Items[i])
	}
	return out, nil
}

// sidecarImage returns the image of a pod's sidecar or waypoint; "" without one.
func (t *scenarioTrial) sidecarImage(pod *corev1.Pod) string {
	containers := mesh.Sidecars(t.scene.mesh).Containers
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if slices.Contains(containers, c.Name) {
			return c.Image
		}
	}
	return ""
}

// askPlane queries all ready pods of a control plane except terminating ones, whose streams are
// about to end.
func (t *scenarioTrial) askPlane(ctx context.Context, plane mesh.Plane, connected map[string][]verdict.RevisionOf) error {
	pods, err := t.Kube.CoreV1().Pods(plane.Namespace).List(ctx, metav1.ListOptions{LabelSelector: plane.Selector})
	if err != nil {
		return fmt.Errorf("list the pods of revision %s: %w", plane.Revision, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !lab.PodReady(pod) {
			continue
		}
		client := t.lineTo(pod, plane.Port)
		namespaces := []string{t.Namespace}
		if t.scene.ambient() {
			namespaces = append(namespaces, t.proxiesAt(record.PlaceNode).Namespace)
		}
		for _, namespace := range namespaces {
			asking, cancel := context.WithTimeout(ctx, oneLook)
			all, err := t.revisions.mesh.Connected(asking, client, namespace)
			cancel()
			if err != nil {
				return fmt.Errorf("pod %s of revision %s: %w", pod.Name, plane.Revision, err)
			}
			for _, one := range all {
				connected[one.Pod] = append(connected[one.Pod], verdict.RevisionOf{Revision: plane.Revision, By: pod.Name, Acknowledged: one.Acknowledged})
			}
		}
	}
	return nil
}

// lineTo returns a client for a control-plane pod, kept for the next reading.
func (t *scenarioTrial) lineTo(pod *corev1.Pod, port int) *http.Client {
	r := t.revisions
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[pod.Name] == nil {
		r.clients[pod.Name] = t.Dialer.Client(pod.Namespace, pod.Name, port)
	}
	return r.clients[pod.Name]
}

// endRevisions records the connections to each control plane after the timeline.
func (t *scenarioTrial) endRevisions(ctx context.Context) error {
	if t.revisions == nil {
		return nil
	}
	for _, b := range t.revisions.beside {
		t.out.Scenario.Planes = append(t.out.Scenario.Planes, b.ScenarioPlanes)
	}
	return t.seeSides(ctx, verdict.AfterSteps)
}

// removeSecond removes the control planes that the trial created, and waits until their pods are
// gone.
func (t *scenarioTrial) removeSecond(ctx context.Context) error {
	if t.revisions == nil {
		return nil
	}
	for _, client := range t.revisions.clients {
		client.CloseIdleConnections()
	}
	for name, objects := range t.revisions.made {
		if err := t.removePlane(ctx, name, objects); err != nil {
			return err
		}
	}
	return nil
}

// isGone waits until no pod is left of the Deployments among objects, whether they ever served or
// not.
func (t *scenarioTrial) isGone(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		labels, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		if err != nil || o.GetKind() != "Deployment" || len(labels) == 0 {
			continue
		}
		selector := metav1.FormatLabelSelector(metav1.SetAsLabelSelector(labels))
		if err := untilNoPods(ctx, t.Kube, o.GetNamespace(), selector); err != nil {
			return fmt.Errorf("wait for Deployment %s/%s to terminate: %w", o.GetNamespace(), o.GetName(), err)
		}
	}
	return nil
}
