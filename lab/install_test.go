package lab

import (
	"slices"
	"strings"
	"testing"

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
		`[{"apiVersion": "v1", "kind": "Service", "namespace": "a", "name": "b"}]`: "Service a/b",
		`[{"apiVersion": "v1", "kind": "Namespace", "name": "linkerd"}]`:           "Namespace linkerd",
		`[{"apiVersion": "v1", "kind": "Namespace", "name": "kube-system"}]`:       "is the namespace kube-system, which is not the mesh's",
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

func FuzzParseNote(f *testing.F) {
	f.Add([]byte(`[{"apiVersion": "v1", "kind": "Service", "namespace": "a", "name": "b"}]`))
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
