package istio

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// secondDir makes a folder with a second Istio.
func secondDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	for _, name := range []string{"pilot-discovery", "pilot-agent"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), elftest.Header(t, machine, name), 0o755))
	}
	for name, text := range map[string]string{
		"charts/" + discoveryChart + "/Chart.yaml": "name: istiod\nversion: 1.0.0\n", "charts/" + baseChart + "/Chart.yaml": "name: base\nversion: 1.0.0\n",
		"VERSION": "1.30-abc\n", secondBootstrap: `{"bootstrap_extensions": [{{- if .metadata_discovery }}{"name": "istio.workload.BootstrapExtension"}{{- end }}]}`,
	} {
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)))
	}
	return dir
}

// A folder with a second Istio is refused if it is incomplete, cannot run, or others may write to
// it. Its images are named after its contents.
func TestSecondFolder(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(dir string) error
		says  string // "" if it is accepted
	}{
		"complete":            {nil, ""},
		"no program":          {func(dir string) error { return os.Remove(dir + "/pilot-discovery") }, "the program pilot-discovery"},
		"no agent":            {func(dir string) error { return os.Remove(dir + "/pilot-agent") }, "the program pilot-agent"},
		"a script":            {func(dir string) error { return os.WriteFile(dir+"/pilot-agent", []byte("#!"), 0o755) }, "not a Linux program"},
		"a program of others": {func(dir string) error { return os.Chmod(dir+"/pilot-agent", 0o777) }, "by everybody"},
		"a folder of others":  {func(dir string) error { return os.Chmod(dir, 0o777) }, "by everybody"},
		"a chart of others":   {func(dir string) error { return os.Chmod(dir+"/charts/"+baseChart, 0o777) }, "by everybody"},
		"no chart":            {func(dir string) error { return os.RemoveAll(dir + "/charts/" + discoveryChart) }, "the chart " + discoveryChart},
		"no definitions":      {func(dir string) error { return os.RemoveAll(dir + "/charts/" + baseChart) }, "the chart " + baseChart},
		"no template":         {func(dir string) error { return os.Remove(dir + "/" + secondBootstrap) }, secondBootstrap},
		"no version":          {func(dir string) error { return os.Remove(dir + "/VERSION") }, "the file VERSION"},
		"a version of others": {func(dir string) error { return os.Chmod(dir+"/VERSION", 0o666) }, "by everybody"},
		"a version as a folder": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/VERSION"), os.Mkdir(dir+"/VERSION", 0o755))
		}, "is not a file"},
		"a version in a pipe": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/VERSION"), syscall.Mkfifo(dir+"/VERSION", 0o600))
		}, "is not a file"},
		"a template that is too large": {func(dir string) error { return os.Truncate(dir+"/"+secondBootstrap, 1<<20+1) }, "is not a file of at most"},
		"a version of nothing":         {func(dir string) error { return os.WriteFile(dir+"/VERSION", []byte("main"), 0o644) }, "does not contain a version of Istio"},
		"a version with spaces":        {func(dir string) error { return os.WriteFile(dir+"/VERSION", []byte("1.30 x"), 0o644) }, "does not contain a version of Istio"},
		"an envoy of its own": {func(dir string) error {
			text, err := os.ReadFile(dir + "/pilot-agent")
			return errors.Join(err, os.WriteFile(dir+"/envoy", text, 0o755))
		}, ""},
		"a ztunnel of its own": {func(dir string) error {
			text, err := os.ReadFile(dir + "/pilot-agent")
			return errors.Join(err, os.WriteFile(dir+"/ztunnel", text, 0o755))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := secondDir(t)
			if test.spoil != nil {
				must.OK(t, test.spoil(dir))
			}
			s, err := openSecond(dir, "")
			if test.says != "" {
				refuses(t, dir, err, test.says, "")
				return
			}
			must.OK(t, err)
			if !strings.HasPrefix(s.pilotRef(), components.IstioHub+"/pilot:1.30-abc-") || !strings.HasPrefix(s.proxyRef(), components.IstioHub+"/proxyv2:1.30-abc-") {
				t.Errorf("images %s and %s", s.pilotRef(), s.proxyRef())
			}
			_, own := s.folder.Programs["envoy"]
			if envoy := s.plans(false)[1].Layers[1][0]; (envoy.Program == "") != own || strings.Contains(s.bootstrap, "BootstrapExtension") {
				t.Errorf("envoy %+v, bootstrap %s", envoy, s.bootstrap)
			}
			_, own = s.folder.Programs[ztunnelName]
			if ambient, plain := len(s.plans(true)), len(s.plans(false)); plain != 2 || (ambient == 3) != own || (s.facts("", true)[factSecondZtunnel] != "") != own {
				t.Errorf("%d images, in an ambient mesh %d", plain, ambient)
			}
			must.OK(t, os.WriteFile(filepath.Join(dir, "charts", discoveryChart, "values.yaml"), []byte("a: b"), 0o644))
			if other, err := openSecond(dir, ""); err != nil || other.tag == s.tag {
				t.Errorf("other charts have the same tag %s, %v", s.tag, err)
			}
		})
	}
	for from, says := range map[string]string{"1.30.2": "", "1.30": "neither a folder nor the name of a release", "/nowhere": "neither a folder nor the name of a release"} {
		s, err := openSecond(from, "hub")
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || err == nil && s.pilotRef() != "hub/pilot:"+from {
			t.Errorf("%s: %+v, %v", from, s, err)
		}
	}
}

