//go:build integration

package components

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// These tests use the user's own cache, and fill it if need be: the first
// run takes as long as `meshtrial lab components build`.

func realBuilder(t *testing.T) (*Builder, *Set) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("components are for Linux on amd64")
	}
	b, err := New(Options{Progress: func(e Event) {
		if e.Phase == PhaseReady || e.Phase == PhaseNote {
			t.Log(e.Component, e.Phase, e.Detail, e.Elapsed)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := b.Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b, set
}

// Every program starts, and says the version that the table says.
func TestRealPrograms(t *testing.T) {
	_, set := realBuilder(t)
	for _, test := range []struct{ program, args, want string }{
		{"etcd", "--version", "etcd Version: " + etcdVersion},
		{"kube-apiserver", "--version", "Kubernetes v" + kubernetesVersion},
		{"kube-controller-manager", "--version", "Kubernetes v" + kubernetesVersion},
		{"kube-scheduler", "--version", "Kubernetes v" + kubernetesVersion},
		{"kubelet", "--version", "Kubernetes v" + kubernetesVersion},
		{"kube-proxy", "--version", "Kubernetes v" + kubernetesVersion},
		{"kubectl", "version --client", "Client Version: v" + kubernetesVersion},
		{"coredns", "-version", "CoreDNS-" + coreDNSVersion},
		{"kwok", "--version", "v" + kwokVersion},
		{"pilot-discovery", "version", istioVersion},
		{"pilot-agent", "version", istioVersion},
		{"envoy", "--version", "/" + DefaultEnvoy + "/"},
		{"containerd", "--version", "containerd"},
		{"ctr", "--version", "ctr"},
		{"runc", "--version", "runc version"},
		{"nft", "--version", "nftables v"},
	} {
		p, ok := set.Program(test.program)
		if !ok {
			t.Errorf("no program %s", test.program)
			continue
		}
		cmd := exec.Command(p.Path, strings.Fields(test.args)...)
		cmd.Env = append(os.Environ(), p.Env...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s %s: %v, %q, want %q", test.program, test.args, err, out, test.want)
		}
	}
	for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
		if !exists(filepath.Join(set.Dir("cni"), plugin)) {
			t.Errorf("no CNI plugin %s in %q", plugin, set.Dir("cni"))
		}
	}
}

// CoreDNS has the plugins that a lab's Corefile may name.
func TestRealCoreDNSPlugins(t *testing.T) {
	_, set := realBuilder(t)
	p, _ := set.Program("coredns")
	out, err := exec.Command(p.Path, "-plugins").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range strings.Fields("errors log ready health kubernetes template forward cache loop rewrite hosts reload prometheus erratic bind") {
		if !slices.Contains(strings.Fields(string(out)), plugin) {
			t.Errorf("CoreDNS lacks %s", plugin)
		}
	}
}

// What was made once is not made again.
func TestRealSecondTimeDoesNothing(t *testing.T) {
	b, first := realBuilder(t)
	images, err := b.Images(t.Context(), ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Manifests(t.Context(), ManifestOptions{}); err != nil {
		t.Fatal(err)
	}
	b.options.Progress = func(e Event) { t.Errorf("%+v", e) }
	second, err := b.Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Programs()) != len(first.Programs()) {
		t.Errorf("%d programs, then %d", len(first.Programs()), len(second.Programs()))
	}
	again, err := b.Images(t.Context(), ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range images {
		if images[i] != again[i] {
			t.Errorf("image %+v, then %+v", images[i], again[i])
		}
	}
	if _, err := b.Manifests(t.Context(), ManifestOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The proxy's image is complete: what a sidecar runs starts inside it.
func TestRealProxyImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot into an image needs root")
	}
	b, _ := realBuilder(t)
	images, err := b.Images(t.Context(), ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, i := range images {
		if i.Ref == ProxyRef("") {
			_, image := extract(t, i.Path)
			unpackImage(t, image, root)
		}
	}
	for _, test := range []struct{ command, want string }{
		{"/usr/local/bin/envoy --version", "/" + DefaultEnvoy + "/"},
		{"/usr/local/bin/pilot-agent version", istioVersion},
		{"iptables --version", "(nf_tables)"},
		{"iptables-nft-restore --version", "(nf_tables)"},
		{"ip6tables-save --version", "(nf_tables)"},
		{"iptables-legacy --version", "(legacy)"},
		{"nft --version", "nftables v"},
	} {
		cmd := exec.Command("chroot", append([]string{root}, strings.Fields(test.command)...)...)
		cmd.Env = []string{searchPath}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v, %q, want %q", test.command, err, out, test.want)
		}
	}
	// The modules that Istio's rules name are there: iptables asks each for
	// its help, and a missing one is an error.
	for _, module := range []string{"-j REDIRECT", "-m owner", "-m tcp", "-m conntrack", "-j TPROXY", "-m mark", "-j CONNMARK"} {
		cmd := exec.Command("chroot", append(append([]string{root, "iptables"}, strings.Fields(module)...), "--help")...)
		cmd.Env = []string{searchPath}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("iptables %s: %v, %q", module, err, out)
		}
	}
}

func unpackImage(t *testing.T, image v1.Image, root string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		rc, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(rc); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = unpackFile(r, h, filepath.Join(root, h.Name))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rc.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func unpackFile(r io.Reader, h *tar.Header, to string) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(to, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, to)
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode())
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	return f.Close()
}

// The charts come out the same each time, with our settings in them.
func TestRealManifests(t *testing.T) {
	b, set := realBuilder(t)
	made, err := b.Manifests(t.Context(), ManifestOptions{Set: []string{"values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(made.CRDs, []byte("\nkind: CustomResourceDefinition\n")); n < 10 {
		t.Errorf("%d CRDs", n)
	}
	if bytes.Contains(made.Istio, []byte("\nkind: CustomResourceDefinition\n")) {
		t.Error("CRDs among the rest")
	}
	for _, want := range []string{
		"image: \"docker.io/istio/pilot:" + IstioTag + "\"", "PILOT_ENABLE_METADATA_EXCHANGE", "PILOT_ENABLE_ALPN_FILTER",
		"PILOT_DEBOUNCE_AFTER", "\nkind: MutatingWebhookConfiguration\n", "\nkind: ValidatingWebhookConfiguration\n",
	} {
		if !bytes.Contains(made.Istio, []byte(want)) {
			t.Errorf("the manifests lack %q", want)
		}
	}
	renderer, _ := set.Program("manifests")
	for range 3 {
		dir := t.TempDir()
		settings, err := ManifestOptions{Set: []string{"values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms"}}.settings()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(renderer.Path, append([]string{dir}, settings...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if again, err := os.ReadFile(filepath.Join(dir, "istio.yaml")); err != nil || !bytes.Equal(again, made.Istio) {
			t.Fatalf("another rendering differs (%v)", err)
		}
	}
	pilot, proxy := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	pinned, err := b.Manifests(t.Context(), ManifestOptions{Official: true, ByReference: true, Tag: "1.31.1@" + pilot + "," + proxy})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: \"docker.io/istio/pilot:1.31.1@" + pilot + "\"", "\"image\": \"docker.io/istio/proxyv2:1.31.1@" + proxy + "\""} {
		if !bytes.Contains(pinned.Istio, []byte(want)) {
			t.Errorf("the manifests of pinned images lack %q", want)
		}
	}
	if _, err := b.Manifests(t.Context(), ManifestOptions{Set: []string{"values.nosuch=1"}}); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("an unknown setting: %v", err)
	}
}
