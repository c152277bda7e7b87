package istio

import (
	"debug/elf"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func mustOrder(t *testing.T, s mesh.Settings) order {
	t.Helper()
	o, err := orderOf(s)
	must.OK(t, err)
	return o
}

// The images are laid out like Istio's own; those of proxies differ only in Envoy.
func TestPlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ztunnel")
	must.OK(t, os.WriteFile(path, elftest.Header(t, elf.EM_X86_64, "ztunnel"), 0o755))
	o := mustOrder(t, mesh.Settings{setEnvoy: {"1.39.0"}, setAmbient: {"true"}})
	o.ztunnel = ztunnel{components.Source{Path: path, Sum: "sha256:" + strings.Repeat("ab", 32)}, "1.31.1"}
	var got []string
	for _, p := range o.plans("bootstrap") {
		line := p.Ref + " " + p.Config.User + p.Config.Entrypoint[0]
		for _, f := range slices.Concat(p.Layers...) {
			line += " " + f.Name + "=" + f.Program + f.Data + strings.TrimPrefix(f.From.Path, path[:len(path)-len("ztunnel")])
		}
		got = append(got, line)
	}
	const agent = " usr/local/bin/pilot-agent=pilot-agent var/lib/istio/envoy/envoy_bootstrap_tmpl.json=bootstrap etc/istio/proxy= home/istio-proxy= usr/local/bin/envoy=envoy@"
	want := []string{
		"docker.io/istio/pilot:" + components.IstioVersion + " 1337:1337/usr/local/bin/pilot-discovery usr/local/bin/pilot-discovery=pilot-discovery",
		proxyRef("1.39.0") + " /usr/local/bin/pilot-agent" + agent + "1.39.0",
		proxyRef("") + " /usr/local/bin/pilot-agent" + agent + components.DefaultEnvoy,
		"docker.io/istio/install-cni:" + components.IstioVersion + " /usr/local/bin/install-cni usr/local/bin/install-cni=install-cni opt/cni/bin/istio-cni=istio-cni",
		"docker.io/istio/ztunnel:1.31.1-abababababab /usr/local/bin/ztunnel usr/local/bin/ztunnel=ztunnel",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{"istio-manifests", "pilot-discovery", "envoy@1.39.0", "istio-cni", "gateway-api"} {
		if !slices.Contains(o.components(), name) {
			t.Errorf("components %q lack %s", o.components(), name)
		}
	}
	refuses(t, "an Envoy that no wheel has", must.Err(orderOf(mesh.Settings{setEnvoy: {"1.12.0"}})), "1.12.0", "")
}

// A lab's facts name its images, for the adapter and for a second istiod.
func TestFacts(t *testing.T) {
	built := mustOrder(t, mesh.Settings{setEnvoy: {"1.39.0"}}).facts(true)
	if built[lab.Status] != components.IstioVersion || !builtHere(built) {
		t.Errorf("built: %v", built)
	}
	m := New(lab.Images{Meshes: map[string]map[string]string{study.MeshIstio: built}})
	for version, want := range map[string]string{"": proxyRef(""), components.DefaultEnvoy: proxyRef(""), "1.39.0": proxyRef("1.39.0")} {
		if got, err := m.ProxyImage(version); err != nil || got != want {
			t.Errorf("%q: %s, %v", version, got, err)
		}
	}
	refuses(t, "1.12.0", must.Err(m.ProxyImage("1.12.0")), "1.12.0", "[1.39.0 "+components.DefaultEnvoy+"]")
	pulled := mustOrder(t, mesh.Settings{setImages: {official}, setHub: {"example.org/istio/"}, setTag: {"1"}, setAmbient: {"true"}}).facts(true)
	want := map[string]string{factHub: "example.org/istio", factTag: "1", factIstiod: "example.org/istio/pilot:1", factProxy: "example.org/istio/proxyv2:1",
		factZtunnel: "example.org/istio/ztunnel:1", lab.Status: "1, ambient with example.org/istio/ztunnel:1"}
	if !maps.Equal(pulled, want) || builtHere(pulled) {
		t.Errorf("pulled: %v", pulled)
	}
	if facts := mustOrder(t, nil).facts(false); facts[lab.Status] != "" || facts[factIstiod] == "" {
		t.Errorf("not installed: %v", facts)
	}
}

func TestSettings(t *testing.T) {
	const own = "values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms"
	digest := "sha256:" + strings.Repeat("ab", 32)
	pins := "1@" + digest + "," + digest
	for name, c := range map[string]struct {
		o         order
		has, lack []string
	}{
		"built": {mustOrder(t, mesh.Settings{setCharts: {own}}), []string{"profile=minimal", "hub=docker.io/istio", "tag=" + components.IstioVersion,
			"values.telemetry.enabled=false", "values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false", "values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false"}, []string{"AMBIENT"}},
		"official": {mustOrder(t, mesh.Settings{setImages: {official}, setHub: {"example.org/istio/"}, setTag: {"1"}, setCharts: {own}}),
			[]string{"hub=example.org/istio", "tag=1"}, []string{"telemetry", "METADATA_EXCHANGE", "ALPN", "image="}},
		"pinned":  {mustOrder(t, mesh.Settings{setImages: {official}, setTag: {pins}, setCharts: {own}}), []string{"tag=1"}, []string{"image="}},
		"ambient": {mustOrder(t, mesh.Settings{setAmbient: {"true"}, setCharts: {own}}), []string{"values.pilot.env.PILOT_ENABLE_AMBIENT=true", "values.global.waypoint.resources.requests.cpu=10m"}, []string{"components.cni"}},
	} {
		got := c.o.settings()
		for _, want := range c.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: settings %q lack %s", name, got, want)
			}
		}
		for _, bad := range c.lack {
			if strings.Contains(strings.Join(got, " "), bad) {
				t.Errorf("%s: settings %q have %s", name, got, bad)
			}
		}
		if name != "by reference" && got[len(got)-1] != own && slices.Contains(c.o.set, own) {
			t.Errorf("%s: the user's settings do not come last", name)
		}
	}
	if got := mustOrder(t, mesh.Settings{setImages: {official}}).tag; got != components.IstioRelease {
		t.Errorf("the usual release is %s", got)
	}
}

