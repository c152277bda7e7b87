package components

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeEntries makes an entry of every unit that images are assembled from.
func fakeEntries(t *testing.T, c cache) map[string]entry {
	t.Helper()
	entries := map[string]entry{}
	add := func(r recipe) {
		e, err := c.ensure(t.Context(), r)
		must.OK(t, err)
		entries[r.name] = e
	}
	for name, files := range map[string][]string{
		"node": {"pause", "coredns"}, "istio": {"pilot-discovery"}, "agent": {"pilot-agent"},
		"envoy-1.40.0": {"envoy"}, "envoy-1.39.0": {"envoy"},
	} {
		add(recipe{name: name, inputs: map[string]any{}, make: func(ctx context.Context, dir string) (v []Version, err error) {
			for _, f := range files {
				text := name + " " + f
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, f), []byte(text), 0o755))
			}
			return nil, err
		}})
	}
	add(debianRecipe(fakeArchive{}, func(string) {}))
	return entries
}

func digestOf(image v1.Image) string {
	h, err := image.Digest()
	if err != nil {
		return err.Error()
	}
	return h.String()
}

// extract reads an archive as an OCI layout, as other programs would.
func extract(t *testing.T, archive string) (ref string, image v1.Image) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	must.OK(t, err)
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index %+v, %v", manifest, err)
	}
	d := manifest.Manifests[0]
	image, err = index.Image(d.Digest)
	must.OK(t, err)
	return d.Annotations["io.containerd.image.name"], image
}

// fileIn finds a file in an image's layers.
func fileIn(t *testing.T, image v1.Image, path string) (text string, h *tar.Header) {
	t.Helper()
	layers, err := image.Layers()
	must.OK(t, err)
	for _, l := range layers {
		rc, err := l.Uncompressed()
		must.OK(t, err)
		defer rc.Close()
		for r := tar.NewReader(rc); ; {
			next, err := r.Next()
			if err == io.EOF {
				break
			}
			must.OK(t, err)
			if strings.TrimSuffix(next.Name, "/") == path {
				b, err := io.ReadAll(r)
				must.OK(t, err)
				return string(b), next
			}
		}
	}
	return "", nil
}

// checkImage checks an image's manifest, configuration and layers against each other.
// (Package validate does this too, but does not accept uncompressed layers.)
func checkImage(t *testing.T, image v1.Image) {
	t.Helper()
	config, err1 := image.ConfigFile()
	manifest, err2 := image.Manifest()
	layers, err3 := image.Layers()
	must.OK(t, errors.Join(err1, err2, err3))
	if config.RootFS.Type != "layers" || len(config.RootFS.DiffIDs) != len(layers) || len(config.History) != len(layers) {
		t.Errorf("configuration %+v does not go with %d layers", config.RootFS, len(layers))
	}
	for i, l := range layers {
		r, err := l.Compressed()
		must.OK(t, err)
		got, size, err := v1.SHA256(r)
		must.OK(t, errors.Join(err, r.Close()))
		if got != manifest.Layers[i].Digest || size != manifest.Layers[i].Size || got != config.RootFS.DiffIDs[i] {
			t.Errorf("layer %d is %s, the manifest says %+v and the configuration %s", i, got, manifest.Layers[i], config.RootFS.DiffIDs[i])
		}
	}
	if raw, err := image.RawConfigFile(); err != nil || int64(len(raw)) != manifest.Config.Size {
		t.Errorf("the configuration has %d bytes, the manifest says %d", len(raw), manifest.Config.Size)
	}
}

// examplePlans returns an image with a program, and two with the system's files that
// differ in their last layer.
func examplePlans() []Plan {
	proxy := func(ref, envoy string) Plan {
		return Plan{Ref: ref, System: true, Config: v1.Config{Entrypoint: []string{"/agent"}},
			Layers: [][]File{{{Name: "agent", Mode: 0o755, Program: "pilot-agent"}, {Name: "etc/text", Mode: 0o644, Data: "text"}}, {{Name: "envoy", Mode: 0o755, Program: envoy}}}}
	}
	return []Plan{{Ref: "x/control:1", Layers: [][]File{{{Name: "control", Mode: 0o755, Program: "pilot-discovery"}}}, Config: v1.Config{Entrypoint: []string{"/control"}, User: "1"}},
		proxy("x/proxy:1", "envoy"), proxy("x/proxy:2", "envoy@1.39.0")}
}

