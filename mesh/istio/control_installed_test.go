package istio

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// anyDeployment draws an istiod as it may have been installed.
func anyDeployment(t *rapid.T) appsv1.DeploymentSpec {
	spec := charted()
	if n := int32(rapid.IntRange(0, 5).Draw(t, "replicas")); n > 0 {
		spec.Replicas = &n
	} else {
		spec.Replicas = nil
	}
	surge, least := intstr.FromString("100%"), intstr.FromInt32(1)
	spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &least}
	c := containerOf(&spec.Template.Spec)
	c.Env = nil
	for _, e := range []corev1.EnvVar{{Name: "PILOT_DEBOUNCE_AFTER", Value: "1s"}, {Name: "PILOT_DEBOUNCE_MAX", Value: "30s"}, {Name: "PILOT_PUSH_THROTTLE", Value: "25"},
		{Name: "PILOT_ENABLE_XDS_CACHE", Value: "0"}, {Name: "PILOT_ENABLE_EDS_DEBOUNCE", Value: "false"}, {Name: "PILOT_ENABLE_ANALYSIS", Value: "true"}, {Name: "GOGC", Value: "80"}} {
		if rapid.Bool().Draw(t, e.Name) {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	c.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, r := range []struct {
		name           corev1.ResourceName
		request, limit string
	}{{corev1.ResourceCPU, "300m", "3"}, {corev1.ResourceMemory, "700Mi", "5Gi"}} {
		if rapid.Bool().Draw(t, "request") {
			c.Resources.Requests[r.name] = resource.MustParse(r.request)
		}
		if rapid.Bool().Draw(t, "limit") {
			c.Resources.Limits[r.name] = resource.MustParse(r.limit)
		}
	}
	if c.ReadinessProbe.PeriodSeconds = int32(rapid.IntRange(0, 10).Draw(t, "period")); c.ReadinessProbe.PeriodSeconds == 0 {
		c.ReadinessProbe = nil
	}
	return spec
}

// anyMeshConfig draws a mesh configuration as a user may have written it, with
// comments.
func anyMeshConfig(t *rapid.T) string {
	out := "# ours\nrootNamespace: istio-system\n"
	for _, text := range []string{
		"outboundTrafficPolicy:\n  mode: REGISTRY_ONLY # as the auditors want it\n", "discoverySelectors:\n- matchLabels: {team: a}\n- matchLabels: {team: b}\n",
		"defaultServiceExportTo: ['.']\ndefaultVirtualServiceExportTo: ['*']\n", "defaultConfig:\n  holdApplicationUntilProxyStarts: true\n  proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true', OTHER: x}\n",
	} {
		if rapid.Bool().Draw(t, text) {
			out += text
		}
	}
	return out
}

// If a study names no lever, every installation stays exactly as it is, and nothing
// is required of it.
func TestNothingNamedChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := record.Cell{}
		for _, f := range controlplane.Levers() {
			if level := rapid.SampledFrom([]string{"", study.NotApplicable, study.LevelInstalled}).Draw(t, f.Name); level != "" {
				cell[f.Name] = level
			}
		}
		l := mesh.LeversOf(cell)
		l.Namespaces, l.Workload = []string{"a"}, map[string]string{"app": "web"}
		spec, config := anyDeployment(t), anyMeshConfig(t)
		if got, err := desiredDeployment(spec, l); err != nil || !equality.Semantic.DeepEqual(got, spec) {
			t.Errorf("Deployment: %v\n%+v\n%+v", err, spec, got)
		}
		if got, err := desiredMeshConfig(config, l); err != nil || got != config {
			t.Errorf("mesh configuration: %v\n%s\n%s", err, config, got)
		}
		if got, err := desiredSidecars(l, ""); err != nil || len(got) > 0 {
			t.Errorf("Sidecars: %v, %v", got, err)
		}
		active, err := parseMeshConfig(config)
		must.OK(t, err)
		if demanded := meshFields(active, l); len(demanded) > 0 {
			t.Errorf("demanded of the mesh configuration: %v", demanded)
		}
		s := installed(spec, active, 2)
		for _, c := range judge(s, l, mesh.ControlEvidence{}) {
			if !c.OK || c.Name != "istiod-replicas" && c.Name != "istiod-image" {
				t.Errorf("demanded: %+v", c)
			}
		}
	})
}

