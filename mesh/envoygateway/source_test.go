package envoygateway

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// folder makes a folder with Envoy Gateway's program, which is this test's, and chart.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	own, err := os.Executable()
	must.OK(t, err)
	must.OK(t, os.Symlink(own, filepath.Join(dir, program)))
	must.OK(t, os.MkdirAll(filepath.Join(dir, "charts", chart), 0o755))
	for name, text := range map[string]string{"Chart.yaml": "name: gateway-helm\n", "values.tmpl.yaml": "global: {images: {envoyGateway: {image: \"${GatewayImage}\", pullSecrets: []}}}\nconfig: {a: 1}\ndeployment: {envoyGateway: {resources: {limits: {memory: 1024Mi}}}}\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, "charts", chart, name), []byte(text), 0o644))
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "VERSION"), []byte("1.2.3\n"), 0o644))
	return dir
}

// The values of a chart in its project's source are completed by ours. A limit of memory is removed.
func TestFolder(t *testing.T) {
	s, err := readFolder(folder(t))
	must.OK(t, err)
	if !strings.HasPrefix(s.version, "1.2.3-") || s.image() != hub+"/gateway:"+s.version {
		t.Errorf("version %s, image %s", s.version, s.image())
	}
	v := s.installValues()
	image, _, _ := unstructured.NestedString(v, "global", "images", "envoyGateway", "image")
	limits, _, _ := unstructured.NestedMap(v, "deployment", "envoyGateway", "resources", "limits")
	_, kept, _ := unstructured.NestedSlice(v, "global", "images", "envoyGateway", "pullSecrets")
	if image != s.image() || len(limits) > 0 || !kept || v["config"] == nil {
		t.Errorf("values %v", v)
	}
	if same, err := sources.IsFrom(s.version, filepath.Dir(filepath.Dir(s.chart))); !same || err != nil {
		t.Errorf("another version than its folder's: %v", err)
	}
}

// A folder that lacks something, or something that is no source, is refused with all that is missing.
func TestRefusedSources(t *testing.T) {
	empty := t.TempDir()
	_, err := readFolder(empty)
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "the program envoy-gateway") || !strings.Contains(err.Error(), "charts/gateway-helm") {
		t.Errorf("an empty folder: %v", err)
	}
	odd := folder(t)
	must.OK(t, os.WriteFile(filepath.Join(odd, "VERSION"), []byte("a b"), 0o644))
	if _, err := readFolder(odd); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a version that is none: %v", err)
	}
	for from, folder := range map[string]bool{empty: true, "v1.9.1": false, "1.9.1": false} {
		if got, err := sources.IsFolder(from); got != folder || err != nil {
			t.Errorf("%s: %v, %v", from, got, err)
		}
	}
	if _, err := sources.IsFolder(filepath.Join(empty, "none")); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--envoy-gateway") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

func plan(t *testing.T, ingress string) *study.Plan {
	t.Helper()
	s, err := study.Parse([]byte("name: n\nquestion: How?\nchurn: {}\nsettings: {ingress: "+ingress+"}\n"), "n.yaml", nil)
	must.OK(t, err)
	p, err := study.NewPlan(s, 1)
	must.OK(t, err)
	return p
}

// Without its programs a run is refused before anything starts; so is a source that no cell needs.
func TestFits(t *testing.T) {
	t.Setenv(sources.Variable, "")
	dir := folder(t)
	with := mesh.Settings{Name: {dir}}
	s, err := readFolder(dir)
	must.OK(t, err)
	for name, tt := range map[string]struct {
		ingress  string
		settings mesh.Settings
		has      map[string]string
		says     string // "" for no error
	}{
		"without a source":            {Name, nil, nil, "give a source"},
		"with one":                    {Name, with, nil, ""},
		"with an empty folder":        {Name, mesh.Settings{Name: {t.TempDir()}}, nil, "lacks"},
		"in a lab that has it":        {Name, nil, map[string]string{lab.Status: s.version}, ""},
		"in a lab that has the same":  {Name, with, map[string]string{lab.Status: s.version}, ""},
		"in a lab that has another":   {Name, with, map[string]string{lab.Status: "1.0.0-x"}, "not the one from"},
		"in a lab without it":         {Name, with, map[string]string{}, "has no Envoy Gateway"},
		"of another ingress":          {study.MeshIstio, nil, nil, ""},
		"of another ingress, with it": {study.MeshIstio, with, nil, "the study has none"},
	} {
		err := fits(t.Context(), plan(t, tt.ingress), tt.settings, tt.has)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || errs.Code(err) != errs.CodeUsage) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

// The chart's own definitions of the Gateway API, and policies that would reject ours, are left out.
func TestInstallation(t *testing.T) {
	object := func(kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}}
	}
	i := installation([]*unstructured.Unstructured{object("CustomResourceDefinition", "gateways.gateway.networking.k8s.io"), object("CustomResourceDefinition", "envoyproxies.gateway.envoyproxy.io"),
		object("ValidatingAdmissionPolicy", "safe-upgrades.gateway.networking.k8s.io"), object("Deployment", "envoy-gateway")},
		[]*unstructured.Unstructured{object("CustomResourceDefinition", "gateways.gateway.networking.k8s.io")})
	var names []string
	for _, o := range slices.Concat(i.Stages...) {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	want := []string{"CustomResourceDefinition gateways.gateway.networking.k8s.io", "GatewayClass envoy-gateway", "CustomResourceDefinition envoyproxies.gateway.envoyproxy.io", "Deployment envoy-gateway"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// A Gateway names the EnvoyProxy that its proxy is made from, in its own namespace.
func TestGateway(t *testing.T) {
	gateway := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "g", "namespace": "ns"}, "spec": map[string]any{"listeners": []any{}}}}
	made := (&Gateways{class: "eg"}).Gateway(gateway)
	name, _, _ := unstructured.NestedString(gateway.Object, "spec", "infrastructure", "parametersRef", "name")
	class, _, _ := unstructured.NestedString(gateway.Object, "spec", "gatewayClassName")
	if len(made) != 1 || made[0].GetName() != name || made[0].GetNamespace() != "ns" || class != "eg" {
		t.Errorf("%v beside %v", made, gateway)
	}
	service, _, _ := unstructured.NestedString(made[0].Object, "spec", "provider", "kubernetes", "envoyService", "type")
	if service != "ClusterIP" {
		t.Errorf("Service of type %q", service)
	}
}
