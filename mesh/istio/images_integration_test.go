//go:build integration

package istio

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
)

// These tests use the user's own cache, and fill it if need be.

func realBuilder(t *testing.T) *components.Builder {
	t.Helper()
	b, err := components.New(components.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The proxy's image is complete: what a sidecar runs starts inside it.
func TestRealProxyImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot into an image needs root")
	}
	images, err := mustOrder(t, nil).images(t.Context(), realBuilder(t))
	if err != nil {
		t.Fatal(err)
	}
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
	// The modules that Istio's rules name are there: iptables asks each for
	// its help, and a missing one is an error.
	for _, module := range []string{"-j REDIRECT", "-m owner", "-m tcp", "-m conntrack", "-j TPROXY", "-m mark", "-j CONNMARK"} {
		cmd := exec.Command("chroot", append(append([]string{root, "iptables"}, strings.Fields(module)...), "--help")...)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("iptables %s: %v, %q", module, err, out)
		}
	}
}

// unpackImage unpacks the layers of an image's archive, which are not compressed.
func unpackImage(t *testing.T, archive, root string) {
	t.Helper()
	blobs := map[string][]byte{}
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		text, err2 := io.ReadAll(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		blobs["sha256:"+filepath.Base(h.Name)], blobs[h.Name] = text, text
	}
	type descriptors []struct {
		Digest string `json:"digest"`
	}
	var index struct {
		Manifests descriptors `json:"manifests"`
	}
	var manifest struct {
		Layers descriptors `json:"layers"`
	}
	err = json.Unmarshal(blobs["index.json"], &index)
	if err == nil {
		err = json.Unmarshal(blobs[index.Manifests[0].Digest], &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range manifest.Layers {
		cmd := exec.Command("tar", "-x", "-C", root)
		cmd.Stdin = strings.NewReader(string(blobs[l.Digest]))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// The charts come with our settings in them, and the user's; pinned images by their digests.
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
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(installation.Stages)
		if err != nil {
			t.Fatal(err)
		}
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
