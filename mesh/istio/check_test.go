package istio

import (
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// installation is an Istio installation in a cluster.
type installation struct {
	images    []string // of istiod's Deployments
	available int32    // replicas of each
	webhook   bool
	config    string // MeshConfig; "" for no ConfigMap
}

// objects returns the objects that Check reads.
func (i installation) objects() []runtime.Object {
	out := []runtime.Object{}
	for _, image := range i.images {
		out = append(out, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod", Labels: map[string]string{"app": "istiod"}},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "logger", Image: "other:1"}, {Name: "discovery", Image: image}}}}},
			Status: appsv1.DeploymentStatus{AvailableReplicas: i.available}})
	}
	if i.webhook {
		out = append(out, &admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "any", Labels: map[string]string{"app": "sidecar-injector"}},
			Webhooks: []admission.MutatingWebhook{{Name: "any"}}})
	}
	if i.config != "" {
		out = append(out, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: meshConfigMap}, Data: map[string]string{meshConfigKey: i.config}})
	}
	return out
}

func TestCheck(t *testing.T) {
	const config = "defaultProviders:\n  metrics: [prometheus]\nextensionProviders:\n- name: meshtrial-json\n"
	sidecar := []mesh.Proxy{{Levels: record.Cell{"telemetry": "off"}}}
	for _, tt := range []struct {
		name      string
		has       installation
		proxies   []mesh.Proxy
		err, hint string
		metrics   string
	}{
		{name: "all is there", has: installation{[]string{"hub/pilot:1.31.0"}, 1, true, config}, proxies: []mesh.Proxy{{Levels: record.Cell{"telemetry": "access-log-json"}}}, metrics: "prometheus"},
		{name: "no metrics by default", has: installation{[]string{"hub/pilot:1.31.0"}, 2, true, "extensionProviders: []\n"}, proxies: sidecar},
		{name: "a revision has no such ConfigMap", has: installation{[]string{"hub/pilot:1.31.0"}, 1, true, ""}, proxies: sidecar},
		{name: "without sidecars the injector does not matter", has: installation{[]string{"hub/pilot:1.31.0"}, 1, false, config}, metrics: "prometheus"},
		{name: "no istiod", has: installation{nil, 0, true, config}, proxies: sidecar, err: "no istiod in namespace istio-system", hint: "meshtrial lab up"},
		{name: "istiod does not run", has: installation{[]string{"hub/pilot:1.31.0"}, 0, true, config}, proxies: sidecar, err: "no available replica", hint: "kubectl -n istio-system describe"},
		{name: "no injector", has: installation{[]string{"hub/pilot:1.31.0"}, 1, false, config}, proxies: sidecar, err: "no sidecar injector matches pods", hint: "kubectl get mutatingwebhookconfigurations"},
		{name: "no provider", has: installation{[]string{"hub/pilot:1.31.0"}, 1, true, "{}"}, proxies: []mesh.Proxy{{Levels: record.Cell{"telemetry": "access-log-json"}}}, err: "access log provider", hint: "meshConfig.extensionProviders"},
		{name: "garbled configuration", has: installation{[]string{"hub/pilot:1.31.0"}, 1, true, "extensionProviders: {"}, proxies: sidecar, err: "ConfigMap istio-system/istio"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &Mesh{metricsProvider: "of an earlier check"}
			components, err := m.check(t.Context(), fakecluster.New(tt.has.objects()...), tt.proxies)
			if tells(t, tt.name, err, tt.err, tt.hint); err != nil {
				return
			}
			if len(components) != 1 || components[0].Name != "istiod" || components[0].Version != "1.31.0" || components[0].Source != "hub/pilot:1.31.0" {
				t.Errorf("components %+v", components)
			}
			if m.metricsProvider != tt.metrics {
				t.Errorf("metrics provider %q, want %q", m.metricsProvider, tt.metrics)
			}
		})
	}
}
