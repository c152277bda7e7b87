//go:build integration

package istio

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/must"
)

// These tests use the user's own cache, and fill it if necessary.

func realBuilder(t *testing.T) *components.Builder {
	t.Helper()
	b, err := components.New(components.Options{})
	must.OK(t, err)
	return b
}

// The proxy's image is complete: a sidecar's programs start in it.
func TestRealProxyImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot into an image needs root")
	}
	o := mustOrder(t, nil)
	images, err := o.images(t.Context(), realBuilder(t))
	must.OK(t, err)
	i := slices.IndexFunc(images, func(i components.Image) bool { return i.Ref == proxyRef("") })
	root := t.TempDir()
	unpackImage(t, images[i].Path, root)
	for _, test := range []struct{ command, want string }{
		{"/usr/local/bin/envoy --version", "/" + components.DefaultEnvoy + "/"},
		{"/usr/local/bin/pilot-agent version", components.IstioVersion},
		{"iptables --version", "(nf_tables)"},
		{"iptables-nft-restore --version", "(nf_tables)"},
		{"ip6tables-save --version", "(nf_tables)"},
		{"iptables-legacy --version", "(legacy)"},
		{"nft --version", "nftables v"},
	} {
		cmd := exec.Command("chroot", append([]string{root}, strings.Fields(test.command)...)...)
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v, %q, want %q", test.command, err, out, test.want)
		}
	}
	// The modules used by Istio's rules exist: iptables requests each one's help, and a
	// missing one is an error.
	for _, module := range []string{"-j REDIRECT", "-m owner", "-m tcp", "-m conntrack", "-j TPROXY", "-m mark", "-j CONNMARK"} {
		cmd := exec.Command("chroot", append(append([]string{root, "iptables"}, strings.Fields(module)...), "--help")...)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("iptables %s: %v, %q", module, err, out)
		}
	}
}

// unpackImage unpacks the layers of an image archive.
func unpackImage(t *testing.T, archive, root string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	must.OK(t, err)
	manifest, err := index.IndexManifest()
	must.OK(t, err)
	image, err := index.Image(manifest.Manifests[0].Digest)
	must.OK(t, err)
	layers, err := image.Layers()
	must.OK(t, err)
	for _, l := range layers {
		text, err := l.Uncompressed()
		must.OK(t, err)
		cmd := exec.Command("tar", "-x", "-C", root)
		cmd.Stdin = text
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// The rendered charts contain our settings and the user's, and pinned images by digest.
func TestRealInstallation(t *testing.T) {
	b := realBuilder(t)
	for _, c := range []struct {
		settings mesh.Settings
		want     []string
	}{
		{mesh.Settings{setImages: {built}, setCharts: {"values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms"}}, []string{
			`"image":"docker.io/istio/pilot:` + components.IstioVersion, "PILOT_ENABLE_METADATA_EXCHANGE", "PILOT_ENABLE_ALPN_FILTER", "PILOT_DEBOUNCE_AFTER",
			`"kind":"MutatingWebhookConfiguration"`, `"kind":"ValidatingWebhookConfiguration"`, `"kind":"CustomResourceDefinition"`}},
		{mesh.Settings{setImages: {official}, setTag: {"1.31.1"}}, []string{`"image":"docker.io/istio/pilot:1.31.1`}},
	} {
		installation, err := mustOrder(t, c.settings).installation(t.Context(), b)
		must.OK(t, err)
		text, err := json.Marshal(installation.Stages)
		must.OK(t, err)
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("the installation of %v lacks %s", c.settings, want)
			}
		}
	}
	if _, err := mustOrder(t, mesh.Settings{setImages: {built}, setCharts: {"values.nosuch=1"}}).installation(t.Context(), b); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("an unknown setting: %v", err)
	}
}