func allPlans(t *testing.T, entries map[string]entry) []plan {
	t.Helper()
	resolved, err := resolve(entries, examplePlans())
	must.OK(t, err)
	return append(labPlans(entries), resolved...)
}

func TestImages(t *testing.T) {
	c := cache{dir: t.TempDir()}
	entries := fakeEntries(t, c)
	roles, err := rolesPlan(staticProgram(t, elf.EM_X86_64, "roles"))
	must.OK(t, err)
	b := &Builder{cache: c}
	images := map[string]v1.Image{}
	for _, p := range append(allPlans(t, entries), roles) {
		made, err := b.image(t.Context(), newMeter(nil), p.recipe(newMeter(nil)))
		must.OK(t, err)
		ref, image := extract(t, made.Path)
		checkImage(t, image)
		digest, err := image.Digest()
		if err != nil || ref != p.ref || made.Ref != ref || made.Digest != digest.String() || made.Size == 0 {
			t.Errorf("image %+v was written as %s %s, %v", made, ref, digest, err)
		}
		images[ref] = image
	}
	for _, test := range []struct{ ref, user, entry, path, text string }{
		{PauseRef, "65535:65535", "/pause", "pause", "node pause"},
		{CoreDNSRef, "", "/coredns", "coredns", "node coredns"},
		{RolesRef, "65532:65532", "/usr/local/bin/meshtrial", "usr/local/bin/meshtrial", "roles"},
		{"x/control:1", "1", "/control", "control", "istio pilot-discovery"},
		{"x/control:1", "1", "/control", "etc/ssl/certs/ca-certificates.crt", "A\nB\n"},
		{"x/proxy:1", "", "/agent", "envoy", "envoy-1.40.0 envoy"},
		{"x/proxy:2", "", "/agent", "envoy", "envoy-1.39.0 envoy"},
		{"x/proxy:1", "", "/agent", "etc/text", "text"},
		{"x/proxy:1", "", "/agent", "usr/lib/x86_64-linux-gnu/libmnl0.so.1.0", "libmnl0"},
	} {
		image := images[test.ref]
		if image == nil {
			t.Errorf("no image %s", test.ref)
			continue
		}
		config, err := image.ConfigFile()
		must.OK(t, err)
		if config.Config.User != test.user || !slices.Equal(config.Config.Entrypoint, []string{test.entry}) || config.OS != "linux" || config.Architecture != runtime.GOARCH {
			t.Errorf("%s has the configuration %+v", test.ref, config)
		}
		if text, _ := fileIn(t, image, test.path); strings.TrimPrefix(text, string(elftest.Header(t, elf.EM_X86_64, ""))) != test.text {
			t.Errorf("%s has %q at %s, want %q", test.ref, text, test.path, test.text)
		}
	}
	proxy := images["x/proxy:1"]
	if passwd, _ := fileIn(t, proxy, "etc/passwd"); !strings.Contains(passwd, ":1337:") {
		t.Errorf("the proxy's users are %q, want one with uid 1337", passwd)
	}
	if _, h := fileIn(t, proxy, "usr/sbin/iptables"); h == nil || h.Linkname != "iptables-nft" {
		t.Errorf("iptables in the proxy is %+v", h)
	}
	if _, h := fileIn(t, proxy, "tmp"); h == nil || h.Mode != 0o1777 {
		t.Errorf("/tmp in the proxy is %+v", h)
	}

	// The two proxies differ only in Envoy, so an import copies the rest once.
	one, err1 := proxy.Layers()
	other, err2 := images["x/proxy:2"].Layers()
	if err := errors.Join(err1, err2); err != nil || len(one) != 4 || len(other) != 4 {
		t.Fatalf("proxies have %d and %d layers, %v", len(one), len(other), err)
	}
	for i := range one {
		a, err1 := one[i].Digest()
		b, err2 := other[i].Digest()
		if errors.Join(err1, err2) != nil || (a == b) != (i < 3) {
			t.Errorf("layer %d is %s and %s", i, a, b)
		}
	}
}

// The same inputs give the same image, on any machine and at any time.
func TestImagesAreDeterministic(t *testing.T) {
	var seen []string
	for range 2 {
		c := cache{dir: t.TempDir()}
		all := allPlans(t, fakeEntries(t, c))
		b := &Builder{cache: c}
		var digests string
		for _, p := range all {
			made, err := b.image(t.Context(), newMeter(nil), p.recipe(newMeter(nil)))
			must.OK(t, err)
			raw, err := os.ReadFile(made.Path)
			must.OK(t, err)
			digests += made.Ref + made.Digest + string(raw)
		}
		seen = append(seen, digests)
	}
	if seen[0] != seen[1] {
		t.Error("two assemblies differ")
	}
}