// Charts are kept as they are in the folder: packed or not.
func TestKeptCharts(t *testing.T) {
	dir := secondDir(t)
	must.OK(t, errors.Join(os.RemoveAll(dir+"/charts/"+baseChart), os.WriteFile(dir+"/charts/base-1.30.2.tgz", []byte("archive"), 0o644)))
	s, err := openSecond(dir, "")
	must.OK(t, err)
	b, err := components.New(components.Options{CacheDir: t.TempDir()})
	must.OK(t, err)
	charts, err := s.keepCharts(t.Context(), b)
	must.OK(t, err)
	for name, want := range map[string]string{keptBase + packed: "archive", keptDiscovery + "/Chart.yaml": "name: istiod\nversion: 1.0.0\n"} {
		if got, err := os.ReadFile(filepath.Join(charts, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A second Istio is accepted for studies that start it, and only the one that a running lab has.
func TestFitsSecond(t *testing.T) {
	const upgrade = `
name: upgrade
question: Is anything lost?
mesh: istio
graph: {services: {bar: {}}}
load: {to: bar}
timeline:
  duration: 10s
  steps: [{name: second, at: 1s, revision: {name: canary, istio: second}}]
variants: {good: {}}
blocks: {min: 1, max: 1}
`
	with, without := studytest.Plan(t, upgrade), studytest.Plan(t, strings.ReplaceAll(upgrade, ", istio: second", ""))
	if !secondPlan(with) || secondPlan(without) {
		t.Fatal("only the first study starts a second Istio")
	}
	dir := secondDir(t)
	s, err := openSecond(dir, "")
	must.OK(t, err)
	if err := fitsSecond(with, dir, s.facts("", false)); err != nil {
		t.Error(err)
	}
	if err := fitsSecond(with, dir, nil); err != nil {
		t.Errorf("no lab runs: %v", err)
	}
	for says, err := range map[string]error{
		"has no second Istio":        fitsSecond(with, dir, map[string]string{}),
		"has second Istio other,":    fitsSecond(with, dir, (&second{hub: s.hub, tag: "other"}).facts("", false)),
		"has second Istio 1.30.2 of": fitsSecond(with, "1.30.2", (&second{hub: "registry.example.com", tag: "1.30.2"}).facts("", false)),
		"the study has none":         fitsSecond(without, dir, nil),
		"neither a folder nor":       fitsSecond(with, "/nowhere", nil),
		"none is given":              must.Err(resolve(mesh.Run, true, needs(with, nil))),
		"--second-istio requires Is": must.Err(resolve(mesh.LabUp, false, mesh.Settings{setSecond: {dir}})),
	} {
		refuses(t, says, err, says, "")
	}
	t.Setenv(secondOrigin.Variable, dir)
	if s, err := resolve(mesh.Run, true, needs(with, nil)); err != nil || s.Get(setSecond) != dir {
		t.Errorf("by the environment: %v, %v", s, err)
	}
	if s, err := resolve(mesh.Run, true, needs(without, nil)); err != nil || s[setSecond] != nil {
		t.Errorf("not needed: %v, %v", s, err)
	}
}

// Pods that move to an istiod of the second version get its sidecar, and nodes its ztunnel if it has
// one.
func TestPlaneOfSecond(t *testing.T) {
	for image, want := range map[string]string{"hub/pilot:1.30": "hub/proxyv2:1.30", "hub/pilot:1.31": ""} {
		canary := ofRevision("canary", "", true)
		canary[0].(*appsv1.Deployment).Spec.Template = podOf(istiodContainer, image)
		kube := fakecluster.New(append(ofRevision(defaultRevision, "", true), canary...)...)
		from, err := findRevision(t.Context(), kube, defaultRevision)
		must.OK(t, err)
		plane, err := (&Mesh{Revision: from, images: map[string]string{factSecondHub: "hub", factSecondTag: "1.30", factSecondZtunnel: "hub/ztunnel:1.30"}}).Plane(t.Context(), kube, "canary")
		if err != nil || plane.PodAnnotations[proxyImageAnnotation] != want || plane.Version != mesh.Version(image) || (plane.NodeVersion == "1.30") != (want != "") {
			t.Errorf("%s: %+v, %v", image, plane, err)
		}
	}
}

// A lab without a second Istio says so before anything starts.
func TestNoSecond(t *testing.T) {
	for name, facts := range map[string]map[string]string{"none": {}, "charts that are gone": {factSecondTag: "1.30", factSecondCharts: filepath.Join(t.TempDir(), "gone")}} {
		_, _, err := renderSecond(t.Context(), nil, facts, "canary")
		refuses(t, name, err, "has no second Istio", "--second-istio DIR")
	}
}

// Settings of istioctl become those of the chart.
func TestHelmSettings(t *testing.T) {
	got := helmSettings([]string{"profile=minimal", "hub=h", "tag=t=1", "values.pilot.env.A=b", "values.telemetry.enabled=false", "meshConfig.extensionProviders[0].name=x", "revision=canary"})
	want := []string{"global.hub=h", "global.tag=t=1", "pilot.env.A=b", "telemetry.enabled=false", "meshConfig.extensionProviders[0].name=x", "revision=canary"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// crd returns a CustomResourceDefinition of things.
func crd(t *testing.T, versions string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must.OK(t, yaml.Unmarshal([]byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, names: {kind: Thing, plural: things}, versions: `+versions+`}}`), &o.Object))
	return o
}

// A version of Istio that needs what the cluster's CRDs do not serve is refused. Fields of objects
// that it does not know are named.
func TestFitDefinitions(t *testing.T) {
	const known = `schema: {openAPIV3Schema: {properties: {spec: {properties: {
hosts: {type: array, items: {type: string}}, http: {type: array, items: {properties: {name: {}}}}, labels: {additionalProperties: {type: string}}, any: {x-kubernetes-preserve-unknown-fields: true}}}}}}`
	object := func(name, spec string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		must.OK(t, yaml.Unmarshal([]byte(`{apiVersion: example.com/v1, kind: Thing, metadata: {name: `+name+`, namespace: shop}, spec: {`+spec+`}}`), &o.Object))
		return o
	}
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	const v1 = "[{name: v1, served: true, " + known + "}]"
	ignored := func(field string, more any) []note.Note {
		return []note.Note{noteFieldIgnored.Of("1.30", field, "Thing", "shop/one", more)}
	}
	for name, tt := range map[string]struct {
		needs, spec string
		others      []string // specs of other objects
		says        string
		notes       []note.Note
	}{
		"the same":             {v1, "hosts: [a], http: [{name: x}], labels: {a: b}, any: {thing: 1}", nil, "", nil},
		"a field":              {v1, "hosts: [a], newer: 1", nil, "", ignored("spec.newer", nil)},
		"a field inside":       {v1, "http: [{name: x}, {name: y, newer: {}}, {newer: {}}]", nil, "", ignored("spec.http[].newer", nil)},
		"a field of several":   {v1, "newer: 1", []string{"hosts: []", "newer: 2", "newer: 3"}, "", ignored("spec.newer", 2)},
		"in several versions":  {"[{name: v1beta1, served: true, schema: {openAPIV3Schema: {properties: {spec: {}}}}}, " + v1[1:], "newer: 1", nil, "", ignored("spec.newer", nil)},
		"a version":            {"[{name: v1, served: true}, {name: v2, served: true}]", "", nil, "example.com/v2 Thing", nil},
		"a version, unserved":  {"[{name: v1, served: true}, {name: v2, served: false}]", "hosts: []", nil, "", nil},
		"a version of another": {"[{name: v2, served: true}]", "", nil, "example.com/v2 Thing", nil},
	} {
		t.Run(name, func(t *testing.T) {
			all := []apiruntime.Object{crd(t, "[{name: v1beta1, served: true}, {name: v1, served: true}]"), object("one", tt.spec)}
			for i, spec := range tt.others {
				all = append(all, object(fmt.Sprint("other-", i), spec))
			}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(apiruntime.NewScheme(),
				map[schema.GroupVersionResource]string{definitionResource: "CustomResourceDefinitionList", resource: "ThingList"}, all...)
			notes, err := fitServed(t.Context(), client, "1.30", []*unstructured.Unstructured{crd(t, tt.needs)})
			refuses(t, name, err, tt.says, "")
			if !reflect.DeepEqual(notes, tt.notes) {
				t.Errorf("%+v", notes)
			}
		})
	}
}
