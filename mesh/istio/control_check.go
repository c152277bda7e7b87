package istio

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// maxAskedProxies limits the number of proxies whose scope is requested: istiod
// prints every service for each.
const maxAskedProxies = 8

// state is what the running istiods report about themselves: the evidence for the
// levers, independent of how it was obtained.
type state struct {
	pods     []corev1.Pod // all of them, including terminating ones
	replicas []replica
	scopes   map[string]proxyScope // by proxy ID
}

// proxyScope is a proxy's scope, or why it is unavailable.
type proxyScope struct {
	activeSidecar
	err error
}

// replica is a running istiod.
type replica struct {
	pod     string
	env     map[string]string
	mesh    map[string]any
	cache   string // size of its XDS cache, as printed
	metrics []observe.Metric
	err     error // why part of it could not be read
}

// Check verifies the levers.
func (c *ControlPlane) Check(ctx context.Context, l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	s, err := c.look(ctx, e)
	if err != nil {
		return []record.Check{{Name: "istiod", Detail: err.Error()}}
	}
	return judge(s, l, e)
}

// look collects what running istiods report.
func (c *ControlPlane) look(ctx context.Context, e mesh.ControlEvidence) (state, error) {
	s := state{scopes: map[string]proxyScope{}}
	var err error
	if s.pods, err = c.pods(ctx); err != nil {
		return s, err
	}
	ready := controlPods(s.pods, lab.PodReady)
	for _, pod := range ready {
		r := replica{pod: pod.Name}
		r.env, r.err = c.environmentOf(ctx, pod)
		if r.err == nil {
			r.mesh, r.err = c.activeMesh(ctx, pod)
		}
		if r.err == nil {
			var sizes map[string]string
			r.err = c.ask(ctx, pod, monitoringPort, "/debug/cachez?sizes=true", &sizes)
			r.cache = sizes["total"]
		}
		if r.err == nil {
			r.metrics, r.err = c.metrics(ctx, pod.Name)
		}
		s.replicas = append(s.replicas, r)
	}
	for _, proxy := range e.Proxies[:min(len(e.Proxies), maxAskedProxies)] {
		s.scopes[proxy.ID] = c.scopeOf(ctx, ready, proxy.ID)
	}
	return s, nil
}

// judge compares the observed state with the named levers.
func judge(s state, l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	checks := []record.Check{checkReplicas(s, l)}
	for _, r := range s.replicas {
		if r.err != nil {
			return append(checks, record.Check{Name: "istiod", Detail: "as istiod reports itself: " + r.err.Error()})
		}
	}
	checks = append(checks, checkEnvironment(s, l)...)
	checks = append(checks, checkFlags(s, l)...)
	checks = append(checks, checkResources(s, l)...)
	checks = append(checks, checkImage(s, l))
	checks = append(checks, checkMesh(s, l)...)
	checks = append(checks, checkCache(s, l, e)...)
	checks = append(checks, checkDebounce(l, e)...)
	checks = append(checks, checkEDSDebounce(l, e)...)
	return append(checks, checkSidecars(s, l, e)...)
}

func check(name string, wrong []string, right string) record.Check {
	if len(wrong) > 0 {
		return record.Check{Name: name, Detail: strings.Join(wrong, "; ")}
	}
	return record.Check{Name: name, OK: true, Detail: right}
}

func checkReplicas(s state, l mesh.Levers) record.Check {
	ok := len(s.pods) == len(s.replicas) && len(s.replicas) > 0
	if l.Named(controlplane.FactorIstiodReplicas) {
		ok = ok && fmt.Sprint(len(s.replicas)) == l.Level(controlplane.FactorIstiodReplicas)
	}
	return record.Check{Name: "istiod-replicas", OK: ok,
		Detail: fmt.Sprintf("%d of istiod's %d pods are ready; the cell sets %s", len(s.replicas), len(s.pods), l.Level(controlplane.FactorIstiodReplicas))}
}

// checkEnvironment checks the environment of the running processes.
func checkEnvironment(s state, l mesh.Levers) []record.Check {
	want, err := environment(l)
	if err != nil {
		return []record.Check{{Name: "istiod-env", Detail: err.Error()}}
	}
	var out []record.Check
	for _, name := range slices.Sorted(maps.Keys(want)) {
		var wrong []string
		right := name + " is not set"
		if want[name] != nil {
			right = name + "=" + *want[name]
		}
		for _, r := range s.replicas {
			got, set := r.env[name]
			if set != (want[name] != nil) || set && got != *want[name] {
				have := "is not set"
				if set {
					have = fmt.Sprintf("is %q", got)
				}
				wrong = append(wrong, fmt.Sprintf("in the running %s %s %s; expected: %s", r.pod, name, have, right))
			}
		}
		out = append(out, check("env "+name, wrong, right+" in every running istiod"))
	}
	return out
}

