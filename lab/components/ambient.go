package components

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
)

// ztunnel is the proxy of an ambient mesh, from the user's folder.
type ztunnel struct {
	program
	version string // of Istio
}

// ref names the image assembled from it: another build is another image.
func (z ztunnel) ref() string {
	sum, _ := hex.DecodeString(strings.TrimPrefix(z.sum, "sha256:"))
	return fmt.Sprintf("%s/ztunnel:%s-%x", IstioHub, z.version, sum[:6])
}

const ztunnelHint = "--ztunnel DIR names a folder with the program ztunnel of Istio %s; MESHTRIAL_ZTUNNEL in the environment does the same; " +
	"docs/lab.md says what it holds, and meshtrial lab up --ambient --images official needs none (not tried yet)"

// ZtunnelImage checks the folder of a ztunnel, and names the image that a lab
// makes of it.
func ZtunnelImage(ctx context.Context, dir string) (ref string, err error) {
	z, err := ztunnelFolder(dir, func(path string) (string, error) { return ztunnelBuild(ctx, path) })
	if err != nil {
		return "", err
	}
	return z.ref(), nil
}

// ztunnelFolder reads a folder with the program ztunnel and, if that was not built
// under a release's name, a file VERSION. ask runs the program for its version.
func ztunnelFolder(dir string, ask func(path string) (string, error)) (ztunnel, error) {
	minor, _ := istioMinor(istioVersion)
	if dir == "" {
		return ztunnel{}, errs.WithHint(errs.Usage("ztunnel is not built here, and no folder with it is given"), ztunnelHint, minor)
	}
	if info, err := os.Stat(filepath.Clean(dir)); err == nil && !info.IsDir() {
		return ztunnel{}, errs.WithHint(errs.Usage("%s is not a folder", dir), "--ztunnel %s, the folder that it is in", filepath.Dir(filepath.Clean(dir)))
	}
	path := filepath.Join(dir, "ztunnel")
	switch info, err := os.Stat(path); {
	case err != nil:
		return ztunnel{}, errs.WithHint(errs.Usage("the folder %s has no program ztunnel", dir), ztunnelHint, minor)
	case !info.Mode().IsRegular():
		return ztunnel{}, errs.WithHint(errs.Usage("%s is not a file", path), ztunnelHint, minor)
	}
	path, err := trustedZtunnel(dir, path)
	if err != nil {
		return ztunnel{}, err
	}
	if err := checkProgram(path); err != nil {
		return ztunnel{}, err
	}
	_, sum, err := sumFile(path, false)
	if err != nil {
		return ztunnel{}, err
	}
	says, err := ask(path)
	if err != nil {
		return ztunnel{}, err
	}
	version, err := ztunnelVersion(dir, says)
	if err != nil {
		return ztunnel{}, err
	}
	if of, _ := istioMinor(version); of != minor {
		return ztunnel{}, errs.WithHint(errs.Usage("%s is of Istio %s, istiod is of %s", path, version, istioVersion), ztunnelHint, minor)
	}
	return ztunnel{program: program{path, "sha256:" + sum}, version: version}, nil
}

// trustedZtunnel refuses a program that others than the folder's owner, the user and root
// may write or replace, since it is run here. It resolves links.
func trustedZtunnel(dir, path string) (string, error) {
	owner, err := trusted.Owner(dir)
	if err == nil {
		_, err = trusted.Folder(dir, owner)
	}
	if err == nil {
		path, err = trusted.Folder(path, owner)
	}
	if err != nil {
		return "", fmt.Errorf("folder of ztunnel: %w", err)
	}
	return path, nil
}

// ztunnelVersion is a ztunnel's version of Istio: its own if it was built under a
// release's name, otherwise that of the file VERSION beside it.
func ztunnelVersion(dir, says string) (string, error) {
	lacks := "which names no version of Istio"
	if _, ok := istioMinor(says); ok {
		if versionText.MatchString(says) {
			return says, nil
		}
		lacks = "which cannot be an image's tag"
	}
	file := filepath.Join(dir, "VERSION")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", errs.WithHint(errs.Usage("ztunnel in %s says that its version is %q, %s", dir, says, lacks),
			"write the version that it was built for, such as %s, into %s", istioOfficial, file)
	}
	version := strings.TrimSpace(string(text))
	if _, ok := istioMinor(version); !ok || !versionText.MatchString(version) {
		return "", errs.WithHint(errs.Usage("%s holds no version of Istio", file), "such as %s", istioOfficial)
	}
	return version, nil
}

var reMinor = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)([.-].*)?$`)

// istioMinor is the part of a version in which istiod and ztunnel must agree.
func istioMinor(version string) (string, bool) {
	m := reMinor.FindStringSubmatch(version)
	if m == nil {
		return "", false
	}
	return m[1], true
}

var reBuild = regexp.MustCompile(`Version:"([^"]*)"`)

