package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/mesh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (r *performer) Move(a *fault.Move) error { return r.prepared(r.move(r.ctx, r.name, a)) }

// move labels the namespace for a revision and replaces the pods of all services with sidecars, so
// that the revision's injector handles the new pods. In an ambient mesh it first moves the proxies of
// nodes; the label moves waypoints, which their control plane replaces.
func (h *executor) move(ctx context.Context, step string, a *fault.Move) (*execution, error) {
	plane, known := h.revisions.plane(a.To)
	if !known {
		return nil, fmt.Errorf("no control plane of revision %s serves yet", a.To)
	}
	namespace, err := h.Kube.CoreV1().Namespaces().Get(ctx, h.Namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("labels of namespace %s: %w", h.Namespace, err)
	}
	before := map[string]string{}
	for key := range plane.Labels {
		before[key] = namespace.Labels[key]
	}
	w := &moving{executor: h, step: step, to: a.To, plane: plane, was: before, before: map[string]map[string]bool{}}
	for _, one := range h.scene.workloads() {
		if one.Proxy != nil && one.Name != roleClients {
			w.services = append(w.services, one.Name)
		}
	}
	return &execution{target: a.Target(), begin: w.begin, prove: w.prove, end: w.end}, nil
}

// moving is the work of one step that moves the namespace.
type moving struct {
	*executor
	step, to string // the step's name, and its name for the control plane
	plane    mesh.Plane
	services []string
	was      map[string]string          // former values of the namespace labels that change
	before   map[string]map[string]bool // UIDs of pods, by service
	begun    time.Time
}

// nullable turns "" into null, which removes a label in a patch.
func nullable(labels map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range labels {
		out[key] = nil
		if value != "" {
			out[key] = value
		}
	}
	return out
}

// label sets labels of the namespace.
func (t *scenarioTrial) label(ctx context.Context, labels map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": nullable(labels)}})
	if err != nil {
		return err
	}
	if _, err := t.Kube.CoreV1().Namespaces().Patch(ctx, t.Namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label namespace %s: %w", t.Namespace, err)
	}
	return nil
}

// labelMade sets labels of those of the trial's objects that have them: a waypoint's own label takes
// precedence over its namespace's.
func (t *scenarioTrial) labelMade(ctx context.Context, labels map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": nullable(labels)}})
	if err != nil {
		return err
	}
	for _, o := range t.made {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool { return o.GetLabels()[key] != "" }) {
			continue
		}
		at, err := t.apply.Open(ctx, o, t.Namespace)
		if err == nil {
			_, err = at.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return fmt.Errorf("label %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// labelFirst gives the namespace the initial labels of the trial's pods, in studies that move it: a
// failed end may have left others.
func (t *scenarioTrial) labelFirst(ctx context.Context) error {
	m, ok := t.scene.mesh.(mesh.Revisioned)
	if !ok || !t.scene.scenario.Timeline.Moves() {
		return nil
	}
	first, err := m.Plane(ctx, t.Kube, "")
	if err != nil {
		return err
	}
	return t.label(ctx, first.Labels)
}

func (w *moving) begin(ctx context.Context) error {
	w.begun = time.Now()
	w.revisions.do(func() { w.revisions.last = w })
	if w.scene.ambient() {
		w.revisions.do(func() { w.revisions.shared = w.to })
		if err := w.moveNodes(ctx, w.to, w.plane); err != nil {
			return fmt.Errorf("move to revision %s: %w", w.plane.Revision, err)
		}
	}
	if err := errors.Join(w.label(ctx, w.plane.Labels), w.labelMade(ctx, w.plane.PodLabels)); err != nil {
		return fmt.Errorf("move to revision %s: %w", w.plane.Revision, err)
	}
	for _, service := range w.services {
		w.before[service] = w.uids(service)
		annotations, err := w.annotations(service)
		if err == nil {
			err = w.rollOut(ctx, service, w.plane.PodLabels, annotations)
		}
		if err != nil {
			return err
		}
		w.revisions.do(func() { w.revisions.on[service] = w.to })
	}
	return nil
}

// annotations returns the annotations with which a service's pods get sidecars of the control
// plane's version.
func (w *moving) annotations(service string) (map[string]string, error) {
	w.revisions.mu.Lock()
	defer w.revisions.mu.Unlock()
	if w.to != fault.Installed {
		return w.plane.PodAnnotations, nil
	}
	first, err := w.scene.annotations(service, "")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for key := range w.revisions.annotated {
		out[key] = first[key]
	}
	return out, nil
}

// prove waits until no pod of before is an endpoint and every proxy is connected to the right
// control plane only.
func (w *moving) prove(ctx context.Context) (string, error) {
	pods := 0
	for _, service := range w.services {
		w.mu.Lock()
		want := w.want[service]
		w.mu.Unlock()
		if _, err := w.proveNew(ctx, service, w.before[service], want, w.before[service]); err != nil {
			return "", errors.Join(w.overtaken(), err)
		}
		pods += want
	}
	look, err := w.untilSides(ctx, w.step)
	if err = errors.Join(w.overtaken(), err); err != nil {
		return "", err
	}
	look.To, look.Revision = w.to, w.plane.Revision
	w.noteSides(look)
	what := words.Plural(pods, "new pod") + " of " + strings.Join(w.services, ", ")
	if w.scene.ambient() {
		what = words.Plural(len(look.Sidecars), "shared proxy") + " of the trial"
		if _, err := w.present(ctx); err != nil { // their CPU is counted from now on
			return "", err
		}
	}
	return fmt.Sprintf("%s connected to revision %s alone and acknowledged its configuration, %.1f s later",
		what, w.plane.Revision, time.Since(w.begun).Seconds()), nil
}

// overtaken returns an error if another move began after this one. Sidecars follow the later one.
func (w *moving) overtaken() error {
	w.revisions.mu.Lock()
	defer w.revisions.mu.Unlock()
	if last := w.revisions.last; last != w {
		return fmt.Errorf("another step moved the namespace to %s before its move to %s was proved: leave more time between them", last.to, w.to)
	}
	return nil
}

// end restores the namespace's labels for the next trial. The pods end with this trial. In an ambient
// mesh that would replace a waypoint before it is checked; the next trial sets the labels.
func (w *moving) end(ctx context.Context) error {
	if w.scene.ambient() {
		return nil
	}
	return w.label(ctx, w.was)
}
