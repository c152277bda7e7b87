package istio

import (
	"maps"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	admission "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChooseRevision(t *testing.T) {
	istiod := func(revision string) appsv1.Deployment {
		name, labels := "istiod-"+revision, map[string]string{revisionLabel: revision}
		switch revision {
		case "":
			name, labels = "istiod", nil
		case defaultRevision:
			name = "istiod"
		}
		return appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	for _, tt := range []struct {
		name, there, asked, want, config, err, hint string
	}{
		{name: "the only one", there: "default", want: "istiod", config: "istio"},
		{name: "the only one, of a revision", there: "canary", want: "istiod-canary", config: "istio-canary"},
		{name: "one without a label", there: "-", asked: "default", want: "istiod", config: "istio"},
		{name: "one of several", there: "stable,canary", asked: "canary", want: "istiod-canary", config: "istio-canary"},
		{name: "the default one of several", there: "canary,default", asked: "default", want: "istiod", config: "istio"},
		{name: "several", there: "stable,canary", err: "several istiods, of the revisions canary, stable", hint: "--revision"},
		{name: "another", there: "stable,canary", asked: "old", err: "no istiod of revision old", hint: "canary, stable"},
		{name: "none", there: "", err: "there is no istiod", hint: "meshtrial lab up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var found []appsv1.Deployment
			for _, revision := range strings.FieldsFunc(tt.there, func(r rune) bool { return r == ',' }) {
				found = append(found, istiod(strings.Trim(revision, "-")))
			}
			d, err := chooseRevision(found, tt.asked)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(errs.Hint(err), tt.hint) {
					t.Fatalf("%v, hint %q", err, errs.Hint(err))
				}
				return
			}
			if err != nil || d.Name != tt.want || configMapOf(d) != tt.config {
				t.Errorf("%v, %v", d, err)
			}
		})
	}
}

// A revision is found by a tag too, and what is neither is refused with what there is.
func TestFindIstiodByTag(t *testing.T) {
	tag := func(name, revision string) *admission.MutatingWebhookConfiguration {
		return &admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "istio-revision-tag-" + name,
			Labels: map[string]string{"app": "sidecar-injector", "istio.io/tag": name, revisionLabel: revision}}}
	}
	istiod := func(revision string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod-" + revision,
			Labels: map[string]string{"app": "istiod", revisionLabel: revision}}}
	}
	kube := fakecluster.New(istiod("1-30"), istiod("1-31"), tag("prod", "1-31"), tag("gone", "1-29"))
	for asked, want := range map[string]string{"prod": "istiod-1-31", "1-30": "istiod-1-30", "old": "no istiod of revision old", "gone": "no istiod of revision 1-29"} {
		d, err := findIstiod(t.Context(), kube, asked)
		switch {
		case strings.HasPrefix(want, "no ") && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(errs.Hint(err), "1-30, 1-31")):
			t.Errorf("%s: %v, hint %q", asked, err, errs.Hint(err))
		case !strings.HasPrefix(want, "no ") && (err != nil || d.Name != want):
			t.Errorf("%s: %v, %v", asked, d, err)
		}
	}
}

// The mesh's configuration is that of the only istiod, or of the revision that is named.
func TestConfigMapOf(t *testing.T) {
	istiod := func(revision string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod-" + revision,
			Labels: map[string]string{"app": "istiod", revisionLabel: revision}}}
	}
	for _, c := range []struct {
		has         []string
		asked, want string
		code        int
	}{
		{[]string{"default"}, "", "istio", 0},
		{[]string{"canary"}, "", "istio-canary", 0},
		{[]string{"canary", "default"}, "canary", "istio-canary", 0},
		{[]string{"canary", "default"}, "default", "istio", 0},
		{[]string{"canary", "default"}, "", "", errs.CodeUsage},
		{[]string{"canary"}, "stable", "", errs.CodeUsage},
		{nil, "", "", errs.CodeFailure},
	} {
		kube := fakecluster.New()
		for _, revision := range c.has {
			if _, err := kube.AppsV1().Deployments(Namespace).Create(t.Context(), istiod(revision), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := (&Mesh{}).ConfigMap(t.Context(), kube, c.asked); err == nil && got != c.want || errs.Code(err) != c.code {
			t.Errorf("%q of %v: %q, %v", c.asked, c.has, got, err)
		}
	}
}

// An istiod without the label of a revision is taken where it is the only one: beside
// others its pods could not be told from theirs, which steps would end too.
func TestIstiodWithoutRevision(t *testing.T) {
	istiod := func(name string, labels map[string]string) *appsv1.Deployment {
		labels["app"] = "istiod"
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: labels}}
	}
	bare, canary := istiod("istiod", map[string]string{}), istiod("istiod-canary", map[string]string{revisionLabel: "canary"})
	tag := &admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "istio-revision-tag-default",
		Labels: map[string]string{"app": "sidecar-injector", "istio.io/tag": defaultRevision, revisionLabel: "canary"}}}
	for _, asked := range []string{"", defaultRevision} {
		if d, err := findIstiod(t.Context(), fakecluster.New(bare), asked); err != nil || d.Name != "istiod" {
			t.Errorf("the only one, by %q: %v, %v", asked, d, err)
		}
	}
	kube := fakecluster.New(bare, canary, tag)
	if d, err := findIstiod(t.Context(), kube, defaultRevision); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "istio-system/istiod has no label istio.io/rev") || !strings.Contains(errs.Hint(err), "istio.io/rev=default") {
		t.Errorf("beside another: %v, %v", d, err)
	}
	if d, err := findIstiod(t.Context(), kube, "canary"); err != nil || d.Name != "istiod-canary" {
		t.Errorf("the other: %v, %v", d, err)
	}
}

// A pod says whose sidecar it gets, where that is not the default revision's.
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
		if err := m.Decorate(mesh.Workload{Name: "w", Proxy: tt.proxy}, &pod); err != nil {
			t.Fatal(err)
		}
		if _, selector := m.ControlPlane(); !maps.Equal(pod.Labels, tt.want) || selector != tt.selector {
			t.Errorf("%+v: labels %v, selector %s", tt.revision, pod.Labels, selector)
		}
	}
}

// The Sidecar of a lever holds for the revision under test alone.
func TestSidecarsOfRevision(t *testing.T) {
	l := mesh.LeversOf(record.Cell{"sidecar_scope": "mesh", "sidecar_hosts": "./*"})
	for revision, want := range map[string]string{"canary": "canary", "default": "", "": ""} {
		out, err := (&ControlPlane{revision: revision}).desiredSidecars(l)
		if err != nil || len(out) != 1 || out[0].GetLabels()[revisionLabel] != want || out[0].GetLabels()[leverLabel] == "" {
			t.Errorf("%q: %v, %v", revision, out, err)
		}
	}
}