// The additional objects of a rendering are determined by name, whatever their content.
func TestBeyond(t *testing.T) {
	const istiod = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata: {a: \"1\"}\n"
	const agent = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: istio-cni-node, namespace: istio-system}\n"
	have, err1 := lab.ParseObjects([]byte(istiod))
	all, err2 := lab.ParseObjects([]byte(strings.Replace(istiod, `"1"`, `"2"`, 1) + "---\n" + agent))
	if got := beyond(all, have); err1 != nil || err2 != nil || len(got) != 1 || got[0].GetKind() != "DaemonSet" {
		t.Errorf("%v, %v, %v", got, err1, err2)
	}
}

func TestParseRelease(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, good := range []string{"", "1.31.1", "1@" + digest + "," + digest} {
		if _, err := parseRelease(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"1@", "1@" + digest, "1@" + digest + ",", "1@," + digest, "@" + digest + "," + digest, "1@" + digest[:70] + "," + digest,
		"1@" + digest + "," + digest + "," + digest, "1@" + strings.ToUpper(digest) + "," + digest} {
		if _, err := parseRelease(bad); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// bootstrapText is a template of which an Envoy without Istio's extensions loads all but one.
const bootstrapText = `{"node": {}, "bootstrap_extensions": [
    {{- if .metadata_discovery }}
    {"name": "metadata_discovery", "typed_config": {"type_url": "type.googleapis.com/istio.workload.BootstrapExtension"}},
    {{- end }}
    {"name": "envoy.bootstrap.internal_listener"}
  ],
  {{- if .stats_flush_interval }}
  "stats_flush_interval": "{{ .stats_flush_interval }}",
  {{- end }}
  "x": 1}`

func TestUpstreamBootstrap(t *testing.T) {
	got, err := upstreamBootstrap(bootstrapText)
	if err != nil || strings.Contains(got, "metadata_discovery") || !strings.Contains(got, `"node": {}, "bootstrap_extensions": [`) ||
		!strings.Contains(got, "{\"name\": \"envoy.bootstrap.internal_listener\"}\n  ],\n  {{- if .stats_flush_interval }}") || strings.Count(got, "{{- end }}") != 1 {
		t.Errorf("%s\n%v", got, err)
	}
	for name, text := range map[string]string{
		"no extensions":          `{"node": {}}`,
		"another one first":      strings.Replace(bootstrapText, "{{- if .metadata_discovery }}", `{"name": "other"}, {{- if .metadata_discovery }}`, 1),
		"one that is Envoy's":    strings.Replace(bootstrapText, "istio.workload.BootstrapExtension", "envoy.extensions.A", 1),
		"a block without an end": `{"bootstrap_extensions": [ {{- if .metadata_discovery }} istio.workload.BootstrapExtension`,
	} {
		if got, err := upstreamBootstrap(text); err == nil {
			t.Errorf("%s passed: %s", name, got)
		}
	}
}

// --ztunnel applies to a lab that a run starts. It is rejected if it would not affect what is
// measured.
func TestFits(t *testing.T) {
	const (
		sidecars = "name: x\nquestion: x\nfactors: {sidecars: [none, both]}\n"
		ambient  = "name: x\nquestion: x\nfactors: {sidecars: [none, both, ambient]}\n"
		waypoint = "name: x\nquestion: x\nfactors: {sidecars: [none, waypoint]}\n"
		control  = "name: x\nquestion: x\ncontrol: {}\nsettings: {ztunnels: 1}\n"
	)
	old := map[string]string{factZtunnel: "old"}
	for name, c := range map[string]struct {
		study, dir string
		has        map[string]string
		want       string // the rejection
	}{
		"no flag":                   {ambient, "", old, ""},
		"no lab":                    {ambient, "new", nil, ""},
		"the lab's":                 {waypoint, "old", old, ""},
		"another":                   {ambient, "new", old, "has ztunnel old, not the one from --ztunnel new"},
		"the lab has none":          {ambient, "new", map[string]string{}, "has no ztunnel, and --ztunnel new cannot add it"},
		"no such folder":            {ambient, "nowhere", nil, "there is nothing in nowhere"},
		"no ambient cell":           {sidecars, "nowhere", nil, "the study has none"},
		"ztunnels that are no real": {control, "new", nil, "the study has none"},
	} {
		err := fitsZtunnel(studytest.Plan(t, c.study), c.dir, c.has, func(dir string) (string, error) {
			if dir == "nowhere" {
				return "", errs.Usage("there is nothing in %s", dir)
			}
			return dir, nil
		})
		refuses(t, name, err, c.want, "")
	}
}

// A lab that is started for a plan has the Envoys that the plan names, and whatever carries its
// requests.
func TestNeeds(t *testing.T) {
	for text, want := range map[string]string{
		"control: {}\nsettings: {proxies: 1}":                                       "",
		"settings: {sidecars: both, rate: 10, connections: 1}":                      "",
		"settings: {sidecars: both, rate: 10}\nfactors: {envoy: [default, 1.39.0]}": "envoy=1.39.0",
		"factors: {sidecars: [none, ambient]}":                                      "ambient=true",
		"factors: {sidecars: [none, waypoint]}":                                     "ambient=true",
	} {
		s := needs(studytest.Plan(t, "name: a\nquestion: b?\n"+text+"\n"), nil)
		var got []string
		for _, name := range slices.Sorted(maps.Keys(s)) {
			got = append(got, name+"="+strings.Join(s[name], " "))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
