package istio

import (
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A mesh-wide Sidecar, and nothing else, is refused if istiod would not read it.
func TestRefuseScope(t *testing.T) {
	const shop, not = "discoverySelectors: [{matchLabels: {mesh: shop}}, {matchLabels: {mesh: market}}]", "discoverySelectors: [{matchExpressions: [{key: mesh, operator: NotIn, values: [out]}]}]"
	for name, tt := range map[string]struct {
		config string
		labels map[string]string
		cell   record.Cell
		err    string
	}{
		"watched whole":                {"", nil, record.Cell{"sidecar_scope": "mesh"}, ""},
		"left out":                     {shop, nil, record.Cell{"sidecar_scope": "mesh"}, "namespace istio-system, which istiod does not watch"},
		"labelled":                     {shop, map[string]string{"mesh": "market"}, record.Cell{"sidecar_scope": "mesh"}, ""},
		"labelled out":                 {not, map[string]string{"mesh": "out"}, record.Cell{"sidecar_scope": "mesh"}, "sidecar_scope mesh has no effect"},
		"not labelled out":             {not, nil, record.Cell{"sidecar_scope": "mesh"}, ""},
		"in its namespace":             {shop, nil, record.Cell{"sidecar_scope": "namespace"}, ""},
		"none":                         {shop, nil, record.Cell{"sidecar_scope": "none"}, ""},
		"another root namespace":       {"rootNamespace: mesh-root", nil, record.Cell{"sidecar_scope": "mesh"}, "the mesh's root namespace is mesh-root"},
		"another one, not mesh-wide":   {"rootNamespace: mesh-root", nil, record.Cell{"sidecar_scope": "namespace"}, ""},
		"not named":                    {shop, nil, record.Cell{"debounce_after": "1s"}, ""},
		"the study watches all":        {shop, nil, record.Cell{"sidecar_scope": "mesh", "discovery_selectors": "none"}, ""},
		"the study leaves it out":      {"", nil, record.Cell{"sidecar_scope": "mesh", "discovery_selectors": "a=b"}, `"matchLabels":{"a":"b"}`},
		"the study does not":           {shop, nil, record.Cell{"sidecar_scope": "mesh", "discovery_selectors": "a!=b"}, ""},
		"the study's labels are there": {"", map[string]string{"a": "b"}, record.Cell{"sidecar_scope": "mesh", "discovery_selectors": "a=b"}, ""},
	} {
		f := AsFound{labels: tt.labels}
		must.OK(t, yaml.Unmarshal([]byte(tt.config), &f.config))
		l := mesh.LeversOf(tt.cell)
		l.Namespaces = []string{"mm-1"}
		refuses(t, name, f.refuseLevers([]mesh.Levers{mesh.LeversOf(record.Cell{}), l}), tt.err, "use sidecar_scope namespace")
	}
}

// Another user's Sidecar conflicts if it would apply together with one of ours.
func TestRefuseOthersSidecars(t *testing.T) {
	sidecar := func(namespace, name string, selects bool) unstructured.Unstructured {
		o := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}}}
		if selects {
			o.Object["spec"] = map[string]any{"workloadSelector": map[string]any{"labels": map[string]any{"a": "b"}}}
		}
		return o
	}
	for name, tt := range map[string]struct {
		scope string
		other unstructured.Unstructured
		bad   bool
		root  string
	}{
		"mesh-wide":                    {"namespace", sidecar(Namespace, "theirs", false), true, ""},
		"mesh-wide, and none wanted":   {"none", sidecar(Namespace, "theirs", false), true, ""},
		"mesh-wide, of another root":   {"namespace", sidecar("mesh-root", "theirs", false), true, "mesh-root"},
		"of istiod's namespace alone":  {"namespace", sidecar(Namespace, "theirs", false), false, "mesh-root"},
		"of istiod's own namespace":    {"mesh", sidecar(Namespace, "theirs", true), false, ""},
		"of that namespace":            {"namespace", sidecar("mm-1", "theirs", false), true, ""},
		"of another namespace":         {"namespace", sidecar("shop", "theirs", false), false, ""},
		"of a workload there":          {"namespace", sidecar("mm-1", "theirs", true), false, ""},
		"of a workload, named as ours": {"namespace", sidecar("mm-1", sidecarName, true), true, ""},
	} {
		l := mesh.LeversOf(record.Cell{"sidecar_scope": tt.scope})
		l.Namespaces = []string{"mm-1"}
		err := AsFound{sidecars: []unstructured.Unstructured{tt.other}, config: meshConfig{RootNamespace: tt.root}}.refuseLever(l)
		if (err != nil) != tt.bad || err != nil && !strings.Contains(errs.Hint(err), "delete sidecar") {
			t.Errorf("%s: %v, hint %q", name, err, errs.Hint(err))
		}
	}
}

