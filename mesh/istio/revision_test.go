package istio

import (
	"maps"
	"testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
	admission "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// istiodOf returns a revision's istiod as its chart creates it; "" is one without the label.
func istiodOf(revision string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod", Labels: map[string]string{"app": "istiod"}}}
	if revision != "" {
		d.Labels[revisionLabel] = revision
		if revision != defaultRevision {
			d.Name += "-" + revision
		}
	}
	return d
}

func tagOf(name, revision string) *admission.MutatingWebhookConfiguration {
	return &admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "istio-revision-tag-" + name,
		Labels: map[string]string{"app": "sidecar-injector", "istio.io/tag": name, revisionLabel: revision}}}
}

// A revision is found by its name or a tag. Anything else is rejected with a list of the
// revisions. An istiod without a revision label is accepted only if it is the only one: next to
// others its pods would be indistinguishable from theirs, which steps would also end.
func TestFindIstiod(t *testing.T) {
	for _, tt := range []struct {
		name      string
		there     []string // "" is an istiod without a label
		tags      map[string]string
		asked     string
		want      string // its name
		config    string
		err, hint string
	}{
		{name: "the only one", there: []string{"default"}, want: "istiod", config: "istio"},
		{name: "the only one, of a revision", there: []string{"canary"}, want: "istiod-canary", config: "istio-canary"},
		{name: "one without a label", there: []string{""}, want: "istiod", config: "istio"},
		{name: "one without a label, by name", there: []string{""}, asked: "default", want: "istiod", config: "istio"},
		{name: "one of several", there: []string{"stable", "canary"}, asked: "canary", want: "istiod-canary", config: "istio-canary"},
		{name: "the default one of several", there: []string{"canary", "default"}, asked: "default", want: "istiod", config: "istio"},
		{name: "beside one without a label", there: []string{"", "canary"}, asked: "canary", want: "istiod-canary", config: "istio-canary"},
		{name: "by a tag", there: []string{"1-30", "1-31"}, tags: map[string]string{"prod": "1-31"}, asked: "prod", want: "istiod-1-31", config: "istio-1-31"},
		{name: "several", there: []string{"stable", "canary"}, err: "several istiods, of revisions canary, stable", hint: "--revision"},
		{name: "another", there: []string{"stable", "canary"}, asked: "old", err: "no istiod of revision old", hint: "canary, stable"},
		{name: "by a tag of one that has gone", there: []string{"1-30", "1-31"}, tags: map[string]string{"gone": "1-29"}, asked: "gone", err: "no istiod of revision 1-29", hint: "1-30, 1-31"},
		{name: "none", err: "no istiod", hint: "meshtrial lab up"},
		{name: "without a label, beside another", there: []string{"", "canary"}, tags: map[string]string{"default": "canary"}, asked: "default", err: "istio-system/istiod is one of several istiods but has no label istio.io/rev", hint: "istio.io/rev=default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kube := fakecluster.New()
			for _, revision := range tt.there {
				must.OK(t, kube.Tracker().Add(istiodOf(revision)))
			}
			for name, revision := range tt.tags {
				must.OK(t, kube.Tracker().Add(tagOf(name, revision)))
			}
			d, err := findIstiod(t.Context(), kube, tt.asked)
			if tells(t, tt.name, err, tt.err, tt.hint); err != nil {
				return
			}
			if d.Name != tt.want || configMapOf(d) != tt.config {
				t.Errorf("%v, %v", d, err)
			}
			if tt.tags == nil {
				if got, err := (&Mesh{}).ConfigMap(t.Context(), kube, tt.asked); err != nil || got != tt.config {
					t.Errorf("its ConfigMap is %q, %v", got, err)
				}
			}
		})
	}
}

// A pod's labels select its sidecar's revision unless that is the default.
func TestDecorateForRevision(t *testing.T) {
	levels := record.Cell{"concurrency": "2", "telemetry": "off", "mtls": "strict"}
	for _, tt := range []struct {
		revision Revision
		proxy    *mesh.Proxy
		want     map[string]string
		selector string
	}{
		{Revision{}, &mesh.Proxy{Levels: levels}, map[string]string{"sidecar.istio.io/inject": "true"}, "app=istiod"},
		{Revision{Name: "default", Deployment: "istiod"}, &mesh.Proxy{Levels: levels}, map[string]string{"sidecar.istio.io/inject": "true"}, "app=istiod,istio.io/rev=default"},
		{Revision{Name: "canary", Deployment: "istiod-canary"}, &mesh.Proxy{Levels: levels}, map[string]string{"sidecar.istio.io/inject": "true", "istio.io/rev": "canary"}, "app=istiod,istio.io/rev=canary"},
		{Revision{Name: "canary", Deployment: "istiod-canary"}, nil, map[string]string{"sidecar.istio.io/inject": "false", "istio.io/dataplane-mode": "none"}, "app=istiod,istio.io/rev=canary"},
	} {
		m := &Mesh{Revision: tt.revision}
		var pod corev1.PodTemplateSpec
		must.OK(t, m.Decorate(mesh.Workload{Name: "w", Proxy: tt.proxy}, &pod))
		if _, selector := m.ControlPlane(); !maps.Equal(pod.Labels, tt.want) || selector != tt.selector {
			t.Errorf("%+v: labels %v, selector %s", tt.revision, pod.Labels, selector)
		}
	}
}

// A lever's Sidecar applies only to the revision under test.
func TestSidecarsOfRevision(t *testing.T) {
	l := mesh.LeversOf(record.Cell{"sidecar_scope": "mesh", "sidecar_hosts": "./*"})
	for revision, want := range map[string]string{"canary": "canary", "default": "", "": ""} {
		out, err := desiredSidecars(l, revision)
		if err != nil || len(out) != 1 || out[0].GetLabels()[revisionLabel] != want || out[0].GetLabels()[leverLabel] == "" {
			t.Errorf("%q: %v, %v", revision, out, err)
		}
	}
}
