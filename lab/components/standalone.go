package components

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components/push"
)

// StandaloneRef is the image that [Builder.Standalone] makes: the program, all components of a lab,
// and the parts of Debian that these need.
const StandaloneRef = "docker.io/meshtrial/lab:latest"

// Folders of that image. Results belongs to the user; scratch holds the lab's state and additions
// to the cache, on a file system that supports overlays.
const (
	standaloneCache   = "usr/local/share/meshtrial"
	standaloneResults = "/results"
	standaloneScratch = "/meshtrial"
)

// Standalone describes a written image.
type Standalone struct {
	Image
	Platform string `json:"platform"` // as Docker calls it: linux/arm64
	Unpacked int64  `json:"unpacked_bytes"`
}

// Standalone writes the archive of [StandaloneRef] to a file, with the components that labs have by
// default; it makes missing ones. It omits the images of a lab's pods, which are assembled from the
// components when a lab starts. program must have this program's pins, which a lab uses to find
// its components. The image is for program's processor.
func (b *Builder) Standalone(ctx context.Context, program, to string) (Standalone, error) {
	if err := checkOut(to); err != nil {
		return Standalone{}, err
	}
	arch, err := checkStatic(program)
	if err != nil {
		return Standalone{}, fmt.Errorf("the image of a lab: %w", err)
	}
	if arch != b.options.Arch {
		o := b.options
		o.Arch = arch
		if b, err = New(o); err != nil {
			return Standalone{}, err
		}
	}
	m := newMeter(b.options.Progress)
	entries, err := b.componentsOf(ctx, m)
	if err != nil {
		return Standalone{}, err
	}
	p, err := standalonePlan(program, arch, entries)
	if err != nil {
		return Standalone{}, err
	}
	m.step(StandaloneRef, PhaseAssemble, 0, "")
	image, err := p.image(compressed(ctx))
	if err != nil {
		return Standalone{}, err
	}
	return p.save(ctx, image, to)
}

// checkOut rejects a path where no file can be created, before anything is made for it.
func checkOut(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errs.Usage("%s is a folder, not a file", path)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".meshtrial-*")
	if err != nil {
		return errs.Usage("cannot create a file in %s: %v", dir, errors.Unwrap(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// save writes the image to a file, which appears once it is complete.
func (p plan) save(ctx context.Context, image v1.Image, to string) (Standalone, error) {
	f, err := os.CreateTemp(filepath.Dir(to), ".meshtrial-*")
	if err != nil {
		return Standalone{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := push.Archive(stopping{ctx, f}, p.ref, image); err != nil {
		return Standalone{}, err
	}
	out := Standalone{Image: Image{Ref: p.ref, Path: to}, Platform: "linux/" + p.arch}
	digest, err := image.Digest()
	if err != nil {
		return Standalone{}, err
	}
	out.Digest = digest.String()
	for _, l := range p.layers {
		for _, c := range l.contents {
			size, err := c.size()
			if err != nil {
				return Standalone{}, err
			}
			out.Unpacked += size
		}
	}
	info, err := f.Stat()
	if err != nil {
		return Standalone{}, err
	}
	out.Size = info.Size()
	if err := f.Chmod(0o644); err != nil {
		return Standalone{}, err
	}
	if err := f.Close(); err != nil {
		return Standalone{}, err
	}
	return out, os.Rename(f.Name(), to)
}

// standalonePlan has a layer for Debian's files, a layer for each entry of the cache, and finally
// one for the program, which changes most often.
func standalonePlan(program, arch string, entries map[string]entry) (plan, error) {
	system, err := systemContents(entries["debian"])
	if err != nil {
		return plan{}, err
	}
	p := plan{ref: StandaloneRef, arch: arch, layers: []*layer{newLayer(system...)}, config: v1.Config{
		Entrypoint: []string{"/usr/local/bin/meshtrial"}, WorkingDir: standaloneResults,
		Env: []string{baseCacheVariable + "=/" + standaloneCache, cacheVariable + "=" + standaloneScratch + "/cache",
			"XDG_STATE_HOME=" + standaloneScratch + "/state"},
		Volumes: map[string]struct{}{standaloneResults: {}, standaloneScratch: {}},
	}}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		contents, err := entries[name].tree("")
		if err != nil {
			return plan{}, err
		}
		for i := range contents {
			contents[i].Name = path.Join(standaloneCache, "entries", filepath.Base(entries[name].dir), contents[i].Name)
		}
		p.layers = append(p.layers, newLayer(contents...))
	}
	p.layers = append(p.layers, newLayer(content{Name: "usr/local/bin/meshtrial", Mode: 0o755, From: program}))
	return p, nil
}

// systemContents returns the Debian files that a lab's host programs use, and the folders that a
// lab mounts over.
func systemContents(debian entry) ([]content, error) {
	if err := debian.checkTools(); err != nil {
		return nil, err
	}
	contents := baseContents(debian.authorities(), content{Name: "etc/os-release", Mode: 0o644, Data: debian.release()},
		content{Name: "var/run", Mode: fs.ModeSymlink | 0o777, Link: "/run"}) // where containerd makes network namespaces
	for _, dir := range []string{"var/lib", "var/log", "proc", "sys", "dev", strings.TrimPrefix(standaloneResults, "/"), strings.TrimPrefix(standaloneScratch, "/")} {
		contents = append(contents, content{Name: dir, Mode: fs.ModeDir | 0o755})
	}
	for _, tree := range []string{"image", "tools"} {
		files, err := debian.tree(tree)
		if err != nil {
			return nil, err
		}
		contents = append(contents, files...)
	}
	// runc starts itself again without the environment by which it finds its libraries.
	libraries, err := debian.tree("lib")
	if err != nil {
		return nil, err
	}
	inImage, err := namesBelow(debian.path("image"))
	if err != nil {
		return nil, err
	}
	for _, c := range libraries {
		if !inImage[c.Name] {
			c.Name = path.Join("usr/lib", c.Name)
			contents = append(contents, c)
		}
	}
	// Both trees have the same links in the root.
	slices.SortStableFunc(contents, func(a, b content) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(contents, func(a, b content) bool { return a.Name == b.Name }), nil
}

// release returns an os-release file for the release of the packages, from which their entry's key
// can be computed again.
func (e entry) release() string {
	var out strings.Builder
	for _, key := range releaseKeys {
		if value, ok := e.Inputs[key]; ok {
			fmt.Fprintf(&out, "%s=\"%s\"\n", key, value)
		}
	}
	return out.String()
}
