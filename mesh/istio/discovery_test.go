package istio

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestLabelsFor(t *testing.T) {
	for _, tt := range []struct {
		name, selectors, revision string
		want                      map[string]string
		err                       bool
	}{
		{"none", ``, "canary", nil, false},
		{"all namespaces", `[{}]`, "canary", map[string]string{}, false},
		{"a label", `[{matchLabels: {mesh: shop}}]`, "canary", map[string]string{"mesh": "shop"}, false},
		{"all of a selector", `[{matchLabels: {mesh: shop}, matchExpressions: [{key: team, operator: In, values: [a, b]}, {key: env, operator: Exists}]}]`, "canary",
			map[string]string{"mesh": "shop", "team": "a", "env": "true"}, false},
		{"the selector with the fewest labels", `[{matchLabels: {a: b, c: d}}, {matchLabels: {e: f}}]`, "canary", map[string]string{"e": "f"}, false},
		{"not those of the system", `[{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}, {key: legacy, operator: DoesNotExist}]}]`, "canary", map[string]string{}, false},
		{"a value that is left", `[{matchExpressions: [{key: a, operator: In, values: [p, q]}, {key: a, operator: NotIn, values: [p]}]}]`, "canary", map[string]string{"a": "q"}, false},
		{"injection of the default revision", `[{matchLabels: {istio-injection: enabled}}]`, "default", map[string]string{"istio-injection": "enabled"}, false},
		{"injection by another revision", `[{matchLabels: {istio-injection: enabled}}]`, "canary", nil, true},
		{"its own revision", `[{matchExpressions: [{key: istio.io/rev, operator: Exists}]}]`, "canary", map[string]string{"istio.io/rev": "canary"}, false},
		{"another revision", `[{matchLabels: {istio.io/rev: stable}}]`, "canary", nil, true},
		{"one revision or another", `[{matchLabels: {istio.io/rev: stable}}, {matchLabels: {istio.io/rev: canary}}]`, "canary", map[string]string{"istio.io/rev": "canary"}, false},
		{"another mesh's sidecars", `[{matchLabels: {linkerd.io/inject: enabled}}]`, "canary", nil, true},
		{"a namespace by name", `[{matchLabels: {kubernetes.io/metadata.name: shop}}]`, "canary", nil, true},
		{"ours already", `[{matchLabels: {app.kubernetes.io/part-of: meshtrial}}]`, "canary", map[string]string{"app.kubernetes.io/part-of": "meshtrial"}, false},
		{"part of something else", `[{matchLabels: {app.kubernetes.io/part-of: shop}}]`, "canary", nil, true},
		{"nothing can", `[{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}]`, "canary", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var selectors []metav1.LabelSelector
			must.OK(t, yaml.Unmarshal([]byte(tt.selectors), &selectors))
			got, err := LabelsFor(selectors, tt.revision)
			if (err != nil) != tt.err || !maps.Equal(got, tt.want) {
				t.Errorf("%v (%v), want %v", got, err, tt.want)
			}
			if tt.err && (errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "meshConfig.discoverySelectors")) {
				t.Errorf("%v, hint %q", err, errs.Hint(err))
			}
		})
	}
}

// Returned labels satisfy a selector and are harmless. If none are returned, no
// possible labels satisfy one.
func TestLabelsForAreRight(t *testing.T) {
	keys, values := []string{"a", "istio-injection", "istio.io/rev", "app.kubernetes.io/part-of"}, []string{"enabled", "canary", "meshtrial", "x"}
	rapid.Check(t, func(t *rapid.T) {
		revision := rapid.SampledFrom([]string{"default", "canary"}).Draw(t, "revision")
		requirement := rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
			r := metav1.LabelSelectorRequirement{Key: rapid.SampledFrom(keys).Draw(t, "key"),
				Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator")}
			if r.Operator == "In" || r.Operator == "NotIn" {
				r.Values = rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 3, rapid.ID[string]).Draw(t, "values")
			}
			return r
		})
		selectors := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) metav1.LabelSelector {
			return metav1.LabelSelector{MatchExpressions: rapid.SliceOfN(requirement, 0, 4).Draw(t, "requirements")}
		}), 1, 3).Draw(t, "selectors")
		watched := func(of map[string]string) bool {
			all := maps.Clone(givenLabels)
			maps.Copy(all, of)
			return slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool {
				one, err := metav1.LabelSelectorAsSelector(&s)
				return err == nil && one.Matches(labels.Set(all))
			})
		}
		got, err := LabelsFor(selectors, revision)
		if err == nil {
			for key, value := range got {
				if givenLabels[key] != value && !harmless(key, value, revision) {
					t.Fatalf("%s=%s", key, value)
				}
			}
			if !watched(got) {
				t.Fatalf("%v does not satisfy %v", got, selectors)
			}
			return
		}
		for _, a := range append(values, "") { // every possible choice
			for _, injection := range []string{"", "enabled"} {
				for _, rev := range []string{"", revision} {
					of := map[string]string{"a": a, "istio-injection": injection, "istio.io/rev": rev}
					maps.DeleteFunc(of, func(key, value string) bool { return value == "" || !harmless(key, value, revision) })
					if watched(of) {
						t.Fatalf("%v satisfies %v: %v", of, selectors, err)
					}
				}
			}
		}
	})
}