// A request that a named limit changes is reported with its installed value. One
// that a study names itself, or that does not change, is not.
func TestRequestsMoved(t *testing.T) {
	for name, tt := range map[string]struct {
		cell    record.Cell
		without []corev1.ResourceName // without an installed request
		want    record.Cell
	}{
		"a limit below it":       {record.Cell{"istiod_memory": "1536Mi"}, nil, record.Cell{"istiod_memory_request": "2Gi"}},
		"a limit above it":       {record.Cell{"istiod_memory": "3Gi"}, nil, nil},
		"it is named too":        {record.Cell{"istiod_memory": "1536Mi", "istiod_memory_request": "1Gi"}, nil, nil},
		"no limit":               {record.Cell{"istiod_cpu": "none"}, nil, nil},
		"nothing named":          {record.Cell{}, nil, nil},
		"a request of the limit": {record.Cell{"istiod_cpu": "1"}, []corev1.ResourceName{corev1.ResourceCPU}, record.Cell{"istiod_cpu_request": "4"}},
		"a request out of none":  {record.Cell{"istiod_memory": "3Gi"}, []corev1.ResourceName{corev1.ResourceMemory}, record.Cell{"istiod_memory_request": "none"}},
		"both limits, one above": {record.Cell{"istiod_cpu": "250m", "istiod_memory": "4Gi"}, nil, record.Cell{"istiod_cpu_request": "500m"}},
	} {
		spec := charted()
		for _, r := range tt.without {
			delete(containerOf(&spec.Template.Spec).Resources.Requests, r)
		}
		if got := requestsMoved(spec, mesh.LeversOf(tt.cell)); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, wanted %v", name, got, tt.want)
		}
	}
}

// installed returns the state that istiods report when they run with a Deployment
// and a mesh configuration.
func installed(spec appsv1.DeploymentSpec, active map[string]any, n int) state {
	s := state{scopes: map[string]proxyScope{}}
	for i := range n {
		r := replica{pod: fmt.Sprintf("istiod-%d", i), env: map[string]string{}, mesh: active, cache: "4kB"}
		for _, e := range containerOf(&spec.Template.Spec).Env {
			r.env[e.Name] = e.Value
		}
		pod := corev1.Pod{Spec: *spec.Template.Spec.DeepCopy()}
		pod.Name = r.pod
		s.pods, s.replicas = append(s.pods, pod), append(s.replicas, r)
	}
	return s
}

// A single named lever changes only what belongs to it.
func TestOneNamedChangesItsOwn(t *testing.T) {
	for _, f := range controlplane.Levers() {
		t.Run(f.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				spec, config := anyDeployment(t), anyMeshConfig(t)
				l := mesh.LeversOf(record.Cell{f.Name: rapid.SampledFrom(levelsOf(f)).Draw(t, "level")})
				l.Namespaces, l.Workload = []string{"a"}, map[string]string{"app": "web"}
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
				must.OK(t, err)
				before := map[string]any{"spec": content}
				after := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(before)}
				must.OK(t, editSpec(after, l))
				if strategy, _, _ := unstructured.NestedString(after.Object, "spec", "strategy", "type"); f.Scope == study.ScopeIstiod && strategy != "Recreate" {
					t.Error("two generations of istiod would share the machine")
				}
				was, is, err := withLevers(config, l)
				must.OK(t, err)
				own := ownFields(f, l)
				for _, field := range slices.Concat(fields.Diff(before, after.Object), fields.Diff(was, is)) {
					if field.Order == nil && !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(field.String(), prefix) }) {
						t.Errorf("%v changes %s", l.Levels, field)
					}
				}
				if sidecars, err := desiredSidecars(l, ""); f.Name != controlplane.FactorSidecarScope && (err != nil || len(sidecars) > 0) {
					t.Errorf("Sidecars: %v, %v", sidecars, err)
				}
			})
		})
	}
}

