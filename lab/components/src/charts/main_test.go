package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// charts writes a chart and the library it depends on, as a mesh's sources
// have them, and returns the chart's folder.
func charts(t *testing.T, repository string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main/Chart.yaml": "apiVersion: v2\nname: main\nversion: 1.2.3\nappVersion: edge-1\nkubeVersion: \">=1.30.0-0\"\n" +
			"dependencies: [{name: parts, version: 0.1.0, repository: \"" + repository + "\"}]\n",
		"main/values.yaml":            "name: preset\nport: 1\n",
		"main/crds/thing.yaml":        "kind: CustomResourceDefinition\n",
		"main/templates/a.yaml":       "{{ include \"parts.head\" . }}\nport: {{ .Values.port }}\nkube: {{ .Capabilities.KubeVersion.Version }}\n",
		"main/templates/_helper.yaml": "not: this\n",
		"main/templates/empty.yaml":   "{{ if eq .Release.Service \"CLI\" }}not: this{{ end }}\n",
		"main/templates/NOTES.txt":    "not this\n",
		"parts/Chart.yaml":            "apiVersion: v2\nname: parts\nversion: 0.1.0\n",
		"parts/templates/_head.tpl":   "{{ define \"parts.head\" }}name: {{ .Values.name }}.{{ .Release.Namespace }}{{ end }}",
	} {
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return filepath.Join(dir, "main")
}

func ask(t *testing.T, r request) ([]rendered, error) {
	t.Helper()
	in, err := json.Marshal(r)
	must.OK(t, err)
	var out bytes.Buffer
	if err := run(bytes.NewReader(in), &out); err != nil {
		return nil, err
	}
	var answer []rendered
	return answer, json.Unmarshal(out.Bytes(), &answer)
}

func TestRender(t *testing.T) {
	c := chartRequest{Path: charts(t, "file://../parts"), Release: "r", Namespace: "ns", Values: map[string]any{"name": "given"}, Set: []string{"port=7"}}
	got, err := ask(t, request{KubeVersion: "1.36.3", Charts: []chartRequest{c}})
	must.OK(t, err)
	want := "---\nkind: CustomResourceDefinition\n---\nname: given.ns\nport: 7\nkube: v1.36.3\n"
	if len(got) != 1 || got[0].Manifests != want || got[0].Name != "main" || got[0].Version != "1.2.3" || got[0].AppVersion != "edge-1" {
		t.Errorf("%+v, want\n%s", got, want)
	}
}

func TestRenderRefused(t *testing.T) {
	whole, circle := charts(t, "file://../parts"), charts(t, "file://../parts")
	back := "apiVersion: v2\nname: parts\nversion: 0.1.0\ndependencies: [{name: main, version: 1.2.3, repository: \"file://../main/\"}]\n"
	must.OK(t, os.WriteFile(filepath.Join(circle, "../parts/Chart.yaml"), []byte(back), 0o644))
	for _, test := range []struct {
		name string
		kube string
		c    chartRequest
		want string
	}{
		{"no chart", "1.36.3", chartRequest{Path: filepath.Join(whole, "nowhere")}, "nowhere"},
		{"a dependency elsewhere", "1.36.3", chartRequest{Path: charts(t, "https://example.org/charts")}, "depends on the chart parts of https://example.org/charts"},
		{"a dependency that is not there", "1.36.3", chartRequest{Path: charts(t, "file://../other")}, "depends on the chart parts"},
		{"a circle", "1.36.3", chartRequest{Path: circle + "/"}, "in a circle: " + circle + ", " + filepath.Join(circle, "../parts") + ", " + circle},
		{"on itself", "1.36.3", chartRequest{Path: charts(t, "file://.")}, "in a circle"},
		{"a setting", "1.36.3", chartRequest{Path: whole, Set: []string{"port"}}, `setting "port"`},
		{"no version", "new", chartRequest{Path: whole}, `version of Kubernetes "new"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ask(t, request{KubeVersion: test.kube, Charts: []chartRequest{test.c}}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want an error that says %q", err, test.want)
			}
		})
	}
}
