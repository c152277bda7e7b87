package pipelines

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	_ "github.com/meshtrial/meshtrial/mesh/meshes" // their rights
	"github.com/meshtrial/meshtrial/testing/must"
)

// chartRights returns the rights that a user would give the chart: all features of a
// detached run of any study with Istio.
func chartRights(t *testing.T) string {
	t.Helper()
	features := rights.Place(rights.Features(), rights.Places{Run: "meshtrial-check", Journal: "meshtrial-journal", Meshes: map[string]string{"istio": "istio-system"}, Named: "lab"})
	text, err := rights.Manifests(features, rights.Subject{Kind: "ServiceAccount", Namespace: "lab", Name: "meshtrial"})
	must.OK(t, err)
	return string(text)
}

// render renders the chart with the Helm of the program's components.
func render(t *testing.T, values map[string]any) ([]*unstructured.Unstructured, error) {
	t.Helper()
	chart, err := filepath.Abs("../../charts/meshtrial")
	must.OK(t, err)
	request, err := json.Marshal(map[string]any{"kube_version": "1.36.3", "charts": []any{map[string]any{"path": chart, "release": "nightly", "namespace": "lab", "values": values}}})
	must.OK(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./charts")
	cmd.Dir = "../../lab/components/src"
	cmd.Stdin = bytes.NewReader(request)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, &renderError{said.String()}
	}
	var answer []struct{ Manifests string }
	if err := json.Unmarshal(out, &answer); err != nil || len(answer) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	objects, err := lab.ParseObjects([]byte(answer[0].Manifests))
	if err != nil {
		t.Fatalf("%v in\n%s", err, answer[0].Manifests)
	}
	return objects, nil
}

type renderError struct{ said string }

func (e *renderError) Error() string { return e.said }

// A release has the rights that cluster check prints, for the account of its pods, and
// starts a detached run.
func TestChart(t *testing.T) {
	text := chartRights(t)
	objects, err := render(t, map[string]any{"image": "registry.example/meshtrial:1", "claim": "results", "pullSecret": "pull", "rights": text,
		"studyFile": "name: a\nquestion: \"{{ b }}?\"\n", "flags": []string{"--wait=1h", "a b"}})
	must.OK(t, err)
	granted, err := lab.ParseObjects([]byte(text))
	must.OK(t, err)
	var job batchv1.CronJob
	var kinds []string
	for _, o := range objects {
		at := slices.IndexFunc(granted, func(g *unstructured.Unstructured) bool {
			return g.GetKind() == o.GetKind() && g.GetName() == o.GetName() && g.GetNamespace() == o.GetNamespace()
		})
		switch {
		case at < 0 && o.GetKind() == "CronJob":
			must.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &job))
			kinds = append(kinds, o.GetKind())
		case at < 0:
			kinds = append(kinds, o.GetKind())
			if o.GetNamespace() != "lab" {
				t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
			}
			if question, _, _ := unstructured.NestedString(o.Object, "data", "study.yaml"); o.GetKind() == "ConfigMap" && question != "name: a\nquestion: \"{{ b }}?\"\n" {
				t.Errorf("the study is %q", question)
			}
			if o.GetKind() == "ServiceAccount" && o.GetName() != "meshtrial" {
				t.Errorf("the account is %s", o.GetName())
			}
		default:
			if o.GetKind() == "Namespace" {
				if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
					t.Errorf("namespace %s ends with the release", o.GetName())
				}
				o.SetAnnotations(nil)
			}
			if !reflect.DeepEqual(o.Object, granted[at].Object) {
				t.Errorf("%s %s is\n%v, want\n%v", o.GetKind(), o.GetName(), o.Object, granted[at].Object)
			}
			granted = slices.Delete(granted, at, at+1)
		}
	}
	for _, g := range granted {
		t.Errorf("%s %s %s is not granted", g.GetKind(), g.GetNamespace(), g.GetName())
	}
	slices.Sort(kinds)
	if want := []string{"ConfigMap", "CronJob", "ServiceAccount"}; !slices.Equal(kinds, want) {
		t.Errorf("it has %q, want %q", kinds, want)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.ServiceAccountName != "meshtrial" || job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		t.Fatalf("%+v", job.Spec)
	}
	want := []string{"run", "/study/study.yaml", "--detach", "--yes", "--lab=cluster", "--image=registry.example/meshtrial:1", "--results=pvc:lab/results",
		"--pull-secret=lab/pull", "--wait=1h", "a b"}
	if got := pod.Containers[0].Args; !slices.Equal(got, want) {
		t.Errorf("its pods run %q, want %q", got, want)
	}
}

// Required values of a release are reported if missing.
func TestChartLacks(t *testing.T) {
	whole := map[string]any{"image": "i", "claim": "c", "rights": chartRights(t)}
	for lacking := range whole {
		values := map[string]any{}
		for name, value := range whole {
			if name != lacking {
				values[name] = value
			}
		}
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), lacking+": ") {
			t.Errorf("without %s: %v", lacking, err)
		}
	}
}

// The chart contains no rights itself.
func TestChartHasNoRules(t *testing.T) {
	err := filepath.WalkDir("../../charts", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("apiGroups")) {
			t.Errorf("%s grants rights that nobody holds against the table", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