// ownFields returns what the fields start with that a lever may change, in the Deployment or in the mesh
// configuration.
func ownFields(f study.Factor, l mesh.Levers) []string {
	const container = "spec.template.spec.containers[discovery]."
	out := map[string][]string{
		controlplane.FactorIstiodReplicas:     {"spec.replicas"},
		controlplane.FactorIstiod:             {container + "image"},
		controlplane.FactorConnectionAge:      {container + "args"},
		controlplane.FactorIstiodCPU:          {container + "resources.limits.cpu"},
		controlplane.FactorIstiodMemory:       {container + "resources.limits.memory"},
		controlplane.FactorIstiodCPURequest:   {container + "resources.requests.cpu"},
		controlplane.FactorIstiodMemRequest:   {container + "resources.requests.memory"},
		controlplane.FactorOutboundPolicy:     {"outboundTrafficPolicy.mode"},
		controlplane.FactorDiscoverySelectors: {"discoverySelectors"},
		controlplane.FactorExportTo:           exportFields,
	}[f.Name]
	if f.Lever.ProxyMetadata != "" {
		out = append(out, "defaultConfig.proxyMetadata."+f.Lever.ProxyMetadata)
	}
	if f.Scope == study.ScopeIstiod {
		out = append(out, "spec.strategy", container+"readinessProbe.periodSeconds")
	}
	vars, _ := environment(l)
	for name := range vars {
		out = append(out, container+"env["+name+"]")
	}
	return out
}

// Found returns the levels that were set, in the factors' spelling, and istiod's
// defaults for the others.
func TestFoundIsWhatWasSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := record.Cell{}
		for _, f := range controlplane.Levers() {
			if f.Name != controlplane.FactorSidecarScope && f.Name != controlplane.FactorSidecarHosts && f.Name != controlplane.FactorIstiodEnv {
				cell[f.Name] = rapid.SampledFrom(append([]string{study.LevelInstalled}, levelsOf(f)...)).Draw(t, f.Name)
			}
		}
		l := mesh.LeversOf(cell)
		n := 1
		if l.Level(controlplane.FactorIstiodReplicas) == "3" {
			n = 3
		}
		got := found(ran(l, n), nil, mesh.LeversOf(nil))
		for _, f := range controlplane.Levers() {
			want := f.Usual // of a chart that sets nothing else
			if l.Named(f.Name) {
				want, _ = f.Canonical(l.Level(f.Name))
			} else if of, ok := map[string]string{controlplane.FactorPushThrottle: "50", controlplane.FactorIstiodCPU: "4", controlplane.FactorIstiodCPURequest: "500m",
				controlplane.FactorIstiodMemRequest: "2Gi", controlplane.FactorIstiod: "hub/pilot:1.31.0", controlplane.FactorSidecarHosts: ""}[f.Name]; ok {
				want = of
			}
			if got[f.Name] != want {
				t.Errorf("%s is found to be %q, want %q (%v)", f.Name, got[f.Name], want, l.Levels)
			}
		}
		for name := range found(ran(l, n), nil, l) {
			if l.Named(name) {
				t.Errorf("%s is named, and yet looked for", name)
			}
		}
	})
}