// A Sidecar that istiod does not read, because of another revision or a root
// namespace excluded by discoverySelectors, conflicts only by name, and does not
// count as installed.
func TestSidecarsThatAreNotRead(t *testing.T) {
	const shop = "discoverySelectors: [{matchLabels: {mesh: shop}}]"
	const theirs, canarys = "Sidecar metadata: {labels: {}}", "Sidecar metadata: {labels: {istio.io/rev: canary}}"
	for name, tt := range map[string]struct {
		sidecar, config string
		labels          map[string]string // of the root namespace
		revision        string
		cell            record.Cell
		err             string
		holds           bool // whether it counts as installed
	}{
		"read":                           {theirs, "", nil, "", record.Cell{"sidecar_scope": "namespace"}, "would apply in addition", true},
		"of another revision":            {canarys, "", nil, "", record.Cell{"sidecar_scope": "namespace"}, "", false},
		"of this revision":               {canarys, "", nil, "canary", record.Cell{"sidecar_scope": "namespace"}, "would apply in addition", true},
		"of another, named as ours":      {canarys, "", nil, "stable", record.Cell{"sidecar_scope": "mesh"}, "would be overwritten", false},
		"left out":                       {theirs, shop, nil, "", record.Cell{"sidecar_scope": "namespace"}, "", false},
		"not left out":                   {theirs, shop, map[string]string{"mesh": "shop"}, "", record.Cell{"sidecar_scope": "namespace"}, "would apply in addition", true},
		"left out, and let in by a cell": {theirs, shop, nil, "", record.Cell{"sidecar_scope": "namespace", "discovery_selectors": "none"}, "would apply in addition", false},
		"let in, and left out by a cell": {theirs, "", nil, "", record.Cell{"sidecar_scope": "namespace", "discovery_selectors": "a=b"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			found, client, _ := rootCluster(t, tt.config, tt.labels, Namespace)
			o := &unstructured.Unstructured{}
			must.OK(t, yaml.Unmarshal([]byte("{"+strings.TrimPrefix(tt.sidecar, "Sidecar ")+"}"), &o.Object))
			o.SetAPIVersion("networking.istio.io/v1")
			o.SetKind("Sidecar")
			o.SetNamespace(Namespace)
			o.SetName(sidecarName)
			must.OK(t, client.Tracker().Create(sidecarResource, o, Namespace))
			kube := fakecluster.New(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: tt.labels}})
			l := mesh.LeversOf(tt.cell)
			l.Namespaces = []string{"mm-1"}
			found.revision.Name = tt.revision
			must.OK(t, found.readForLevers(t.Context(), kube, client.Resource(sidecarResource), []mesh.Levers{l}))
			tells(t, name, found.refuseLever(l), tt.err, "")
			c := &ControlPlane{kube: kube, sidecars: client.Resource(sidecarResource), revision: tt.revision}
			if wide, err := c.meshWide(t.Context(), Namespace, found.config.DiscoverySelectors); err != nil || (wide != nil) != tt.holds {
				t.Errorf("as installed: %v, %v", wide, err)
			}
		})
	}
}

// Whether an injector matches a run's pods depends on its selectors.
func TestInjectedBy(t *testing.T) {
	for name, tt := range map[string]struct {
		revision       Revision
		label          string // of the webhook's configuration
		namespace, pod string // selectors of its only webhook
		takes          bool
	}{
		"all":                           {Revision{}, "", "", "", true},
		"by label":                      {Revision{}, "", "", "matchLabels: {sidecar.istio.io/inject: 'true'}", true},
		"labelled namespaces":           {Revision{}, "", "matchLabels: {istio-injection: enabled}", "", false},
		"labelled as selectors want":    {Revision{NamespaceLabels: map[string]string{"istio-injection": "enabled"}}, "", "matchLabels: {istio-injection: enabled}", "", true},
		"ours by their label":           {Revision{}, "", "matchLabels: {app.kubernetes.io/part-of: meshtrial}", "", true},
		"not of a namespace":            {Revision{}, "", "matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]", "", true},
		"of the revision":               {Revision{Name: "canary", Deployment: "istiod-canary"}, "canary", "", "matchLabels: {istio.io/rev: canary}", true},
		"of another":                    {Revision{Name: "canary", Deployment: "istiod-canary"}, "stable", "", "", false},
		"of the revision, switched off": {Revision{Name: "canary", Deployment: "istiod-canary"}, "canary", "matchLabels: {istio.io/deactivated: never-match}", "", false},
		"not to be read":                {Revision{}, "", "matchExpressions: [{key: a, operator: Roughly}]", "", false},
	} {
		var w admission.MutatingWebhook
		for text, selector := range map[string]**metav1.LabelSelector{tt.namespace: &w.NamespaceSelector, tt.pod: &w.ObjectSelector} {
			if text == "" {
				continue
			}
			*selector = &metav1.LabelSelector{}
			must.OK(t, yaml.Unmarshal([]byte(text), *selector))
		}
		hook := admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{revisionLabel: tt.label}}, Webhooks: []admission.MutatingWebhook{w}}
		if got := tt.revision.injectedBy(hook); got != tt.takes {
			t.Errorf("%s: %v", name, got)
		}
	}
}
