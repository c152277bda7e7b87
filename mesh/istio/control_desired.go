package istio

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// environment is what istiod's environment must hold: a value, or nil for a
// variable that must be absent, so that istiod's own default holds.
func environment(l mesh.Levers) (map[string]*string, error) {
	if err := l.Refuse(); err != nil {
		return nil, err
	}
	if after, most := debounce(l, study.FactorDebounceAfter), debounce(l, study.FactorDebounceMax); most < after {
		return nil, errs.Usage("debounce_max %s is less than debounce_after %s", most, after)
	}
	out := map[string]*string{}
	for _, f := range study.Levers() {
		switch level := l.Level(f.Name); {
		case f.Lever.Env == "":
		case level == mesh.LevelDefault:
			out[f.Lever.Env] = nil
		default:
			out[f.Lever.Env] = &level
		}
	}
	more, err := l.EnvVars()
	if err != nil {
		return nil, err
	}
	for name, value := range more {
		out[name] = &value
	}
	return out, nil
}

// debounce reads a level that has been read once.
func debounce(l mesh.Levers, factor string) time.Duration {
	d, _ := time.ParseDuration(l.Level(factor))
	return d
}

// quantity parses a limit; nil for none.
func quantity(factor, level string) (*resource.Quantity, error) {
	if level == mesh.LevelNone || level == "" {
		return nil, nil
	}
	q, err := resource.ParseQuantity(level)
	if err != nil || q.Sign() <= 0 {
		return nil, errs.Usage("%s %q: want none or a quantity such as 500m or 1536Mi", factor, level)
	}
	return &q, nil
}

func replicas(l mesh.Levers) (int32, error) {
	n, err := strconv.ParseInt(l.Level(study.FactorIstiodReplicas), 10, 32)
	if err != nil || n < 1 || n > 100 {
		return 0, errs.Usage("istiod_replicas %q: want a number from 1 to 100", l.Level(study.FactorIstiodReplicas))
	}
	return int32(n), nil
}

