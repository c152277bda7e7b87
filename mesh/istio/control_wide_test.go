package istio

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The plan describes what levers do to the proxies of others, including the hosts that a
// mesh-wide Sidecar leaves. It omits what does not affect them.
func TestPlanSaysWhatIsMeshWide(t *testing.T) {
	const sidecar, config, deployment = "Sidecar istio-system/default", "ConfigMap istio-system/istio", "Deployment istio-system/istiod"
	for name, tt := range map[string]struct {
		config string // as installed
		cells  []record.Cell
		want   map[string]string // by object: the combined description
	}{
		"nothing of the kind": {"", []record.Cell{{"debounce_after": "10ms", "sidecar_scope": "namespace"}}, nil},
		"a Sidecar":           {"", []record.Cell{{"sidecar_scope": "mesh"}}, map[string]string{sidecar: "sidecar_scope mesh: proxies without a Sidecar in their own namespace know only the Services of ./*, istio-system/*"}},
		"two, once each": {"", []record.Cell{{"sidecar_scope": "mesh", "sidecar_hosts": "a/*"}, {"sidecar_scope": "mesh", "sidecar_hosts": "b/*", "outbound_policy": "REGISTRY_ONLY"}, {"sidecar_scope": "mesh", "sidecar_hosts": "a/*"}},
			map[string]string{sidecar: "Services of a/*|Services of b/*; outbound_policy REGISTRY_ONLY applies to their requests to other hosts"}},
		"exports":               {"", []record.Cell{{"export_to": "."}, {"export_to": "*"}}, map[string]string{config: "export_to .: Services, VirtualServices and DestinationRules without exportTo are visible only in their own namespaces"}},
		"exports, as before":    {"defaultServiceExportTo: ['.']\ndefaultVirtualServiceExportTo: ['.']\ndefaultDestinationRuleExportTo: ['.']\n", []record.Cell{{"export_to": "."}}, nil},
		"exports, widened":      {"defaultServiceExportTo: ['.']\n", []record.Cell{{"export_to": "*"}}, map[string]string{config: "export_to *"}},
		"a policy":              {"", []record.Cell{{"outbound_policy": "REGISTRY_ONLY"}}, map[string]string{config: "requests to hosts unknown to the mesh fail"}},
		"a policy, as usual":    {"", []record.Cell{{"outbound_policy": "ALLOW_ANY"}}, nil},
		"a policy, opened":      {"outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n", []record.Cell{{"outbound_policy": "ALLOW_ANY"}}, map[string]string{config: "are passed through"}},
		"selectors":             {"", []record.Cell{{"discovery_selectors": "a=b"}}, map[string]string{config: "discovery_selectors a=b: proxies lose"}},
		"DNS capture":           {"", []record.Cell{{"dns_capture": "true", "delta": "true"}}, map[string]string{config: "dns_capture true: any pod injected meanwhile gets this setting, and keeps it until it is recreated"}},
		"both, told off":        {"defaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true'}}\n", []record.Cell{{"dns_capture": "false", "delta": "false"}}, map[string]string{config: "dns_capture false|delta false"}},
		"DNS capture, as it is": {"defaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'TRUE'}}\n", []record.Cell{{"dns_capture": "true"}, {"dns_capture": "installed"}}, nil},
		"DNS, as usual":         {"", []record.Cell{{"dns_capture": "false"}}, nil},
		"a younger age":         {"", []record.Cell{{"connection_age": "1m"}, {"connection_age": "20s"}}, map[string]string{deployment: "connection_age 1m: istiod closes every proxy's connection at that age|connection_age 20s"}},
		"an older age, or any":  {"", []record.Cell{{"connection_age": "1h"}, {"connection_age": "none"}, {"connection_age": "30m"}}, nil},
		"a lower limit":         {"", []record.Cell{{"request_limit": "10"}, {"request_limit": "99"}}, map[string]string{deployment: "request_limit 10: istiod may reject proxies|request_limit 99"}},
		"a higher limit":        {"", []record.Cell{{"request_limit": "1000"}, {"request_limit": "100"}, {"request_limit": "default"}}, nil},
		"fewer replicas":        {"", []record.Cell{{"istiod_replicas": "1"}, {"istiod_replicas": "3"}, {"istiod_replicas": "5"}}, map[string]string{deployment: "istiod_replicas 1: all proxies connect to these; 3 are installed"}},
		"less CPU":              {"", []record.Cell{{"istiod_cpu": "1"}, {"istiod_cpu": "4"}, {"istiod_cpu": "8"}, {"istiod_cpu": "none"}}, map[string]string{deployment: "istiod_cpu 1: istiod serves all proxies with no more CPU than that; 4 is installed"}},
		"a limit of memory":     {"", []record.Cell{{"istiod_memory": "3Gi"}, {"istiod_memory": "none"}, {"istiod_memory_request": "1Gi"}}, map[string]string{deployment: "istiod_memory 3Gi: istiod is killed if serving all proxies takes more; no limit is installed"}},
		"another image":         {"", []record.Cell{{"istiod": "other/pilot:1", "istiod_replicas": "5"}, {"istiod": "hub/pilot:1.31.0"}}, map[string]string{deployment: "istiod other/pilot:1: an istiod other than the installed one"}},
		"a lower throttle":      {"", []record.Cell{{"push_throttle": "1"}, {"push_throttle": "50"}, {"push_throttle": "100"}, {"push_throttle": "default"}}, map[string]string{deployment: "push_throttle 1: istiod may push to fewer proxies|push_throttle default: istiod may push"}},
		"longer debouncing":     {"", []record.Cell{{"debounce_after": "1s"}, {"debounce_after": "100ms", "debounce_max": "10s"}, {"debounce_after": "1s", "debounce_max": "20s"}}, map[string]string{deployment: "debounce_after 1s: istiod may debounce changes for longer|debounce_max 20s: istiod may debounce changes for longer"}},
		"as istiod has it":      {"", []record.Cell{{"debounce_after": "100ms", "debounce_max": "10s", "eds_debounce": "true"}, {"debounce_max": "1s", "eds_debounce": "false"}}, nil},
		"ambient mode":          {"", []record.Cell{{"istiod_env": "PILOT_ENABLE_AMBIENT=true"}}, map[string]string{deployment: "istiod_env PILOT_ENABLE_AMBIENT=true: sidecars that use HBONE also receive"}},
		"no ambient, as it is":  {"", []record.Cell{{"istiod_env": "PILOT_ENABLE_AMBIENT=false;GOGC=100"}}, nil},
		"selectors, none":       {"discoverySelectors: [{matchLabels: {a: b}}]\n", []record.Cell{{"discovery_selectors": "none"}}, map[string]string{config: "the configuration of all namespaces"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, three := charted(), int32(3)
			spec.Replicas = &three
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod", Labels: map[string]string{"app": "istiod"}}, Spec: spec}
			c := &ControlPlane{name: "istiod", config: meshConfigMap, kube: fakecluster.New(d,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: meshConfigMap}, Data: map[string]string{meshConfigKey: tt.config}})}
			var all []mesh.Levers
			for _, cell := range tt.cells {
				l := mesh.LeversOf(cell)
				l.Namespaces = []string{"mm-1"}
				all = append(all, l)
			}
			plan, err := c.Plan(t.Context(), all)
			must.OK(t, err)
			for object, want := range tt.want {
				i := slices.IndexFunc(plan, func(p journal.Planned) bool { return p.Object == object })
				if i < 0 {
					t.Fatalf("%s is not planned: %v", object, plan)
				}
				texts := strings.Split(want, "|")
				if len(plan[i].Wide) != len(texts) {
					t.Fatalf("%q", plan[i].Wide)
				}
				for k, text := range texts {
					if !strings.Contains(plan[i].Wide[k], text) {
						t.Errorf("%q lacks %q", plan[i].Wide[k], text)
					}
				}
				if said := journal.Text(plan); !strings.Contains(said, "mesh-wide, by "+plan[i].Wide[0]) {
					t.Errorf("not said:\n%s", said)
				}
			}
			for _, p := range plan {
				if len(p.Wide) > 0 && tt.want[p.Object] == "" {
					t.Errorf("%s: %q", p.Object, p.Wide)
				}
			}
		})
	}
}

