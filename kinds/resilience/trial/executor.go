package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// executor prepares the actions of a trial's timeline steps.
type executor struct {
	*scenarioTrial
	run context.Context // of the timeline

	mu      sync.Mutex
	want    map[string]int         // replicas by service
	doomed  map[string]bool        // pods that a step has chosen to remove, by UID
	altered map[string]*sync.Mutex // held while a step changes a service's workers
}

func newExecutor(ctx context.Context, t *scenarioTrial) *executor {
	h := &executor{scenarioTrial: t, run: ctx, want: map[string]int{}, doomed: map[string]bool{}, altered: map[string]*sync.Mutex{}}
	for _, one := range t.scene.scenario.Graph.Services {
		h.want[one.Name], h.altered[one.Name] = one.Replicas, &sync.Mutex{}
	}
	return h
}

// execution is one occurrence, as functions. end may be nil if there is nothing to undo.
type execution struct {
	target string
	begin  func(context.Context) error
	prove  func(context.Context) (string, error)
	end    func(context.Context) error
	// outlasting lists the objects that begin changes and that outlive the trial.
	outlasting []journal.Object
}

func (h *execution) Target() string { return h.target }

func (h *execution) Begin(ctx context.Context) error { return h.begin(ctx) }

func (h *execution) Prove(ctx context.Context) (string, error) { return h.prove(ctx) }

func (h *execution) End(ctx context.Context) error {
	if h.end == nil {
		return nil
	}
	return h.end(ctx)
}

// Prepare implements [drive.Executor].
func (h *executor) Prepare(ctx context.Context, o fault.Occurrence) (drive.Execution, error) {
	r := performer{executor: h, ctx: ctx, name: o.Name, lasting: o.For}
	if len(o.Needs()) > 0 && h.faults == nil {
		return nil, fmt.Errorf("steps of kind %s are not supported here", o.Kind())
	}
	if err := o.Perform(&r); err != nil {
		return nil, err
	}
	out := r.execution
	if end := out.end; len(out.outlasting) > 0 {
		out.end = func(ctx context.Context) error {
			err := end(ctx)
			if err != nil {
				h.leftovers.add(out.outlasting)
			}
			return err
		}
	}
	return out, nil
}

// performer prepares the execution of one occurrence. It is the [fault.Performer] that its action
// calls back.
type performer struct {
	*executor
	ctx       context.Context // for preparation
	name      string          // of the occurrence
	lasting   time.Duration   // of the occurrence; 0: until the end of the timeline
	execution *execution
}

// prepared stores the execution that a method of the performer has made.
func (r *performer) prepared(execution *execution, err error) error {
	r.execution = execution
	return err
}

// over reports whether the timeline has ended or was aborted. Changes to the trial's own pods then
// need not be undone.
func (h *executor) over() bool {
	return h.run.Err() != nil || !time.Now().Before(h.zero.Add(h.timeline.Duration))
}

func (h *executor) unlessOver(end func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if h.over() {
			return nil
		}
		return end(ctx)
	}
}

// deletionCost makes a ReplicaSet remove a pod first when it scales down. See kubernetes.io/docs,
// ReplicaSet, Pod deletion cost.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// choose picks the first n pods of a service by name that no step has picked yet; 0 means all.
func (h *executor) choose(service string, n int) ([]*resident, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pods := slices.DeleteFunc(h.census.living(service), func(r *resident) bool { return h.doomed[r.uid] })
	if n == fault.All {
		n = len(pods)
	}
	if len(pods) < n || n == 0 {
		return nil, fmt.Errorf("%s has %s left, the step needs %d", service, words.Plural(len(pods), "pod"), n)
	}
	return pods[:n], nil
}

func (r *performer) Remove(a *fault.Remove) error { return r.prepared(r.remove(r.ctx, a)) }

func (h *executor) remove(ctx context.Context, r *fault.Remove) (*execution, error) {
	chosen, err := h.choose(r.Service, r.Count)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(chosen))
	for i, pod := range chosen {
		h.mu.Lock()
		h.doomed[pod.uid] = true
		h.mu.Unlock()
		names[i] = pod.Name
		note := fmt.Sprintf(`{"metadata":{"annotations":{%q:"-1000"}}}`, deletionCost)
		if _, err := h.Kube.CoreV1().Pods(h.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(note), metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("choose pod %s to remove: %w", pod.Name, err)
		}
	}
	return &execution{
		target: strings.Join(names, ", "),
		begin: func(ctx context.Context) error {
			if err := h.scale(ctx, r.Service, -r.Count); err != nil || !r.Abrupt {
				return err
			}
			for _, name := range names {
				err := h.Kube.CoreV1().Pods(h.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(0))})
				if err != nil && !apierrors.IsNotFound(err) { // the ReplicaSet controller was faster
					return fmt.Errorf("delete pod %s: %w", name, err)
				}
			}
			return nil
		},
		prove: func(ctx context.Context) (string, error) {
			left := 0
			err := h.census.await(ctx, func() bool {
				endpoints := h.census.endpoints(r.Service)
				left = len(endpoints)
				return !slices.ContainsFunc(chosen, func(pod *resident) bool { return endpoints[pod.IP] })
			})
			if err != nil {
				return "", fmt.Errorf("%s is still an endpoint of %s: %w", strings.Join(names, ", "), r.Service, err)
			}
			return fmt.Sprintf("the EndpointSlices of %s have %s without it", r.Service, words.Plural(left, "endpoint")), nil
		},
		end: h.unlessOver(func(ctx context.Context) error { return h.scale(ctx, r.Service, r.Count) }),
	}, nil
}

