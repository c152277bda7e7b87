package components

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// linkerdProgram is a program of Linkerd's images. The error for a missing one
// shows its purpose.
type linkerdProgram struct {
	name, in, purpose string // in: its place in the image
	controller        bool   // of the control plane's image, otherwise of the sidecar's
	optional          bool
}

// linkerdPrograms are the programs of Linkerd's two images, by their names in
// Linkerd's own image files.
var linkerdPrograms = []linkerdProgram{
	{name: "controller", in: "controller", purpose: "destination, identity and proxy injector of the control plane", controller: true},
	{name: "linkerd-policy-controller", in: "linkerd-policy-controller", purpose: "policies of the control plane", controller: true},
	{name: "linkerd2-proxy", in: "usr/lib/linkerd/linkerd2-proxy", purpose: "the proxy of a sidecar"},
	{name: "linkerd2-proxy-identity", in: "usr/lib/linkerd/linkerd2-proxy-identity", purpose: "makes a sidecar's key and starts its proxy"},
	{name: "linkerd2-proxy-init", in: "usr/lib/linkerd/linkerd2-proxy-init", purpose: "redirects a pod's traffic to its sidecar"},
	{name: "linkerd-await", in: "usr/lib/linkerd/linkerd-await", purpose: "holds an application back until its sidecar is ready", optional: true},
	{name: "linkerd2-network-validator", in: "usr/lib/linkerd/linkerd2-network-validator", purpose: "checks a pod's redirection", optional: true},
}

// program is a file that goes into an image.
type program struct{ path, sum string }

// Charts of a folder or a release.
const (
	linkerdCRDsChart    = "linkerd-crds"
	linkerdControlChart = "linkerd-control-plane"
)

// Users in Linkerd's images; its chart overrides them where needed.
const (
	userLinkerdController = "65534"
	userLinkerdProxy      = "2102"
)