// Whether istiod waits longer is judged by the installed value if it differs from istiod's
// default.
func TestLongerDebouncingThanInstalled(t *testing.T) {
	as := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	for name, tt := range map[string]struct {
		installed corev1.EnvVar
		levels    record.Cell
		want      string // "" for none
	}{
		"as long":              {as("PILOT_DEBOUNCE_AFTER", "1000ms"), record.Cell{"debounce_after": "1s"}, ""},
		"shorter":              {as("PILOT_DEBOUNCE_MAX", "1m"), record.Cell{"debounce_max": "30s"}, ""},
		"longer":               {as("PILOT_DEBOUNCE_AFTER", "10ms"), record.Cell{"debounce_after": "100ms"}, "debounce_after 100ms: "},
		"nobody knows":         {corev1.EnvVar{Name: "PILOT_DEBOUNCE_MAX", ValueFrom: &corev1.EnvVarSource{}}, record.Cell{"debounce_max": "1s"}, "debounce_max 1s: "},
		"not named":            {as("PILOT_DEBOUNCE_AFTER", "10ms"), record.Cell{"debounce_after": study.LevelInstalled}, ""},
		"endpoints":            {as("PILOT_ENABLE_EDS_DEBOUNCE", "0"), record.Cell{"eds_debounce": "true"}, "eds_debounce true: "},
		"endpoints, as before": {as("PILOT_ENABLE_EDS_DEBOUNCE", "TRUE"), record.Cell{"eds_debounce": "true"}, ""},
		"endpoints, at once":   {as("PILOT_ENABLE_EDS_DEBOUNCE", "false"), record.Cell{"eds_debounce": "false"}, ""},
	} {
		spec := charted()
		container := containerOf(&spec.Template.Spec)
		container.Env = append(container.Env, tt.installed)
		got := wideDeployment(&spec, mesh.LeversOf(tt.levels))
		if len(got) > 1 || tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], tt.want)) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An autoscaler that is pinned below its maximum adds no istiod for others, however many are
// installed.
func TestHeldAutoscalerIsMeshWide(t *testing.T) {
	spec, two := charted(), int32(2)
	spec.Replicas = &two
	c := &ControlPlane{name: "istiod", config: meshConfigMap, kube: fakecluster.New(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod", Labels: map[string]string{"app": "istiod"}}, Spec: spec},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: meshConfigMap}},
		&autoscaling.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod"}, Spec: autoscaling.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscaling.CrossVersionObjectReference{Kind: "Deployment", Name: "istiod"}, MinReplicas: &two, MaxReplicas: 5}})}
	for level, want := range map[string]string{"2": "istiod_replicas 2: the autoscaler (up to 5 replicas) is held", "4": "istiod_replicas 4: the autoscaler", "5": "", "8": "", study.LevelInstalled: ""} {
		plan, err := c.Plan(t.Context(), []mesh.Levers{mesh.LeversOf(record.Cell{"istiod_replicas": level})})
		must.OK(t, err)
		var got []string
		for _, p := range plan {
			got = append(got, p.Wide...)
		}
		if len(got) > 1 || want == "" && len(got) > 0 || want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s: %q in %+v", level, got, plan)
		}
	}
}
