package components

import (
	"context"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// standalone writes the image of fake entries.
func standalone(t *testing.T, entries map[string]entry, program string) Standalone {
	t.Helper()
	p, err := standalonePlan(program, "arm64", entries)
	must.OK(t, err)
	image, err := p.image(compressed(t.Context()))
	must.OK(t, err)
	out, err := p.save(t.Context(), image, filepath.Join(t.TempDir(), "image.tar"))
	must.OK(t, err)
	return out
}

func TestStandalone(t *testing.T) {
	c := cache{dir: t.TempDir()}
	entries := fakeEntries(t, c)
	program := staticProgram(t, elf.EM_X86_64, "program") // whatever this machine's architecture
	made := standalone(t, entries, program)
	ref, image := extract(t, made.Path)
	digest, err := image.Digest()
	must.OK(t, err)
	info, err := os.Stat(made.Path)
	if err != nil || ref != StandaloneRef || made.Digest != digest.String() || made.Platform != "linux/arm64" || made.Size != info.Size() || made.Unpacked == 0 {
		t.Errorf("%s was written as %+v, %v", ref, made, err)
	}
	config, err := image.ConfigFile()
	must.OK(t, err)
	if config.Architecture != "arm64" {
		t.Errorf("it is for %s", config.Architecture)
	}
	if c := config.Config; !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/meshtrial"}) || c.User != "" || c.WorkingDir != "/results" || len(c.Volumes) != 2 {
		t.Errorf("configuration %+v", c)
	}
	for path, want := range map[string]string{
		"etc/os-release":                    "ID=\"fake\"\n",
		"usr/bin/nft":                       "nft",
		"usr/lib/libseccomp2.so.1.0":        "libseccomp2",
		"etc/ssl/certs/ca-certificates.crt": "A\nB\n",
		"usr/local/share/meshtrial/entries/" + filepath.Base(entries["node"].dir) + "/coredns":    "node coredns",
		"usr/local/share/meshtrial/entries/" + filepath.Base(entries["debian"].dir) + "/bin/runc": "runc",
	} {
		if got, _ := fileIn(t, image, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if _, h := fileIn(t, image, "var/run"); h == nil || h.Linkname != "/run" {
		t.Errorf("/var/run is %+v", h)
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
	// docker load reads the same image.
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

// The image's entries are found where nothing can be made, and the Debian entry by the
// release that the image states.
func TestStandaloneCacheIsUsed(t *testing.T) {
	base := t.TempDir()
	b := &Builder{cache: cache{dir: base}, archive: fakeArchive{}, source: fakeSource(helloProgram)}
	must.OK(t, must.Err(b.Ensure(t.Context(), "containerd")))
	t.Setenv(baseCacheVariable, base)
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
	// A damaged entry of the base is made again next to it.
	p, _ := set.Program("containerd")
	must.OK(t, os.WriteFile(p.Path, []byte("damaged"), 0o755))
	other.archive = fakeArchive{}
	set, err = other.Ensure(t.Context(), "containerd")
	must.OK(t, err)
	if p, _ := set.Program("containerd"); !strings.HasPrefix(p.Path, other.CacheDir()) {
		t.Errorf("containerd is at %s", p.Path)
	}
}

// The base cache must meet the same conditions as the cache, and nothing in it changes.
func TestBaseCache(t *testing.T) {
	base, own := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	link := filepath.Join(t.TempDir(), "link")
	must.OK(t, os.Symlink(base, link))
	t.Setenv(baseCacheVariable, link)
	b, err := New(Options{CacheDir: own})
	if err != nil || b.cache.base != base {
		t.Fatalf("%+v, %v", b, err)
	}
	program := staticProgram(t, elf.EM_X86_64, "program")
	made, err := (&Builder{cache: cache{dir: base}}).RolesArchive(t.Context(), program)
	must.OK(t, err)
	entry, old := filepath.Dir(made[0].Path), time.Unix(1e9, 0)
	must.OK(t, os.Chtimes(entry, old, old))
	found, err := b.RolesArchive(t.Context(), program)
	must.OK(t, err)
	info, err := os.Stat(entry)
	must.OK(t, err)
	if found[0].Path != made[0].Path || !info.ModTime().Equal(old) {
		t.Errorf("%s was used at %s", found[0].Path, info.ModTime())
	}
	must.OK(t, os.Chmod(base, 0o777))
	if _, err := New(Options{CacheDir: own}); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), baseCacheVariable) {
		t.Errorf("everybody may write to it: %v", err)
	}
}

// The image states the release by which its packages' entry is keyed.
func FuzzRelease(f *testing.F) {
	f.Add("ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nPRETTY_NAME=\"Debian\"\n")
	f.Add("ID=\"\nID\n=x\nVERSION_ID=\"\"a\\\"\" \r\n")
	f.Fuzz(func(t *testing.T, text string) {
		want := identityOf([]byte(text), "arm64")
		e := entry{manifest: manifest{Inputs: want}}
		if got := identityOf([]byte(e.release()), "arm64"); !maps.Equal(got, want) {
			t.Errorf("%q is read as %v, and written and read again as %v", text, want, got)
		}
	})
}

// An unwritable target, or a cancellation, is noticed before the work is done.
func TestStandaloneRefuses(t *testing.T) {
	b, dir := &Builder{cache: cache{dir: filepath.Join(t.TempDir(), "cache")}}, t.TempDir()
	program := staticProgram(t, elf.EM_X86_64, "program")
	for _, to := range []string{dir, filepath.Join(dir, "missing", "image.tar")} {
		if _, err := b.Standalone(t.Context(), program, to); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), to[:len(dir)]) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if exists(b.cache.dir) {
		t.Error("components were made first")
	}
	if _, err := b.Standalone(t.Context(), filepath.Join(dir, "none"), filepath.Join(dir, "image.tar")); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "image of a lab") {
		t.Errorf("no program: %v", err)
	}
	must.OK(t, checkOut(filepath.Join(dir, "image.tar")))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compressed(ctx)(newLayer(content{Name: "a", Mode: 0o644, Data: "a"})); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