func TestLayerOrder(t *testing.T) {
	l := newLayer(content{Name: "a/b/c", Mode: 0o644, Data: "x"}, content{Name: "a.d", Mode: 0o644}, content{Name: "a/b", Mode: fs.ModeDir | 0o700})
	var b bytes.Buffer
	must.OK(t, l.write(&b))
	var names []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
	}
	if want := []string{"a/", "a.d", "a/b/", "a/b/c"}; !slices.Equal(names, want) {
		t.Errorf("order %q, want %q: folders first, each once", names, want)
	}
}

// staticProgram makes a program that needs no libraries and does nothing.
func staticProgram(t *testing.T, machine elf.Machine, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meshtrial")
	must.OK(t, os.WriteFile(path, elftest.Header(t, machine, text), 0o755))
	return path
}

// A pull returns what was pushed: compressed layers with the program, and the same digest
// each time.
func TestRolesImage(t *testing.T) {
	_, hub := serveRegistry(t)
	to, err := name.NewTag(hub + "/meshtrial:v1")
	must.OK(t, err)
	text := strings.Repeat("roles ", 10_000)
	for machine, arch := range map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"} {
		program := staticProgram(t, machine, text)
		made, err := RolesImage(t.Context(), program)
		must.OK(t, err)
		again, err := RolesImage(t.Context(), program)
		if err != nil || digestOf(again) != digestOf(made) {
			t.Errorf("made twice it is %s and %s, %v", digestOf(made), digestOf(again), err)
		}
		must.OK(t, remote.Write(to, made))
		image, err := remote.Image(to)
		must.OK(t, err)
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		if digestOf(image) != digestOf(made) {
			t.Errorf("pushed was %s, pulled is %s", digestOf(made), digestOf(image))
		}
		if got, h := fileIn(t, image, "usr/local/bin/meshtrial"); got != string(elftest.Header(t, machine, text)) || h.Mode != 0o755 {
			t.Errorf("the program inside has %d bytes, %+v", len(got), h)
		}
		config, err := image.ConfigFile()
		must.OK(t, err)
		if config.Architecture != arch || config.OS != "linux" || config.Config.User != userRoles ||
			!slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/meshtrial"}) || !slices.Equal(config.Config.Env, []string{searchPath}) {
			t.Errorf("%s has the configuration %+v", arch, config)
		}
		manifest, err := image.Manifest()
		must.OK(t, err)
		var size int64
		for _, l := range manifest.Layers {
			size += l.Size
			if l.MediaType != types.OCILayer {
				t.Errorf("a layer is of the type %s", l.MediaType)
			}
		}
		if size > int64(len(text)/2) {
			t.Errorf("its layers have %d bytes, the program %d", size, len(text))
		}
	}
}

// The archive and the image in a registry contain the same files.
func TestRolesArchive(t *testing.T) {
	b := &Builder{cache: cache{dir: t.TempDir()}}
	program := staticProgram(t, elf.EM_X86_64, "roles")
	images, err := b.RolesArchive(t.Context(), program)
	if err != nil || len(images) != 1 || images[0].Ref != RolesRef {
		t.Fatalf("made %+v, %v", images, err)
	}
	_, archived := extract(t, images[0].Path)
	checkImage(t, archived)
	pushed, err := RolesImage(t.Context(), program)
	must.OK(t, err)
	one, err1 := archived.ConfigFile()
	other, err2 := pushed.ConfigFile()
	if err1 != nil || err2 != nil || !slices.Equal(one.RootFS.DiffIDs, other.RootFS.DiffIDs) || one.Architecture != other.Architecture {
		t.Errorf("the archive holds %+v, the registry %+v", one, other)
	}
}

func TestCheckStatic(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must.OK(t, os.WriteFile(text, []byte("text"), 0o755))
	if _, err := checkStatic(text); errs.Code(err) != errs.CodeUsage {
		t.Errorf("no program: %v", err)
	}
	if _, err := checkStatic(staticProgram(t, elf.EM_MIPS, "")); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "EM_MIPS") {
		t.Errorf("another processor: %v", err)
	}
	if _, err := os.Stat("/bin/ls"); err != nil {
		t.Skip("/bin/ls is not dynamically linked")
	}
	if _, err := checkStatic("/bin/ls"); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "CGO_ENABLED=0") {
		t.Errorf("dynamic program: %v", err)
	}
}