var versionText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}$`)

// linkerdFolder reads a folder with Linkerd's programs, its charts, and maybe
// a file VERSION. One error names all that is missing.
func linkerdFolder(dir string) (*linkerdSource, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &linkerdSource{programs: map[string]program{}}
	var lacks []string
	all := sha256.New()
	for _, p := range linkerdPrograms {
		at := filepath.Join(dir, p.name)
		info, err := os.Stat(at)
		switch {
		case err != nil && p.optional:
			continue
		case err != nil:
			lacks = append(lacks, fmt.Sprintf("the program %s (%s)", p.name, p.purpose))
			continue
		case !info.Mode().IsRegular():
			return nil, errs.Usage("%s is no file", at)
		}
		if err := checkProgram(at); err != nil {
			return nil, err
		}
		_, sum, err := sumFile(at, false)
		if err != nil {
			return nil, err
		}
		s.programs[p.name] = program{at, "sha256:" + sum}
		fmt.Fprintf(all, "%s %s\n", p.name, sum)
	}
	for _, c := range []struct {
		name string
		path *string
	}{{linkerdCRDsChart, &s.crds}, {linkerdControlChart, &s.control}} {
		if *c.path = findChart(dir, c.name); *c.path == "" {
			lacks = append(lacks, fmt.Sprintf("the chart %s (charts/%s or charts/%s-VERSION.tgz)", c.name, c.name, c.name))
		}
	}
	if len(lacks) > 0 {
		return nil, errs.WithHint(errs.Usage("Linkerd's folder %s lacks:\n  %s", dir, strings.Join(lacks, "\n  ")),
			"put the programs of one version of Linkerd there, and beside them the folder charts of its source, or its published charts")
	}
	release := "built"
	if text, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil {
		if release = strings.TrimSpace(string(text)); !versionText.MatchString(release) {
			return nil, errs.Usage("%s holds an invalid version: use at most 81 letters, digits, dots, dashes and underscores", filepath.Join(dir, "VERSION"))
		}
	}
	s.tag = release + "-" + hex.EncodeToString(all.Sum(nil)[:6])
	for _, p := range linkerdPrograms {
		if made, ok := s.programs[p.name]; ok {
			s.versions = append(s.versions, Version{Name: p.name, Version: release, Source: "folder", Digest: made.sum, Binary: made.sum})
		}
	}
	return s, nil
}

// findChart finds a chart by name in dir/charts or dir: a folder, or a single archive.
func findChart(dir, name string) string {
	for _, in := range []string{filepath.Join(dir, "charts"), dir} {
		if exists(filepath.Join(in, name, "Chart.yaml")) {
			return filepath.Join(in, name)
		}
		if found, _ := filepath.Glob(filepath.Join(in, name+"-[0-9]*.tgz")); len(found) == 1 {
			return found[0]
		}
	}
	return ""
}

// machines are the supported processors, by their names in Go.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram refuses programs for other machines.
func checkProgram(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return errs.Usage("%s is no program for Linux: %v", path, err)
	}
	defer f.Close()
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return errs.Usage("%s is a program for %v, this machine is %v", path, f.Machine, want)
	}
	return nil
}

// checkRuns refuses a program that needs a library, or a newer C library, than its
// image holds.
func checkRuns(path string, debian entry) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) == 0 {
		return nil // static
	}
	have, err := namesBelow(debian.path("image"))
	if err != nil {
		return err
	}
	hint := "build it on Debian 12 or an older system, or link it statically"
	for _, library := range libraries {
		if !have[library] {
			return errs.WithHint(errs.Usage("%s needs the library %s, which its image does not hold", path, library), "%s", hint)
		}
	}
	var libc string
	for _, v := range debian.Versions {
		if v.Name == "libc6" {
			libc, _, _ = strings.Cut(v.Version, "-")
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil || libc == "" {
		return nil
	}
	for _, s := range symbols {
		if needs, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && newer(needs, libc) {
			return errs.WithHint(errs.Usage("%s needs version %s of the C library, its image holds %s", path, needs, libc), "%s", hint)
		}
	}
	return nil
}

// newer compares versions of numbers and dots; others are never newer.
func newer(a, b string) bool {
	v, err := version.ParseGeneric(a)
	w, err2 := version.ParseGeneric(b)
	return err == nil && err2 == nil && w.LessThan(v)
}

// linkerdPlans are the images of a folder's programs, laid out like Linkerd's own.
func linkerdPlans(debian entry, source *linkerdSource, l *Linkerd) ([]plan, error) {
	tree, err := debian.tree("image")
	if err != nil {
		return nil, err
	}
	base, system := baseLayer(debian.authorities()), newLayer(tree...)
	var controller, proxy []content
	for _, p := range linkerdPrograms {
		made, ok := source.programs[p.name]
		if !ok {
			continue
		}
		if err := checkRuns(made.path, debian); err != nil {
			return nil, err
		}
		to := &proxy
		if p.controller {
			to = &controller
		}
		for dir := path.Dir(p.in); dir != "." && dir != "usr/lib" && len(*to) == 0; dir = path.Dir(dir) {
			*to = append(*to, content{Name: dir, Mode: fs.ModeDir | 0o755})
		}
		*to = append(*to, content{Name: p.in, Mode: 0o755, From: made.path, Sum: made.sum})
	}
	override := "LINKERD_CONTAINER_VERSION_OVERRIDE=" + l.Version
	return []plan{
		{ref: l.Controller, name: "image_linkerd_controller", layers: []*layer{base, system, newLayer(controller...)},
			config: v1.Config{Entrypoint: []string{"/controller"}, User: userLinkerdController, Env: []string{override}}},
		{ref: l.Proxy, name: "image_linkerd_proxy", layers: []*layer{base, system, newLayer(proxy...)},
			config: v1.Config{Entrypoint: []string{"/usr/lib/linkerd/linkerd2-proxy-identity"}, User: userLinkerdProxy,
				Env: []string{override, "LINKERD2_PROXY_LOG=warn,linkerd=info", "LINKERD2_PROXY_LOG_FORMAT=plain"}}},
	}, nil
}
