package istio

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// charted returns istiod's Deployment as its chart creates it.
func charted() appsv1.DeploymentSpec {
	one := int32(1)
	return appsv1.DeploymentSpec{Replicas: &one, Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: istiodContainer, Image: "hub/pilot:1.31.0",
			Args: []string{"discovery", "--monitoringAddr=:15014", "--keepaliveMaxServerConnectionAge", "30m", "--domain", "cluster.local"},
			Env:  []corev1.EnvVar{{Name: "PILOT_PUSH_THROTTLE", Value: "50"}, {Name: "CLUSTER_ID", Value: "Kubernetes"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("2Gi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 3},
		}}}}}
}

var leverLevels = map[string][]string{
	"sidecar_scope": {"none", "mesh", "namespace", "workload"}, "sidecar_hosts": {"./*", "./*,istio-system/*"}, "outbound_policy": {"ALLOW_ANY", "REGISTRY_ONLY"},
	"export_to": {"*", ".", "~"}, "discovery_selectors": {"none", "a=b", "a!=b"},
	"debounce_after": {"0s", "100ms", "2.5s"}, "debounce_max": {"10s", "2500ms"}, "eds_debounce": {"true", "false"},
	"push_throttle": {"default", "1", "100"}, "request_limit": {"default", "0.5", "100"}, "istiod_replicas": {"1", "3"}, "connection_age": {"none", "30m", "45s"},
	"istiod_cpu": {"none", "1", "2"}, "istiod_memory": {"none", "3Gi"}, "istiod_cpu_request": {"250m", "1"}, "istiod_memory_request": {"1Gi", "2Gi"},
	"delta": {"true", "false"}, "xds_cache": {"true", "false"}, "dns_capture": {"true", "false"}, "istiod_env": {"GOGC=50;X=a"},
	"istiod": {"other/pilot:1"},
}

// levelsOf returns levels of a lever that set something.
func levelsOf(f study.Factor) []string {
	if levels := leverLevels[f.Name]; levels != nil {
		return levels
	}
	return slices.DeleteFunc(slices.Concat(f.Levels, f.Examples), func(level string) bool { return !f.Sets(level) })
}

func drawLevers(t *rapid.T) mesh.Levers {
	cell := record.Cell{}
	for _, f := range controlplane.Levers() { // each is named or not
		cell[f.Name] = rapid.SampledFrom(append([]string{study.LevelInstalled}, levelsOf(f)...)).Draw(t, f.Name)
	}
	l := mesh.LeversOf(cell)
	l.Namespaces, l.Workload = []string{"a", "b"}, map[string]string{"app": "web"}
	return l
}

// Only the levers determine the Deployment: regardless of earlier levels or repeated
// calls, the result is the same. The original can be restored, including fields unknown
// to this program.
func TestDesiredDeploymentComesFromTheOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := charted()
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
		must.OK(t, err)
		content["fieldOfTomorrow"] = "kept"
		original := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
		first, l := original.DeepCopy(), drawLevers(t)
		must.OK(t, editSpec(first, drawLevers(t)))
		base, _ := fields.Undo(first.Object, fields.Diff(original.Object, first.Object))
		if !equality.Semantic.DeepEqual(fields.Own(base), fields.Own(original.Object)) {
			t.Fatalf("the original is lost:\n%v\n%v", base, original.Object)
		}
		direct, through := original.DeepCopy(), &unstructured.Unstructured{Object: base}
		must.OK(t, errors.Join(editSpec(direct, l), editSpec(through, l)))
		if !equality.Semantic.DeepEqual(direct.Object["spec"], through.Object["spec"]) {
			t.Errorf("it matters what was there before:\n%v\n%v", direct.Object, through.Object)
		}
		var got appsv1.DeploymentSpec
		known, _, err := unstructured.NestedMap(direct.Object, "spec")
		if err != nil || known["fieldOfTomorrow"] != "kept" {
			t.Errorf("a field that is not known has gone: %v", err)
		}
		must.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(known, &got))
		want, err := desiredDeployment(charted(), l)
		for _, spec := range []*appsv1.DeploymentSpec{&got, &want} { // their order is irrelevant
			slices.SortFunc(containerOf(&spec.Template.Spec).Env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
		}
		if err != nil || !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v, %v", got, want, err)
		}
	})
}