// scale changes the number of a service's replicas by a difference.
func (h *executor) scale(ctx context.Context, service string, by int) error {
	h.mu.Lock()
	h.want[service] = max(0, h.want[service]+by)
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, h.want[service])
	h.mu.Unlock()
	_, err := h.Kube.AppsV1().Deployments(h.Namespace).Patch(ctx, service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("scale Deployment %s: %w", service, err)
	}
	return nil
}

func (r *performer) Add(a *fault.Add) error { return r.prepared(r.add(a), nil) }

func (h *executor) add(r *fault.Add) *execution {
	var before map[string]bool
	return &execution{
		target: r.Service,
		begin: func(ctx context.Context) error {
			before = h.uids(r.Service)
			return h.scale(ctx, r.Service, r.Count)
		},
		prove: func(ctx context.Context) (string, error) { return h.proveNew(ctx, r.Service, before, r.Count, nil) },
		end:   h.unlessOver(func(ctx context.Context) error { return h.scale(ctx, r.Service, -r.Count) }),
	}
}

func (h *executor) uids(service string) map[string]bool {
	out := map[string]bool{}
	for _, r := range h.census.living(service) {
		out[r.uid] = true
	}
	return out
}

// proveNew waits until this many new pods are endpoints and none of old is.
func (h *executor) proveNew(ctx context.Context, service string, before map[string]bool, count int, old map[string]bool) (string, error) {
	fresh, stale := 0, 0
	holds := func() bool {
		fresh, stale = 0, 0
		endpoints := h.census.endpoints(service)
		for _, r := range h.census.pods {
			if r.Service != service || r.leaving || !endpoints[r.IP] {
				continue
			}
			if !before[r.uid] {
				fresh++
			}
			if old[r.uid] {
				stale++
			}
		}
		return fresh >= count && stale == 0
	}
	err := podwait.Beside(ctx, h.Kube, h.Namespace, "new pods of "+service, h.census.pending, func(ctx context.Context) error { return h.census.await(ctx, holds) })
	if err != nil {
		return "", fmt.Errorf("%d of %d new pods of %s are endpoints, and %d old ones: %w", fresh, count, service, stale, err)
	}
	text := fmt.Sprintf("the EndpointSlices of %s have %s", service, words.Plural(fresh, "new endpoint"))
	if old != nil {
		text += " and none of the old"
	}
	return text, nil
}

// annotations returns the annotations that a service's pods start with, with sidecars of another
// version of Envoy unless that is "".
func (s *scene) annotations(service, envoy string) (map[string]string, error) {
	one, _ := s.scenario.Graph.Service(service)
	w := s.workload(&one)
	if envoy != "" {
		if w.Proxy == nil {
			return nil, errs.Usage("pods of %s have no sidecar whose version could change", service)
		}
		w.Proxy.Levels[study.FactorEnvoy] = envoy
	}
	pod := &corev1.PodTemplateSpec{}
	err := s.decorate(w, pod)
	return pod.Annotations, err
}

// fitUpgrades rejects sidecar versions that steps request and the lab does not have.
func (s *scene) fitUpgrades() error {
	timeline := s.scenario.TimelineOf(s.cell)
	for _, step := range timeline.Steps {
		if restart, ok := step.Action.(*fault.Restart); ok && restart.Proxy != "" {
			if _, err := s.annotations(restart.Service, restart.Proxy); err != nil {
				return fmt.Errorf("step %q: %w", step.Name, err)
			}
		}
	}
	return nil
}

// restartedAt is the pod template annotation that replaces all pods, as set by kubectl rollout
// restart.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

func (r *performer) Restart(a *fault.Restart) error {
	if a.Of != "" {
		return r.prepared(r.restartShared(r.ctx, a.Of))
	}
	return r.prepared(r.restart(a))
}

func (h *executor) restart(r *fault.Restart) (*execution, error) {
	var asked map[string]string
	if r.Proxy != "" {
		var err error
		if asked, err = h.scene.annotations(r.Service, r.Proxy); err != nil {
			return nil, err
		}
	}
	var before map[string]bool
	return &execution{
		target: r.Service,
		begin: func(ctx context.Context) error {
			before = h.uids(r.Service)
			return h.rollOut(ctx, r.Service, nil, asked)
		},
		prove: func(ctx context.Context) (string, error) {
			h.mu.Lock()
			want := h.want[r.Service]
			h.mu.Unlock()
			return h.proveNew(ctx, r.Service, before, want, before)
		},
	}, nil
}

// rollOut replaces the pods of a Deployment in the run's namespace, with these labels ("" removes
// one) and annotations.
func (t *scenarioTrial) rollOut(ctx context.Context, name string, labels, annotations map[string]string) error {
	marks := map[string]string{restartedAt: time.Now().UTC().Format(time.RFC3339Nano)}
	maps.Copy(marks, annotations)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": nullable(labels), "annotations": marks}}}})
	if err == nil {
		_, err = t.Kube.AppsV1().Deployments(t.Namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("restart Deployment %s: %w", name, err)
	}
	return nil
}

// announced adds, for every announced load, a step that prepares the service for it.
func announced(line fault.Timeline, g graph.Graph) fault.Timeline {
	out := fault.Timeline{Duration: line.Duration, Steps: slices.Clone(line.Steps)}
	for _, step := range line.Steps {
		l, ok := step.Action.(*fault.Load)
		if !ok || l.Announced == 0 {
			continue
		}
		one, _ := g.Service(l.Service)
		if more := l.Replicas - one.Replicas; more > 0 {
			out.Steps = append(out.Steps, fault.Step{Name: step.Name + fault.Announced, At: max(0, step.At-l.Announced),
				Action: &fault.Add{Replicas: fault.Replicas{Service: l.Service, Count: more}}})
		}
	}
	return out
}
