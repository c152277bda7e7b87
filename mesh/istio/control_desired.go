package istio

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// environment returns what the named levers require of istiod's environment: a value, or nil
// for a variable that must be absent, so that istiod's own default applies.
func environment(l mesh.Levers) (map[string]*string, error) {
	if err := l.Refuse(); err != nil {
		return nil, err
	}
	out := asked(l, func(lever study.Lever) string { return lever.Env }, study.LevelDefault)
	more, err := l.EnvVars()
	if err != nil {
		return nil, err
	}
	for name, value := range more {
		out[name] = &value
	}
	return out, nil
}

// asked returns the levels of the named levers, by the name under which istiod reads them;
// nil for istiod's own default.
func asked(l mesh.Levers, name func(study.Lever) string, own string) map[string]*string {
	out := map[string]*string{}
	for _, f := range controlplane.Levers() {
		if key := name(f.Lever); key != "" && l.Named(f.Name) {
			out[key] = nil
			if level := l.Level(f.Name); level != own {
				out[key] = &level
			}
		}
	}
	return out
}

// checkDebounces rejects an environment whose longest wait is below the shortest, if either
// of the two is named.
func checkDebounces(container *corev1.Container, l mesh.Levers) error {
	if !l.Named(study.FactorDebounceAfter) && !l.Named(controlplane.FactorDebounceMax) {
		return nil
	}
	said := func(factor string) (time.Duration, string) {
		f, _ := controlplane.LeverByName(factor)
		text, whose := f.Usual, " (istiod's own)"
		for _, e := range container.Env {
			if e.Name == f.Lever.Env {
				text, whose = e.Value, " (as installed)"
			}
		}
		if l.Named(factor) {
			whose = ""
		}
		d, err := time.ParseDuration(text)
		if err != nil { // the variable is set from another source
			d = -1
		}
		return d, factor + " " + text + whose
	}
	after, shortest := said(study.FactorDebounceAfter)
	most, longest := said(controlplane.FactorDebounceMax)
	if after >= 0 && most >= 0 && most < after {
		return errs.Usage("%s is less than %s", longest, shortest)
	}
	return nil
}

// debounce parses a level that has already been validated.
func debounce(l mesh.Levers, factor string) time.Duration {
	d, _ := time.ParseDuration(l.Level(factor))
	return d
}

func replicas(l mesh.Levers) (int32, error) {
	n, err := strconv.ParseInt(l.Level(controlplane.FactorIstiodReplicas), 10, 32)
	if err != nil || n < 1 || n > 100 {
		return 0, errs.Usage("istiod_replicas %q: must be a number from 1 to 100", l.Level(controlplane.FactorIstiodReplicas))
	}
	return int32(n), nil
}

// desiredDeployment returns the original with the named levers applied, or the unchanged
// original if there are none. If a lever of the Deployment is named, its pods are replaced
// all at once, so that two generations never share the machine, and are probed for readiness
// every second.
func desiredDeployment(original appsv1.DeploymentSpec, l mesh.Levers) (appsv1.DeploymentSpec, error) {
	out := *original.DeepCopy()
	vars, err := environment(l)
	if err != nil {
		return out, err
	}
	if !l.AnyNamed(study.ScopeIstiod) {
		return out, nil
	}
	if l.Named(controlplane.FactorIstiodReplicas) {
		n, err := replicas(l)
		if err != nil {
			return out, err
		}
		out.Replicas = &n
	}
	out.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	container := containerOf(&out.Template.Spec)
	if container == nil {
		return out, fmt.Errorf("istio: istiod's Deployment has no container %s", istiodContainer)
	}
	setEnvironment(container, vars)
	setFlags(container, flags(l))
	if err := checkDebounces(container, l); err != nil {
		return out, err
	}
	for _, r := range resourceLevers(l) {
		if err := setResource(container, r); err != nil {
			return out, err
		}
	}
	if l.Named(controlplane.FactorIstiod) {
		container.Image = l.Level(controlplane.FactorIstiod)
	}
	if container.ReadinessProbe != nil {
		container.ReadinessProbe.PeriodSeconds = 1
	}
	return out, nil
}

func setEnvironment(container *corev1.Container, vars map[string]*string) {
	container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool {
		_, ours := vars[e.Name]
		return ours
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if vars[name] != nil {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: *vars[name]})
		}
	}
}

// desiredMeshConfig returns a MeshConfig with the named levers applied, or the identical text
// if they change nothing.
func desiredMeshConfig(original string, l mesh.Levers) (string, error) {
	was, is, err := withLevers(original, l)
	if err != nil || reflect.DeepEqual(was, is) {
		return original, err
	}
	text, err := yaml.Marshal(is)
	if err != nil {
		return "", fmt.Errorf("istio: mesh configuration: %w", err)
	}
	return string(text), nil
}