func TestDesiredDeployment(t *testing.T) {
	spec, err := desiredDeployment(charted(), mesh.LeversOf(record.Cell{"debounce_after": "2500ms", "request_limit": "12.5",
		"istiod_cpu": "250m", "istiod_memory": "1Gi", "istiod_replicas": "2", "istiod_env": "GOGC=50"}))
	must.OK(t, err)
	c := containerOf(&spec.Template.Spec)
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	for name, want := range map[string]string{"PILOT_DEBOUNCE_AFTER": "2500ms", "PILOT_DEBOUNCE_MAX": "", "PILOT_MAX_REQUESTS_PER_SECOND": "12.5", "GOGC": "50", "CLUSTER_ID": "Kubernetes", "PILOT_ENABLE_XDS_CACHE": "", "PILOT_PUSH_THROTTLE": "50"} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	if *spec.Replicas != 2 || spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || spec.Strategy.RollingUpdate != nil {
		t.Errorf("%+v", spec)
	}
	if q := c.Resources.Limits[corev1.ResourceCPU]; q.String() != "250m" {
		t.Errorf("limit %s", q.String())
	}
	if q := c.Resources.Requests[corev1.ResourceMemory]; q.String() != "1Gi" {
		t.Errorf("a request above the limit: %s", q.String())
	}
	builtIn, err := desiredDeployment(charted(), mesh.LeversOf(record.Cell{"push_throttle": "default"}))
	if err != nil || slices.ContainsFunc(containerOf(&builtIn.Template.Spec).Env, func(e corev1.EnvVar) bool { return e.Name == "PILOT_PUSH_THROTTLE" }) {
		t.Errorf("default is istiod's own, not the installation's: %+v, %v", builtIn, err)
	}
	spec, err = desiredDeployment(charted(), mesh.LeversOf(record.Cell{"istiod_cpu_request": "1", "istiod_memory_request": "1Gi"}))
	must.OK(t, err)
	requests := containerOf(&spec.Template.Spec).Resources.Requests
	if cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]; cpu.String() != "1" || memory.String() != "1Gi" {
		t.Errorf("requests %v", requests)
	}
	for says, cell := range map[string]record.Cell{"istiod_cpu 1": {"istiod_cpu_request": "2", "istiod_cpu": "1"}, "istiod_cpu 4, as installed": {"istiod_cpu_request": "5"}} {
		refuses(t, "a request above the limit", must.Err(desiredDeployment(charted(), mesh.LeversOf(cell))), says, "")
	}
}

// Invalid levels are rejected as invalid input, with the factor's name.
func TestLeversRefused(t *testing.T) {
	for _, tt := range []struct{ factor, level string }{
		{"debounce_after", "100"}, {"debounce_after", "-1s"}, {"debounce_max", "50ms"}, {"eds_debounce", "yes"}, {"xds_cache", "maybe"},
		{"push_throttle", "0"}, {"push_throttle", "many"}, {"request_limit", "NaN"}, {"request_limit", "-1"}, {"istiod_replicas", "0"},
		{"istiod_cpu", "lots"}, {"istiod_cpu_request", "lots"}, {"istiod_memory_request", "none"}, {"istiod_memory", "-1Gi"}, {"istiod_env", "PILOT_DEBOUNCE_AFTER=1s"}, {"delta", "maybe"}, {"dns_capture", "1"},
		{"sidecar_scope", "all"}, {"outbound_policy", "DENY"}, {"export_to", "a"}, {"discovery_selectors", "x"}, {"discovery_selectors", "=b"},
	} {
		l := mesh.LeversOf(record.Cell{tt.factor: tt.level})
		_, err := desiredDeployment(charted(), l)
		if err == nil {
			_, err = desiredMeshConfig("", l)
		}
		if err == nil {
			_, err = desiredSidecars(l, "")
		}
		refuses(t, tt.level, err, tt.factor, "")
	}
}