// desiredDeployment is the original with the levers set. Its pods are
// replaced all at once, so that two generations never share the machine, and
// asked each second whether they are ready.
func desiredDeployment(original appsv1.DeploymentSpec, l mesh.Levers) (appsv1.DeploymentSpec, error) {
	out := *original.DeepCopy()
	n, err := replicas(l)
	if err != nil {
		return out, err
	}
	vars, err := environment(l)
	if err != nil {
		return out, err
	}
	out.Replicas = &n
	out.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	container := containerOf(&out.Template.Spec)
	if container == nil {
		return out, fmt.Errorf("istio: istiod's Deployment has no container %s", istiodContainer)
	}
	setEnvironment(container, vars)
	for _, r := range resourceLevers(l) {
		limit, err := quantity(r.factor, r.limit)
		if err != nil {
			return out, err
		}
		request, err := requested(r.factor, r.request)
		if err != nil {
			return out, err
		}
		if limit != nil && request != nil && request.Cmp(*limit) > 0 {
			return out, errs.Usage("%s_request %s is more than %s %s", r.factor, r.request, r.factor, r.limit)
		}
		setRequest(container, r.name, request)
		setLimit(container, r.name, limit)
	}
	if l.Level(study.FactorIstiod) != mesh.LevelDefault && l.Level(study.FactorIstiod) != "" {
		container.Image = l.Level(study.FactorIstiod)
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

// resourceLever is a resource of istiod's container with its levels.
type resourceLever struct {
	factor, limit, request string
	name                   corev1.ResourceName
}

func resourceLevers(l mesh.Levers) []resourceLever {
	return []resourceLever{
		{"istiod_cpu", l.Level(study.FactorIstiodCPU), l.Level(study.FactorIstiodCPURequest), corev1.ResourceCPU},
		{"istiod_memory", l.Level(study.FactorIstiodMemory), l.Level(study.FactorIstiodMemRequest), corev1.ResourceMemory},
	}
}

// requested parses a request; nil for the installed one.
func requested(factor, level string) (*resource.Quantity, error) {
	if level == mesh.LevelDefault || level == "" {
		return nil, nil
	}
	q, err := resource.ParseQuantity(level)
	if err != nil || q.Sign() <= 0 {
		return nil, errs.Usage("%s_request %q: want default or a quantity such as 500m or 1Gi", factor, level)
	}
	return &q, nil
}

// setRequest sets a request; nil leaves it as it is.
func setRequest(container *corev1.Container, name corev1.ResourceName, request *resource.Quantity) {
	if request == nil {
		return
	}
	if container.Resources.Requests == nil {
		container.Resources.Requests = corev1.ResourceList{}
	}
	container.Resources.Requests[name] = *request
}

// setLimit sets or removes a limit; a request above it comes down to it.
func setLimit(container *corev1.Container, name corev1.ResourceName, limit *resource.Quantity) {
	if limit == nil {
		delete(container.Resources.Limits, name)
		return
	}
	if container.Resources.Limits == nil {
		container.Resources.Limits = corev1.ResourceList{}
	}
	container.Resources.Limits[name] = *limit
	if request, ok := container.Resources.Requests[name]; ok && request.Cmp(*limit) > 0 {
		container.Resources.Requests[name] = *limit
	}
}

// desiredMeshConfig is the original MeshConfig with the levers set.
// See istio.io/api/mesh/v1alpha1 MeshConfig and ProxyConfig.
func desiredMeshConfig(original string, l mesh.Levers) (string, error) {
	config, err := parseMeshConfig(original)
	if err != nil {
		return "", err
	}
	if err := l.Refuse(); err != nil {
		return "", err
	}
	delete(config, "discoverySelectors")
	if selectors := discoverySelectors(l.Level(study.FactorDiscoverySelectors)); selectors != nil {
		config["discoverySelectors"] = selectors
	}
	delete(config, "outboundTrafficPolicy")
	if l.Level(study.FactorOutboundPolicy) != "ALLOW_ANY" && l.Level(study.FactorSidecarScope) == mesh.LevelNone { // otherwise in the Sidecars
		config["outboundTrafficPolicy"] = map[string]any{"mode": l.Level(study.FactorOutboundPolicy)}
	}
	for _, field := range exportFields {
		delete(config, field)
		if l.Level(study.FactorExportTo) != "*" {
			config[field] = []any{l.Level(study.FactorExportTo)}
		}
	}
	proxy, _ := config["defaultConfig"].(map[string]any)
	if proxy == nil {
		proxy = map[string]any{}
	}
	metadata, _ := proxy["proxyMetadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, f := range study.Levers() {
		if f.Lever.ProxyMetadata != "" {
			metadata[f.Lever.ProxyMetadata] = l.Level(f.Name)
		}
	}
	proxy["proxyMetadata"], config["defaultConfig"] = metadata, proxy
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("istio: mesh configuration: %w", err)
	}
	return string(text), nil
}

// exportFields are the defaults of exportTo by kind.
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

// discoverySelectors translates key=value into matchLabels and key!=value
// into a matchExpression NotIn; nil for none.
func discoverySelectors(level string) []any {
	if level == mesh.LevelNone {
		return nil
	}
	key, value, _ := strings.Cut(level, "=")
	if key, not := strings.CutSuffix(key, "!"); not {
		return []any{map[string]any{"matchExpressions": []any{
			map[string]any{"key": key, "operator": "NotIn", "values": []any{value}}}}}
	}
	return []any{map[string]any{"matchLabels": map[string]any{key: value}}}
}

// sidecarName is the name of our Sidecars; the mesh-wide one's too.
const sidecarName = "default"

// desiredSidecars are the Sidecar resources of a scope.
// See istio.io/api/networking/v1 Sidecar: one without a selector in the root
// namespace holds mesh-wide, elsewhere for its namespace.
func desiredSidecars(l mesh.Levers) ([]*unstructured.Unstructured, error) {
	if err := l.Refuse(); err != nil {
		return nil, err
	}
	var namespaces []string
	switch l.Level(study.FactorSidecarScope) {
	case mesh.LevelNone, "":
		return nil, nil
	case "mesh":
		namespaces = []string{Namespace}
	case "namespace", "workload":
		namespaces = l.Namespaces
		if len(namespaces) == 0 {
			return nil, fmt.Errorf("istio: sidecar_scope %s, but no namespace to set it in", l.Level(study.FactorSidecarScope))
		}
	}
	var out []*unstructured.Unstructured
	for _, namespace := range namespaces {
		var hosts []any
		for _, host := range l.Hosts() {
			hosts = append(hosts, host)
		}
		spec := map[string]any{
			"egress":                []any{map[string]any{"hosts": hosts}},
			"outboundTrafficPolicy": map[string]any{"mode": l.Level(study.FactorOutboundPolicy)},
		}
		if l.Level(study.FactorSidecarScope) == "workload" {
			if len(l.Workload) == 0 {
				return nil, fmt.Errorf("istio: sidecar_scope workload, but no labels to select it by")
			}
			labels := map[string]any{}
			for key, value := range l.Workload {
				labels[key] = value
			}
			spec["workloadSelector"] = map[string]any{"labels": labels}
		}
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "Sidecar",
			"metadata": map[string]any{"name": sidecarName, "namespace": namespace,
				"labels": map[string]any{leverLabel: "sidecar"}},
			"spec": spec,
		}})
	}
	return out, nil
}
