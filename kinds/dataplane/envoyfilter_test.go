package dataplane

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const oneEnvoyFilter = `apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: theirs, namespace: elsewhere}
spec:
  priority: -10
  workloadSelector: {labels: {app: theirs}}
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_INBOUND}
    patch:
      operation: INSERT_BEFORE
      value: {name: mine, typed_config: {on: true, n: 3, half: 0.5, text: "3", block: 'true', empty: null}}
`

func TestEnvoyFilterFile(t *testing.T) {
	f := EnvoyFilter{Name: "a", File: "a.yaml"}
	must.OK(t, f.parse([]byte(oneEnvoyFilter)))
	want := []any{map[string]any{
		"applyTo": "HTTP_FILTER", "match": map[string]any{"context": "SIDECAR_INBOUND"},
		"patch": map[string]any{"operation": "INSERT_BEFORE", "value": map[string]any{"name": "mine", "typed_config": map[string]any{
			"on": true, "n": int64(3), "half": 0.5, "text": "3", "block": "true", "empty": nil}}},
	}}
	if !reflect.DeepEqual(f.Patches, want) || f.Priority != -10 {
		t.Errorf("got %#v, priority %d", f.Patches, f.Priority)
	}
}

func TestEnvoyFilterFileRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"nothing", "", "it is empty"},
		{"a list", "[]", "a.yaml:1"},
		{"no kind", "spec: {}", "the kind is nothing"},
		{"another kind", "kind: Pod\nspec: {}", `the kind is "Pod"`},
		{"no spec", "kind: EnvoyFilter", "has no spec"},
		{"no patches", "kind: EnvoyFilter\nspec: {configPatches: []}", "patches nothing"},
		{"a patch without patch", "kind: EnvoyFilter\nspec:\n  configPatches:\n  - {applyTo: CLUSTER}", "a.yaml:4:5"},
		{"unknown field", "kind: EnvoyFilter\nspec: {filters: []}", `no field "filters"`},
		{"priority", "kind: EnvoyFilter\nspec: {priority: high}", "priority is"},
		{"two documents", oneEnvoyFilter + "---\n" + oneEnvoyFilter, "a.yaml"},
		{"an alias", "kind: EnvoyFilter\na: &a [1]\nspec: {b: *a}", "a.yaml:2"},
		{"no YAML", "kind: [", "a.yaml"},
		{"too large", strings.Repeat("# comment\n", 60_000), "a.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := EnvoyFilter{Name: "a", File: "a.yaml"}
			err := f.parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, expected %q", err, tt.says)
			}
		})
	}
}

func TestEnvoyFiltersOfAStudy(t *testing.T) {
	const head = "name: a\nquestion: b\nfactors: {filters: [none, envoyfilter-mine]}\n"
	s, err := study.Parse([]byte(head+"envoy_filters: {mine: mine.yaml}\n"), "a.yaml", nil)
	must.OK(t, err)
	full, err := s.WithFiles(func(string) ([]byte, error) { return []byte(oneEnvoyFilter), nil })
	must.OK(t, err)
	if Of(s).EnvoyFilters[0].File == "" {
		t.Error("the study itself was changed")
	}
	again, err := study.Parse(full.Marshal(), "resolved.yaml", nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, full.Marshal())
	}
	if !reflect.DeepEqual(Of(again).EnvoyFilters, Of(full).EnvoyFilters) || len(Of(again).EnvoyFilters) != 1 {
		t.Errorf("read again it is %#v, expected %#v", Of(again).EnvoyFilters, Of(full).EnvoyFilters)
	}
	if _, err := s.WithFiles(func(string) ([]byte, error) { return nil, errors.New("gone") }); err == nil || !strings.Contains(err.Error(), "envoy_filters.mine") {
		t.Errorf("a file that is gone: %v", err)
	}
	for text, says := range map[string]string{
		head: "part envoyfilter-mine needs a file that the study does not name",
		"name: a\nquestion: b\nenvoy_filters: {mine: mine.yaml}\n":              "no level of filters uses mine of envoy_filters",
		head + "envoy_filters: {mine: {inline: nonsense}}\n":                    "not how meshtrial writes",
		head + "envoy_filters: {Mine: mine.yaml}\n":                             `invalid name of an EnvoyFilter "Mine"`,
		head + "envoy_filters: [mine.yaml]\n":                                   "must map names to files",
		head + "envoy_filters: {mine: [mine.yaml]}\n":                           "is not a file",
		"name: a\nquestion: b\nsettings: {filters: lua, protocol: tcp}\n":       "cannot see with protocol tcp",
		"name: a\nquestion: b\nsettings: {filters: lua}\nload: {tls: true}\n":   "speaks TLS itself",
		"name: a\nquestion: b\nsettings: {filters: lau}\n":                      "a.yaml:3:21",
		"name: a\nquestion: b\nfactors: {filters: [jwt+lua, lua+jwt]}\n":        "given twice",
		"name: a\nquestion: b\ncontrol: {}\nenvoy_filters: {mine: mine.yaml}\n": "is for studies of the data plane",
	} {
		if _, err := study.Parse([]byte(text), "a.yaml", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", text, err, says)
		}
	}
}

// FuzzEnvoyFilter: any file either yields patches that round-trip through the resolved form, or an
// error with the file's name.
func FuzzEnvoyFilter(f *testing.F) {
	f.Add([]byte(oneEnvoyFilter))
	f.Add([]byte("kind: EnvoyFilter\nspec: {configPatches: [{applyTo: A, patch: {value: 1e9}}]}"))
	f.Add([]byte("kind: EnvoyFilter\nspec: {configPatches: [{applyTo: 0x10, patch: .inf}]}"))
	f.Add([]byte("kind: EnvoyFilter\nspec: {priority: 99999999999, configPatches: [1]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		one := EnvoyFilter{Name: "a", File: "a.yaml"}
		if err := one.parse(data); err != nil {
			if !strings.Contains(err.Error(), "a.yaml") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		if len(one.Patches) == 0 {
			t.Fatal("no patches and no error")
		}
		var again EnvoyFilter
		d := &study.Decoder{}
		inlineValue{&again}.Decode(d, inlineValue{&one}.Encode())
		if len(d.Errs) > 0 {
			t.Fatal(d.Errs)
		}
		if !reflect.DeepEqual(inlineValue{&again}.Encode(), inlineValue{&one}.Encode()) {
			t.Errorf("read again it is %#v, expected %#v", again, one)
		}
	})
}