func TestDesiredMeshConfig(t *testing.T) {
	const original = "defaultConfig:\n  discoveryAddress: istiod:15012\n  proxyMetadata:\n    OTHER: x\naccessLogFile: /dev/stdout\ndiscoverySelectors:\n- matchLabels: {old: one}\n"
	text, err := desiredMeshConfig(original, mesh.LeversOf(record.Cell{"discovery_selectors": "a!=b", "outbound_policy": "REGISTRY_ONLY", "export_to": ".", "delta": "false", "dns_capture": "true"}))
	must.OK(t, err)
	const want = "accessLogFile: /dev/stdout\ndefaultConfig:\n  discoveryAddress: istiod:15012\n  proxyMetadata: {OTHER: x, ISTIO_DELTA_XDS: 'false', ISTIO_META_DNS_CAPTURE: 'true'}\n" +
		"defaultServiceExportTo: ['.']\ndefaultVirtualServiceExportTo: ['.']\ndefaultDestinationRuleExportTo: ['.']\n" +
		"discoverySelectors:\n- matchExpressions: [{key: a, operator: NotIn, values: [b]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"
	got, err := parseMeshConfig(text)
	must.OK(t, err)
	if as, err := parseMeshConfig(want); err != nil || !reflect.DeepEqual(got, as) {
		t.Errorf("%v\n%s", err, text)
	}
	// With a Sidecar the policy belongs to the Sidecar.
	text, err = desiredMeshConfig("{}", mesh.LeversOf(record.Cell{"outbound_policy": "REGISTRY_ONLY", "sidecar_scope": "mesh"}))
	if err != nil || text != "{}" {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := desiredMeshConfig("a: {", mesh.LeversOf(nil)); err == nil || !strings.Contains(err.Error(), "mesh configuration") {
		t.Errorf("garbled: %v", err)
	}
}

// The levels awaited from istiod are those that a new mesh configuration changes,
// including those that revert to the installed values. A running istiod's defaults equal
// those of a text that does not name them.
func TestMovedLevels(t *testing.T) {
	const shop = "discoverySelectors: [{matchLabels: {mesh: shop}}]\n"
	for name, tt := range map[string]struct {
		from, to string
		want     record.Cell
	}{
		"nothing":          {shop, "accessLogFile: /dev/stdout\n" + shop, record.Cell{}},
		"set":              {"", shop, record.Cell{"discovery_selectors": `[{"matchLabels":{"mesh":"shop"}}]`}},
		"taken back":       {shop, "", record.Cell{"discovery_selectors": "null"}},
		"its own default":  {"{}", "defaultServiceExportTo: ['*']\noutboundTrafficPolicy: {mode: ALLOW_ANY}\n", record.Cell{}},
		"policy":           {"outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "", record.Cell{"outbound_policy": "ALLOW_ANY"}},
		"metadata":         {"", "defaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true'}}", record.Cell{"dns_capture": "true"}},
		"metadata is gone": {"defaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true'}}", "", record.Cell{"dns_capture": study.LevelDefault}},
	} {
		if got, err := movedLevels(tt.from, tt.to); err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var active map[string]any
	must.OK(t, json.Unmarshal([]byte(`{"defaultServiceExportTo":["*"],"defaultVirtualServiceExportTo":["*"],"defaultDestinationRuleExportTo":["*"],"outboundTrafficPolicy":{"mode":"ALLOW_ANY"},"discoverySelectors":[{"matchLabels":{"mesh":"shop"}}]}`), &active))
	text, err := parseMeshConfig(shop)
	if err != nil || !maps.Equal(configLevels(active), configLevels(text)) {
		t.Errorf("%v, %v\n%v", err, configLevels(active), configLevels(text))
	}
}

func TestDesiredSidecars(t *testing.T) {
	l := mesh.LeversOf(record.Cell{"sidecar_scope": "workload", "outbound_policy": "REGISTRY_ONLY", "sidecar_hosts": "./*, istio-system/*"})
	l.Namespaces, l.Workload = []string{"a", "b"}, map[string]string{"app": "web"}
	got, err := desiredSidecars(l, "")
	if err != nil || len(got) != 2 || got[1].GetNamespace() != "b" || got[1].GetName() != "default" {
		t.Fatalf("%v, %v", got, err)
	}
	spec, err := json.Marshal(got[0].Object["spec"])
	if want := `{"egress":[{"hosts":["./*","istio-system/*"]}],"outboundTrafficPolicy":{"mode":"REGISTRY_ONLY"},"workloadSelector":{"labels":{"app":"web"}}}`; err != nil || string(spec) != want {
		t.Errorf("%v\n%s", err, spec)
	}
	l = l.With(controlplane.FactorSidecarScope, "mesh")
	if got, err = desiredSidecars(l, ""); err != nil || len(got) != 1 || got[0].GetNamespace() != Namespace {
		t.Errorf("%v, %v", got, err)
	}
	l = l.With(controlplane.FactorSidecarScope, "namespace")
	l.Namespaces = nil
	if _, err = desiredSidecars(l, ""); err == nil {
		t.Error("no namespace")
	}
}

// ran returns the state that istiods report when they run with levers.
func ran(l mesh.Levers, n int) state {
	spec, _ := desiredDeployment(charted(), l)
	config, _ := desiredMeshConfig("defaultServiceExportTo: ['*']\n", l)
	active, _ := parseMeshConfig(config)
	for _, field := range exportFields { // it includes istiod's defaults
		if active[field] == nil {
			active[field] = []any{"*"}
		}
	}
	if policy, ok := active["outboundTrafficPolicy"].(map[string]any); !ok {
		active["outboundTrafficPolicy"] = map[string]any{"mode": "ALLOW_ANY"}
	} else if policy["mode"] == "REGISTRY_ONLY" {
		active["outboundTrafficPolicy"] = map[string]any{}
	}
	s := installed(spec, active, n)
	for i := range s.replicas {
		s.replicas[i].cache = "0B"
		s.replicas[i].metrics = []observe.Metric{{Name: metricGoMaxProcs, Value: 1}, {Name: metricGoMemLimit, Value: 9e8}}
	}
	return s
}

// proxyUnder returns a proxy and adds istiod's scope of it.
func proxyUnder(s state, l mesh.Levers, namespace string, scoped bool) mesh.ControlProxy {
	p := mesh.ControlProxy{ID: "sidecar~10.0.0.1~p." + namespace + "~d", Namespace: namespace, Labels: map[string]string{"app": "web"},
		Clusters: []string{"BlackHoleCluster", "outbound|80||web." + namespace + ".svc.cluster.local", "outbound|443||example.org"}}
	text := `{"name":"default-sidecar","namespace":"` + namespace + `"}`
	if scoped {
		hosts, _ := json.Marshal(l.Hosts())
		mode := ""
		if l.Level(controlplane.FactorOutboundPolicy) != "REGISTRY_ONLY" {
			mode = `"mode":"` + l.Level(controlplane.FactorOutboundPolicy) + `"`
		}
		text = `{"name":"default","namespace":"` + namespace + `","outboundTrafficPolicy":{` + mode + `},"sidecar":{"egress":[{"hosts":` + string(hosts) + `}]}}`
	}
	var has activeSidecar
	if err := json.Unmarshal([]byte(text), &has); err != nil {
		panic(err)
	}
	s.scopes[p.ID] = proxyScope{activeSidecar: has}
	return p
}

// Levels that were set are verified.
func TestJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLevers(t)
		n := 1
		if l.Level(controlplane.FactorIstiodReplicas) == "3" {
			n = 3
		}
		s := ran(l, n)
		scope := l.Level(controlplane.FactorSidecarScope)
		ours := sidecarsOfOurs(l)
		e := mesh.ControlEvidence{Proxies: []mesh.ControlProxy{proxyUnder(s, l, "a", ours), proxyUnder(s, l, "c", scope == "mesh")}}
		if bad := failed(judge(s, l, e)); bad != nil {
			t.Fatalf("%+v fails %v", l, bad)
		}
	})
}

