package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/meshtrial/meshtrial/testing/must"
)

var released = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// An archive has the same bytes whenever and by whomever it is made.
func TestArchive(t *testing.T) {
	var sums [2][sha256.Size]byte
	for i := range sums {
		c := commit{dir: t.TempDir(), time: released}
		documents, program, to := t.TempDir(), filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "a.tar.gz")
		must.OK(t, errors.Join(c.document(documents), os.WriteFile(program, []byte("program"), []os.FileMode{0o700, 0o644}[i]),
			os.WriteFile(filepath.Join(c.dir, "README.md"), []byte("read"), 0o600)))
		must.OK(t, c.archive(to, "top", program, documents))
		b, err := os.ReadFile(to)
		must.OK(t, err)
		sums[i] = sha256.Sum256(b)
		files := contents(t, to)
		if p := files["top/meshtrial"]; p.text != "program" || p.header.Mode != 0o755 || !p.header.ModTime.Equal(released) {
			t.Errorf("the program is %q, %+v", p.text, p.header)
		}
		for name, part := range map[string]string{
			"top/README.md":                           "read",
			"top/man/man1/meshtrial.1":                `.TH "MESHTRIAL" "1" "Nov 2026"`,
			"top/man/man1/meshtrial-lab-components.1": "Debian packages",
			"top/completions/meshtrial.bash":          "complete ",
			"top/completions/_meshtrial":              "#compdef meshtrial",
			"top/completions/meshtrial.fish":          "complete -c meshtrial",
		} {
			if !strings.Contains(files[name].text, part) {
				t.Errorf("%s has no %q", name, part)
			}
		}
		if _, there := files["top/LICENSE"]; there {
			t.Error("a license that the commit does not have")
		}
	}
	if sums[0] != sums[1] {
		t.Error("the same content made two archives")
	}
}

type member struct {
	header *tar.Header
	text   string
}

func contents(t *testing.T, path string) map[string]member {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.OK(t, err)
	files := map[string]member{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.OK(t, err)
		b, err := io.ReadAll(r)
		must.OK(t, err)
		files[h.Name] = member{h, string(b)}
	}
}

func TestBill(t *testing.T) {
	to := filepath.Join(t.TempDir(), "bill.json")
	must.OK(t, writeBill(to, &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.org/m", Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
			{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/c", Version: "v2.0.0"}},
		}}, released))
	f, err := os.Open(to)
	must.OK(t, err)
	defer f.Close()
	var bill cdx.BOM
	must.OK(t, cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bill))
	if m := bill.Metadata; m.Timestamp != "2026-11-30T10:00:00Z" || m.Component.PackageURL != "pkg:golang/example.org/m@v1.2.3" || m.Component.Type != cdx.ComponentTypeApplication {
		t.Errorf("it is the bill of %+v, %s", m.Component, m.Timestamp)
	}
	var got []string
	for _, c := range *bill.Components {
		got = append(got, c.PackageURL)
	}
	if want := "pkg:golang/std@1.26.8 pkg:golang/example.org/a@v1.0.0 pkg:golang/example.org/c@v2.0.0"; strings.Join(got, " ") != want {
		t.Errorf("it lists %s, want %s", got, want)
	}
	if h := (*bill.Components)[1].Hashes; h == nil || (*h)[0].Value != "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" {
		t.Errorf("the digest is %+v", h)
	}
}

// Notes start after the last release, and the commit is what is released.
func TestNotes(t *testing.T) {
	repository := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		must.OK(t, must.Err(output(t.Context(), repository, "git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.org"}, args...)...)))
	}
	notes := func() string {
		t.Helper()
		c, err := clone(t.Context(), repository, filepath.Join(t.TempDir(), "source"))
		must.OK(t, err)
		if _, err := os.Stat(filepath.Join(c.dir, "stray")); err == nil {
			t.Error("the clone has a file that no commit has")
		}
		text, err := c.notes(t.Context())
		must.OK(t, err)
		return text
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "Begin")
	must.OK(t, os.WriteFile(filepath.Join(repository, "stray"), nil, 0o644))
	if got, want := notes(), "Changes since the first commit:\n\n- Begin\n"; got != want {
		t.Errorf("without a tag %q, want %q", got, want)
	}
	git("tag", "v1.0.0")
	git("commit", "--quiet", "--allow-empty", "-m", "Mend it", "-m", "Since it was broken.")
	git("commit", "--quiet", "--allow-empty", "-m", "Polish it")
	git("tag", "v1.1.0") // the release that the notes are for
	if got, want := notes(), "Changes since v1.0.0:\n\n- Polish it\n- Mend it\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "b"), []byte("b"), 0o644), os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o644), writeSums(dir)))
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	must.OK(t, err)
	if want := fmt.Sprintf("%x  a\n%x  b\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Only a release is replaced, and only once the next one is complete.
func TestReleaseReplaces(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "dir")
	must.OK(t, os.Mkdir(dir, 0o755))
	must.OK(t, checkReplaceable(dir))
	must.OK(t, checkReplaceable(filepath.Join(parent, "new")))
	must.OK(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644))
	if err := checkReplaceable(filepath.Join(dir, "mine")); err == nil {
		t.Error("a file counts as a release")
	}
	if err := release(t.Context(), t.TempDir(), dir); err == nil || !strings.Contains(err.Error(), sumsFile) {
		t.Errorf("a folder of files: %v", err)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, sumsFile), nil, 0o644))
	if err := release(t.Context(), t.TempDir(), dir); err == nil || strings.Contains(err.Error(), sumsFile) {
		t.Errorf("no repository to release: %v", err)
	}
	for folder, want := range map[string]int{dir: 2, parent: 1} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) != want {
			t.Errorf("%s has %v, %v", folder, entries, err)
		}
	}
}