// checkResources compares the named limits and requests with those that the kubelet
// reports in force, and the limits with what istiod's runtime detected.
func checkResources(s state, l mesh.Levers) []record.Check {
	var out []record.Check
	for _, r := range resourceLevers(l) {
		if !r.limited() && !r.requested() {
			continue
		}
		name := strings.ReplaceAll(r.factor, "_", "-")
		limit, request, err := r.quantities()
		if err != nil {
			return append(out, record.Check{Name: name, Detail: err.Error()})
		}
		var wrong, right []string
		for i := range s.pods {
			force := resourcesInForce(&s.pods[i])
			if r.limited() {
				wrong = append(wrong, resourceDiffers(s.pods[i].Name, "limit", force.Limits, r.name, limit)...)
			}
			if r.requested() {
				wrong = append(wrong, resourceDiffers(s.pods[i].Name, "request", force.Requests, r.name, request)...)
			}
		}
		for _, one := range s.replicas {
			wrong = append(wrong, runtimeDiffers(one, r.name, limit)...)
		}
		if r.limited() {
			right = append(right, "limit in force: "+r.limit)
		}
		if r.requested() {
			right = append(right, "request in force: "+r.request)
		}
		out = append(out, check(name, wrong, strings.Join(right, ", ")))
	}
	return out
}

// runtimeDiffers compares a limit with what istiod's Go runtime detected.
func runtimeDiffers(r replica, name corev1.ResourceName, limit *resource.Quantity) []string {
	if limit == nil {
		return nil
	}
	switch name {
	case corev1.ResourceCPU: // the chart sets GOMAXPROCS to the limit, rounded up
		if procs, _ := observe.Sum(r.metrics, metricGoMaxProcs, nil); procs > math.Ceil(limit.AsApproximateFloat64()) {
			return []string{fmt.Sprintf("%s runs Go code on %.0f processors at once", r.pod, procs)}
		}
	case corev1.ResourceMemory: // istiod gives Go nine tenths of its cgroup's limit
		if goal, _ := observe.Sum(r.metrics, metricGoMemLimit, nil); goal > limit.AsApproximateFloat64() {
			return []string{fmt.Sprintf("%s's Go memory limit is %.0f bytes", r.pod, goal)}
		}
	}
	return nil
}

// resourcesInForce returns the limits and requests of the running container, or
// those of the pod's specification if the kubelet does not report them.
func resourcesInForce(pod *corev1.Pod) corev1.ResourceRequirements {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == istiodContainer && status.Resources != nil {
			return *status.Resources
		}
	}
	if container := containerOf(&pod.Spec); container != nil {
		return container.Resources
	}
	return corev1.ResourceRequirements{}
}

// resourceDiffers compares a limit or a request with the wanted one; nil for none.
func resourceDiffers(pod, what string, have corev1.ResourceList, name corev1.ResourceName, want *resource.Quantity) []string {
	got, set := have[name]
	switch {
	case !set && want == nil, set && want != nil && got.Cmp(*want) == 0:
		return nil
	case !set:
		return []string{fmt.Sprintf("%s has no %s of %s, expected %s", pod, what, name, want)}
	case want == nil:
		return []string{fmt.Sprintf("%s has a %s of %s %s, expected none", pod, what, name, got.String())}
	}
	return []string{fmt.Sprintf("%s has a %s of %s %s, expected %s", pod, what, name, got.String(), want)}
}

func checkImage(s state, l mesh.Levers) record.Check {
	var wrong, images []string
	for i := range s.pods {
		container := containerOf(&s.pods[i].Spec)
		if container == nil {
			wrong = append(wrong, s.pods[i].Name+" has no container "+istiodContainer)
			continue
		}
		if !slices.Contains(images, container.Image) {
			images = append(images, container.Image)
		}
		if l.Named(controlplane.FactorIstiod) && container.Image != l.Level(controlplane.FactorIstiod) {
			wrong = append(wrong, fmt.Sprintf("%s runs %s, wanted %s", s.pods[i].Name, container.Image, l.Level(controlplane.FactorIstiod)))
		}
	}
	if len(images) > 1 {
		wrong = append(wrong, "replicas run different images: "+strings.Join(images, ", "))
	}
	return check("istiod-image", wrong, strings.Join(images, ", "))
}

// checkMesh checks the active MeshConfig of the running istiods.
func checkMesh(s state, l mesh.Levers) []record.Check {
	wrong, right := map[string][]string{}, map[string]string{}
	for _, r := range s.replicas {
		for name, pair := range meshFields(r.mesh, l) {
			right[name] = fmt.Sprint(pair[1])
			if !agree(pair) {
				wrong[name] = append(wrong[name], fmt.Sprintf("in the running %s it is %v, expected %v", r.pod, pair[0], pair[1]))
			}
		}
	}
	var out []record.Check
	for _, name := range slices.Sorted(maps.Keys(right)) {
		out = append(out, check("mesh "+name, wrong[name], right[name]))
	}
	return out
}
