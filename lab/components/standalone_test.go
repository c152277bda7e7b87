package components

import (
	"debug/elf"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// standalone writes the image of fake entries.
func standalone(t *testing.T, entries map[string]entry, program string) Standalone {
	t.Helper()
	p, err := standalonePlan(program, entries)
	must.OK(t, err)
	image, err := p.image((*layer).compressed)
	must.OK(t, err)
	out, err := p.save(t.Context(), image, filepath.Join(t.TempDir(), "image.tar"))
	must.OK(t, err)
	return out
}

func TestStandalone(t *testing.T) {
	c := cache{dir: t.TempDir()}
	entries := fakeEntries(t, c)
	program := staticProgram(t, elf.EM_X86_64, "program") // whatever this machine's processor
	made := standalone(t, entries, program)
	ref, image := extract(t, made.Path)
	digest, err := image.Digest()
	must.OK(t, err)
	info, err := os.Stat(made.Path)
	if err != nil || ref != StandaloneRef || made.Digest != digest.String() || made.Size != info.Size() || made.Unpacked == 0 {
		t.Errorf("%s was written as %+v, %v", ref, made, err)
	}
	config, err := image.ConfigFile()
	must.OK(t, err)
	if c := config.Config; !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/meshtrial"}) || c.User != "" || c.WorkingDir != "/results" || len(c.Volumes) != 2 {
		t.Errorf("configuration %+v", c)
	}
	for path, want := range map[string]string{
		"etc/os-release":                    "ID=\"fake\"\n",
		"usr/bin/nft":                       "nft",
		"etc/ssl/certs/ca-certificates.crt": "A\nB\n",
		"usr/local/share/meshtrial/entries/" + filepath.Base(entries["node"].dir) + "/coredns":    "node coredns",
		"usr/local/share/meshtrial/entries/" + filepath.Base(entries["debian"].dir) + "/bin/runc": "runc",
	} {
		if got, _ := fileIn(t, image, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	for _, dir := range []string{"tmp", "run", "var/lib", "var/log", "results", "meshtrial"} {
		if _, h := fileIn(t, image, dir); h == nil || h.Typeflag != '5' {
			t.Errorf("no folder %s: %+v", dir, h)
		}
	}
	if got, _ := fileIn(t, image, "usr/local/bin/meshtrial"); !strings.HasSuffix(got, "program") {
		t.Error("the program is another")
	}
	if again := standalone(t, entries, program); again.Digest != made.Digest || again.Unpacked != made.Unpacked {
		t.Errorf("made twice: %+v, then %+v", made, again)
	}
	// What docker load reads is the same image.
	tag, err := name.NewTag(StandaloneRef)
	must.OK(t, err)
	loaded, err := tarball.ImageFromPath(made.Path, &tag)
	must.OK(t, err)
	want, err := image.ConfigName()
	must.OK(t, err)
	if got, err := loaded.ConfigName(); err != nil || got != want {
		t.Errorf("docker load finds %s, %v, want %s", got, err, want)
	}
}

// Entries of the image are found where nothing can be made, and the debian one under the
// release that the image says it is.
func TestStandaloneCacheIsUsed(t *testing.T) {
	base := t.TempDir()
	b := &Builder{cache: cache{dir: base}, archive: fakeArchive{}, source: fakeSource(helloProgram)}
	must.OK(t, must.Err(b.Ensure(t.Context(), "containerd")))
	t.Setenv("MESHTRIAL_BASE_CACHE", base)
	other, err := New(Options{CacheDir: filepath.Join(t.TempDir(), "cache")})
	must.OK(t, err)
	other.archive = fakeArchive{missing: "containerd"}
	set, err := other.Ensure(t.Context(), "containerd")
	must.OK(t, err)
	if p, _ := set.Program("containerd"); !strings.HasPrefix(p.Path, base) {
		t.Errorf("containerd is at %s", p.Path)
	}
	if exists(other.CacheDir()) {
		t.Error("something was written")
	}
	// A damaged entry of the base is made anew beside it.
	p, _ := set.Program("containerd")
	must.OK(t, os.WriteFile(p.Path, []byte("damaged"), 0o755))
	other.archive = fakeArchive{}
	set, err = other.Ensure(t.Context(), "containerd")
	must.OK(t, err)
	if p, _ := set.Program("containerd"); !strings.HasPrefix(p.Path, other.CacheDir()) {
		t.Errorf("containerd is at %s", p.Path)
	}
}

// The image says that it is the release that its packages' entry is keyed by.
func FuzzRelease(f *testing.F) {
	f.Add("ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nPRETTY_NAME=\"Debian\"\n")
	f.Add("ID=\"\nID\n=x\nVERSION_ID=\"\"a\\\"\" \r\n")
	f.Fuzz(func(t *testing.T, text string) {
		want := identityOf([]byte(text))
		e := entry{manifest: manifest{Inputs: want}}
		if got := identityOf([]byte(e.release())); !maps.Equal(got, want) {
			t.Errorf("%q is read as %v, and written and read again as %v", text, want, got)
		}
	})
}

func TestStandaloneRefuses(t *testing.T) {
	b := &Builder{cache: cache{dir: t.TempDir()}}
	to := filepath.Join(t.TempDir(), "image.tar")
	other := map[string]elf.Machine{"amd64": elf.EM_AARCH64, "arm64": elf.EM_X86_64}[runtime.GOARCH]
	if _, err := b.Standalone(t.Context(), staticProgram(t, other, "x"), to); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "built for "+runtime.GOARCH) {
		t.Errorf("another processor's program: %v", err)
	}
	if exists(to) {
		t.Error("it was written")
	}
}