// A customized installation is found as it is, as levels where its values match
// one.
func TestFound(t *testing.T) {
	spec := charted()
	c := containerOf(&spec.Template.Spec)
	c.Env = []corev1.EnvVar{{Name: "PILOT_DEBOUNCE_AFTER", Value: "1500ms"}, {Name: "PILOT_ENABLE_XDS_CACHE", Value: "0"}, {Name: "PILOT_ENABLE_ANALYSIS", Value: "true"},
		{Name: "GOGC", Value: "80"}, {Name: "TOKEN", Value: "secret"}, {Name: "GOMAXPROCS", ValueFrom: &corev1.EnvVarSource{}}}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2048Mi")}
	active, err := parseMeshConfig("outboundTrafficPolicy: {}\ndefaultServiceExportTo: [a, b]\ndefaultVirtualServiceExportTo: ['.']\n" +
		"discoverySelectors:\n- matchLabels: {team: a}\n- matchExpressions: [{key: b, operator: Exists}]\ndefaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true'}}\n")
	must.OK(t, err)
	s := installed(spec, active, 3)
	want := record.Cell{
		"sidecar_scope": "none", "outbound_policy": "REGISTRY_ONLY", "dns_capture": "true", "hbone": "false", "delta": "true",
		"export_to":           "defaultServiceExportTo a,b; defaultVirtualServiceExportTo .; defaultDestinationRuleExportTo *",
		"discovery_selectors": `[{"matchLabels":{"team":"a"}},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]`,
		"debounce_after":      "1.5s", "debounce_max": "10s", "eds_debounce": "true", "push_throttle": "default", "request_limit": "default", "xds_cache": "false",
		"istiod_replicas": "3", "connection_age": "30m", "istiod_cpu": "none", "istiod_memory": "2Gi", "istiod_cpu_request": "500m", "istiod_memory_request": "2Gi",
		"istiod": "hub/pilot:1.31.0", "istiod_env": "GOGC=80;PILOT_ENABLE_ANALYSIS=true",
	}
	for _, f := range controlplane.Levers() { // variables that are not among these
		if _, ok := want[f.Name]; !ok && f.Lever.Env != "" {
			want[f.Name] = f.Usual
		}
	}
	if got := found(s, nil, mesh.LeversOf(nil)); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	known, strange := controlplane.Known(record.Cell{"export_to": study.LevelInstalled, "debounce_after": study.LevelInstalled, "delta": "false"}, want)
	if known["debounce_after"] != "1.5s" || known["export_to"] != study.LevelInstalled || known["delta"] != "false" || strings.Join(strange, " ") != "export_to discovery_selectors" {
		t.Errorf("%v, strange %v", known, strange)
	}

	for text, want := range map[string]string{
		"- matchLabels: {a: b}": "a=b", "- matchExpressions: [{key: a, operator: In, values: [b]}]": "a=b",
		"- matchExpressions: [{key: a, operator: NotIn, values: [b]}]": "a!=b", " []": "none",
		"- matchLabels: {a: b, c: d}": `[{"matchLabels":{"a":"b","c":"d"}}]`,
	} {
		active, err := parseMeshConfig("discoverySelectors:\n" + text)
		must.OK(t, err)
		if got := selected(active); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A mesh-wide Sidecar counts as installed.
func TestFoundSidecar(t *testing.T) {
	wide := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	egress := []any{map[string]any{"hosts": []any{"./*", "istio-system/*"}}, map[string]any{"hosts": []any{"./*", "shared/*"}}}
	for _, tt := range []struct {
		name                 string
		wide                 *unstructured.Unstructured
		scope, hosts, policy string
	}{
		{"none", nil, "none", "", "ALLOW_ANY"},
		{"hosts", wide(map[string]any{"egress": egress}), "mesh", "./*,istio-system/*,shared/*", "ALLOW_ANY"},
		{"policy", wide(map[string]any{"egress": egress, "outboundTrafficPolicy": map[string]any{"mode": "REGISTRY_ONLY"}}), "mesh", "./*,istio-system/*,shared/*", "REGISTRY_ONLY"},
		{"nothing", wide(map[string]any{}), "mesh", "*/*", "ALLOW_ANY"},
	} {
		s := ran(mesh.LeversOf(nil), 1)
		got := found(s, tt.wide, mesh.LeversOf(nil))
		if got["sidecar_scope"] != tt.scope || got["sidecar_hosts"] != tt.hosts || got["outbound_policy"] != tt.policy {
			t.Errorf("%s: %v", tt.name, got)
		}
		if got := found(s, tt.wide, mesh.LeversOf(record.Cell{"sidecar_scope": "none"})); got["sidecar_scope"] != "" || got["sidecar_hosts"] != "" || got["outbound_policy"] != "ALLOW_ANY" {
			t.Errorf("%s, though a scope is named: %v", tt.name, got)
		}
	}
}