// A single error in the evidence fails the corresponding check.
func TestJudgeChecksEveryPoint(t *testing.T) {
	type change = func(*state, *mesh.ControlEvidence)
	rises := func(r map[string]float64) change { return func(_ *state, e *mesh.ControlEvidence) { e.Rises = r } }
	args := func(list ...string) change {
		return func(s *state, _ *mesh.ControlEvidence) { s.pods[0].Spec.Containers[0].Args = list }
	}
	inForce := func(requests corev1.ResourceList) change {
		return func(s *state, _ *mesh.ControlEvidence) {
			s.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: istiodContainer, Resources: &corev1.ResourceRequirements{Requests: requests}}}
		}
	}
	scoped := record.Cell{"sidecar_scope": "mesh", "outbound_policy": "REGISTRY_ONLY"}
	for _, tt := range []struct {
		name   string
		cell   record.Cell
		change change
		fails  string
	}{
		{"nothing", nil, func(*state, *mesh.ControlEvidence) {}, ""},
		{"nothing, scoped", scoped, func(*state, *mesh.ControlEvidence) {}, ""},
		{"a variable is missing", record.Cell{"xds_cache": "true"}, func(s *state, _ *mesh.ControlEvidence) { delete(s.replicas[0].env, "PILOT_ENABLE_XDS_CACHE") }, "env " + "PILOT_ENABLE_XDS_CACHE"},
		{"a variable too many", record.Cell{"push_throttle": "default"}, func(s *state, _ *mesh.ControlEvidence) { s.replicas[0].env["PILOT_PUSH_THROTTLE"] = "3" }, "env " + "PILOT_PUSH_THROTTLE"},
		{"a pod made otherwise", record.Cell{"connection_age": "45s"}, args("--keepaliveMaxServerConnectionAge=30m"), "flag keepaliveMaxServerConnectionAge"},
		{"a flag too many", record.Cell{"connection_age": "none"}, args("--keepaliveMaxServerConnectionAge=30m"), "flag keepaliveMaxServerConnectionAge"},
		{"spelled otherwise", record.Cell{"connection_age": "1m30s"}, args("--keepaliveMaxServerConnectionAge=90s"), ""},
		{"istiod says nothing", nil, func(s *state, _ *mesh.ControlEvidence) { s.replicas[0].err = errs.Usage("refused") }, "istiod"},
		{"one pod not ready", nil, func(s *state, _ *mesh.ControlEvidence) { s.pods = append(s.pods, s.pods[0]) }, "istiod-replicas"},
		{"Go takes more processors", record.Cell{"istiod_cpu": "1"}, func(s *state, _ *mesh.ControlEvidence) { s.replicas[0].metrics[0].Value = 2 }, "istiod-cpu"},
		{"Go takes more memory", record.Cell{"istiod_memory": "1Gi"}, func(s *state, _ *mesh.ControlEvidence) { s.replicas[0].metrics[1].Value = 2e9 }, "istiod-memory"},
		{"the kubelet has not set the limit", record.Cell{"istiod_cpu": "1"}, inForce(nil), "istiod-cpu"},
		{"a cache that is off holds something", record.Cell{"xds_cache": "false"}, func(s *state, _ *mesh.ControlEvidence) { s.replicas[0].cache = "4kB" }, "xds-cache"},
		{"a cache that is on", record.Cell{"xds_cache": "true"}, func(s *state, _ *mesh.ControlEvidence) { s.replicas[0].cache = "4kB" }, ""},
		{"a cache that is on holds nothing", record.Cell{"xds_cache": "true"}, rises(map[string]float64{`pilot_xds_pushes{type="cds"}`: 3}), "xds-cache"},
		{"a cache that is on holds what was pushed", record.Cell{"xds_cache": "true"}, func(s *state, e *mesh.ControlEvidence) {
			s.replicas[0].cache, e.Rises = "4kB", map[string]float64{`pilot_xds_pushes{type="cds"}`: 3}
		}, ""},
		{"parts of the cache are off", record.Cell{"xds_cache": "true", "istiod_env": "PILOT_ENABLE_CDS_CACHE=false"}, rises(map[string]float64{`pilot_xds_pushes{type="cds"}`: 3}), ""},
		{"endpoints not debounced", record.Cell{"eds_debounce": "true"}, rises(map[string]float64{`pilot_push_triggers{type="endpoint"}`: 3}), "eds-debounce"},
		{"endpoints debounced", record.Cell{"eds_debounce": "true"}, rises(map[string]float64{`pilot_push_triggers{type="endpoint"}`: 3, "pilot_debounce_time_count": 2, "pilot_debounce_time_sum": 0.25}), ""},
		{"endpoints debounced though not to be", record.Cell{"eds_debounce": "false"}, rises(map[string]float64{`pilot_push_triggers{type="endpoint"}`: 3, "pilot_debounce_time_count": 2, "pilot_debounce_time_sum": 0.25}), "eds-debounce"},
		{"something else debounced", record.Cell{"eds_debounce": "false"}, rises(map[string]float64{`pilot_push_triggers{type="endpoint"}`: 3, `pilot_push_triggers{type="config"}`: 1, "pilot_debounce_time_count": 1, "pilot_debounce_time_sum": 0.25}), ""},
		{"another request in force", record.Cell{"istiod_cpu_request": "1", "istiod_memory_request": "1Gi"}, inForce(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}), "istiod-cpu"},
		{"the requests in force", record.Cell{"istiod_cpu_request": "1", "istiod_memory_request": "1Gi"}, inForce(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("1024Mi")}), ""},
		{"delta off in istiod", record.Cell{"delta": "true"}, func(s *state, _ *mesh.ControlEvidence) {
			s.replicas[0].mesh["defaultConfig"].(map[string]any)["proxyMetadata"].(map[string]any)["ISTIO_DELTA_XDS"] = "false"
		}, "mesh delta"},
		{"selectors in istiod", record.Cell{"discovery_selectors": "none"}, func(s *state, _ *mesh.ControlEvidence) {
			s.replicas[0].mesh["discoverySelectors"] = []any{map[string]any{}}
		}, "mesh discovery_selectors"},
		{"pushed too soon", record.Cell{"debounce_after": "100ms"}, rises(map[string]float64{"pilot_debounce_time_count": 2, "pilot_debounce_time_sum": 0.15}), "debounce"},
		{"pushed late enough", record.Cell{"debounce_after": "100ms"}, rises(map[string]float64{"pilot_debounce_time_count": 2, "pilot_debounce_time_sum": 0.25}), ""},
		{"no proxy to look at", scoped, func(_ *state, e *mesh.ControlEvidence) { e.Proxies = nil }, "sidecar-scope"},
		{"only a gateway to look at", scoped, func(_ *state, e *mesh.ControlEvidence) { e.Proxies[0].Gateway = true }, "sidecar-scope"},
		{"the proxy is not connected", record.Cell{"sidecar_scope": "none"}, func(s *state, e *mesh.ControlEvidence) {
			s.scopes[e.Proxies[0].ID] = proxyScope{err: errs.Usage("404")}
		}, "sidecar-scope"},
		{"clusters of another namespace", scoped, func(_ *state, e *mesh.ControlEvidence) {
			e.Proxies[0].Clusters = append(e.Proxies[0].Clusters, "outbound|80|v1|web.other.svc.cluster.local")
		}, "sidecar-scope"},
		{"clusters of all, no scope", nil, func(_ *state, e *mesh.ControlEvidence) {
			e.Proxies[0].Clusters = append(e.Proxies[0].Clusters, "outbound|80|v1|web.other.svc.cluster.local")
		}, ""},
		{"pushed too soon for what nobody asked", nil, func(s *state, e *mesh.ControlEvidence) {
			e.Rises = map[string]float64{"pilot_debounce_time_count": 2, "pilot_debounce_time_sum": 0.02, `pilot_push_triggers{type="endpoint"}`: 3}
			s.replicas[0].env["PILOT_PUSH_THROTTLE"], s.replicas[0].cache = "3", "4kB"
			s.replicas[0].mesh["discoverySelectors"] = []any{map[string]any{}}
			s.scopes[e.Proxies[0].ID] = proxyScope{err: errs.Usage("404")}
		}, ""},
		{"istiods of two images", nil, func(s *state, _ *mesh.ControlEvidence) {
			other := *s.pods[0].DeepCopy()
			containerOf(&other.Spec).Image = "hub/pilot:2"
			s.pods, s.replicas = append(s.pods, other), append(s.replicas, s.replicas[0])
		}, "istiod-image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := mesh.LeversOf(tt.cell)
			s := ran(l, 1)
			e := mesh.ControlEvidence{Proxies: []mesh.ControlProxy{proxyUnder(s, l, "a", l.Level(controlplane.FactorSidecarScope) == "mesh")}}
			tt.change(&s, &e)
			if bad := strings.Join(failed(judge(s, l, e)), " "); bad != tt.fails {
				t.Errorf("fails %q, want %q", bad, tt.fails)
			}
		})
	}
}