// withLevers returns a MeshConfig as it is, and with the named levers applied. See
// istio.io/api/mesh/v1alpha1 MeshConfig and ProxyConfig.
func withLevers(text string, l mesh.Levers) (was, is map[string]any, err error) {
	if was, err = parseMeshConfig(text); err != nil {
		return nil, nil, err
	}
	if err := l.Refuse(); err != nil {
		return nil, nil, err
	}
	is = runtime.DeepCopyJSON(was)
	if l.Named(controlplane.FactorDiscoverySelectors) {
		delete(is, "discoverySelectors")
		if selectors := discoverySelectors(l.Level(controlplane.FactorDiscoverySelectors)); selectors != nil {
			is["discoverySelectors"] = selectors
		}
	}
	if mode := meshPolicy(l); mode != "" {
		sectionOf(is, "outboundTrafficPolicy")["mode"] = mode
	}
	if l.Named(controlplane.FactorExportTo) {
		for _, field := range exportFields {
			is[field] = []any{l.Level(controlplane.FactorExportTo)}
		}
	}
	for _, f := range controlplane.Levers() {
		if f.Lever.ProxyMetadata != "" && l.Named(f.Name) {
			sectionOf(sectionOf(is, "defaultConfig"), "proxyMetadata")[f.Lever.ProxyMetadata] = l.Level(f.Name)
		}
	}
	return was, is, nil
}

// sectionOf returns a part of a configuration, which it adds if there is none.
func sectionOf(config map[string]any, key string) map[string]any {
	of, ok := config[key].(map[string]any)
	if !ok {
		of = map[string]any{}
		config[key] = of
	}
	return of
}

// meshPolicy returns the outbound policy that the mesh configuration needs; "" leaves it
// unchanged. If our Sidecars exist, they set the policy.
func meshPolicy(l mesh.Levers) string {
	if !l.Named(controlplane.FactorOutboundPolicy) || sidecarsOfOurs(l) {
		return ""
	}
	return l.Level(controlplane.FactorOutboundPolicy)
}

// sidecarsOfOurs reports whether the levers require Sidecars.
func sidecarsOfOurs(l mesh.Levers) bool {
	return l.Named(controlplane.FactorSidecarScope) && l.Level(controlplane.FactorSidecarScope) != controlplane.SidecarScopeNone
}

// exportFields lists the exportTo defaults by kind.
var exportFields = []string{"defaultServiceExportTo", "defaultVirtualServiceExportTo", "defaultDestinationRuleExportTo"}

func parseMeshConfig(text string) (map[string]any, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("istio: mesh configuration: %w", err)
	}
	if config == nil {
		config = map[string]any{}
	}
	return config, nil
}

// discoverySelectors converts key=value to matchLabels and key!=value to a matchExpression
// NotIn; nil for none.
func discoverySelectors(level string) []any {
	if level == study.LevelNone {
		return nil
	}
	key, value, _ := strings.Cut(level, "=")
	if key, not := strings.CutSuffix(key, "!"); not {
		return []any{map[string]any{"matchExpressions": []any{
			map[string]any{"key": key, "operator": "NotIn", "values": []any{value}}}}}
	}
	return []any{map[string]any{"matchLabels": map[string]any{key: value}}}
}

// sidecarName is the name of our Sidecars, including the mesh-wide one.
const sidecarName = "default"

// desiredSidecars returns the Sidecar resources of a scope for a revision, which others
// ignore; none if it is not named. See istio.io/api/networking/v1 Sidecar: without a
// selector it applies mesh-wide in the root namespace, and to its own namespace elsewhere.
func desiredSidecars(l mesh.Levers, revision string) ([]*unstructured.Unstructured, error) {
	if err := l.Refuse(); err != nil {
		return nil, err
	}
	var namespaces []string
	switch l.Level(controlplane.FactorSidecarScope) {
	case study.LevelInstalled, controlplane.SidecarScopeNone:
		return nil, nil
	case controlplane.SidecarScopeMesh:
		namespaces = []string{Namespace}
	case controlplane.SidecarScopeNamespace, controlplane.SidecarScopeWorkload:
		namespaces = l.Namespaces
		if len(namespaces) == 0 {
			return nil, fmt.Errorf("istio: sidecar_scope %s needs a namespace to set it in", l.Level(controlplane.FactorSidecarScope))
		}
	}
	var out []*unstructured.Unstructured
	for _, namespace := range namespaces {
		var hosts []any
		for _, host := range l.Hosts() {
			hosts = append(hosts, host)
		}
		spec := map[string]any{"egress": []any{map[string]any{"hosts": hosts}}}
		if l.Named(controlplane.FactorOutboundPolicy) { // otherwise the mesh's
			spec["outboundTrafficPolicy"] = map[string]any{"mode": l.Level(controlplane.FactorOutboundPolicy)}
		}
		if l.Level(controlplane.FactorSidecarScope) == controlplane.SidecarScopeWorkload {
			if len(l.Workload) == 0 {
				return nil, fmt.Errorf("istio: sidecar_scope workload needs labels that select the workload")
			}
			labels := map[string]any{}
			for key, value := range l.Workload {
				labels[key] = value
			}
			spec["workloadSelector"] = map[string]any{"labels": labels}
		}
		labels := map[string]any{leverLabel: "sidecar"}
		if revision != "" && revision != defaultRevision {
			labels[revisionLabel] = revision
		}
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "Sidecar",
			"metadata": map[string]any{"name": sidecarName, "namespace": namespace, "labels": labels},
			"spec":     spec,
		}})
	}
	return out, nil
}
