package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// Whatever was made is taken away, each object once; webhooks before all that
// they would be asked about, definitions after their objects, the namespace
// with the note last.
func TestRemovalOrder(t *testing.T) {
	kinds := []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "Deployment", "ServiceProfile", "CustomResourceDefinition", "Namespace"}
	stage := map[string]int{"Deployment": 1, "ServiceProfile": 1, "CustomResourceDefinition": 2, "Namespace": 3}
	rapid.Check(t, func(t *rapid.T) {
		made := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) reference {
			return reference{"v1", rapid.SampledFrom(kinds).Draw(t, "kind"), "n", rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "name")}
		}), 0, 20).Draw(t, "made")
		var flat []reference
		for n, wave := range removalOrder(made) {
			for _, r := range wave {
				if stage[r.Kind] != n {
					t.Fatalf("%s in wave %d", r, n)
				}
			}
			flat = append(flat, wave...)
		}
		byName := func(a, b reference) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) }
		slices.SortFunc(flat, byName)
		want := slices.Clone(made)
		slices.SortFunc(want, byName)
		if !slices.Equal(flat, want) {
			t.Fatalf("%v, want %v", flat, want)
		}
	})
}

func TestParseNote(t *testing.T) {
	for text, want := range map[string]string{
		`[{"apiVersion": "v1", "kind": "Service", "namespace": "linkerd", "name": "b"}]`: "Service linkerd/b",
		`[{"apiVersion": "v1", "kind": "Namespace", "name": "linkerd"}]`:                 "Namespace linkerd",
		`[{"apiVersion": "v1", "kind": "Namespace", "name": "kube-system"}]`:             "object 1, Namespace kube-system: that namespace is not the mesh's",
		`[]`:                                     "",
		`[{"apiVersion": "v1", "kind": "Node"}]`: "object 1 has no apiVersion, kind or name",
		`{"a": 1}`:                               "key objects",
		``:                                       "key objects",
	} {
		made, err := parseNote([]byte(text), "linkerd")
		var names []string
		for _, r := range made {
			names = append(names, r.String())
		}
		if err != nil {
			names = append(names, err.Error())
		}
		if got := strings.Join(names, " "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A note commands what is deleted, with the rights of whoever uninstalls:
// nothing but what installations make.
func TestInstalls(t *testing.T) {
	for _, c := range []struct {
		object reference
		want   string // "" if it is one
	}{
		{reference{"v1", "Namespace", "", "linkerd"}, ""},
		{reference{"v1", "Namespace", "", "kube-system"}, "not the mesh's"},
		{reference{"v1", "Secret", "linkerd", "keys"}, ""},
		{reference{"v1", "Secret", "kube-system", "keys"}, "not in the mesh's namespace linkerd"},
		{reference{"v1", "Secret", "", "keys"}, "not in the mesh's namespace"},
		{reference{"apps/v1", "Deployment", "kube-system", "coredns"}, "not in the mesh's namespace"},
		{reference{"rbac.authorization.k8s.io/v1", "RoleBinding", "kube-system", "linkerd-tap-auth-reader"}, ""},
		{reference{"rbac.authorization.k8s.io/v1", "Role", "kube-system", "mine"}, "not in the mesh's namespace"},
		{reference{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "istio-system", "named-with-one"}, ""},
		{reference{"example.com/v1", "ClusterRole", "", "of another group"}, "no installation makes"},
		{reference{"v1", "Node", "", "n1"}, "no installation makes objects of kind Node of v1"},
		{reference{"v1", "PersistentVolume", "", "data"}, "no installation makes"},
		{reference{"v1", "PersistentVolumeClaim", "linkerd", "data"}, "no installation makes"},
		{reference{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "servers.policy.linkerd.io"}, ""},
		{reference{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gateways.gateway.networking.k8s.io"}, ""},
		{reference{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "certificates.cert-manager.io"}, "no mesh's"},
		{reference{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.notistio.io"}, "no mesh's"},
		{reference{"policy.linkerd.io/v1beta3", "Server", "linkerd", "s"}, ""},
		{reference{"policy.linkerd.io/v1beta3", "Server", "mine", "s"}, "not in the mesh's namespace"},
		{reference{"gateway.networking.k8s.io/v1", "HTTPRoute", "linkerd", "r"}, ""},
	} {
		err := c.object.installs("linkerd")
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v, want %q", c.object, err, c.want)
		}
	}
}

// All that is made can be told by its label; the caller's objects stay as they
// are.
func TestLabelled(t *testing.T) {
	o := reference{"v1", "ConfigMap", "istio-system", "istio"}.object()
	o.SetLabels(map[string]string{"app": "istiod"})
	given := Installation{Mesh: "istio", Namespace: reference{"v1", "Namespace", "", "istio-system"}.object(), Stages: [][]*unstructured.Unstructured{{}, {o}}}
	made := given.labelled()
	if got := made.Stages[1][0].GetLabels(); !maps.Equal(got, map[string]string{"app": "istiod", installedLabel: "istio"}) || made.Namespace.GetLabels()[installedLabel] != "istio" {
		t.Errorf("%v, %v", got, made.Namespace.GetLabels())
	}
	if len(o.GetLabels()) != 1 || given.Namespace.GetLabels() != nil || given.Stages[1][0] != o {
		t.Error("the given objects changed")
	}
}

func FuzzParseNote(f *testing.F) {
	f.Add([]byte(`[{"apiVersion": "v1", "kind": "Service", "namespace": "linkerd", "name": "b"}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		made, err := parseNote(text, "linkerd")
		for _, r := range made {
			if err == nil && (r.Kind == "" || r.Name == "" || r.object().GetKind() != r.Kind) {
				t.Errorf("%q: %+v", text, r)
			}
		}
	})
}

// What a run made, and what is being deleted, is not there for whoever comes next.
func TestStays(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		change func(*unstructured.Unstructured)
		stays  bool
	}{
		"somebody's": {func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "istiod"}) }, true},
		"a run's":    {func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"run": "one"}) }, false},
		"dying":      {func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&now) }, false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		tt.change(o)
		if got := stays(o, "run"); got != tt.stays {
			t.Errorf("%s stays: %v", name, got)
		}
	}
}