// ztunnelBuild asks a ztunnel for its version.
func ztunnelBuild(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := command(ctx, path, "version").Output()
	if err != nil {
		return "", errs.Usage("%s does not say its version: %v", path, withOutput(err, nil))
	}
	m := reBuild.FindSubmatch(out)
	if m == nil {
		return "", errs.Usage("%s is not ztunnel: asked for its version it says %.100q", path, out)
	}
	return string(m[1]), nil
}

// ambientPlans are the images of Istio's node agent and of ztunnel, laid out like
// Istio's own.
func ambientPlans(entries map[string]entry, z ztunnel) ([]plan, error) {
	debian, cni := entries["debian"], entries["istio-cni"]
	if err := checkRuns(z.path, debian); err != nil {
		return nil, err
	}
	tree, err := debian.tree("image")
	if err != nil {
		return nil, err
	}
	base, system := baseLayer(debian.authorities()), newLayer(tree...)
	agent := newLayer(cni.content("install-cni", "usr/local/bin/install-cni", 0o755), cni.content("istio-cni", "opt/cni/bin/istio-cni", 0o755))
	proxy := newLayer(content{Name: "usr/local/bin/ztunnel", Mode: 0o755, From: z.path, Sum: z.sum})
	return []plan{
		{ref: IstioHub + "/install-cni:" + IstioTag, layers: []*layer{base, system, agent},
			config: v1.Config{Entrypoint: []string{"/usr/local/bin/install-cni"}, WorkingDir: "/opt/cni/bin"}},
		{ref: z.ref(), name: "image_ztunnel", layers: []*layer{base, system, proxy},
			config: v1.Config{Entrypoint: []string{"/usr/local/bin/ztunnel"}, WorkingDir: "/", Env: []string{"ISTIO_META_ISTIO_VERSION=" + z.version}}},
	}, nil
}

// ambientImages plans the assembled images of an ambient mesh.
func (b *Builder) ambientImages(ctx context.Context, m *meter, o ImageOptions) ([]plan, error) {
	z, err := ztunnelFolder(o.Ztunnel, func(path string) (string, error) { return ztunnelBuild(ctx, path) })
	if err != nil {
		return nil, err
	}
	units, err := unitsOf([]string{"istio-cni", "ca-certificates"})
	if err != nil {
		return nil, err
	}
	entries, err := b.entries(ctx, units, m)
	if err != nil {
		return nil, err
	}
	return ambientPlans(entries, z)
}

// AmbientManifests configure the parts of an ambient mesh on nodes: Istio's node agent
// and ztunnel.
type AmbientManifests struct {
	Ztunnel string // its image; "" is that of Istio's hub and tag
	// CNIBinDir and CNIConfDir are the nodes' folders of network plugins and their
	// configuration.
	CNIBinDir, CNIConfDir string
}

// settings in addition to Istio's. The charts' own requests would take a good part of
// a lab's node.
func (a AmbientManifests) settings() []string {
	s := []string{"components.cni.enabled=true", "components.ztunnel.enabled=true", "values.cni.ambient.enabled=true",
		"values.cni.cniBinDir=" + a.CNIBinDir, "values.cni.cniConfDir=" + a.CNIConfDir,
		"values.cni.resources.requests.cpu=10m", "values.cni.resources.requests.memory=40Mi",
		"values.ztunnel.resources.requests.cpu=10m", "values.ztunnel.resources.requests.memory=40Mi",
	}
	if a.Ztunnel != "" {
		s = append(s, "values.ztunnel.image="+a.Ztunnel)
	}
	return s
}

// beyond returns the YAML documents whose objects are not among others.
func beyond(documents, others []byte) ([]byte, error) {
	have, err := objectNames(others)
	if err != nil {
		return nil, err
	}
	names, err := objectNames(documents)
	if err != nil {
		return nil, err
	}
	var out []string
	for i, document := range reDocument.Split(string(documents), -1) {
		if names[i] != "" && !slices.Contains(have, names[i]) {
			out = append(out, strings.TrimSpace(document)+"\n")
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the charts hold no node agent and no ztunnel")
	}
	return []byte(strings.Join(out, "---\n")), nil
}

// objectNames identifies the object of each YAML document; "" is an empty one.
func objectNames(documents []byte) ([]string, error) {
	var names []string
	for n, document := range reDocument.Split(string(documents), -1) {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		name := ""
		if o.Kind != "" {
			name = strings.Join([]string{o.APIVersion, o.Kind, o.Namespace, o.Name}, " ")
		}
		names = append(names, name)
	}
	return names, nil
}

// reDocument separates YAML documents.
var reDocument = regexp.MustCompile(`(?m)^---.*$`)
